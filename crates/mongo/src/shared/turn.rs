//! Serializes writes of several steps.
//!
//! Operations of several steps (checking a referenced row and then referring to it, all-or-nothing
//! writes of rows) are executed by one writer of this engine at a time; on a server that does not
//! write even one document atomically (FerretDB), every write is. Other programs are not excluded;
//! only transactions can do that. An abandoned write continues, and writes that are submitted later
//! wait for its end: so it takes effect before them or not at all.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use marmota_store::wait::{TurnGuard, TurnLock, WaitQueue};
use parking_lot::Mutex;

/// The write order of one engine.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    gate: Arc<TurnLock>,
    numbers: AtomicU64,
    /// The numbers of writes that were abandoned and have not ended.
    abandoned: Mutex<BTreeSet<u64>>,
    ended: WaitQueue,
}

impl Turns {
    /// Returns the number of a newly submitted write.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }

    /// Waits for abandoned writes that were submitted before this number and, if the write has
    /// several steps, for its turn.
    pub(crate) async fn wait(&self, number: u64, alone: bool) -> Option<TurnGuard> {
        let is_first =
            || self.abandoned.lock().first().is_none_or(|first| *first >= number).then_some(());
        // Usually nothing is abandoned.
        if is_first().is_none() {
            self.ended.until(is_first).await;
        }
        match alone {
            true => Some(self.gate.take().await),
            false => None,
        }
    }

    /// Records that a write was abandoned; it continues.
    pub(crate) fn abandon(&self, number: u64) {
        self.abandoned.lock().insert(number);
    }

    /// Records that an abandoned write has ended.
    pub(crate) fn end_abandoned(&self, number: u64) {
        self.abandoned.lock().remove(&number);
        self.ended.wake_all();
    }
}
