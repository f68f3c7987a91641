//! A server of the Model Context Protocol (<https://modelcontextprotocol.io>): the tables of a REST
//! API as tools for agents.
//!
//! The tools are made from the OpenAPI document of the API, which has what the caller may do, and
//! each call of a tool is a request to the API. So rights, rules, history and limits are those of
//! REST, and what a rule hides from the caller is not there.
//!
//! ```no_run
//! use marmota_mcp::{AgentServer, ApiClient, McpOptions};
//! let api = ApiClient::at_url("https://shop.example.org", Some("mk_…"))?;
//! AgentServer::new(api, McpOptions::new())?.serve_stdio()?;
//! # Ok::<(), marmota_model::Error>(())
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "http")]
mod agent_route;
mod agent_server;
mod api_client;
mod options;
mod tools;

#[cfg(feature = "http")]
pub use agent_route::AgentRoute;
pub use agent_server::AgentServer;
pub use api_client::ApiClient;
pub use options::McpOptions;
