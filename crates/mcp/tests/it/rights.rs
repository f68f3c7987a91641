//! What a rule hides from a user is not there for the user's agent.

use marmota_mcp::McpOptions;
use serde_json::json;

use crate::world::{World, block_on};

#[test]
fn a_reader_sees_public_notes_without_secrets() {
    block_on(async {
        let world = World::new();
        let agent = world.agent("reader", McpOptions::new().allow_writes(true)).await;
        assert_eq!(agent.names().await, ["get_note", "list_note"]);
        let tools = format!("{:?}", agent.tools().await);
        assert!(!tools.contains("secret") && !tools.contains("salary"), "{tools}");
        let notes = agent.json("list_note", json!({ "count": true })).await;
        assert_eq!((notes["rows"].as_array().unwrap().len(), &notes["count"]), (10, &json!(10)));
        assert!(!notes.to_string().contains("hidden"), "{notes}");
        assert_eq!(agent.json("get_note", json!({ "key": 3 })).await["text"], "note 3");
        for (tool, arguments) in [
            ("get_note", json!({ "key": 1 })),
            ("list_note", json!({ "filter": "secret ~ 'hidden'" })),
            ("list_note", json!({ "fields": "secret" })),
            ("list_salary", json!({})),
            ("update_note", json!({ "key": 3, "values": { "text": "x" } })),
        ] {
            let error = agent.error(tool, arguments).await;
            assert!(!error.contains("hidden 1") && !error.contains("salary;"), "{error}");
        }
    });
}

#[test]
fn a_writer_writes_notes_in_its_own_name() {
    block_on(async {
        let world = World::new();
        let agent = world.agent("writer", McpOptions::new().allow_writes(true)).await;
        let all = ["delete_note", "get_note", "insert_note", "list_note", "update_note"];
        assert_eq!(agent.names().await, all);
        let values = json!({ "text": "new", "secret": "s", "is_public": false });
        let id = agent.json("insert_note", json!({ "values": values })).await["id"].clone();
        let change = json!({ "key": id, "values": { "text": "newer" } });
        assert_eq!(agent.json("update_note", change).await["text"], "newer");
        let wrong = json!({ "key": id, "values": { "text": "" } });
        let error = agent.error("update_note", wrong).await;
        assert!(error.starts_with("422: ") && error.contains("not_empty"), "{error}");
        agent.json("delete_note", json!({ "key": id })).await;
        let error = agent.error("get_note", json!({ "key": id })).await;
        assert!(error.starts_with("404: "), "{error}");
        // The record: who has written which values.
        let history = world.store.list::<marmota_store::History>().run().unwrap();
        let by_agent: Vec<&str> =
            history.iter().filter_map(|entry| entry.actor.as_deref()).collect();
        assert_eq!(by_agent, ["writer", "writer", "writer"]);
    });
}

#[test]
fn an_administrator_has_all_tables_and_no_writes_by_default() {
    block_on(async {
        let world = World::new();
        let agent = world.agent("chief", McpOptions::new()).await;
        assert_eq!(agent.names().await, ["get_note", "get_salary", "list_note", "list_salary"]);
        for tool in agent.tools().await {
            assert_eq!(tool.annotations.unwrap().read_only_hint, Some(true));
            let arguments = tool.input_schema["properties"].as_object().unwrap();
            assert!(arguments.values().all(serde_json::Value::is_object), "{arguments:?}");
        }
        let salaries = agent.json("list_salary", json!({})).await;
        assert_eq!(salaries["rows"][0]["amount"], 7);
        let error = agent.error("delete_note", json!({ "key": 1 })).await;
        assert_eq!(error, "there is no tool `delete_note`");
    });
}
