//! A session: makes owned work of an operation, hands it to the engine's
//! thread, and takes what comes of it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use marmota_model::{
    Error, ErrorKind, FieldSet, Filter, Kind, Query, Result, RowSink, RowSource, Value, ValueRef,
};
use marmota_store::Durability;
use marmota_store::engine::{Session, Submitted, Ticket};
use marmota_store::operation::{
    BatchFailure, BatchMode, Link, OnConflict, Operation, Outcome, Write, run_batch,
};
use marmota_store::refusal::copy_of;
use mongodb::raw_batch_cursor::RawBatch;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::aggregate::{self, Aggregating};
use crate::database::{Batches, Find};
use crate::engine::{Shared, UnderWay};
use crate::fault;
use crate::filter::{matching, sort};
use crate::gather::Getting;
use crate::reading::{Reading, Wanted};
use crate::refusal::no_transactions;
use crate::shape::Shape;
use crate::write::Writer;

/// Where operations wait for the engine's thread.
pub(crate) struct MongoSession {
    shared: Arc<Shared>,
    running: Vec<(u64, Running)>,
    tickets: u64,
}

/// An operation under way.
enum Running {
    Getting(Getting),
    Reading(Box<Reading>, JoinHandle<()>),
    Aggregating(Box<Aggregating>, JoinHandle<()>),
    Counting(JoinHandle<Result<u64>>),
    Writing(u64, JoinHandle<Result<Done>>),
}

/// What a write came to.
enum Done {
    One(Outcome),
    Batch(Vec<Result<Outcome>>, Result<()>),
}

impl MongoSession {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, running: Vec::new(), tickets: 0 }
    }

    fn wait(&mut self, running: Running) -> Result<Submitted> {
        self.tickets += 1;
        self.running.push((self.tickets, running));
        Ok(Submitted::Waiting(Ticket(self.tickets)))
    }

    /// Begins to read what is sought.
    fn read(&mut self, shape: &Arc<Shape>, find: Find, wanted: Wanted<'_>) -> Result<Submitted> {
        let (receiver, task) =
            self.fetch(|shared| async move { shared.database.find(&find).await })?;
        self.wait(Running::Reading(Box::new(Reading::new(shape, wanted, receiver)), task))
    }

    /// Begins an aggregation.
    fn aggregate(&mut self, collection: &str, pipeline: &str) -> Result<Submitted> {
        let command = aggregate::command(collection, pipeline)?;
        let (receiver, task) =
            self.fetch(|shared| async move { shared.database.find_raw(command).await })?;
        self.wait(Running::Aggregating(Box::new(Aggregating::new(receiver)), task))
    }

    /// Has the engine's thread fetch what a command finds, a message at a time.
    fn fetch<F>(
        &self,
        begin: impl FnOnce(Arc<Shared>) -> F,
    ) -> Result<(mpsc::Receiver<Result<RawBatch>>, JoinHandle<()>)>
    where
        F: Future<Output = Result<Batches>> + Send + 'static,
    {
        let under_way = self.shared.enter()?;
        let (sender, receiver) = mpsc::channel(1);
        let shared = Arc::clone(&self.shared);
        let begun = begin(Arc::clone(&shared));
        let task = self.shared.handle.spawn(async move {
            let _under_way = under_way;
            let reading = async {
                let mut batches = shared.within(begun).await?;
                while let Some(batch) = shared.within(batches.next()).await? {
                    if sender.send(Ok(batch)).await.is_err() {
                        break;
                    }
                }
                Ok(())
            };
            if let Err(error) = reading.await {
                let _ = sender.send(Err(error)).await;
            }
        });
        Ok((receiver, task))
    }

    fn list(&mut self, shape: &Arc<Shape>, query: &Query) -> Result<Submitted> {
        let filter = query.filter_with_after(&shape.table);
        let asked = matching(shape, filter.as_ref());
        let sort = sort(shape, query);
        let wanted = Wanted {
            fields: query.fields.unwrap_or_else(|| shape.table.read_by_default()),
            filter: filter.as_ref().filter(|_| !asked.exact),
            order: sort.is_none().then(|| query.order_with_key(&shape.table)),
            limit: query.limit,
            counts: false,
        };
        let is_theirs = asked.exact && sort.is_some();
        let find = Find {
            collection: shape.name().to_owned(),
            filter: asked.document,
            projection: shape.projection(wanted.read(&shape.table)),
            limit: query
                .limit
                .filter(|_| is_theirs)
                .map(|limit| i64::try_from(limit).unwrap_or(i64::MAX)),
            sort,
        };
        // To the server, 0 is no limit.
        self.read(shape, find, wanted)
    }

    fn count(&mut self, shape: &Arc<Shape>, filter: Option<&Filter>) -> Result<Submitted> {
        let asked = matching(shape, filter);
        if asked.exact {
            let under_way = self.shared.enter()?;
            let (shared, name) = (Arc::clone(&self.shared), shape.name().to_owned());
            let task = self.shared.handle.spawn(async move {
                let _under_way = under_way;
                shared.within(shared.database.count(&name, asked.document)).await
            });
            return self.wait(Running::Counting(task));
        }
        let wanted =
            Wanted { fields: FieldSet::EMPTY, filter, order: None, limit: None, counts: true };
        let find = Find {
            collection: shape.name().to_owned(),
            filter: asked.document,
            projection: shape.projection(wanted.read(&shape.table)),
            ..Find::default()
        };
        self.read(shape, find, wanted)
    }

    /// Begins a write.
    fn write<F>(
        &mut self,
        durability: Option<Durability>,
        run: impl FnOnce(Writer) -> F + Send + 'static,
    ) -> Result<Submitted>
    where
        F: Future<Output = Result<Done>> + Send + 'static,
    {
        let under_way = self.shared.enter()?;
        let shared = Arc::clone(&self.shared);
        let number = shared.turns.number();
        let task = self.shared.handle.spawn(async move {
            let _under_way: UnderWay = under_way;
            let writer = Writer::new(Arc::clone(&shared), number, durability);
            let done = shared.within(run(writer)).await;
            if done.is_ok() {
                shared.counts.committed();
            }
            done
        });
        self.wait(Running::Writing(number, task))
    }

    fn one(&mut self, durability: Option<Durability>, write: Write) -> Result<Submitted> {
        self.write(durability, |writer| async move { writer.write(&write).await.map(Done::One) })
    }

    fn batch(
        &mut self,
        durability: Option<Durability>,
        writes: &[Write],
        links: &[Link],
        mode: BatchMode,
    ) -> Result<Submitted> {
        if mode == BatchMode::AllOrNothing && writes.len() > 1 {
            return Err(no_transactions("a batch of which all or nothing takes place"));
        }
        if writes.iter().any(|write| matches!(write, Write::Audited { .. })) {
            return Err(no_transactions("a write that is entered in the history"));
        }
        let (writes, links) = (writes.to_vec(), links.to_vec());
        let handle = self.shared.handle.clone();
        self.write(durability, move |writer| async move {
            // What runs a batch calls and waits: on a thread that may.
            let run = move || {
                let mut results = Vec::with_capacity(writes.len());
                // Links count writes from the first: such a batch is not cut.
                let together = |a: &Write, b: &Write| !links.is_empty() || are_inserts(a, b);
                for part in writes.chunk_by(together) {
                    let ended = match part {
                        [_, _, ..] if links.is_empty() => {
                            handle.block_on(writer.insert_each(part, &mut results))
                        }
                        part => one_by_one(&handle, &writer, part, &links, mode, &mut results),
                    };
                    if ended.is_err() {
                        return Done::Batch(results, ended);
                    }
                }
                Done::Batch(results, Ok(()))
            };
            tokio::task::spawn_blocking(run).await.map_err(|_| unexpected())
        })
    }
}

/// True for inserts of one table that need nothing looked up: one command can
/// have them.
fn are_inserts(a: &Write, b: &Write) -> bool {
    let plain = |write: &Write| match write {
        Write::Insert { table, on_conflict: OnConflict::Refuse, .. } => {
            table.fields().iter().all(|field| !matches!(field.kind, Kind::Reference { .. }))
        }
        _ => false,
    };
    plain(a) && plain(b) && a.table().name() == b.table().name()
}

/// Carries out the writes of a batch, and adds what became of them.
fn one_by_one(
    handle: &Handle,
    writer: &Writer,
    writes: &[Write],
    links: &[Link],
    mode: BatchMode,
    results: &mut Vec<Result<Outcome>>,
) -> Result<()> {
    let mut done = Vec::new();
    let ended = run_batch(writes, links, mode, None, &mut done, |step, _| {
        let write = match step {
            // A write that failed has left nothing.
            Operation::Savepoint(_) | Operation::Release(_) | Operation::RollbackTo(_) => {
                return Ok(Outcome::default());
            }
            step => {
                let table = step.table().ok_or_else(unexpected)?;
                owned_of(step, Arc::clone(&writer.shared.shape(table)?.table))?
            }
        };
        handle.block_on(writer.write(&write))
    });
    let ended = match ended {
        Ok(()) => Ok(()),
        Err(BatchFailure::Write) => Err(match done.last() {
            Some(Err(error)) => copy_of(error),
            _ => unexpected(),
        }),
        Err(BatchFailure::Engine(error)) => Err(error),
    };
    results.append(&mut done);
    ended
}

#[cold]
fn unexpected() -> Error {
    Error::new(ErrorKind::Bug, "the MongoDB engine was given an operation that it does not know")
}

fn values(row: &[ValueRef<'_>]) -> Vec<Value> {
    row.iter().map(ValueRef::to_value).collect()
}

/// A write of one table as one that owns its values.
fn owned_of(operation: &Operation<'_>, table: Arc<marmota_model::Table>) -> Result<Write> {
    Ok(match operation {
        Operation::Insert { row, on_conflict, .. } => {
            Write::Insert { table, row: values(row), on_conflict: *on_conflict }
        }
        Operation::Update { key, row, version, .. } => {
            Write::Update { table, key: key.to_value(), row: values(row), version: *version }
        }
        Operation::Increment { key, field, by, stamp, .. } => Write::Increment {
            table,
            key: key.to_value(),
            field: *field,
            by: by.to_value(),
            stamp: stamp.to_value(),
        },
        Operation::Delete { key, version, .. } => {
            Write::Delete { table, key: key.to_value(), version: *version }
        }
        Operation::DeleteWhere { filter, .. } => {
            Write::DeleteWhere { table, filter: filter.cloned() }
        }
        _ => return Err(unexpected()),
    })
}

/// The rows of a write of many.
fn rows_of<'a>(source: &mut dyn RowSource<'a>, width: usize) -> Result<Vec<Vec<Value>>> {
    let mut rows = Vec::with_capacity(source.remaining());
    let mut row = vec![ValueRef::Absent; width];
    while source.next(&mut row)? {
        rows.push(values(&row));
    }
    Ok(rows)
}

impl Session for MongoSession {
    fn submit(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        _sink: &mut dyn RowSink,
        _outcome: &mut Outcome,
    ) -> Result<Submitted> {
        match operation {
            Operation::Get { table, key, fields } => {
                let shape = self.shared.shape(table)?;
                let getting = self.shared.get(&shape, *key, *fields)?;
                self.wait(Running::Getting(getting))
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
                let rows = rows_of(*rows, shape.columns.len())?;
                self.write(durability, move |writer| async move {
                    writer.insert_many(&shape, &rows, on_conflict).await.map(Done::One)
                })
            }
            Operation::UpdateMany { table, rows } => {
                let shape = self.shared.shape(table)?;
                let rows = rows_of(*rows, shape.columns.len())?;
                self.write(durability, move |writer| async move {
                    writer.update_many(&shape, &rows).await.map(Done::One)
                })
            }
            Operation::Batch { once: Some(_), .. } => {
                Err(no_transactions("a batch that takes place once"))
            }
            Operation::Batch { writes, links, mode, .. } => {
                self.batch(durability, writes, links, *mode)
            }
            Operation::Begin => Err(no_transactions("a transaction")),
            Operation::Sql { .. } => Err(Error::new(
                ErrorKind::Unsupported,
                "MongoDB has no SQL; use filters, or `aggregate`",
            )),
            operation => {
                let shape = self.shared.shape(operation.table().ok_or_else(unexpected)?)?;
                let write = owned_of(operation, Arc::clone(&shape.table))?;
                self.one(durability, write)
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
        let Some(at) = self.running.iter().position(|(number, _)| *number == ticket.0) else {
            return Poll::Ready(Err(unexpected()));
        };
        let ended = match &mut self.running[at].1 {
            Running::Getting(getting) => {
                getting.poll(sink, context).map_ok(|rows| *outcome = Outcome::rows(rows))
            }
            Running::Reading(reading, _) => {
                reading.poll(sink, context).map_ok(|rows| *outcome = Outcome::rows(rows))
            }
            Running::Aggregating(aggregating, _) => {
                aggregating.poll(sink, context).map_ok(|rows| *outcome = Outcome::rows(rows))
            }
            Running::Counting(task) => {
                joined(task, context).map_ok(|rows| *outcome = Outcome::rows(rows))
            }
            Running::Writing(_, task) => joined(task, context).map(|done| match done? {
                Done::One(done) => {
                    *outcome = done;
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
            let (_, running) = self.running.swap_remove(at);
            if let Running::Reading(_, task) | Running::Aggregating(_, task) = running {
                // It may be in the middle, if the sink had enough.
                task.abort();
            }
        }
        ended
    }

    fn cancel(&mut self, ticket: Ticket) {
        let Some(at) = self.running.iter().position(|(number, _)| *number == ticket.0) else {
            return;
        };
        let (_, running) = self.running.swap_remove(at);
        abandon(&self.shared, running);
    }
}

/// A read ends, and gives its connection free; a write goes on.
fn abandon(shared: &Arc<Shared>, running: Running) {
    match running {
        Running::Getting(getting) => drop(getting),
        Running::Reading(_, task) | Running::Aggregating(_, task) => task.abort(),
        Running::Counting(task) => task.abort(),
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

fn joined<T>(task: &mut JoinHandle<Result<T>>, context: &mut Context<'_>) -> Poll<Result<T>> {
    Pin::new(task).poll(context).map(|joined| match joined {
        Ok(done) => done,
        Err(error) if error.is_panic() => {
            Err(Error::new(ErrorKind::Bug, "the engine's work has panicked; see its message"))
        }
        Err(_) => Err(fault::closed()),
    })
}

impl Drop for MongoSession {
    fn drop(&mut self) {
        for (_, running) in self.running.drain(..) {
            abandon(&self.shared, running);
        }
    }
}
