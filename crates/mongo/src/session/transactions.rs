//! Transactions and batches.

use std::sync::Arc;

use marmota_model::{ErrorKind, Result, Table};
use marmota_store::Durability;
use marmota_store::engine::Submitted;
use marmota_store::operation::{BatchMode, Link, Outcome, Write};
use marmota_store::refusal;
use tokio::time::Instant;

use super::once_batch::OnceBatch;
use super::{Done, MongoSession, Running, batch};
use crate::database::transaction::{Savepoint, Transaction};
use crate::fault;
use crate::refusal::no_transactions;
use crate::shared::UnderWay;
use crate::shared::waiting::wait_on;
use crate::writer::{Writer, insert_each};

/// Batches.
impl MongoSession {
    pub(super) fn batch(
        &mut self,
        durability: Option<Durability>,
        writes: &[Write],
        links: &[Link],
        mode: BatchMode,
    ) -> Result<Submitted> {
        let has_transactions = self.shared.capability.transactions;
        let needs = batch::needs_transaction(writes, mode);
        if let Some(what) = needs.filter(|_| !has_transactions) {
            return Err(no_transactions(what));
        }
        let (writes, links, number) = (writes.to_vec(), links.to_vec(), self.shared.turns.number());
        let (shared, inner) = (Arc::clone(&self.shared), self.inner());
        let is_inside = needs.is_some()
            || self.transaction.is_some()
            || has_transactions && writes.iter().any(batch::reads_first);
        let work = async move {
            // Running a batch makes blocking calls, so it needs a thread that may block.
            let run = move || {
                let mut results = Vec::new();
                let ended = match is_inside {
                    true => batch::inside(inner, &shared, number, durability, |session| {
                        match mode == BatchMode::AllOrNothing && links.is_empty() {
                            true => batch::steps_together(session, &writes, &mut results),
                            false => batch::steps(session, &writes, &links, mode, &mut results),
                        }
                    }),
                    false => {
                        let writer = Writer::new(shared, number, durability);
                        batch::each(&writer, durability, &writes, &links, mode, &mut results)
                    }
                };
                Done::Batch(results, ended)
            };
            tokio::task::spawn_blocking(run).await.map_err(|_| fault::unexpected())
        };
        self.begin(work, number)
    }

    /// Starts a batch with an idempotency key. It is driven by polls, as the caller makes the
    /// answer in between.
    pub(super) fn batch_once(&mut self, durability: Option<Durability>) -> Result<Submitted> {
        if !self.shared.capability.transactions {
            return Err(no_transactions("a batch with an idempotency key"));
        }
        let under_way = self.enter()?;
        let (inner, is_nested) = (Box::new(self.inner()), self.is_in_transaction());
        let once = OnceBatch::begin(&self.shared, inner, is_nested, durability, under_way);
        self.wait(Running::Once(Box::new(once)))
    }
}

/// Transactions.
impl MongoSession {
    pub(crate) const fn is_in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Executes all later operations in a transaction that was begun.
    pub(crate) fn go_into(&mut self, transaction: Arc<Transaction>) {
        self.transaction = Some(transaction);
    }

    /// Inserts the rows of writes to one table together, in the transaction, and waits for that.
    /// Returns `None` if a row was refused; then nothing was written.
    ///
    /// # Errors
    /// The reason why the transaction was aborted.
    pub(crate) fn insert_together(
        &self,
        table: &Table,
        writes: &[Write],
    ) -> Result<Option<Vec<Outcome>>> {
        let transaction = self.transaction.clone().ok_or_else(refusal::no_transaction)?;
        let (shared, shape) = (Arc::clone(&self.shared), self.shared.shape(table)?);
        let (rows, number) = (insert_each::rows_of(writes), shared.turns.number());
        wait_on(&self.shared.handle, async move {
            let _turn = transaction.turn().await;
            let writer = Writer::inside(Arc::clone(&shared), number, &transaction, false);
            let inserted = shared.within(writer.insert_together(&shape, &rows)).await;
            match (inserted, transaction.check()) {
                (Ok(done), _) => Ok(Some(done)),
                (Err(_), Err(broken)) => Err(broken),
                (Err(error), Ok(())) if error.kind() == ErrorKind::Timeout => {
                    Err(transaction.fail(error))
                }
                (Err(_), Ok(())) => Ok(None),
            }
        })
    }

    pub(super) fn begin_transaction(
        &mut self,
        durability: Option<Durability>,
    ) -> Result<Submitted> {
        if !self.shared.capability.transactions {
            return Err(no_transactions("a transaction"));
        }
        if self.transaction.is_some() {
            return Err(refusal::transaction_is_open());
        }
        let (shared, number) = (Arc::clone(&self.shared), self.shared.turns.number());
        let work = async move {
            drop(shared.turns.wait(number, false).await);
            let driver = &shared.database.driver;
            let begun = Transaction::open(driver, durability, &shared.transactions_open);
            begun.await.map(Done::Begun)
        };
        self.begin(work, number)
    }

    /// Commits the transaction or rolls it back.
    pub(super) fn end_transaction(&mut self, commits: bool) -> Result<Submitted> {
        let transaction = self.transaction.take().ok_or_else(refusal::no_transaction)?;
        let (shared, number) = (Arc::clone(&self.shared), self.shared.turns.number());
        let under_way = shared.enter_further();
        let end = Instant::now() + shared.options.timeout;
        let task = self.shared.handle.spawn(async move {
            let _under_way: UnderWay = under_way;
            let work = async {
                let _turn = transaction.turn().await;
                match commits {
                    true => transaction.commit(end).await,
                    false => {
                        transaction.abort().await;
                        Ok(())
                    }
                }
            };
            let done = shared.within(work).await;
            if commits && done.is_ok() {
                shared.counts.committed();
            }
            // Dropped before the caller is notified that it has ended.
            drop(transaction);
            done.map(|()| Done::One(Outcome::default()))
        });
        self.wait(Running::Writing(number, task))
    }

    pub(super) fn savepoint(&mut self, step: Savepoint) -> Result<Submitted> {
        let transaction = self.transaction.clone().ok_or_else(refusal::no_transaction)?;
        let (database, number) = (self.database(), self.shared.turns.number());
        let work = async move {
            let _turn = transaction.turn().await;
            match step {
                Savepoint::Set(name) => transaction.savepoint(name),
                Savepoint::Release(name) => transaction.release(name),
                Savepoint::RollBackTo(name) => database.roll_back_to(name).await,
            }
            .map(|()| Done::One(Outcome::default()))
        };
        self.begin(work, number)
    }
}
