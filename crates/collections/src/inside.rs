//! The shared collections that this thread holds locked while a closure of the caller runs. If such
//! a closure uses the same collection, it would deadlock with itself; it panics instead, as a
//! `RefCell` does, with a message that explains how to avoid it. (Two threads that lock two
//! collections in opposite orders are not detected.)

use std::cell::RefCell;

thread_local! {
    static INSIDE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// A guard for the time that a closure runs; dropped also on a panic.
pub(crate) struct Inside;

impl Inside {
    /// Records that a closure runs while `collection` is locked.
    pub(crate) fn enter<T: ?Sized>(collection: &T) -> Self {
        INSIDE.with_borrow_mut(|inside| inside.push(address(collection)));
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // Closures end in the reverse order of their start.
        let _ = INSIDE.try_with(|inside| inside.borrow_mut().pop());
    }
}

/// Checks for self-deadlock. Must be called before waiting for a lock of `collection`.
///
/// # Panics
/// If this thread runs a closure that holds such a lock.
pub(crate) fn check<T: ?Sized>(collection: &T) {
    // A thread that is ending does not run closures of callers.
    let inside = INSIDE.try_with(|inside| {
        let inside = inside.borrow();
        !inside.is_empty() && inside.contains(&address(collection))
    });
    assert!(
        !inside.unwrap_or(false),
        "a closure under the lock of a shared collection used the same collection; use the value \
         that was passed to the closure, or call after the closure returns"
    );
}

fn address<T: ?Sized>(collection: &T) -> usize {
    std::ptr::from_ref(collection).cast::<()>().addr()
}
