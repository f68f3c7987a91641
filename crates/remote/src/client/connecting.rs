//! Connecting for sessions on event loops: on helper threads, because DNS lookups, connecting and
//! the greeting block.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::engine::Watch;
use marmota_store::refusal::copy_of;
use marmota_store::thread_pool::ThreadPool;
use parking_lot::Mutex;

use super::line::Line;

/// An engine's helper threads for connecting, and the sessions that wait for them.
#[derive(Default)]
pub(super) struct Connecting {
    threads: Arc<ThreadPool>,
    queue: Mutex<VecDeque<Arc<Attempt>>>,
}

/// An attempt to connect for one session.
pub(super) struct Attempt {
    pub(super) since: Instant,
    made: Mutex<Option<Result<Line>>>,
    /// The session's watch, which is woken at the end.
    watch: Arc<Watch>,
}

impl Connecting {
    /// Starts an attempt, which calls `connect`; `watch` is woken at its end.
    pub(super) fn start(
        self: &Arc<Self>,
        watch: &Arc<Watch>,
        connect: impl FnOnce() -> Result<Line> + Send + 'static,
    ) -> Arc<Attempt> {
        let watch = Arc::clone(watch);
        let attempt = Arc::new(Attempt { since: Instant::now(), made: Mutex::default(), watch });
        self.queue.lock().push_back(Arc::clone(&attempt));
        let this = Arc::clone(self);
        self.threads.run(move || this.next(connect));
        attempt
    }

    /// Connects for the session that has waited longest.
    fn next(&self, connect: impl FnOnce() -> Result<Line>) {
        let Some(attempt) = self.queue.lock().pop_front() else { return };
        let ending = Ending(attempt);
        if ending.is_abandoned() {
            return;
        }
        let began = Instant::now();
        let made = connect();
        if let Err(error) = &made {
            // An unreachable server is not tried again for each session in turn.
            let mut queue = self.queue.lock();
            let later = queue.partition_point(|waiting| waiting.since <= began);
            let others: Vec<_> = queue.drain(..later).collect();
            drop(queue);
            others.into_iter().for_each(|other| other.end(Err(copy_of(error))));
        }
        ending.0.end(made);
    }

    /// Ends the threads as soon as they have no work.
    pub(super) fn dismiss(&self) {
        self.threads.dismiss();
    }
}

impl Attempt {
    /// Takes the result; `None` while the attempt is running.
    pub(super) fn take(&self) -> Option<Result<Line>> {
        self.made.lock().take()
    }

    fn end(&self, made: Result<Line>) {
        *self.made.lock() = Some(made);
        Waker::from(Arc::clone(&self.watch)).wake();
    }
}

/// Ends an attempt, also if connecting panics.
struct Ending(Arc<Attempt>);

impl Ending {
    /// Returns true if the session no longer waits for it.
    fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end(Err(Error::new(ErrorKind::Bug, "connecting to the server panicked")));
        }
    }
}
