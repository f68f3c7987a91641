//! Call counters, errors and durations, by method.

use std::fmt::Write;

use marmota_http::Metrics;
use marmota_store::meter::CallStatistics;
use serde::Serialize;

use super::Services;
use crate::hosted::name_of;

/// The number of calls of one method, their errors and durations.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MethodActivity {
    /// The method, `calculator.add` or `sum`.
    pub method: String,
    /// Calls. A call that its caller canceled counts as failed.
    #[serde(flatten)]
    pub done: CallStatistics,
}

impl Services {
    /// Returns the activity since the start, by method. Methods without calls are left out.
    #[must_use]
    pub fn activity(&self) -> Vec<MethodActivity> {
        let methods = self.0.hosted.iter().flat_map(|hosted| {
            hosted.counts.iter().enumerate().map(|(method, counts)| {
                let mut done = CallStatistics::default();
                counts.add_to(&mut done);
                let method = name_of(hosted.contract, hosted.is_method, method);
                MethodActivity { method, done }
            })
        });
        methods.filter(|one| one.done.count > 0).collect()
    }

    /// Shows the same numbers in a server's Prometheus metrics, in place of those of services that were
    /// shown there before.
    pub fn metrics(self, metrics: &Metrics) -> Self {
        let services = self.clone();
        metrics.set_collector("marmota_service", move |text| {
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
