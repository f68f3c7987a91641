//! A value that is being made by one thread while others wait for it.

use std::cell::OnceCell;

use parking_lot::ReentrantMutex;

/// A place for a value, and the lock that its maker holds. The lock may be
/// taken again by its own thread, so that a maker who asks for the key that it
/// makes does not wait for itself.
pub(super) struct Making<V>(ReentrantMutex<OnceCell<V>>);

impl<V> Default for Making<V> {
    fn default() -> Self {
        Self(ReentrantMutex::new(OnceCell::new()))
    }
}

impl<V: Clone> Making<V> {
    /// A copy of the value, made by `make` if nobody has yet.
    pub(super) fn get_or_try_make<E>(&self, make: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        let made = self.0.lock();
        if let Some(value) = made.get() {
            return Ok(value.clone());
        }
        let value = make()?;
        // If `make` came here again, the value within stands.
        Ok(made.get_or_init(|| value).clone())
    }
}
