//! A session: converts an operation to owned work, passes it to the engine's thread and returns the
//! result.

mod aggregate;
mod batch;
mod fetching;
pub(crate) mod gather;
mod once_batch;
mod reading;
mod reads;
mod related;
mod transactions;

use std::sync::Arc;
use std::task::{Context, Poll};

use marmota_model::{Error, ErrorKind, Result, RowSink};
use marmota_store::Durability;
use marmota_store::engine::{Session, Submitted, Ticket};
use marmota_store::in_flight::InFlight;
use marmota_store::operation::{Operation, Outcome, Write, owned_rows};
use marmota_store::refusal;
use tokio::task::JoinHandle;

use self::aggregate::Aggregating;
use self::fetching::Fetching;
use self::gather::{Gets, Getting};
use self::once_batch::OnceBatch;
use self::related::Read;
use crate::database::Database;
use crate::database::transaction::{Savepoint, Transaction};
use crate::fault;
use crate::shared::waiting::joined;
use crate::shared::{Shared, UnderWay};
use crate::writer::Writer;
use crate::writer::work::Work;

/// The session in which operations wait for the engine's thread.
pub(crate) struct MongoSession {
    shared: Arc<Shared>,
    /// The queue of gets of the engine.
    gets: Arc<Gets>,
    running: InFlight<Running>,
    transaction: Option<Arc<Transaction>>,
    /// True if it executes the steps of an operation that is already counted.
    is_inner: bool,
    /// True if another session owns the transaction and ends it.
    shares: bool,
}

/// An operation in progress.
enum Running {
    Getting(Getting),
    Reading(Read, Fetching),
    Aggregating(Box<Aggregating>, Fetching),
    Counting(JoinHandle<Result<u64>>, bool),
    Writing(u64, JoinHandle<Result<Done>>),
    Once(Box<OnceBatch>),
}

/// The result of a write.
enum Done {
    One(Outcome),
    Begun(Arc<Transaction>),
    Batch(Vec<Result<Outcome>>, Result<()>),
}

impl MongoSession {
    pub(crate) fn new(shared: Arc<Shared>, gets: Arc<Gets>) -> Self {
        Self {
            shared,
            gets,
            running: InFlight::new(),
            transaction: None,
            is_inner: false,
            shares: false,
        }
    }

    fn wait(&mut self, running: Running) -> Result<Submitted> {
        Ok(Submitted::Waiting(self.running.add(running)))
    }

    /// Starts a write.
    fn begin(
        &mut self,
        work: impl Future<Output = Result<Done>> + Send + 'static,
        number: u64,
    ) -> Result<Submitted> {
        let under_way = self.enter()?;
        let (shared, transaction) = (Arc::clone(&self.shared), self.transaction.clone());
        let task = self.shared.handle.spawn(async move {
            let _under_way: UnderWay = under_way;
            let done = shared.within(work).await;
            match (&done, &transaction) {
                (Ok(_), None) => shared.counts.committed(),
                (Err(error), Some(transaction)) => transaction.note_interruption(error),
                (Ok(_), Some(_)) | (Err(_), None) => {}
            }
            done
        });
        self.wait(Running::Writing(number, task))
    }

    fn write(&mut self, durability: Option<Durability>, work: Work) -> Result<Submitted> {
        let (shared, transaction) = (Arc::clone(&self.shared), self.transaction.clone());
        let number = shared.turns.number();
        let work = async move {
            let done = match transaction {
                None => shared.carry_out(number, durability, &work).await,
                Some(transaction) => {
                    let _turn = transaction.turn().await;
                    let writer = Writer::inside(shared, number, &transaction, false);
                    work.carry_out(&writer).await
                }
            };
            done.map(Done::One)
        };
        self.begin(work, number)
    }

    /// Returns a session for the steps of a batch, in the same transaction if there is one.
    fn inner(&self) -> Self {
        let mut inner = Self::new(Arc::clone(&self.shared), Arc::clone(&self.gets));
        inner.transaction.clone_from(&self.transaction);
        inner.shares = inner.transaction.is_some();
        inner.is_inner = true;
        inner
    }

    /// Counts a new operation. Parts of a counted operation are never refused.
    fn enter(&self) -> Result<UnderWay> {
        match self.is_inner || self.transaction.is_some() {
            true => Ok(self.shared.enter_further()),
            false => self.shared.enter(),
        }
    }

    /// Returns the database, for commands in the transaction if there is one.
    fn database(&self) -> Database {
        match &self.transaction {
            Some(transaction) => self.shared.database.inside(transaction),
            None => self.shared.database.clone(),
        }
    }
}

impl Session for MongoSession {
    fn submit(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        _sink: &mut dyn RowSink,
        _: &mut Outcome,
    ) -> Result<Submitted> {
        match operation {
            Operation::Get { table, key, fields } => {
                let shape = self.shared.shape(table)?;
                self.get(&shape, *key, *fields)
            }
            Operation::List { query, .. } if query.limit == Some(0) => Ok(Submitted::Done),
            Operation::List { table, query } => {
                let shape = self.shared.shape(table)?;
                self.list(&shape, query)
            }
            Operation::Count { table, filter } => {
                let shape = self.shared.shape(table)?;
                self.count(&shape, *filter)
            }
            Operation::Aggregate { table, pipeline } => {
                let shape = self.shared.shape(table)?;
                self.aggregate(shape.name(), pipeline)
            }
            Operation::InsertMany { table, rows, on_conflict } => {
                let (shape, on_conflict) = (self.shared.shape(table)?, *on_conflict);
                let rows = owned_rows(*rows, shape.columns.len())?;
                self.write(durability, Work::InsertMany(shape, rows, on_conflict))
            }
            Operation::UpdateMany { table, rows } => {
                let shape = self.shared.shape(table)?;
                let rows = owned_rows(*rows, shape.columns.len())?;
                self.write(durability, Work::UpdateMany(shape, rows))
            }
            Operation::Batch { once: Some(_), .. } => self.batch_once(durability),
            Operation::Batch { writes, links, mode, .. } => {
                self.batch(durability, writes, links, *mode)
            }
            Operation::Begin => self.begin_transaction(durability),
            Operation::Commit => self.end_transaction(true),
            Operation::Rollback => self.end_transaction(false),
            Operation::Savepoint(name) => self.savepoint(Savepoint::Set(*name)),
            Operation::Release(name) => self.savepoint(Savepoint::Release(*name)),
            Operation::RollbackTo(name) => self.savepoint(Savepoint::RollBackTo(*name)),
            // The store lists the rows, and groups or limits them itself.
            Operation::Group { .. } | Operation::ListEach { .. } | Operation::ListRanked { .. } => {
                Err(Error::new(ErrorKind::Unsupported, "the engine `mongo` does not group rows"))
            }
            Operation::Sql { .. } => Err(Error::new(
                ErrorKind::Unsupported,
                "the engine `mongo` does not support SQL: use filters, or `aggregate`",
            )),
            operation => {
                let shape = self.shared.shape(operation.table().ok_or_else(fault::unexpected)?)?;
                let write = Write::of_operation(operation, Arc::clone(&shape.table))
                    .ok_or_else(fault::unexpected)?;
                self.write(durability, Work::One(write))
            }
        }
    }

    fn poll(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let Some(running) = self.running.get_mut(ticket) else {
            return Poll::Ready(Err(refusal::not_waiting()));
        };
        let ended = match running {
            Running::Getting(getting) => {
                getting.poll(sink, context).map_ok(|rows| *outcome = Outcome::rows(rows))
            }
            Running::Reading(read, _) => {
                read.poll(&self.shared, sink, context).map_ok(|rows| *outcome = Outcome::rows(rows))
            }
            Running::Aggregating(aggregating, _) => {
                aggregating.poll(sink, context).map_ok(|rows| *outcome = Outcome::rows(rows))
            }
            Running::Counting(task, _) => {
                joined(task, context).map_ok(|rows| *outcome = Outcome::rows(rows))
            }
            Running::Once(batch) => batch.poll(operation, outcome, context),
            Running::Writing(_, task) => joined(task, context).map(|done| match done? {
                Done::One(done) => {
                    *outcome = done;
                    Ok(())
                }
                Done::Begun(begun) => {
                    self.transaction = Some(begun);
                    Ok(())
                }
                Done::Batch(done, ended) => {
                    if let Operation::Batch { results, .. } = operation {
                        outcome.rows = done.iter().flatten().map(|one| one.rows).sum();
                        **results = done;
                    }
                    ended
                }
            }),
        };
        if ended.is_ready() {
            let ended = self.running.remove(ticket);
            if let Some(Running::Reading(_, fetching) | Running::Aggregating(_, fetching)) = ended {
                // If the sink had enough, the fetch is not complete.
                fetching.end();
            }
        }
        ended
    }

    fn cancel(&mut self, ticket: Ticket) {
        if let Some(running) = self.running.remove(ticket) {
            abandon(&self.shared, running);
        }
    }
}

/// Abandons an operation: a read stops and frees its connection; a write continues.
fn abandon(shared: &Arc<Shared>, running: Running) {
    match running {
        Running::Getting(getting) => drop(getting),
        Running::Reading(_, fetching) | Running::Aggregating(_, fetching) => fetching.end(),
        Running::Once(batch) => drop(batch),
        Running::Counting(_, true) => {}
        Running::Counting(task, false) => task.abort(),
        Running::Writing(_, task) if task.is_finished() => {}
        Running::Writing(number, task) => {
            shared.turns.abandon(number);
            let shared = Arc::clone(shared);
            let handle = shared.handle.clone();
            handle.spawn(async move {
                let _ = task.await;
                shared.turns.end_abandoned(number);
            });
        }
    }
}

impl Drop for MongoSession {
    fn drop(&mut self) {
        while let Some(ticket) = self.running.any() {
            self.cancel(ticket);
        }
        let Some(transaction) = self.transaction.take().filter(|_| !self.shares) else { return };
        // Writes that are submitted later wait until it is undone.
        let (shared, number) = (Arc::clone(&self.shared), self.shared.turns.number());
        let under_way = shared.enter_further();
        shared.turns.abandon(number);
        self.shared.handle.spawn(async move {
            let ends = async {
                let _turn = transaction.turn().await;
                transaction.abort().await;
                Ok(())
            };
            // If it takes too long, the server aborts the transaction.
            let _ = shared.within(ends).await;
            drop(transaction);
            shared.turns.end_abandoned(number);
            drop(under_way);
        });
    }
}
