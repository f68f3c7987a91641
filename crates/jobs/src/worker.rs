//! A worker: threads that claim jobs of a store and execute them.
//!
//! | thread | what it does | file |
//! |---|---|---|
//! | claims | claims jobs when slots are free, and is woken by enqueues of this process | `claim.rs` |
//! | executor, several | poll the functions | `execute.rs` |
//! | ends | writes the ends of attempts, many in one commit | `finish.rs` |
//! | keeper | lease, take-over, schedules, retention | `keeper.rs`, `schedules.rs`, `retention.rs` |
//! | timer | timeouts, and functions that sleep | `keeper.rs` |

mod claim;
mod execute;
pub(crate) mod finish;
mod keeper;
mod retention;
mod schedules;
pub(crate) mod shared;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use marmota_model::text::counted;
use marmota_model::{Error, ErrorKind, Result, Timestamp, Uuid, Value};
use parking_lot::Mutex;

use self::claim::Claim;
use self::finish::{End, Ended};
use self::schedules::Schedules;
use self::shared::Shared;
use crate::context::{Abort, Attempt, Host};
use crate::jobs::{Jobs, WorkerOptions};
use crate::models::JobRow;
use crate::wakeup::{self, Listener};

/// The pause after a claim that found nothing; it is doubled up to the maximum of the options.
const POLL_MIN: Duration = Duration::from_millis(10);
/// The time for which a stop waits for functions that were dropped.
const DROP_LIMIT: Duration = Duration::from_secs(2);

/// A running worker. Dropping it stops it.
#[must_use = "dropping a worker stops it"]
pub struct Worker {
    pub(crate) shared: Arc<Shared>,
    claims: Option<JoinHandle<()>>,
    threads: Vec<JoinHandle<()>>,
    executors: Vec<JoinHandle<()>>,
    /// The executors end when it is dropped.
    alive: Option<async_channel::Sender<()>>,
    is_stopped: bool,
}

impl Jobs {
    /// Starts a worker: threads that claim jobs and execute them until [`Worker::stop`].
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the store has no tables of jobs, [`ErrorKind::Invalid`] if no
    /// function is registered, errors of the store or the system.
    pub fn start(self, options: WorkerOptions) -> Result<Worker> {
        Worker::start(self, options)
    }
}

impl Worker {
    fn start(mut jobs: Jobs, options: WorkerOptions) -> Result<Self> {
        options.check()?;
        let store = jobs.store.clone();
        let table = store.registry().of::<JobRow>().map_err(|error| {
            let message = "the store has no tables of jobs; add them with `jobs::models` when it \
                           is opened";
            Error::new(ErrorKind::NotFound, message).with_source(error)
        })?;
        if jobs.functions.is_empty() {
            let message = "a worker needs at least one function; add it with `Jobs::register`";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let host = Host {
            table: Arc::clone(table),
            store,
            timers: Arc::default(),
            reported: Mutex::default(),
            keeps_succeeded: !options.keep_succeeded.is_zero(),
            clock: Arc::clone(&options.clock),
        };
        let mut schedules = Schedules::new(std::mem::take(&mut jobs.schedules));
        let shared = Arc::new(Shared::new(jobs, options, host, Uuid::nil()));
        *shared.holder.lock() = shared.enter()?;
        let (alive, ended) = async_channel::bounded::<()>(1);
        let mut worker = Self {
            shared: Arc::clone(&shared),
            claims: None,
            threads: Vec::new(),
            executors: Vec::new(),
            alive: Some(alive),
            is_stopped: false,
        };
        for _ in 0..shared.options.threads {
            let (executor, ended) = (Arc::clone(&shared.executor), ended.clone());
            // `recv` returns an error once the sender is dropped.
            let work = move || {
                let _ = block_on(executor.run(ended.recv()));
            };
            worker.executors.push(spawn("marmota-job", work)?);
        }
        let (ends, keeper, timer, claims) =
            (Arc::clone(&shared), Arc::clone(&shared), Arc::clone(&shared), Arc::clone(&shared));
        worker.threads.push(spawn("marmota-job-ends", move || ends.write_ends())?);
        worker.threads.push(spawn("marmota-job-keep", move || keeper.keep(&mut schedules))?);
        worker.threads.push(spawn("marmota-job-time", move || timer.time())?);
        let listener: Arc<dyn Listener> = Arc::clone(&shared) as Arc<dyn Listener>;
        wakeup::listen(&shared.host.store, &listener);
        // After a crash of all processes, the jobs of the last ones wait for the end of their lease.
        shared.take_over()?;
        worker.claims = Some(spawn("marmota-job-claim", move || claims.claim_jobs())?);
        Ok(worker)
    }

    /// Stops the worker: it claims no more jobs, and waits for those in progress up to the time
    /// limit of the options. After that, asynchronous functions are dropped, and their jobs are
    /// pending again; the attempt does not count. Jobs that were claimed and not begun are pending
    /// again at once.
    ///
    /// # Errors
    /// Those of the store at the end of the lease. The worker is stopped in any case.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    /// Returns the number of jobs that this worker has claimed and not ended.
    #[must_use]
    pub fn in_progress(&self) -> usize {
        self.shared.in_progress()
    }

    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_stopped, true) {
            return Ok(());
        }
        let shared = &self.shared;
        shared.is_stopping.store(true, Ordering::Release);
        shared.wake();
        if let Some(claims) = self.claims.take() {
            let _ = claims.join();
        }
        let attempts =
            || -> Vec<Arc<Attempt>> { shared.watched.lock().values().cloned().collect() };
        attempts().iter().for_each(|attempt| attempt.stopping());
        for (place, queue) in shared.queues.iter().enumerate() {
            let ready = std::mem::take(&mut queue.state.lock().jobs);
            for job in ready {
                shared.end(Ended { queue: place, job, attempt: None, end: End::HandedBack });
            }
        }
        if !shared.wait_until_idle(shared.options.stop_limit, || {}) {
            let abort = || attempts().iter().for_each(|attempt| attempt.abort(Abort::Stop));
            if !shared.wait_until_idle(DROP_LIMIT, abort) {
                let jobs = counted(shared.in_progress() as u64, "job");
                log::warn!(
                    "stopped before the end of {jobs}: another worker continues after the lease"
                );
            }
        }
        let is_idle = shared.in_progress() == 0;
        drop(self.alive.take());
        for executor in self.executors.drain(..) {
            // A function that does not return keeps its thread.
            if is_idle {
                let _ = executor.join();
            }
        }
        shared.pool.dismiss();
        shared.over();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        if is_idle { shared.leave(&shared.host.store) } else { Ok(()) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            log::warn!("the end of a worker: {error}");
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("in_progress", &self.in_progress()).finish_non_exhaustive()
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map_err(|error| {
        let message = format!("no thread can be started for jobs: {error}");
        Error::new(ErrorKind::Io, message).with_source(error)
    })
}

impl Shared {
    /// Claims jobs until the worker stops.
    fn claim_jobs(self: &Arc<Self>) {
        let kinds: Vec<Value> =
            self.functions.keys().map(|name| Value::Text((*name).to_owned())).collect();
        let mut pause = POLL_MIN;
        while !self.is_stopping() {
            let mut due = {
                let mut signal = self.signal.lock();
                (signal.is_woken, signal.is_full) = (false, false);
                signal.due.take()
            };
            let (mut is_full, mut has_claimed, mut is_again) = (true, false, false);
            for place in 0..self.queues.len() {
                let wanted = self.wanted(&self.queues[place]);
                if wanted == 0 {
                    continue;
                }
                is_full = false;
                match self.claim(place, wanted, &kinds) {
                    Ok((claimed, next)) => {
                        has_claimed |= claimed > 0;
                        is_again |= claimed >= wanted;
                        due = [due, next].into_iter().flatten().min();
                    }
                    Err(error) if error.kind() == ErrorKind::Closed => return,
                    Err(error) if error.is_retryable() => is_again = true,
                    Err(error) => log::warn!("jobs cannot be claimed: {error}"),
                }
            }
            if is_again {
                continue;
            }
            pause = if has_claimed { POLL_MIN } else { (pause * 2).min(self.options.poll_max) };
            // Jobs that are due do not matter while no slot is free.
            let wait = match due {
                _ if is_full => self.options.poll_max,
                Some(due) => pause.min(self.until(due)),
                None => pause,
            };
            let until = Instant::now() + wait;
            let mut signal = self.signal.lock();
            signal.is_full = is_full;
            while !signal.is_woken && !self.is_stopping() {
                let early = signal.due.filter(|_| !is_full);
                let early = early.map(|due| Instant::now() + self.until(due));
                let until = early.map_or(until, |early| early.min(until));
                if self.signalled.wait_until(&mut signal, until).timed_out() {
                    break;
                }
            }
        }
    }

    /// Returns the time until a job is due.
    fn until(&self, due: Timestamp) -> Duration {
        let micros = due.micros().saturating_sub(self.now().micros());
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }

    /// Claims jobs of a queue. Returns their number, and when the next one is due if there are no
    /// more now.
    fn claim(
        self: &Arc<Self>,
        place: usize,
        wanted: usize,
        kinds: &[Value],
    ) -> Result<(usize, Option<Timestamp>)> {
        /// The most jobs of one claim.
        const CLAIM_MAX: usize = 1_000;
        let claim = Claim {
            store: &self.host.store,
            table: &self.host.table,
            queue: &self.queues[place].name,
            kinds,
            holder: *self.holder.lock(),
            now: self.now(),
            limit: wanted.min(CLAIM_MAX),
        };
        let claimed = claim.run()?;
        let count = claimed.len();
        if count > 0 {
            self.add(place, claimed);
        }
        let next = if count < claim.limit { claim.next_due()? } else { None };
        // A full claim is followed by another, even if it was smaller than wanted.
        let count = if count == claim.limit { wanted } else { count };
        Ok((count, next))
    }

    /// Waits until no job is in progress; calls `also` in between. Returns false if the time is
    /// over.
    fn wait_until_idle(&self, limit: Duration, also: impl Fn()) -> bool {
        let until = Instant::now() + limit;
        loop {
            also();
            let mut signal = self.signal.lock();
            signal.is_full = true;
            if self.in_progress() == 0 {
                return true;
            }
            let now = Instant::now();
            if now >= until {
                return false;
            }
            let next = until.min(now + Duration::from_millis(20));
            self.signalled.wait_until(&mut signal, next);
        }
    }

    /// Ends the threads of the worker.
    fn over(&self) {
        let ended = self.ended.lock();
        self.is_over.store(true, Ordering::Release);
        drop(ended);
        self.has_ended.notify_all();
        drop(self.duty_signal.lock());
        self.duty_signalled.notify_all();
        self.host.timers.wake();
    }
}
