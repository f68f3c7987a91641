//! The connection that writes, and whose turn it is.
//!
//! SQLite has one writer a file. Whoever holds this lock is it: for one
//! operation ([`Turn`]), or for a transaction ([`LongTurn`]). Threads wait for
//! it blocked, futures by a waker. A writer that groups what waits into one
//! commit would stand here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::task::Waker;
use std::time::Duration;

use parking_lot::{ArcMutexGuard, Mutex, MutexGuard, RawMutex};

use crate::lane::Lane;

/// How often a taken lock is looked at again before an operation waits: about
/// as long as one that needs no disk takes.
const SPINS: usize = 100;

/// The connection that writes; none once the engine is closed.
#[derive(Debug)]
pub(crate) struct Writer {
    lane: Arc<Mutex<Option<Lane>>>,
    waiters: Waiters,
}

/// The right to write for one operation.
#[derive(Debug)]
pub(crate) struct Turn<'w> {
    // An option, so that the lock is free before those who wait are told.
    guard: Option<MutexGuard<'w, Option<Lane>>>,
    waiters: &'w Waiters,
}

/// The right to write for as long as this lives.
pub(crate) struct LongTurn {
    guard: Option<ArcMutexGuard<RawMutex, Option<Lane>>>,
    writer: Arc<Writer>,
}

/// The futures that wait, in the order they came.
#[derive(Debug, Default)]
struct Waiters {
    queue: Mutex<VecDeque<(u64, Waker)>>,
    /// The length of the queue, so that nobody locks it in vain.
    count: AtomicUsize,
}

impl Writer {
    pub(crate) fn new(lane: Lane) -> Self {
        Self { lane: Arc::new(Mutex::new(Some(lane))), waiters: Waiters::default() }
    }

    /// The turn, if it is free or soon becomes so.
    #[inline]
    pub(crate) fn try_turn(&self) -> Option<Turn<'_>> {
        let guard = match self.lane.try_lock() {
            Some(guard) => guard,
            None => spin(|| self.lane.try_lock())?,
        };
        Some(Turn { guard: Some(guard), waiters: &self.waiters })
    }

    /// The turn; `None` if it does not come within that time.
    pub(crate) fn turn_within(&self, timeout: Duration) -> Option<Turn<'_>> {
        let guard = self.lane.try_lock_for(timeout)?;
        Some(Turn { guard: Some(guard), waiters: &self.waiters })
    }

    /// [`Writer::try_turn`] for a transaction.
    pub(crate) fn try_long_turn(self: &Arc<Self>) -> Option<LongTurn> {
        let guard = spin(|| self.lane.try_lock_arc())?;
        Some(LongTurn { guard: Some(guard), writer: Arc::clone(self) })
    }

    /// Has `waker` woken when it is worth trying again. The caller tries once
    /// more after this, for the turn may have become free before.
    pub(crate) fn wait(&self, ticket: u64, waker: &Waker) {
        let mut queue = self.waiters.queue.lock();
        match queue.iter_mut().find(|(waiting, _)| *waiting == ticket) {
            Some((_, known)) => known.clone_from(waker),
            None => queue.push_back((ticket, waker.clone())),
        }
        self.waiters.count.store(queue.len(), Ordering::Relaxed);
        drop(queue);
        // Pairs with the one in `wake_next`: either that one sees the count,
        // or the caller's next try sees the lock free.
        fence(Ordering::SeqCst);
    }

    /// Forgets a waker. If it was woken already, another one is in its place:
    /// the one forgotten will not take the turn.
    pub(crate) fn forget(&self, ticket: u64, may_be_woken: bool) {
        let mut queue = self.waiters.queue.lock();
        let waiting = queue.iter().position(|(waiting, _)| *waiting == ticket);
        match waiting {
            Some(place) => {
                queue.remove(place);
                self.waiters.count.store(queue.len(), Ordering::Relaxed);
            }
            None if may_be_woken => {
                drop(queue);
                self.waiters.wake_next();
            }
            None => {}
        }
    }
}

/// Tries some times, which is cheaper than to sleep and be woken.
fn spin<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    (0..SPINS).find_map(|_| {
        let turn = attempt();
        std::hint::spin_loop();
        turn
    })
}

impl Waiters {
    #[inline]
    fn wake_next(&self) {
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Relaxed) > 0 {
            self.wake_first();
        }
    }

    #[cold]
    fn wake_first(&self) {
        let mut queue = self.queue.lock();
        let first = queue.pop_front();
        self.count.store(queue.len(), Ordering::Relaxed);
        drop(queue);
        if let Some((_, waker)) = first {
            waker.wake();
        }
    }
}

impl Turn<'_> {
    /// The connection, unless the engine is closed.
    #[inline]
    pub(crate) fn lane(&mut self) -> Option<&mut Lane> {
        self.guard.as_mut()?.as_mut()
    }

    /// Takes the connection away for good.
    pub(crate) fn take(&mut self) -> Option<Lane> {
        self.guard.as_mut()?.take()
    }
}

impl Drop for Turn<'_> {
    #[inline]
    fn drop(&mut self) {
        self.guard = None;
        self.waiters.wake_next();
    }
}

impl LongTurn {
    /// See [`Turn::lane`].
    #[inline]
    pub(crate) fn lane(&mut self) -> Option<&mut Lane> {
        self.guard.as_mut()?.as_mut()
    }
}

impl Drop for LongTurn {
    fn drop(&mut self) {
        self.guard = None;
        self.writer.waiters.wake_next();
    }
}
