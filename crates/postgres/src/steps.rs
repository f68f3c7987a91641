//! Batches whose steps follow from what those before came to: one that takes
//! place once looks for the answer that an earlier one left, and keeps one with
//! its writes; an audited write is entered with what it came to, and one whose
//! caller may not have the right to it looks at the row.
//!
//! They are driven from poll to poll ([`BatchDriver`]): on a session of their own,
//! which has a connection of the pool and a transaction, or, within a transaction,
//! on its session, where all other operations wait until the batch is over. No
//! thread waits for an answer.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::backoff::Backoff;
use marmota_store::operation::{BatchDriver, BatchParts, Operation, Write};

use crate::session::PostgresSession;

/// How often one that lost against another transaction is run again: for some
/// two seconds.
const TRIES_MAX: u32 = 50;
/// The first pause between two tries, and the longest.
const PAUSE: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// True for a batch that is carried out here.
pub(crate) fn takes_steps(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Batch { once, writes, .. } => {
            once.is_some() || writes.iter().any(Write::is_of_steps)
        }
        _ => false,
    }
}

/// Such a batch under way.
pub(crate) struct Steps {
    driver: BatchDriver,
    place: Place,
    tries: u32,
    backoff: Backoff,
}

/// Where its steps are carried out.
enum Place {
    Own(Box<PostgresSession>),
    /// In the transaction of this number.
    Transaction(u64),
}

impl Steps {
    /// Begins one in the transaction of a session, or in its own.
    pub(crate) fn begin(session: &PostgresSession) -> Self {
        let place = match session.transaction_number() {
            Some(number) => Place::Transaction(number),
            None => Place::Own(Box::new(PostgresSession::new(Arc::clone(session.shared())))),
        };
        let is_nested = matches!(place, Place::Transaction(_));
        let driver = BatchDriver::new(None, is_nested);
        Self { driver, place, tries: 0, backoff: Backoff::new(PAUSE, PAUSE_MAX) }
    }

    /// The number of the transaction that it is in, if it is another's.
    pub(crate) const fn transaction(&self) -> Option<u64> {
        match self.place {
            Place::Own(_) => None,
            Place::Transaction(number) => Some(number),
        }
    }

    /// Continues as far as that is possible; `session` is the one that it was
    /// begun on.
    pub(crate) fn poll(
        &mut self,
        session: &mut PostgresSession,
        operation: &mut Operation<'_>,
        waker: &Waker,
    ) -> Poll<Result<()>> {
        let Some(mut parts) = BatchParts::of(operation) else {
            let message = "a batch was polled as another operation";
            return Poll::Ready(Err(Error::new(ErrorKind::Bug, message)));
        };
        let session = match &mut self.place {
            Place::Own(own) => own,
            Place::Transaction(_) => session,
        };
        let (tries, backoff) = (&mut self.tries, &mut self.backoff);
        let retry = &mut |error: &Error| {
            *tries += 1;
            (error.is_retryable() && *tries < TRIES_MAX).then(|| backoff.pause())
        };
        self.driver.poll(session, &mut parts, retry, &mut Context::from_waker(waker))
    }

    /// Gives it up. What it did in a transaction of its own is undone.
    pub(crate) fn cancel(&mut self, session: &mut PostgresSession) {
        match &mut self.place {
            Place::Own(own) => self.driver.cancel(&mut **own),
            Place::Transaction(_) => self.driver.cancel(session),
        }
    }
}
