//! Whose turn it is to write.
//!
//! What takes several steps (a reference looked up and then referred to, rows
//! written all or none) is done by one writer of this engine at a time; and on
//! a server that does not even write one document as one step (FerretDB), each
//! write is. Other programs are held off by neither: for that, a server has
//! transactions. An abandoned write goes on, and those that are submitted
//! later wait for its end: so it takes place before them, or not at all.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use marmota_store::wait::{TurnGuard, TurnLock, WaitQueue};
use parking_lot::Mutex;

/// Turns of one engine.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    gate: Arc<TurnLock>,
    numbers: AtomicU64,
    /// The numbers of writes that nobody waits for any more.
    abandoned: Mutex<BTreeSet<u64>>,
    ended: WaitQueue,
}

impl Turns {
    /// The number of a write that is submitted.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }

    /// Waits for the writes that were submitted before the one of this number
    /// and abandoned, and, if it is of several steps, for its turn.
    pub(crate) async fn wait(&self, number: u64, alone: bool) -> Option<TurnGuard> {
        let is_first =
            || self.abandoned.lock().first().is_none_or(|first| *first >= number).then_some(());
        // Most of the time nothing is abandoned.
        if is_first().is_none() {
            self.ended.until(is_first).await;
        }
        match alone {
            true => Some(self.gate.take().await),
            false => None,
        }
    }

    /// Nobody waits for a write any more, which goes on.
    pub(crate) fn abandon(&self, number: u64) {
        self.abandoned.lock().insert(number);
    }

    /// An abandoned write has ended.
    pub(crate) fn end_abandoned(&self, number: u64) {
        self.abandoned.lock().remove(&number);
        self.ended.wake_all();
    }
}
