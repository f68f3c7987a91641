//! An operation's way through the store from a future: handed in once, then polled until it is
//! done, given up if the future is dropped.

use std::task::{Context, Poll};

use marmota_model::{Result, RowSink};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::{Durability, Pending, Progress, Store};

/// At most one operation at a time; the next may follow when it is done.
pub(crate) struct Submission {
    store: Store,
    durability: Option<Durability>,
    pending: Option<Pending>,
}

impl Submission {
    /// Of nothing yet, or of an operation that was handed in elsewhere.
    pub(crate) const fn new(
        store: Store,
        durability: Option<Durability>,
        pending: Option<Pending>,
    ) -> Self {
        Self { store, durability, pending }
    }

    /// Begins the operation, or goes on with it: it is the same then as before.
    pub(crate) fn poll(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        context: &mut Context<'_>,
    ) -> Poll<Result<Outcome>> {
        let mut outcome = Outcome::default();
        let mut waiting = match self.pending.take() {
            Some(waiting) => waiting,
            None => match self.store.submit(self.durability, operation, sink, &mut outcome)? {
                Progress::Done => return Poll::Ready(Ok(outcome)),
                Progress::Pending(waiting) => waiting,
            },
        };
        match self.store.poll(&mut waiting, operation, sink, &mut outcome, context) {
            Poll::Ready(result) => Poll::Ready(result.map(|()| outcome)),
            Poll::Pending => {
                self.pending = Some(waiting);
                Poll::Pending
            }
        }
    }
}

impl Drop for Submission {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.store.cancel(pending);
        }
    }
}
