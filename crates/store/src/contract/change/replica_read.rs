//! [`ReplicaRead`]: how a read uses the replicas of its database.

use std::time::Instant;

/// How a read uses the replicas of its database
/// ([`Session::submit_read`](crate::engine::Session::submit_read)).
///
/// ```
/// use marmota_store::change::ReplicaRead;
/// assert_eq!(ReplicaRead::default().after, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaRead {
    /// The number of the commit that the replica must have applied, and the time until which the
    /// read waits for that. Later, the primary executes it. `None`: the replica may be older than
    /// any commit.
    pub after: Option<(u64, Instant)>,
}
