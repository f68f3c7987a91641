//! Services in a document of OpenAPI's, beside tables and logins or by themselves.

use std::collections::{BTreeMap, HashMap};

use marmota_derive::{method, service};
use marmota_http::Server;
use marmota_memory::Memory;
use marmota_model::{Field, Kind, Result, Role, Schema};
use marmota_rest::{Api, OpenApi};
use marmota_service::{ByteStream, ItemStream, Services};
use marmota_store::Store;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::calling::{agent, url};
use crate::well_formed::operations;

#[derive(Debug, Serialize, Deserialize)]
struct Place {
    name: String,
}

#[service]
trait Atlas {
    async fn find(&self, name: String, near: Option<(f64, f64)>) -> Result<Option<Place>>;
    async fn count(&self, by: HashMap<String, Vec<u8>>) -> Result<BTreeMap<String, u64>>;
    async fn load(&self, name: String, picture: ByteStream) -> Result<()>;
    async fn all(&self) -> Result<ItemStream<Place>>;
    async fn zip(&self, numbers: ItemStream<i32>, other: ByteStream) -> Result<ByteStream>;
}

#[method]
async fn sum(a: i64, b: Option<i64>, more: Vec<i64>) -> Result<i64> {
    Ok(a + b.unwrap_or_default() + more.iter().sum::<i64>())
}

fn services() -> Services {
    let services = Services::new().service(AtlasService::mock().hosted()).unwrap();
    services.method::<sum>().unwrap()
}

fn sent<'o>(operation: &'o Value, media_type: &str) -> &'o Value {
    &operation["requestBody"]["content"][media_type]["schema"]
}

#[test]
fn contracts_stand_in_the_document_as_they_are_called() {
    let document = services().open_api().document();
    let all = operations(&document);
    let named = |id: &str| {
        let found = all.iter().find(|(_, _, one)| one["operationId"] == id);
        let (method, path, operation) = found.unwrap_or_else(|| panic!("{id}"));
        (format!("{method} {path}"), operation.clone())
    };
    let (at, find) = named("atlas.find");
    assert_eq!(at, "POST /api/atlas/find");
    let number = json!({ "type": "number", "format": "double" });
    assert_eq!(
        sent(&find, "application/json"),
        &json!({
            "type": "object",
            "properties": {
                "name": { "type": "string" },
                "near": {
                    "type": ["array", "null"], "prefixItems": [number, number],
                    "minItems": 2, "maxItems": 2,
                },
            },
            "required": ["name"],
            "additionalProperties": false,
        })
    );
    let answer = &find["responses"]["200"]["content"]["application/json"]["schema"];
    assert_eq!(
        answer["properties"]["result"],
        json!({ "description": "`Place`, as serde writes it" })
    );
    let (_, count) = named("atlas.count");
    let by = &sent(&count, "application/json")["properties"]["by"];
    assert_eq!(by["additionalProperties"]["items"]["maximum"], 255);
    let (_, load) = named("atlas.load");
    assert_eq!(sent(&load, "application/octet-stream"), &json!({}));
    assert_eq!(load["parameters"][0]["name"], "name");
    assert_eq!(load["parameters"][0]["required"], false, "it stands in JSON, where all does");
    let picture = &sent(&load, "application/json")["properties"]["picture"];
    assert_eq!(picture["contentEncoding"], "base64url");
    let (_, places) = named("atlas.all");
    assert_eq!(places.get("requestBody"), None);
    assert!(places["responses"]["200"]["content"]["application/x-ndjson"].is_object());
    let (_, zip) = named("atlas.zip");
    let content = zip["requestBody"]["content"].as_object().unwrap();
    assert_eq!(content.len(), 1, "two streams stand in JSON alone: {content:?}");
    let numbers = &sent(&zip, "application/json")["properties"]["numbers"];
    assert_eq!(numbers["items"], json!({ "type": "integer", "format": "int32" }));
    assert!(zip["responses"]["200"]["content"]["application/octet-stream"].is_object());
    let (at, queried) = named("sum.get");
    assert_eq!(at, "GET /api/sum");
    let [a, b, more] = &queried["parameters"].as_array().unwrap()[..] else { panic!("{queried}") };
    assert_eq!((&a["required"], &b["required"]), (&json!(true), &json!(false)));
    assert_eq!(more["content"]["application/json"]["schema"]["type"], "array");
    assert_eq!(named("sum").0, "POST /api/sum");
    let (at, rpc) = named("rpc");
    assert_eq!(at, "POST /api/-/rpc");
    let call = &sent(&rpc, "application/json")["oneOf"][0];
    let methods = call["properties"]["method"]["enum"].as_array().unwrap();
    assert!(
        methods.contains(&json!("atlas.find")) && methods.contains(&json!("sum")),
        "{methods:?}"
    );
    let elsewhere = services().open_api_at("/v2/").document();
    assert!(elsewhere["paths"].get("/v2/sum").is_some(), "{elsewhere}");
}

#[test]
fn tables_and_services_stand_in_the_same_document() {
    let id = Field::new("id", Kind::I64).role(Role::Key);
    let store = Store::builder(Memory::new()).schema(Schema::new("city", vec![id])).open().unwrap();
    let beside = OpenApi::new().title("Maps").and(&services().open_api());
    let api = Api::new(&store).openapi(beside).router();
    let routes = services().router().nest("", api);
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1).start(routes).unwrap();
    let mut answer = agent().get(url(&server, "/api/openapi.json")).call().unwrap();
    let document: Value = answer.body_mut().read_json().unwrap();
    assert_eq!(document["info"]["title"], "Maps");
    let all = operations(&document);
    for id in ["city.list", "atlas.find", "sum", "rpc", "tables"] {
        assert!(all.iter().any(|(_, _, one)| one["operationId"] == id), "{id}");
    }
    // Each is answered where it is said to stand, and not by another route's refusal.
    for (method, path, operation) in &all {
        let path = path.replace("{key}", "1");
        let request = ureq::http::Request::builder().method(&**method);
        let request = request.uri(url(&server, &path)).body(()).unwrap();
        let answer = agent().run(request).unwrap();
        assert_ne!(answer.status(), 405, "{method} {path}");
        let is_service = operation["tags"][0] == "atlas" || operation["tags"][0] == "sum";
        assert!(!is_service || answer.status() != 404, "{method} {path}");
    }
    server.shutdown().unwrap();
}
