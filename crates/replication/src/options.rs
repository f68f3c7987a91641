//! The options of replication.

use std::time::Duration;

/// When a write is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplicationMode {
    /// Before its commit is in the target, which it is within the
    /// [window](ReplicationOptions::window).
    #[default]
    Async,
    /// After its commit is in the target. Writes fail while the target cannot be reached.
    Sync,
}

/// The options of a [`Replicator`](crate::Replicator).
///
/// ```
/// use std::time::Duration;
/// use marmota_replication::{ReplicationMode, ReplicationOptions};
///
/// let options = ReplicationOptions::default()
///     .mode(ReplicationMode::Sync)
///     .sync_deadline(Duration::from_secs(5));
/// assert_eq!(options, options.clone());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicationOptions {
    pub(crate) mode: ReplicationMode,
    pub(crate) window: Duration,
    pub(crate) sync_deadline: Duration,
    pub(crate) snapshot_interval: Duration,
    pub(crate) retention: Duration,
    pub(crate) log_bytes_max: u64,
    pub(crate) merge_after: Duration,
}

impl Default for ReplicationOptions {
    fn default() -> Self {
        Self {
            mode: ReplicationMode::Async,
            window: Duration::from_secs(1),
            sync_deadline: Duration::from_secs(10),
            snapshot_interval: Duration::from_secs(24 * 3_600),
            retention: Duration::from_secs(7 * 24 * 3_600),
            log_bytes_max: 1 << 30,
            merge_after: Duration::from_secs(3_600),
        }
    }
}

impl ReplicationOptions {
    /// Sets when a write is answered. Default: [`ReplicationMode::Async`].
    #[must_use]
    pub const fn mode(mut self, mode: ReplicationMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the time within which a commit is in the target in [`ReplicationMode::Async`], while the
    /// target accepts uploads in half of that time. Default: 1 second.
    #[must_use]
    pub const fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Sets the time after which a write fails with
    /// [`ErrorKind::Lost`](marmota_model::ErrorKind::Lost) in [`ReplicationMode::Sync`] because
    /// its commit is not in the target. Default: 10 seconds.
    #[must_use]
    pub const fn sync_deadline(mut self, deadline: Duration) -> Self {
        self.sync_deadline = deadline;
        self
    }

    /// Sets the time between snapshots of the whole database. A restore reads one snapshot and the
    /// segments after it. Default: 24 hours.
    #[must_use]
    pub const fn snapshot_interval(mut self, interval: Duration) -> Self {
        self.snapshot_interval = interval;
        self
    }

    /// Sets how far back the database can be restored. Snapshots and segments that are not needed
    /// for that are deleted after the next snapshot. Default: 7 days.
    #[must_use]
    pub const fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Sets the age after which small segments are merged into larger objects, as often as this time
    /// passes. No commit is lost by that: a restore is exact to the commit there as well.
    /// [`Duration::MAX`]: never. Default: 1 hour.
    #[must_use]
    pub const fn merge_after(mut self, age: Duration) -> Self {
        self.merge_after = age;
        self
    }

    /// Sets the size up to which the database's log grows while the target cannot be reached.
    /// Beyond it, the log is overwritten, and a new snapshot is made when the target can be reached
    /// again. Default: 1 GiB.
    #[must_use]
    pub const fn log_bytes_max(mut self, bytes: u64) -> Self {
        self.log_bytes_max = bytes;
        self
    }
}
