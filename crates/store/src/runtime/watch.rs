//! The waker for events of a socket through which an engine receives the answers of its futures.
//! What watches the socket is in `watcher.rs`.
//!
//! An engine that waits for a socket uses it in this order, in each poll:
//!
//! 1. [`Watch::look`], then read the socket without blocking;
//! 2. if there is no answer, [`Watch::wake`] with the context's waker, and return `Pending`.
//!
//! An event between the two sets the flag, and `wake` then wakes at once: no event is lost.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Instant;

use parking_lot::Mutex;

/// A socket that can be watched.
pub type Source = Arc<dyn AsFd + Send + Sync>;

/// The callback for incoming bytes, room to write, or the end of the connection.
pub type Happened = Arc<dyn Fn() + Send + Sync>;

/// The waker for events of a socket.
///
/// ```
/// use std::sync::Arc;
/// use std::task::Waker;
/// use marmota_store::engine::Watch;
///
/// let watch = Arc::new(Watch::default());
/// watch.look();
/// watch.wake(Waker::noop());
/// assert!(!watch.has_happened());
/// // What watches the socket wakes the watch.
/// Waker::from(Arc::clone(&watch)).wake();
/// assert!(watch.has_happened());
/// ```
#[derive(Debug, Default)]
pub struct Watch {
    slot: Mutex<Slot>,
}

/// The state of a watch.
#[derive(Debug, Default)]
struct Slot {
    /// The waker for the next event.
    waker: Option<Waker>,
    /// True if an event occurred that no poll has seen yet.
    happened: bool,
    /// The time of the alarm that was set last.
    alarm: Option<Instant>,
}

impl Watch {
    /// Clears the event flag: the caller is about to read the socket.
    pub fn look(&self) {
        self.slot.lock().happened = false;
    }

    /// Sets the waker for the next event; it is woken at once if an event occurred since the last
    /// [`Self::look`].
    pub fn wake(&self, waker: &Waker) {
        let mut slot = self.slot.lock();
        // The flag stays set until the next `look`; a caller that finds it cleared does not read.
        if slot.happened {
            waker.wake_by_ref();
        }
        match &mut slot.waker {
            Some(kept) => kept.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Sets the alarm of the waiting task. Returns false if it has one that comes early enough: a
    /// task that is woken too early sets the alarm again, so one alarm serves many waits.
    pub(super) fn set_alarm(&self, at: Instant) -> bool {
        let mut slot = self.slot.lock();
        if slot.alarm.is_some_and(|alarm| alarm <= at && alarm > Instant::now()) {
            return false;
        }
        slot.alarm = Some(at);
        true
    }

    /// Returns true if an event occurred since the last [`Self::look`].
    pub fn has_happened(&self) -> bool {
        self.slot.lock().happened
    }

    /// Records an event.
    pub(super) fn happened(&self) {
        let mut slot = self.slot.lock();
        slot.happened = true;
        let waker = slot.waker.take();
        drop(slot);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Wake for Watch {
    fn wake(self: Arc<Self>) {
        self.happened();
    }
}
