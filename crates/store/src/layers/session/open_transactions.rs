//! The open transactions of a store, by the thread that used each last: an operation of the store
//! that waits for a transaction of its own thread gets an error with a hint, since the transaction
//! cannot end meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::layers::thread_slot::thread_mark;

/// The thread that last used each open transaction: the address of a thread-local variable, or 0. A
/// transaction is removed when the next one is added after its end.
#[derive(Default)]
pub(super) struct OpenTransactions(Mutex<Vec<Weak<AtomicUsize>>>);

impl OpenTransactions {
    /// Registers a transaction, which is not open yet.
    pub(super) fn add(&self) -> Arc<AtomicUsize> {
        let user = Arc::new(AtomicUsize::new(0));
        let mut transactions = self.0.lock();
        transactions.retain(|known| known.strong_count() > 0);
        transactions.push(Arc::downgrade(&user));
        user
    }

    /// Returns true if this thread was the last to use a transaction that is still open.
    pub(super) fn has_one_here(&self) -> bool {
        let here = thread_mark();
        let transactions = self.0.lock();
        let mut users = transactions.iter().filter_map(Weak::upgrade);
        users.any(|user| user.load(Ordering::Relaxed) == here)
    }
}
