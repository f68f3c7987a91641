//! References to rows of several tables over REST: writes, lists, related rows, batches, nested rows
//! and the documents.

use marmota_http::Server;
use marmota_memory::Memory;
use marmota_model::{Field, KeyKind, Kind, OnDelete, Role, Schema};
use marmota_rest::Api;
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::{Store, StoreBuilder};
use serde_json::{Value, json};

use crate::client::Client;

fn schemas() -> [Schema; 3] {
    let id = || Field::new("id", Kind::I64).role(Role::Key);
    let title = || Field::new("title", Kind::TEXT);
    let to = |table: &'static str, key| {
        let kind = Kind::Reference { table: table.into(), key };
        Field::new(table, kind).nullable(true).computed("key_in(subject)")
    };
    let remark = vec![
        id(),
        Field::new("subject", Kind::TEXT).nullable(true),
        to("issue", KeyKind::Auto).on_delete(OnDelete::SetNull),
        to("page", KeyKind::Text),
        Field::new("stars", Kind::I64).nullable(true),
    ];
    [
        Schema::new("issue", vec![id(), title()]),
        Schema::new("page", vec![Field::new("name", Kind::TEXT).role(Role::Key), title()]),
        Schema::new("remark", remark),
    ]
}

fn on_every_engine(test: impl Fn(&mut Client)) {
    let sqlite = Sqlite::open(Location::Memory, SqliteOptions::default()).unwrap();
    for builder in [Store::builder(Memory::new()), Store::builder(sqlite)] {
        let store = schemas().into_iter().fold(builder, StoreBuilder::schema).open().unwrap();
        let router = Api::new(&store).router();
        let server = Server::bind("127.0.0.1:0").unwrap().start(router).unwrap();
        let client = &mut Client::new(server.local_addr());
        client.json("POST /api/issue", r#"{"title":"crash"}"#).is(201);
        client.json("POST /api/page", r#"{"name":"a/b, 100%","title":"start"}"#).is(201);
        test(client);
    }
}

fn remark(client: &mut Client, id: i64) -> Value {
    client.get(&format!("/api/remark/{id}")).is(200).value()
}

#[test]
fn a_text_leads_to_the_row_that_it_names() {
    on_every_engine(|client| {
        let made = client.json("POST /api/remark", r#"{"subject":"issue/1"}"#).is(201).value();
        let row = json!({ "id": 1, "subject": "issue/1", "issue": 1, "page": null, "stars": null });
        assert_eq!(made, row);
        client.json("POST /api/remark", r#"{"subject":"page/a/b, 100%","stars":2}"#).is(201);
        client.json("POST /api/remark", r#"{}"#).is(201);
        for (body, field, rule) in [
            (r#"{"subject":"issue/9"}"#, "issue", "reference"),
            (r#"{"subject":"person/1"}"#, "subject", "reference"),
            (r#"{"subject":"issue/x"}"#, "subject", "reference"),
            (r#"{"subject":7}"#, "subject", "type"),
            (r#"{"subject":"issue/1","issue":2}"#, "issue", "computed"),
        ] {
            let problem = client.json("POST /api/remark", body).is(422).value();
            let error = &problem["errors"][0];
            assert_eq!((&error["field"], &error["rule"]), (&json!(field), &json!(rule)), "{body}");
        }
        let long = json!({ "subject": format!("issue/{}", "1".repeat(100_000)) });
        client.json("POST /api/remark", &long.to_string()).is(422);

        let list = client
            .get("/api/remark?filter=page.title='start'&expand=issue,page(fields=title)")
            .is(200)
            .value();
        assert_eq!(list["rows"][0]["expand"]["page"]["title"], "start", "{list}");
        assert_eq!(list["rows"][0]["expand"]["issue"], Value::Null);
        let one = client.get("/api/issue/1?expand=remark").is(200).value();
        assert_eq!(one["expand"]["remark"][0]["subject"], "issue/1", "{one}");

        client.json("PATCH /api/remark/1", r#"{"subject":"page/a/b, 100%"}"#).is(200);
        let moved = remark(client, 1);
        assert_eq!((&moved["issue"], &moved["page"]), (&Value::Null, &json!("a/b, 100%")));
        client.json("DELETE /api/page/a%2Fb,%20100%25", "").is(409);
        client.json("PATCH /api/remark/1", r#"{"subject":"issue/1"}"#).is(200);
        client.json("DELETE /api/issue/1", "").is(204);
        assert_eq!(remark(client, 1)["subject"], Value::Null);
    });
}

#[test]
fn batches_and_nested_rows_write_the_text() {
    on_every_engine(|client| {
        let batch = json!({ "mode": "all", "operations": [
            { "insert": "issue", "row": { "title": "new" } },
            { "insert": "remark", "row": { "issue": { "$result": 0 } } },
            { "insert": "page", "row": { "name": "c", "title": "new" } },
            { "insert": "remark", "row": { "page": { "$result": 2 } } },
        ] });
        client.json("POST /api/batch", &batch.to_string()).is(200);
        assert_eq!(remark(client, 1)["subject"], "issue/2");
        assert_eq!(remark(client, 2)["subject"], "page/c");
        let both = json!({ "operations": [
            { "insert": "issue", "row": { "title": "new" } },
            { "insert": "remark", "row": { "issue": { "$result": 0 }, "subject": "page/c" } },
        ] });
        let problem = client.json("POST /api/batch", &both.to_string()).is(422).value();
        assert_eq!(problem["errors"][0]["field"], "subject", "{problem}");

        let body = r#"{"title":"with remarks","remark":[{"stars":1},{"stars":2}]}"#;
        let made = client.json("POST /api/issue", body).is(201).value();
        let text = format!("issue/{}", made["id"]);
        assert_eq!(remark(client, 3)["subject"], text);
        let body = r#"{"title":"changed","remark":[{"stars":3}]}"#;
        client.json(&format!("PATCH /api/{text}"), body).is(200);
        assert_eq!(remark(client, 5)["subject"], text);
        client.json("PATCH /api/page/c", r#"{"remark":[{"stars":4}]}"#).is(200);
        assert_eq!(remark(client, 6)["subject"], "page/c");
        let body = r#"{"stars":5,"page":{"name":"d","title":"new"}}"#;
        client.json("POST /api/remark", body).is(201);
        assert_eq!(remark(client, 7)["subject"], "page/d");
        for body in [
            r#"{"title":"x","remark":[{"subject":"page/c"}]}"#,
            r#"{"title":"x","remark":[{"issue":1}]}"#,
        ] {
            let problem = client.json("POST /api/issue", body).is(400).value().to_string();
            assert!(problem.contains("remark[0]."), "{problem}");
        }
    });
}

#[test]
fn the_documents_describe_the_text() {
    on_every_engine(|client| {
        let document = client.get("/api/openapi.json").is(200).value();
        let fields = &document["components"]["schemas"]["remark"]["properties"];
        assert_eq!(fields["subject"]["pattern"], "^(?:issue|page)/", "{fields}");
        assert_eq!(fields["issue"]["readOnly"], true);
        assert_eq!(fields["issue"]["x-computed"], "key_in(subject)");
    });
}
