//! What an engine has to be: something that opens sessions, and sessions that
//! carry out operations.
//!
//! The contract is dyn-safe and poll-style: one virtual call an operation and
//! one a row. An engine that has its answer at once (memory, SQLite) gives it
//! inside [`Session::submit`]; one that has to wait (for a lock, for a
//! socket) gives a [`Ticket`], to be driven by [`Session::poll`] from a future
//! or by [`Session::wait`] from a thread. Both ends are the same operation:
//! there is no second, blocking engine.

use std::sync::Arc;
use std::task::{Context, Poll};

use marmota_model::{Result, RowSink, Table};

use crate::operation::{Operation, Outcome};

/// An engine: process-wide, shared by all threads.
pub trait Engine: Send + Sync {
    /// What it is and what it can do, read once at the start.
    fn capability(&self) -> &Capability;

    /// Makes what is missing of a table: itself, columns, indexes. Called
    /// before any operation on it; tables that others refer to come first
    /// where they can.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] for what would lose data or
    /// cannot be done, with the way out.
    fn prepare(&self, tables: &[Arc<Table>], version: u32) -> Result<()>;

    /// Opens a session.
    ///
    /// # Errors
    /// What keeps the engine from opening one.
    fn session(&self) -> Result<Box<dyn Session>>;

    /// Makes everything durable and lets go of files. Operations fail with
    /// [`marmota_model::ErrorKind::Closed`] afterwards.
    ///
    /// # Errors
    /// What could not be made durable.
    fn close(&self) -> Result<()>;
}

/// What an engine is and can do, as data: callers ask this instead of which
/// engine it is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Capability {
    /// Its name: the scheme of its URL.
    pub name: &'static str,
    /// True if what was acknowledged survives the process.
    pub durable: bool,
}

impl Capability {
    /// An engine of this name.
    #[must_use]
    pub const fn new(name: &'static str, durable: bool) -> Self {
        Self { name, durable }
    }
}

/// Where operations are carried out. Used by one thread at a time; may move
/// between threads.
///
/// A session dropped inside a transaction undoes it.
pub trait Session: Send {
    /// Begins an operation, and ends it where that needs no waiting.
    ///
    /// # Errors
    /// What went wrong; then nothing was changed, unless the operation says
    /// otherwise.
    fn submit(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Submitted>;

    /// Goes on with an operation that has to wait; wakes `context` when it
    /// is worth calling again. The operation and sink are the same as at
    /// [`Session::submit`] in meaning, though they may lie elsewhere.
    fn poll(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        context: &mut Context<'_>,
    ) -> Poll<Result<Outcome>>;

    /// Goes on with an operation that has to wait, and blocks until it ends.
    ///
    /// # Errors
    /// As [`Session::submit`]; [`marmota_model::ErrorKind::Busy`] if it took too long.
    fn wait(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Outcome>;

    /// Gives up an operation that has to wait. It may take place or not.
    fn cancel(&mut self, ticket: Ticket);
}

/// How far [`Session::submit`] came.
#[derive(Debug)]
pub enum Submitted {
    /// It is done.
    Done(Outcome),
    /// It has to wait.
    Waiting(Ticket),
}

/// An operation that waits in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);
