//! A write as owned work. It is executed directly or, if it takes several steps and the server has
//! transactions, in its own transaction.

use std::sync::Arc;
use std::time::Duration;

use marmota_model::{Error, Result, Value};
use marmota_store::Durability;
use marmota_store::backoff::Backoff;
use marmota_store::operation::{OnConflict, Outcome, Write};
use tokio::time::Instant;

use super::lookup::refers;
use super::{Writer, borrowed};
use crate::database::transaction::Transaction;
use crate::shape::Shape;
use crate::shared::Shared;

/// The first pause between two tries, and the longest.
const PAUSE: Duration = Duration::from_micros(500);
const PAUSE_MAX: Duration = Duration::from_millis(32);

/// A write with owned values.
pub(crate) enum Work {
    One(Write),
    InsertMany(Arc<Shape>, Vec<Vec<Value>>, OnConflict),
    UpdateMany(Arc<Shape>, Vec<Vec<Value>>),
}

impl Work {
    pub(crate) async fn carry_out(&self, writer: &Writer) -> Result<Outcome> {
        match self {
            Self::One(write) => writer.write(write).await,
            Self::InsertMany(shape, rows, on_conflict) => {
                writer.insert_many(shape, rows, *on_conflict).await
            }
            Self::UpdateMany(shape, rows) => writer.update_many(shape, rows).await,
        }
    }

    /// Returns true if it takes more than one command that the server executes atomically.
    fn takes_steps(&self, shared: &Shared) -> Result<bool> {
        let Self::One(write) = self else { return Ok(true) };
        let shape = shared.shape(write.table())?;
        let is_referred = || !shared.referrers(shape.name()).is_empty();
        Ok(match write {
            Write::Insert { row, on_conflict, .. } => {
                *on_conflict != OnConflict::Refuse || refers(&shape, &borrowed(row))
            }
            Write::Update { row, .. } => refers(&shape, &borrowed(row)),
            Write::Delete { .. } => is_referred(),
            // The documents of one command are deleted one by one.
            Write::DeleteWhere { .. } => true,
            _ => false,
        })
    }
}

impl Shared {
    /// Executes a write outside of a caller's transaction.
    pub(crate) async fn carry_out(
        self: &Arc<Self>,
        number: u64,
        durability: Option<Durability>,
        work: &Work,
    ) -> Result<Outcome> {
        if !self.capability.transactions || !work.takes_steps(self)? {
            return work.carry_out(&Writer::new(Arc::clone(self), number, durability)).await;
        }
        // Writes of this engine take turns, so that they do not conflict.
        let _turn = self.turns.wait(number, true).await;
        let mut tries = Tries::begin(self);
        loop {
            let transaction = Transaction::begin(&self.database.driver, durability).await?;
            let writer = Writer::inside(Arc::clone(self), number, &transaction, true);
            let done = match work.carry_out(&writer).await {
                Ok(outcome) => transaction.commit(tries.end).await.map(|()| outcome),
                Err(error) => {
                    transaction.abort().await;
                    Err(error)
                }
            };
            match done {
                Err(error) => match tries.pause_after(&error) {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => return Err(error),
                },
                done => return done,
            }
        }
    }
}

/// The retries of a transaction that conflicts with others.
pub(crate) struct Tries {
    backoff: Backoff,
    pub(crate) end: Instant,
}

impl Tries {
    pub(crate) fn begin(shared: &Shared) -> Self {
        let backoff = Backoff::new(PAUSE, PAUSE_MAX);
        Self { backoff, end: Instant::now() + shared.options.timeout }
    }

    /// Returns the pause before the next try, or `None` if there is no next try.
    pub(crate) fn pause_after(&mut self, error: &Error) -> Option<Duration> {
        if !error.is_retryable() {
            return None;
        }
        let pause = self.backoff.pause();
        (Instant::now() + pause < self.end).then_some(pause)
    }
}
