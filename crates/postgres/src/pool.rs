//! Exclusive connections for transactions, taken from the pool and given back.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::engine::wake_at;
use parking_lot::{Condvar, Mutex};

use crate::engine::{Shared, closed};
use crate::lane::Lane;

/// The pool of connections.
#[derive(Default)]
pub(crate) struct Pool {
    inside: Mutex<Inside>,
    /// Notified when a lane is given back.
    given_back: Condvar,
}

#[derive(Default)]
struct Inside {
    free: Vec<Arc<Lane>>,
    taken: usize,
    waiting: Vec<Waker>,
    is_closed: bool,
}

impl Inside {
    /// Returns the place of a free lane without exchanges in progress: the last one is still
    /// rolling back.
    fn idle(&self) -> Option<usize> {
        self.free.iter().rposition(|lane| {
            let inside = lane.lock();
            inside.connection.as_ref().is_none_or(|connection| connection.under_way() == 0)
        })
    }
}

impl Pool {
    /// Creates a pool with one lane.
    pub(crate) fn of(lane: Lane) -> Self {
        let inside = Inside { free: vec![Arc::new(lane)], ..Inside::default() };
        Self { inside: Mutex::new(inside), given_back: Condvar::default() }
    }

    /// Takes a lane. If all are taken, returns `None`, and `waker` is woken when that changes.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if that takes too long.
    pub(crate) fn take(
        &self,
        shared: &Shared,
        until: Instant,
        waker: &Waker,
    ) -> Result<Option<Arc<Lane>>> {
        let mut inside = self.inside.lock();
        if inside.is_closed {
            return Err(closed());
        }
        let lanes_max = shared.transactions_max();
        let idle = inside.idle();
        let total = inside.free.len() + inside.taken;
        let lane = match idle {
            Some(at) => inside.free.swap_remove(at),
            None if total < lanes_max => Arc::default(),
            None => match inside.free.pop() {
                Some(lane) => lane,
                None if Instant::now() >= until => {
                    let message = format!(
                        "all {lanes_max} connections for transactions are taken, and none was given \
                         back in time; try again, or raise connections_max"
                    );
                    return Err(Error::new(ErrorKind::Busy, message));
                }
                None => {
                    if !inside.waiting.iter().any(|known| known.will_wake(waker)) {
                        inside.waiting.push(waker.clone());
                        // Without an alarm, it checks at its next poll.
                        let _ = wake_at(until, waker.clone());
                    }
                    return Ok(None);
                }
            },
        };
        inside.taken += 1;
        Ok(Some(lane))
    }

    /// Takes a lane without exchanges in progress, or a new one. Returns `None` if neither is
    /// available.
    pub(crate) fn take_free(&self, shared: &Shared) -> Option<Arc<Lane>> {
        let mut inside = self.inside.lock();
        if inside.is_closed {
            return None;
        }
        let lane = match inside.idle() {
            Some(at) => inside.free.swap_remove(at),
            None if inside.free.len() + inside.taken < shared.transactions_max() => Arc::default(),
            None => return None,
        };
        inside.taken += 1;
        Some(lane)
    }

    pub(crate) fn give_back(&self, lane: Arc<Lane>) {
        let mut inside = self.inside.lock();
        inside.taken -= 1;
        if inside.is_closed {
            drop(lane);
        } else {
            inside.free.push(lane);
        }
        // All of them, since one may have given up.
        inside.waiting.drain(..).for_each(Waker::wake);
        self.given_back.notify_all();
    }

    /// Closes the pool when no lane is taken. Returns false if that takes too long.
    pub(crate) fn close(&self, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        let mut inside = self.inside.lock();
        while inside.taken > 0 {
            if self.given_back.wait_until(&mut inside, until).timed_out() && inside.taken > 0 {
                return false;
            }
        }
        inside.is_closed = true;
        let lanes = std::mem::take(&mut inside.free);
        inside.waiting.drain(..).for_each(Waker::wake);
        drop(inside);
        for lane in lanes {
            let mut inside = lane.lock();
            inside.is_closed = true;
            if let Some(connection) = &mut inside.connection {
                connection.finish(until);
                connection.close();
            }
        }
        true
    }
}
