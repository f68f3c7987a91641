//! The state of an operation that was submitted to a store.

use crate::layers::session::SessionState;
use crate::layers::stack::StackState;

/// An operation that waits; see [`Store::submit`](crate::Store::submit). Each layer that the
/// operation has passed keeps its part of the state here.
#[derive(Debug)]
pub struct Pending(pub(super) PendingState);

/// Where an operation waits.
#[derive(Debug)]
pub(super) enum PendingState {
    /// In a session, to which it was submitted directly.
    Plain(SessionState),
    /// Below the layers.
    Layered(Box<StackState>),
}

/// The state of an operation after [`Store::submit`](crate::Store::submit).
#[derive(Debug)]
pub enum Progress {
    /// It is done.
    Done,
    /// It has to wait: continue it with [`Store::poll`](crate::Store::poll), or cancel it with
    /// [`Store::cancel`](crate::Store::cancel).
    Pending(Pending),
}
