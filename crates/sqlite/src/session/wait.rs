//! [`Wait`]: the events that operations of a session wait for.

use std::sync::Arc;
use std::time::Instant;

use marmota_store::Durability;
use marmota_store::backoff::Backoff;
use marmota_store::wait::QueuePlace;

use crate::commit::group_commit::{self, Work};
use crate::executor::Executor;
use crate::session::offloaded::OffloadedOperation;

/// A member of a group in SQLite.
pub(crate) type Member = Arc<group_commit::Member<<Executor as Work>::Job>>;

/// The event that an operation waits for.
#[derive(Debug)]
pub(crate) enum Wait {
    /// Its turn at the writer.
    Turn {
        until: Instant,
        /// Its place in the queue for the writer, after its first poll.
        place: QueuePlace,
        durability: Option<Durability>,
    },
    /// The end of a lock that prevents reading the file.
    Read { until: Instant, backoff: Backoff },
    /// The commit of its group.
    Member { member: Member, has_yielded: bool },
    /// Rows from a helper thread, and the number of rows already passed to the sink.
    Offloaded(Arc<OffloadedOperation>, u64),
    /// The end of an offloaded operation that has the transaction's connection.
    Away { durability: Option<Durability> },
}
