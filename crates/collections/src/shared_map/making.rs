//! A value that one thread computes while others wait for it.

use std::cell::OnceCell;

use parking_lot::ReentrantMutex;

/// A place for a value, and the lock that the computing thread holds. The lock is reentrant, so
/// that a closure that requests the key that it computes does not wait for itself.
pub(super) struct Making<V>(ReentrantMutex<OnceCell<V>>);

impl<V> Default for Making<V> {
    fn default() -> Self {
        Self(ReentrantMutex::new(OnceCell::new()))
    }
}

impl<V: Clone> Making<V> {
    /// Returns a copy of the value, computed by `make` if it is missing.
    pub(super) fn get_or_try_make<E>(&self, make: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        let made = self.0.lock();
        if let Some(value) = made.get() {
            return Ok(value.clone());
        }
        let value = make()?;
        // If `make` called this function recursively, the inner value is kept.
        Ok(made.get_or_init(|| value).clone())
    }
}
