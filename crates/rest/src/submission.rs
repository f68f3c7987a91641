//! An operation's way through the store from a future: handed in once, then polled until it is
//! done, given up if the future is dropped.

#[cfg(feature = "auth")]
use std::task::ready;
use std::task::{Context, Poll};

use marmota_model::{Result, RowSink};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::{Durability, Pending, Progress, Store};

use crate::request_context::RequestContext;

/// At most one operation at a time; the next may follow when it is done.
pub(crate) struct Submission {
    store: Store,
    durability: Option<Durability>,
    pending: Option<Pending>,
    #[cfg(feature = "auth")]
    again: Option<crate::door::Again>,
}

impl Submission {
    /// Of nothing yet, or of an operation that was handed in elsewhere.
    pub(crate) const fn new(
        store: Store,
        durability: Option<Durability>,
        pending: Option<Pending>,
    ) -> Self {
        Self {
            store,
            durability,
            pending,
            #[cfg(feature = "auth")]
            again: None,
        }
    }

    /// Those of a request that may last: before each operation its caller is authenticated again,
    /// so that a logout or a right taken away ends it.
    pub(crate) fn of_long(
        on: RequestContext<'_, impl Sized>,
        durability: Option<Durability>,
    ) -> Self {
        #[allow(unused_mut, reason = "callers are authenticated with the feature")]
        let mut submission = Self::new(on.store.clone(), durability, None);
        #[cfg(feature = "auth")]
        {
            submission.again = on.api.again(on.request);
        }
        submission
    }

    /// The store as it is for the caller.
    pub(crate) const fn store(&self) -> &Store {
        &self.store
    }

    /// Begins the operation, or goes on with it: it is the same then as before.
    pub(crate) fn poll(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        context: &mut Context<'_>,
    ) -> Poll<Result<Outcome>> {
        #[cfg(feature = "auth")]
        if let (None, Some(again)) = (&self.pending, &mut self.again) {
            self.store = ready!(again.poll(context))?;
        }
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
