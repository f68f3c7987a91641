//! The options of `serve`.

#[cfg(feature = "files")]
mod file_options;
mod http_limits;
mod rest_options;
mod session_options;
mod store_options;
mod thread_options;

use clap::Args;

#[cfg(feature = "files")]
use self::file_options::FileStorageOptions;
use self::http_limits::HttpLimits;
use self::rest_options::RestOptions;
use self::session_options::SessionOptions;
use self::store_options::StoreOptions;
use self::thread_options::ThreadOptions;
use super::access_log_file::AccessLogOptions;
#[cfg(feature = "mail")]
use super::accounts::AccountOptions;
use super::layers::LayerOptions;
use super::operators::Operators;
use super::tls::TlsOptions;
use crate::command::Database;
#[cfg(feature = "mcp")]
use crate::command::background::ServeMcp;
use crate::command::background::ServeWebhooks;
#[cfg(feature = "replication")]
use crate::command::replicate::Replicate;

/// Serves the models over HTTP; the default if no subcommand is named
#[derive(Args)]
pub(in crate::command) struct Serve {
    /// Where to listen: ADDRESS:PORT, unix:FILE or unix:@NAME; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen: Vec<String>,
    /// Lets other processes with this option listen on the same ports; see the guide, 10-server.md
    #[arg(long)]
    pub(super) reuse_port: bool,
    /// Permissions of Unix sockets, for example 660; the umask decides if not given
    #[arg(long, value_name = "OCTAL", value_parser = octal)]
    pub(super) socket_mode: Option<u32>,
    /// Trusted proxies, whose forwarding headers are used: addresses, networks, unix
    #[arg(long, value_name = "NET", value_delimiter = ',')]
    pub(super) trusted_proxies: Vec<String>,
    /// The header with the client's address: x-forwarded (X-Forwarded-For, -Proto and -Host) or
    /// forwarded (RFC 7239). The other one is ignored
    #[arg(long, value_name = "NAME", default_value = "x-forwarded",
          value_parser = ["x-forwarded", "forwarded"])]
    pub(super) forwarded_header: String,
    /// Proxies whose connections begin with a header of the PROXY protocol, in the same form
    #[arg(long, value_name = "NET", value_delimiter = ',')]
    pub(super) proxy_protocol: Vec<String>,
    /// Origins whose pages may also write, call services and open WebSockets:
    /// https://app.example.org
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',')]
    pub(super) allow_origin: Vec<String>,
    /// Additional host names that Host may have in requests over the loopback interface; localhost
    /// and the names in --listen are always allowed
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(super) allow_host: Vec<String>,
    /// Serves addresses other than those of this machine without authenticating callers: every
    /// client that reaches them can read and write all rows
    #[arg(long)]
    pub(super) open: bool,
    #[command(flatten)]
    pub(super) database: Database,
    /// Authenticates callers: users and groups in the database, rights by group; see the guide,
    /// 09-auth-and-rights.md
    #[arg(long)]
    pub(super) auth: bool,
    #[cfg(feature = "mail")]
    #[command(flatten)]
    pub(super) accounts: AccountOptions,
    /// Leaves out the pages: the start page at /, the administration at /admin, and the API
    /// documentation at /docs; see the guide, 46-admin.md
    #[cfg(feature = "admin")]
    #[arg(long)]
    pub(super) no_admin: bool,
    /// Leaves out the route and the page with which administrators read by SQL, /api/-/sql
    #[cfg(feature = "app")]
    #[arg(long)]
    pub(super) no_sql: bool,
    /// Lets administrators change rows by SQL too, without rules, hooks and history
    #[cfg(feature = "app")]
    #[arg(long, conflicts_with = "no_sql")]
    pub(super) sql_write: bool,
    /// The header `Server` of answers; empty for none
    #[arg(long, value_name = "NAME", default_value = "Marmota")]
    pub(super) server_name: String,
    #[command(flatten)]
    pub(super) threads: ThreadOptions,
    #[command(flatten)]
    pub(super) tls: TlsOptions,
    #[command(flatten)]
    pub(super) sessions: SessionOptions,
    #[cfg(feature = "files")]
    #[command(flatten)]
    pub(super) files: FileStorageOptions,
    #[command(flatten)]
    pub(super) store: StoreOptions,
    #[command(flatten)]
    pub(super) rest: RestOptions,
    #[command(flatten)]
    pub(super) layers: LayerOptions,
    #[command(flatten)]
    pub(super) operators: Operators,
    #[command(flatten)]
    pub(super) access_log: AccessLogOptions,
    #[command(flatten)]
    pub(super) limits: HttpLimits,
    #[command(flatten)]
    pub(super) webhooks: ServeWebhooks,
    #[cfg(feature = "mcp")]
    #[command(flatten)]
    pub(super) mcp: ServeMcp,
    #[cfg(feature = "replication")]
    #[command(flatten)]
    pub(super) replicate: Replicate,
}

/// Parses permissions of a Unix socket: three octal digits.
fn octal(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("permissions must be three octal digits, such as 660".to_owned()),
    }
}
