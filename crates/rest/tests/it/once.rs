//! `Idempotency-Key`: repeats are answered as the first time, also after a
//! crash of the service.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use marmota_http::Server;
use marmota_model::{Field, Kind, Role, Schema};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::{Idempotency, Store};
use serde_json::json;

use crate::client::{Answer, Client};
use crate::service::on_every_engine;

fn post(client: &mut Client, path: &str, key: &str, body: &str) -> Answer {
    let key = format!("Idempotency-Key: {key}");
    let headers = ["Content-Type: application/json", &key];
    client.send(&format!("POST {path}"), &headers, body.as_bytes())
}

fn count(client: &mut Client, table: &str) -> i64 {
    client.get(&format!("/api/{table}?count=true")).value()["count"].as_i64().unwrap()
}

#[test]
fn a_repeat_is_answered_as_the_first_time() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let person = r#"{"first_name":"a","last_name":"x","year_of_birth":1900}"#;
        let note = r#"{"words":"x"}"#;
        let many = r#"[{"words":"y"},{"words":"z"}]"#;
        let operations = json!({ "mode": "each", "operations": [
            { "insert": "note", "row": { "words": "b" } },
            { "delete": "note", "key": "nope" },
            { "increment": "person", "key": 1, "field": "visits", "by": 2 },
        ]});
        for (path, body, status) in [
            ("/api/person", person, 201),
            ("/api/note", note, 201),
            ("/api/note", many, 201),
            ("/api/batch", &*operations.to_string(), 200),
        ] {
            let key = format!("{path} {}", body.len());
            let first = post(client, path, &key, body).is(status);
            assert_eq!(first.header("idempotent-replayed"), None);
            for key in [key.clone(), format!("\"{key}\"")] {
                let again = post(client, path, &key, body).is(status);
                assert_eq!(again.header("idempotent-replayed"), Some("true"));
                assert_eq!(again.text(), first.text());
                for header in ["location", "etag", "content-type"] {
                    assert_eq!(again.header(header), first.header(header), "{header}");
                }
            }
        }
        assert_eq!((count(client, "person"), count(client, "note")), (1, 4));
        let row = client.get("/api/person/1").is(200);
        assert_eq!(row.value()["visits"], 2);
        // A row is answered as it is without a key.
        let keyed = post(client, "/api/city", "c", r#"{"code":"a","name":"x"}"#).is(201);
        client.json("DELETE /api/city/a", "").is(204);
        let plain = client.json("POST /api/city", r#"{"code":"a","name":"x"}"#).is(201);
        assert_eq!(keyed.text(), plain.text());
        for header in ["location", "etag", "content-type"] {
            assert_eq!(keyed.header(header), plain.header(header), "{header}");
        }
    });
}

#[test]
fn a_key_is_of_one_request() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let city = |code: &str| format!(r#"{{"code":"{code}","name":"x"}}"#);
        post(client, "/api/city", "k", &city("a")).is(201);
        post(client, "/api/city", "k", &city("b")).names(422, "idempotency_key", "same_request");
        post(client, "/api/note", "k", &city("a")).is(422);
        post(client, "/api/city", &"k".repeat(256), &city("b")).names(
            422,
            "idempotency_key",
            "length",
        );
        post(client, "/api/city", "", &city("b")).names(422, "idempotency_key", "length");
        post(client, "/api/city?on_conflict=update", "l", &city("b"))
            .refuses(400)
            .says("on_conflict");
        // What was refused has not taken place, and is asked again each time.
        post(client, "/api/city", "m", &city("a")).refuses(409);
        client.json("DELETE /api/city/a", "").is(204);
        post(client, "/api/city", "m", &city("a")).is(201);
        post(client, "/api/city", "n", r#"[{"code":"c","name":"x"},{"code":"a","name":"x"}]"#)
            .refuses(409);
        post(client, "/api/city", "o", r#"[{"code":"c","name":"x"},{"code":1}]"#).is(422);
        assert_eq!(count(client, "city"), 1);
        client.get("/api/marmota_answer").refuses(404);
    });
}

#[test]
fn several_at_once_write_once() {
    on_every_engine(|service| {
        let body = r#"{"words":"x"}"#;
        let mut answers: Vec<String> = std::thread::scope(|scope| {
            let ask = || post(&mut service.client(), "/api/note", "k", body).is(201).text();
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        answers.dedup();
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!(count(&mut service.client(), "note"), 1);
    });
}

fn entry() -> Schema {
    let fields = vec![
        Field::new("id", Kind::Uuid).role(Role::Key),
        Field::new("text", Kind::TEXT),
        Field::new("made_at", Kind::Timestamp).role(Role::CreatedAt),
    ];
    Schema::new("entry", fields)
}

#[test]
#[ignore = "a process that `a_kill_between_commit_and_answer_writes_once` starts"]
fn serves_until_killed() {
    let path = std::env::var_os("MARMOTA_SERVE").expect("the database's file");
    let engine = Sqlite::open(Location::File(path.into()), SqliteOptions::default()).unwrap();
    let store =
        Store::builder(engine).idempotency(Idempotency::default()).schema(entry()).open().unwrap();
    let server = Server::bind("127.0.0.1:0").unwrap().start(marmota_rest::api(&store)).unwrap();
    let mut out = std::io::stdout();
    writeln!(out, "\nserves {}", server.local_addr()).unwrap();
    out.flush().unwrap();
    std::thread::sleep(Duration::from_secs(120));
}

fn serve(path: &Path) -> (Child, SocketAddr) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "once::serves_until_killed", "--ignored", "--nocapture"])
        .env("MARMOTA_SERVE", path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("serves ").map(|address| address.parse().unwrap()))
        .expect("the service's address");
    (child, address)
}

#[test]
fn a_kill_between_commit_and_answer_writes_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("once.db");
    let body = r#"{"text":"x"}"#;
    for round in 1..=3 {
        let key = format!("round {round}");
        let (mut child, address) = serve(&path);
        // Sent, and the answer is never read.
        let mut lost = std::net::TcpStream::connect(address).unwrap();
        let request = format!(
            "POST /api/entry HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Idempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        lost.write_all(request.as_bytes()).unwrap();
        let client = &mut Client::new(address);
        while count(client, "entry") < round {
            std::thread::sleep(Duration::from_millis(1));
        }
        // SIGKILL on Unix.
        child.kill().unwrap();
        child.wait().unwrap();
        let (mut child, address) = serve(&path);
        let client = &mut Client::new(address);
        let first = post(client, "/api/entry", &key, body).is(201);
        assert_eq!(first.header("idempotent-replayed"), Some("true"));
        let row = client.get(first.header("location").unwrap()).is(200);
        assert_eq!(row.text(), first.text());
        assert_eq!(post(client, "/api/entry", &key, body).is(201).text(), first.text());
        post(client, "/api/entry", &key, r#"{"text":"y"}"#).is(422);
        assert_eq!(count(client, "entry"), round);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
