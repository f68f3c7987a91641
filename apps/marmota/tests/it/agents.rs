//! `mcp` with the client of the official SDK: of a database, and of a running server.

use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService, ServiceExt as _};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::{Value, json};

use crate::application::Served;
use crate::program::Folder;

const TABLES: &str = r#"
[tables.note]
audit = true

[tables.note.fields]
id = { kind = "integer", role = "key" }
text = "text"
secret = { kind = "text", default = "hidden" }

[tables.salary.fields]
id = { kind = "integer", role = "key" }
amount = "integer"

[[groups.reader.grants]]
table = "note"
rights = ["read"]
rule = "id > 1"
except = ["secret"]

[[groups.writer.grants]]
table = "note"
rights = ["read", "history", "insert", "update", "delete"]
"#;

/// The program, as an agent starts it.
struct Agent {
    client: RunningService<RoleClient, ()>,
    child: tokio::process::Child,
}

impl Agent {
    async fn start(folder: &Folder, words: &[&str]) -> Self {
        let mut program = folder.program(&[&["mcp"], words].concat());
        program.env_remove("MARMOTA_API_KEY");
        let mut program = tokio::process::Command::from(program);
        let program = program.stdin(std::process::Stdio::piped()).kill_on_drop(true);
        let mut child = program.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let streams = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        Self { client: ().serve(streams).await.unwrap(), child }
    }

    async fn names(&self) -> Vec<String> {
        let tools = self.client.list_all_tools().await.unwrap();
        tools.into_iter().map(|tool| tool.name.into_owned()).collect()
    }

    /// Calls a tool, and returns its text.
    async fn call(&self, tool: &'static str, arguments: Value) -> String {
        let Value::Object(arguments) = arguments else { panic!("{arguments}") };
        let request = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result = self.client.call_tool(request).await.unwrap();
        result.content[0].as_text().unwrap().text.clone()
    }

    /// Closes the connection; the program ends then.
    async fn end(mut self) {
        self.client.cancel().await.unwrap();
        assert!(self.child.wait().await.unwrap().success());
    }
}

#[test]
fn agents_have_the_rights_of_their_users() {
    let folder = Folder::new();
    std::fs::write(folder.0.path().join("app.toml"), TABLES).unwrap();
    folder.run(&["user", "add", "ann", "--group", "reader"]).with(0);
    folder.run(&["user", "add", "bob", "--group", "writer"]).with(0);
    folder.run(&["user", "add", "cat", "--admin"]).with(0);
    let key = folder.run(&["key", "add", "ann", "agent"]).with(0).trim().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let bob = Agent::start(&folder, &["--user", "bob", "--write"]).await;
        let all = ["delete_note", "get_note", "insert_note", "list_note", "update_note"];
        assert_eq!(bob.names().await, all);
        for text in ["one", "two"] {
            let values = json!({ "values": { "text": text } });
            assert!(bob.call("insert_note", values).await.contains(text));
        }
        bob.end().await;

        let cat = Agent::start(&folder, &["--user", "cat"]).await;
        assert_eq!(cat.names().await, ["get_note", "get_salary", "list_note", "list_salary"]);
        cat.end().await;

        // The reader's agent is a client of a running server.
        let served = Served::start_with(&folder, &["--auth"], &[]);
        let ann = Agent::start(&folder, &["--url", &served.url, "--key", &key, "--write"]).await;
        assert_eq!(ann.names().await, ["get_note", "list_note"]);
        let notes: Value = serde_json::from_str(&ann.call("list_note", json!({})).await).unwrap();
        assert_eq!(notes["rows"], json!([{ "id": 2, "text": "two" }]));
        let refused = ann.call("get_note", json!({ "key": 1 })).await;
        assert!(refused.starts_with("404: "), "{refused}");
        ann.end().await;
    });
    // The key of `--user` was revoked.
    assert_eq!(folder.run(&["key", "list", "bob"]).with(0), "");
    let said = folder.run(&["mcp", "--user", "dan"]).with(1);
    assert!(said.contains("there is no user `dan`"), "{said}");
    let said = folder.run(&["mcp", "--key", "wrong"]).with(1);
    assert!(said.contains("`GET /api/openapi.json` is refused: 401"), "{said}");
}

#[test]
fn a_server_has_tools_for_agents_if_they_are_permitted() {
    let folder = Folder::new();
    std::fs::write(folder.0.path().join("app.toml"), TABLES).unwrap();
    folder.run(&["user", "add", "bob", "--group", "writer"]).with(0);
    let key = folder.run(&["key", "add", "bob", "agent"]).with(0).trim().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // The HTTP client of the SDK needs one; it fails if another test has installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    runtime.block_on(async {
        let all = ["delete_note", "get_note", "insert_note", "list_note", "update_note"];
        let read = ["get_note", "list_note"];
        for (options, expected) in [(&["--mcp"], &read[..]), (&["--mcp-write"], &all)] {
            let served = Served::start_with(&folder, &[&["--auth"], &options[..]].concat(), &[]);
            let config =
                StreamableHttpClientTransportConfig::with_uri(format!("{}/mcp", served.url));
            let transport = StreamableHttpClientTransport::from_config(config.auth_header(&key));
            let client = ().serve(transport).await.unwrap();
            let tools = client.list_all_tools().await.unwrap();
            let names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
            assert_eq!(names, expected);
            assert_eq!(served.request("POST", "/mcp", "", &json!({})).0, 401);
            client.cancel().await.unwrap();
        }
        let served = Served::start_with(&folder, &["--auth"], &[]);
        assert_eq!(served.request("POST", "/mcp", &key, &json!({})).0, 404);
    });
}
