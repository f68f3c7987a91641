//! Marmota's own tables are not reachable through the API, for anyone; and a store with accounts
//! is not served without authentication by mistake.

use marmota_http::Server;
use marmota_memory::Memory;
use marmota_model::{Field, Kind, Role, Schema};
use marmota_rest::Api;
use marmota_store::Store;
use marmota_store::rights::{Grant, Right};

use crate::auth::{Guarded, by, own};
use crate::client::Client;

const INTERNAL: [&str; 6] = [
    "marmota_user",
    "marmota_group",
    "marmota_session",
    "marmota_key",
    "marmota_counter",
    "marmota_history",
];

/// Each request that names a table, in each form.
fn requests(table: &str) -> Vec<(String, String)> {
    let mut requests: Vec<(String, String)> = [
        ("GET /api/{table}", ""),
        ("GET /api/{table}?zzz=1", ""),
        ("GET /api/{table}?filter=id%3E0", ""),
        ("GET /api/{table}/1", ""),
        ("GET /api/{table}/1/token", ""),
        ("GET /api/{table}/1/history", ""),
        ("DELETE /api/{table}/1", ""),
        ("DELETE /api/{table}?filter=id%3E0", ""),
        ("POST /api/{table}", r#"{"name":"eve"}"#),
        ("POST /api/{table}", r#"[{"name":"eve"}]"#),
        ("PATCH /api/{table}/1", r#"{"is_admin":true}"#),
        ("PUT /api/{table}/1", r#"{"is_admin":true}"#),
        ("PUT /api/{table}/1/token", "x"),
        ("POST /api/{table}/1/id/increment", r#"{"by":1}"#),
    ]
    .map(|(request, body)| (request.replace("{table}", table), body.to_owned()))
    .into();
    for operation in [
        r#"{"insert":"{table}","row":{"name":"eve"}}"#,
        r#"{"update":"{table}","key":1,"row":{"name":"eve"}}"#,
        r#"{"patch":"{table}","key":1,"row":{"is_admin":true}}"#,
        r#"{"increment":"{table}","key":1,"field":"id","by":1}"#,
        r#"{"delete":"{table}","key":1}"#,
    ] {
        let body = format!("{{\"operations\":[{}]}}", operation.replace("{table}", table));
        requests.push(("POST /api/batch".to_owned(), body));
    }
    requests
}

fn check(client: &mut Client, authorization: &str) {
    for table in INTERNAL {
        for (request, body) in requests(table) {
            let headers = [authorization, "Content-Type: application/json"];
            let answer = client.send(&request, &headers, body.as_bytes()).refuses(404);
            let text = answer.text();
            for secret in ["argon2", "is_admin", "token_ends_at", "of_key"] {
                assert!(!text.contains(secret), "{request} {body}: {text}");
            }
        }
        let lines = format!("{{\"patch\":\"{table}\",\"key\":1,\"row\":{{\"name\":\"eve\"}}}}\n");
        let headers = [authorization, "Content-Type: application/x-ndjson"];
        let answer = client.send("POST /api/batch", &headers, lines.as_bytes()).is(200).text();
        assert!(answer.contains("\"status\":404"), "{answer}");
        let insert = format!("POST /api/{table}");
        client.send(&insert, &headers, b"{\"name\":\"eve\"}\n").refuses(404);
        let lines = [authorization, "Accept: application/x-ndjson"];
        client.send(&format!("GET /api/{table}"), &lines, b"").refuses(404);
    }
    for document in ["/api", "/api/openapi.json"] {
        let text = client.send(&format!("GET {document}"), &[authorization], b"").is(200).text();
        let named = INTERNAL.iter().find(|table| text.contains(&format!("/{table}")));
        assert!(named.is_none(), "{document} names {named:?}");
    }
}

#[test]
fn no_caller_reaches_internal_tables() {
    let service = Guarded::new(Memory::new(), own());
    let admin = service.administrator();
    let (_, ann) = service.user("ann");
    let mut client = service.client();
    for token in [admin, ann] {
        check(&mut client, &format!("Authorization: Bearer {token}"));
    }
}

#[test]
fn not_even_where_everything_is_granted_to_anonymous_callers() {
    let all = || [Grant::new("*", &Right::ALL), Grant::new("note", &Right::ALL)];
    let service = Guarded::new(Memory::new(), own().anonymous(all()));
    check(&mut service.client(), "X-Nothing: 1");
}

#[test]
fn an_error_names_the_tables_of_the_caller_alone() {
    let none = Guarded::new(Memory::new(), marmota_auth::Settings::default());
    let (_, ann) = none.user("ann");
    let mut client = none.client();
    for table in ["nothing", "marmota_user"] {
        let answer = by(&mut client, &ann, &format!("GET /api/{table}?zzz=1"), "").refuses(404);
        assert!(!answer.text().contains("note"), "{}", answer.text());
    }
    // What the parameters of a table would be is told to those who may use it.
    let answer = by(&mut client, &ann, "GET /api/note?zzz=1", "").refuses(403);
    assert!(!answer.text().contains("owner"), "{}", answer.text());
    let own = Guarded::new(Memory::new(), own());
    let (_, ann) = own.user("ann");
    let mut client = own.client();
    by(&mut client, &ann, "GET /api/nothing", "").refuses(404).says("there are: note\"");
    by(&mut client, &ann, "GET /api/note?zzz=1", "").refuses(400).says("owner");
}

fn with_accounts() -> Store {
    let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    marmota_auth::models(Store::builder(Memory::new()).schema(city)).open().unwrap()
}

#[test]
fn a_store_with_accounts_is_not_served_without_authentication() {
    let store = with_accounts();
    let start = |router| Server::bind("127.0.0.1:0").unwrap().listeners(1).start(router);
    for router in [marmota_rest::api(&store), Api::new(&store).prefix("").router()] {
        let error = start(router).unwrap_err().to_string();
        assert!(error.contains("has accounts") && error.contains(".auth(&auth)"), "{error}");
    }
    let nested = marmota_http::Router::new().nest("/x", marmota_rest::api(&store));
    assert!(start(nested).is_err());
    let server = start(Api::new(&store).allow_anonymous().router()).unwrap();
    let mut client = Client::new(server.local_addr());
    client.get("/api/city").is(200);
    check(&mut client, "X-Nothing: 1");
}
