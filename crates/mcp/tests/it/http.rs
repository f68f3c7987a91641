//! The protocol over HTTP, by the client of the official SDK, under the tokens of three users.

use marmota_http::{RunningServer, Server, Status, TestRequest};
use marmota_mcp::{AgentRoute, McpOptions};
use marmota_store::rights::{Grant, Right};
use rmcp::service::ServiceExt as _;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::{Value, json};

use crate::world::{Agent, World, block_on};

fn serve(world: &World, options: McpOptions) -> (RunningServer, String) {
    let routes = AgentRoute::new(world.api(), options).require_token(true).router();
    let server = Server::bind("127.0.0.1:0").unwrap();
    let url = format!("{}/mcp", server.url());
    (server.start(routes).unwrap(), url)
}

async fn connect(url: &str, key: &str) -> Option<Agent> {
    // The HTTP client of the SDK needs one; it fails if another test has installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = StreamableHttpClientTransportConfig::with_uri(url.to_owned()).auth_header(key);
    let client = ().serve(StreamableHttpClientTransport::from_config(config)).await;
    client.ok().map(Agent)
}

#[test]
fn three_users_have_the_rights_of_their_tokens() {
    block_on(async {
        let world = World::new();
        let (server, url) = serve(&world, McpOptions::new().allow_writes(true));
        let (reader, writer, chief) =
            (world.key("reader"), world.key("writer"), world.key("chief"));
        let reader = connect(&url, &reader).await.unwrap();
        let writer = connect(&url, &writer).await.unwrap();
        let chief = connect(&url, &chief).await.unwrap();
        assert_eq!(reader.names().await, ["get_note", "list_note"]);
        let of_notes = ["delete_note", "get_note", "insert_note", "list_note", "update_note"];
        assert_eq!(writer.names().await, of_notes);
        assert_eq!(chief.names().await.len(), 10);

        let notes = reader.json("list_note", json!({ "count": true })).await;
        assert_eq!(notes["count"], 10);
        assert!(!notes.to_string().contains("hidden"), "{notes}");
        let values = json!({ "text": "new", "secret": "s", "is_public": false });
        let id = writer.json("insert_note", json!({ "values": values })).await["id"].clone();
        let hidden = reader.error("get_note", json!({ "key": id })).await;
        assert!(hidden.starts_with("404: "), "{hidden}");
        assert_eq!(chief.json("get_note", json!({ "key": id })).await["secret"], "s");
        let error = reader.error("insert_note", json!({ "values": values })).await;
        assert_eq!(error, "there is no tool `insert_note`");
        let history = world.store.list::<marmota_store::History>().run().unwrap();
        assert_eq!(history.last().unwrap().actor.as_deref(), Some("writer"));

        // Another right applies to the next request.
        world.grant("reader", &[Grant::new("note", &[Right::Read])]);
        assert_eq!(reader.json("get_note", json!({ "key": id })).await["secret"], "s");
        server.shutdown().unwrap();
    });
}

#[test]
fn agents_read_only_and_within_limits_by_default() {
    block_on(async {
        let world = World::new();
        let (server, url) = serve(&world, McpOptions::new().rows_max(5).bytes_max(900));
        let chief = connect(&url, &world.key("chief")).await.unwrap();
        assert_eq!(chief.names().await, ["get_note", "get_salary", "list_note", "list_salary"]);
        let error = chief.error("delete_note", json!({ "key": 1 })).await;
        assert_eq!(error, "there is no tool `delete_note`");
        let page = chief.json("list_note", json!({})).await;
        assert_eq!(page["rows"].as_array().unwrap().len(), 5);
        let error = chief.error("list_note", json!({ "limit": 6 })).await;
        assert!(error.contains("a number from 1 to 5"), "{error}");
        server.shutdown().unwrap();
        let (server, url) = serve(&world, McpOptions::new().bytes_max(300));
        let chief = connect(&url, &world.key("chief")).await.unwrap();
        let error = chief.error("list_note", json!({})).await;
        assert!(error.contains("300"), "{error}");
        chief.json("list_note", json!({ "limit": 1 })).await;
        server.shutdown().unwrap();
    });
}

#[test]
fn a_token_has_a_rate_of_requests() {
    let world = World::new();
    let route = AgentRoute::new(world.api(), McpOptions::new()).require_token(true);
    let router = route.rate(0.1, 3).router();
    let request = |key: &str| {
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        let request = TestRequest::post("/mcp").json(&list);
        let request = request.header("Accept", "application/json, text/event-stream");
        router.call(request.header("Authorization", format!("Bearer {key}"))).unwrap()
    };
    let (chief, reader) = (world.key("chief"), world.key("reader"));
    for _ in 0..3 {
        assert_eq!(request(&chief).status(), Status::OK);
    }
    let refused = request(&chief);
    assert_eq!(refused.status(), Status::TOO_MANY_REQUESTS);
    let seconds: u64 = refused.header("Retry-After").unwrap().parse().unwrap();
    assert!((1..=10).contains(&seconds), "{seconds}");
    assert_eq!(request(&reader).status(), Status::OK);
}

#[test]
fn requests_without_a_valid_token_are_refused() {
    let world = World::new();
    let key = world.key("chief");
    let router = AgentRoute::new(world.api(), McpOptions::new()).require_token(true).router();
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let request = |headers: &[(&str, &str)]| {
        let mut request = TestRequest::post("/mcp").json(&list);
        for (name, value) in
            [("Accept", "application/json, text/event-stream")].iter().chain(headers)
        {
            request = request.header(name, value);
        }
        router.call(request).unwrap()
    };
    let bearer = format!("Bearer {key}");
    let answer = request(&[("Authorization", &bearer)]);
    assert_eq!(answer.status(), Status::OK, "{}", answer.text());
    let answer: Value = serde_json::from_str(answer.text()).unwrap();
    assert_eq!(answer["result"]["tools"].as_array().unwrap().len(), 4);
    let basic = [("Authorization", "Basic YTpi")];
    for headers in [&[][..], &[("Authorization", "Bearer wrong")], &basic, &[("Cookie", &bearer)]] {
        let answer = request(headers);
        assert_eq!(answer.status(), Status::UNAUTHORIZED, "{headers:?}: {}", answer.text());
        assert_eq!(answer.header("WWW-Authenticate"), Some("Bearer"));
    }
    let page = [("Authorization", &*bearer), ("Origin", "https://evil.example")];
    assert_eq!(request(&page).status(), Status::FORBIDDEN);
    let get = router.call(TestRequest::get("/mcp")).unwrap();
    assert_eq!(get.status(), Status::METHOD_NOT_ALLOWED);
    let wrong = TestRequest::post("/mcp").header("Authorization", &bearer).body("{");
    assert!((400..500).contains(&router.call(wrong).unwrap().status().code()));
    let large =
        TestRequest::post("/mcp").header("Authorization", &bearer).body(vec![b' '; 2 << 20]);
    assert_eq!(router.call(large).unwrap().status(), Status::CONTENT_TOO_LARGE);
}
