//! The transaction lock of an engine, and the queue of those who wait for the end of a transaction.
//!
//! One transaction at a time is open in an engine. It owns the tables that it has used until it
//! ends ([`crate::table::table_rows::TableRows::owner`]). Writes of other sessions to them wait, so
//! that the data it has read stays unchanged. Reads of tables that it has changed wait as well, so
//! that no session sees changes that may still be undone. A waiting operation holds no locks, so
//! there is no deadlock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use marmota_model::Error;

use marmota_store::refusal::table_kept;
use marmota_store::wait::{QueuePlace, WaitQueue};

/// The maximum wait for the end of a transaction.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(5);

/// The holder's number when the engine itself takes the gate.
pub(crate) const ENGINE: u64 = u64::MAX;

/// The engine's transaction lock.
#[derive(Default)]
pub(crate) struct TransactionGate {
    /// The session whose transaction is open, or 0.
    holder: AtomicU64,
    /// The number of callers that take the gate next, before any session.
    pressing: AtomicUsize,
    /// The callers that wait until the gate opens.
    waiters: Arc<WaitQueue>,
}

impl TransactionGate {
    /// Takes the gate for a session, unless another holds it.
    pub(crate) fn try_take(&self, session: u64) -> bool {
        if session != ENGINE && self.pressing.load(Ordering::Relaxed) > 0 {
            return false;
        }
        self.holder.compare_exchange(0, session, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Opens the gate and wakes all waiters, since they may wait for different tables.
    pub(crate) fn open(&self) {
        self.holder.store(0, Ordering::Release);
        self.wake();
    }

    /// Wakes all waiters.
    pub(crate) fn wake(&self) {
        self.waiters.wake_all();
    }

    /// Registers a waiter, which is woken when the gate opens next, and at its deadline. The caller
    /// has to try again afterwards, since the gate may have opened just before.
    pub(crate) fn register(&self, place: &mut QueuePlace, waker: &Waker, until: Option<Instant>) {
        match until {
            Some(until) => self.waiters.wait_until(place, waker, until),
            None => self.waiters.wait(place, waker),
        }
    }

    /// Removes a waiter.
    pub(crate) fn forget(&self, place: &mut QueuePlace) {
        self.waiters.leave(place);
    }

    /// [`TransactionGate::wait`], during which no other transaction begins: `attempt` gets its turn
    /// even if the sessions are busy.
    ///
    /// # Errors
    /// Those of [`TransactionGate::wait`].
    pub(crate) fn press<T>(
        &self,
        mut attempt: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        struct Pressing<'g>(&'g TransactionGate);
        impl Drop for Pressing<'_> {
            fn drop(&mut self) {
                self.0.pressing.fetch_sub(1, Ordering::Relaxed);
                self.0.waiters.wake_all();
            }
        }
        self.pressing.fetch_add(1, Ordering::Relaxed);
        let _pressing = Pressing(self);
        self.wait(&mut attempt)
    }

    /// Calls `attempt` each time that the gate opens, until it succeeds.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Busy`] after five seconds.
    pub(crate) fn wait<T, E: From<Error>>(
        &self,
        mut attempt: impl FnMut() -> Result<Option<T>, E>,
    ) -> Result<T, E> {
        let until = Instant::now() + WAIT_MAX;
        let done = self.waiters.block_until(until, || attempt().transpose());
        done.unwrap_or_else(|| Err(table_kept(WAIT_MAX).into()))
    }
}
