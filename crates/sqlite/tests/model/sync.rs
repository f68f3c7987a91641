//! Loom's locks and atomics under the names of `src/commit/sync.rs`.

use std::ops::{Deref, DerefMut};
use std::task::Waker;
use std::time::{Duration, Instant};

pub(crate) use crate::queue::{QueuePlace, WaitQueue, Wakeable};
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

#[derive(Debug)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

#[derive(Debug)]
pub(crate) struct MutexGuard<'m, T>(loom::sync::MutexGuard<'m, T>);

/// Transactions are not modelled: they hold the same lock, only longer.
pub(crate) struct OwnedGuard<T>(T);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(self.0.lock().unwrap())
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(MutexGuard)
    }

    pub(crate) fn try_lock_for(&self, timeout: Duration) -> Option<MutexGuard<'_, T>> {
        if timeout.is_zero() { self.try_lock() } else { Some(self.lock()) }
    }

    pub(crate) fn try_lock_arc(&self) -> Option<OwnedGuard<T>> {
        None
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Deref for OwnedGuard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for OwnedGuard<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Each look is a step that can come between all others; one does.
pub(crate) const SPINS: usize = 1;

/// Rings at any time from now on; deadlines never come.
pub(crate) fn wake_at(at: Instant, waker: Waker) {
    if at < Instant::now() + Duration::from_secs(60) {
        loom::thread::spawn(move || waker.wake());
    }
}
