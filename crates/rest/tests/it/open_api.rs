//! `GET /api/openapi.json`: what tools are told of the tables.

use marmota_auth::{Auth, Settings};
use marmota_http::{Method, Next, Router, Server, Status, TestRequest, described};
use marmota_memory::Memory;
use marmota_model::{Field, KeyKind, Kind, Literal, OnDelete, Role, Rule, Schema, Variant};
use marmota_rest::{Api, OpenApi};
use marmota_store::rights::{Grant, Right};
use marmota_store::{Store, StoreBuilder};
use regex::Regex;
use serde_json::{Value, json};

use crate::client::Client;
use crate::well_formed::operations;

fn builder() -> StoreBuilder {
    let variants = ["red", "blue"].iter().enumerate();
    let variants = variants
        .map(|(number, name)| Variant { name: (*name).into(), number: number as i64 })
        .collect::<Vec<_>>();
    let colour =
        Kind::Enum { variants: variants.into(), stored: marmota_model::EnumStored::default() };
    let small = Kind::Int { min: 0, max: 9 };
    let person = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("name", Kind::Text { chars_max: 40, collation: Default::default() })
            .rules(vec![Rule::NotEmpty]),
        Field::new("email", Kind::TEXT).nullable(true).rules(vec![Rule::Email]),
        Field::new("visits", small).default(Literal::Int(0)),
        Field::new("colour", colour).nullable(true),
        Field::new("photo", Kind::Blob).nullable(true),
        Field::new("more", Kind::Json).nullable(true),
        Field::new("filter", Kind::TEXT).nullable(true),
        Field::new("made", Kind::Timestamp).role(Role::CreatedAt),
        Field::new("version", Kind::I64).role(Role::Version),
    ];
    let of = Kind::Reference { table: "person".into(), key: KeyKind::Auto };
    let place = vec![
        Field::new("name", Kind::TEXT).role(Role::Key),
        Field::new("owner", of),
        Field::new("code", Kind::TEXT)
            .nullable(true)
            .rules(vec![Rule::Pattern("[A-Z]{2}[0-9-]+".into())]),
        Field::new("word", Kind::TEXT).nullable(true).rules(vec![Rule::Pattern(r"\w+".into())]),
    ];
    Store::builder(Memory::new())
        .schema(Schema::new("person", person))
        .schema(Schema::new("place", place))
}

fn names(document: &Value) -> Vec<String> {
    let operations = operations(document).into_iter();
    operations.map(|(_, _, one)| one["operationId"].as_str().unwrap().to_owned()).collect()
}

/// What the document says of numbers, times and conflicts is what the server accepts.
#[test]
fn the_limits_of_values_stand_in_the_document() {
    let price = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("amount", Kind::Currency),
        Field::new("from", Kind::Time).nullable(true),
    ];
    let mut of = Field::new("price", Kind::Reference { table: "price".into(), key: KeyKind::Auto });
    of.on_delete = OnDelete::Cascade;
    let note = vec![Field::new("id", Kind::I64).role(Role::Key), of];
    let mut price = Schema::new("price", price);
    price.audit = true;
    let store = Store::builder(Memory::new()).schema(price).schema(Schema::new("note", note));
    let store = store.open().unwrap();
    let api = Api::new(&store).page_rows_max(50).router();
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1).start(api).unwrap();
    let mut client = Client::new(server.local_addr());
    let document = client.get("/api/openapi.json").is(200).value();
    let query = |path: &str, method: &str, name: &str| {
        let parameters = document["paths"][path][method]["parameters"].as_array().unwrap();
        parameters.iter().find(|one| one["name"] == name).unwrap()["schema"].clone()
    };
    let limit = query("/api/price", "get", "limit");
    assert_eq!((&limit["minimum"], &limit["maximum"]), (&json!(0), &json!(50)));
    client.get("/api/price?limit=50").is(200);
    client.get("/api/price?limit=51").is(400);
    client.get("/api/price?limit=0&count=true").is(200);

    let fields = &document["components"]["schemas"]["price.new"]["properties"];
    assert_eq!(fields["id"]["minimum"], 0);
    let most = fields["amount"]["maximum"].clone();
    assert_eq!(most, query("/api/price", "get", "amount")["maximum"]);
    let insert = |client: &mut Client, row: Value| {
        client.send("POST /api/price", &[], row.to_string().as_bytes()).status
    };
    assert_eq!(insert(&mut client, json!({ "id": 0, "amount": most })), 201);
    assert_eq!(insert(&mut client, json!({ "id": -1, "amount": 1 })), 422);
    let beyond = most.as_f64().unwrap() + 1.0;
    assert_eq!(insert(&mut client, json!({ "amount": beyond })), 422);
    let time = "^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,6})?)?$";
    assert_eq!(fields["from"]["pattern"], time);
    for (text, status) in [
        ("00:00", 201),
        ("23:59:59", 201),
        ("07:30:00.250001", 201),
        ("", 422),
        ("24:00:00", 422),
        ("12:60", 422),
        ("noon", 422),
    ] {
        assert_eq!(insert(&mut client, json!({ "amount": 1, "from": text })), status, "{text}");
    }

    // A row that others refer to with an action is not replaced.
    let ways = |table: &str| query(&format!("/api/{table}"), "post", "on_conflict")["enum"].clone();
    assert_eq!(ways("price"), json!(["refuse", "ignore", "update"]));
    assert_eq!(ways("note"), json!(["refuse", "ignore", "replace", "update"]));
    client.send("POST /api/price?on_conflict=replace", &[], br#"{"amount":1}"#).is(400);
    let options = client.send("OPTIONS /api/price/1/history", &[], b"").is(204);
    assert_eq!(options.header("allow"), Some("GET, HEAD, OPTIONS"));
    // No table has a version to compare with.
    let operations = document["components"]["schemas"]["batch.operation"]["oneOf"].as_array();
    let has_version = |one: &&Value| one["properties"].get("version").is_some();
    assert_eq!(operations.unwrap().iter().find(has_version), None);
}

/// The values that the document permits in bodies and URLs are those that the server accepts.
#[test]
fn texts_blobs_vectors_and_integers_are_accepted_as_documented() {
    let shape = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("data", Kind::Blob).nullable(true),
        Field::new("at", Kind::Vector { dimensions: 1 }).nullable(true),
        Field::new("word", Kind::TEXT).nullable(true),
        Field::new("short", Kind::Blob).nullable(true).rules(vec![Rule::Length { min: 2, max: 4 }]),
    ];
    let store = Store::builder(Memory::new()).schema(Schema::new("shape", shape)).open().unwrap();
    let api = Api::new(&store).router();
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1).start(api).unwrap();
    let mut client = Client::new(server.local_addr());
    let document = client.get("/api/openapi.json").is(200).value();
    let fields = document["components"]["schemas"]["shape.new"]["properties"].clone();
    // One row, and the same in an array.
    let mut accepts = |row: Value| {
        let single = client.send("POST /api/shape", &[], row.to_string().as_bytes()).status;
        let array = json!([row]).to_string();
        let array = client.send("POST /api/shape", &[], array.as_bytes()).status;
        assert_eq!(single, array, "{row}");
        assert!(matches!(single, 201 | 422), "{row}: {single}");
        single == 201
    };

    let base64 = Regex::new(fields["data"]["pattern"].as_str().unwrap()).unwrap();
    for text in [
        "", "AQID", "AQ", "AQ=", "AQ==", "AQI", "AQI=", "_-8", "AQ===", "AQI==", "AQID=", "A",
        "AR", "AQJ", "+/8", "é", "A Q", "=", "AQIDBA", "\0",
    ] {
        assert_eq!(accepts(json!({ "data": text })), base64.is_match(text), "{text:?}");
    }
    let lengths = ["minLength", "maxLength"].map(|name| fields["short"][name].as_u64().unwrap());
    for (text, fits) in [("AQI", true), ("AQIDBA==", true), ("AQ", false), ("AQIDBAUGBw", false)] {
        let letters = text.len() as u64;
        assert_eq!(accepts(json!({ "short": text })), fits, "{text}");
        assert!(!fits || (lengths[0]..=lengths[1]).contains(&letters), "{text}: {lengths:?}");
    }
    let number = &fields["at"]["items"];
    let [least, most] = ["minimum", "maximum"].map(|name| number[name].as_f64().unwrap());
    for number in [0.0, least, most, 1e-300, least * 1.001, most * 1.001, 1e39, -1e300] {
        let is_valid = (least..=most).contains(&number);
        assert_eq!(accepts(json!({ "at": [number] })), is_valid, "{number}");
    }

    let parameters = document["paths"]["/api/shape"]["get"]["parameters"].as_array().unwrap();
    let word = parameters.iter().find(|one| one["name"] == "word").unwrap();
    let text = Regex::new(word["schema"]["pattern"].as_str().unwrap()).unwrap();
    for (value, query) in [("a", "a"), ("\0", "%00"), ("a\0b", "a%00b"), ("", "")] {
        let status = if text.is_match(value) { 200 } else { 400 };
        client.get(&format!("/api/shape?word={query}")).is(status);
    }
    // As in JSON Schema, 1.0 is an integer.
    for (path, status) in [
        ("?id=1.0", 200),
        ("?id=1e0", 200),
        ("?id=1.5", 400),
        ("?id=x", 400),
        ("?limit=2.0", 200),
        ("?limit=2.5", 400),
        ("?filter=id%3D1.0", 200),
        ("/1.0", 200),
        ("/1.5", 400),
        ("/inf", 400),
    ] {
        client.get(&format!("/api/shape{path}")).is(status);
    }
}

#[test]
fn tables_stand_in_the_document_with_their_fields_and_rules() {
    let store = builder().open().unwrap();
    let uptime = json!({ "operationId": "uptime", "responses": { "200": { "description": "" } } });
    let beside = OpenApi::new().title("People").version("7");
    let beside = beside.operation(Method::Get, "/uptime", uptime.clone());
    // A route without parameters stands before a table's.
    let beside = beside.operation(
        Method::Get,
        "/api/place",
        json!({
            "operationId": "places", "responses": { "200": { "description": "" } },
        }),
    );
    let api = Api::new(&store).openapi(beside).router();
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1).start(api).unwrap();
    let mut client = Client::new(server.local_addr());
    let answer = client.get("/api/openapi.json").is(200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let etag = format!("If-None-Match: {}", answer.header("etag").unwrap());
    client.send("GET /api/openapi.json", &[&etag], b"").is(304);
    client.get("/api/openapi.json?a=1").is(400);
    client.send("POST /api/openapi.json", &[], b"{}").is(405);
    let document = answer.value();
    let all = operations(&document);
    assert_eq!(document["info"], json!({ "title": "People", "version": "7" }));
    assert_eq!(document.get("security"), None);
    let at = |method: &str, path: &str| {
        let found = all.iter().find(|one| (&*one.0, &*one.1) == (method, path));
        found.unwrap_or_else(|| panic!("{method} {path}")).2.clone()
    };
    for (method, path, id) in [
        ("GET", "/uptime", "uptime"),
        ("GET", "/api", "tables"),
        ("GET", "/api/place", "places"),
        ("POST", "/api/place", "place.insert"),
        ("GET", "/api/person", "person.list"),
        ("DELETE", "/api/person", "person.delete_where"),
        ("GET", "/api/person/{key}", "person.get"),
        ("PUT", "/api/person/{key}", "person.replace"),
        ("PATCH", "/api/person/{key}", "person.change"),
        ("DELETE", "/api/person/{key}", "person.delete"),
        ("GET", "/api/person/{key}/photo", "person.photo.get"),
        ("PUT", "/api/person/{key}/photo", "person.photo.put"),
        ("POST", "/api/person/{key}/visits/increment", "person.visits.increment"),
        ("POST", "/api/batch", "batch"),
    ] {
        assert_eq!(at(method, path)["operationId"], id, "{method} {path}");
    }
    let schemas = &document["components"]["schemas"];
    let field = |name: &str| &schemas["person"]["properties"][name];
    let int64 =
        json!({ "type": "integer", "format": "int64", "minimum": i64::MIN, "maximum": i64::MAX });
    assert_eq!(field("id"), &int64);
    let pattern = r"^[^\x00]*[^\s\x00][^\x00]*$";
    let name = json!({ "type": "string", "maxLength": 40, "minLength": 1, "pattern": pattern });
    assert_eq!(field("name"), &name);
    assert_eq!(field("email"), &json!({ "type": ["string", "null"], "format": "email" }));
    let visits = json!({ "type": "integer", "minimum": 0, "maximum": 9, "default": 0 });
    assert_eq!(field("visits"), &visits);
    assert_eq!(field("colour")["enum"], json!(["red", "blue", null]));
    assert_eq!((&field("made")["readOnly"], field("more").get("type")), (&json!(true), None));
    let read = ["id", "name", "email", "visits", "colour", "more", "filter", "made", "version"];
    assert_eq!(schemas["person"]["required"], json!(read), "all but the blob");
    assert_eq!(schemas["person.new"]["required"], json!(["name"]));
    assert_eq!(schemas["person.change"]["required"], json!([]));
    assert_eq!(schemas["person.change"]["additionalProperties"], false);
    assert_eq!(schemas["place.whole"]["required"], json!(["owner"]), "the key is in the path");
    let code = &schemas["place"]["properties"];
    assert_eq!(code["code"]["pattern"], "^(?:[A-Z]{2}[0-9-]+)$");
    assert_eq!(
        (&code["word"]["pattern"], &code["word"]["x-pattern"]),
        (&json!(r"^[^\x00]*$"), &json!(r"\w+"))
    );
    let operations = schemas["batch.operation"]["oneOf"].as_array().unwrap();
    let increment = operations
        .iter()
        .find(|one| one["properties"]["increment"] == json!({ "const": "person" }));
    assert_eq!(increment.unwrap()["properties"]["field"], json!({ "enum": ["visits"] }));
    // Integers may be written as JSON Schema permits, and the expected version may be null.
    let row = br#"{"name":"Ada","visits":7.0,"version":null}"#;
    let stored = client.send("POST /api/person", &[], row).is(201).value();
    assert_eq!(stored["visits"], 7);
    let again = client.send("POST /api/person", &[], br#"{"name":"Ada","visits":0.7e1}"#);
    assert_eq!(again.is(201).value()["visits"], 7);
    client.send("POST /api/person", &[], br#"{"name":"Ada","visits":7.5}"#).is(422);
    client.send("POST /api/person", &[], br#"{"name":"Ada","visits":"7"}"#).is(422);
    assert_eq!(schemas["place.new"]["required"], json!(["name", "owner"]));
    assert_eq!(schemas["place"]["properties"]["owner"]["description"], "The key of a `person`");
    let stored = at("POST", "/api/person")["responses"]["201"].clone();
    let stored = &stored["content"]["application/json"]["schema"];
    assert_eq!(
        stored["anyOf"].as_array().unwrap().len(),
        2,
        "the keys of several may be a row too"
    );
    let list = at("GET", "/api/person");
    let parameters = list["parameters"].as_array().unwrap();
    let queried: Vec<&str> = parameters.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(queried.contains(&"email") && !queried.contains(&"photo"), "{queried:?}");
    // What is described is there: each of these is answered by its route.
    for (method, path, _) in all.iter().filter(|one| one.1 != "/uptime") {
        let path = path.replace("{key}", "1");
        let answer = client.send(&format!("{method} {path}"), &[], b"");
        assert_ne!(answer.status, 405, "{method} {path}");
    }
    server.shutdown().unwrap();
}

#[test]
fn who_may_not_use_a_table_is_not_told_of_it() {
    let store = marmota_auth::models(builder()).open().unwrap();
    let grant = Grant::new("place", &[Right::Read]);
    let settings = Settings::default().everyone([grant]).password_cost(8, 1);
    let auth = Auth::new(&store, settings).unwrap();
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
    let server = server.start(Api::new(&store).auth(&auth).router()).unwrap();
    let mut client = Client::new(server.local_addr());
    let token = auth.setup_token().unwrap().to_owned();
    auth.set_password("admin", &token, "correct horse", None).unwrap();
    let (_, token) = auth.add_user("ann", &[], false).unwrap();
    auth.set_password("ann", &token, "correct horse", None).unwrap();
    let mut of = |name: &str| {
        let token = auth.login(name, "correct horse", None).unwrap().token;
        let bearer = format!("Authorization: Bearer {token}");
        client.send("GET /api/openapi.json", &[&bearer], b"").is(200).value()
    };
    let (all, some) = (of("admin"), of("ann"));
    let (all_names, some_names) = (names(&all), names(&some));
    for name in ["place.list", "place.get", "auth.login.post", "auth.users.one.patch"] {
        assert!(some_names.iter().any(|one| one == name), "{name}: {some_names:?}");
    }
    for name in ["person.list", "place.insert", "place.delete", "batch"] {
        assert!(all_names.iter().any(|one| one == name), "{name}: {all_names:?}");
        assert!(!some_names.iter().any(|one| one == name), "{name}");
    }
    assert!(!some_names.iter().any(|one| one.starts_with("person")), "{some_names:?}");
    assert_eq!(some["components"]["schemas"].get("person"), None);
    let login = &all["paths"]["/api/auth/login"]["post"];
    let sent = &login["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(sent["required"], json!(["name", "password"]));
    assert_eq!(login["security"], json!([]));
    assert_eq!(all["security"], json!([{ "bearer": [] }, { "cookie": [] }]));
    // All routes of accounts are there, and no other.
    let described: Vec<_> =
        operations(&all).into_iter().filter(|one| one.1.starts_with("/api/auth/")).collect();
    assert_eq!(described.len(), 54);
    for (method, path, operation) in described {
        let path = path.replace("{named}", "1");
        let answer = client.send(&format!("{method} {path}"), &[], b"");
        assert!(![404, 405].contains(&answer.status), "{method} {path}: {}", answer.status);
        assert_eq!(operation["tags"], json!(["auth"]));
    }
    server.shutdown().unwrap();
}

/// A form of a person that no table has.
#[derive(Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema, PartialEq)]
struct Card {
    text: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct CardOptions {
    /// In capital letters.
    #[serde(default)]
    upper: bool,
}

async fn card(
    store: marmota_rest::extract::CallerStore,
    marmota_http::extract::Path(id): marmota_http::extract::Path<i64>,
    marmota_http::extract::Query(options): marmota_http::extract::Query<CardOptions>,
) -> Result<marmota_http::extract::Json<Card>, marmota_rest::ApiError> {
    let text = format!("{id} of {}", store.exposed_tables().count());
    let text = if options.upper { text.to_uppercase() } else { text };
    Ok(marmota_http::extract::Json(Card { text }))
}

#[test]
fn custom_routes_are_described_by_their_types_and_answer_as_described() {
    let store = builder().open().unwrap();
    let routes = Router::with_state(store.clone())
        .get(
            "/cards/{id:int}",
            described(card).summary("A card").error(Status::GONE, "It was lost"),
        )
        .get("/hidden", || async { "not described" })
        .router();
    let document = OpenApi::new().routes(&routes);
    let router = Api::new(&store).openapi(document).router().nest("", routes);
    let router = router.wrap(|request, next: Next| async move {
        let mut answer = next.run(request).await;
        let _ = answer.set_header("X-Wrapped", "1");
        answer
    });
    let answer = router.call(TestRequest::get("/api/openapi.json")).unwrap();
    assert_eq!(answer.header("X-Wrapped"), Some("1"), "REST's routes are wrapped too");
    let document: Value = answer.json().unwrap();
    assert_eq!(document["paths"]["/hidden"], Value::Null);
    let operation = &document["paths"]["/cards/{id}"]["get"];
    assert_eq!(operation["operationId"], "card");
    assert_eq!(operation["summary"], "A card");
    let parameters = &operation["parameters"];
    let id = json!({ "type": "integer", "format": "int64" });
    assert_eq!(
        parameters[0],
        json!({ "name": "id", "in": "path", "required": true, "schema": id })
    );
    assert_eq!((&parameters[1]["name"], &parameters[1]["in"]), (&json!("upper"), &json!("query")));
    assert_eq!(parameters[1]["required"], false);
    assert_eq!(parameters[1]["description"], "In capital letters.");
    for status in ["400", "401", "403", "404", "410", "default"] {
        assert!(operation["responses"][status].is_object(), "{status}");
    }
    let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
    assert_eq!(schema["$ref"], "#/components/schemas/Card");
    let described = &document["components"]["schemas"]["Card"];
    assert_eq!(described["description"], "A form of a person that no table has.");
    assert_eq!(described["required"], json!(["text"]));
    let answer = router.call(TestRequest::get("/cards/7?upper=true")).unwrap();
    assert_eq!(answer.json::<Card>().unwrap(), Card { text: "7 OF 2".to_owned() });
}
