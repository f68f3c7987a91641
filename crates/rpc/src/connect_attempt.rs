//! Connecting on helper threads, for callers on event loops: DNS lookups, connecting and the
//! upgrade block.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::thread;
use std::time::Instant;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::engine::Watch;
use marmota_store::refusal::copy_of;
use marmota_store::thread_pool::ThreadPool;
use parking_lot::Mutex;

/// Helper threads for connecting to one server, and the attempts that wait for them. `C` is the
/// connection that an attempt makes.
pub struct ConnectThreads<C> {
    threads: Arc<ThreadPool>,
    queue: Mutex<VecDeque<Arc<ConnectAttempt<C>>>>,
}

/// An attempt to connect.
pub struct ConnectAttempt<C> {
    since: Instant,
    made: Mutex<Option<Result<C>>>,
    /// It is woken at the end.
    watch: Arc<Watch>,
}

impl<C> Default for ConnectThreads<C> {
    fn default() -> Self {
        Self { threads: Arc::default(), queue: Mutex::default() }
    }
}

impl<C: Send + 'static> ConnectThreads<C> {
    /// Starts an attempt, which calls `connect` on a helper thread; `watch` is woken at its end.
    ///
    /// An attempt that fails ends those that were waiting when it began, with the same error: an
    /// unreachable server is not tried again for each of them. An attempt that is dropped before
    /// its turn is not made.
    pub fn start(
        self: &Arc<Self>,
        watch: &Arc<Watch>,
        connect: impl FnOnce() -> Result<C> + Send + 'static,
    ) -> Arc<ConnectAttempt<C>> {
        let watch = Arc::clone(watch);
        let attempt =
            Arc::new(ConnectAttempt { since: Instant::now(), made: Mutex::default(), watch });
        self.queue.lock().push_back(Arc::clone(&attempt));
        let (this, caller) = (Arc::clone(self), thread::current().id());
        self.threads.run(move || {
            // Without helper threads the pool runs its work on the caller's, which may not block.
            if thread::current().id() == caller {
                this.next(|| Err(no_thread()));
            } else {
                this.next(connect);
            }
        });
        attempt
    }

    /// Connects for the attempt that has waited longest.
    fn next(&self, connect: impl FnOnce() -> Result<C>) {
        let Some(attempt) = self.queue.lock().pop_front() else { return };
        let ending = Ending(attempt);
        if ending.is_abandoned() {
            return;
        }
        let began = Instant::now();
        let made = connect();
        if let Err(error) = &made {
            let mut queue = self.queue.lock();
            let later = queue.partition_point(|waiting| waiting.since <= began);
            let others: Vec<_> = queue.drain(..later).collect();
            drop(queue);
            others.into_iter().for_each(|other| other.end(Err(copy_of(error))));
        }
        ending.0.end(made);
    }

    /// Ends the threads as soon as they have no work.
    pub fn dismiss(&self) {
        self.threads.dismiss();
    }
}

impl<C> ConnectAttempt<C> {
    /// Returns when the attempt was started.
    #[must_use]
    pub const fn since(&self) -> Instant {
        self.since
    }

    /// Takes the result; `None` while the attempt is running.
    pub fn take(&self) -> Option<Result<C>> {
        self.made.lock().take()
    }

    fn end(&self, made: Result<C>) {
        *self.made.lock() = Some(made);
        Waker::from(Arc::clone(&self.watch)).wake();
    }
}

#[cold]
fn no_thread() -> Error {
    Error::new(ErrorKind::Busy, "a thread for connecting could not be started; try again")
}

/// Ends an attempt, also if connecting panics.
struct Ending<C>(Arc<ConnectAttempt<C>>);

impl<C> Ending<C> {
    /// Returns true if the caller no longer waits for it.
    fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl<C> Drop for Ending<C> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.end(Err(Error::new(ErrorKind::Bug, "connecting to the server panicked")));
        }
    }
}

impl<C> fmt::Debug for ConnectThreads<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectThreads({} waiting)", self.queue.lock().len())
    }
}

impl<C> fmt::Debug for ConnectAttempt<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.made.lock().is_some() { "ended" } else { "running" };
        write!(f, "ConnectAttempt({state})")
    }
}
