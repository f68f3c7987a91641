//! A batch with an idempotency key: executed from poll to poll, because its answer is made by the
//! caller.

use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Durability;
use marmota_store::backoff::Backoff;
use marmota_store::operation::{BatchDriver, BatchParts, Operation, Outcome};

use super::BlockingSession;

/// How long a batch that conflicts with others is repeated.
const RETRY: Duration = Duration::from_secs(20);

/// The batch, and the session of its transaction.
pub(super) struct OnceBatch {
    driver: BatchDriver,
    session: BlockingSession,
    backoff: Backoff,
    until: Instant,
}

impl OnceBatch {
    pub(super) fn new(session: BlockingSession, durability: Option<Durability>) -> Self {
        let is_nested = session.transaction.is_some();
        let driver = BatchDriver::new(durability, is_nested);
        let backoff = Backoff::new(Duration::from_micros(500), Duration::from_millis(32));
        Self { driver, session, backoff, until: Instant::now() + RETRY }
    }

    pub(super) fn poll(
        &mut self,
        operation: &mut Operation<'_>,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let Self { driver, session, backoff, until } = self;
        let Some(mut parts) = BatchParts::of(operation) else {
            return Poll::Ready(Err(Error::new(ErrorKind::Bug, "not a batch")));
        };
        let mut retry = |error: &Error| {
            (error.is_retryable() && Instant::now() < *until).then(|| backoff.pause())
        };
        let done = ready!(driver.poll(session, &mut parts, &mut retry, context));
        outcome.rows = parts.results.iter().filter(|one| one.is_ok()).count() as u64;
        outcome.commit = driver.commit();
        Poll::Ready(done)
    }
}
