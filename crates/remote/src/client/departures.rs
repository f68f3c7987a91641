//! The canceled operations of an engine that are not answered yet; later writes wait for them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use marmota_store::wait::{QueuePlace, WaitQueue};
use parking_lot::Mutex;

/// How long the answer to a canceled operation is awaited.
pub(super) const DEPARTURE_MAX: Duration = Duration::from_secs(2);

/// The canceled operations of an engine that are not answered yet.
#[derive(Default)]
pub(super) struct Departures {
    count: AtomicUsize,
    inside: Mutex<Inside>,
    queue: WaitQueue,
}

#[derive(Default)]
struct Inside {
    last: u64,
    /// In the order of their start, with their time limits.
    active: VecDeque<(u64, Instant)>,
}

impl Departures {
    /// Adds an operation; returns its number.
    pub(super) fn begin(&self) -> u64 {
        let mut inside = self.inside.lock();
        inside.last += 1;
        let number = inside.last;
        inside.active.push_back((number, Instant::now() + DEPARTURE_MAX));
        self.count.store(inside.active.len(), Ordering::SeqCst);
        number
    }

    /// Removes an operation.
    pub(super) fn end(&self, number: u64) {
        let mut inside = self.inside.lock();
        inside.active.retain(|(active, _)| *active != number);
        self.count.store(inside.active.len(), Ordering::SeqCst);
        drop(inside);
        self.queue.wake_all();
    }

    /// Returns the last operation that a write submitted now must wait for, `None` if no operation
    /// is pending.
    pub(super) fn last(&self) -> Option<u64> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.inside.lock().active.back().map(|(number, _)| *number)
    }

    /// Returns until when to wait for the operations up to `last`; `None` if all have ended.
    pub(super) fn until(&self, last: u64) -> Option<Instant> {
        let mut inside = self.inside.lock();
        let now = Instant::now();
        while inside.active.front().is_some_and(|(_, until)| *until <= now) {
            inside.active.pop_front();
        }
        self.count.store(inside.active.len(), Ordering::SeqCst);
        inside.active.front().filter(|(number, _)| *number <= last).map(|(_, until)| *until)
    }

    /// Wakes `waker` when one ends. The caller must check once more after this call.
    pub(super) fn wait(&self, place: &mut QueuePlace, waker: &Waker) {
        self.queue.wait(place, waker);
    }

    pub(super) fn leave(&self, place: &mut QueuePlace) {
        self.queue.leave(place);
    }

    /// Blocks until all have ended, for a limited time.
    pub(super) fn wait_for_all(&self) {
        let until = Instant::now() + DEPARTURE_MAX;
        let _ = self.queue.block_until(until, || self.last().is_none().then_some(()));
    }
}
