//! A session: makes a task of an operation, passes it to a thread, and lends the rows that arrive.

mod exchange;
mod get_queue;
mod lane;
mod loop_read;
mod once_batch;
mod task;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use marmota_model::{Error, ErrorKind, Result, RowSink, Value, ValueRef};
use marmota_store::Durability;
use marmota_store::engine::{Session, Submitted, Ticket, caller_blocks};
use marmota_store::in_flight::InFlight;
use marmota_store::operation::{Operation, Outcome};
use marmota_store::refusal;
use marmota_store::tables::KnownTables;
use marmota_store::wait::OwnedPlace;

use self::exchange::{Arrival, Exchange};
pub(crate) use self::get_queue::GetQueue;
use self::get_queue::QueuedGet;
use self::lane::Lane;
use self::loop_read::{LoopPoll, LoopRead};
use self::once_batch::OnceBatch;
use self::task::{Done, Task};
use crate::executor::SqlExecutor;
use crate::failure::overloaded;
use crate::loop_pool::LoopPool;
use crate::shared::BlockingShared;

/// The chunks of rows that one poll lends: then other requests of the thread have their turn.
const CHUNKS_MAX: usize = 16;

/// The session of a thread, a transaction, or the steps of a batch.
pub(crate) struct BlockingSession {
    shared: Arc<BlockingShared>,
    tables: KnownTables,
    running: InFlight<Running>,
    gets: Arc<GetQueue>,
    /// Reads by key that were submitted since the last poll of one, to be queued together.
    pending: Vec<QueuedGet>,
    /// Its connections for reads of an event loop, once there was one.
    loops: Option<Arc<LoopPool>>,
    transaction: Option<Arc<Lane>>,
    /// True if another session ends the transaction.
    shares: bool,
    /// The actor of the next writes.
    actor: Option<Arc<str>>,
}

/// An operation in progress.
enum Running {
    Task(Arc<Exchange>, Origin),
    /// A read by key in a group, and true once it was polled.
    Get(Arc<Exchange>, bool),
    Loop(Box<LoopRead>),
    Begin(Beginning),
    Once(Box<OnceBatch>),
}

/// A transaction that begins.
struct Beginning {
    exchange: Arc<Exchange>,
    /// `None` while as many transactions as permitted are open.
    lane: Option<Arc<Lane>>,
    place: OwnedPlace,
    /// How long it waits for the end of another one.
    until: Instant,
}

/// Where a task is executed.
#[derive(Clone, Copy, PartialEq)]
enum Origin {
    Read,
    Write,
    /// In the session's transaction.
    Lane,
}

impl BlockingSession {
    pub(crate) fn new(shared: Arc<BlockingShared>, gets: Arc<GetQueue>) -> Self {
        let (tables, running, pending) = (shared.known(), InFlight::new(), Vec::new());
        Self {
            shared,
            tables,
            running,
            gets,
            pending,
            loops: None,
            transaction: None,
            shares: false,
            actor: None,
        }
    }

    /// Returns a session for the steps of a batch, in the same transaction if there is one.
    fn inner(&self) -> Self {
        let mut inner = Self::new(Arc::clone(&self.shared), Arc::clone(&self.gets));
        inner.transaction.clone_from(&self.transaction);
        inner.shares = inner.transaction.is_some();
        inner.actor.clone_from(&self.actor);
        inner.loops.clone_from(&self.loops);
        inner
    }

    fn wait(&mut self, running: Running) -> Result<Submitted> {
        Ok(Submitted::Waiting(self.running.add(running)))
    }

    fn start(&mut self, task: Task) -> Result<Submitted> {
        let exchange = Exchange::new();
        if let Some(lane) = &self.transaction {
            lane.run(task, self.actor.clone(), &exchange)?;
            return self.wait(Running::Task(exchange, Origin::Lane));
        }
        let here = self.shared.enter_here();
        self.shared.check_open()?;
        if task.is_of_transaction() {
            return Err(refusal::no_transaction());
        }
        let task = match (task, &here) {
            (Task::Get(table, key, fields), None) => {
                let (end, in_progress) = (exchange.end(), self.shared.enter());
                self.pending.push(QueuedGet { table, key, fields, end, in_progress });
                return self.wait(Running::Get(exchange, false));
            }
            (task, _) => task,
        };
        let running = self.hand_over(task, here.is_some())?;
        self.wait(running)
    }

    /// Passes a task to a thread, or executes it `here`.
    fn hand_over(&self, task: Task, here: bool) -> Result<Running> {
        let exchange = Exchange::new();
        let origin = if task.is_write() { Origin::Write } else { Origin::Read };
        let (shared, end) = (Arc::clone(&self.shared), exchange.end());
        let actor = self.actor.clone();
        let in_progress = self.shared.enter();
        let pool = match origin {
            Origin::Write => &self.shared.writes,
            _ => &self.shared.reads,
        };
        let job = move || {
            let _in_progress = in_progress;
            task::alone(&shared, task, actor, end);
        };
        if here {
            job();
        } else if pool.result_of(job).is_none() {
            return Err(overloaded());
        }
        Ok(Running::Task(exchange, origin))
    }

    /// Begins a read on a connection of this session, which an event loop watches. Returns `None` if a
    /// thread has to execute it.
    fn read_on_loop(&mut self, operation: &Operation<'_>) -> Result<Option<LoopRead>> {
        let is_read = matches!(operation, Operation::List { .. } | Operation::Sql { .. });
        if !is_read || self.transaction.is_some() || caller_blocks() {
            return Ok(None);
        }
        let pool = self.loops.get_or_insert_with(|| self.shared.loop_pool());
        LoopRead::begin(&self.shared, pool, &mut self.tables, operation)
    }

    /// Executes a statement that may return many rows on the caller's thread, which is blocked until
    /// it has ended. Returns `None` if a thread of a pool has to do it.
    fn rows_here(
        &self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
    ) -> Option<Result<Outcome>> {
        let writes = match operation {
            Operation::List { .. } => false,
            Operation::Sql { statement, .. } => statement.writes,
            _ => return None,
        };
        if let Some(lane) = &self.transaction {
            return match caller_blocks() {
                true => lane.run_here(operation, self.actor.as_ref(), sink),
                false => None,
            };
        }
        let _here = self.shared.enter_here()?;
        if writes {
            self.shared.wait_for_abandoned();
        }
        Some(self.shared.with_connection(|connection| {
            let executor = SqlExecutor::new(connection, &self.shared, false);
            let mut executor = executor.with_actor(self.actor.clone());
            executor.tables.learn();
            executor.run(operation, sink)
        }))
    }

    fn begin(&mut self) -> Result<Submitted> {
        if self.transaction.is_some() {
            return Err(refusal::transaction_is_open());
        }
        let mut beginning = Beginning {
            exchange: Exchange::new(),
            lane: None,
            place: OwnedPlace::default(),
            until: Instant::now() + self.shared.driver().lock_timeout(),
        };
        // The first poll registers the waker.
        beginning.start(&self.shared, Waker::noop())?;
        self.wait(Running::Begin(beginning))
    }

    fn end(&mut self, commits: bool) -> Result<Submitted> {
        let Some(lane) = self.transaction.take() else {
            return Err(refusal::no_transaction());
        };
        let exchange = Exchange::new();
        lane.end(commits, &exchange)?;
        self.wait(Running::Task(exchange, Origin::Lane))
    }
}

impl Session for BlockingSession {
    fn submit(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        if let Some(done) = self.rows_here(operation, sink) {
            *outcome = done?;
            return Ok(Submitted::Done);
        }
        match operation {
            Operation::Begin => self.begin(),
            Operation::Commit => self.end(true),
            Operation::Rollback => self.end(false),
            Operation::Batch { once: Some(_), .. } => {
                let batch = OnceBatch::new(self.inner(), durability);
                self.wait(Running::Once(Box::new(batch)))
            }
            operation => {
                if let Some(read) = self.read_on_loop(operation)? {
                    return self.wait(Running::Loop(Box::new(read)));
                }
                let task = Task::of(&mut self.tables, operation)?;
                self.start(task)
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
        if let Some(Running::Loop(read)) = self.running.get_mut(ticket)
            && let Some(pool) = &self.loops
        {
            match read.poll(pool, &self.tables, operation, sink, context) {
                LoopPoll::Pending => return Poll::Pending,
                LoopPoll::Ready(done) => {
                    read.cancel(&self.shared, pool);
                    self.running.remove(ticket);
                    return Poll::Ready(done.map(|done| *outcome = done));
                }
                LoopPoll::HandOver => {
                    read.cancel(&self.shared, pool);
                    let task = Task::of(&mut self.tables, operation);
                    match task.and_then(|task| self.hand_over(task, false)) {
                        Ok(running) => self.running[ticket] = running,
                        Err(error) => {
                            self.running.remove(ticket);
                            return Poll::Ready(Err(error));
                        }
                    }
                }
            }
        }
        let Some(running) = self.running.get_mut(ticket) else {
            return Poll::Ready(Err(refusal::not_waiting()));
        };
        let polled = match running {
            // Its session has connections.
            Running::Loop(_) => Poll::Ready(Err(refusal::not_waiting())),
            Running::Once(batch) => batch.poll(operation, outcome, context),
            Running::Task(exchange, _) => lend(exchange, operation, sink, outcome, context),
            Running::Get(exchange, was_polled) => {
                if std::mem::replace(was_polled, true) {
                    self.gets.add(&mut self.pending);
                } else {
                    // Others that this thread submits before the next poll are queued with it.
                    context.waker().wake_by_ref();
                }
                lend(exchange, operation, sink, outcome, context)
            }
            Running::Begin(beginning) => match beginning.start(&self.shared, context.waker()) {
                Ok(None) => Poll::Pending,
                Ok(Some(lane)) => {
                    let begun = lend(&beginning.exchange, operation, sink, outcome, context);
                    if let Poll::Ready(Ok(())) = &begun {
                        self.transaction = Some(lane);
                    }
                    begun
                }
                Err(error) => Poll::Ready(Err(error)),
            },
        };
        if polled.is_ready() {
            self.running.remove(ticket);
        }
        polled
    }

    fn set_actor(&mut self, actor: Option<&Arc<str>>) {
        if self.shared.feed().is_some() {
            self.actor = actor.cloned();
        }
    }

    fn cancel(&mut self, ticket: Ticket) {
        let running = self.running.remove(ticket);
        if let Some(Running::Begin(beginning)) = &running {
            beginning.exchange.cancel(None);
        }
        if let Some(Running::Get(exchange, _)) = &running {
            exchange.cancel(None);
            self.gets.add(&mut self.pending);
        }
        let running = match (running, &self.loops) {
            (Some(Running::Loop(mut read)), Some(pool)) => return read.cancel(&self.shared, pool),
            (running, _) => running,
        };
        if let Some(Running::Task(exchange, origin)) = running {
            let id = exchange.cancel((origin == Origin::Write).then_some(&self.shared));
            if let Some(id) = id.filter(|_| origin != Origin::Lane) {
                let shared = Arc::clone(&self.shared);
                // If no thread is free, the statement ends by itself.
                drop(self.shared.control.result_of(move || shared.pool.kill(id)));
            }
        }
    }
}

impl Beginning {
    /// Starts it once a transaction may be opened. Returns `None` until then.
    fn start(&mut self, shared: &Arc<BlockingShared>, waker: &Waker) -> Result<Option<Arc<Lane>>> {
        if self.lane.is_none() && shared.open_transaction(self.until, &mut self.place, waker)? {
            let lane = Lane::new(shared);
            lane.begin(&self.exchange)?;
            self.lane = Some(lane);
        }
        Ok(self.lane.clone())
    }
}

/// Lends the rows that have arrived.
fn lend(
    exchange: &Arc<Exchange>,
    operation: &mut Operation<'_>,
    sink: &mut dyn RowSink,
    outcome: &mut Outcome,
    context: &Context<'_>,
) -> Poll<Result<()>> {
    for _ in 0..CHUNKS_MAX {
        let arrival = exchange.next(context.waker());
        if let (Some(columns), Operation::Sql { statement, .. }) = (exchange.columns(), &*operation)
        {
            // The same columns arrive once.
            let _ = statement.columns.set(columns);
        }
        match arrival {
            Arrival::Nothing => return Poll::Pending,
            Arrival::Rows(rows) => {
                for row in rows {
                    let row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
                    let lent = exchange.count_lent();
                    if sink.row(&row).is_break() {
                        exchange.cancel(None);
                        *outcome = Outcome::rows(lent);
                        return Poll::Ready(Ok(()));
                    }
                }
            }
            Arrival::Done(done) => return Poll::Ready(finish(done, operation, outcome)),
        }
    }
    context.waker().wake_by_ref();
    Poll::Pending
}

fn finish(done: Result<Done>, operation: &mut Operation<'_>, outcome: &mut Outcome) -> Result<()> {
    match done? {
        Done::One(one) => *outcome = one,
        Done::Batch(done, ended, commit) => {
            outcome.commit = commit;
            outcome.rows = done.iter().flatten().map(|one| one.rows).sum();
            if let Operation::Batch { results, .. } = operation {
                **results = done;
            }
            ended?;
        }
    }
    Ok(())
}

/// The error for an operation in a transaction that the server has rolled back.
#[cold]
fn rolled_back() -> Error {
    Error::new(
        ErrorKind::Engine,
        "the transaction was rolled back because one of its operations failed; begin a new one",
    )
}

impl Drop for BlockingSession {
    fn drop(&mut self) {
        while let Some(ticket) = self.running.any() {
            self.cancel(ticket);
            self.running.remove(ticket);
        }
        if let Some(lane) = self.transaction.take().filter(|_| !self.shares) {
            // If it cannot be rolled back, its connection is closed, which does the same.
            let _ = lane.end(false, &Exchange::new());
        }
    }
}
