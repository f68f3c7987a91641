//! The open transaction of a session.

use std::sync::Arc;

use marmota_store::engine::Ticket;
use marmota_store::wait::WaitQueue;

use crate::connection::slot::ConnectionSlot;

/// An open transaction.
pub(super) struct Open {
    /// Distinguishes it from previous ones.
    pub(super) number: u64,
    pub(super) slot: Arc<ConnectionSlot>,
    pub(super) connection: u64,
    pub(super) savepoints: Vec<u32>,
    /// True if a write had an actor.
    pub(super) has_actor: bool,
    /// True if it conflicted with another transaction or lost its connection.
    pub(super) is_lost: bool,
    /// The operation in progress: one at a time, so that a failed one can be rolled back before the
    /// next.
    pub(super) busy: Option<Ticket>,
    /// The batch being executed step by step: other operations wait until it is over.
    pub(super) batch: Option<Ticket>,
    /// Operations that wait for their turn. The end of one wakes all: a step of a batch may continue
    /// where others may not.
    pub(super) waiting: Arc<WaitQueue>,
}
