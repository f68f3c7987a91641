//! Numbers of a server for Prometheus: connections, bytes, answers by status and their latencies,
//! and the process' descriptors.
//!
//! Each thread has its own [`Counters`], which no other thread writes to, so counting needs no
//! atomic read-modify-write and no cache line is shared. A scrape sums them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::proto::method::Method;
use crate::reactor::descriptors;
use crate::routing::handler::Flow;
use crate::routing::router::Router;

/// Upper ends of the histogram's buckets, in microseconds.
const LATENCIES_US: [u64; 13] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 10_000_000,
];
/// Statuses up to this number, exclusively, are counted.
const STATUSES: usize = 600;

/// Numbers of one server or several, for Prometheus; see [`crate::Server::metrics`] and
/// [`Router::metrics`]. Clones have the same numbers.
///
/// | name | type |
/// |---|---|
/// | `marmota_http_connections_total` | counter: accepted connections |
/// | `marmota_http_connections` | gauge: open connections |
/// | `marmota_http_connections_refused_total` | counter: connections beyond the limit (503) |
/// | `marmota_http_connections_shed_total` | counter: connections ended for unread answers |
/// | `marmota_http_connections_flooding_total` | counter: HTTP/2 connections ended for a flood |
/// | `marmota_http_requests_total{status}` | counter: answers |
/// | `marmota_http_request_seconds` | histogram: from a request's last byte to its answer |
/// | `marmota_http_answers_cut_off_total` | counter: answers whose body failed |
/// | `marmota_http_handshakes_failed_total` | counter: TLS or PROXY headers that failed |
/// | `marmota_http_websockets_failed_total` | counter: WebSocket handlers with an error |
/// | `marmota_http_received_bytes_total`, `…_sent_bytes_total` | counter |
/// | `process_open_fds`, `process_max_fds` | gauge |
/// | `process_resident_memory_bytes` | gauge |
///
/// ```
/// use marmota_http::{Metrics, Router, Server};
///
/// let metrics = Metrics::new();
/// metrics.add_collector(|text| text.push_str("# TYPE jobs gauge\njobs 7\n"));
/// let router = Router::new().metrics("/metrics", &metrics);
/// Server::bind("127.0.0.1:0")?.metrics(&metrics).start(router)?.shutdown()?;
/// assert!(metrics.text().contains("marmota_http_connections 0"));
/// # Ok::<(), marmota_http::ServerError>(())
/// ```
#[derive(Clone, Default)]
pub struct Metrics {
    shared: Arc<Mutex<Shared>>,
}

/// A function of the program that appends its numbers.
type Other = Box<dyn Fn(&mut String) + Send>;

/// A function, and its name if it can be replaced.
type NamedOther = (Option<&'static str>, Other);

/// The counters of all threads, and the program's functions.
#[derive(Default)]
struct Shared {
    threads: Vec<Arc<Counters>>,
    others: Vec<NamedOther>,
}

impl Metrics {
    /// Returns numbers that nothing is counted in yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends numbers of the program, by a function that writes them in the same format. It is
    /// called at each scrape, on a server thread, so it must return quickly.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use marmota_http::Metrics;
    ///
    /// static JOBS: AtomicU64 = AtomicU64::new(0);
    /// let metrics = Metrics::new();
    /// metrics.add_collector(|text| {
    ///     let jobs = JOBS.load(Ordering::Relaxed);
    ///     text.push_str(&format!("# TYPE jobs_total counter\njobs_total {jobs}\n"));
    /// });
    /// JOBS.fetch_add(1, Ordering::Relaxed);
    /// assert!(metrics.text().contains("jobs_total 1\n"));
    /// ```
    pub fn add_collector(&self, write: impl Fn(&mut String) + Send + 'static) {
        self.lock().others.push((None, Box::new(write)));
    }

    /// Appends numbers as [`Metrics::add_collector`] does, in place of those of an earlier call with
    /// the same name: for parts of a program that are made again while it runs.
    ///
    /// ```
    /// use marmota_http::Metrics;
    /// let metrics = Metrics::new();
    /// metrics.set_collector("jobs", |text| text.push_str("jobs 6\n"));
    /// metrics.set_collector("jobs", |text| text.push_str("jobs 7\n"));
    /// assert!(metrics.text().contains("jobs 7\n") && !metrics.text().contains("jobs 6\n"));
    /// ```
    pub fn set_collector(&self, name: &'static str, write: impl Fn(&mut String) + Send + 'static) {
        let mut shared = self.lock();
        shared.others.retain(|(other, _)| *other != Some(name));
        shared.others.push((Some(name), Box::new(write)));
    }

    /// Returns all numbers in Prometheus' text format, version 0.0.4.
    pub fn text(&self) -> String {
        let shared = self.lock();
        let mut text = String::new();
        let sum = |of: fn(&Counters) -> &AtomicU64| -> u64 {
            shared.threads.iter().map(|counters| of(counters).load(Ordering::Relaxed)).sum()
        };
        let (opened, closed) = (sum(|counters| &counters.opened), sum(|counters| &counters.closed));
        let mut single = |name: &str, kind: &str, help: &str, value: u64| {
            text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n"));
        };
        single("marmota_http_connections_total", "counter", "Connections taken.", opened);
        let open = opened.saturating_sub(closed);
        single("marmota_http_connections", "gauge", "Connections open.", open);
        let refused = sum(|counters| &counters.refused);
        let help = "Connections refused because the limit was reached.";
        single("marmota_http_connections_refused_total", "counter", help, refused);
        let help = "Connections ended because too many bytes of answers were unread.";
        let shed = sum(|counters| &counters.shed);
        single("marmota_http_connections_shed_total", "counter", help, shed);
        let help = "HTTP/2 connections closed because of a flood of frames or resets.";
        let flooding = sum(|counters| &counters.flooding);
        single("marmota_http_connections_flooding_total", "counter", help, flooding);
        let help = "Answers cut off because their body failed.";
        let cut_off = sum(|counters| &counters.cut_off);
        single("marmota_http_answers_cut_off_total", "counter", help, cut_off);
        let help = "Connections with an invalid TLS or PROXY header.";
        let failed = sum(|counters| &counters.handshakes_failed);
        single("marmota_http_handshakes_failed_total", "counter", help, failed);
        let help = "WebSockets whose handler returned an error.";
        let failed = sum(|counters| &counters.sockets_failed);
        single("marmota_http_websockets_failed_total", "counter", help, failed);
        let received = sum(|counters| &counters.received_bytes);
        single("marmota_http_received_bytes_total", "counter", "Bytes received.", received);
        let sent = sum(|counters| &counters.sent_bytes);
        single("marmota_http_sent_bytes_total", "counter", "Bytes sent.", sent);
        // As Prometheus' own libraries name them.
        let (open, limit) = descriptors::open_and_limit();
        let help = "Open file descriptors of the process.";
        open.into_iter().for_each(|open| single("process_open_fds", "gauge", help, open));
        let help = "Limit on open file descriptors of the process.";
        limit.into_iter().for_each(|limit| single("process_max_fds", "gauge", help, limit));
        let help = "Memory of the process that is in use.";
        let name = "process_resident_memory_bytes";
        resident_bytes().into_iter().for_each(|bytes| single(name, "gauge", help, bytes));
        statuses(&shared.threads, &mut text);
        latencies(&shared.threads, &mut text);
        for (_, other) in &shared.others {
            other(&mut text);
        }
        text
    }

    /// Returns the counters of one more thread.
    pub(crate) fn thread(&self) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        self.lock().threads.push(Arc::clone(&counters));
        counters
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the resident memory of the process (proc(5), `VmRSS` in kB).
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Writes the number of answers for each status that has occurred.
fn statuses(threads: &[Arc<Counters>], text: &mut String) {
    text.push_str("# HELP marmota_http_requests_total Requests answered, by status.\n");
    text.push_str("# TYPE marmota_http_requests_total counter\n");
    for status in 100..STATUSES {
        let count: u64 = threads.iter().map(|of| of.statuses[status].load(Ordering::Relaxed)).sum();
        if count > 0 {
            text.push_str(&format!("marmota_http_requests_total{{status=\"{status}\"}} {count}\n"));
        }
    }
}

/// Writes the histogram. Its buckets are cumulative, as the format requires.
fn latencies(threads: &[Arc<Counters>], text: &mut String) {
    const NAME: &str = "marmota_http_request_seconds";
    text.push_str(&format!(
        "# HELP {NAME} From a request's last byte to its answer.\n# TYPE {NAME} histogram\n"
    ));
    let mut below = 0_u64;
    for (class, end_us) in LATENCIES_US.iter().map(Some).chain([None]).enumerate() {
        below += threads.iter().map(|of| of.latencies[class].load(Ordering::Relaxed)).sum::<u64>();
        match end_us {
            Some(&us) => {
                let seconds = us as f64 / 1e6;
                text.push_str(&format!("{NAME}_bucket{{le=\"{seconds}\"}} {below}\n"));
            }
            None => text.push_str(&format!("{NAME}_bucket{{le=\"+Inf\"}} {below}\n")),
        }
    }
    let us: u64 = threads.iter().map(|of| of.latency_us.load(Ordering::Relaxed)).sum();
    text.push_str(&format!("{NAME}_sum {}\n{NAME}_count {below}\n", us as f64 / 1e6));
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("threads", &self.lock().threads.len()).finish()
    }
}

/// One thread's numbers. Only this thread writes them, so adding is a load and a store. Aligned to
/// two cache lines, which processors fetch together.
#[repr(align(128))]
pub(crate) struct Counters {
    /// Accepted connections.
    pub(crate) opened: AtomicU64,
    /// Of these, connections that have ended.
    pub(crate) closed: AtomicU64,
    /// Connections beyond the limit, answered with 503.
    pub(crate) refused: AtomicU64,
    /// Connections ended because their clients did not read.
    pub(crate) shed: AtomicU64,
    /// HTTP/2 connections ended for a flood of frames or resets.
    pub(crate) flooding: AtomicU64,
    /// Answers whose body failed after its head was sent.
    pub(crate) cut_off: AtomicU64,
    /// Connections whose TLS handshake or PROXY header failed.
    pub(crate) handshakes_failed: AtomicU64,
    /// WebSocket handlers that returned an error.
    pub(crate) sockets_failed: AtomicU64,
    /// Bytes received, with those of TLS.
    pub(crate) received_bytes: AtomicU64,
    /// Bytes sent, with those of TLS.
    pub(crate) sent_bytes: AtomicU64,
    /// Answers by status.
    statuses: [AtomicU64; STATUSES],
    /// Answers by latency; the last bucket has no upper end.
    latencies: [AtomicU64; LATENCIES_US.len() + 1],
    /// The sum of all latencies, in microseconds.
    latency_us: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            opened: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            shed: AtomicU64::new(0),
            flooding: AtomicU64::new(0),
            cut_off: AtomicU64::new(0),
            handshakes_failed: AtomicU64::new(0),
            sockets_failed: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            statuses: [const { AtomicU64::new(0) }; STATUSES],
            latencies: [const { AtomicU64::new(0) }; LATENCIES_US.len() + 1],
            latency_us: AtomicU64::new(0),
        }
    }
}

impl Counters {
    /// Counts an answer with its status and latency.
    pub(crate) fn answer(&self, status: u16, took_us: u64) {
        if let Some(place) = self.statuses.get(usize::from(status)) {
            add(place, 1);
        }
        let class = LATENCIES_US.partition_point(|&end_us| end_us < took_us);
        add(&self.latencies[class], 1);
        add(&self.latency_us, took_us);
    }
}

/// Adds to a number that no other thread writes.
pub(crate) fn add(number: &AtomicU64, count: u64) {
    number.store(number.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

impl Router {
    /// Answers GET on a path with the numbers of `metrics`. They reveal the load of the server:
    /// restrict the route if the server is public.
    ///
    /// ```
    /// use marmota_http::{Metrics, Router, TestRequest};
    ///
    /// let router = Router::new().metrics("/metrics", &Metrics::new());
    /// let answer = router.call(TestRequest::get("/metrics"))?;
    /// assert!(answer.text().contains("# TYPE marmota_http_request_seconds histogram"));
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn metrics(self, pattern: &str, metrics: &Metrics) -> Self {
        let metrics = metrics.clone();
        self.direct(Method::Get, pattern, move |_, out| {
            out.send("text/plain; version=0.0.4; charset=utf-8", metrics.text().as_bytes());
            Flow::Done
        })
    }
}
