//! Waits in a queue that have a deadline.
//!
//! One alarm serves all operations of a queue: it is set for the earliest deadline, and set again
//! for the next one when it rings. It has a weak reference, so that it does not keep the queue.

use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::Instant;

use super::queue::{QueuePlace, WaitQueue};
use crate::runtime::watcher::wake_at;

/// Wakes those of a queue whose deadline has come.
struct Alarm(Weak<WaitQueue>);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        let next = self.0.upgrade().and_then(|queue| queue.ring(Instant::now()));
        if let Some(next) = next {
            set(self, next);
        }
    }
}

/// Rings the alarm at this time.
fn set(alarm: Arc<Alarm>, at: Instant) {
    // Where the system gives no thread for it, it is woken with the next release.
    let _ = wake_at(at, Waker::from(alarm));
}

impl WaitQueue {
    /// [`WaitQueue::wait`] with a deadline, at which `waker` is woken at the
    /// latest.
    pub fn wait_until(self: &Arc<Self>, place: &mut QueuePlace, waker: &Waker, until: Instant) {
        if let Some(at) = self.enter_until(place, waker.clone(), until) {
            set(Arc::new(Alarm(Arc::downgrade(self))), at);
        }
    }
}
