//! `mcp`: the tables as tools for an agent, by the Model Context Protocol over standard input and
//! output.
//!
//! ```text
//! {"mcpServers":{"shop":{"command":"marmota","args":["mcp","--url","https://shop.example.org"]}}}
//! ```
//!
//! | option | the agent's rights |
//! |---|---|
//! | `--key`, `MARMOTA_API_KEY` | those of the key's user |
//! | `--user`, for a database | those of the user |
//! | neither | those of anonymous callers; all rows of a program without accounts |
//!
//! Standard output belongs to the protocol. The log, with a line for each call, is on standard error.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use marmota_auth::Auth;
use marmota_http::Router;
use marmota_mcp::{AgentRoute, AgentServer, ApiClient, McpOptions};
use marmota_model::{Error, ErrorKind, Result};
use marmota_rest::Api;
use marmota_store::Store;
use marmota_store::change::ChangeRetention;

use crate::command::account::{open_accounts, user_id};
use crate::command::{Command, Database, Done};

/// The time for which the key of `--user` is valid if the program is killed before it revokes it.
const KEY_VALID_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// The actor of writes to a database without accounts.
const ACTOR: &str = "mcp";

/// Serves the tables to an agent: the Model Context Protocol over standard input and output
///
/// The tools are made from the tables that the caller may use. There are no tools for writes without
/// --write. See the guide, 50-agents.md.
#[derive(Args)]
pub(in crate::command) struct Mcp {
    /// The URL of a running server, instead of a database
    #[arg(long, value_name = "URL", conflicts_with = "user")]
    url: Option<String>,
    #[command(flatten)]
    database: Database,
    /// The API key of the agent: its user's rights apply
    #[arg(long, value_name = "KEY", env = "MARMOTA_API_KEY", hide_env_values = true)]
    key: Option<String>,
    /// The user of the database whose rights apply
    #[arg(long, value_name = "NAME", conflicts_with = "key")]
    user: Option<String>,
    /// Add tools that insert, update and delete rows
    #[arg(long)]
    write: bool,
    /// The maximum number of rows of an answer
    #[arg(long, value_name = "ROWS", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    rows_max: u64,
    /// The maximum size of an answer in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 256 * 1024)]
    bytes_max: usize,
    /// Filter of the log on stderr; each call of a tool is an `info` of `marmota::mcp`
    #[arg(long, value_name = "FILTER", default_value = "warn,marmota::mcp=info")]
    log: String,
}

/// The options of `serve` for agents.
#[derive(Args)]
pub(in crate::command) struct ServeMcp {
    /// Serves agents by the Model Context Protocol at /mcp, under the rights of their tokens; read-only;
    /// see the guide, 50-agents.md
    #[arg(long)]
    mcp: bool,
    /// Adds the tools that insert, update and delete rows; it implies --mcp
    #[arg(long)]
    mcp_write: bool,
    /// The maximum number of rows of an answer to an agent
    #[arg(long, value_name = "ROWS", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    mcp_rows_max: u64,
    /// The maximum size of an answer to an agent
    #[arg(long, value_name = "BYTES", default_value_t = 256 * 1024)]
    mcp_bytes_max: usize,
    /// The number of requests per second of one token, or of one address without tokens (429)
    #[arg(long, value_name = "PER_SECOND", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..))]
    mcp_rate: u32,
    /// The number of requests that it may send at once
    #[arg(long, value_name = "COUNT", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..))]
    mcp_rate_burst: u32,
}

impl ServeMcp {
    /// Adds the route for agents to other routes, over the routes of an API.
    pub(in crate::command) fn add_to(
        &self,
        routes: Router,
        has_accounts: bool,
        api: impl FnOnce() -> Api,
    ) -> Router {
        if !self.mcp && !self.mcp_write {
            return routes;
        }
        let api = match has_accounts {
            true => api(),
            false => api().actor(|_| Some(ACTOR.to_owned())),
        };
        let options = McpOptions::new()
            .allow_writes(self.mcp_write)
            .rows_max(self.mcp_rows_max)
            .bytes_max(self.mcp_bytes_max);
        let route = AgentRoute::new(api.router(), options)
            .require_token(has_accounts)
            .rate(self.mcp_rate.into(), self.mcp_rate_burst);
        routes.nest("", route.router())
    }
}

impl Mcp {
    /// Serves until the agent closes standard input.
    ///
    /// # Errors
    /// A server or database that cannot be reached, a caller without rights, and an invalid filter.
    pub(in crate::command) fn run(&self, command: &Command) -> Done {
        // A program may have started its own log.
        if let Err(error) = crate::Log::start(&self.log)
            && error.kind() == ErrorKind::Invalid
        {
            return Err(error.into());
        }
        match &self.url {
            Some(url) => self.serve(ApiClient::at_url(url, self.key.as_deref())?)?,
            None => self.serve_database(command)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn serve(&self, api: ApiClient) -> Result<()> {
        let options = McpOptions::new()
            .allow_writes(self.write)
            .rows_max(self.rows_max)
            .bytes_max(self.bytes_max);
        AgentServer::new(api, options)?.serve_stdio()
    }

    fn serve_database(&self, command: &Command) -> Result<()> {
        let url = command.url(&self.database);
        let tables = command.builder(url)?.existing_tables()?.unwrap_or_default();
        let has = |name: &str| tables.iter().any(|table| table == name);
        let mut builder = command.builder(url)?;
        // Writes have to be recorded if a server of this database records changes.
        if has("marmota_commit") {
            builder = builder.changes(ChangeRetention::default());
        }
        let has_accounts = has("marmota_user");
        if has_accounts {
            builder = marmota_auth::models(builder);
        }
        let store = builder.open()?;
        let served = match has_accounts {
            true => self.serve_with_accounts(command, &store),
            false if self.user.is_some() || self.key.is_some() => {
                let message = "the database has no accounts: leave `--user` and `--key` out; is \
                               --db right?";
                Err(Error::new(ErrorKind::NotFound, message))
            }
            false => {
                let routes = Api::new(&store).actor(|_| Some(ACTOR.to_owned())).router();
                self.serve(ApiClient::of_routes(routes, None))
            }
        };
        store.close()?;
        served
    }

    fn serve_with_accounts(&self, command: &Command, store: &Store) -> Result<()> {
        let auth = open_accounts(command, store)?;
        let routes = |auth: &Auth| Api::new(store).auth(auth).router();
        let Some(user) = &self.user else {
            return self.serve(ApiClient::of_routes(routes(&auth), self.key.as_deref()));
        };
        let user = user_id(&auth, user)?;
        let (id, key) = auth.make_key_for(user, "mcp", Some(KEY_VALID_FOR))?;
        let served = self.serve(ApiClient::of_routes(routes(&auth), Some(&key)));
        auth.revoke_key(user, id)?;
        served
    }
}
