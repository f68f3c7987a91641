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
            { "patch": "person", "key": 1, "row": { "last_name": "y" }, "version": 1 },
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
            { "patch": "person", "key": 1, "row": {}, "version": 9 },
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
        let array = r#"[{"delete":"person","key":7}]"#;
        client.json("POST /api/batch", array).refuses(400).says("not only in an array");
        let not_allowed = client.get("/api/batch").refuses(405);
        assert_eq!(not_allowed.header("allow"), Some("POST, OPTIONS"));
    });
}

#[test]
fn an_update_is_whole_and_a_patch_is_not() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let whole = json!({ "first_name": "b", "last_name": "y", "year_of_birth": 1901 });
        let operations = json!([
            insert("a"),
            { "patch": "person", "key": 1, "row": { "visits": 7 } },
            { "update": "person", "key": 1, "row": whole },
        ]);
        batch(client, "all", &operations).is(200);
        let row = client.get("/api/person/1?fields=first_name,visits,version").text();
        assert_eq!(row, r#"{"first_name":"b","visits":0,"version":3}"#);
        let operations = json!([{ "update": "person", "key": 1, "row": { "visits": 7 } }]);
        batch(client, "all", &operations).names(422, "first_name", "required");
    });
}

#[test]
fn operations_refer_to_earlier_ones() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let operations = json!([
            insert("a"),
            { "insert": "note", "row": { "words": "x", "of": { "$result": 0 } } },
            { "increment": "person", "key": { "$result": 0 }, "field": "visits", "by": 2 },
            { "patch": "note", "key": { "$result": 1 }, "row": { "words": "y" } },
            { "insert": "city", "row": { "code": "b", "name": "b" } },
            { "delete": "city", "key": { "$result": 4 } },
        ]);
        let results = batch(client, "all", &operations).is(200).value()["results"].clone();
        let note = format!("/api/note/{}", results[1]["key"].as_str().unwrap());
        let note = client.get(&note).is(200).value();
        assert_eq!((&note["of"], &note["words"]), (&json!(1), &json!("y")));
        assert_eq!(client.get("/api/person/1?fields=visits").text(), r#"{"visits":2}"#);
        for (operation, status, says) in [
            (
                json!({ "insert": "note", "row": { "words": "x", "of": { "$result": 1 } } }),
                400,
                "does not come before",
            ),
            (
                json!({ "insert": "note", "row": { "words": "x", "of": { "$result": 9 } } }),
                400,
                "does not come before",
            ),
            (
                json!({ "patch": "city", "key": { "$result": 0 }, "row": {} }),
                400,
                "inserts into `person`",
            ),
            (
                json!({ "insert": "note", "row": { "words": "x", "of": { "$result": -1 } } }),
                422,
                "`of`",
            ),
            (json!({ "insert": "note", "row": { "words": { "$result": 0 } } }), 422, "`words`"),
        ] {
            let operations = json!([insert("b"), operation]);
            let refused = batch(client, "all", &operations).refuses(status);
            let named = refused.text();
            assert!(status == 422 || named.contains(says), "{named}");
            assert_eq!(refused.value()["index"], 1);
        }
        let operations = json!([
            insert(""),
            insert("c"),
            { "insert": "note", "row": { "words": "x", "of": { "$result": 0 } } },
            { "insert": "note", "row": { "words": "z", "of": { "$result": 1 } } },
        ]);
        let results = batch(client, "each", &operations).is(200).value()["results"].clone();
        let statuses: Vec<_> =
            (0..4).map(|index| results[index]["status"].as_i64().unwrap()).collect();
        assert_eq!(statuses, [422, 201, 400, 201]);
    });
}

#[test]
fn rows_that_are_there() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let city = |name: &str, way: &str| json!({ "insert": "city", "row": { "code": "a", "name": name }, "on_conflict": way });
        let operations = json!([
            city("first", "ignore"),
            city("second", "ignore"),
            city("third", "update"),
            city("fourth", "replace"),
        ]);
        let results = batch(client, "all", &operations).is(200).value()["results"].clone();
        let expected = [(201, "inserted"), (200, "ignored"), (200, "updated"), (201, "replaced")];
        for (index, (status, effect)) in expected.into_iter().enumerate() {
            assert_eq!(results[index], json!({ "status": status, "key": "a", "effect": effect }));
        }
        assert_eq!(client.get("/api/city/a").value()["name"], "fourth");
        batch(client, "all", &json!([city("x", "refuse")])).refuses(409);
        batch(client, "all", &json!([city("x", "other")])).refuses(400).says("ignore");
        // At the collection itself.
        let post = |client: &mut Client, way: &str, body: &str| {
            client.json(&format!("POST /api/city?on_conflict={way}"), body)
        };
        let body = r#"{"code":"a","name":"fifth"}"#;
        let ignored = post(client, "ignore", body).is(200);
        assert_eq!(ignored.value()["name"], "fourth");
        assert_eq!(ignored.header("location"), Some("/api/city/a"));
        let people = r#"{"code":"a","name":"fifth","people":5}"#;
        assert_eq!(post(client, "update", people).is(200).value()["people"], 5);
        assert_eq!(post(client, "update", body).is(200).value()["people"], 5);
        assert_eq!(post(client, "replace", body).is(201).value()["people"], Value::Null);
        post(client, "refuse", body).refuses(409);
        post(client, "some", body).refuses(400).says("ignore");
        let many = r#"[{"code":"a","name":"x"},{"code":"b","name":"y"}]"#;
        let answer = post(client, "update", many).is(201).text();
        assert_eq!(answer, r#"{"keys":["a","b"],"effects":["updated","inserted"]}"#);
        let mixed = r#"[{"code":"a","name":"x"},{"code":"b","name":"y","people":1}]"#;
        let refused = post(client, "update", mixed).refuses(400).says("same fields");
        assert_eq!(refused.value()["index"], 1);
    });
}

#[test]
fn rules_are_checked_before_the_first_write() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let city = |name: Value| json!({ "insert": "city", "row": { "code": "a", "name": name } });
        batch(client, "all", &json!([city(json!("a"))])).is(200);
        // The first meets a conflict, the second breaks a rule.
        let both = json!([city(json!("a")), city(Value::Null)]);
        let refused = batch(client, "all", &both).is(422).value();
        assert_eq!(refused["index"], 1, "{refused}");
        let unknown = batch(client, "all", &json!([{ "isnert": "city", "row": {} }])).is(400);
        let text = unknown.text();
        assert!(text.contains("`isnert` is neither an operation (insert, update,"), "{text}");
    });
}
