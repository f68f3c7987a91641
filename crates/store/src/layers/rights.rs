//! The layer of the rights: it refuses operations, and narrows them to the rows that the caller may
//! access; see [`crate::rights`].
//!
//! - A read gets the filter of the caller's grants in addition to its own. A read by key is not
//!   changed: the row is checked when the engine lends it, so all callers share the cached row.
//! - A write of a single row is refused if no grant allows it. If the grant has a rule on rows, the
//!   write depends on the row in the database and is checked in the transaction of the write: the
//!   layer of [additional steps](crate::layers::steps) makes a batch of it.
//! - Raw SQL and aggregations are refused, because no rule applies to them.
//!
//! An operation is narrowed again at each poll, from the operation that the caller passes, so
//! nothing of it is kept while it waits.
//!
//! The history of a row is visible to callers who may read the row. If a rule determines these
//! rows, the row is checked first, and the entries are read afterwards. (So the entry of a write
//! between the two is visible.) This is the only operation that this layer executes as two, and the
//! reason for its state.

mod history_access;
mod history_fields;
mod narrowing;
mod redaction;

use std::task::{Context, Poll, ready};

use marmota_model::{FilterExpr, NoRows, Result, RowSink, Table};

use self::history_access::HistoryOf;
use crate::contract::durability::Durability;
use crate::contract::operation::{Operation, Outcome};
use crate::layers::handle::HandleContext;
use crate::layers::layer::Layer;
use crate::layers::session::pool::Sessions;
use crate::rights::Rights;

/// The layer of the rights. The rights are those of the handle; a handle without rights passes.
pub(crate) struct RightsLayer<L> {
    next: L,
}

/// An operation that waits below the rights.
#[derive(Debug, Default)]
pub(crate) struct RightsState<S> {
    /// True while the row whose history was requested is checked.
    checks_row: bool,
    next: S,
}

/// Returns the check of a row: a count of the row, if the caller may see its history.
fn row_check<'l>(table: &'l Table, filter: &'l FilterExpr) -> Operation<'l> {
    Operation::Count { table, filter: Some(filter) }
}

impl<L: Layer> RightsLayer<L> {
    /// Creates the layer above `next`.
    pub(crate) const fn new(next: L) -> Self {
        Self { next }
    }

    /// Submits an operation of a caller who may not use all fields: views of tables are replaced by
    /// the tables, and the answer has only what the caller may read.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "those of an operation, and the rights")]
    fn submit_limited(
        &self,
        rights: &Rights,
        handle: &HandleContext,
        state: &mut RightsState<L::State>,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Poll<Result<()>> {
        operation.use_originals();
        let submitted = match rights.limits_entries(operation) {
            true => rights.with_readable_entries(operation, sink, |operation, sink| {
                self.submit_guarded(rights, handle, state, durability, operation, sink, outcome)
            })?,
            false => {
                self.submit_guarded(rights, handle, state, durability, operation, sink, outcome)
            }
        };
        submitted.map(|done| rights.redact(operation, done))
    }

    /// Submits an operation, narrowed to what the caller may access.
    #[expect(clippy::too_many_arguments, reason = "those of an operation, and the rights")]
    fn submit_guarded(
        &self,
        rights: &Rights,
        handle: &HandleContext,
        state: &mut RightsState<L::State>,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Poll<Result<()>> {
        let next = &mut state.next;
        match rights.history_of(operation)? {
            HistoryOf::Any => rights.narrowed(operation, sink, outcome, |op, sink, outcome| {
                self.next.submit(handle, next, durability, op, sink, outcome)
            })?,
            HistoryOf::Open => self.next.submit(handle, next, durability, operation, sink, outcome),
            HistoryOf::If(table, filter) => {
                let (check, mut seen) = (&mut row_check(table, &filter), Outcome::default());
                let checked = self.next.submit(handle, next, None, check, &mut NoRows, &mut seen);
                state.checks_row = checked.is_pending();
                ready!(checked)?;
                if seen.rows == 0 {
                    return Poll::Ready(Ok(()));
                }
                self.next.submit(handle, next, durability, operation, sink, outcome)
            }
        }
    }

    /// Continues an operation, narrowed in the same way as when it was submitted.
    #[expect(clippy::too_many_arguments, reason = "those of an operation, and the rights")]
    fn poll_guarded(
        &self,
        rights: &Rights,
        handle: &HandleContext,
        state: &mut RightsState<L::State>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let next = &mut state.next;
        match rights.history_of(operation)? {
            HistoryOf::Any => rights.narrowed(operation, sink, outcome, |op, sink, outcome| {
                self.next.poll(handle, next, op, sink, outcome, context)
            })?,
            HistoryOf::If(table, filter) if state.checks_row => {
                let (check, mut seen) = (&mut row_check(table, &filter), Outcome::default());
                let checked = self.next.poll(handle, next, check, &mut NoRows, &mut seen, context);
                state.checks_row = checked.is_pending();
                ready!(checked)?;
                if seen.rows == 0 {
                    return Poll::Ready(Ok(()));
                }
                match self.next.submit(handle, next, None, operation, sink, outcome) {
                    // Only a poll registers the waker.
                    Poll::Pending => {
                        self.next.poll(handle, next, operation, sink, outcome, context)
                    }
                    done => done,
                }
            }
            HistoryOf::Open | HistoryOf::If(..) => {
                self.next.poll(handle, next, operation, sink, outcome, context)
            }
        }
    }
}

impl<L: Layer> Layer for RightsLayer<L> {
    /// The part of this layer, with the state of the layer below.
    type State = RightsState<L::State>;

    /// Submits an operation as far as the handle's rights allow it.
    #[inline(always)]
    fn submit(
        &self,
        handle: &HandleContext,
        state: &mut Self::State,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Poll<Result<()>> {
        match &handle.rights {
            Some(rights) if rights.limits_fields() => {
                self.submit_limited(rights, handle, state, durability, operation, sink, outcome)
            }
            Some(rights) => {
                self.submit_guarded(rights, handle, state, durability, operation, sink, outcome)
            }
            None => self.next.submit(handle, &mut state.next, durability, operation, sink, outcome),
        }
    }

    /// Continues an operation. It is narrowed in the same way as when it was submitted; a change of
    /// the caller's rights has no effect on it, since the handle keeps its rights.
    #[inline]
    fn poll(
        &self,
        handle: &HandleContext,
        state: &mut Self::State,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let Some(rights) = &handle.rights else {
            return self.next.poll(handle, &mut state.next, operation, sink, outcome, context);
        };
        if !rights.limits_fields() {
            return self.poll_guarded(rights, handle, state, operation, sink, outcome, context);
        }
        operation.use_originals();
        let polled = match rights.limits_entries(operation) {
            true => rights.with_readable_entries(operation, sink, |operation, sink| {
                self.poll_guarded(rights, handle, state, operation, sink, outcome, context)
            })?,
            false => self.poll_guarded(rights, handle, state, operation, sink, outcome, context),
        };
        polled.map(|done| rights.redact(operation, done))
    }

    /// Cancels an operation. Whether its row was still being checked makes no difference.
    fn cancel(&self, handle: &HandleContext, state: Self::State) {
        self.next.cancel(handle, state.next);
    }

    #[inline]
    fn sessions(&self) -> &Sessions {
        self.next.sessions()
    }
}
