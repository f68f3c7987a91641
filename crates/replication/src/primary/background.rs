//! The tasks that a replicator executes from time to time, each on its own thread: snapshots, and the
//! merging of segments.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use marmota_model::Result;

use crate::primary::replicator::Core;

/// The pause before a failed task is tried again.
const FAILURE_PAUSE: Duration = Duration::from_secs(10);

/// A task.
pub(crate) struct Task {
    thread: &'static str,
    work: fn(&Core) -> Result<()>,
    interval: Duration,
    /// The time of the next execution; `None` if it is never due.
    next: Option<Instant>,
    running: Option<JoinHandle<Result<()>>>,
}

impl Task {
    /// Creates a task that is executed first after a time.
    pub(crate) fn new(
        thread: &'static str,
        work: fn(&Core) -> Result<()>,
        interval: Duration,
        first: Duration,
    ) -> Self {
        Self { thread, work, interval, next: Instant::now().checked_add(first), running: None }
    }

    /// Makes the task due at once.
    pub(crate) fn hurry(&mut self) {
        self.next = Some(Instant::now());
    }

    /// Starts the task if it is time.
    pub(crate) fn work(&mut self, core: &Arc<Core>) {
        if let Some(running) = self.running.take_if(|running| running.is_finished()) {
            let failed = match running.join() {
                Ok(Ok(())) => false,
                Ok(Err(error)) => {
                    core.note_failure(&error);
                    true
                }
                Err(_) => true,
            };
            if failed {
                self.next = Some(Instant::now() + FAILURE_PAUSE);
            }
        }
        if self.running.is_some() || self.next.is_none_or(|next| next > Instant::now()) {
            return;
        }
        let (of_thread, work) = (Arc::clone(core), self.work);
        let thread = std::thread::Builder::new().name(self.thread.to_owned());
        if let Ok(running) = thread.spawn(move || work(&of_thread)) {
            self.next = Instant::now().checked_add(self.interval);
            self.running = Some(running);
        }
    }

    /// Waits for the end of the task.
    pub(crate) fn join(self) {
        if let Some(running) = self.running {
            // If it panicked, it has ended as well.
            let _ = running.join();
        }
    }
}
