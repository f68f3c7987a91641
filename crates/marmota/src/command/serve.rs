//! `serve`: serves the program's models over HTTP until a signal ends it.
//!
//! The order of a start: the options are checked, the database is opened (and migrated), the log is
//! started, the addresses are bound, signal handlers are installed, the addresses are printed, and
//! the routes are served. SIGINT or SIGTERM ends it: no connection is accepted any more, requests in
//! progress are answered, then the database is closed. A second signal ends the process at once.
//!
//! | options | file |
//! |---|---|
//! | addresses, proxies | `serve/options.rs` |
//! | threads and listeners | `serve/options/thread_options.rs` |
//! | sessions, tokens, limits of accounts | `serve/options/session_options.rs` |
//! | files | `serve/options/file_options.rs` |
//! | TLS | `serve/tls.rs` |
//! | limits of HTTP | `serve/options/http_limits.rs` |
//! | CORS, the rate limit, security headers | `serve/layers.rs` |
//! | the access log | `serve/access_log_file.rs` |
//! | statistics, metrics, health, the log | `serve/operators.rs` |
//! | durability, cache, idempotency, changes, history | `serve/options/store_options.rs` |
//! | pages, batches, compression of REST | `serve/options/rest_options.rs` |
//! | replication | `replicate.rs` |
//! | webhooks, agents | `background/webhook.rs`, `background/mcp.rs` |
//! | tables and groups of a file, settings of a file | `application.rs` |
//!
//! `serve/database.rs` opens the database and what belongs to it; `serve/live.rs` opens it again with
//! other tables, or replaces it (`serve/live/moving.rs`), while the server runs. SIGHUP reads the settings again (`serve/reload.rs`).
//!
//! What is served:
//!
//! | route | if |
//! |---|---|
//! | `/api`: REST over all models | the program has no custom routes |
//! | `/api`, by upgrade: the store for other processes | the same, with the feature `remote` |
//! | `/api/auth`: accounts | `--auth` |
//! | `/api/-/webhooks`: webhooks | `--webhooks`, or the file of tables has webhooks |
//! | `/mcp`: agents | `--mcp` |
//! | `/api/-/access`: what users may do | `--auth` |
//! | `/api/-/jobs`: jobs | the database has some, by mails, webhooks or backups |
//! | `/api/-/log`: the last lines of the logs | `--live-log`, `--auth` |
//! | `/api/-/backups`: backups in a folder | `--backups`, `--auth` |
//! | `/api/-/move`: moves to another database | `--auth` |
//! | `/api/-/replication`: the state of the replication | `--replicate-to`, `--replica-of` |
//! | `/api/-/sql`: SQL for administrators; it writes with `--sql-write` | `--auth`, and not `--no-sql` |
//! | `/metrics`, `/healthz`, `/readyz`, `/api/-` | `--diagnostics` |
//! | the program's own routes | it has some; then `--auth` and `--files` are refused |
//!
//! An address that other machines reach is refused without `--auth`, `--open` or certificates of
//! clients, because every caller could read and write all rows.

mod access_log_file;
#[cfg(feature = "mail")]
mod accounts;
mod database;
#[cfg(feature = "app")]
mod editing;
mod layers;
#[cfg(feature = "app")]
mod live;
mod operators;
mod option_values;
mod options;
#[cfg(feature = "app")]
mod reload;
mod routes;
mod service_manager;
mod tls;

use std::net::SocketAddr;
use std::process::ExitCode;

use marmota_http::{ForwardedHeader, Server, ToAddresses};
use marmota_model::Result;
use marmota_store::StoreBuilder;
use marmota_store::plan::Destructive;

use self::access_log_file::Reopen;
use self::database::OpenDatabase;
use self::layers::LayerSlot;
use self::operators::Watch;
pub(super) use self::options::Serve;
use self::routes::RouteParts;
use super::{Command, Done, notice};

impl Serve {
    /// Serves until a signal. Errors of the start are returned before an address is printed.
    ///
    /// The routes are made after the addresses are bound, because a greeting and the setup token of
    /// the first administrator name the URL.
    pub(super) fn run(&self, command: &Command) -> Done {
        let listen: Vec<&str> = match &*self.listen {
            [] => vec![command.listen],
            listen => listen.iter().map(String::as_str).collect(),
        };
        self.check_open(command, &listen)?;
        let url = self.store.with_durability(command.url(&self.database))?;
        let url = &*url;
        let is_new = !crate::restore::is_there(url);
        let layers = LayerSlot::default();
        layers.set(self.layers.layers()?, false);
        let reopen = Reopen::default();
        #[cfg(feature = "files")]
        if self.files.is_on() && command.routes.is_some() {
            let message = "this program has its own routes, which have no storage of files: leave \
                           `--files` out";
            return Err(message.into());
        }
        let database = OpenDatabase::open(self, command, url, &Destructive::default(), None)?;
        let watch = self.operators.begin()?;
        let access_log = self.access_log.open(&reopen, watch.recent.as_ref())?;
        log::info!(target: "marmota", "starting: {}", super::program::line(command.version));
        #[cfg(feature = "replication")]
        watch.show_replication(database.replication.clone());
        let app_greeting = command.app_greeting()?;
        // A replica has what was inserted into its primary.
        if !database.is_replica() && app_greeting.is_none() {
            (command.seed)(&database.store)?;
        }
        let mut server = self.bind(command, &listen)?;
        if let Some(log) = &access_log {
            server = server.access_log(log);
        }
        server = server.on_start(service_manager::started);
        server = server.on_reload(self.reloading(command, &layers, &reopen, &watch));
        // A supervisor that reads the address may send a signal at once, so the handlers come
        // first.
        server = server.receive_signals()?;
        let address = server.url();
        notice(match app_greeting {
            Some(greeting) => greeting(&address),
            None => (command.greeting)(&address),
        });
        if is_new {
            let file = url.split('?').next().unwrap_or(url);
            notice(format_args!("Created the database {file}."));
        }
        log::info!(target: "marmota", "listening on {address}");
        for address in self.listen.iter().skip(1) {
            log::info!(target: "marmota", "listening on {address}");
        }
        if let Some(metrics) = &watch.metrics {
            server = server.metrics(metrics);
        }
        let parts = RouteParts { command, url: &address, watch: &watch, layers: &layers };
        let mut database = self.serve(server, database, &parts)?;
        service_manager::stopping();
        log::info!(target: "marmota", "shutdown: no connection is open; closing the database");
        watch.end();
        database.close()?;
        log::info!(target: "marmota", "shutdown: closed cleanly");
        notice("Closed cleanly.");
        Ok(ExitCode::SUCCESS)
    }

    /// Binds to the addresses, with the settings of the server.
    fn bind(
        &self,
        command: &Command,
        listen: &[&str],
    ) -> Result<Server, Box<dyn std::error::Error>> {
        let mut addresses = listen.iter();
        let first = addresses.next().copied().unwrap_or(command.listen);
        let mut server =
            if self.reuse_port { Server::bind_shared(first) } else { Server::bind(first) }?;
        for address in addresses {
            server = server.also_bind(*address)?;
        }
        if let Some(mode) = self.socket_mode {
            server = server.socket_mode(mode);
        }
        server = server.trusted_proxies(&self.trusted_proxies);
        if self.forwarded_header == "forwarded" {
            server = server.forwarded_header(ForwardedHeader::Forwarded);
        }
        server = server.allowed_origins(&self.allow_origin);
        let named = listen.iter().copied().filter_map(host_name);
        server = server.allowed_hosts(self.allow_host.iter().map(String::as_str).chain(named));
        if !self.proxy_protocol.is_empty() {
            server = server.proxy_protocol(&self.proxy_protocol);
        }
        if let Some(tls) = self.tls.tls() {
            server = server.tls(tls);
            if let Some(address) = &self.tls.redirect {
                server = server.redirect(address)?;
            }
        }
        server = server.name(&self.server_name).limits(self.limits.limits());
        Ok(self.threads.apply_to(server)?)
    }

    /// Serves until the end. Returns the database, which is open. If there are administrators, they
    /// can change the tables of a file meanwhile, and the database.
    fn serve(
        &self,
        server: Server,
        mut database: OpenDatabase,
        parts: &RouteParts<'_>,
    ) -> Result<OpenDatabase, Box<dyn std::error::Error>> {
        database.start(self, parts)?;
        #[cfg(feature = "app")]
        if self.auth {
            let (events, received) = std::sync::mpsc::channel();
            let changes = marmota_http::RouteChanges::new();
            let routes = self.routes(parts, &database, Some(&events))?;
            self.greet(&routes, parts.url);
            let running = server.route_changes(&changes).start(routes)?;
            let live = live::LiveServer {
                serve: self,
                parts,
                changes,
                events,
                database,
                role: None,
                live_move: None,
                latest: None,
            };
            return live.run(running, &received);
        }
        let routes = self.routes(parts, &database, None)?;
        self.greet(&routes, parts.url);
        server.run(routes)?;
        Ok(database)
    }

    /// Adds to the builder of a store the tables and layers that the options request.
    ///
    /// # Errors
    /// Those of the file of tables, which may have webhooks.
    fn extend(&self, command: &Command, builder: StoreBuilder) -> Result<StoreBuilder> {
        let builder = if self.auth { marmota_auth::models(builder) } else { builder };
        #[cfg(feature = "mail")]
        let builder = match self.accounts.sends_mails() {
            true => accounts::Mails::models(builder),
            false => builder,
        };
        let has_webhooks = self.webhooks.are_enabled(command)?;
        let builder = self.store.apply_to(builder, has_webhooks);
        let builder = if has_webhooks { marmota_webhooks::models(builder) } else { builder };
        #[cfg(feature = "replication")]
        let is_replica = self.replicate.is_replica();
        #[cfg(not(feature = "replication"))]
        let is_replica = false;
        let builder = self.operators.backups.models(builder, is_replica);
        Ok(self.operators.observing(builder))
    }

    /// Checks settings that exclude each other, as the start does.
    ///
    /// # Errors
    /// The first settings that do.
    #[cfg(feature = "app")]
    pub(super) fn check_settings(
        &self,
        command: &Command,
    ) -> Result<(), Box<dyn std::error::Error>> {
        self.store.with_durability(command.url(&self.database))?;
        self.layers.layers()?;
        self.threads.check()?;
        Ok(())
    }

    /// Returns the function for SIGHUP: it opens the access log again, and applies the settings that
    /// have changed.
    fn reloading(
        &self,
        command: &Command,
        layers: &LayerSlot,
        reopen: &Reopen,
        watch: &Watch,
    ) -> impl Fn() + Send + 'static {
        let reopen = reopen.clone();
        #[cfg(feature = "app")]
        let reload = reload::Reload::new(command, layers, watch);
        #[cfg(not(feature = "app"))]
        let _ = (command, layers, watch);
        move || {
            service_manager::reloading();
            reopen.request();
            #[cfg(feature = "app")]
            if let Some(reload) = &reload {
                reload.run();
            }
            service_manager::reloaded();
        }
    }

    /// Refuses to serve all rows at a public address without authentication, unless `--open` is
    /// given.
    fn check_open(&self, command: &Command, listen: &[&str]) -> Result<(), String> {
        let is_open = self.open || self.auth || self.tls.requires_certificates();
        // A program's custom routes do their own authentication.
        if is_open || command.routes.is_some() {
            return Ok(());
        }
        let public = |address: &SocketAddr| !address.ip().to_canonical().is_loopback();
        // A name without an address is reported when the server binds to it.
        let addresses = listen.iter().filter_map(|listen| listen.to_addresses().ok()).flatten();
        match addresses.filter_map(|address| address.net()).find(public) {
            None => Ok(()),
            Some(address) => Err(format!(
                "{address} can be reached from other machines, but callers are not authenticated: \
                 any caller could read and write all rows. Add `--auth` (users and rights), or \
                 `--open` if this is intended, or listen on 127.0.0.1"
            )),
        }
    }
}

/// Returns the host name in `NAME:PORT`; `None` for an address or a Unix socket. Requests may have
/// this name in `Host`.
fn host_name(listen: &str) -> Option<&str> {
    let (name, _) = listen.rsplit_once(':').filter(|_| !listen.starts_with("unix:"))?;
    let is_address = name.starts_with('[') || name.parse::<std::net::IpAddr>().is_ok();
    (!is_address && !name.is_empty()).then_some(name)
}
