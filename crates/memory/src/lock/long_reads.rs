//! Long reads: statements of another engine that read a table for longer than their first budget.
//! Their thread holds the table's lock, so a write does not block: it waits with its ticket, as for
//! the end of a transaction.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{RwLock, RwLockWriteGuard};

use crate::lock::transaction_gate::TransactionGate;

/// The time that a write blocks before it checks for long reads again: longer than a turn of a
/// read, so that the write is next after the current ones.
const LOOK: Duration = Duration::from_millis(5);

/// How often a write looks at the lock of another one that is being executed on another processor:
/// for some microseconds.
const SPINS: u32 = 100;
/// The pauses of a write after that: the thread with the lock was preempted, or executes a batch. Who
/// waits in the lock's queue instead has to be woken by a thread that has the lock, with a system call
/// for each write. With more threads than processors this took nine tenths of the rate.
const PAUSES: [Duration; 3] =
    [Duration::from_micros(50), Duration::from_micros(100), Duration::from_micros(200)];

/// The long reads of one table.
#[derive(Default)]
pub(crate) struct LongReads {
    count: AtomicU32,
    /// The gate at which writes wait for their end.
    gate: OnceLock<Arc<TransactionGate>>,
}

/// A long read, which ends when this value is dropped.
pub(crate) struct LongRead(Arc<LongReads>);

impl LongReads {
    /// Sets the gate at which writes wait.
    pub(crate) fn wake_at(&self, gate: &Arc<TransactionGate>) {
        // If it was set before, it is the same one: tables do not change engines.
        let _ = self.gate.set(Arc::clone(gate));
    }

    /// Begins a long read; the caller holds the table's lock.
    pub(crate) fn begin(self: &Arc<Self>) -> LongRead {
        self.count.fetch_add(1, Ordering::SeqCst);
        LongRead(Arc::clone(self))
    }

    /// Locks the table for writing; `None` while there is a long read.
    #[inline]
    pub(crate) fn lock<'r, T>(&self, rows: &'r RwLock<T>) -> Option<RwLockWriteGuard<'r, T>> {
        rows.try_write().or_else(|| self.wait(rows))
    }

    #[cold]
    fn wait<'r, T>(&self, rows: &'r RwLock<T>) -> Option<RwLockWriteGuard<'r, T>> {
        for _ in 0..SPINS {
            std::hint::spin_loop();
            if !rows.is_locked()
                && let Some(guard) = rows.try_write()
            {
                return Some(guard);
            }
        }
        for pause in PAUSES {
            if self.count.load(Ordering::SeqCst) > 0 {
                return None;
            }
            std::thread::sleep(pause);
            if let Some(guard) = rows.try_write() {
                return Some(guard);
            }
        }
        // A read may become long while it holds the lock, also after this wait has begun.
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
