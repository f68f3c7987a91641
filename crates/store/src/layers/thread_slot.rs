//! The number of a thread's slot, by which its session is found, and the memory in which it counts.
//!
//! Threads get numbers in the order of their first operation. If there are more threads than slots,
//! some share one: they are correct, but wait for each other.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum number of sessions that a store opens, without those of transactions.
pub(super) const SLOTS: usize = 64;

thread_local! {
    /// This thread's slot number plus one, or 0 before its first operation.
    static SLOT: Cell<usize> = const { Cell::new(0) };
}

/// Returns the number of this thread's slot.
#[inline]
pub(super) fn slot_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    SLOT.with(|slot| {
        if slot.get() == 0 {
            slot.set(1 + NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS);
        }
        slot.get() - 1
    })
}

/// Returns a number that identifies this thread among all existing ones, and is not 0.
#[inline]
pub(super) fn thread_mark() -> usize {
    SLOT.with(|slot| std::ptr::from_ref(slot) as usize)
}
