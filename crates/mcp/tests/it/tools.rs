//! Arguments of tools, and their limits.

use marmota_http::Router;
use marmota_mcp::{AgentServer, ApiClient, McpOptions};
use marmota_model::ErrorKind;
use serde_json::json;

use crate::world::{World, block_on};

#[test]
fn pages_continue_and_have_limits() {
    block_on(async {
        let world = World::new();
        let agent = world.agent("writer", McpOptions::new().rows_max(12)).await;
        let (mut next, mut texts) = (json!(null), Vec::new());
        loop {
            let arguments = match next.is_null() {
                true => json!({ "order": "-id", "fields": "id,text", "filter": "id > 1" }),
                false => json!({ "after": next }),
            };
            let page = agent.json("list_note", arguments).await;
            let rows = page["rows"].as_array().unwrap();
            assert!(rows.len() <= 12);
            texts.extend(rows.iter().map(|row| row["text"].as_str().unwrap().to_owned()));
            next = page["next"].clone();
            if next.is_null() {
                break;
            }
        }
        let wanted: Vec<String> = (2..=30).rev().map(|number| format!("note {number}")).collect();
        assert_eq!(texts, wanted);
        for (arguments, expected) in [
            (json!({ "limit": 13 }), "`limit` is 13; it must be a number from 1 to 12"),
            (json!({ "limit": "all" }), "it must be a number from 1 to 12"),
            (json!({ "after": "/api/note?limit=500" }), "`limit` is 500"),
            (json!({ "after": "/api/salary?limit=1" }), "`after` must be the member `next`"),
            (json!({ "after": "/api/note?limit=1&limit=2" }), "`after` must be the member `next`"),
            (
                json!({ "after": "/api/note? HTTP/1.1\r\nx: y" }),
                "`after` must be the member `next`",
            ),
            (json!({ "where": "id = 1" }), "there is no argument `where`"),
            (json!({ "filter": "id = = 1" }), "400: "),
        ] {
            let error = agent.error("list_note", arguments).await;
            assert!(error.contains(expected), "{error}");
        }
        // A key cannot lead to another route.
        let error = agent.error("get_note", json!({ "key": "../salary/1" })).await;
        assert!(error.starts_with("400: ") || error.starts_with("404: "), "{error}");
        let error = agent.error("get_note", json!({})).await;
        assert_eq!(error, "the argument `key` is missing");
    });
}

#[test]
fn a_large_answer_asks_for_less() {
    block_on(async {
        let world = World::new();
        let agent = world.agent("writer", McpOptions::new().bytes_max(500)).await;
        let error = agent.error("list_note", json!({})).await;
        assert!(error.contains("at most 500 are allowed: select fewer rows"), "{error}");
        agent.json("list_note", json!({ "limit": 2 })).await;
    });
}

#[test]
fn a_wrong_key_is_refused_at_the_start() {
    let world = World::new();
    let api =
        ApiClient::of_routes(marmota_rest::Api::new(&world.store).allow_anonymous().router(), None);
    assert!(AgentServer::new(api, McpOptions::new()).is_ok());
    let api = ApiClient::of_routes(Router::new(), None);
    let error = AgentServer::new(api, McpOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let error = ApiClient::at_url("ftp://example.org", None).unwrap_err();
    assert!(error.message().contains("`ftp://example.org` is not a URL"), "{error}");
}
