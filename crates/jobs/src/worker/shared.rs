//! The state that the threads of a worker share.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_executor::Executor;
use marmota_model::{Timestamp, Uuid};
use marmota_store::thread_pool::ThreadPool;
use parking_lot::{Condvar, Mutex};

use super::claim::Claimed;
use super::finish::Ended;
use crate::context::{Attempt, Host};
use crate::jobs::{Function, Jobs, WorkerOptions};
use crate::wakeup::Listener;

/// The most jobs that are claimed in advance: those that are executed in this time, up to a
/// maximum.
const AHEAD: Duration = Duration::from_millis(50);
const AHEAD_MAX: usize = 2_000;
/// Claims wait while this many jobs wait for being ended.
const ENDED_MAX: usize = 10_000;

pub(crate) struct Shared {
    pub(crate) host: Arc<Host>,
    pub(crate) options: WorkerOptions,
    pub(crate) functions: std::collections::BTreeMap<&'static str, Function>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) executor: Arc<Executor<'static>>,
    pub(crate) pool: Arc<ThreadPool>,
    /// The worker in the table of workers. It changes if the lease is lost.
    pub(crate) holder: Mutex<Uuid>,
    /// The attempts that wait for something, by job.
    pub(crate) watched: Mutex<HashMap<Uuid, Arc<Attempt>>>,
    pub(crate) ended: Mutex<Vec<Ended>>,
    pub(crate) has_ended: Condvar,
    pub(crate) signal: Mutex<Signal>,
    pub(crate) signalled: Condvar,
    /// Wakes the keeper's thread.
    pub(crate) duty_signal: Mutex<()>,
    pub(crate) duty_signalled: Condvar,
    pub(crate) is_stopping: AtomicBool,
    /// True once no more jobs can end.
    pub(crate) is_over: AtomicBool,
}

/// What wakes the thread that claims jobs.
#[derive(Default)]
pub(crate) struct Signal {
    pub(crate) is_woken: bool,
    /// The first time at which a job is due, of those that were enqueued since the last claim.
    pub(crate) due: Option<Timestamp>,
    /// True while the thread waits until jobs have ended.
    pub(crate) is_full: bool,
}

/// A queue of a worker.
pub(crate) struct Queue {
    pub(crate) name: Arc<str>,
    pub(crate) concurrency: usize,
    pub(crate) state: Mutex<Ready>,
    pub(crate) counts: Counts,
}

/// The jobs of a queue that are claimed and wait for a slot.
#[derive(Default)]
pub(crate) struct Ready {
    pub(crate) jobs: VecDeque<Claimed>,
    /// The number of jobs that are executed at this moment.
    pub(crate) slots: usize,
    /// The number of jobs that have ended, and when the rate was last taken.
    ended: u64,
    rated: Option<(Instant, u64)>,
    /// How many jobs are executed in [`AHEAD`].
    ahead: usize,
}

/// What has happened to the jobs of a queue in this process.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) succeeded: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) lost: AtomicU64,
}

impl Shared {
    pub(crate) fn new(jobs: Jobs, options: WorkerOptions, host: Host, holder: Uuid) -> Self {
        let named: Vec<(String, usize)> = if options.queues.is_empty() {
            let mut names: Vec<&str> =
                jobs.functions.values().map(|function| function.options.queue).collect();
            names.sort_unstable();
            names.dedup();
            names.into_iter().map(|name| (name.to_owned(), options.concurrency)).collect()
        } else {
            options.queues.clone()
        };
        let queue = |(name, concurrency): (String, usize)| Queue {
            name: name.into(),
            concurrency,
            state: Mutex::default(),
            counts: Counts::default(),
        };
        Self {
            host: Arc::new(host),
            functions: jobs.functions,
            queues: named.into_iter().map(queue).collect(),
            executor: Arc::new(Executor::new()),
            pool: Arc::new(ThreadPool::new("marmota-job", options.blocking_threads)),
            options,
            holder: Mutex::new(holder),
            watched: Mutex::default(),
            ended: Mutex::default(),
            has_ended: Condvar::new(),
            signal: Mutex::default(),
            signalled: Condvar::new(),
            duty_signal: Mutex::default(),
            duty_signalled: Condvar::new(),
            is_stopping: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.host.clock)()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Wakes the thread that claims jobs.
    pub(crate) fn wake(&self) {
        self.signal.lock().is_woken = true;
        self.signalled.notify_one();
    }

    /// Wakes it if it waits until jobs have ended.
    pub(crate) fn made_room(&self) {
        let mut signal = self.signal.lock();
        if signal.is_full {
            (signal.is_full, signal.is_woken) = (false, true);
            drop(signal);
            self.signalled.notify_one();
        }
    }

    /// Passes a job that has ended to the thread that writes it.
    pub(crate) fn end(&self, ended: Ended) {
        let mut list = self.ended.lock();
        list.push(ended);
        if list.len() == 1 {
            self.has_ended.notify_one();
        }
    }

    /// Returns how many jobs of a queue to claim now; 0 if there is no room for enough of them.
    pub(crate) fn wanted(&self, queue: &Queue) -> usize {
        if self.ended.lock().len() >= ENDED_MAX {
            return 0;
        }
        let mut state = queue.state.lock();
        state.rate();
        let room = queue.concurrency + state.ahead;
        let wanted = room.saturating_sub(state.slots + state.jobs.len());
        // Few jobs at a time would be one commit each.
        let is_worth_it = state.jobs.len() <= state.ahead / 2;
        if is_worth_it { wanted } else { 0 }
    }

    /// Returns the number of jobs that this worker has claimed and not ended.
    pub(crate) fn in_progress(&self) -> usize {
        let sum = |queue: &Queue| {
            let state = queue.state.lock();
            state.slots + state.jobs.len()
        };
        self.queues.iter().map(sum).sum()
    }
}

impl Ready {
    /// Takes the next job for a slot, or ends the slot.
    pub(crate) fn next(&mut self) -> Option<Claimed> {
        let next = self.jobs.pop_front();
        if next.is_none() {
            self.slots -= 1;
        }
        next
    }

    /// Counts a job that has ended. Returns true if claiming makes sense.
    pub(crate) fn count(&mut self) -> bool {
        self.ended += 1;
        self.jobs.len() <= self.ahead / 2
    }

    /// Sets how many jobs are claimed in advance, by the rate at which jobs end.
    fn rate(&mut self) {
        let now = Instant::now();
        let Some((since, before)) = self.rated else {
            self.rated = Some((now, self.ended));
            return;
        };
        let time = now - since;
        if time < Duration::from_millis(5) {
            return;
        }
        let rate = (self.ended - before) as f64 / time.as_secs_f64();
        let ahead = ((rate * AHEAD.as_secs_f64()) as usize).min(AHEAD_MAX);
        self.ahead = (self.ahead + ahead).div_ceil(2);
        if ahead == 0 {
            self.ahead = 0;
        }
        self.rated = Some((now, self.ended));
    }
}

impl Listener for Shared {
    fn enqueued(&self, queue: &str, due: Timestamp) {
        if !self.queues.iter().any(|own| &*own.name == queue) {
            return;
        }
        let mut signal = self.signal.lock();
        if due <= self.now() {
            signal.is_woken = true;
        } else if signal.due.is_none_or(|known| due < known) {
            signal.due = Some(due);
        } else {
            return;
        }
        drop(signal);
        self.signalled.notify_one();
    }

    fn cancelled(&self, job: Uuid) {
        self.cancel(job);
    }
}
