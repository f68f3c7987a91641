//! The locks, atomics and alarms of `group_commit.rs` and `write_lock.rs`, under one name: the
//! model check (`tests/model`) includes those files with replacements.

use std::task::Waker;
use std::time::Instant;

pub(crate) use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use marmota_store::wait::{QueuePlace, WaitQueue, Wakeable};
pub(crate) use parking_lot::{Mutex, MutexGuard};

/// A lock guard without a borrow.
pub(crate) type OwnedGuard<T> = parking_lot::ArcMutexGuard<parking_lot::RawMutex, T>;

/// The number of tries for a taken lock before an operation waits: about the duration of an
/// operation that does not need the disk.
pub(crate) const SPINS: usize = 100;

/// Wakes `waker` at this time.
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
