//! The transaction that is open on a session.

use std::sync::Arc;

use marmota_model::{Error, ErrorKind};
use marmota_store::engine::Ticket;
use marmota_store::wait::WaitQueue;

use crate::lane::Lane;

/// A transaction that is open.
pub(super) struct Open {
    /// Tells it from those before it.
    pub(super) number: u64,
    pub(super) lane: Arc<Lane>,
    pub(super) connection: u64,
    pub(super) savepoints: Vec<u32>,
    /// It lost against another transaction, or its connection.
    pub(super) is_lost: bool,
    /// The operation that is under way: one at a time, so that one that fails
    /// can be undone before the next.
    pub(super) busy: Option<Ticket>,
    /// The batch that is under way step by step: others wait until it is over.
    pub(super) batch: Option<Ticket>,
    /// Operations that wait for their turn. All are woken at each end of one: a
    /// step of a batch may go on where others may not.
    pub(super) waiting: Arc<WaitQueue>,
}

#[cold]
pub(super) fn no_transaction() -> Error {
    Error::new(ErrorKind::Invalid, "no transaction is open: begin one first")
}
