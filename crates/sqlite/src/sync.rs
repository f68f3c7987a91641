//! The locks, atomics and alarms of `group.rs` and `writer.rs`, by one name: the
//! model check (`tests/model`) includes those files with others in their place.

use std::task::Waker;
use std::time::Instant;

pub(crate) use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use marmota_store::wait::{QueuePlace, WaitQueue, Wakeable};
pub(crate) use parking_lot::{Mutex, MutexGuard};

/// A lock held without a borrow.
pub(crate) type OwnedGuard<T> = parking_lot::ArcMutexGuard<parking_lot::RawMutex, T>;

/// How often a taken lock is looked at again before an operation waits: about
/// as long as one that needs no disk takes.
pub(crate) const SPINS: usize = 100;

/// Wakes at this time.
pub(crate) fn wake_at(at: Instant, waker: Waker) {
    #[cfg(target_os = "linux")]
    if marmota_store::engine::wake_at(at, waker.clone()) {
        return;
    }
    let alarm = waker.clone();
    let sleep = move || {
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        alarm.wake();
    };
    if std::thread::Builder::new().spawn(sleep).is_err() {
        waker.wake();
    }
}
