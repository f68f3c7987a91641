//! Statistics of the writing connection: updated by its holder, readable by all threads.

use std::sync::atomic::{AtomicU64, Ordering};

use marmota_store::EngineStatistics;

/// The counters of an engine.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    commits: AtomicU64,
    groups: AtomicU64,
    grouped_writes: AtomicU64,
    group_writes_max: AtomicU64,
    syncs: AtomicU64,
    checkpoints: AtomicU64,
    writes_refused: AtomicU64,
    read_handovers: AtomicU64,
    read_yields: AtomicU64,
    read_timeouts: AtomicU64,
    reads_cancelled: AtomicU64,
}

impl Counts {
    pub(crate) fn commit(&self) {
        add(&self.commits, 1);
    }

    /// Counts a committed group and its writes.
    pub(crate) fn group(&self, writes: usize) {
        let writes = writes as u64;
        add(&self.groups, 1);
        add(&self.grouped_writes, writes);
        if writes > self.group_writes_max.load(Ordering::Relaxed) {
            self.group_writes_max.store(writes, Ordering::Relaxed);
        }
    }

    pub(crate) fn syncs(&self, syncs: u64) {
        if syncs > 0 {
            add(&self.syncs, syncs);
        }
    }

    pub(crate) fn checkpoint(&self) {
        add(&self.checkpoints, 1);
    }

    /// Counts a refused write. Any submitter may call this.
    #[cold]
    pub(crate) fn refuse(&self) {
        self.writes_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a read that continues on a helper thread.
    #[cold]
    pub(crate) fn read_handover(&self) {
        self.read_handovers.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a read that yielded its thread.
    #[cold]
    pub(crate) fn read_yield(&self) {
        self.read_yields.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a read that its deadline ended.
    #[cold]
    pub(crate) fn read_timeout(&self) {
        self.read_timeouts.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a read that was cancelled before its end.
    #[cold]
    pub(crate) fn read_cancelled(&self) {
        self.reads_cancelled.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn statistics(&self, writes_waiting: usize) -> EngineStatistics {
        let mut statistics = EngineStatistics::default();
        statistics.commits = self.commits.load(Ordering::Relaxed);
        statistics.groups = self.groups.load(Ordering::Relaxed);
        statistics.grouped_writes = self.grouped_writes.load(Ordering::Relaxed);
        statistics.group_writes_max = self.group_writes_max.load(Ordering::Relaxed);
        statistics.syncs = self.syncs.load(Ordering::Relaxed);
        statistics.checkpoints = self.checkpoints.load(Ordering::Relaxed);
        statistics.writes_waiting = writes_waiting as u64;
        statistics.writes_refused = self.writes_refused.load(Ordering::Relaxed);
        statistics.read_handovers = self.read_handovers.load(Ordering::Relaxed);
        statistics.read_yields = self.read_yields.load(Ordering::Relaxed);
        statistics.read_timeouts = self.read_timeouts.load(Ordering::Relaxed);
        statistics.reads_cancelled = self.reads_cancelled.load(Ordering::Relaxed);
        statistics
    }
}

/// Adds to a counter that only the holder of the connection writes, so no atomic addition is
/// needed.
fn add(number: &AtomicU64, more: u64) {
    number.store(number.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}
