//! Durability for a request, and what is answered when too much is waiting.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use marmota_http::Server;
use marmota_model::{Field, Kind, Role, Schema};
use marmota_rest::Api;
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::Store;

use crate::client::Client;
use crate::service::on_every_engine;

#[test]
fn a_request_says_how_durable_it_is() {
    on_every_engine(|service| {
        let client = &mut service.client();
        for (key, word) in ["full", "relaxed", "none"].into_iter().enumerate() {
            let prefer = format!("Prefer: return=minimal, durability={word}");
            let body = format!(r#"{{"code":"{key}","name":"x"}}"#);
            let headers = ["Content-Type: application/json", &prefer];
            client.send("POST /api/city", &headers, body.as_bytes()).is(201);
        }
        let body = br#"{"code":"x","name":"x"}"#;
        let headers = ["Content-Type: application/json", "Prefer: durability=some"];
        client.send("POST /api/city", &headers, body).refuses(400).says("relaxed");
        assert_eq!(client.get("/api/city?count=1").value()["count"], 3);
    });
}

#[test]
fn a_full_queue_is_answered_503() {
    const WAITING_MAX: usize = 3;
    const CLIENTS: usize = 10;
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { writes_waiting_max: WAITING_MAX, ..SqliteOptions::default() };
    let engine = Sqlite::open(Location::File(folder.path().join("full.db")), options).unwrap();
    let word = Schema::new(
        "word",
        vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("text", Kind::TEXT)],
    );
    let store = Store::builder(engine).schema(word).open().unwrap();
    let server =
        Server::bind("127.0.0.1:0").unwrap().listeners(2).start(Api::new(&store).router()).unwrap();
    // The writer is taken as long as this transaction is open: writes queue up.
    let transaction = store.begin_run().unwrap();
    let ready = Barrier::new(CLIENTS);
    let statuses: Vec<u16> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (ready, address) = (&ready, server.local_addr());
                scope.spawn(move || {
                    let mut client = Client::new(address);
                    ready.wait();
                    let body = format!(r#"{{"text":"{number}"}}"#);
                    let answer = client.json("POST /api/word", &body);
                    if answer.status == 503 {
                        assert_eq!(answer.header("retry-after"), Some("1"));
                        let problem = answer.refuses(503).value();
                        assert_eq!(problem["type"], "urn:marmota:error:busy");
                        return 503;
                    }
                    answer.is(201).status
                })
            })
            .collect();
        // The refused are answered while the others still wait.
        while clients.iter().filter(|client| client.is_finished()).count() < CLIENTS - WAITING_MAX {
            thread::sleep(Duration::from_millis(2));
        }
        transaction.rollback().run().unwrap();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    drop(transaction);
    let taken = statuses.iter().filter(|&&status| status == 201).count();
    assert_eq!(taken, WAITING_MAX, "{statuses:?}");
    let client = &mut Client::new(server.local_addr());
    assert_eq!(client.get("/api/word?count=true").value()["count"], WAITING_MAX);
    // And goes on as before.
    client.json("POST /api/word", r#"{"text":"again"}"#).is(201);
}
