//! A batch with an idempotency key, driven by polls on its own session: the caller makes the answer
//! in between, and no other thread may do that.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use marmota_model::Result;
use marmota_store::Durability;
use marmota_store::engine::Session;
use marmota_store::operation::{BatchDriver, BatchParts, Operation, Outcome};
use marmota_store::wait::TurnGuard;
use tokio::task::JoinHandle;

use crate::fault;
use crate::shared::waiting::joined;
use crate::shared::{Shared, UnderWay};
use crate::writer::work::Tries;

/// The right to execute writes of several steps.
type Turn = Option<TurnGuard>;

/// Such a batch in progress.
pub(crate) struct OnceBatch {
    session: Box<dyn Session>,
    driver: BatchDriver,
    /// The wait for the turn, if the batch has its own transaction.
    waits: Option<JoinHandle<Result<Turn>>>,
    turn: Turn,
    tries: Tries,
    _under_way: UnderWay,
}

impl OnceBatch {
    /// Starts it on a session, which is in the caller's transaction if `is_nested` is true.
    pub(crate) fn begin(
        shared: &Arc<Shared>,
        session: Box<dyn Session>,
        is_nested: bool,
        durability: Option<Durability>,
        under_way: UnderWay,
    ) -> Self {
        let (number, waiting) = (shared.turns.number(), Arc::clone(shared));
        let turn = async move {
            waiting.within(async { Ok(waiting.turns.wait(number, true).await) }).await
        };
        // Writes of several steps are serialized; those in a transaction already are.
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

    /// Continues as far as possible.
    pub(crate) fn poll(
        &mut self,
        operation: &mut Operation<'_>,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let mut parts = BatchParts::of(operation).ok_or_else(fault::unexpected)?;
        if let Some(waits) = &mut self.waits {
            let turn = ready!(joined(waits, context));
            self.waits = None;
            self.turn = turn?;
        }
        let retry = &mut |error: &_| self.tries.pause_after(error);
        let done = ready!(self.driver.poll(&mut *self.session, &mut parts, retry, context));
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
        // The operation that its session waits for and its transaction are abandoned with it: later
        // writes wait until they are undone.
        self.driver.cancel(&mut *self.session);
    }
}
