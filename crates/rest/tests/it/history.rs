//! The history of audited rows, and who is said to have written them.

use marmota_http::Server;
use marmota_memory::Memory;
use marmota_model::{Field, Kind, Role, Schema};
use marmota_rest::Api;
use marmota_sqlite::Sqlite;
use marmota_store::Store;
use marmota_store::engine::Engine;
use serde_json::json;

use crate::client::Client;
use crate::slow::slow;

fn patient() -> Schema {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("name", Kind::TEXT),
        Field::new("visits", Kind::I64).nullable(true),
        Field::new("version", Kind::I64).role(Role::Version),
    ];
    Schema::new("patient", fields).audit(true)
}

fn on_engine(engine: impl Engine + 'static, test: impl Fn(&mut Client)) {
    let plain = Schema::new("plain", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    let store = Store::builder(engine).schema(patient()).schema(plain).open().unwrap();
    let api = Api::new(&store).actor(|request| request.header_text("x-user").map(str::to_owned));
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1).start(api.router()).unwrap();
    test(&mut Client::new(server.local_addr()));
}

fn on_every_engine(test: impl Fn(&mut Client)) {
    on_engine(Memory::new(), &test);
    on_engine(slow(Memory::new()), &test);
    on_engine(Sqlite::from_url("sqlite::memory:").unwrap(), &test);
}

#[test]
fn every_write_is_in_the_history() {
    on_every_engine(|client| {
        let headers = ["X-User: ana", "Content-Type: application/json"];
        client.send("POST /api/patient", &headers, br#"{"name":"Bo"}"#).is(201);
        client.json("PATCH /api/patient/1", r#"{"name":"Bob"}"#).is(200);
        client.json("POST /api/patient", r#"[{"name":"x"},{"name":"y"}]"#).is(201);
        client.json("POST /api/patient/1/visits/increment", r#"{"by":1}"#).refuses(422);
        let page = client.get("/api/patient/1/history?limit=1&fields=action,fields,actor,version");
        let page = page.is(200).value();
        assert_eq!(
            page["rows"],
            json!([{
                "action": "insert",
                "fields": {"name": "Bo", "visits": null, "version": 1},
                "actor": "ana",
                "version": 1
            }])
        );
        let next = page["next"].as_str().unwrap().to_owned();
        let next = client.get(&next).is(200).value();
        assert_eq!(next["rows"][0]["action"], "update");
        assert_eq!(next["rows"][0]["actor"], json!(null));
        client.get("/api/patient/2/history?count=true").is(200);
        client.json("DELETE /api/patient/2", "").is(204);
        let gone = client.get("/api/patient/2/history?order=-id&limit=1").is(200).value();
        assert_eq!(gone["rows"][0]["action"], "delete");
        assert_eq!(client.get("/api/patient/99/history").is(200).value()["rows"], json!([]));
        client.get("/api/patient/x/history").refuses(400);
        client.get("/api/plain/1/history").refuses(404);
    });
}

#[test]
fn history_cannot_be_written() {
    on_every_engine(|client| {
        client.json("POST /api/patient", r#"{"name":"Bo"}"#).is(201);
        client.get("/api/marmota_history").refuses(404);
        client.json("DELETE /api/marmota_history/1", "").refuses(404);
        client.json("DELETE /api/marmota_history?filter=id>0", "").refuses(404);
        client.json("PATCH /api/marmota_history/1", r#"{"actor":"eve"}"#).refuses(404);
        let batch = r#"{"operations":[{"delete":"marmota_history","key":1}]}"#;
        client.json("POST /api/batch", batch).refuses(404);
        assert_eq!(client.get("/api/patient/1/history?count=true").value()["count"], 1);
        let tables = client.get("/api").is(200).value();
        assert_eq!(tables["tables"][0]["history"], "/api/patient/{key}/history");
        assert_eq!(tables["tables"][1].get("history"), None);
    });
}

#[test]
fn lines_are_in_the_history() {
    on_every_engine(|client| {
        let lines = "{\"name\":\"a\"}\n{\"name\":\"b\"}\n{\"id\":9,\"name\":\"c\"}\n{\"name\":7}\n";
        let headers = ["X-User: eve", "Content-Type: application/x-ndjson"];
        let answer = client.send("POST /api/patient", &headers, lines.as_bytes()).refuses(422);
        assert_eq!(answer.value()["inserted"], 3);
        let lines = "{\"patch\":\"patient\",\"key\":1,\"row\":{\"name\":\"A\"}}\n\
                     {\"patch\":\"patient\",\"key\":77,\"row\":{\"name\":\"B\"}}\n";
        let answer = client.send("POST /api/batch", &headers, lines.as_bytes()).is(200);
        assert_eq!(answer.text().lines().count(), 2);
        for (key, actions) in
            [(1, &["insert", "update"][..]), (2, &["insert"]), (9, &["insert"]), (77, &[])]
        {
            let history = format!("/api/patient/{key}/history?fields=action,actor&order=id");
            let rows = client.get(&history).is(200).value()["rows"].clone();
            let entry = |action: &&str| json!({"action": action, "actor": "eve"});
            let expected: Vec<_> = actions.iter().map(entry).collect();
            assert_eq!(rows, json!(expected));
        }
    });
}
