//! Tenants over REST: each sees its own rows, hostile names are refused, and what is in use stays
//! open.

use std::path::PathBuf;
use std::sync::mpsc;

use marmota_http::Server;
use marmota_model::{ErrorKind, Field, Kind, Role, Schema};
use marmota_rest::Api;
use marmota_sqlite::{Durability, Location, Sqlite, SqliteOptions};
use marmota_store::{Store, Tenants};
use serde_json::json;

use crate::client::Client;

fn note() -> Schema {
    Schema::new(
        "note",
        vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("text", Kind::TEXT)],
    )
}

fn tenants(folder: &tempfile::TempDir) -> Tenants {
    let folder = folder.path().to_owned();
    let file = move |tenant: &str| -> PathBuf { folder.join(format!("{tenant}.db")) };
    let known = file.clone();
    let open = move |tenant: &str| {
        let options = SqliteOptions { durability: Durability::Relaxed, ..SqliteOptions::default() };
        let engine = Sqlite::open(Location::File(file(tenant)), options)?;
        Store::builder(engine).cache(1 << 20).schema(note()).open()
    };
    Tenants::new(open).known(move |tenant| known(tenant).exists()).open_max(2)
}

#[test]
fn each_tenant_has_rows_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let tenants = tenants(&folder);
    for name in ["ana", "bob", "cid"] {
        tenants.get(name).unwrap();
    }
    let server =
        Server::bind("127.0.0.1:0").unwrap().start(marmota_rest::tenants(&tenants)).unwrap();
    let client = &mut Client::new(server.local_addr());
    for round in 1..=3 {
        // More than may be open at once.
        for name in ["ana", "bob", "cid"] {
            let body = json!({ "text": format!("{name} {round}") }).to_string();
            let answer = client.json(&format!("POST /t/{name}/api/note"), &body).is(201);
            let location = answer.header("location").unwrap().to_owned();
            assert!(location.starts_with(&format!("/t/{name}/api/note/")), "{location}");
            assert_eq!(client.get(&location).is(200).value()["text"], format!("{name} {round}"));
            let page = client.get(&format!("/t/{name}/api/note?limit=1")).is(200);
            // Each opening counts its versions anew: the tag is another all the same.
            let tag = format!("If-None-Match: {}", page.header("etag").unwrap());
            let target = format!("GET /t/{name}/api/note?limit=1");
            client.send(&target, &[&tag], b"").is(304);
            let more = client.json(&format!("POST /t/{name}/api/note"), r#"{"text":"x"}"#).is(201);
            let more = more.header("location").unwrap().to_owned();
            for other in ["ana", "bob", "cid"].into_iter().filter(|other| *other != name) {
                client.get(&format!("/t/{other}/api/note?limit=1")).is(200);
            }
            let again = client.send(&target, &[&tag], b"").is(200);
            let last = again.value()["rows"].as_array().map(Vec::len);
            assert_eq!(last, Some(1));
            client.json(&format!("DELETE {more}"), "").is(204);
        }
    }
    assert!(tenants.statistics().evicted > 0 && tenants.statistics().open <= 2);
    let lines = client.send("GET /t/ana/api/note", &["Accept: application/x-ndjson"], b"").is(200);
    assert_eq!(lines.text().lines().count(), 3);
    let batch = r#"{"operations":[{"delete":"note","key":1}]}"#;
    client.json("POST /t/ana/api/batch", batch).is(200);
    let document = client.get("/t/ana/api").is(200);
    assert!(document.text().contains("note"));
}

#[test]
fn names_that_are_none_and_tenants_that_there_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let tenants = tenants(&folder);
    tenants.get("ana").unwrap();
    let server =
        Server::bind("127.0.0.1:0").unwrap().start(marmota_rest::tenants(&tenants)).unwrap();
    let client = &mut Client::new(server.local_addr());
    client.get("/t/dan/api/note").refuses(404).says("`dan`");
    client.json("POST /t/dan/api/note", r#"{"text":"x"}"#).refuses(404);
    let long = "a".repeat(65);
    for name in
        ["..%2fana", "%2e%2e%2fana", "..", "ana%00", "Ana", "a.b", "ana%2f", "%c3%a4", "-a", &long]
    {
        let answer = client.get(&format!("/t/{name}/api/note"));
        assert!([400, 404].contains(&answer.status), "{name}: {}", answer.text());
    }
    client.get("/t/Ana/api/note").refuses(400).says("lower-case letters");
    client.get("/t/ana/api/nothing").refuses(404).says("note");
    assert_eq!(
        std::fs::read_dir(folder.path())
            .unwrap()
            .filter(|entry| {
                !entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("ana.db")
            })
            .count(),
        0
    );
    // Who does not say which tenants there are has none made by strangers.
    let open = Tenants::new(|_| -> marmota_model::Result<Store> { unreachable!("never opened") });
    assert_eq!(open.get_known("ana").unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn what_is_in_use_is_never_closed() {
    let folder = tempfile::tempdir().unwrap();
    let tenants = tenants(&folder);
    for name in ["ana", "bob", "cid"] {
        tenants.get(name).unwrap();
    }
    let api = Api::of_tenants(&tenants).prefix("/{tenant}");
    let server = Server::bind("127.0.0.1:0").unwrap().start(api.router()).unwrap();
    let at = server.local_addr();
    // Uploads that have begun and wait for their clients hold the two that may be open.
    let (begun, on_begun) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut ends = Vec::new();
        for name in ["ana", "bob"] {
            let (end, on_end) = mpsc::channel::<()>();
            ends.push(end);
            let begun = begun.clone();
            scope.spawn(move || {
                use std::io::{Read, Write};
                let mut stream = std::net::TcpStream::connect(at).unwrap();
                let line = "{\"insert\":\"note\",\"row\":{\"text\":\"y\"}}\n";
                write!(
                    stream,
                    "POST /{name}/batch HTTP/1.0\r\nContent-Type: application/x-ndjson\r\n\
                     Content-Length: {}\r\n\r\n{line}",
                    2 * line.len()
                )
                .unwrap();
                // The first answer is there: the store is in use.
                let (mut answer, mut byte) = (Vec::new(), [0]);
                while !answer.ends_with(b"}\n") {
                    stream.read_exact(&mut byte).unwrap();
                    answer.push(byte[0]);
                }
                begun.send(()).unwrap();
                on_end.recv().unwrap();
                stream.write_all(line.as_bytes()).unwrap();
                let mut rest = String::new();
                stream.read_to_string(&mut rest).unwrap();
                assert!(rest.contains("201"), "{rest}");
            });
        }
        for _ in 0..2 {
            on_begun.recv().unwrap();
        }
        let client = &mut Client::new(at);
        let busy = client.get("/cid/note").refuses(503);
        assert_eq!(busy.header("retry-after"), Some("1"));
        client.get("/ana/note").is(200);
        for end in ends {
            end.send(()).unwrap();
        }
    });
    // Those that wait for nobody make room.
    let client = &mut Client::new(at);
    for _ in 0..100 {
        if client.get("/cid/note").status == 200 {
            assert_eq!(client.get("/bob/note?count=true").is(200).value()["count"], 2);
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("no room was made");
}
