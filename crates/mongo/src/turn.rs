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

use parking_lot::Mutex;
use tokio::sync::{Mutex as Gate, Notify, OwnedMutexGuard};

/// Turns of one engine.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    gate: Arc<Gate<()>>,
    numbers: AtomicU64,
    /// The numbers of writes that nobody waits for any more.
    abandoned: Mutex<BTreeSet<u64>>,
    ended: Notify,
}

impl Turns {
    /// The number of a write that is submitted.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }

    /// Waits for the writes that were submitted before the one of this number
    /// and abandoned, and, if it is of several steps, for its turn.
    pub(crate) async fn wait(&self, number: u64, alone: bool) -> Option<OwnedMutexGuard<()>> {
        loop {
            let ended = self.ended.notified();
            if self.abandoned.lock().first().is_none_or(|first| *first >= number) {
                break;
            }
            ended.await;
        }
        match alone {
            true => Some(Arc::clone(&self.gate).lock_owned().await),
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
        self.ended.notify_waiters();
    }
}
