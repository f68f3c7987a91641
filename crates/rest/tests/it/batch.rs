//! Batches: all or nothing, or each for itself.

use serde_json::{Value, json};

use crate::client::Client;
use crate::service::on_every_engine;

fn batch(client: &mut Client, mode: &str, operations: &Value) -> crate::client::Answer {
    let body = json!({ "mode": mode, "operations": operations }).to_string();
    client.json("POST /api/batch", &body)
}

fn insert(first_name: &str) -> Value {
    json!({
        "insert": "person",
        "row": { "first_name": first_name, "last_name": "x", "year_of_birth": 1900 }
    })
}

#[test]
fn writes_over_several_tables_are_one() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let operations = json!([
            insert("a"),
            { "insert": "city", "row": { "code": "b", "name": "b" } },
            { "update": "person", "key": 1, "row": { "last_name": "y" }, "version": 1 },
            { "increment": "person", "key": 1, "field": "visits", "by": 4 },
            { "insert": "note", "row": { "words": "c", "of": 1 } },
            insert("d"),
            { "delete": "person", "key": 2 },
        ]);
        let results = batch(client, "all", &operations).is(200).value()["results"].clone();
        assert_eq!(results[0], json!({ "status": 201, "key": 1, "version": 1 }));
        assert_eq!(results[1], json!({ "status": 201, "key": "b" }));
        assert_eq!(results[2], json!({ "status": 200, "version": 2 }));
        assert_eq!(results[3], json!({ "status": 200, "value": 4, "version": 3 }));
        assert_eq!(results[4]["status"], 201);
        assert_eq!(results[5], json!({ "status": 201, "key": 2, "version": 1 }));
        assert_eq!(results[6], json!({ "status": 204 }));
        let note = format!("/api/note/{}", results[4]["key"].as_str().unwrap());
        assert_eq!(client.get(&note).is(200).value()["of"], 1);
        let row = client.get("/api/person/1?fields=last_name,visits,version").text();
        assert_eq!(row, r#"{"last_name":"y","visits":4,"version":3}"#);
        assert_eq!(batch(client, "all", &json!([])).is(200).text(), r#"{"results":[]}"#);
    });
}

#[test]
fn one_failure_undoes_all() {
    on_every_engine(|service| {
        let client = &mut service.client();
        client.json("POST /api/city", r#"{"code":"a","name":"a"}"#).is(201);
        for (operation, status) in [
            (json!({ "delete": "city", "key": "nope" }), 404),
            (json!({ "insert": "city", "row": { "code": "a", "name": "x" } }), 409),
            (json!({ "insert": "city", "row": { "code": "x", "nam": "x" } }), 422),
            (json!({ "insert": "town", "row": {} }), 404),
            (json!({ "delete": "person", "key": "x" }), 422),
            (json!({ "delete": "person", "key": null }), 400),
            (json!({ "delete": "person" }), 400),
            (json!({ "remove": "person", "key": 1 }), 400),
            (json!({ "insert": "person", "delete": "person" }), 400),
            (json!({ "delete": "person", "key": 1, "row": {} }), 400),
            (json!({ "update": "person", "key": 1, "row": { "id": 2 } }), 400),
            (json!({ "increment": "person", "key": 1, "field": "nope", "by": 1 }), 422),
            (json!(7), 400),
        ] {
            let operations = json!([insert("a"), operation, insert("b")]);
            let refused = batch(client, "all", &operations).refuses(status);
            assert_eq!(refused.value()["index"], 1, "{}", refused.text());
            let count = client.get("/api/person?count=1").value()["count"].clone();
            assert_eq!(count, 0, "{operation}");
        }
    });
}

#[test]
fn each_stands_for_itself() {
    on_every_engine(|service| {
        let client = &mut service.client();
        client.json("POST /api/city", r#"{"code":"a","name":"a"}"#).is(201);
        let operations = json!([
            insert("a"),
            { "delete": "city", "key": "nope" },
            { "insert": "city", "row": { "code": 7, "name": "x" } },
            { "insert": "city", "row": { "code": "a", "name": "x" } },
            { "update": "person", "key": 1, "row": {}, "version": 9 },
            insert("b"),
        ]);
        let results = batch(client, "each", &operations).is(200).value()["results"].clone();
        let statuses: Vec<i64> = results
            .as_array()
            .unwrap()
            .iter()
            .map(|result| result["status"].as_i64().unwrap())
            .collect();
        assert_eq!(statuses, [201, 404, 422, 409, 412, 201]);
        assert_eq!(results[2]["error"]["errors"][0]["field"], "code");
        assert_eq!(results[1]["error"]["type"], "urn:marmota:error:not-found");
        assert_eq!(client.get("/api/person?count=1").value()["count"], 2);
    });
}

#[test]
fn what_is_no_batch_is_refused() {
    on_every_engine(|service| {
        let client = &mut service.client();
        for body in ["", "[]", "{}", "7", r#"{"operations":{}}"#, r#"{"operations":[],"x":1}"#] {
            client.json("POST /api/batch", body).refuses(400);
        }
        client
            .json("POST /api/batch", r#"{"operations":[],"mode":"some"}"#)
            .refuses(400)
            .says("all");
        let many: Vec<Value> = (0..21).map(|_| insert("a")).collect();
        batch(client, "all", &json!(many)).refuses(413).says("at most 20");
        let not_allowed = client.get("/api/batch").refuses(405);
        assert_eq!(not_allowed.header("allow"), Some("POST, OPTIONS"));
    });
}
