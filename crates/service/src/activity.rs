//! Call counters, errors and durations, by method.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use marmota_http::Metrics;
use marmota_store::Store;
use marmota_store::meter::{Counts, Measured};
use serde::Serialize;
use tracing::Instrument;

use crate::contract::Contract;
use crate::dispatch::Answer;
use crate::services::Services;

/// The number of calls of one method, their errors and durations.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MethodActivity {
    /// The method, `calculator.add` or `sum`.
    pub method: String,
    /// Calls. A call that its caller canceled counts as failed.
    #[serde(flatten)]
    pub done: Measured,
}

impl Services {
    /// Returns the activity since the start, by method. Methods without calls are left out.
    #[must_use]
    pub fn activity(&self) -> Vec<MethodActivity> {
        let methods = self.0.hosted.iter().flat_map(|hosted| {
            hosted.counts.iter().enumerate().map(|(method, counts)| {
                let mut done = Measured::default();
                counts.add_to(&mut done);
                let method = name_of(hosted.contract, hosted.is_method, method);
                MethodActivity { method, done }
            })
        });
        methods.filter(|one| one.done.count > 0).collect()
    }

    /// Adds the same numbers to a server's Prometheus metrics.
    pub fn metrics(self, metrics: &Metrics) -> Self {
        let services = self.clone();
        metrics.add_collector(move |text| {
            let calls = services.activity();
            let name = "marmota_service_errors_total";
            let _ = writeln!(text, "# HELP {name} Calls that failed.\n# TYPE {name} counter");
            for one in &calls {
                let _ = writeln!(text, "{name}{{method=\"{}\"}} {}", one.method, one.done.errors);
            }
            let name = "marmota_service_call_seconds";
            let _ = writeln!(text, "# HELP {name} How long calls took.\n# TYPE {name} histogram");
            for one in &calls {
                let labels = format!("method=\"{}\"", one.method);
                one.done.write_histogram(text, name, &labels);
            }
        });
        self
    }
}

/// Returns the name of a method as JSON-RPC uses it.
pub(crate) fn name_of(contract: &Contract, is_method: bool, method: usize) -> String {
    match is_method {
        true => contract.name.to_owned(),
        false => format!("{}.{}", contract.name, contract.methods[method].name),
    }
}

/// Returns a counter for each method of a contract.
pub(crate) fn counters(contract: &Contract) -> Arc<[Counts]> {
    // A function served as a service is the only method of its contract.
    (0..contract.methods.len().max(1)).map(|_| Counts::default()).collect()
}

/// A running call; counted when it is dropped.
pub(crate) struct Counting {
    pub(crate) counts: Arc<[Counts]>,
    pub(crate) contract: &'static Contract,
    pub(crate) is_method: bool,
    pub(crate) method: usize,
    /// The store whose slow-call log the call belongs to.
    pub(crate) store: Option<Store>,
    pub(crate) began: Instant,
    pub(crate) failed: bool,
}

impl Counting {
    /// Wraps the call in a span and counts it when it ends.
    pub(crate) fn around(self, answer: Answer) -> Answer {
        let method = || name_of(self.contract, self.is_method, self.method);
        let span = tracing::info_span!(
            target: "marmota_service",
            "call",
            otel.name = method(),
            rpc.system = "marmota",
            rpc.method = method(),
        );
        let call = async move {
            // Moves all of `self` into the future: its drop is the end of the call.
            let mut whole = self;
            let result = answer.await;
            whole.failed = result.is_err();
            result
        };
        Box::pin(call.instrument(span))
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let time = self.began.elapsed();
        self.counts[self.method].note(time, 0, self.failed);
        if let Some(store) = &self.store {
            store.note_call(time, || name_of(self.contract, self.is_method, self.method));
        }
    }
}
