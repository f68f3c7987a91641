//! Which shared collections this thread holds locked by a closure of its
//! caller. Such a closure that comes back to the same collection would wait
//! for itself for ever; it panics instead, as a `RefCell` does, with what to
//! do. (Two collections locked in both orders by two threads are not seen.)

use std::cell::RefCell;

thread_local! {
    static INSIDE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Ends, also by a panic, with the closure.
pub(crate) struct Inside;

impl Inside {
    /// Notes that a closure runs while `collection` is locked.
    pub(crate) fn enter<T: ?Sized>(collection: &T) -> Self {
        INSIDE.with_borrow_mut(|inside| inside.push(address(collection)));
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // Closures end in the opposite order of their beginning.
        let _ = INSIDE.try_with(|inside| inside.borrow_mut().pop());
    }
}

/// To be called before a lock of `collection` is waited for.
///
/// # Panics
/// If this thread is in a closure that holds one.
pub(crate) fn check<T: ?Sized>(collection: &T) {
    // Threads that are ending run no closures of ours.
    let inside = INSIDE.try_with(|inside| {
        let inside = inside.borrow();
        !inside.is_empty() && inside.contains(&address(collection))
    });
    assert!(
        !inside.unwrap_or(false),
        "a closure under the lock of a shared collection used the same collection; use the value \
         that it was given, or call after it returns"
    );
}

fn address<T: ?Sized>(collection: &T) -> usize {
    std::ptr::from_ref(collection).cast::<()>().addr()
}
