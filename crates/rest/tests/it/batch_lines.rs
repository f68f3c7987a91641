//! Batches in lines: an operation a line, an answer a line.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use marmota_http::Server;
use marmota_memory::Memory;
use marmota_model::{Field, Kind, Role, Schema};
use marmota_rest::Api;
use marmota_store::Store;
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::service::{Service, on_every_engine};

const NDJSON: &str = "Content-Type: application/x-ndjson";

/// On a connection of its own, which ends with an answer that began before the body's end.
fn post(service: SocketAddr, lines: &[Value]) -> Answer {
    Client::new(service).send("POST /api/batch", &[NDJSON], body(lines).as_bytes())
}

fn body(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn answers(answer: &Answer) -> Vec<Value> {
    answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn person(number: usize) -> Value {
    let email = format!("p{number}@example.org");
    json!({ "insert": "person", "row": {
        "first_name": "A", "last_name": "B", "year_of_birth": 1900, "email": email,
    }})
}

fn note(of: usize) -> Value {
    json!({ "insert": "note", "row": { "words": "n", "of": { "$result": of } } })
}

fn count(service: SocketAddr, table: &str) -> u64 {
    Client::new(service).get(&format!("/api/{table}?limit=1&count=true")).is(200).value()["count"]
        .as_u64()
        .unwrap()
}

#[test]
fn each_operation_is_answered_by_a_line() {
    on_every_engine(|service| {
        let at = service.address();
        let mut lines = vec![
            person(0),
            person(0),
            json!({ "insert": "city", "row": { "code": "a", "name": "A" }, "on_conflict": "update" }),
            json!({ "insert": "city", "row": { "code": "a", "name": "B" }, "on_conflict": "update" }),
            json!({ "increment": "person", "key": { "$result": 0 }, "field": "visits", "by": 2 }),
            json!({ "patch": "person", "key": 1, "row": { "last_name": "" } }),
            json!({ "delete": "city", "key": "b" }),
            json!(["person"]),
            json!({ "delete": "nothing", "key": 1 }),
            note(0),
            note(1),
            note(6),
            note(99),
        ];
        let answer = post(at, &lines).is(200);
        assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
        let found = answers(&answer);
        let statuses: Vec<u64> =
            found.iter().map(|answer| answer["status"].as_u64().unwrap()).collect();
        let expected = [201, 409, 201, 200, 200, 422, 404, 400, 404, 201, 400, 400, 400];
        assert_eq!(statuses, expected, "{}", answer.text());
        assert_eq!((&found[0]["key"], &found[4]["value"]), (&json!(1), &json!(2)));
        assert_eq!(found[3]["effect"], "updated");
        assert_eq!(found[5]["error"]["errors"][0]["field"], "last_name");
        // The same as a batch in one body, each for itself.
        lines.truncate(7);
        let without_words = |answers: &[Value]| -> Vec<Value> {
            let mut answers = answers.to_vec();
            for answer in &mut answers {
                // Engines have their own for a value that is taken.
                answer["error"] = answer["error"]["status"].clone();
            }
            answers
        };
        let other = Service::memory();
        let other = &mut other.client();
        let whole = json!({ "mode": "each", "operations": lines }).to_string();
        let whole = other.json("POST /api/batch", &whole).is(200).value();
        let whole = without_words(whole["results"].as_array().unwrap());
        assert_eq!(whole, without_words(&found[..7]));
        assert_eq!(post(at, &[]).is(200).text(), "");
        service
            .client()
            .send("POST /api/batch?mode=all", &[NDJSON], b"")
            .names(400, "mode", "unknown");
    });
}

#[test]
fn references_reach_into_earlier_chunks() {
    on_every_engine(|service| {
        let at = service.address();
        let mut lines: Vec<Value> = (0..900).map(person).collect();
        // Of the next chunk are those from 1,000 on.
        lines.extend((900..1_850).map(|number| note((number - 900).min(899))));
        lines.push(note(1));
        lines.push(json!({ "patch": "person", "key": { "$result": 899 }, "row": { "visits": 7 } }));
        lines.push(json!({ "delete": "city", "key": { "$result": 899 } }));
        lines.push(note(1_000));
        let answer = post(at, &lines).is(200);
        let found = answers(&answer);
        assert_eq!(found.len(), lines.len());
        assert!(found[..1_850].iter().all(|answer| answer["status"] == 201), "{}", answer.text());
        let text = found[1_850].to_string();
        assert!(found[1_850]["status"] == 400 && text.contains("too far back"), "{text}");
        assert_eq!(found[1_851]["status"], 200);
        let text = found[1_852].to_string();
        assert!(found[1_852]["status"] == 400 && text.contains("inserts into `person`"), "{text}");
        assert_eq!(found[1_853]["status"], 422, "{}", found[1_853]);
        let client = &mut service.client();
        let rows = client.get("/api/note?filter=of=800&limit=5").is(200).value();
        assert_eq!(rows["rows"].as_array().unwrap().len(), 1);
        assert_eq!(client.get("/api/person/900").is(200).value()["visits"], 7);
    });
}

#[test]
fn a_client_may_wait_for_each_answer() {
    on_every_engine(|service| {
        let mut stream = TcpStream::connect(service.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let head = "POST /api/batch HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n";
        stream.write_all(format!("{head}{NDJSON}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
        for number in 0..20 {
            let line = if number == 0 { person(0) } else { note(0) };
            let line = format!("{line}\n");
            let (half, rest) = line.split_at(9);
            for part in [half, rest] {
                stream.write_all(format!("{:x}\r\n{part}\r\n", part.len()).as_bytes()).unwrap();
            }
            let found = answer.find(|line| line.starts_with('{')).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&found).unwrap()["status"], 201, "{found}");
        }
        stream.write_all(b"0\r\n\r\n").unwrap();
        assert_eq!(answer.find(|line| line == "0").as_deref(), Some("0"));
        assert_eq!(count(service.address(), "note"), 19);
    });
}

#[test]
fn a_key_lets_each_chunk_take_place_once() {
    on_every_engine(|service| {
        let at = service.address();
        let send = |lines: &[Value], key: &str| {
            let key = format!("Idempotency-Key: {key}");
            Client::new(at).send("POST /api/batch", &[NDJSON, &key], body(lines).as_bytes())
        };
        let mut lines: Vec<Value> = (0..700).map(person).collect();
        lines.extend((0..700).map(note));
        // What is cut off goes on where it was, and refers to what was made before.
        let first = send(&lines[..1_000], "k").is(200);
        assert_eq!(first.header("idempotent-replayed"), None);
        assert_eq!((count(at, "person"), count(at, "note")), (700, 300));
        let all = send(&lines, "k").is(200);
        assert_eq!(all.header("idempotent-replayed"), Some("true"));
        let found = answers(&all);
        assert_eq!(found.len(), lines.len());
        assert!(found.iter().all(|answer| answer["status"] == 201), "{}", all.text());
        assert!(all.text().starts_with(&first.text()));
        for _ in 0..2 {
            assert_eq!(send(&lines, "k").is(200).text(), all.text());
        }
        assert_eq!((count(at, "person"), count(at, "note")), (700, 700));
        // Another body is another request, of which the chunks before are done.
        lines[1_200] = person(5_000);
        let answer = send(&lines, "k").is(200);
        let last = answers(&answer).pop().unwrap();
        assert_eq!(answers(&answer).len(), 1_001);
        assert_eq!((&last["status"], &last["error"]["line"]), (&json!(422), &json!(1_001)));
        lines[0] = person(6_000);
        let refused = send(&lines, "k").names(422, "idempotency_key", "same_request");
        assert_eq!(refused.value()["line"], 1);
        assert_eq!(count(at, "person"), 700);
    });
}

#[test]
fn what_ends_the_body_early_is_the_last_line() {
    let service = Service::memory();
    let at = service.address();
    let long = format!("{{\"insert\":\"{}\"}}", "x".repeat(1 << 20));
    service
        .client()
        .send("POST /api/batch", &[NDJSON], long.as_bytes())
        .refuses(413)
        .says("1048576 bytes");
    let lines = format!("{}{long}\n{}", body(&[person(0), person(1)]), person(2));
    let answer = Client::new(at).send("POST /api/batch", &[NDJSON], lines.as_bytes()).is(200);
    let found = answers(&answer);
    assert_eq!(found.len(), 3);
    assert_eq!((&found[2]["status"], &found[2]["error"]["line"]), (&json!(413), &json!(3)));
    assert_eq!(count(service.address(), "person"), 2);
}

#[test]
fn writes_to_two_databases_follow_each_other() {
    let table = |name: &'static str| {
        Schema::new(
            name,
            vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("n", Kind::I64)],
        )
    };
    let store = Store::builder(Memory::new())
        .schema(table("here"))
        .database("other", Memory::new(), |other| other.schema(table("there")))
        .open()
        .unwrap();
    let server = Server::bind("127.0.0.1:0").unwrap().start(Api::new(&store).router()).unwrap();
    let at = server.local_addr();
    let lines: Vec<Value> = (0..50)
        .map(|n| json!({ "insert": if n % 7 < 3 { "here" } else { "there" }, "row": { "n": n } }))
        .collect();
    let found = answers(&post(at, &lines).is(200));
    assert_eq!(found.len(), 50);
    assert!(found.iter().all(|answer| answer["status"] == 201), "{found:?}");
    assert_eq!(count(at, "here") + count(at, "there"), 50);
}
