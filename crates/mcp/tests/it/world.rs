//! A database with three users, and agents that act for them.

use marmota_auth::{Auth, Settings};
use marmota_derive::Model;
use marmota_http::Router;
use marmota_mcp::{AgentServer, ApiClient, McpOptions};
use marmota_memory::Memory;
use marmota_rest::Api;
use marmota_store::Store;
use marmota_store::rights::{Grant, Right};
use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::{RoleClient, RunningService, ServiceExt as _};
use serde_json::Value;

#[derive(Clone, Debug, Model)]
#[model(audit)]
pub(crate) struct Note {
    pub(crate) id: i64,
    #[model(max = 100, not_empty)]
    pub(crate) text: String,
    pub(crate) secret: String,
    pub(crate) is_public: bool,
}

#[derive(Clone, Debug, Model)]
pub(crate) struct Salary {
    pub(crate) id: i64,
    pub(crate) amount: i64,
}

/// The database, and its users.
pub(crate) struct World {
    pub(crate) store: Store,
    auth: Auth,
}

impl World {
    /// Makes the users `reader` (public notes without their secrets), `writer` (all notes) and
    /// `admin`, and 30 notes, of which every third is public.
    pub(crate) fn new() -> Self {
        let builder = Store::builder(Memory::new()).model::<Note>().model::<Salary>();
        let store = marmota_auth::models(builder).open().unwrap();
        let auth = Auth::new(&store, Settings::default().password_cost(64, 1)).unwrap();
        let public = Grant::new("note", &[Right::Read]).rule("is_public = true").except(["secret"]);
        auth.set_group("reader", &[public]).unwrap();
        let all = [Right::Read, Right::Insert, Right::Update, Right::Delete];
        auth.set_group("writer", &[Grant::new("note", &all)]).unwrap();
        auth.add_user("reader", &["reader".to_owned()], false).unwrap();
        auth.add_user("writer", &["writer".to_owned()], false).unwrap();
        auth.add_user("chief", &[], true).unwrap();
        let note = |number: i64| Note {
            id: 0,
            text: format!("note {number}"),
            secret: format!("hidden {number}"),
            is_public: number % 3 == 0,
        };
        store.insert_many(&(1..=30).map(note).collect::<Vec<_>>()).run().unwrap();
        store.insert(&Salary { id: 0, amount: 7 }).run().unwrap();
        Self { store, auth }
    }

    /// Makes a key for a user.
    pub(crate) fn key(&self, user: &str) -> String {
        let users = self.auth.users().unwrap();
        let user = users.iter().find(|one| one.name == user).unwrap().id;
        self.auth.make_key_for(user, "agent", None).unwrap().1
    }

    pub(crate) fn api(&self) -> Router {
        Api::new(&self.store).auth(&self.auth).router()
    }

    /// Changes the grants of a group.
    pub(crate) fn grant(&self, group: &str, grants: &[Grant]) {
        self.auth.set_group(group, grants).unwrap();
    }

    /// Starts a server for a user, and connects a client.
    pub(crate) async fn agent(&self, user: &str, options: McpOptions) -> Agent {
        let api = ApiClient::of_routes(self.api(), Some(&self.key(user)));
        Agent::connect(AgentServer::new(api, options).unwrap()).await
    }
}

/// A client of the protocol.
pub(crate) struct Agent(pub(crate) RunningService<RoleClient, ()>);

impl Agent {
    pub(crate) async fn connect(server: AgentServer) -> Self {
        let (of_server, of_client) = tokio::io::duplex(64 * 1024);
        tokio::spawn(async move {
            if let Ok(service) = server.serve(of_server).await {
                let _ = service.waiting().await;
            }
        });
        Self(().serve(of_client).await.unwrap())
    }

    pub(crate) async fn tools(&self) -> Vec<rmcp::model::Tool> {
        self.0.list_all_tools().await.unwrap()
    }

    pub(crate) async fn names(&self) -> Vec<String> {
        self.tools().await.into_iter().map(|tool| tool.name.into_owned()).collect()
    }

    async fn call(&self, tool: &str, arguments: Value) -> CallToolResult {
        let Value::Object(arguments) = arguments else { panic!("{arguments}") };
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        self.0.call_tool(request).await.unwrap()
    }

    /// Calls a tool that succeeds, and returns its JSON.
    pub(crate) async fn json(&self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await;
        let text = text(&result);
        assert_ne!(result.is_error, Some(true), "{text}");
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }

    /// Calls a tool that fails, and returns the error.
    pub(crate) async fn error(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result.is_error, Some(true), "{result:?}");
        text(&result)
    }
}

fn text(result: &CallToolResult) -> String {
    result.content[0].as_text().unwrap().text.clone()
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
