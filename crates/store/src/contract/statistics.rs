//! Counters of an engine, as data that can be serialized.

use serde::Serialize;

/// The counters of an engine since it was opened. Each is exact by itself; while others write, two
/// of them may be of different moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EngineStatistics {
    /// Commits: of groups, transactions and single writes.
    pub commits: u64,
    /// Group commits: waits for the disk that writes of several sessions could share.
    pub groups: u64,
    /// The writes in these groups.
    pub grouped_writes: u64,
    /// The largest number of writes in one group.
    pub group_writes_max: u64,
    /// System calls that waited for the disk.
    pub syncs: u64,
    /// Checkpoints, which move the content of the log to the file.
    pub checkpoints: u64,
    /// Writes that currently wait for the write lock or for the disk.
    pub writes_waiting: u64,
    /// Writes that were refused because too many were waiting.
    pub writes_refused: u64,
    /// Connections to a server that are currently open.
    pub connections: u64,
    /// Connections that an operation currently uses.
    pub connections_in_use: u64,
    /// Operations that wait for a connection, or for their turn to use one.
    pub connections_wanted: u64,
    /// Reads that used up their first budget and continued on a helper thread.
    pub read_handovers: u64,
    /// How often a read has yielded its thread to others before its end.
    pub read_yields: u64,
    /// Reads that were ended by their deadline.
    pub read_timeouts: u64,
    /// Reads that were cancelled before their end.
    pub reads_cancelled: u64,
    /// Reads that a replica executed.
    pub replica_reads: u64,
}

impl EngineStatistics {
    /// Returns the sum of the counters of two engines.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            commits: self.commits + other.commits,
            groups: self.groups + other.groups,
            grouped_writes: self.grouped_writes + other.grouped_writes,
            group_writes_max: self.group_writes_max.max(other.group_writes_max),
            syncs: self.syncs + other.syncs,
            checkpoints: self.checkpoints + other.checkpoints,
            writes_waiting: self.writes_waiting + other.writes_waiting,
            writes_refused: self.writes_refused + other.writes_refused,
            connections: self.connections + other.connections,
            connections_in_use: self.connections_in_use + other.connections_in_use,
            connections_wanted: self.connections_wanted + other.connections_wanted,
            read_handovers: self.read_handovers + other.read_handovers,
            read_yields: self.read_yields + other.read_yields,
            read_timeouts: self.read_timeouts + other.read_timeouts,
            reads_cancelled: self.reads_cancelled + other.reads_cancelled,
            replica_reads: self.replica_reads + other.replica_reads,
        }
    }

    /// Returns the average number of writes that shared a wait for the disk; 0 if none did.
    ///
    /// ```
    /// use marmota_store::EngineStatistics;
    /// assert_eq!(EngineStatistics::default().writes_per_group(), 0.0);
    /// ```
    #[must_use]
    pub fn writes_per_group(&self) -> f64 {
        self.grouped_writes as f64 / (self.groups as f64).max(1.0)
    }
}
