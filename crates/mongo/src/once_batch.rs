//! A batch that takes place once: driven from poll to poll on a session of its
//! own, because the caller makes the answer in the middle, which no other thread
//! may.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use marmota_model::Result;
use marmota_store::Durability;
use marmota_store::operation::{BatchDriver, BatchParts, Operation, Outcome};
use marmota_store::wait::TurnGuard;
use tokio::task::JoinHandle;

use crate::engine::{Shared, UnderWay};
use crate::session::{MongoSession, joined, unexpected};
use crate::work::Tries;

/// The right to write steps.
type Turn = Option<TurnGuard>;

/// Such a batch under way.
pub(crate) struct OnceBatch {
    session: MongoSession,
    driver: BatchDriver,
    /// The wait for the turn, where it has a transaction of its own.
    waits: Option<JoinHandle<Result<Turn>>>,
    turn: Turn,
    tries: Tries,
    _under_way: UnderWay,
}

impl OnceBatch {
    /// Begins it on a session that is in the caller's transaction, if there is one.
    pub(crate) fn begin(
        shared: &Arc<Shared>,
        session: MongoSession,
        durability: Option<Durability>,
        under_way: UnderWay,
    ) -> Self {
        let (number, is_nested) = (shared.turns.number(), session.is_in_transaction());
        let waiting = Arc::clone(shared);
        let turn = async move {
            waiting.within(async { Ok(waiting.turns.wait(number, true).await) }).await
        };
        // Writes that take several steps come one after the other; a transaction's do anyway.
        let waits = (!is_nested).then(|| shared.handle.spawn(turn));
        Self {
            session,
            driver: BatchDriver::new(durability, is_nested),
            waits,
            turn: None,
            tries: Tries::begin(shared),
            _under_way: under_way,
        }
    }

    /// Continues as far as that is possible.
    pub(crate) fn poll(
        &mut self,
        operation: &mut Operation<'_>,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let mut parts = BatchParts::of(operation).ok_or_else(unexpected)?;
        if let Some(waits) = &mut self.waits {
            let turn = ready!(joined(waits, context));
            self.waits = None;
            self.turn = turn?;
        }
        let retry = &mut |error: &_| self.tries.pause_after(error);
        let done = ready!(self.driver.poll(&mut self.session, &mut parts, retry, context));
        self.turn = None;
        outcome.rows = parts.results.iter().flatten().map(|one| one.rows).sum();
        Poll::Ready(done)
    }
}

impl Drop for OnceBatch {
    fn drop(&mut self) {
        if let Some(waits) = self.waits.take() {
            waits.abort();
        }
        // What its session waits with and the transaction that it has begun are
        // abandoned with it: later writes wait until that is undone.
        self.driver.cancel(&mut self.session);
    }
}
