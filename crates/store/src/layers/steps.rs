//! The layer of writes that take additional steps in the same transaction. There are seven reasons
//! for such steps:
//! - The table is audited: an entry in the history is written, with the fields that changed.
//! - The caller has rights with rules on rows: the rows are read and checked before the write.
//! - Immutable fields are written: the row is read, and the write refused if it would change them.
//! - A value is given for a generated column: it is compared with that of the database afterwards.
//! - Rows that refer to deleted ones are deleted or changed.
//! - The table has hooks that are called before the write, with the rows before and after it.
//! - The store determines values of the row: default expressions and computed fields.
//!
//! Such a write is executed as a batch, whose steps are made by the [batch
//! machine](crate::operation::BatchMachine) on every engine alike, and its result is taken from the
//! batch. All other operations are passed on as they are. If a hook may wait, the batch is executed
//! in a transaction of the store (`transaction_write.rs`), otherwise by the engine.

mod additional;
pub(crate) mod before_hooks;
mod evaluation;
mod transaction_write;
mod write_as_batch;

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use marmota_model::{NoRows, Result, RowSink, Table};

use self::additional::Steps;
use self::before_hooks::BeforeHooks;
use self::evaluation::Evaluation;
use self::transaction_write::{TransactionWrite, check_turn};
use self::write_as_batch::WriteAsBatch;
use crate::batch_machine::before;
use crate::contract::audit::AuditLog;
use crate::contract::durability::Durability;
use crate::contract::operation::{Operation, Outcome};
use crate::layers::handle::HandleContext;
use crate::layers::layer::Layer;
use crate::layers::session::pool::Sessions;
use crate::rows::cascades::Cascades;
use crate::rows::registry::Registry;

/// The layer of writes with additional steps. It is idle in a store without audited tables,
/// immutable fields, generated columns and hooks, for handles without rights.
pub(crate) struct StepsLayer<L> {
    /// The history, if a table is audited.
    audit_log: Option<Arc<AuditLog>>,
    /// The hooks that are called before writes, if there are any.
    before_hooks: Option<Arc<BeforeHooks>>,
    /// True if deletes may delete or change rows that refer to the deleted ones.
    cascades: bool,
    /// True if only the caller's rights can be a reason for additional steps.
    is_idle: bool,
    registry: Arc<Registry>,
    next: L,
}

/// An operation that waits below this layer. The caller passes the original operation to each poll,
/// and the layers below get the batch, which is kept here.
#[derive(Debug, Default)]
pub(crate) struct StepsState<S> {
    /// What is executed instead of it, if something is.
    instead: Option<Box<Instead<S>>>,
    next: S,
}

/// What is executed instead of an operation.
#[derive(Debug)]
enum Instead<S> {
    /// A batch, by the engine.
    Batch(WriteAsBatch),
    /// A batch with hooks that may wait, in a transaction of the store.
    Transaction(Box<TransactionWrite<S>>),
    /// The same write, with the values of expressions.
    Completed(Evaluation),
}

impl<L: Layer> StepsLayer<L> {
    /// Creates the layer above `next`, for the tables of a store, its history and its hooks, if it
    /// has them. `cascades` is false if another store executes the deletes.
    pub(crate) fn new(
        audit_log: Option<AuditLog>,
        before_hooks: Option<Arc<BeforeHooks>>,
        cascades: bool,
        registry: &Arc<Registry>,
        next: L,
    ) -> Self {
        let is_compared = |table: &Table| !before::compared_fields(table).is_empty();
        let has_compared = registry.tables().iter().any(|table| is_compared(table));
        let has_cascades = cascades && !registry.cascades().is_empty();
        let is_idle =
            audit_log.is_none() && before_hooks.is_none() && !has_compared && !has_cascades;
        let (audit_log, registry) = (audit_log.map(Arc::new), Arc::clone(registry));
        Self { audit_log, before_hooks, cascades: has_cascades, is_idle, registry, next }
    }

    /// Returns true if only the caller's rights can be a reason for additional steps.
    pub(crate) const fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Submits an operation, as a batch if it takes additional steps.
    fn submit_with_steps(
        &self,
        handle: &HandleContext,
        state: &mut StepsState<L::State>,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Poll<Result<()>> {
        let StepsState { instead, next } = state;
        let hooks = self.before_hooks.as_deref();
        if hooks.is_some() {
            check_turn(handle, operation)?;
        }
        let cascades = match self.cascades {
            true => self.registry.cascades(),
            false => Cascades::NONE,
        };
        let steps = Steps::of(self.audit_log.as_ref(), hooks, cascades, handle, operation)?;
        let batch = match &steps {
            Some(steps) => WriteAsBatch::of(operation, &self.registry, steps)?,
            None => None,
        };
        if let (None, Some(evaluation)) =
            (&batch, hooks.and_then(|_| Evaluation::needed(handle, operation)))
        {
            let submitted = evaluation.with(operation, |operation| {
                self.next.submit(handle, next, durability, operation, sink, outcome)
            })?;
            if submitted.is_pending() {
                *instead = Some(Box::new(Instead::Completed(evaluation)));
            }
            return submitted;
        }
        let Some(mut batch) = batch else {
            return self.next.submit(handle, next, durability, operation, sink, outcome);
        };
        if let Some(place) = steps.as_ref().and_then(Steps::place_of_waiting_hooks) {
            let batch = (batch, Arc::clone(place));
            let write = TransactionWrite::begin(&self.next, handle, batch, durability)?;
            *instead = Some(Box::new(Instead::Transaction(Box::new(write))));
            return Poll::Pending;
        }
        let mut whole = Outcome::default();
        let submitted = batch.with(operation, |batch| {
            self.next.submit(handle, next, durability, batch, &mut NoRows, &mut whole)
        });
        match submitted {
            Poll::Ready(done) => {
                let finished = batch.finish(done, operation, outcome);
                outcome.commit = whole.commit;
                Poll::Ready(finished)
            }
            Poll::Pending => {
                *instead = Some(Box::new(Instead::Batch(batch)));
                Poll::Pending
            }
        }
    }
}

impl<L: Layer> Layer for StepsLayer<L> {
    /// The part of this layer, with the state of the layer below.
    type State = StepsState<L::State>;

    /// Submits an operation, as a batch if it takes additional steps.
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
        if self.is_idle() && handle.rights.is_none() {
            let next = &mut state.next;
            return self.next.submit(handle, next, durability, operation, sink, outcome);
        }
        self.submit_with_steps(handle, state, durability, operation, sink, outcome)
    }

    /// Continues an operation, or the batch that replaces it. When the batch ends, its result is
    /// converted to that of the operation.
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
        let StepsState { instead, next } = state;
        let mut whole = Outcome::default();
        let done = ready!(match instead.as_deref_mut() {
            None => return self.next.poll(handle, next, operation, sink, outcome, context),
            Some(Instead::Batch(batch)) => batch.with(operation, |batch| {
                self.next.poll(handle, next, batch, &mut NoRows, &mut whole, context)
            }),
            Some(Instead::Transaction(write)) => write.poll(&self.next, operation, context),
            Some(Instead::Completed(evaluation)) => evaluation.with(operation, |operation| {
                self.next.poll(handle, next, operation, sink, outcome, context)
            })?,
        });
        Poll::Ready(match instead.take().map(|instead| *instead) {
            Some(Instead::Batch(batch)) => {
                let finished = batch.finish(done, operation, outcome);
                outcome.commit = whole.commit;
                finished
            }
            Some(Instead::Transaction(write)) => write.finish(done, operation, outcome),
            Some(Instead::Completed(_)) | None => done,
        })
    }

    /// Cancels an operation, or the batch that replaces it: a batch is executed as a whole or not
    /// at all, so no history entry is left without its write.
    fn cancel(&self, handle: &HandleContext, state: Self::State) {
        match state.instead.map(|instead| *instead) {
            Some(Instead::Transaction(write)) => write.cancel(&self.next),
            _ => self.next.cancel(handle, state.next),
        }
    }

    #[inline]
    fn sessions(&self) -> &Sessions {
        self.next.sessions()
    }
}
