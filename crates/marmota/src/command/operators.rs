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
}

/// What was begun.
pub(super) struct Watch {
    pub(super) metrics: Option<Metrics>,
    log: Option<Arc<Log>>,
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

    pub(super) fn begin(&self) -> Result<Watch> {
        let log = match Log::start(&self.log) {
            Ok(log) => Some(log),
            // The program has a log of its own.
            Err(error) if error.kind() == marmota_model::ErrorKind::Conflict => None,
            Err(error) => return Err(error),
        };
        Ok(Watch { metrics: self.state.then(Metrics::new), log })
    }
}

impl Watch {
    /// The routes with those for operators, if these were asked for.
    pub(super) fn beside(
        &self,
        routes: Router,
        store: &Store,
        who: impl FnOnce(State) -> State,
    ) -> Router {
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
