//! Wake-ups at points in time, for jobs that sleep. The keeper's thread rings them.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The alarms of a worker, and the sleep of the thread that rings them.
#[derive(Default)]
pub(crate) struct Timers {
    state: Mutex<Alarms>,
    changed: Condvar,
}

#[derive(Default)]
struct Alarms {
    /// By time, and a number that makes keys distinct.
    by_time: BTreeMap<(Instant, u64), Waker>,
    last: u64,
    is_woken: bool,
}

impl Timers {
    /// Wakes the keeper's thread before its time.
    pub(crate) fn wake(&self) {
        self.state.lock().is_woken = true;
        self.changed.notify_one();
    }

    /// Sleeps until `until`, an alarm or a [`Timers::wake`], and rings the alarms that are due.
    pub(crate) fn sleep_until(&self, until: Instant) {
        let mut state = self.state.lock();
        let first = state.by_time.keys().next().map_or(until, |(at, _)| (*at).min(until));
        if !state.is_woken {
            self.changed.wait_until(&mut state, first);
        }
        state.is_woken = false;
        let later = state.by_time.split_off(&(Instant::now(), u64::MAX));
        let due = std::mem::replace(&mut state.by_time, later);
        drop(state);
        due.into_values().for_each(Waker::wake);
    }

    fn set(&self, at: Instant, waker: Waker) -> u64 {
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        let is_first = state.by_time.keys().next().is_none_or(|(first, _)| at < *first);
        state.by_time.insert((at, number), waker);
        if is_first {
            state.is_woken = true;
            self.changed.notify_one();
        }
        number
    }

    fn remove(&self, at: Instant, number: u64) {
        self.state.lock().by_time.remove(&(at, number));
    }
}

/// The future that ends at a time.
pub(crate) struct Sleep {
    timers: Arc<Timers>,
    at: Instant,
    number: Option<u64>,
}

impl Sleep {
    pub(crate) fn new(timers: &Arc<Timers>, time: Duration) -> Self {
        Self { timers: Arc::clone(timers), at: Instant::now() + time, number: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let at = self.at;
        if let Some(number) = self.number.take() {
            self.timers.remove(at, number);
        }
        if Instant::now() >= at {
            return Poll::Ready(());
        }
        self.number = Some(self.timers.set(at, context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.timers.remove(self.at, number);
        }
    }
}
