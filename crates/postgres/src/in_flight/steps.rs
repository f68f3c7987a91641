//! Batches whose steps depend on the results of previous ones: a batch with an idempotency key
//! looks for a stored answer, and stores its answer with its writes; an audited write is entered in
//! the history with its result; a write for which the caller may lack the right checks the row.
//!
//! They are driven by polls ([`BatchDriver`]): on a separate session with a connection of the pool
//! and a transaction or, within a transaction, on its session, where all other operations wait
//! until the batch is over. No thread waits for an answer.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::backoff::Backoff;
use marmota_store::engine::Session;
use marmota_store::operation::{BatchDriver, BatchParts, Operation, Write};

/// The number of retries after conflicts with other transactions: for about two seconds.
const TRIES_MAX: u32 = 50;
/// The first pause between two tries, and the longest.
const PAUSE: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Returns true for a batch that is executed here.
pub(crate) fn takes_steps(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Batch { once, writes, .. } => {
            once.is_some() || writes.iter().any(Write::is_of_steps)
        }
        _ => false,
    }
}

/// Such a batch in progress.
pub(crate) struct Steps {
    driver: BatchDriver,
    place: Place,
    /// The number of its commit in the change feed, or 0.
    commit: Arc<AtomicU64>,
    tries: u32,
    backoff: Backoff,
}

/// The session that executes its steps.
enum Place {
    OwnConnections(Box<dyn Session>),
    /// The transaction with this number.
    Transaction(u64),
}

impl Steps {
    /// Starts one in the open transaction with this number.
    pub(crate) fn in_transaction(number: u64) -> Self {
        Self::begin(Place::Transaction(number), Arc::default())
    }

    /// Starts one in its own transaction, on a session of its own, which sets `commit` to the number
    /// of its commit.
    pub(crate) fn on_session(own: Box<dyn Session>, commit: Arc<AtomicU64>) -> Self {
        Self::begin(Place::OwnConnections(own), commit)
    }

    fn begin(place: Place, commit: Arc<AtomicU64>) -> Self {
        let is_nested = matches!(place, Place::Transaction(_));
        let driver = BatchDriver::new(None, is_nested);
        Self { driver, place, commit, tries: 0, backoff: Backoff::new(PAUSE, PAUSE_MAX) }
    }

    /// Returns the number of its commit in the change feed.
    pub(crate) fn commit(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.commit.load(Ordering::Relaxed))
    }

    /// Returns the number of the surrounding transaction, if any.
    pub(crate) const fn transaction(&self) -> Option<u64> {
        match self.place {
            Place::OwnConnections(_) => None,
            Place::Transaction(number) => Some(number),
        }
    }

    /// Continues as far as possible; `session` is the one that it was started on.
    pub(crate) fn poll(
        &mut self,
        session: &mut dyn Session,
        operation: &mut Operation<'_>,
        waker: &Waker,
    ) -> Poll<Result<()>> {
        let Some(mut parts) = BatchParts::of(operation) else {
            let message = "a batch was polled as another operation";
            return Poll::Ready(Err(Error::new(ErrorKind::Bug, message)));
        };
        let session: &mut dyn Session = match &mut self.place {
            Place::OwnConnections(own) => &mut **own,
            Place::Transaction(_) => session,
        };
        let (tries, backoff) = (&mut self.tries, &mut self.backoff);
        let retry = &mut |error: &Error| {
            *tries += 1;
            (error.is_retryable() && *tries < TRIES_MAX).then(|| backoff.pause())
        };
        self.driver.poll(session, &mut parts, retry, &mut Context::from_waker(waker))
    }

    /// Abandons it. Changes in its own transaction are rolled back.
    pub(crate) fn cancel(&mut self, session: &mut dyn Session) {
        match &mut self.place {
            Place::OwnConnections(own) => self.driver.cancel(&mut **own),
            Place::Transaction(_) => self.driver.cancel(session),
        }
    }
}
