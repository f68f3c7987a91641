//! Default expressions and computed fields over REST: rows in answers, lines, batches, documents.

use marmota_http::Server;
use marmota_memory::Memory;
use marmota_model::{Field, Kind, Role, Schema};
use marmota_rest::Api;
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::Store;
use serde_json::{Value, json};

use crate::client::Client;

fn letter() -> Schema {
    Schema::new(
        "letter",
        vec![
            Field::new("id", Kind::Uuid).role(Role::Key),
            Field::new("title", Kind::TEXT),
            Field::new("slug", Kind::TEXT).unique(true).default_expression("slug(title)"),
            Field::new("token", Kind::TEXT).unique(true).default_expression("token(12)"),
            Field::new("sent", Kind::Timestamp).default_expression("@now"),
        ],
    )
}

fn item() -> Schema {
    Schema::new(
        "item",
        vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("price", Kind::Currency),
            Field::new("count", Kind::I64),
            Field::new("total", Kind::Currency).computed("price * count"),
            Field::new("note", Kind::TEXT).nullable(true),
        ],
    )
}

fn parcel() -> Schema {
    Schema::new(
        "parcel",
        vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("price", Kind::I64),
            Field::new("count", Kind::I64),
            Field::new("total", Kind::I64).generated("price * count"),
            Field::new("note", Kind::TEXT).nullable(true),
        ],
    )
}

fn on_engines(test: impl Fn(&Store, &mut Client)) {
    let sqlite = Sqlite::open(Location::Memory, SqliteOptions::default()).unwrap();
    for builder in [Store::builder(Memory::new()), Store::builder(sqlite).cache(1 << 20)] {
        let store = builder.schema(letter()).schema(item()).open().unwrap();
        let router = Api::new(&store).router();
        let server = Server::bind("127.0.0.1:0").unwrap().start(router).unwrap();
        test(&store, &mut Client::new(server.local_addr()));
    }
}

fn row(client: &mut Client, key: &Value) -> Value {
    client.get(&format!("/api/letter/{}", key.as_str().unwrap())).is(200).value()
}

#[test]
fn answers_have_the_stored_values() {
    on_engines(|_, client| {
        let body = json!({"title": "Dear all"}).to_string();
        let made: Value = client.json("POST /api/letter", &body).is(201).value();
        assert_eq!(
            (&made["slug"], made["token"].as_str().unwrap().len()),
            (&json!("dear-all"), 12)
        );
        assert_eq!(made, row(client, &made["id"]));

        let many = json!([{"title": "a"}, {"title": "b"}, {"title": "c", "token": "own"}]);
        let keys: Value = client.json("POST /api/letter", &many.to_string()).is(201).value();
        let keys = keys["keys"].as_array().unwrap();
        let rows: Vec<Value> = keys.iter().map(|key| row(client, key)).collect();
        assert_eq!(rows.iter().map(|row| &row["slug"]).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_ne!(rows[0]["token"], rows[1]["token"]);
        assert_eq!(rows[2]["token"], "own");
        let refused: Value = client
            .json("POST /api/letter", &json!([{"title": "d"}, {"title": "A"}]).to_string())
            .is(409)
            .value();
        assert_eq!(refused["errors"][0]["field"], "slug", "{refused}");
    });
}

#[test]
fn a_put_inserts_and_keeps_values() {
    on_engines(|_, client| {
        let path = "PUT /api/letter/01890a5d-ac96-774b-bcce-b302099a8057";
        let body = json!({"title": "First"}).to_string();
        let made: Value = client.json(path, &body).is(201).value();
        assert_eq!(made["slug"], "first");
        let body = json!({"title": "Second"}).to_string();
        let written: Value = client.json(path, &body).is(200).value();
        assert_eq!(written["title"], "Second");
        for kept in ["slug", "token", "sent"] {
            assert_eq!(written[kept], made[kept], "{kept}");
        }
    });
}

#[test]
fn documents_describe_the_expressions() {
    on_engines(|_, client| {
        let document: Value = client.get("/api/openapi.json").is(200).value();
        let schemas = document["components"]["schemas"].to_string();
        assert!(schemas.contains("\"x-default-expression\":\"slug(title)\""), "{schemas}");
        let tables: Value = client.get("/api").is(200).value();
        let fields = &tables["tables"][0]["fields"];
        assert_eq!(fields[3]["default_expression"], "token(12)");
        assert_eq!(tables["tables"][1]["fields"][3]["computed"], "price * count");
        assert!(schemas.contains("\"x-computed\":\"price * count\""), "{schemas}");
        assert!(schemas.contains("\"readOnly\":true"), "{schemas}");
        // Nobody can add to a computed number, so there is no path for it.
        let paths = &document["paths"];
        assert!(paths["/api/item/{key}/count/increment"].is_object(), "{paths}");
        assert!(paths["/api/item/{key}/total/increment"].is_null(), "{paths}");
        assert!(schemas.contains("{\"enum\":[\"count\"]}"), "{schemas}");
        assert!(schemas.contains("{\"enum\":[\"price\"]}"), "{schemas}");
    });
}

#[test]
fn computed_fields_are_computed_and_read_only() {
    on_engines(|_, client| {
        let body = json!({"price": 2.5, "count": 4}).to_string();
        let made: Value = client.json("POST /api/item", &body).is(201).value();
        assert_eq!(made, json!({"id": 1, "price": 2.5, "count": 4, "total": 10, "note": null}));
        let patched: Value =
            client.json("PATCH /api/item/1", &json!({"count": 3}).to_string()).is(200).value();
        assert_eq!(patched["total"], 7.5);
        // The row that was read is written back.
        client.json("PUT /api/item/1", &patched.to_string()).is(200);
        let body = json!({"price": 2, "count": 3}).to_string();
        let put: Value = client.json("PUT /api/item/1", &body).is(200).value();
        assert_eq!(put["total"], 6);
        for (request, body) in [
            ("POST /api/item", json!({"price": 1, "count": 1, "total": 2})),
            ("PATCH /api/item/1", json!({"total": 2})),
            ("PUT /api/item/1", json!({"price": 1, "count": 1, "total": 2})),
        ] {
            let refused: Value = client.json(request, &body.to_string()).is(422).value();
            let error = &refused["errors"][0];
            assert_eq!((&error["field"], &error["rule"]), (&json!("total"), &json!("computed")));
        }
        let page: Value = client.get("/api/item?filter=total%3D6&order=-total").is(200).value();
        assert_eq!(page["rows"][0]["id"], 1);
        let many = json!([{"price": 1, "count": 1}, {"price": 1, "count": 2}]).to_string();
        client.json("POST /api/item", &many).is(201);
        let page: Value = client.get("/api/item?order=-total&fields=total").is(200).value();
        assert_eq!(page["rows"], json!([{"total": 6}, {"total": 2}, {"total": 1}]));
    });
}

#[test]
fn generated_columns_are_read_only() {
    let sqlite = Sqlite::open(Location::Memory, SqliteOptions::default()).unwrap();
    let store = Store::builder(sqlite).cache(1 << 20).schema(parcel()).open().unwrap();
    let server = Server::bind("127.0.0.1:0").unwrap().start(Api::new(&store).router()).unwrap();
    let client = &mut Client::new(server.local_addr());
    let body = json!({"price": 5, "count": 4}).to_string();
    let made: Value = client.json("POST /api/parcel", &body).is(201).value();
    assert_eq!(made, json!({"id": 1, "price": 5, "count": 4, "total": 20, "note": null}));
    let patched: Value =
        client.json("PATCH /api/parcel/1", &json!({"count": 3}).to_string()).is(200).value();
    assert_eq!(patched["total"], 15);
    // The row that was read is written back.
    client.json("PUT /api/parcel/1", &patched.to_string()).is(200);
    let body = json!({"price": 2, "count": 3}).to_string();
    let put: Value = client.json("PUT /api/parcel/1", &body).is(200).value();
    assert_eq!(put["total"], 6);
    let list = json!([{"price": 1, "count": 1, "total": 1}, {"price": 1, "count": 1, "total": 2}]);
    for (request, body) in [
        ("POST /api/parcel", json!({"price": 1, "count": 1, "total": 2})),
        ("POST /api/parcel", list),
        ("PATCH /api/parcel/1", json!({"total": 2})),
        ("PUT /api/parcel/1", json!({"price": 1, "count": 1, "total": 2})),
    ] {
        let refused: Value = client.json(request, &body.to_string()).is(422).value();
        let error = &refused["errors"][0];
        assert_eq!((&error["field"], &error["rule"]), (&json!("total"), &json!("computed")));
    }
    let many = json!([{"price": 1, "count": 1, "total": 1}, {"price": 2, "count": 1}]);
    client.json("POST /api/parcel", &many.to_string()).is(201);
    let found: Value = client.get("/api/parcel?filter=total%3C3&order=-total").is(200).value();
    assert_eq!(found["rows"].as_array().unwrap().len(), 2, "{found}");

    let document: Value = client.get("/api/openapi.json").is(200).value();
    let schemas = document["components"]["schemas"].to_string();
    assert!(schemas.contains("\"readOnly\":true") && !schemas.contains("price * count"));
    let tables: Value = client.get("/api").is(200).value();
    assert_eq!(tables["tables"][0]["fields"][3]["generated"], true);
}
