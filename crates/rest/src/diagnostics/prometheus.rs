//! A store's metrics in Prometheus' text format (version 0.0.4). Sessions are not a label: they are
//! short-lived, and each would add a permanent series.
//!
//! ```text
//! # HELP marmota_store_rows_total Rows read or written.
//! # TYPE marmota_store_rows_total counter
//! marmota_store_rows_total{table="person",verb="get"} 42
//! ```
//!
//! The route of [`Diagnostics::metrics`](super::Diagnostics::metrics) writes the metrics of the server
//! and these.

use std::fmt::Write;

use marmota_store::Store;
use marmota_store::meter::VerbActivity;

/// Returns one of the counts of a table and verb.
type Of = fn(&VerbActivity) -> u64;

/// Appends the metrics of the store.
///
/// | metric | labels |
/// |---|---|
/// | `marmota_engine_…` | none: counters of the engine, 0 for those that it does not have |
/// | `marmota_cache_…` | none; left out without a cache |
/// | `marmota_sessions` | none; left out without metering, as are the following |
/// | `marmota_store_rows_total`, `…_errors_total`, `…_batched_total` | `table`, `verb` |
/// | `marmota_store_operation_seconds` | `table`, `verb`; a histogram |
///
/// The values are read one after the other while the store works, so counts of one scrape can
/// differ by a few operations. Names ending in `_total` are counters, which start at 0 with the
/// process; the others can also fall.
pub(super) fn write_store(text: &mut String, store: &Store) {
    let numbers = store.statistics();
    let engine = numbers.engine;
    for (name, kind, help, value) in [
        ("commits_total", "counter", "Commits.", engine.commits),
        ("groups_total", "counter", "Waits for the disk that writes shared.", engine.groups),
        (
            "grouped_writes_total",
            "counter",
            "Writes that shared a wait for the disk.",
            engine.grouped_writes,
        ),
        ("syncs_total", "counter", "System calls that waited for the disk.", engine.syncs),
        ("checkpoints_total", "counter", "Checkpoints of the log.", engine.checkpoints),
        ("writes_refused_total", "counter", "Writes refused.", engine.writes_refused),
        ("writes_waiting", "gauge", "Writes that wait.", engine.writes_waiting),
        (
            "read_handovers_total",
            "counter",
            "Reads that continued on a helper thread.",
            engine.read_handovers,
        ),
        (
            "read_yields_total",
            "counter",
            "Times that a read yielded its thread.",
            engine.read_yields,
        ),
        ("read_timeouts_total", "counter", "Reads ended by their deadline.", engine.read_timeouts),
        ("reads_cancelled_total", "counter", "Reads canceled early.", engine.reads_cancelled),
        ("replica_reads_total", "counter", "Reads by a replica.", engine.replica_reads),
        ("connections", "gauge", "Connections to a server.", engine.connections),
        ("connections_in_use", "gauge", "Connections in use.", engine.connections_in_use),
        (
            "connections_wanted",
            "gauge",
            "Operations that wait for a connection.",
            engine.connections_wanted,
        ),
    ] {
        head(text, &format!("marmota_engine_{name}"), kind, help);
        let _ = writeln!(text, "marmota_engine_{name} {value}");
    }
    if let Some(cache) = numbers.cache {
        for (name, help, value) in [
            ("hits_total", "Reads that the cache answered.", cache.hits),
            ("misses_total", "Reads that the cache did not answer.", cache.misses),
        ] {
            head(text, &format!("marmota_cache_{name}"), "counter", help);
            let _ = writeln!(text, "marmota_cache_{name} {value}");
        }
    }
    let Some(activity) = store.activity() else { return };
    head(text, "marmota_sessions", "gauge", "Sessions that are counted.");
    let _ = writeln!(text, "marmota_sessions {}", activity.sessions.len());
    let verbs = &activity.verbs;
    let counters: [(&str, &str, Of); 3] = [
        ("rows_total", "Rows read or written.", |one| one.done.rows),
        ("errors_total", "Operations that failed.", |one| one.done.errors),
        ("batched_total", "Writes that were part of a batch.", |one| one.in_batches),
    ];
    for (name, help, of) in counters {
        let name = format!("marmota_store_{name}");
        head(text, &name, "counter", help);
        for one in verbs {
            let _ = writeln!(text, "{name}{{{}}} {}", labels(one), of(one));
        }
    }
    let name = "marmota_store_operation_seconds";
    head(text, name, "histogram", "How long operations took.");
    for one in verbs {
        one.done.write_histogram(text, name, &labels(one));
    }
}

/// Appends the comments that introduce a metric: its description and its type (`counter`, `gauge`
/// or `histogram`). They precede the first sample and occur once per metric, as the format
/// requires.
fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Returns the labels of a table and verb, without braces, since a histogram adds another one.
/// Names in a schema consist of letters, digits and underscores, so they need no escapes.
fn labels(one: &VerbActivity) -> String {
    format!("table=\"{}\",verb=\"{}\"", one.table, one.verb)
}
