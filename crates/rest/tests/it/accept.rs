//! What a client accepts.

use serde_json::json;

use crate::client::Client;
use crate::service::{Service, on_every_engine};

fn get(client: &mut Client, target: &str, accept: &str) -> crate::client::Answer {
    client.send(&format!("GET {target}"), &[&format!("Accept: {accept}")], b"")
}

#[test]
fn what_accepts_nothing_offered_is_refused() {
    let service = Service::memory();
    let mut client = service.client();
    client.json("POST /api/city", r#"{"name":"Bourges"}"#);
    for (target, accept, status) in [
        ("/api/person", "application/xml", 406),
        ("/api/person", "text/html;q=0.9, image/*", 406),
        ("/api/person", "application/json;q=0", 406),
        ("/api/person", "*/*;q=0", 406),
        ("/api", "application/x-ndjson", 406),
        ("/api/openapi.json", "application/xml", 406),
        ("/api/person", "application/xml, */*;q=0.1", 200),
        ("/api/person", "application/*", 200),
        ("/api/person", "*/*", 200),
        ("/api/person", "", 200),
        ("/api/person", "application/json;charset=utf-8", 200),
    ] {
        let answer = get(&mut client, target, accept);
        match status {
            406 => drop(answer.refuses(406).says("application/json")),
            status => drop(answer.is(status)),
        }
    }
    for (accept, media_type) in [
        ("application/x-ndjson", "application/x-ndjson"),
        ("application/json;q=0.1, application/x-ndjson", "application/x-ndjson"),
        ("application/x-ndjson, */*", "application/x-ndjson"),
        ("application/x-ndjson;q=0.5, application/json", "application/json"),
        ("application/json, application/x-ndjson", "application/json"),
    ] {
        let answer = get(&mut client, "/api/person", accept).is(200);
        assert_eq!(answer.header("content-type"), Some(media_type), "{accept}");
    }
    // A write is refused before it takes place.
    let accept = ["Accept: text/csv", "Content-Type: application/json"];
    let body = br#"{"first_name":"Ada","last_name":"Byron","year_of_birth":1815}"#;
    client.send("POST /api/person", &accept, body).refuses(406);
    assert_eq!(client.get("/api/person").is(200).value()["rows"], serde_json::json!([]));
}

/// Answers of which one URL has several forms name the headers that select them, also from a cache
/// and without a body (RFC 9110, 12.5.5).
#[test]
fn the_headers_that_select_an_answer_are_named() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let row = json!({ "first_name": "Ada", "last_name": "L", "year_of_birth": 1815 });
        client.json("POST /api/person", &row.to_string()).is(201);
        for accept in
            ["*/*", "application/json", "application/json; profile=columns", "application/x-ndjson"]
        {
            let headers = [format!("Accept: {accept}"), "Prefer: count=exact".to_owned()];
            for headers in [&headers[..1], &headers] {
                let headers: Vec<&str> = headers.iter().map(|header| &**header).collect();
                let answer = client.send("GET /api/person", &headers, b"").is(200);
                assert_eq!(answer.header("vary"), Some("Accept, Prefer"), "{headers:?}");
            }
        }
        for target in ["/api/person", "/api/person?group=last_name&select=count"] {
            let answer = client.get(target).is(200);
            assert_eq!(answer.header("vary"), Some("Accept, Prefer"), "{target}");
            let Some(etag) = answer.header("etag") else { continue };
            let known = format!("If-None-Match: {etag}");
            let answer = client.send(&format!("GET {target}"), &[&known], b"").is(304);
            assert_eq!(answer.header("vary"), Some("Accept, Prefer"), "{target}");
        }
        let head = client.send("HEAD /api/person", &[], b"").is(200);
        assert_eq!(head.header("vary"), Some("Accept, Prefer"));
        // A row has one form.
        assert_eq!(client.get("/api/person/1").is(200).header("vary"), None);
    });
}
