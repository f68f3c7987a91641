//! Reads by key of all sessions, which threads execute in groups.
//!
//! A thread that has no work takes several at once, and a driver that can sends them together. So a
//! read costs neither a handover between threads nor a round trip of its own if there are many.

use std::collections::VecDeque;
use std::sync::Arc;

use marmota_model::{FieldSet, Result, Table, Value};
use marmota_store::operation::Outcome;
use marmota_store::thread_pool::ThreadPool;
use parking_lot::Mutex;

use super::exchange::ExchangeEnd;
use super::task::Done;
use crate::executor::SqlExecutor;
use crate::failure::overloaded;
use crate::shared::{BlockingShared, InProgress};

/// The most reads that a thread takes at once.
const GROUP_MAX: usize = 32;
/// A thread is called for this number of reads.
const GROUP: usize = 16;
/// The most reads that wait.
const WAITING_MAX: usize = 100_000;

/// A read by key.
pub(super) struct QueuedGet {
    pub(super) table: Arc<Table>,
    pub(super) key: Value,
    pub(super) fields: FieldSet,
    pub(super) end: ExchangeEnd,
    pub(super) in_progress: InProgress,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<QueuedGet>,
    workers: usize,
}

/// The reads by key that wait for a thread.
pub(crate) struct GetQueue {
    shared: Arc<BlockingShared>,
    threads: Arc<ThreadPool>,
    workers_max: usize,
    state: Mutex<QueueState>,
}

impl GetQueue {
    pub(crate) fn new(shared: &Arc<BlockingShared>) -> Arc<Self> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let workers_max = (2 * processors).clamp(2, 16).min(shared.driver().connections_max());
        Arc::new(Self {
            shared: Arc::clone(shared),
            threads: Arc::new(ThreadPool::new("sql-get", workers_max)),
            workers_max,
            state: Mutex::default(),
        })
    }

    /// Adds reads, and calls threads for them.
    pub(super) fn add(self: &Arc<Self>, gets: &mut Vec<QueuedGet>) {
        if gets.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        if state.waiting.len() >= WAITING_MAX {
            drop(state);
            gets.drain(..).for_each(|get| get.end.finish(Err(overloaded())));
            return;
        }
        state.waiting.extend(gets.drain(..));
        let wanted = state.waiting.len().div_ceil(GROUP).min(self.workers_max);
        let called = wanted.saturating_sub(state.workers);
        state.workers += called;
        drop(state);
        for _ in 0..called {
            let worker = Worker { queue: Arc::clone(self), is_counted: true };
            drop(self.threads.result_of(move || worker.work()));
        }
    }

    /// Ends the threads as soon as they have no work.
    pub(crate) fn dismiss(&self) {
        self.threads.dismiss();
    }

    /// Executes reads of the same table and fields.
    fn execute(&self, group: Vec<QueuedGet>) {
        let group: Vec<QueuedGet> = group.into_iter().filter(|get| get.end.start()).collect();
        let Some(QueuedGet { table, fields, .. }) = group.first() else { return };
        let (table, fields) = (Arc::clone(table), *fields);
        let mut connection = match self.shared.pool.take() {
            Ok(connection) => connection,
            Err(failure) => {
                for get in group {
                    get.end.finish(Err(self.shared.cannot_connect(&failure)));
                }
                return;
            }
        };
        let (mut keys, mut ends) = (Vec::with_capacity(group.len()), Vec::new());
        for get in group {
            keys.push(vec![get.key]);
            ends.push((get.end, get.in_progress));
        }
        let mut executor = SqlExecutor::new(&mut *connection, &self.shared, false);
        executor.tables.learn();
        let rows = executor.get_each(&table, fields, &keys);
        self.shared.pool.put(connection);
        for ((end, _in_progress), row) in ends.into_iter().zip(rows) {
            finish(end, row);
        }
    }
}

/// Ends a read.
fn finish(end: ExchangeEnd, row: Result<Option<Vec<Value>>>) {
    let done = row.map(|row| {
        let count = u64::from(row.is_some());
        end.pass(row.into_iter().collect(), None, true);
        Done::One(Outcome::rows(count))
    });
    end.finish(done);
}

/// A thread that executes reads until none wait.
struct Worker {
    queue: Arc<GetQueue>,
    is_counted: bool,
}

impl Worker {
    fn work(mut self) {
        while let Some(group) = self.next() {
            self.queue.execute(group);
        }
    }

    /// Takes reads of the same table and fields: a share of those that wait. Without any, this thread
    /// is not counted any more.
    fn next(&mut self) -> Option<Vec<QueuedGet>> {
        let mut state = self.queue.state.lock();
        let most = state.waiting.len().div_ceil(self.queue.workers_max).clamp(GROUP, GROUP_MAX);
        let Some(first) = state.waiting.pop_front() else {
            state.workers -= 1;
            self.is_counted = false;
            return None;
        };
        let mut group = vec![first];
        while group.len() < most
            && let Some(next) = state.waiting.front()
            && Arc::ptr_eq(&next.table, &group[0].table)
            && next.fields == group[0].fields
        {
            group.extend(state.waiting.pop_front());
        }
        Some(group)
    }
}

impl Drop for Worker {
    /// After a panic, or if the system cannot start a thread.
    fn drop(&mut self) {
        if !self.is_counted {
            return;
        }
        let mut state = self.queue.state.lock();
        state.workers -= 1;
        // Without a thread they would wait forever.
        let is_last = state.workers == 0;
        let abandoned = if is_last { std::mem::take(&mut state.waiting) } else { VecDeque::new() };
        drop(state);
        abandoned.into_iter().for_each(|get| get.end.finish(Err(overloaded())));
    }
}
