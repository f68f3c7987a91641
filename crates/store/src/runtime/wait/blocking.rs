//! Threads that wait in a queue.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use super::queue::{QueuePlace, WaitQueue};

/// A waker that unparks a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl WaitQueue {
    /// Calls `attempt` each time that it is woken, until it succeeds, and blocks the thread in
    /// between. Returns `None` if it has not succeeded by `until`.
    ///
    /// The thread enters the queue before its first attempt, and leaves it at the end. An attempt
    /// that fails after a wake-up keeps the place. The [module](crate::wait) has an example.
    pub fn block_until<T>(&self, until: Instant, attempt: impl FnMut() -> Option<T>) -> Option<T> {
        let mut blocked =
            Blocked { queue: self, place: QueuePlace::default(), waker: thread_waker(), attempt };
        loop {
            self.wait(&mut blocked.place, &blocked.waker);
            if let Some(done) = (blocked.attempt)() {
                return Some(done);
            }
            let left =
                until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            thread::park_timeout(left);
        }
    }
}

/// Returns a waker for this thread.
fn thread_waker() -> Waker {
    Arc::new(Unpark(thread::current())).into()
}

/// A thread in the queue, which leaves it also if an attempt panics.
struct Blocked<'q, A> {
    queue: &'q WaitQueue,
    place: QueuePlace,
    waker: Waker,
    attempt: A,
}

impl<A> Drop for Blocked<'_, A> {
    fn drop(&mut self) {
        self.queue.leave(&mut self.place);
    }
}
