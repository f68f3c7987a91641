//! Who may have a transaction open, and who waits for its end.
//!
//! One transaction at a time is open in an engine. The tables that it has used
//! are its own until it ends ([`super::table_rows::TableRows::owner`]):
//! everybody else's writes to them wait, so that what it has read stays true;
//! where it has changed them reads wait too, so that nobody sees what may yet
//! be undone. Whoever waits holds nothing, so there is no deadlock.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use marmota_model::Error;

use marmota_store::refusal::table_kept;
use marmota_store::wait::{QueuePlace, WaitQueue};

/// How long anybody waits for the end of a transaction.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(5);

/// Who takes the gate for the engine itself.
pub(super) const ENGINE: u64 = u64::MAX;

/// The engine's transaction lock.
#[derive(Default)]
pub(super) struct Gate {
    /// The session whose transaction is open, or 0.
    holder: AtomicU64,
    /// How many wait to have it next, before any session.
    pressing: AtomicUsize,
    /// Those that wait for it to open.
    waiters: WaitQueue,
}

impl Gate {
    /// Takes the gate for a session, unless another has it.
    pub(super) fn try_take(&self, session: u64) -> bool {
        if session != ENGINE && self.pressing.load(Ordering::Relaxed) > 0 {
            return false;
        }
        self.holder.compare_exchange(0, session, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Opens the gate and wakes all who wait: they may wait for different tables.
    pub(super) fn open(&self) {
        self.holder.store(0, Ordering::Release);
        self.wake();
    }

    /// Wakes all who wait.
    pub(super) fn wake(&self) {
        self.waiters.wake_all();
    }

    /// Has a waiter woken when the gate opens next. Whatever it waits for
    /// has to be tried again after this, lest it came to be just before.
    pub(super) fn register(&self, place: &mut QueuePlace, waker: &Waker) {
        self.waiters.wait(place, waker);
    }

    /// Forgets a waiter.
    pub(super) fn forget(&self, place: &mut QueuePlace) {
        self.waiters.leave(place);
    }

    /// [`Gate::wait`], while no other transaction begins: `attempt` comes to
    /// its turn however busy the sessions are.
    ///
    /// # Errors
    /// As [`Gate::wait`].
    pub(super) fn press<T>(
        &self,
        mut attempt: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        struct Pressing<'g>(&'g Gate);
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

    /// Tries until it succeeds, each time that the gate opens.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Busy`] after five seconds.
    pub(super) fn wait<T, E: From<Error>>(
        &self,
        mut attempt: impl FnMut() -> Result<Option<T>, E>,
    ) -> Result<T, E> {
        let until = Instant::now() + WAIT_MAX;
        let done = self.waiters.block_until(until, || attempt().transpose());
        done.unwrap_or_else(|| Err(table_kept(WAIT_MAX).into()))
    }
}
