//! Statements of another engine that read a table for longer than their first
//! budget. Their thread keeps the table's lock, so a write does not wait for it
//! in place: it waits with its ticket, as for the end of a transaction.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{RwLock, RwLockWriteGuard};

use super::gate::Gate;

/// How long a write waits in place before it looks for long reads again: longer
/// than a turn of a read, so that it is the next after those that are there.
const LOOK: Duration = Duration::from_millis(5);

/// The long reads of one table.
#[derive(Default)]
pub(super) struct LongReads {
    count: AtomicU32,
    /// Where writes wait for their end.
    gate: OnceLock<Arc<Gate>>,
}

/// One of them; it ends when this is dropped.
pub(super) struct LongRead(Arc<LongReads>);

impl LongReads {
    /// Sets where writes wait.
    pub(super) fn wake_at(&self, gate: &Arc<Gate>) {
        // The same one if it was set before: tables do not change engines.
        let _ = self.gate.set(Arc::clone(gate));
    }

    /// Begins one; the caller has the table's lock.
    pub(super) fn begin(self: &Arc<Self>) -> LongRead {
        self.count.fetch_add(1, Ordering::SeqCst);
        LongRead(Arc::clone(self))
    }

    /// Locks the table to change it; none while it is read for long.
    #[inline]
    pub(super) fn lock<'r, T>(&self, rows: &'r RwLock<T>) -> Option<RwLockWriteGuard<'r, T>> {
        rows.try_write().or_else(|| self.wait(rows))
    }

    #[cold]
    fn wait<'r, T>(&self, rows: &'r RwLock<T>) -> Option<RwLockWriteGuard<'r, T>> {
        // A read becomes long while it has the lock, perhaps after this began to wait.
        while self.count.load(Ordering::SeqCst) == 0 {
            if let Some(guard) = rows.try_write_for(LOOK) {
                return Some(guard);
            }
        }
        None
    }
}

impl Drop for LongRead {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::SeqCst) == 1
            && let Some(gate) = self.0.gate.get()
        {
            gate.wake();
        }
    }
}
