//! Rows as lines, in and out.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::service::{Service, on_every_engine};

const NDJSON: &str = "Content-Type: application/x-ndjson";
const WANTED: &str = "Accept: application/x-ndjson";

fn post(client: &mut Client, table: &str, lines: &str) -> Answer {
    client.send(&format!("POST /api/{table}"), &[NDJSON], lines.as_bytes())
}

fn get(client: &mut Client, target: &str) -> Answer {
    client.send(&format!("GET {target}"), &[WANTED], b"")
}

fn rows(answer: &Answer) -> Vec<Value> {
    answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A person of this number, as a line.
fn person(number: usize) -> String {
    let row = json!({
        "first_name": format!("Ada {number}"), "last_name": format!("L{}", number % 7),
        "year_of_birth": 1800 + number % 200, "email": format!("p{number}@example.org"),
    });
    format!("{row}\n")
}

fn people(numbers: std::ops::Range<usize>) -> String {
    numbers.map(person).collect()
}

fn count(client: &mut Client, table: &str) -> u64 {
    client.get(&format!("/api/{table}?limit=1&count=true")).is(200).value()["count"]
        .as_u64()
        .unwrap()
}

#[test]
fn lines_go_in_and_come_out() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let answer = post(client, "person", &people(0..2_500)).is(201);
        assert_eq!(answer.text(), r#"{"inserted":2500}"#);
        let answer = get(client, "/api/person").is(200);
        assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
        assert_eq!(answer.header("vary"), Some("Accept, Prefer"));
        let all = rows(&answer);
        assert_eq!(all.len(), 2_500);
        assert!(all.iter().zip(1..).all(|(row, id)| row["id"] == id && row["version"] == 1));
        // The same rows as the pages have, in every order.
        for query in
            ["order=-last_name,year_of_birth&fields=id,last_name", "filter=id>2400", "last_name=L3"]
        {
            let lines = rows(&get(client, &format!("/api/person?{query}")).is(200));
            let mut paged = Vec::new();
            let mut next = Some(format!("/api/person?{query}&limit=50"));
            while let Some(url) = next {
                let page = client.get(&url).is(200).value();
                paged.extend(page["rows"].as_array().unwrap().clone());
                next = page["next"].as_str().map(str::to_owned);
            }
            assert!(!lines.is_empty() && lines == paged, "{query}");
        }
        assert_eq!(rows(&get(client, "/api/person?limit=1234&order=-id")).len(), 1_234);
        assert_eq!(get(client, "/api/person?filter=id<0").is(200).text(), "");
        let head = client.send("HEAD /api/person", &[WANTED], b"").is(200);
        assert_eq!(head.header("content-type"), Some("application/x-ndjson"));
        // A page is still a page.
        assert!(client.get("/api/person?limit=2").is(200).value()["next"].is_string());
    });
}

#[test]
fn what_is_exported_can_be_imported() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let notes: String = (0..20)
            .map(|n| format!("{}\n", json!({"words": format!("\"{n}\"\n\u{1F600}"), "price": "1.5", "tags": {"a": [n]}})))
            .collect();
        post(client, "note", &notes).is(201);
        post(
            client,
            "city",
            "{\"code\":\"b\",\"name\":\"B\"}\r\n\r\n  \n{\"code\":\"a\",\"name\":\"A\"}",
        )
        .is(201);
        for table in ["note", "city"] {
            let exported = get(client, &format!("/api/{table}")).is(200).text();
            let other = Service::memory();
            let other = &mut other.client();
            post(other, table, &exported).is(201);
            assert_eq!(get(other, &format!("/api/{table}")).is(200).text(), exported);
        }
    });
}

#[test]
fn the_first_line_at_fault_is_named_and_those_before_it_are_stored() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let mut stored = 0;
        let taken = person(0);
        post(client, "person", &taken).is(201);
        stored += 1;
        let cases: [(String, u16, &str); 6] = [
            (person(999_999).replace("Ada 999999", ""), 422, "not_empty"),
            (taken, 409, "unique"),
            ("{\"first_name\":\n".to_owned(), 400, "\"detail\""),
            ("[1]\n".to_owned(), 400, "\"detail\""),
            ("{\"first_name\":\"A\",\"last_name\":\"B\",\"nmae\":1}\n".to_owned(), 422, "nmae"),
            (format!("{{\"first_name\":\"{}\"}}\n", "x".repeat(1 << 20)), 413, "1048576 bytes"),
        ];
        for (number, (line, status, says)) in cases.into_iter().enumerate() {
            for before in [0, 1, 700, 1_300] {
                let first = 10_000 * (number + 1) + 2 * before;
                let good = people(first..first + before);
                let after = people(first + before..first + before + 300);
                // An empty line counts as one.
                let lines = format!("\n{good}{line}{after}");
                let answer =
                    post(&mut service.client(), "person", &lines).refuses(status).says(says);
                let problem = answer.value();
                assert_eq!(problem["line"], before + 2, "{problem}");
                assert_eq!(problem["inserted"], before, "{problem}");
                stored += before as u64;
                assert_eq!(count(client, "person"), stored);
            }
        }
    });
}

#[test]
fn rows_with_keys_and_without_may_be_mixed() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let mut lines = String::new();
        for number in 1..=30 {
            let key =
                if number % 3 == 0 { format!("\"id\":{},", number * 1_000) } else { String::new() };
            lines.push_str(&format!(
                "{{{key}\"first_name\":\"A\",\"last_name\":\"B\",\"year_of_birth\":1}}\n"
            ));
        }
        assert_eq!(post(client, "person", &lines).is(201).value()["inserted"], 30);
        let keys: BTreeSet<i64> = rows(&get(client, "/api/person?fields=id"))
            .iter()
            .map(|row| row["id"].as_i64().unwrap())
            .collect();
        assert_eq!(keys.len(), 30);
        assert!((1..=10).all(|number| keys.contains(&(number * 3_000))));
    });
}

#[test]
fn what_makes_no_sense_is_refused() {
    let service = Service::memory();
    let client = &mut service.client();
    get(client, "/api/person?count=true").names(400, "count", "unknown");
    get(client, "/api/person?limit=0").names(400, "limit", "range");
    get(client, "/api/person?filter=nothing=1").refuses(400);
    get(client, "/api/nothing").refuses(404);
    post(client, "nothing", "").refuses(404);
    let mut other = service.client();
    other.send("POST /api/person?mode=all", &[NDJSON], b"{}\n").names(400, "mode", "unknown");
    assert_eq!(post(client, "person", "").is(201).text(), r#"{"inserted":0}"#);
    // Who accepts both in this order gets a page.
    let both = ["Accept: application/json, application/x-ndjson"];
    assert!(client.send("GET /api/person", &both, b"").is(200).value()["rows"].is_array());
}

#[test]
fn rows_that_are_there_are_met_as_asked() {
    on_every_engine(|service| {
        let client = &mut service.client();
        post(client, "person", &people(0..1_500)).is(201);
        let again = |client: &mut Client, way: &str, lines: &str| {
            let request = format!("POST /api/person?on_conflict={way}");
            client.send(&request, &[NDJSON], lines.as_bytes())
        };
        let told = |answer: &Answer| {
            let value = answer.value();
            ["inserted", "replaced", "updated", "ignored"].map(|name| value[name].as_u64().unwrap())
        };
        assert_eq!(
            told(&again(client, "ignore", &people(1_000..2_600)).is(201)),
            [1_100, 0, 0, 500]
        );
        // Lines that name other fields than those before them follow on their own.
        let mut lines = people(2_500..2_700);
        for number in 0..20 {
            lines.push_str(&format!(
                "{{\"id\":{},\"visits\":{},\"first_name\":\"C\",\"last_name\":\"D\",\"year_of_birth\":1}}\n",
                number + 1,
                number % 3
            ));
        }
        lines.push_str(&person(3));
        assert_eq!(told(&again(client, "update", &lines).is(201)), [100, 0, 121, 0]);
        let row = client.get("/api/person/3").is(200).value();
        assert_eq!((&row["visits"], &row["email"]), (&json!(2), &json!("p2@example.org")));
        assert_eq!(told(&again(client, "replace", &people(2_650..2_750)).is(201)), [50, 50, 0, 0]);
        // What was done before a line at fault is told too.
        let lines = format!("{}{{\"nmae\":1}}\n", people(2_740..2_760));
        let problem = again(client, "ignore", &lines).refuses(422);
        assert_eq!(told(&problem), [10, 0, 0, 10]);
        assert_eq!(problem.value()["line"], 21);
        again(client, "skip", "").names(400, "on_conflict", "one_of");
    });
}

#[test]
fn a_key_lets_an_upload_go_on_where_it_was() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let send = |client: &mut Client, query: &str, key: &str, lines: &str| {
            let key = format!("Idempotency-Key: {key}");
            client.send(&format!("POST /api/person{query}"), &[NDJSON, &key], lines.as_bytes())
        };
        // With a key a chunk is stored whole or not at all.
        let broken = format!("{}{}", people(0..1_500), person(0));
        let problem = send(client, "", "k", &broken).refuses(409);
        assert_eq!(
            (&problem.value()["line"], &problem.value()["inserted"]),
            (&json!(1_501), &json!(1_000))
        );
        assert_eq!(count(client, "person"), 1_000);
        let other = format!("{}{{\n", people(0..1_200));
        assert_eq!(send(client, "", "k", &other).refuses(400).value()["line"], 1_201);
        // Mended, it goes on; sent again, nothing more happens.
        let answer = send(client, "", "k", &people(0..2_300)).is(201);
        assert_eq!(answer.text(), r#"{"inserted":2300}"#);
        assert_eq!(answer.header("idempotent-replayed"), None);
        let again = send(client, "", "\"k\"", &people(0..2_300)).is(201);
        assert_eq!(again.text(), answer.text());
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(count(client, "person"), 2_300);
        let problem = send(client, "", "k", &people(5_000..5_010));
        problem.names(422, "idempotency_key", "same_request").says("idempotency_key");
        send(client, "", &"k".repeat(256), "").names(422, "idempotency_key", "length");
        send(client, "?on_conflict=ignore", "l", &person(0)).refuses(400).says("on_conflict");
    });
}
