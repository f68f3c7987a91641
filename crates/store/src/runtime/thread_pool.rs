//! A pool of threads that executes work which would block a caller's thread.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

pub use super::job_result::JobResult;

/// How long an idle thread stays.
const IDLE: Duration = Duration::from_secs(10);
/// The minimum and maximum number of threads of an engine's pool.
const THREADS: std::ops::RangeInclusive<usize> = 2..=8;

type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads for work that would block a caller's thread for too long: an engine's reads,
/// connecting, hashing a password.
///
/// Threads are started when they are needed, and end after 10 s without work. The default pool has
/// at most 2 to 8 threads, depending on the number of processors, and any number of waiting jobs.
///
/// ```
/// use marmota_store::thread_pool::ThreadPool;
/// use std::sync::{Arc, mpsc};
/// let pool = Arc::new(ThreadPool::default());
/// let (sender, receiver) = mpsc::channel();
/// pool.run(move || sender.send(6 * 7).unwrap());
/// assert_eq!(receiver.recv(), Ok(42));
/// ```
pub struct ThreadPool {
    state: Mutex<State>,
    bell: Condvar,
    /// The name of the threads.
    name: &'static str,
    threads_max: usize,
    waiting_max: usize,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl Default for ThreadPool {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads_max = processors.clamp(*THREADS.start(), *THREADS.end());
        Self::new("marmota-helper", threads_max)
    }
}

impl ThreadPool {
    /// Creates a pool of at most `threads_max` threads with this name, without a limit of waiting
    /// jobs.
    ///
    /// ```
    /// use marmota_store::thread_pool::ThreadPool;
    /// let pool = ThreadPool::new("mail", 2);
    /// assert!(!pool.are_busy());
    /// ```
    #[must_use]
    pub fn new(name: &'static str, threads_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            bell: Condvar::new(),
            name,
            threads_max: threads_max.max(1),
            waiting_max: usize::MAX,
        }
    }

    /// Sets the number of jobs that may wait for a thread; [`Self::result_of`] refuses further
    /// ones. Default: no limit.
    ///
    /// ```
    /// use marmota_store::thread_pool::ThreadPool;
    /// use std::sync::{Arc, mpsc};
    ///
    /// let pool = Arc::new(ThreadPool::new("mail", 1).waiting_max(1));
    /// let (begun, has_begun) = mpsc::channel();
    /// let (release, released) = mpsc::channel::<()>();
    /// let first = pool.result_of(move || {
    ///     begun.send(()).unwrap();
    ///     released.recv().unwrap();
    /// });
    /// has_begun.recv().unwrap();
    /// let second = pool.result_of(|| ());
    /// assert!(first.is_some() && second.is_some());
    /// assert!(pool.result_of(|| ()).is_none());
    /// release.send(()).unwrap();
    /// ```
    #[must_use]
    pub fn waiting_max(mut self, jobs: usize) -> Self {
        self.waiting_max = jobs;
        self
    }

    /// Executes a job on a thread of the pool, or on the caller's if the system cannot start a
    /// thread. The limit of waiting jobs does not apply.
    pub fn run(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock();
        state.jobs.push_back(Box::new(job));
        let Some(mut state) = self.call_thread(state) else { return };
        let job = if state.threads == 0 { state.jobs.pop_front() } else { None };
        drop(state);
        if let Some(job) = job {
            job();
        }
    }

    /// Executes a job on a thread of the pool, and returns its result as a future; `None` if too
    /// many jobs wait ([`Self::waiting_max`]), or if the system cannot start a thread. The caller's
    /// thread never executes the job.
    ///
    /// ```
    /// use marmota_model::ErrorKind;
    /// use marmota_store::action::block_on;
    /// use marmota_store::thread_pool::ThreadPool;
    /// use std::sync::Arc;
    ///
    /// let pool = Arc::new(ThreadPool::new("mail", 1));
    /// assert_eq!(block_on(pool.result_of(|| 6 * 7).unwrap())?, 42);
    /// let failed = block_on(pool.result_of(|| panic!("no such host")).unwrap());
    /// assert_eq!(failed.unwrap_err().kind(), ErrorKind::Bug);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn result_of<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<JobResult<T>> {
        let mut state = self.state.lock();
        if state.jobs.len() >= self.waiting_max {
            return None;
        }
        let (job, result) = JobResult::new(work);
        state.jobs.push_back(Box::new(job));
        if let Some(mut state) = self.call_thread(state)
            && state.threads == 0
        {
            // Without threads the last job is this one, unless several callers failed at once; each
            // of them drops one, and its result is an error.
            let job = state.jobs.pop_back();
            drop(state);
            drop(job);
            return None;
        }
        Some(result)
    }

    /// Wakes or starts a thread for the last job. Returns the state if the system cannot start one.
    fn call_thread<'p>(
        self: &'p Arc<Self>,
        mut state: MutexGuard<'p, State>,
    ) -> Option<MutexGuard<'p, State>> {
        if state.idle >= state.jobs.len() {
            drop(state);
            self.bell.notify_one();
            return None;
        }
        if state.threads >= self.threads_max {
            return None;
        }
        state.threads += 1;
        drop(state);
        let pool = Arc::clone(self);
        let builder = std::thread::Builder::new().name(self.name.to_owned());
        if let Err(error) = builder.spawn(move || pool.work()) {
            log::error!("no thread `{}`: {error}", self.name);
            let mut state = self.state.lock();
            state.threads -= 1;
            return Some(state);
        }
        None
    }

    /// Returns true if a job would have to wait for others to end.
    #[must_use]
    pub fn are_busy(&self) -> bool {
        let state = self.state.lock();
        state.threads >= self.threads_max && state.idle <= state.jobs.len()
    }

    /// Ends the threads as soon as they have no work.
    pub fn dismiss(&self) {
        self.state.lock().is_closed = true;
        self.bell.notify_all();
    }

    fn work(self: &Arc<Self>) {
        /// Subtracts the thread from the count, also if a job panics.
        struct Working<'h>(&'h ThreadPool);
        impl Drop for Working<'_> {
            fn drop(&mut self) {
                self.0.state.lock().threads -= 1;
            }
        }
        let working = Working(self);
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                // The panic concerns one job, whose guard reports it to the caller.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                state = self.state.lock();
                continue;
            }
            if state.is_closed {
                break;
            }
            state.idle += 1;
            let timed_out = self.bell.wait_for(&mut state, IDLE).timed_out();
            state.idle -= 1;
            if timed_out && state.jobs.is_empty() {
                break;
            }
        }
        drop(state);
        drop(working);
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        write!(f, "{} threads, {} waiting jobs", state.threads, state.jobs.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn every_job_is_carried_out_by_a_bounded_number_of_threads() {
        let helpers = Arc::new(ThreadPool::default());
        let (done, jobs) = mpsc::channel();
        for number in 0..100 {
            let done = done.clone();
            helpers.run(move || done.send(number).unwrap());
        }
        helpers.run(|| panic!("a job that fails"));
        let mut seen: Vec<u32> = jobs.iter().take(100).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        let (done, last) = mpsc::channel();
        helpers.run(move || done.send(()).unwrap());
        last.recv().unwrap();
        assert!(helpers.state.lock().threads <= helpers.threads_max);
        helpers.dismiss();
    }
}
