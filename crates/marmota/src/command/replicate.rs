//! The options of `serve` for replication, and `promote`.
//!
//! ```text
//! $ people serve --db sqlite:app.db --replicate-to s3://backups/app
//! $ people serve --db sqlite:replica.db --replica-of s3://backups/app
//! $ people promote --db sqlite:replica.db --replica-of s3://backups/app
//! sqlite:replica.db is the primary of s3://backups/app now (epoch 2): serve it with …
//! ```
//!
//! With `--diagnostics`, the state is in three places:
//!
//! | route | what it shows |
//! |---|---|
//! | `/metrics` | `marmota_replication_lag_seconds`, `_epoch`, `_segment`, `_segments_total`, `_bytes_total`, `_merged_total`, `_failing` |
//! | `/api/-/statistics` | the section `replication`, with the last error |
//! | `/readyz` | 503 while the lag of a replica is above `--replica-lag-max-ms` |
//!
//! A replica's file is made before the database is opened, and its models are not migrated: the
//! primary does that.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use marmota_http::Metrics;
use marmota_model::{Error, ErrorKind, Result};
use marmota_rest::Diagnostics;
use marmota_store::StoreBuilder;
use serde_json::json;

use super::{Command, Database, Done, JsonOutput};
use crate::operations::Operations;
use crate::replication::{
    Follower, ReplicationMode, ReplicationOptions, ReplicationStatus, Replicator, prepare_replica,
};

/// The options of a primary and of a replica.
#[derive(Args)]
pub(super) struct Replicate {
    /// Copies the database of SQLite or of the memory engine continuously to this target:
    /// file:///folder or s3://bucket/prefix; see the guide, 28-replication.md
    #[arg(long, value_name = "URL")]
    replicate_to: Option<String>,
    /// When writes are answered: async (before the target has them) or sync (after)
    #[arg(long, value_name = "MODE", default_value = "async", value_parser = ["async", "sync"],
          requires = "replicate_to")]
    replicate_mode: String,
    /// With async: the time within which the target has a commit, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000, requires = "replicate_to",
          value_parser = clap::value_parser!(u64).range(10..))]
    replicate_window_ms: u64,
    /// With sync: the time after which a write fails if the target does not have it, in
    /// milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000, requires = "replicate_to",
          value_parser = clap::value_parser!(u64).range(100..))]
    replicate_deadline_ms: u64,
    /// The time between snapshots of the whole database in the target
    #[arg(long, value_name = "HOURS", default_value_t = 24, requires = "replicate_to",
          value_parser = clap::value_parser!(u64).range(1..))]
    snapshot_hours: u64,
    /// How far back the database can be restored from the target
    #[arg(long, value_name = "DAYS", default_value_t = 7, requires = "replicate_to",
          value_parser = clap::value_parser!(u64).range(1..))]
    replica_retention_days: u64,
    /// The age after which small segments in the target are merged into larger objects, in minutes;
    /// 0: never
    #[arg(long, value_name = "MINUTES", default_value_t = 60, requires = "replicate_to")]
    replica_merge_minutes: u64,
    /// The size up to which the database's log grows while the target cannot be reached; a new
    /// snapshot follows then
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30, requires = "replicate_to",
          value_parser = clap::value_parser!(u64).range(1..))]
    replicate_log_bytes_max: u64,
    /// Serves a read-only replica of the database in this target; --db names the replica's file, of
    /// the same engine
    #[arg(long, value_name = "URL", conflicts_with = "replicate_to")]
    replica_of: Option<String>,
    /// The interval in which a replica looks for new commits, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500, requires = "replica_of",
          value_parser = clap::value_parser!(u64).range(10..))]
    replica_poll_ms: u64,
    /// The lag of a replica above which /readyz is answered 503, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 30_000, requires = "replica_of")]
    replica_lag_max_ms: u64,
}

/// The replication of a running server.
#[derive(Clone)]
pub(super) enum Replication {
    None,
    Primary(Replicator),
    Replica(Follower, u64),
}

impl Replicate {
    /// Returns true if the server has a replica.
    pub(super) const fn is_replica(&self) -> bool {
        self.replica_of.is_some()
    }

    /// Prepares the replication. A replica's file is made here, before the database is opened.
    pub(super) fn prepare(&self, url: &str) -> Result<Replication> {
        if let Some(target) = &self.replicate_to {
            let mode = match &*self.replicate_mode {
                "sync" => ReplicationMode::Sync,
                _ => ReplicationMode::Async,
            };
            let hours = |hours: u64| Duration::from_secs(hours.saturating_mul(3_600));
            let merge_after = match self.replica_merge_minutes {
                0 => Duration::MAX,
                minutes => Duration::from_secs(minutes.saturating_mul(60)),
            };
            let options = ReplicationOptions::default()
                .mode(mode)
                .window(Duration::from_millis(self.replicate_window_ms))
                .sync_deadline(Duration::from_millis(self.replicate_deadline_ms))
                .merge_after(merge_after)
                .log_bytes_max(self.replicate_log_bytes_max)
                .snapshot_interval(hours(self.snapshot_hours))
                .retention(hours(self.replica_retention_days.saturating_mul(24)));
            return Replicator::new(target, options).map(Replication::Primary);
        }
        let Some(target) = &self.replica_of else { return Ok(Replication::None) };
        let follower = Follower::new(target, Duration::from_millis(self.replica_poll_ms))?;
        prepare_replica(&follower, url)?;
        Ok(Replication::Replica(follower, self.replica_lag_max_ms))
    }
}

impl Replication {
    pub(super) const fn is_replica(&self) -> bool {
        matches!(self, Self::Replica(..))
    }

    /// Adds the replication to a store.
    pub(super) fn of_store(&self, builder: StoreBuilder) -> StoreBuilder {
        match self {
            Self::None => builder,
            Self::Primary(replicator) => builder.commit_sink(Arc::new(replicator.clone())),
            Self::Replica(follower, _) => builder.commit_sink(Arc::new(follower.clone())),
        }
    }

    /// Waits until the target has all commits so far.
    ///
    /// # Errors
    /// Those of a target that does not answer or does not accept them in time.
    pub(super) fn flush(&self, timeout: Duration) -> Result<()> {
        let Self::Primary(replicator) = self else { return Ok(()) };
        replicator.check_target()?;
        match replicator.flush(timeout) {
            true => Ok(()),
            false => {
                let target = replicator.status().target;
                let message = format!("{target} does not have the last commits yet");
                Err(Error::new(ErrorKind::Busy, message))
            }
        }
    }

    /// Returns the state of the copy; `None` without replication.
    fn status(&self) -> Option<ReplicationStatus> {
        match self {
            Self::None => None,
            Self::Primary(replicator) => Some(replicator.status()),
            Self::Replica(follower, _) => Some(follower.status()),
        }
    }

    /// Returns the state as JSON.
    fn to_json(&self) -> serde_json::Value {
        let status = self.status().unwrap_or_default();
        json!({
            "role": if self.is_replica() { "replica" } else { "primary" },
            "target": status.target,
            "epoch": status.epoch,
            "segment": status.index,
            "time": status.time.map(|time| time.to_string()),
            "lag_ms": status.lag_ms,
            "segments": status.segments,
            "bytes": status.bytes,
            "merged": status.merged,
            "error": status.error,
        })
    }
}

/// The replication of the open store, for metrics and routes. A store that is opened again has
/// another one.
#[derive(Clone)]
pub(super) struct CurrentReplication(Arc<Mutex<Replication>>);

impl Default for CurrentReplication {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Replication::None)))
    }
}

impl CurrentReplication {
    /// Shows the replication of a store that was opened.
    pub(super) fn set(&self, replication: Replication) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = replication;
    }

    /// Returns the replication that was set last.
    fn get(&self) -> Replication {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns true without replication: then there is no state to show.
    fn is_none(&self) -> bool {
        matches!(self.get(), Replication::None)
    }

    /// Adds the state to the metrics.
    pub(super) fn to_metrics(&self, metrics: &Metrics) {
        if self.is_none() {
            return;
        }
        let current = self.clone();
        metrics.add_collector(move |text| {
            let Some(status) = current.get().status() else { return };
            let mut add = |name: &str, kind: &str, value: f64| {
                let _ = write!(
                    text,
                    "# TYPE marmota_replication_{name} {kind}\nmarmota_replication_{name} {value}\n"
                );
            };
            add("lag_seconds", "gauge", status.lag_ms as f64 / 1_000.0);
            add("epoch", "gauge", status.epoch as f64);
            add("segment", "gauge", status.index as f64);
            add("segments_total", "counter", status.segments as f64);
            add("bytes_total", "counter", status.bytes as f64);
            add("merged_total", "counter", status.merged as f64);
            add("failing", "gauge", f64::from(u8::from(status.error.is_some())));
        });
    }

    /// Adds the state to the routes for administrators.
    pub(super) fn to_operations(&self, operations: Operations) -> Operations {
        if self.is_none() {
            return operations;
        }
        let current = self.clone();
        operations.replication(move || current.get().to_json())
    }

    /// Adds the state to the diagnostics, and the lag of a replica to `/readyz`.
    pub(super) fn to_diagnostics(&self, diagnostics: Diagnostics) -> Diagnostics {
        if self.is_none() {
            return diagnostics;
        }
        let current = self.clone();
        let diagnostics = diagnostics.add_section("replication", move || current.get().to_json());
        match self.get() {
            Replication::Replica(follower, lag_max_ms) => {
                diagnostics.ready_if(move || follower.status().lag_ms <= lag_max_ms)
            }
            _ => diagnostics,
        }
    }
}

/// Makes a replica, or a restored database, the primary of a target; the server must be stopped
#[derive(Args)]
pub(super) struct Promote {
    /// The target: file:///folder or s3://bucket/prefix
    #[arg(long, value_name = "URL")]
    replica_of: String,
    #[command(flatten)]
    database: Database,
    #[command(flatten)]
    output: JsonOutput,
}

impl Promote {
    /// Promotes the database, and prints how to serve it.
    pub(super) fn run(&self, command: &Command) -> Done {
        let url = command.url(&self.database);
        let promoted = crate::replication::promote(&self.replica_of, url)?;
        let (target, epoch) = (&self.replica_of, promoted.epoch);
        self.output.notice(
            || json!({ "database": url, "target": target, "epoch": epoch }),
            || {
                format!(
                    "{url} is the primary of {target} now (epoch {epoch}): serve it with \
                     `--replicate-to {target}`"
                )
            },
        );
        Ok(ExitCode::SUCCESS)
    }
}
