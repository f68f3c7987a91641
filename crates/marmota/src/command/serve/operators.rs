//! The part of `serve` for operators: a log, and routes for statistics, metrics and health.
//!
//! | option | adds |
//! |---|---|
//! | `--diagnostics` | `/api/-/statistics`, `/api/-/levels`, `/metrics`, `/healthz`, `/readyz` |
//! | `--slow-query-ms` | counters, and log lines for slow operations and calls |
//! | `--log` | the level of the log on stderr |
//! | `--otlp` | spans, sent to a collector of OpenTelemetry |
//!
//! Without users, a token protects the diagnostics: that of an environment variable, because command
//! lines are visible to other users of the machine, or a random one that is printed at the start.

mod backup_options;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use marmota_http::{Metrics, Request, Router};
use marmota_model::{Error, ErrorKind, Result};
use marmota_rest::Diagnostics;
use marmota_store::meter::Metering;
use marmota_store::{Store, StoreBuilder};

use self::backup_options::BackupOptions;
use crate::operations::{Operations, RecentLog};
use crate::{Log, LogFormat};

/// The options for operators.
#[derive(Args)]
#[command(next_help_heading = "Diagnostics and log")]
pub(super) struct Operators {
    /// Serves /api/-/statistics, /metrics, /healthz, /readyz and the log's filter at /api/-/levels:
    /// with --auth to administrators, otherwise to clients that send the token of
    /// MARMOTA_DIAGNOSTICS_TOKEN or, without that variable, the token printed at the start
    #[arg(long)]
    diagnostics: bool,
    /// Allows clients on this machine to read --diagnostics without a token. Do not use it with a
    /// proxy on this machine: all requests of the proxy come from this machine
    #[arg(long, requires = "diagnostics")]
    diagnostics_local: bool,
    /// Collects the counters of --diagnostics, and logs operations and calls that take at least
    /// this many milliseconds
    #[arg(long, value_name = "MS")]
    slow_query_ms: Option<u64>,
    /// Keeps this many lines of the access log and of the log in memory, for the administration and
    /// /api/-/log; with --slow-query-ms also the last 100 requests that take at least as long.
    /// It needs --auth. Default: 0, none
    #[arg(long, value_name = "LINES", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(..=100_000))]
    live_log: u32,
    #[command(flatten)]
    pub(super) backups: BackupOptions,
    /// Filter of the log on stderr: a level, and levels for targets, `info,marmota::slow=off`
    #[arg(long, value_name = "FILTER", default_value = "warn")]
    pub(super) log: String,
    /// The form of the log: text, or json, an object in each line
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    log_format: String,
    /// Sends a span for each request and store operation, with the events logged inside, to the
    /// OpenTelemetry collector at this address, for example http://127.0.0.1:4318; see the guide,
    /// 35-metrics-and-logs.md
    #[cfg(feature = "otel")]
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
}

/// The log, metrics and telemetry of a running program.
pub(super) struct Watch {
    /// The metrics of the web server, with `--diagnostics`.
    pub(super) metrics: Option<Metrics>,
    /// Access to the diagnostics for programs without users.
    access: Option<Access>,
    /// The log; `None` if the program has started a log of another kind.
    pub(super) log: Option<Arc<Log>>,
    /// The last lines of the logs, with `--live-log`.
    pub(super) recent: Option<RecentLog>,
    /// The replication of the database.
    #[cfg(feature = "replication")]
    pub(super) replication: crate::command::replicate::CurrentReplication,
    /// The exporter of spans, with `--otlp`.
    #[cfg(feature = "otel")]
    telemetry: Option<crate::Telemetry>,
}

impl Operators {
    /// Enables the store's metering and traces that these options need.
    pub(super) fn observing(&self, builder: StoreBuilder) -> StoreBuilder {
        #[cfg(feature = "otel")]
        let builder = if self.otlp.is_some() { builder.traced() } else { builder };
        match self.slow_query_ms {
            Some(ms) => builder.metering(Metering::default().slow_call(Duration::from_millis(ms))),
            None if self.diagnostics => builder.metering(Metering::default()),
            None => builder,
        }
    }

    /// Checks that a server without users shows neither its log nor its backups, which every client
    /// could read then.
    ///
    /// # Errors
    /// The option that needs users.
    pub(super) fn check_without_users(&self) -> std::result::Result<(), String> {
        let option = match (self.live_log, self.backups.is_on()) {
            (1.., _) => "--live-log",
            (_, true) => "--backups",
            (0, false) => return Ok(()),
        };
        Err(format!("{option} is for administrators, and there are no users: add --auth"))
    }

    /// Returns the ring for the last lines of the logs, with `--live-log`.
    fn recent(&self) -> Option<RecentLog> {
        let slow_from = self.slow_query_ms.map(Duration::from_millis);
        (self.live_log > 0).then(|| RecentLog::new(self.live_log as usize, slow_from))
    }

    /// Starts the log and the telemetry.
    ///
    /// # Errors
    /// An invalid filter or token, or `--otlp` in a program with a log of another kind.
    #[cfg(feature = "otel")]
    pub(super) fn begin(&self) -> Result<Watch> {
        let recent = self.recent();
        let Some(url) = &self.otlp else {
            let log = Log::with_recent(&self.log, self.format(), recent.as_ref(), None);
            return Ok(Watch { telemetry: None, ..self.watch(log, recent)? });
        };
        let program = || std::env::current_exe().ok()?.file_stem()?.to_str().map(str::to_owned);
        let name = std::env::var("OTEL_SERVICE_NAME").ok().or_else(program).unwrap_or_default();
        let telemetry = crate::Telemetry::otlp(url, &name)?;
        let layer = Some(telemetry.layer());
        let log = Log::with_recent(&self.log, self.format(), recent.as_ref(), layer);
        let log = log.map_err(|error| {
            // Without `--otlp`'s own log no spans would be sent: an error is better.
            let message = format!("`--otlp` needs the log of marmota: {error}");
            Error::new(error.kind(), message)
        })?;
        Ok(Watch { telemetry: Some(telemetry), ..self.watch(Ok(log), recent)? })
    }

    #[cfg(not(feature = "otel"))]
    pub(super) fn begin(&self) -> Result<Watch> {
        let recent = self.recent();
        let log = Log::with_recent(&self.log, self.format(), recent.as_ref(), None);
        self.watch(log, recent)
    }

    /// Returns the form of the log.
    fn format(&self) -> LogFormat {
        if self.log_format == "json" { LogFormat::Json } else { LogFormat::Text }
    }

    /// Combines a started log with what the options request. A program that has started another log
    /// ([`ErrorKind::Conflict`]) keeps it; the levels cannot be changed at run time then.
    fn watch(&self, log: Result<Arc<Log>>, recent: Option<RecentLog>) -> Result<Watch> {
        let log = match log {
            Ok(log) => Some(log),
            // The program has started its own log.
            Err(error) if error.kind() == ErrorKind::Conflict => None,
            Err(error) => return Err(error),
        };
        Ok(Watch {
            metrics: self.diagnostics.then(Metrics::new),
            access: self.diagnostics.then(|| Access::of(self.diagnostics_local)).transpose()?,
            log,
            recent,
            #[cfg(feature = "replication")]
            replication: Default::default(),
            #[cfg(feature = "otel")]
            telemetry: None,
        })
    }
}

impl Watch {
    /// Shows the state of the replication, also of later ones.
    #[cfg(feature = "replication")]
    pub(super) fn show_replication(&self, replication: crate::command::replicate::Replication) {
        self.replication.set(replication);
        if let Some(metrics) = &self.metrics {
            self.replication.to_metrics(metrics);
        }
    }

    /// Adds the log and the replication to the routes for administrators.
    pub(super) fn operations(&self, operations: Operations) -> Operations {
        let operations = match &self.recent {
            Some(recent) => operations.log(recent),
            None => operations,
        };
        #[cfg(feature = "replication")]
        let operations = self.replication.to_operations(operations);
        operations
    }

    /// Returns the text with the diagnostics token, for a program without users at this address.
    pub(super) fn greeting(&self, url: &str) -> Option<String> {
        let Access { token, is_made, .. } = self.access.as_ref()?;
        is_made.then(|| {
            format!(
                "Diagnostics need this token ({TOKEN} sets another):\n  \
                 curl {url}/api/-/statistics -H 'Authorization: Bearer {token}'"
            )
        })
    }

    /// Sets the access to the diagnostics for programs without users.
    pub(super) fn admit(&self, diagnostics: Diagnostics) -> Diagnostics {
        let Some(Access { token, local, .. }) = &self.access else { return diagnostics };
        let diagnostics = diagnostics.token(token.clone());
        if *local {
            let way = "without it, this machine may read, through `localhost` and not through a \
                       proxy";
            return diagnostics.allow_reading(is_local).denied_hint(way);
        }
        diagnostics.denied_hint(format!(
            "the token is printed at the start, or set in {TOKEN}; --diagnostics-local lets this \
             machine read without the token, and --auth lets administrators"
        ))
    }

    /// Adds the operators' routes if they are enabled, and a span around each request.
    pub(super) fn beside(
        &self,
        routes: Router,
        store: &Store,
        who: impl FnOnce(Diagnostics) -> Diagnostics,
    ) -> Router {
        let routes = self.operated(routes, store, who);
        #[cfg(feature = "otel")]
        if let Some(telemetry) = &self.telemetry {
            return routes.traced(&telemetry.traces());
        }
        routes.traced(&marmota_http::Traces::new())
    }

    /// Sends the remaining telemetry.
    #[cfg_attr(not(feature = "otel"), allow(clippy::unused_self, reason = "it has with it"))]
    pub(super) fn end(&self) {
        #[cfg(feature = "otel")]
        if let Some(telemetry) = &self.telemetry {
            telemetry.end();
        }
    }

    /// Adds the routes for operators.
    fn operated(
        &self,
        routes: Router,
        store: &Store,
        who: impl FnOnce(Diagnostics) -> Diagnostics,
    ) -> Router {
        let Some(metrics) = &self.metrics else { return routes };
        let state = who(Diagnostics::new(store).metrics(metrics));
        #[cfg(feature = "replication")]
        let state = self.replication.to_diagnostics(state);
        let state = match &self.log {
            Some(log) => state.log_levels(log.clone()),
            None => state,
        };
        routes.nest("", state.router())
    }
}

/// The environment variable with the operators' token.
const TOKEN: &str = "MARMOTA_DIAGNOSTICS_TOKEN";
/// The minimum length of a token that cannot be guessed.
const TOKEN_CHARS_MIN: usize = 16;

/// The value of [`Watch::access`]: access by token or, optionally, from this machine.
struct Access {
    token: String,
    /// True if the token was generated, and is printed.
    is_made: bool,
    /// Clients on this machine may read without the token.
    local: bool,
}

impl Access {
    /// Reads the token from the environment (command lines are visible to other users), or
    /// generates one.
    fn of(local: bool) -> Result<Self> {
        if let Some(given) = std::env::var_os(TOKEN) {
            let token = given.into_string().unwrap_or_default();
            if token.len() >= TOKEN_CHARS_MIN && token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Ok(Self { token, is_made: false, local });
            }
            let message = format!(
                "{TOKEN} is too easy to guess, or not valid: use at least {TOKEN_CHARS_MIN} ASCII \
                 characters without blanks; `openssl rand -hex 32` prints a token"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|error| {
            Error::new(ErrorKind::Io, format!("the system returned no random numbers: {error}"))
        })?;
        let hex = |byte: &u8| format!("{byte:02x}");
        Ok(Self { token: random.iter().map(hex).collect(), is_made: true, local })
    }
}

/// Returns true for clients on this machine: through a Unix socket, or from a loopback address with
/// a local name in Host, and not through a proxy that adds forwarding headers. The check of Host
/// refuses pages of a browser whose own host name resolves to this machine (DNS rebinding).
fn is_local(request: &Request) -> bool {
    let is_own = |host: &str| {
        let name = host.rsplit_once(':').map_or(host, |(name, port)| {
            if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
        });
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
    };
    let peer = request.peer().ip();
    !request.is_forwarded()
        && peer.is_none_or(|ip| ip.to_canonical().is_loopback() && is_own(request.host()))
}
