//! `serve`: serves the program's models over HTTP until a signal ends it.
//!
//! The order of a start: the options are checked, the database is opened (and migrated), the log is
//! started, the addresses are bound, signal handlers are installed, the addresses are printed, and
//! the routes are served. SIGINT or SIGTERM ends it: no connection is accepted any more, requests in
//! progress are answered, then the database is closed. A second signal ends the process at once.
//!
//! | options | file |
//! |---|---|
//! | addresses, proxies, threads | this one |
//! | TLS | `serve/tls.rs` |
//! | limits of HTTP | `serve/http_limits.rs` |
//! | CORS, the rate limit, security headers | `serve/layers.rs` |
//! | the access log | `serve/access_log_file.rs` |
//! | statistics, metrics, health, the log | `serve/operators.rs` |
//! | durability, cache, idempotency, changes, history | `serve/store_options.rs` |
//! | pages, batches, compression of REST | `serve/rest_options.rs` |
//! | replication | `replicate.rs` |
//! | webhooks | `background/webhook.rs` |
//! | tables and groups of a file, settings of a file | `application.rs` |
//!
//! SIGHUP reads the settings again (`serve/reload.rs`).
//!
//! What is served:
//!
//! | route | if |
//! |---|---|
//! | `/api`: REST over all models | the program has no custom routes |
//! | `/api`, by upgrade: the store for other processes | the same, with the feature `remote` |
//! | `/api/auth`: accounts | `--auth` |
//! | `/api/-/webhooks`: webhooks | `--webhooks`, or the file of tables has webhooks |
//! | `/metrics`, `/healthz`, `/readyz`, `/api/-` | `--diagnostics` |
//! | the program's own routes | it has some; then `--auth` and `--files` are refused |
//!
//! An address that other machines reach is refused without `--auth`, `--open` or certificates of
//! clients, because every caller could read and write all rows.

mod access_log_file;
#[cfg(feature = "mail")]
mod accounts;
mod http_limits;
mod layers;
mod operators;
#[cfg(feature = "app")]
mod reload;
mod rest_options;
mod service_manager;
mod store_options;
mod tls;

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args;
use marmota_auth::{Auth, Settings};
use marmota_http::{Backend, BatchScheduling, ForwardedHeader, Router, Server, ToAddresses};
use marmota_rest::Api;
use marmota_store::Store;
use marmota_webhooks::Webhooks;

use self::access_log_file::{AccessLogOptions, Reopen};
use self::http_limits::{HttpLimits, positive};
use self::layers::{LayerOptions, LayerSlot};
use self::operators::{Operators, Watch};
use self::rest_options::RestOptions;
use self::store_options::StoreOptions;
use self::tls::TlsOptions;
use super::{Command, Database, Done, notice};

/// Serves the models over HTTP; the default if no subcommand is named
#[derive(Args)]
pub(super) struct Serve {
    /// Where to listen: ADDRESS:PORT, unix:FILE or unix:@NAME; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Lets other processes with this option listen on the same ports; see the guide, 10-server.md
    #[arg(long)]
    reuse_port: bool,
    /// Permissions of Unix sockets, for example 660; the umask decides if not given
    #[arg(long, value_name = "OCTAL", value_parser = octal)]
    socket_mode: Option<u32>,
    /// Trusted proxies, whose forwarding headers are used: addresses, networks, unix
    #[arg(long, value_name = "NET", value_delimiter = ',')]
    trusted_proxies: Vec<String>,
    /// The header with the client's address: x-forwarded (X-Forwarded-For, -Proto and -Host) or
    /// forwarded (RFC 7239). The other one is ignored
    #[arg(long, value_name = "NAME", default_value = "x-forwarded",
          value_parser = ["x-forwarded", "forwarded"])]
    forwarded_header: String,
    /// Proxies whose connections begin with a header of the PROXY protocol, in the same form
    #[arg(long, value_name = "NET", value_delimiter = ',')]
    proxy_protocol: Vec<String>,
    /// Origins whose pages may also write, call services and open WebSockets:
    /// https://app.example.org
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',')]
    allow_origin: Vec<String>,
    /// Additional host names that Host may have in requests over the loopback interface; localhost
    /// and the names in --listen are always allowed
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    allow_host: Vec<String>,
    /// Serves addresses other than those of this machine without authenticating callers: every
    /// client that reaches them can read and write all rows
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    database: Database,
    /// Authenticates callers: users and groups in the database, rights by group; see the guide,
    /// 09-auth-and-rights.md
    #[arg(long)]
    auth: bool,
    #[cfg(feature = "mail")]
    #[command(flatten)]
    accounts: accounts::AccountOptions,
    #[command(flatten)]
    webhooks: super::background::ServeWebhooks,
    /// Keeps the bytes of file fields in this folder, or in a bucket: FOLDER, file:///FOLDER or
    /// s3://BUCKET/PREFIX; see the guide, 43-files.md
    #[cfg(feature = "files")]
    #[arg(long, value_name = "URL", env = "MARMOTA_FILES")]
    files: Option<String>,
    /// Leaves out the pages: the start page at /, the administration at /admin, and the API
    /// documentation at /docs; see the guide, 46-admin.md
    #[cfg(feature = "admin")]
    #[arg(long)]
    no_admin: bool,
    /// Number of threads, at least 1; if not given, one for each core that the process may use
    #[arg(long, value_parser = positive::<usize>)]
    threads: Option<usize>,
    /// Uses the scheduling policy SCHED_BATCH for the threads: auto (if the database server is on
    /// this machine), on or off; see the guide, 22-postgresql.md
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    batch_scheduling: BatchScheduling,
    /// How the threads wait for sockets: auto (io_uring if the kernel permits it, otherwise epoll),
    /// ring or epoll
    #[arg(long, value_name = "BACKEND", default_value = "auto",
          value_parser = ["auto", "ring", "epoll"])]
    http_backend: String,
    #[command(flatten)]
    tls: TlsOptions,
    #[command(flatten)]
    store: StoreOptions,
    #[command(flatten)]
    rest: RestOptions,
    #[command(flatten)]
    layers: LayerOptions,
    #[command(flatten)]
    operators: Operators,
    #[command(flatten)]
    access_log: AccessLogOptions,
    #[command(flatten)]
    limits: HttpLimits,
    #[cfg(feature = "replication")]
    #[command(flatten)]
    replicate: super::replicate::Replicate,
}

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
        #[cfg(feature = "replication")]
        let replication = self.replicate.prepare(url)?;
        let builder = command.builder(url)?;
        #[cfg(feature = "replication")]
        let builder = replication.of_store(builder);
        let builder = if self.auth { marmota_auth::models(builder) } else { builder };
        #[cfg(feature = "mail")]
        let mails = self.accounts.mails(self.auth, &program_name())?;
        #[cfg(feature = "mail")]
        let builder = match &mails {
            Some(_) => accounts::Mails::models(builder),
            None => builder,
        };
        let has_webhooks = self.webhooks.are_enabled(command)?;
        let builder = self.store.apply_to(builder, has_webhooks);
        let builder = if has_webhooks { marmota_webhooks::models(builder) } else { builder };
        let layers = LayerSlot::default();
        layers.set(self.layers.layers()?, false);
        let reopen = Reopen::default();
        let access_log = self.access_log.open(&reopen)?;
        #[cfg(feature = "files")]
        if self.files.is_some() && command.routes.is_some() {
            let message = "this program has its own routes, which have no storage of files: leave \
                           `--files` out";
            return Err(message.into());
        }
        #[cfg(feature = "files")]
        let files = self.files.as_deref().map(marmota_files::FileStorage::open).transpose()?;
        #[cfg(feature = "files")]
        let builder = match &files {
            Some(files) => files.attach(builder),
            None => builder,
        };
        let store = self.operators.observing(builder).open()?;
        let watch = self.operators.begin()?;
        log::info!(target: "marmota", "starting: {}", super::program::line(command.version));
        #[cfg(feature = "replication")]
        let watch = watch.replication(replication.clone());
        #[cfg(feature = "replication")]
        let is_replica = replication.is_replica();
        #[cfg(not(feature = "replication"))]
        let is_replica = false;
        let app_greeting = command.app_greeting()?;
        // A replica has what was inserted into its primary.
        if !is_replica && app_greeting.is_none() {
            (command.seed)(&store)?;
        }
        #[cfg(feature = "files")]
        if let Some(files) = files.as_ref().filter(|_| !is_replica) {
            files.start(&store)?;
        }
        let webhooks = match has_webhooks && !is_replica {
            true => Some(self.webhooks.start(command, &store)?),
            false => None,
        };
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
        if let Some(threads) = self.threads {
            server = server.threads_per_listener(threads);
        }
        server = server.batch_scheduling(self.batch_scheduling).limits(self.limits.limits());
        server = match &*self.http_backend {
            "ring" => server.backend(Backend::Ring),
            "epoll" => server.backend(Backend::Epoll),
            _ => server,
        };
        if let Some(log) = &access_log {
            server = server.access_log(log);
        }
        server = server.on_start(service_manager::started);
        server = server.on_reload(self.reloading(command, &layers, &reopen, &watch));
        // A supervisor that reads the address may send a signal at once, so the handlers come
        // first.
        server = server.receive_signals()?;
        notice(match app_greeting {
            Some(greeting) => greeting(&server.url()),
            None => (command.greeting)(&server.url()),
        });
        if is_new {
            let file = url.split('?').next().unwrap_or(url);
            notice(format_args!("Created the database {file}."));
        }
        log::info!(target: "marmota", "listening on {}", server.url());
        for address in self.listen.iter().skip(1) {
            log::info!(target: "marmota", "listening on {address}");
        }
        if let Some(metrics) = &watch.metrics {
            server = server.metrics(metrics);
        }
        let api = |store: &Store| {
            let api = self.rest.apply_to(Api::new(store));
            #[cfg(feature = "files")]
            let api = match &files {
                Some(files) => api.files(files),
                None => api,
            };
            api
        };
        #[cfg(feature = "mail")]
        let settings = self.accounts.settings(mails.as_ref(), &program_name(), &server.url());
        #[cfg(not(feature = "mail"))]
        let settings = Settings::default();
        let auth = match self.auth {
            true => Some(self.open_accounts(command, &store, settings, &server.url())?),
            false => None,
        };
        #[cfg(feature = "mail")]
        let mail_worker = match (&mails, &auth) {
            (Some(mails), Some(auth)) if !is_replica => Some(mails.start(&store, auth)?),
            _ => None,
        };
        let of_webhooks = webhooks.as_ref().map(|(webhooks, _)| webhooks);
        let around = (&watch, of_webhooks);
        let routes = self.routes(command, &store, api, &server.url(), auth.as_ref(), around)?;
        // The pages have their own security headers.
        #[cfg(feature = "app")]
        let can_change = command.files.has_settings();
        #[cfg(not(feature = "app"))]
        let can_change = false;
        let routes =
            if can_change || layers.is_used() { routes.layer(layers.clone()) } else { routes };
        #[cfg(all(feature = "admin", feature = "mail"))]
        let routes = match &auth {
            Some(_) => with_account_pages(command, routes, self.accounts.style()?),
            None => routes,
        };
        #[cfg(feature = "admin")]
        let routes = match self.no_admin {
            true => routes,
            false => with_pages(command, routes, &server.url()),
        };
        // Custom routes use the store as well.
        let routes = routes.local_database(store.capability().local_server.as_deref());
        server.run(routes)?;
        service_manager::stopping();
        log::info!(target: "marmota", "shutdown: no connection is open; closing the database");
        watch.end();
        #[cfg(feature = "mail")]
        if let Some(worker) = mail_worker {
            worker.stop()?;
        }
        if let Some((_, worker)) = webhooks {
            worker.stop()?;
        }
        #[cfg(feature = "files")]
        if let Some(files) = &files {
            files.stop();
        }
        store.close()?;
        log::info!(target: "marmota", "shutdown: closed cleanly");
        notice("Closed cleanly.");
        Ok(ExitCode::SUCCESS)
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

    /// Returns the address of the page that sets the first administrator's password, as a part of a
    /// sentence. Browsers do not send the part after `#`, so the token is in no log.
    #[cfg(feature = "admin")]
    fn setup_page(&self, url: &str, token: &str) -> String {
        match self.no_admin {
            true => String::new(),
            false => format!(" at\n  {url}/admin#/set-password/admin/{token}\nor with"),
        }
    }

    #[cfg(not(feature = "admin"))]
    #[allow(clippy::unused_self, reason = "it has a page with the feature")]
    const fn setup_page(&self, _: &str, _: &str) -> &'static str {
        ""
    }

    /// Refuses to serve all rows at a public address without authentication, unless `--open` is
    /// given.
    fn check_open(&self, command: &Command, listen: &[&str]) -> Result<(), String> {
        let is_open = self.open || self.auth || self.tls.tls_client_ca.is_some();
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

    /// Opens the accounts, and prints the token of the first administrator.
    ///
    /// # Errors
    /// `--auth` on a program with custom routes; those authenticate their callers themselves.
    fn open_accounts(
        &self,
        command: &Command,
        store: &Store,
        settings: Settings,
        url: &str,
    ) -> Result<Auth, Box<dyn std::error::Error>> {
        if command.routes.is_some() {
            let message = "this program has its own routes and authenticates their callers itself: \
                           leave `--auth` out";
            return Err(message.into());
        }
        #[cfg(feature = "app")]
        let auth = command.files.open_accounts(store, settings)?;
        #[cfg(not(feature = "app"))]
        let auth = Auth::new(store, settings)?;
        if let Some(token) = auth.setup_token() {
            notice(format_args!(
                "No user is an administrator yet. Within 24 hours set the password of `admin`{}:\n  \
                 curl {url}/api/auth/set-password -H 'Content-Type: application/json' \
                 -d '{{\"name\":\"admin\",\"token\":\"{token}\",\"password\":\"…\"}}'",
                self.setup_page(url, token)
            ));
        }
        Ok(auth)
    }

    /// Returns all routes: those of the program or the REST API, with accounts if there are some, and
    /// those for operators.
    fn routes(
        &self,
        command: &Command,
        store: &Store,
        api: impl Fn(&Store) -> Api,
        url: &str,
        auth: Option<&Auth>,
        (watch, webhooks): (&Watch, Option<&Webhooks>),
    ) -> Result<Router, Box<dyn std::error::Error>> {
        let Some(auth) = auth else {
            let of_webhooks = webhooks.filter(|_| command.routes.is_none());
            return Ok(without_users(command, store, api, url, watch, of_webhooks));
        };
        let routes = api(store).auth(auth).router();
        let routes = match webhooks {
            Some(webhooks) => routes.nest("", webhooks.router(Some(auth))),
            None => routes,
        };
        #[cfg(feature = "remote")]
        let routes = {
            let auth = auth.clone();
            let service = marmota_remote::Service::new(store);
            let service = service.authenticate(move |_, credential| auth.store_of(credential));
            routes.nest("", service.router())
        };
        Ok(watch.beside(routes, store, |state| state.auth(auth)))
    }
}

/// Adds the pages to routes with a REST API, and prints their addresses:
///
/// ```text
/// In a browser:
///   admin  http://127.0.0.1:8080/admin
///   docs   http://127.0.0.1:8080/docs
///   API    http://127.0.0.1:8080/api
/// ```
///
/// The API is found by its OpenAPI document, so it may be among the routes of a program. Routes
/// without one are returned unchanged. The pages are named after the program's file.
#[cfg(feature = "admin")]
fn with_pages(command: &Command, routes: Router, url: &str) -> Router {
    let Some(pages) = marmota_admin::AdminPages::of_routes(&routes) else { return routes };
    notice(format_args!(
        "In a browser:\n  admin  {url}/admin\n  docs   {url}/docs\n  API    {url}{}",
        pages.prefix()
    ));
    pages.title(program_name()).version(command.version).add_to(routes)
}

/// Adds the pages of accounts to routes with a REST API, with the style of the application.
#[cfg(all(feature = "admin", feature = "mail"))]
fn with_account_pages(command: &Command, routes: Router, style: String) -> Router {
    let Some(pages) = marmota_admin::AdminPages::of_routes(&routes) else { return routes };
    pages.title(program_name()).version(command.version).account_style(style).add_account_to(routes)
}

/// Returns the name of the program's file, without its extension.
fn program_name() -> String {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(|path| path.file_stem()?.to_str());
    name.unwrap_or("Marmota").to_owned()
}

/// Returns the routes without accounts: only the diagnostics authenticate callers.
fn without_users(
    command: &Command,
    store: &Store,
    api: impl Fn(&Store) -> Api,
    url: &str,
    watch: &Watch,
    webhooks: Option<&Webhooks>,
) -> Router {
    if let Some(greeting) = watch.greeting(url) {
        notice(greeting);
    }
    let routes = command.routes_of(store, api);
    let routes = match webhooks {
        Some(webhooks) => routes.nest("", webhooks.router(None)),
        None => routes,
    };
    watch.beside(routes, store, |state| watch.admit(state))
}

/// Returns the host name in `NAME:PORT`; `None` for an address or a Unix socket. Requests may have
/// this name in `Host`.
fn host_name(listen: &str) -> Option<&str> {
    let (name, _) = listen.rsplit_once(':').filter(|_| !listen.starts_with("unix:"))?;
    let is_address = name.starts_with('[') || name.parse::<std::net::IpAddr>().is_ok();
    (!is_address && !name.is_empty()).then_some(name)
}

/// Parses permissions of a Unix socket: three octal digits.
fn octal(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("permissions must be three octal digits, such as 660".to_owned()),
    }
}
