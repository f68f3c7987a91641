//! Detects that an operation of the store waits for a transaction of its own thread, which cannot
//! end meanwhile, for a hint in the error.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use marmota_model::{Error, ErrorKind};

use super::shared::Shared;
use super::thread_slot::thread_mark;
use super::{Place, Scope};

impl Shared {
    /// Registers a transaction, which is not open yet.
    pub(super) fn add_transaction(&self) -> Arc<AtomicUsize> {
        let user = Arc::new(AtomicUsize::new(0));
        let mut transactions = self.transactions.lock();
        transactions.retain(|known| known.strong_count() > 0);
        transactions.push(Arc::downgrade(&user));
        user
    }

    /// Returns true if this thread was the last to use a transaction that is still open.
    fn has_transaction_here(&self) -> bool {
        let here = thread_mark();
        let transactions = self.transactions.lock();
        let mut users = transactions.iter().filter_map(Weak::upgrade);
        users.any(|user| user.load(Ordering::Relaxed) == here)
    }
}

impl Scope {
    /// Returns the error of an operation that waited too long, with an explanation if it waited for
    /// its own thread.
    #[cold]
    pub(super) fn explained(&self, error: Error) -> Error {
        let waited = error.kind() == ErrorKind::Busy && matches!(self.place, Place::Threads);
        if !waited || !self.shared.has_transaction_here() {
            return error;
        }
        let message = format!(
            "{}. This thread has a transaction of this store open: inside of it, call the verbs \
             on the transaction (`transaction.insert(…)`), not on the store",
            error.message()
        );
        Error::new(ErrorKind::Busy, message).with_source(error)
    }
}
