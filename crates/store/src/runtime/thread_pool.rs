//! A pool of threads for engines: it executes work that would block a caller's thread.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// How long an idle thread stays.
const IDLE: Duration = Duration::from_secs(10);
/// The minimum and maximum number of threads of an engine.
const THREADS: std::ops::RangeInclusive<usize> = 2..=8;

type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads for an engine's work that would block a caller's thread for too long.
///
/// Threads are started when they are needed, at most 2 to 8 depending on the number of processors,
/// and end after 10 s without work.
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
    threads_max: usize,
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
        Self { state: Mutex::default(), bell: Condvar::new(), threads_max }
    }
}

impl ThreadPool {
    /// Executes a job on a thread of the pool, or on the caller's if the system cannot start a
    /// thread.
    pub fn run(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock();
        state.jobs.push_back(Box::new(job));
        if state.idle >= state.jobs.len() {
            drop(state);
            self.bell.notify_one();
            return;
        }
        if state.threads >= self.threads_max {
            return;
        }
        state.threads += 1;
        drop(state);
        let helpers = Arc::clone(self);
        let builder = std::thread::Builder::new().name("marmota-helper".to_owned());
        if builder.spawn(move || helpers.work()).is_err() {
            let mut state = self.state.lock();
            state.threads -= 1;
            let job = if state.threads == 0 { state.jobs.pop_front() } else { None };
            drop(state);
            if let Some(job) = job {
                job();
            }
        }
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
        write!(f, "{} helper threads, {} jobs wait", state.threads, state.jobs.len())
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
