//! The state of replication, for operators.

use marmota_model::Timestamp;

/// The state of a primary's or a replica's replication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicationStatus {
    /// The URL of the target.
    pub target: String,
    /// The number of primaries that the database has had; 0 before the target was reached.
    pub epoch: u64,
    /// The last segment that was written to the target, or applied from it.
    pub index: u64,
    /// The time of the last commit in that segment.
    pub time: Option<Timestamp>,
    /// How much older than the newest commit the copy is, in milliseconds: in a primary, the age of
    /// the oldest commit that is not in the target; in a replica, the age of the oldest commit in
    /// the target that was not applied.
    pub lag_ms: u64,
    /// The number of bytes that were written to the target, or read from it.
    pub bytes: u64,
    /// The number of segments that were written or applied.
    pub segments: u64,
    /// The number of segments that were merged into larger objects.
    pub merged: u64,
    /// The last error of the target, until a request succeeds again.
    pub error: Option<String>,
}
