//! An operation executed from a future: submitted once, then polled until it is done, and canceled
//! if the future is dropped.
//!
//! ```text
//! submission.poll(operation)    no operation is pending: submits it
//!     Poll::Pending             the engine waits, for example for a lock or for a server
//! submission.poll(operation)    polls the same operation
//!     Poll::Ready(Ok(outcome))  done; the next call submits the next operation
//! ```
//!
//! An operation borrows its rows and its query, so it cannot be stored in the future. The future
//! creates an equal one for each poll instead. A list that waits may have passed a part of its rows
//! to the sink, and continues after them.

#[cfg(feature = "auth")]
use std::task::ready;
use std::task::{Context, Poll};

use marmota_model::{Result, RowSink};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::{Durability, Pending, Progress, Store};

use crate::request::request_context::RequestContext;

/// Executes one operation at a time; the next may follow when it is done.
///
/// The store has at most one operation of a submission, so a request never occupies two sessions.
pub(crate) struct Submission {
    /// The store for the caller, which is replaced when the caller is authenticated again.
    store: Store,
    /// The durability of `Prefer`; `None` for that of the store.
    durability: Option<Durability>,
    /// The operation that was submitted and is not done.
    pending: Option<Pending>,
    /// Authenticates the caller of a long-running request before each operation.
    #[cfg(feature = "auth")]
    again: Option<crate::request::authenticator::Reauthentication>,
}

impl Submission {
    /// Creates a submission without an operation, or for one that was already submitted.
    ///
    /// `durability` is that of the request. A `pending` operation must be passed to the first poll.
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

    /// Creates a submission for a long-running request: its caller is revalidated before each
    /// operation, so that a logout or a revoked right ends the request.
    pub(crate) fn of_long(
        context: RequestContext<'_, impl Sized>,
        durability: Option<Durability>,
    ) -> Self {
        #[allow(unused_mut, reason = "callers are authenticated with the feature")]
        let mut submission = Self::new(context.store.clone(), durability, None);
        #[cfg(feature = "auth")]
        {
            submission.again = context.api.again(context.request);
        }
        submission
    }

    /// Returns the store with the rights of the caller.
    pub(crate) const fn store(&self) -> &Store {
        &self.store
    }

    /// Starts the operation, or continues it; each call must pass the same operation, until the
    /// result is ready. Then the next operation may be passed.
    ///
    /// # Errors
    /// Those of the engine. For a long-running request also
    /// [`marmota_model::ErrorKind::Unauthenticated`], before the operation is submitted, if the
    /// caller's login has ended.
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
    /// Cancels the pending operation, if the future is dropped before it is done: the client has
    /// disconnected, or the server is closing.
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.store.cancel(pending);
        }
    }
}
