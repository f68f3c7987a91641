//! What a client accepts.

use crate::client::Client;
use crate::service::Service;

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
