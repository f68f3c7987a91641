//! Loom's locks and atomics under the names of `src/sync.rs`.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

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

    pub(crate) fn try_lock_for(&self, _: Duration) -> Option<MutexGuard<'_, T>> {
        Some(self.lock())
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
