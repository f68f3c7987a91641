//! The tasks that a replicator executes from time to time, each on its own thread: snapshots, and the
//! merging of segments.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use marmota_model::{Error, Result};

/// The pause before a failed task is tried again.
const FAILURE_PAUSE: Duration = Duration::from_secs(10);

/// A task.
pub(crate) struct Task {
    thread: &'static str,
    work: Arc<dyn Fn() -> Result<()> + Send + Sync>,
    interval: Duration,
    /// The time of the next execution; `None` if it is never due.
    next: Option<Instant>,
    running: Option<JoinHandle<Result<()>>>,
}

impl Task {
    /// Creates a task that is executed first after a time.
    pub(crate) fn new(
        thread: &'static str,
        work: impl Fn() -> Result<()> + Send + Sync + 'static,
        interval: Duration,
        first: Duration,
    ) -> Self {
        let work = Arc::new(work);
        Self { thread, work, interval, next: Instant::now().checked_add(first), running: None }
    }

    /// Makes the task due at once.
    pub(crate) fn hurry(&mut self) {
        self.next = Some(Instant::now());
    }

    /// Starts the task if it is time. Returns the error of the last execution.
    pub(crate) fn work(&mut self) -> Option<Error> {
        let mut failure = None;
        if let Some(running) = self.running.take_if(|running| running.is_finished()) {
            let ended = running.join();
            if !matches!(ended, Ok(Ok(()))) {
                self.next = Some(Instant::now() + FAILURE_PAUSE);
            }
            failure = ended.ok().and_then(Result::err);
        }
        if self.running.is_none() && self.next.is_some_and(|next| next <= Instant::now()) {
            let work = Arc::clone(&self.work);
            let thread = std::thread::Builder::new().name(self.thread.to_owned());
            if let Ok(running) = thread.spawn(move || work()) {
                self.next = Instant::now().checked_add(self.interval);
                self.running = Some(running);
            }
        }
        failure
    }

    /// Waits for the end of the task.
    pub(crate) fn join(self) {
        if let Some(running) = self.running {
            // If it panicked, it has ended as well.
            let _ = running.join();
        }
    }
}
