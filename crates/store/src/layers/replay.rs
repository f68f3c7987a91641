//! The layer of batches whose answer is repeated: such a batch commits nothing that the change feed
//! records, so its outcome gets the number of the last visible commit.
//!
//! The commit of the first execution is visible with the answer. So it is the last one or an
//! earlier one, and who reads after the last one sees its writes. The number of that commit itself
//! cannot be stored with the answer: databases assign it when the transaction ends.
//!
//! The table of commits is read after the batch has ended, not in its transaction. That one is
//! serializable, and would conflict with the commits of others.

use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use marmota_model::{Result, RowSink, Table, ValueRef};

use crate::contract::durability::Durability;
use crate::contract::operation::{Answered, Operation, Outcome};
use crate::layers::feed::commit_rows::{self, integer};
use crate::layers::feed::schema::commit;
use crate::layers::handle::{HandleContext, Place};
use crate::layers::layer::Layer;
use crate::layers::session::pool::Sessions;

/// The layer of repeated answers.
pub(crate) struct ReplayLayer<L> {
    /// The table of commits, if the engine records changes.
    commits: Option<Arc<Table>>,
    next: L,
}

/// An operation that waits below this layer.
#[derive(Debug, Default)]
pub(crate) struct ReplayState<S> {
    /// The number of the last commit that was read so far, while it is read after a batch.
    last: Option<u64>,
    next: S,
}

impl<L: Layer> ReplayLayer<L> {
    /// Creates the layer above `next`.
    pub(crate) const fn new(commits: Option<Arc<Table>>, next: L) -> Self {
        Self { commits, next }
    }

    /// Returns true for a batch outside of transactions whose answer is that of an earlier one.
    #[inline]
    fn is_replay(&self, handle: &HandleContext, operation: &Operation<'_>) -> bool {
        let Operation::Batch { once: Some(once), .. } = operation else { return false };
        self.commits.is_some()
            && matches!(once.answered, Some(Answered { repeated: true, .. }))
            && matches!(handle.place, Place::Thread)
    }

    /// Begins to read the last commit, or continues.
    #[cold]
    fn read_last(
        &self,
        state: &mut ReplayState<L::State>,
        outcome: &mut Outcome,
        context: Option<&mut Context<'_>>,
    ) -> Poll<Result<()>> {
        let Some(table) = &self.commits else { return Poll::Ready(Ok(())) };
        let (handle, query, mut read) =
            (HandleContext::of_store(), commit_rows::last_commit(), Outcome::default());
        let mut list = Operation::List { table, query: &query };
        let ReplayState { last, next } = state;
        let is_begun = last.is_some();
        let last_read = last.get_or_insert(0);
        let mut sink = |row: &[ValueRef<'_>]| {
            *last_read = integer(row[commit::NUMBER]);
            ControlFlow::Break(())
        };
        let mut done = match is_begun {
            true => Poll::Pending,
            false => self.next.submit(&handle, next, None, &mut list, &mut sink, &mut read),
        };
        // Only a poll registers the waker.
        if let (Poll::Pending, Some(context)) = (&done, context) {
            done = self.next.poll(&handle, next, &mut list, &mut sink, &mut read, context);
        }
        let done = ready!(done);
        outcome.commit = last.take().and_then(NonZeroU64::new);
        Poll::Ready(done)
    }
}

impl<L: Layer> Layer for ReplayLayer<L> {
    /// The part of this layer, with the state of the layer below.
    type State = ReplayState<L::State>;

    /// Submits an operation, and reads the last commit after a repeated batch.
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
        match self.next.submit(handle, &mut state.next, durability, operation, sink, outcome) {
            Poll::Ready(Ok(())) if self.is_replay(handle, operation) => {
                self.read_last(state, outcome, None)
            }
            submitted => submitted,
        }
    }

    /// Continues an operation, or the read after it.
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
        if state.last.is_some() {
            return self.read_last(state, outcome, Some(context));
        }
        match self.next.poll(handle, &mut state.next, operation, sink, outcome, context) {
            Poll::Ready(Ok(())) if self.is_replay(handle, operation) => {
                self.read_last(state, outcome, Some(context))
            }
            polled => polled,
        }
    }

    /// Cancels an operation, or the read after it.
    fn cancel(&self, handle: &HandleContext, state: Self::State) {
        self.next.cancel(handle, state.next);
    }

    #[inline]
    fn sessions(&self) -> &Sessions {
        self.next.sessions()
    }
}
