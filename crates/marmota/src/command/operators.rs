//! What `serve` tells its operators: a log, and routes for statistics, numbers
//! and health.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use marmota_http::{Metrics, Request, Router};
use marmota_model::Result;
use marmota_rest::State;
use marmota_store::meter::Metering;
use marmota_store::{Store, StoreBuilder};

use crate::Log;

#[derive(Args)]
pub(super) struct Operators {
    /// Tells what it does at /api/-/statistics and /metrics, and has /healthz, /readyz and the
    /// log's filter at /api/-/levels: with --auth for administrators, else for this machine
    #[arg(long)]
    state: bool,
    /// Counts for --state, and logs operations and calls that take so many milliseconds
    #[arg(long, value_name = "MS")]
    slow_ms: Option<u64>,
    /// What goes to the log on stderr: a level, and levels for targets, `info,marmota::slow=off`
    #[arg(long, value_name = "FILTER", default_value = "warn")]
    log: String,
    /// Sends a span for each request, and what its handler logs inside, to the collector of
    /// OpenTelemetry's at this address, http://127.0.0.1:4318 say; see the guide's state.md
    #[cfg(feature = "otel")]
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
}

/// What was begun.
pub(super) struct Watch {
    pub(super) metrics: Option<Metrics>,
    log: Option<Arc<Log>>,
    #[cfg(feature = "otel")]
    telemetry: Option<crate::Telemetry>,
}

impl Operators {
    /// Has the store count what it is asked about.
    pub(super) fn counting(&self, builder: StoreBuilder) -> StoreBuilder {
        match self.slow_ms {
            Some(ms) => builder.metering(Metering::default().slow_call(Duration::from_millis(ms))),
            None if self.state => builder.metering(Metering::default()),
            None => builder,
        }
    }

    #[cfg(feature = "otel")]
    pub(super) fn begin(&self) -> Result<Watch> {
        let Some(url) = &self.otlp else {
            return Ok(Watch { telemetry: None, ..self.watch(Log::start(&self.log))? });
        };
        let program = || std::env::current_exe().ok()?.file_stem()?.to_str().map(str::to_owned);
        let name = std::env::var("OTEL_SERVICE_NAME").ok().or_else(program).unwrap_or_default();
        let telemetry = crate::Telemetry::otlp(url, &name)?;
        let log = Log::with_telemetry(&self.log, &telemetry).map_err(|error| {
            // A log of its own would be without the spans: better to say so than to send none.
            let message = format!("`--otlp` needs a log of marmota's own: {error}");
            marmota_model::Error::new(error.kind(), message)
        })?;
        Ok(Watch { telemetry: Some(telemetry), ..self.watch(Ok(log))? })
    }

    #[cfg(not(feature = "otel"))]
    pub(super) fn begin(&self) -> Result<Watch> {
        self.watch(Log::start(&self.log))
    }

    fn watch(&self, log: Result<Arc<Log>>) -> Result<Watch> {
        let log = match log {
            Ok(log) => Some(log),
            // The program has a log of its own.
            Err(error) if error.kind() == marmota_model::ErrorKind::Conflict => None,
            Err(error) => return Err(error),
        };
        Ok(Watch {
            metrics: self.state.then(Metrics::new),
            log,
            #[cfg(feature = "otel")]
            telemetry: None,
        })
    }
}

impl Watch {
    /// The routes with those for operators, if these were asked for, and a span around each.
    pub(super) fn beside(
        &self,
        routes: Router,
        store: &Store,
        who: impl FnOnce(State) -> State,
    ) -> Router {
        let routes = self.operated(routes, store, who);
        #[cfg(feature = "otel")]
        if let Some(telemetry) = &self.telemetry {
            return routes.traced(&telemetry.traces());
        }
        routes.traced(&marmota_http::Traces::new())
    }

    /// Sends what is still to be sent.
    #[cfg_attr(not(feature = "otel"), allow(clippy::unused_self, reason = "it has with it"))]
    pub(super) fn end(&self) {
        #[cfg(feature = "otel")]
        if let Some(telemetry) = &self.telemetry {
            telemetry.end();
        }
    }

    fn operated(&self, routes: Router, store: &Store, who: impl FnOnce(State) -> State) -> Router {
        let Some(metrics) = &self.metrics else { return routes };
        let state = who(State::new(store).metrics(metrics));
        let state = match &self.log {
            Some(log) => state.levels(log.clone()),
            None => state,
        };
        routes.nest("", state.router())
    }
}

/// True for who is on this machine: at a Unix socket, or at its own address, and
/// not by a proxy that speaks for somebody else.
pub(super) fn is_local(request: &Request) -> bool {
    let by_proxy =
        ["forwarded", "x-forwarded-for"].iter().any(|name| request.header(name).is_some());
    !by_proxy && request.peer().ip().is_none_or(|ip: IpAddr| ip.to_canonical().is_loopback())
}
