//! Exclusive connections for transactions, taken from the pool and given back.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use marmota_model::Result;
use marmota_store::refusal;
use marmota_store::wait::{OwnedPlace, WaitQueue};
use parking_lot::Mutex;

use super::slot::ConnectionSlot;
use crate::fault::closed;

/// The connections of an engine for transactions.
#[derive(Default)]
pub(crate) struct Pool {
    inside: Mutex<Inside>,
    /// The most slots.
    slots_max: usize,
    /// Operations that wait for a slot.
    waiting: Arc<WaitQueue>,
    /// Callers that close the pool and wait for the last slot.
    closing: WaitQueue,
}

#[derive(Default)]
struct Inside {
    free: Vec<Arc<ConnectionSlot>>,
    taken: usize,
    is_closed: bool,
}

impl Inside {
    /// Returns the place of a free slot without exchanges in progress: the last one is still
    /// rolling back.
    fn idle(&self) -> Option<usize> {
        self.free.iter().rposition(|slot| {
            let inside = slot.lock();
            inside.connection.as_ref().is_none_or(|connection| connection.under_way() == 0)
        })
    }
}

impl Pool {
    /// Creates a pool of at most `slots_max` slots, with one slot.
    pub(crate) fn of(slot: ConnectionSlot, slots_max: usize) -> Self {
        let inside = Inside { free: vec![Arc::new(slot)], ..Inside::default() };
        Self { inside: Mutex::new(inside), slots_max, ..Self::default() }
    }

    /// Takes a slot. If all are taken, returns `None`, and `waker` is woken when one is given back,
    /// or at `until`.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Busy`] if that takes too long.
    pub(crate) fn take(
        &self,
        until: Instant,
        place: &mut OwnedPlace,
        waker: &Waker,
    ) -> Result<Option<Arc<ConnectionSlot>>> {
        let mut taken = self.try_take()?;
        if taken.is_none() {
            place.wait_until(&self.waiting, waker, until);
            // One may have been given back before.
            taken = self.try_take()?;
        }
        if taken.is_some() {
            place.leave();
        } else if Instant::now() >= until {
            return Err(refusal::no_connection_for_transaction(self.slots_max));
        }
        Ok(taken)
    }

    fn try_take(&self) -> Result<Option<Arc<ConnectionSlot>>> {
        let mut inside = self.inside.lock();
        if inside.is_closed {
            return Err(closed());
        }
        let total = inside.free.len() + inside.taken;
        let slot = match inside.idle() {
            Some(at) => inside.free.swap_remove(at),
            None if total < self.slots_max => Arc::default(),
            None => match inside.free.pop() {
                Some(slot) => slot,
                None => return Ok(None),
            },
        };
        inside.taken += 1;
        Ok(Some(slot))
    }

    /// Takes a slot without exchanges in progress, or a new one. Returns `None` if neither is
    /// available.
    pub(crate) fn take_free(&self) -> Option<Arc<ConnectionSlot>> {
        let mut inside = self.inside.lock();
        if inside.is_closed {
            return None;
        }
        let slot = match inside.idle() {
            Some(at) => inside.free.swap_remove(at),
            None if inside.free.len() + inside.taken < self.slots_max => Arc::default(),
            None => return None,
        };
        inside.taken += 1;
        Some(slot)
    }

    pub(crate) fn give_back(&self, slot: Arc<ConnectionSlot>) {
        let mut inside = self.inside.lock();
        inside.taken -= 1;
        let is_last = inside.taken == 0;
        if inside.is_closed {
            drop(slot);
        } else {
            inside.free.push(slot);
        }
        drop(inside);
        self.waiting.wake_next();
        if is_last {
            self.closing.wake_all();
        }
    }

    /// Closes the pool when no slot is taken. Returns false if that takes too long.
    pub(crate) fn close(&self, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        let slots = self.closing.block_until(until, || {
            let mut inside = self.inside.lock();
            if inside.taken > 0 {
                return None;
            }
            inside.is_closed = true;
            Some(std::mem::take(&mut inside.free))
        });
        let Some(slots) = slots else { return false };
        self.waiting.wake_all();
        for slot in slots {
            slot.close(until);
        }
        true
    }
}
