//! Loom's locks and atomics under the names of `src/runtime/wait/sync.rs`.

pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering, fence};

#[derive(Debug)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}
