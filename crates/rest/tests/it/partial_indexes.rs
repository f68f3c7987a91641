//! Partial indexes over REST: the description of a table, and the problem document of a duplicate.

use marmota_http::Server;
use marmota_memory::Memory;
use marmota_model::{Field, Index, Kind, Role, Schema};
use marmota_rest::Api;
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::Store;
use serde_json::json;

use crate::client::Client;

#[test]
fn a_duplicate_names_the_field_and_the_filter() {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("email", Kind::TEXT),
        Field::new("deleted", Kind::Date).nullable(true),
    ];
    let schema = Schema::new("account", fields)
        .indexes(vec![Index::unique(vec![1]).filter("deleted = null")]);
    let sqlite = Sqlite::open(Location::Memory, SqliteOptions::default()).unwrap();
    for builder in [Store::builder(Memory::new()), Store::builder(sqlite)] {
        let store = builder.schema(schema.clone()).open().unwrap();
        let router = Api::new(&store).router();
        let server = Server::bind("127.0.0.1:0").unwrap().start(router).unwrap();
        let client = &mut Client::new(server.local_addr());
        let tables = client.get("/api").is(200).value();
        let index = json!({ "fields": ["email"], "unique": true, "where": "deleted = null" });
        assert_eq!(tables["tables"][0]["indexes"], json!([index]), "{tables}");
        let (open, closed) = (
            json!({ "email": "a@x.org" }).to_string(),
            json!({ "email": "a@x.org", "deleted": "2026-11-27" }).to_string(),
        );
        client.json("POST /api/account", &closed).is(201);
        client.json("POST /api/account", &closed).is(201);
        client.json("POST /api/account", &open).is(201);
        let problem = client.json("POST /api/account", &open).is(409).value();
        let violation = &problem["errors"][0];
        assert_eq!(violation["field"], "email", "{problem}");
        let message = "must be unique where deleted = null, but another row has this value";
        assert_eq!(violation["message"], message, "{problem}");
        client.json("PATCH /api/account/1", r#"{"deleted":null}"#).is(409);
        client.json("PATCH /api/account/3", r#"{"deleted":"2026-11-28"}"#).is(200);
        client.json("PATCH /api/account/1", r#"{"deleted":null}"#).is(200);
    }
}
