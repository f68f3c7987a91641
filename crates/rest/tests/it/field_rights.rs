//! Rights on fields over HTTP: a hidden field is answered as one that does not exist.

use marmota_http::Server;
use marmota_memory::Memory;
use marmota_model::{Field, KeyKind, Kind, Record, Role, Schema};
use marmota_rest::Api;
use marmota_store::rights::{Grant, Right, Rights};
use marmota_store::{Idempotency, Store};
use serde_json::json;

use crate::client::Client;

/// A store with a person whose pay is hidden, and whose rank may only be read.
fn serve() -> (Store, marmota_http::RunningServer) {
    let id = || Field::new("id", Kind::I64).role(Role::Key);
    let team = Kind::Reference { table: "team".into(), key: KeyKind::Auto };
    let person = vec![
        id(),
        Field::new("name", Kind::TEXT).search(true),
        Field::new("pay", Kind::I64).nullable(true),
        Field::new("rank", Kind::I64).nullable(true),
        Field::new("crew", team).nullable(true),
    ];
    let store = Store::builder(Memory::new())
        .idempotency(Idempotency::default())
        .schema(Schema::new("team", vec![id(), Field::new("motto", Kind::TEXT).nullable(true)]))
        .schema(Schema::new("person", person).audit(true))
        .open()
        .unwrap();
    let mut row = Record::new(store.table("person").unwrap());
    row.set("name", "Ada").unwrap();
    row.set("pay", 4321).unwrap();
    row.set("rank", 3).unwrap();
    store.insert_record(&row).run().unwrap();
    let grants = [
        Grant::new("person", &[Right::Read, Right::History]).except(["pay", "crew"]),
        Grant::new("person", &[Right::Insert, Right::Update]).fields(["name"]),
        Grant::new("team", &Right::ALL),
    ];
    let rights = Rights::new(store.registry(), None, &grants).unwrap();
    let api = Api::new(&store.with_rights(rights));
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1).start(api.router()).unwrap();
    (store, server)
}

#[test]
fn a_hidden_field_is_answered_as_an_unknown_one() {
    let (_store, server) = serve();
    let client = &mut Client::new(server.local_addr());
    let row = json!({ "id": 1, "name": "Ada", "rank": 3 });
    assert_eq!(client.get("/api/person/1").is(200).value(), row);
    assert_eq!(client.get("/api/person").is(200).value()["rows"], json!([row]));
    for target in [
        "GET /api/person?filter=FIELD+=+4321",
        "GET /api/person?filter=name+=+'x'+or+FIELD+in+(1)",
        "GET /api/person?filter=FIELD+=+'text'",
        "GET /api/person?FIELD=4321",
        "GET /api/person?order=-FIELD",
        "GET /api/person?fields=id,FIELD",
        "GET /api/person?group=FIELD",
        "GET /api/person?select=sum(FIELD)",
        "GET /api/person/1?fields=FIELD",
        "GET /api/person/1?expand=FIELD",
        "GET /api/person/1/FIELD",
        "DELETE /api/person?filter=FIELD=1",
        "GET /api/team?filter=any(person,+FIELD=1)",
        "GET /api/team?expand=person(filter=FIELD=1)",
        "POST /api/person/1/FIELD/increment",
    ] {
        for hidden in ["pay", "crew"] {
            let answer = |client: &mut Client, field: &str| {
                let body = if target.starts_with("POST") { "{\"by\":1}" } else { "" };
                let answer = client.json(&target.replace("FIELD", field), body);
                let text = String::from_utf8(answer.body.clone()).unwrap();
                (answer.status, text.replace(field, "FIELD"))
            };
            let (one, other) = (answer(client, hidden), answer(client, "zzz"));
            assert_eq!(one, other, "{target} {hidden}");
            assert!((400..405).contains(&one.0), "{target} {one:?}");
        }
    }
    let history = client.get("/api/person/1/history").is(200).value();
    assert_eq!(history["rows"][0]["fields"], json!({ "name": "Ada", "rank": 3 }));
    client.get("/api/person/1/history?filter=fields.pay=4321").is(400);
    for document in ["/api", "/api/openapi.json"] {
        let text = client.get(document).is(200).value().to_string();
        assert!(!text.contains("pay") && text.contains("rank"), "{text}");
    }
}

#[test]
fn writes_keep_what_the_caller_may_not_write() {
    let (store, server) = serve();
    let client = &mut Client::new(server.local_addr());
    let person = store.table("person").unwrap();
    let put = client.json("PUT /api/person/1", r#"{"name":"Ada L."}"#).is(200).value();
    assert_eq!(put, json!({ "id": 1, "name": "Ada L.", "rank": 3 }));
    let row = store.get_record(&person, 1).run().unwrap();
    assert_eq!(row.value("pay").unwrap(), &4321.into());
    assert_eq!(row.value("rank").unwrap(), &3.into());
    for request in ["PUT /api/person/1", "PATCH /api/person/1", "POST /api/person"] {
        let refused = client.json(request, r#"{"name":"x","rank":9}"#).is(401).value();
        assert_eq!(refused["errors"][0]["field"], "rank", "{request}: {refused}");
        let unknown = |client: &mut Client, field: &str| {
            let body = format!("{{\"name\":\"x\",\"{field}\":1}}");
            client.json(request, &body).is(422).value().to_string().replace(field, "FIELD")
        };
        assert_eq!(unknown(client, "pay"), unknown(client, "zzz"));
    }
    let key = ["Content-Type: application/json", "Idempotency-Key: \"k\""];
    let made = client.send("POST /api/person", &key, br#"{"name":"Bob"}"#).is(201).value();
    assert_eq!(made, json!({ "id": 2, "name": "Bob", "rank": null }));
    let batch = r#"{"operations":[{"patch":"person","key":1,"row":{"name":"A"}},
        {"update":"person","key":2,"row":{"name":"B"}}]}"#;
    client.json("POST /api/batch", batch).is(200);
    assert_eq!(store.get_record(&person, 1).run().unwrap().value("pay").unwrap(), &4321.into());
}

#[test]
fn the_description_of_a_table_has_what_the_caller_may_do_with_each_field() {
    let (_store, server) = serve();
    let client = &mut Client::new(server.local_addr());
    let document = client.get("/api").is(200).value();
    let tables = document["tables"].as_array().unwrap();
    let person = tables.iter().find(|table| table["name"] == "person").unwrap();
    let fields = person["fields"].as_array().unwrap();
    let field = |name: &str| fields.iter().find(|field| field["name"] == name);
    assert_eq!(field("pay"), None);
    assert_eq!(field("name").unwrap().get("updatable"), None);
    assert_eq!(field("rank").unwrap()["updatable"], false);
    assert_eq!(field("rank").unwrap().get("readable"), None);
}
