//! What a request may make the service do: how many errors an answer names, and how long a body
//! without rows may be.

use serde_json::json;

use crate::service::Service;

/// 2 MB of members at fault had 330,000 errors.
#[test]
fn an_answer_names_a_hundred_errors_at_most() {
    let service = Service::memory();
    let mut client = service.client();
    let twice = format!("{{{}\"first_name\":\"a\"}}", "\"first_name\":1,".repeat(100_000));
    let unknown = format!("{{{}\"b\":1}}", "\"a\":1,".repeat(200_000));
    for body in [&twice, &unknown] {
        for (request, body) in [
            ("POST /api/person", body.clone()),
            ("POST /api/person", format!("[{body}]")),
            ("PATCH /api/person/1", body.clone()),
            (
                "POST /api/batch",
                format!("{{\"operations\":[{{\"insert\":\"person\",\"row\":{body}}}]}}"),
            ),
        ] {
            let answer = client.json(request, &body).refuses(422).says("100 or more fields");
            assert_eq!(answer.value()["errors"].as_array().unwrap().len(), 100);
            assert!(answer.body.len() < 64 * 1024, "{}", answer.body.len());
        }
    }
    // In a batch of operations that each stand for themselves, too.
    let row =
        json!({ "insert": "person", "row": { "a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1 } });
    let operation = row.to_string().replace("\"f\":1", &vec!["\"f\":1"; 200].join(","));
    let operations = vec![operation; 20].join(",");
    let batch = format!("{{\"mode\":\"each\",\"operations\":[{operations}]}}");
    let answer = client.json("POST /api/batch", &batch).is(200);
    let named = answer.text().matches("\"rule\"").count();
    assert!((119..=130).contains(&named), "{named}");
}

#[test]
fn a_body_of_empty_lines_ends() {
    let service = Service::memory();
    for target in ["POST /api/person", "POST /api/batch"] {
        let lines = "\n".repeat(3 << 20);
        let headers = ["Content-Type: application/x-ndjson"];
        let answer = service.client().send(target, &headers, lines.as_bytes()).refuses(413);
        answer.says("empty lines");
        // Fewer of them are a body like another.
        let lines = "\n".repeat(1000);
        let status = service.client().send(target, &headers, lines.as_bytes()).status;
        assert!(status < 300, "{status}");
    }
}

#[test]
fn a_table_without_history_says_so() {
    let service = Service::memory();
    let answer = service.client().get("/api/city/x/history").refuses(404);
    answer.says("has no history");
}

#[test]
fn a_damaged_cursor_is_refused() {
    let service = Service::memory();
    let mut client = service.client();
    let rows: Vec<_> =
        (0..5).map(|code| json!({ "code": format!("c{code}"), "name": "x" })).collect();
    client.json("POST /api/city", &json!(rows).to_string()).is(201);
    let page = client.get("/api/city?limit=2").is(200).value();
    let next = page["next"].as_str().unwrap().to_owned();
    client.get(&next).is(200);
    let (url, cursor) = next.rsplit_once("after=").unwrap();
    for at in 0..cursor.len() {
        let mut damaged = cursor.as_bytes().to_vec();
        damaged[at] = if damaged[at] == b'A' { b'B' } else { b'A' };
        let damaged = String::from_utf8(damaged).unwrap();
        client.get(&format!("{url}after={damaged}")).names(400, "after", "cursor");
    }
}
