//! An alarm for one deadline of a task, which may be polled with another waker each time.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Instant;

use parking_lot::Mutex;

/// Wakes the task that waits at a time. It is set once, so that polls add no alarms; dropping it
/// releases the task's waker.
#[derive(Debug, Default)]
pub(crate) struct TaskAlarm(Option<Arc<Ringing>>);

#[derive(Debug)]
struct Ringing(Mutex<Option<Waker>>);

impl Wake for Ringing {
    fn wake(self: Arc<Self>) {
        let waker = self.0.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl TaskAlarm {
    /// Wakes `waker` at this time, or earlier if the system cannot provide an alarm. Later calls
    /// replace the waker; the time of the first one remains.
    pub(crate) fn set(&mut self, at: Instant, waker: &Waker) {
        if let Some(ringing) = &self.0 {
            *ringing.0.lock() = Some(waker.clone());
            return;
        }
        let ringing = Arc::new(Ringing(Mutex::new(Some(waker.clone()))));
        if wake_at(at, Waker::from(Arc::clone(&ringing))) {
            self.0 = Some(ringing);
        } else {
            waker.wake_by_ref();
        }
    }
}

#[cfg(target_os = "linux")]
fn wake_at(at: Instant, waker: Waker) -> bool {
    super::watcher::wake_at(at, waker)
}

/// Without an alarm the task is polled until the time has come.
#[cfg(not(target_os = "linux"))]
fn wake_at(_: Instant, _: Waker) -> bool {
    false
}

impl Drop for TaskAlarm {
    fn drop(&mut self) {
        if let Some(ringing) = &self.0 {
            ringing.0.lock().take();
        }
    }
}
