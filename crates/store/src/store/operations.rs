//! Operations as data: the interface under the verbs, for layers that lend rows directly to an
//! answer, such as REST and remote stores.
//!
//! [`Store::submit`] begins an operation. If it has to wait, the caller keeps its [`Pending`] and
//! passes it to [`Store::poll`] with the same operation until it is ready, or to [`Store::cancel`].
//! [`Store::run`] does this for a caller that blocks its thread.

use std::borrow::Cow;
use std::task::{Context, Poll};

use marmota_model::{Result, RowSink};

use super::Store;
use super::pending::{Pending, PendingState, Progress};
use crate::contract::durability::Durability;
use crate::contract::engine::Submitted;
use crate::contract::operation::{Operation, Outcome};
use crate::layers::fallback::is_left_to_store;
use crate::layers::handle::HandleContext;
use crate::layers::layer::Layer;
use crate::layers::session::{SessionState, SharedSnapshot};
use crate::layers::stack::StackState;
use crate::runtime::block_on::{blocking, park_until};

impl Store {
    /// Begins an operation on rows that are ready (see [`crate::prepare`]). The typed verbs do this
    /// and more; this method is for layers that lend rows directly to an answer, such as REST. The
    /// result is written to `outcome`, which has to be a new one. `durability` is set if the
    /// operation has another durability than the store.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Record, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let note = Schema::new("note", vec![id, Field::new("text", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(note).open()?;
    /// # let notes = store.table("note")?;
    /// use std::ops::ControlFlow;
    /// use marmota_model::{RowQuery, ValueRef};
    /// use marmota_store::Progress;
    /// use marmota_store::operation::{Operation, Outcome};
    ///
    /// let (query, mut count, mut outcome) = (RowQuery::new(), 0, Outcome::default());
    /// let mut list = Operation::List { table: &notes, query: &query };
    /// let mut sink = |_: &[ValueRef<'_>]| {
    ///     count += 1;
    ///     ControlFlow::Continue(())
    /// };
    /// match store.submit(None, &mut list, &mut sink, &mut outcome)? {
    ///     Progress::Done => assert_eq!(count, 0),
    ///     Progress::Pending(waiting) => store.cancel(waiting),
    /// }
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the operation.
    #[inline]
    pub fn submit(
        &self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Progress> {
        if self.is_plain && !is_left_to_store(operation) {
            let (sessions, place) = (self.core.layers.sessions(), &self.handle.place);
            return Ok(match sessions.submit_to(place, durability, operation, sink, outcome)? {
                Submitted::Done => Progress::Done,
                Submitted::Waiting(ticket) => {
                    Progress::Pending(Pending(PendingState::Plain(SessionState::here(ticket))))
                }
            });
        }
        self.submit_layered(durability, operation, sink, outcome)
    }

    /// [`Store::submit`] through the layers. It is a separate function, so that the path of a plain
    /// store is not longer.
    #[inline(never)]
    fn submit_layered(
        &self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Progress> {
        let (stack, mut state) = (&self.core.layers.stack, StackState::default());
        let handle = &*self.handle_for(operation);
        match stack.submit(handle, &mut state, durability, operation, sink, outcome) {
            Poll::Ready(done) => {
                // An operation that is done has left nothing in it: looking for what to drop took
                // 1.5 % of a read from the cache.
                std::mem::forget(state);
                done.map(|()| Progress::Done)
            }
            Poll::Pending => Ok(Progress::Pending(Pending(PendingState::Layered(Box::new(state))))),
        }
    }

    /// Returns the context for an operation: a write reads nothing from a replica, so that it does
    /// not depend on old rows.
    #[inline]
    fn handle_for(&self, operation: &Operation<'_>) -> Cow<'_, HandleContext> {
        match self.handle.replica {
            Some(_) if operation.is_write() => {
                Cow::Owned(HandleContext { replica: None, ..self.handle.clone() })
            }
            _ => Cow::Borrowed(&self.handle),
        }
    }

    /// Continues an operation that waits, from a future. The operation and the sink have the same
    /// meaning as at [`Store::submit`], but may be at another address. The handle has to be the
    /// same, or one with the same transaction and rights.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Record, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let note = Schema::new("note", vec![id, Field::new("text", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(note).open()?;
    /// # let notes = store.table("note")?;
    /// use std::task::Poll;
    /// use marmota_model::{NoRows, Result};
    /// use marmota_store::Progress;
    /// use marmota_store::operation::{Operation, Outcome};
    ///
    /// /// Counts the rows of a table.
    /// async fn count(store: &Store, table: &marmota_model::Table) -> Result<u64> {
    ///     let mut outcome = Outcome::default();
    ///     let mut operation = Operation::Count { table, filter: None };
    ///     let mut waiting = match store.submit(None, &mut operation, &mut NoRows, &mut outcome)? {
    ///         Progress::Done => return Ok(outcome.rows),
    ///         Progress::Pending(waiting) => waiting,
    ///     };
    ///     std::future::poll_fn(|context| {
    ///         store.poll(&mut waiting, &mut operation, &mut NoRows, &mut outcome, context)
    ///     })
    ///     .await?;
    ///     Ok(outcome.rows)
    /// }
    ///
    /// assert_eq!(marmota_store::action::block_on(count(&store, &notes))?, 0);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn poll(
        &self,
        pending: &mut Pending,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        match &mut pending.0 {
            PendingState::Plain(state) => {
                let sessions = self.core.layers.sessions();
                sessions.poll(&self.handle, state, operation, sink, outcome, context)
            }
            PendingState::Layered(state) => {
                let stack = &self.core.layers.stack;
                let handle = &*self.handle_for(operation);
                stack.poll(handle, state, operation, sink, outcome, context)
            }
        }
    }

    /// Cancels an operation that waits; it may still be executed. A [`Pending`] that is dropped
    /// instead leaves its operation in the session.
    pub fn cancel(&self, pending: Pending) {
        match pending.0 {
            PendingState::Plain(state) => self.core.layers.sessions().cancel(&self.handle, state),
            PendingState::Layered(state) => self.core.layers.stack.cancel(&self.handle, *state),
        }
    }

    /// Calls [`Store::submit`], then [`Store::poll`] until the operation is done. The thread is
    /// parked in between, and other operations can use the session meanwhile.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Record, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let note = Schema::new("note", vec![id, Field::new("text", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(note).open()?;
    /// # let notes = store.table("note")?;
    /// use marmota_model::NoRows;
    /// use marmota_store::operation::Operation;
    ///
    /// let mut count = Operation::Count { table: &notes, filter: None };
    /// let outcome = store.run(&mut count, &mut NoRows)?;
    /// assert_eq!(outcome.rows, 0);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the operation.
    pub fn run(&self, operation: &mut Operation<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        self.run_into(None, operation, sink, &mut outcome)?;
        Ok(outcome)
    }

    /// Lets the reads by key of this thread share a snapshot, until the result is dropped: those of
    /// one call, between which the thread does nothing else. Returns `None` in a transaction, which
    /// has a snapshot or locks of its own.
    pub(crate) fn share_snapshot(&self) -> Option<SharedSnapshot<'_>> {
        self.core.layers.sessions().share_snapshot(&self.handle.place)
    }

    /// [`Store::run`] without layers: without hooks, history, rights and expressions.
    pub(crate) fn run_below(
        &self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        self.run_in_session(None, operation, sink, &mut outcome)?;
        Ok(outcome)
    }

    /// [`Store::run`] with a caller's outcome.
    pub(crate) fn run_into(
        &self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<()> {
        if !self.is_plain || is_left_to_store(operation) {
            return self.run_layered(durability, operation, sink, outcome);
        }
        self.run_in_session(durability, operation, sink, outcome)
    }

    fn run_in_session(
        &self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let (sessions, place) = (self.core.layers.sessions(), &self.handle.place);
        match blocking(|| sessions.submit_to(place, durability, operation, sink, outcome))? {
            Submitted::Done => Ok(()),
            Submitted::Waiting(ticket) => {
                let mut state = SessionState::here(ticket);
                park_until(|context| {
                    sessions.poll(&self.handle, &mut state, operation, sink, outcome, context)
                })
            }
        }
    }

    /// [`Store::run_into`] through the layers.
    #[inline(never)]
    fn run_layered(
        &self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<()> {
        match blocking(|| self.submit_layered(durability, operation, sink, outcome))? {
            Progress::Done => Ok(()),
            Progress::Pending(mut pending) => {
                park_until(|context| self.poll(&mut pending, operation, sink, outcome, context))
            }
        }
    }
}
