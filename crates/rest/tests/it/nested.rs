//! A row with its related rows in one request.

use marmota_http::{RunningServer, Server};
use marmota_memory::Memory;
use marmota_model::{Field, KeyKind, Kind, Relation, Role, Schema};
use marmota_rest::Api;
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::engine::Engine;
use marmota_store::rights::{Grant, Right, Rights};
use marmota_store::{Idempotency, Store};
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::slow::slow;

fn table(name: &'static str, fields: Vec<Field>) -> Schema {
    let id = Field::new("id", Kind::I64).role(Role::Key);
    Schema::new(name, std::iter::once(id).chain(fields).collect()).audit(name == "issue")
}

/// A table with a text key.
fn named(name: &'static str, fields: Vec<Field>) -> Schema {
    let key = Field::new("name", Kind::TEXT).role(Role::Key);
    Schema::new(name, std::iter::once(key).chain(fields).collect())
}

fn to(name: &'static str, table: &'static str) -> Field {
    Field::new(name, Kind::Reference { table: table.into(), key: KeyKind::Auto })
}

fn open(engine: impl Engine + 'static) -> Store {
    let text = |name| Field::new(name, Kind::Text { chars_max: 9, collation: Default::default() });
    let labels = vec![Relation::new("labels", "issue_label.label")];
    let issue = vec![text("title"), to("project", "project").nullable(true)];
    Store::builder(engine)
        .idempotency(Idempotency::default())
        .schema(table("project", vec![text("name")]))
        .schema(table("issue", issue).relations(labels))
        .schema(table("label", vec![text("name").unique(true)]))
        .schema(table("issue_label", vec![to("issue", "issue"), to("label", "label")]))
        .schema(table("comment", vec![text("text"), to("issue", "issue")]))
        .schema(named("note", vec![text("text"), to("issue", "issue")]))
        .schema(table("reply", vec![text("text"), to("comment", "comment")]))
        .open()
        .unwrap()
}

fn serve(store: &Store) -> RunningServer {
    Server::bind("127.0.0.1:0").unwrap().listeners(1).start(Api::new(store).router()).unwrap()
}

fn on_every_engine(test: impl Fn(&Store, &mut Client)) {
    let sqlite = || Sqlite::open(Location::Memory, SqliteOptions::default()).unwrap();
    for store in [open(Memory::new()), open(slow(Memory::new())), open(sqlite())] {
        let server = serve(&store);
        test(&store, &mut Client::new(server.local_addr()));
    }
}

fn post(client: &mut Client, target: &str, body: &Value) -> Answer {
    client.json(&format!("POST {target}"), &body.to_string())
}

fn patch(client: &mut Client, target: &str, body: &Value) -> Answer {
    client.json(&format!("PATCH {target}"), &body.to_string())
}

fn rows(client: &mut Client, target: &str) -> Value {
    client.get(target).is(200).value()["rows"].clone()
}

/// An issue with a new project, two comments of which one has a reply, and a label.
fn whole() -> Value {
    json!({
        "title": "x",
        "project": { "name": "new" },
        "comment": [{ "text": "a", "reply": [{ "text": "r" }] }, { "text": "b" }],
        "issue_label": [{ "label": { "name": "bug" } }],
    })
}

#[test]
fn a_post_inserts_a_row_with_its_related_rows() {
    on_every_engine(|_, client| {
        let answer = post(client, "/api/issue", &whole());
        assert_eq!(answer.header("location"), Some("/api/issue/1"));
        assert_eq!(
            answer.is(201).value(),
            json!({
                "id": 1,
                "project": { "id": 1 },
                "comment": [{ "id": 1, "reply": [{ "id": 1 }] }, { "id": 2 }],
                "issue_label": [{ "id": 1, "label": { "id": 1 } }],
            })
        );
        let target =
            "/api/issue/1?fields=title&expand=project,labels(fields=name),comment(fields=text)";
        assert_eq!(
            client.get(target).is(200).value(),
            json!({ "title": "x", "expand": {
                "project": { "id": 1, "name": "new" },
                "labels": [{ "name": "bug" }],
                "comment": [{ "text": "a" }, { "text": "b" }],
            } })
        );
        assert_eq!(
            client.get("/api/issue/1/history").is(200).value()["rows"][0]["action"],
            "insert"
        );
    });
}

#[test]
fn a_failure_writes_nothing_and_names_the_place() {
    on_every_engine(|_, client| {
        let too_long =
            json!({ "title": "x", "comment": [{ "text": "a" }, { "text": "a long text" }] });
        let error = post(client, "/api/issue", &too_long).is(422).value();
        assert_eq!(error["errors"][0]["field"], "comment[1].text");
        let deep = json!({ "title": "x", "comment": [{ "text": "a", "reply": [{ "txt": "r" }] }] });
        let error = post(client, "/api/issue", &deep).is(422).value();
        assert_eq!(error["errors"][0]["field"], "comment[0].reply[0].txt");
        post(client, "/api/issue", &whole()).is(201);
        // The label exists: everything is undone.
        let error = post(client, "/api/issue", &whole()).is(409).value();
        assert_eq!(error["errors"][0]["field"], "issue_label[0].label.name");
        for table in ["issue", "project", "issue_label"] {
            assert_eq!(rows(client, &format!("/api/{table}")).as_array().unwrap().len(), 1);
        }
        for (body, status) in [
            (json!({ "title": "x", "comment": [{ "text": "a", "issue": 1 }] }), 400),
            (json!({ "title": "x", "comment": { "make": [] } }), 400),
            (json!({ "title": "x", "comment": { "create": 1 } }), 400),
            (json!({ "title": "x", "comment": { "delete": [1] } }), 400),
            (json!({ "title": "x", "comment": [1] }), 400),
            (json!({ "title": "x", "labels": [{ "name": "y" }] }), 422),
            (json!({ "title": "x", "nothing": [{ "name": "y" }] }), 422),
            (json!({ "title": "x", "project": { "$result": 0 } }), 422),
        ] {
            let answer = post(client, "/api/issue", &body);
            assert_eq!(answer.status, status, "{body}: {answer:?}");
        }
    });
}

#[test]
fn depth_and_rows_are_limited() {
    on_every_engine(|_, client| {
        let mut body = json!({ "title": "x" });
        for _ in 0..3 {
            let label = json!({ "name": "l", "issue_label": [{ "issue": body }] });
            body = json!({ "title": "x", "issue_label": [{ "label": label }] });
        }
        let answer = post(client, "/api/issue", &body).is(400).value();
        assert!(answer["detail"].as_str().unwrap().contains("at most 4 levels"), "{answer}");
        let comments: Vec<Value> = (0..1_000).map(|_| json!({ "text": "a" })).collect();
        post(client, "/api/issue", &json!({ "title": "x", "comment": comments })).is(413);
        assert_eq!(rows(client, "/api/issue"), json!([]));
    });
}

#[test]
fn a_patch_writes_related_rows() {
    on_every_engine(|_, client| {
        post(client, "/api/issue", &whole()).is(201);
        let body = json!({
            "title": "y",
            "project": { "id": 1, "name": "renamed" },
            "comment": [{ "id": 1, "text": "changed" }, { "text": "c" }],
        });
        let answer = patch(client, "/api/issue/1", &body).is(200).value();
        let expected =
            json!({ "id": 1, "project": { "id": 1 }, "comment": [{ "id": 1 }, { "id": 3 }] });
        assert_eq!(answer, expected);
        let texts = |client: &mut Client, issue: u8| {
            rows(client, &format!("/api/comment?fields=text&order=id&issue={issue}"))
        };
        assert_eq!(
            texts(client, 1),
            json!([{ "text": "changed" }, { "text": "b" }, { "text": "c" }])
        );
        assert_eq!(rows(client, "/api/project?fields=name"), json!([{ "name": "renamed" }]));
        // Rows of another issue are not deleted, but move if they are listed.
        post(client, "/api/issue", &json!({ "title": "z", "comment": [{ "text": "d" }] })).is(201);
        let forms = json!({ "comment": {
            "create": [{ "text": "e" }], "update": [{ "id": 3, "text": "cc" }], "delete": [2, 4],
        } });
        patch(client, "/api/issue/1", &forms).is(200);
        assert_eq!(
            texts(client, 1),
            json!([{ "text": "changed" }, { "text": "cc" }, { "text": "e" }])
        );
        assert_eq!(texts(client, 2), json!([{ "text": "d" }]));
        let set = json!({ "comment": { "set": [{ "id": 4 }, { "id": 3, "text": "kept" }, { "text": "n" }] } });
        // A reply refers to the first comment.
        patch(client, "/api/issue/1", &set).is(409);
        client.json("DELETE /api/reply/1", "").is(204);
        patch(client, "/api/issue/1", &set).is(200);
        assert_eq!(texts(client, 1), json!([{ "text": "kept" }, { "text": "d" }, { "text": "n" }]));
        assert_eq!(texts(client, 2), json!([]));
        patch(client, "/api/issue/9", &json!({ "comment": [{ "text": "a" }] })).is(404);
        let missing =
            patch(client, "/api/issue/1", &json!({ "comment": [{ "id": 99, "text": "a" }] }));
        assert!(missing.is(404).value()["detail"].as_str().unwrap().starts_with("comment[0]"));
        let keyless = json!({ "comment": { "update": [{ "text": "a" }] } });
        patch(client, "/api/issue/1", &keyless).is(400);
    });
}

/// The key of a text does not say whether the row exists: a set keeps and changes those that do.
#[test]
fn a_set_keeps_rows_with_text_keys() {
    on_every_engine(|_, client| {
        let notes = json!([{ "name": "a", "text": "1" }, { "name": "b", "text": "2" }]);
        post(client, "/api/issue", &json!({ "title": "x", "note": notes })).is(201);
        let set = json!([{ "name": "c", "text": "3" }, { "name": "b", "text": "4" }]);
        let answer = patch(client, "/api/issue/1", &json!({ "note": { "set": set } })).is(200);
        assert_eq!(answer.value()["note"], json!([{ "name": "c" }, { "name": "b" }]));
        let there = rows(client, "/api/note?fields=name,text");
        let expected = json!([{ "name": "b", "text": "4" }, { "name": "c", "text": "3" }]);
        assert_eq!(there, expected);
        let again = json!({ "note": [{ "name": "b", "text": "5" }] });
        patch(client, "/api/issue/1", &again).is(409);
    });
}

#[test]
fn a_repeat_with_an_idempotency_key_writes_nothing() {
    on_every_engine(|_, client| {
        let headers = ["Content-Type: application/json", "Idempotency-Key: \"k\""];
        let body = whole().to_string();
        let first = client.send("POST /api/issue", &headers, body.as_bytes()).is(201).value();
        let again = client.send("POST /api/issue", &headers, body.as_bytes());
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(again.is(201).value(), first);
        assert_eq!(rows(client, "/api/issue").as_array().unwrap().len(), 1);
    });
}

#[test]
fn each_row_needs_its_rights() {
    let store = open(Memory::new());
    let grants = [
        Grant::new("issue", &Right::ALL),
        Grant::new("comment", &[Right::Read, Right::Insert]).rule("text != 'secret'"),
        Grant::new("reply", &[Right::Read]),
    ];
    let rights = Rights::new(store.registry(), None, &grants).unwrap();
    let server = serve(&store.with_rights(rights));
    let client = &mut Client::new(server.local_addr());
    post(client, "/api/issue", &json!({ "title": "x", "comment": [{ "text": "a" }] })).is(201);
    let body = json!({ "title": "x", "comment": [{ "text": "secret" }] });
    let error = post(client, "/api/issue", &body).is(401).value();
    assert!(error["detail"].as_str().unwrap().starts_with("comment[0]: "), "{error}");
    post(client, "/api/issue", &json!({ "title": "x", "project": { "name": "p" } })).is(401);
    let reply = json!({ "title": "x", "comment": [{ "text": "a", "reply": [{ "text": "r" }] }] });
    post(client, "/api/issue", &reply).is(401);
    let deleted = json!({ "comment": { "delete": [1] } });
    patch(client, "/api/issue/1", &deleted).is(401);
    assert_eq!(rows(client, "/api/issue").as_array().unwrap().len(), 1);
}
