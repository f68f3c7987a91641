//! A transaction: a connection, and its operations in the order in which they were submitted.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use marmota_model::{Error, Result, RowSink};
use marmota_store::engine::caller_blocks;
use marmota_store::operation::{Operation, Outcome};
use parking_lot::Mutex;

use super::exchange::{Exchange, ExchangeEnd};
use super::rolled_back;
use super::task::{self, Done, Task};

use crate::connection::{SqlConnection, Transacting};
use crate::executor::SqlExecutor;
use crate::failure::{self, overloaded};
use crate::shared::BlockingShared;

type LaneJob = Box<dyn FnOnce(&Lane, &mut Option<Box<dyn SqlConnection>>) + Send>;

#[derive(Default)]
struct LaneState {
    jobs: VecDeque<LaneJob>,
    is_running: bool,
    /// `None` while a job has it, before the begin, and after the end.
    connection: Option<Box<dyn SqlConnection>>,
}

/// A transaction of a session.
pub(super) struct Lane {
    shared: Arc<BlockingShared>,
    state: Mutex<LaneState>,
    /// True after a conflict with another transaction.
    is_lost: AtomicBool,
    /// The actor that the connection has for the changes that are recorded.
    actor: Mutex<Option<Arc<str>>>,
}

impl Lane {
    /// Makes a transaction that is counted as open ([`BlockingShared::open_transaction`]).
    pub(super) fn new(shared: &Arc<BlockingShared>) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::clone(shared),
            state: Mutex::default(),
            is_lost: AtomicBool::new(false),
            actor: Mutex::default(),
        })
    }

    /// Begins the transaction.
    pub(super) fn begin(self: &Arc<Self>, exchange: &Arc<Exchange>) -> Result<()> {
        let end = exchange.end();
        self.push(Box::new(move |lane, place| {
            if !end.start() {
                return;
            }
            end.finish(lane.begin_on(place).map(|()| Done::One(Outcome::default())));
        }))
    }

    fn begin_on(&self, place: &mut Option<Box<dyn SqlConnection>>) -> Result<()> {
        // Rows that were written by others after the begin are not seen.
        self.shared.wait_for_abandoned();
        let mut connection = self.shared.take()?;
        let mut executor = SqlExecutor::new(&mut *connection, &self.shared, false);
        executor.begin(Transacting::Serializable)?;
        *place = Some(connection);
        Ok(())
    }

    /// Executes a task in the transaction.
    pub(super) fn run(
        self: &Arc<Self>,
        task: Task,
        actor: Option<Arc<str>>,
        exchange: &Arc<Exchange>,
    ) -> Result<()> {
        let end = exchange.end();
        self.push(Box::new(move |lane, place| {
            if !end.start() {
                return;
            }
            let Some(mut connection) = place.take() else {
                return end.finish(Err(lane.gone()));
            };
            let done = lane.set_actor(&mut *connection, actor.as_ref()).and_then(|()| {
                let mut executor = SqlExecutor::new(&mut *connection, &lane.shared, true);
                task::execute(&mut executor, task, &end)
            });
            *place = lane.kept(
                connection,
                match &done {
                    Err(error) | Ok(Done::Batch(_, Err(error), _)) => Some(error),
                    Ok(_) => None,
                },
            );
            end.finish(done);
        }))
    }

    /// Sets the actor of the changes that follow.
    fn set_actor(
        &self,
        connection: &mut dyn SqlConnection,
        actor: Option<&Arc<str>>,
    ) -> Result<()> {
        let mut known = self.actor.lock();
        if let Some(feed) = self.shared.feed().filter(|_| known.as_ref() != actor) {
            feed.set_actor(connection, actor.map(|actor| &**actor))?;
            *known = actor.cloned();
        }
        Ok(())
    }

    /// Returns the connection after an operation, unless the transaction is over: after a conflict
    /// the server has rolled it back.
    fn kept(
        &self,
        connection: Box<dyn SqlConnection>,
        error: Option<&Error>,
    ) -> Option<Box<dyn SqlConnection>> {
        if connection.is_broken() {
            return None;
        }
        if error.is_some_and(Error::is_retryable) {
            self.is_lost.store(true, Ordering::Relaxed);
            return None;
        }
        Some(connection)
    }

    /// Executes an operation in the transaction on the caller's thread. Returns `None` if another one
    /// is in progress.
    pub(super) fn run_here(
        &self,
        operation: &mut Operation<'_>,
        actor: Option<&Arc<str>>,
        sink: &mut dyn RowSink,
    ) -> Option<Result<Outcome>> {
        let mut state = self.state.lock();
        if state.is_running || !state.jobs.is_empty() {
            return None;
        }
        let connection = state.connection.take();
        drop(state);
        let Some(mut connection) = connection else { return Some(Err(self.gone())) };
        let done = self.set_actor(&mut *connection, actor).and_then(|()| {
            let mut executor = SqlExecutor::new(&mut *connection, &self.shared, true);
            executor.tables.learn();
            executor.run(operation, sink)
        });
        self.state.lock().connection = self.kept(connection, done.as_ref().err());
        Some(done)
    }

    /// Ends the transaction.
    pub(super) fn end(self: &Arc<Self>, commits: bool, exchange: &Arc<Exchange>) -> Result<()> {
        let end: ExchangeEnd = exchange.end();
        self.push(Box::new(move |lane, place| {
            end.start();
            let Some(mut connection) = place.take() else {
                let done =
                    if commits { Err(lane.gone()) } else { Ok(Done::One(Outcome::default())) };
                return end.finish(done);
            };
            let how = Transacting::Serializable;
            let mut done = lane.shared.end(&mut *connection, how, commits);
            if !commits {
                done = Ok(None);
                // Otherwise the end has removed it.
                let _ = lane.set_actor(&mut *connection, None);
            }
            lane.shared.pool.put(connection);
            end.finish(done.map(|commit| Done::One(Outcome { commit, ..Outcome::default() })));
        }))
    }

    /// Returns the error of a transaction that the server has rolled back.
    fn gone(&self) -> Error {
        match self.is_lost.load(Ordering::Relaxed) {
            true => failure::lost_race(),
            false => rolled_back(),
        }
    }

    fn push(self: &Arc<Self>, job: LaneJob) -> Result<()> {
        let mut state = self.state.lock();
        state.jobs.push_back(job);
        if std::mem::replace(&mut state.is_running, true) {
            return Ok(());
        }
        drop(state);
        // A caller that waits anyway executes it itself.
        if caller_blocks() {
            self.work();
            return Ok(());
        }
        let lane = Arc::clone(self);
        let in_progress = self.shared.enter();
        let job = move || {
            let _in_progress = in_progress;
            lane.work();
        };
        if self.shared.transactions.result_of(job).is_none() {
            let mut state = self.state.lock();
            state.is_running = false;
            state.jobs.clear();
            return Err(overloaded());
        }
        Ok(())
    }

    fn work(&self) {
        loop {
            let (job, mut connection) = {
                let mut state = self.state.lock();
                let Some(job) = state.jobs.pop_front() else {
                    state.is_running = false;
                    return;
                };
                (job, state.connection.take())
            };
            // A job that panics has ended, and its connection is closed.
            if catch_unwind(AssertUnwindSafe(|| job(self, &mut connection))).is_ok() {
                self.state.lock().connection = connection;
            }
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // The server ends the transaction of a closed connection. Only then another may begin.
        self.state.get_mut().connection = None;
        self.shared.end_transaction();
    }
}
