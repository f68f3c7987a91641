//! Exclusive connections for transactions, taken from the pool and given back.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::wait::{OwnedPlace, WaitQueue};
use parking_lot::Mutex;

use super::lane::Lane;
use crate::fault::closed;

/// The connections of an engine for transactions.
#[derive(Default)]
pub(crate) struct Pool {
    inside: Mutex<Inside>,
    /// The most lanes.
    lanes_max: usize,
    /// Operations that wait for a lane.
    waiting: Arc<WaitQueue>,
    /// Callers that close the pool and wait for the last lane.
    closing: WaitQueue,
}

#[derive(Default)]
struct Inside {
    free: Vec<Arc<Lane>>,
    taken: usize,
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
    /// Creates a pool of at most `lanes_max` lanes, with one lane.
    pub(crate) fn of(lane: Lane, lanes_max: usize) -> Self {
        let inside = Inside { free: vec![Arc::new(lane)], ..Inside::default() };
        Self { inside: Mutex::new(inside), lanes_max, ..Self::default() }
    }

    /// Takes a lane. If all are taken, returns `None`, and `waker` is woken when one is given back,
    /// or at `until`.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if that takes too long.
    pub(crate) fn take(
        &self,
        until: Instant,
        place: &mut OwnedPlace,
        waker: &Waker,
    ) -> Result<Option<Arc<Lane>>> {
        let mut taken = self.try_take()?;
        if taken.is_none() {
            place.wait_until(&self.waiting, waker, until);
            // One may have been given back before.
            taken = self.try_take()?;
        }
        if taken.is_some() {
            place.leave();
        } else if Instant::now() >= until {
            let message = format!(
                "all {} connections for transactions are taken, and none was given back in time; \
                 try again, or raise connections_max",
                self.lanes_max
            );
            return Err(Error::new(ErrorKind::Busy, message));
        }
        Ok(taken)
    }

    fn try_take(&self) -> Result<Option<Arc<Lane>>> {
        let mut inside = self.inside.lock();
        if inside.is_closed {
            return Err(closed());
        }
        let total = inside.free.len() + inside.taken;
        let lane = match inside.idle() {
            Some(at) => inside.free.swap_remove(at),
            None if total < self.lanes_max => Arc::default(),
            None => match inside.free.pop() {
                Some(lane) => lane,
                None => return Ok(None),
            },
        };
        inside.taken += 1;
        Ok(Some(lane))
    }

    /// Takes a lane without exchanges in progress, or a new one. Returns `None` if neither is
    /// available.
    pub(crate) fn take_free(&self) -> Option<Arc<Lane>> {
        let mut inside = self.inside.lock();
        if inside.is_closed {
            return None;
        }
        let lane = match inside.idle() {
            Some(at) => inside.free.swap_remove(at),
            None if inside.free.len() + inside.taken < self.lanes_max => Arc::default(),
            None => return None,
        };
        inside.taken += 1;
        Some(lane)
    }

    pub(crate) fn give_back(&self, lane: Arc<Lane>) {
        let mut inside = self.inside.lock();
        inside.taken -= 1;
        let is_last = inside.taken == 0;
        if inside.is_closed {
            drop(lane);
        } else {
            inside.free.push(lane);
        }
        drop(inside);
        self.waiting.wake_next();
        if is_last {
            self.closing.wake_all();
        }
    }

    /// Closes the pool when no lane is taken. Returns false if that takes too long.
    pub(crate) fn close(&self, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        let lanes = self.closing.block_until(until, || {
            let mut inside = self.inside.lock();
            if inside.taken > 0 {
                return None;
            }
            inside.is_closed = true;
            Some(std::mem::take(&mut inside.free))
        });
        let Some(lanes) = lanes else { return false };
        self.waiting.wake_all();
        for lane in lanes {
            lane.close(until);
        }
        true
    }
}
