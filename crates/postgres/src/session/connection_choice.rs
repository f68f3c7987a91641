//! Choosing the connection for an operation, and waiting for it.
//!
//! The server executes the statements of one connection in order, and a write may wait for a row
//! that another transaction has locked. On the shared connection for writes it fails after waiting
//! for `SHARED_LOCK_TIMEOUT`, and is sent again on a connection of the pool, where it waits as
//! long as necessary. A write may also take long by itself. So once the shared connection has given
//! no answer for [`STALL`], or a write on it met a lock within that time, further writes of the
//! thread use connections of the pool as well, as long as some are free. Operations sent before a
//! slow write was noticed remain in order after it. The order of concurrent writes is not
//! guaranteed: a write that must follow another is submitted after that was answered, and then sees
//! it from any connection.
//!
//! A read may take long as well, and operations sent after it wait. A list or count that took
//! `LONG` is sent on a connection of the pool the next time, if one is free. While the server
//! executes a long read on the shared connection, other reads use the pool too; those that were
//! sent after it are sent again there.
//!
//! After a write is cancelled, the writes of its connection are reported to the cache, because it
//! may still take effect.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use marmota_model::Result;
use marmota_store::engine::{Ticket, wake_at};
use marmota_store::operation::Operation;

use super::{PostgresSession, Step};
use crate::connection::slot::{ConnectionSlot, STALL, SlotState};
use crate::fault::closed;
use crate::in_flight::{InFlightOperation, SlotUse, may_leave_reader};

/// The time without an answer after which another primary is looked for.
const SILENCE: Duration = Duration::from_secs(1);

impl PostgresSession {
    /// Returns true if the server has executed a write on this thread's shared connection for so
    /// long that other writes should not wait for it.
    pub(super) fn writer_stalls(&mut self) -> bool {
        if self.met_lock.is_some_and(|at| at.elapsed() < STALL) {
            return true;
        }
        self.met_lock = None;
        let mut inside = self.writer.lock();
        inside.connection.as_mut().is_some_and(|connection| connection.stalls(STALL))
    }

    /// Looks for another primary if a shared connection has given no answer for [`SILENCE`]: the
    /// server may not run any more, while its machine keeps the connection.
    pub(super) fn check_primary(&self) {
        for slot in [&self.reader, &self.writer] {
            let mut inside = slot.lock();
            if inside.connection.as_mut().is_some_and(|connection| connection.stalls(SILENCE)) {
                return self.shared.look_for_server();
            }
        }
    }

    /// Returns true if the server has executed a read on this thread's shared connection for so
    /// long that other reads should not wait for it.
    pub(super) fn reader_is_held_up(&self) -> bool {
        let mut inside = self.reader.lock();
        inside.connection.as_mut().is_some_and(|connection| connection.is_held_up(STALL))
    }

    /// Moves an operation to an exclusive connection, if one is free.
    #[cold]
    pub(super) fn leave_shared(&self, running: &mut InFlightOperation) -> bool {
        let Some(slot) = self.shared.pool.take_free() else { return false };
        (running.slot, running.slot_use) = (slot, SlotUse::Exclusive);
        running.shares_sync = false;
        true
    }

    /// Moves a read that follows a long one to an exclusive connection, if one is free; otherwise
    /// sets an alarm for the next try.
    pub(super) fn leave_held_up(
        &self,
        running: &mut InFlightOperation,
        operation: &Operation<'_>,
        inside: &mut SlotState,
    ) -> bool {
        let (_, number) = running.exchange.unwrap_or_default();
        let is_shared =
            !running.writes() && !running.in_transaction && running.slot_use != SlotUse::Exclusive;
        if !is_shared || running.reply.lent > 0 || !may_leave_reader(operation) {
            return false;
        }
        let slot = Arc::clone(&running.slot);
        let Some(connection) = inside.connection.as_mut() else { return false };
        if !connection.waits_after_long(number) {
            return false;
        }
        if connection.is_held_up(STALL)
            && connection.waits_after_long(number)
            && self.leave_shared(running)
        {
            connection.abandon(number);
            running.exchange = None;
            return true;
        }
        inside.wake_again(&slot, STALL);
        false
    }

    /// Takes an exclusive slot. Returns the step to do if none is free.
    pub(super) fn take_slot(&self, running: &mut InFlightOperation, waker: &Waker) -> Option<Step> {
        if running.slot_use != SlotUse::Exclusive {
            match self.shared.pool.take(running.until, &mut running.place, waker) {
                Ok(Some(slot)) => (running.slot, running.slot_use) = (slot, SlotUse::Exclusive),
                Ok(None) => return Some(Step::Wait),
                Err(error) => return Some(Step::Done(Err(error))),
            }
        }
        None
    }

    /// Waits until a connection has no abandoned operations and no pending cancel request:
    /// otherwise they could hit its next owner, undo a part of its transaction, and let the rest be
    /// executed outside of it.
    pub(super) fn wait_for_quiet(
        &self,
        running: &InFlightOperation,
        inside: &SlotState,
        waker: &Waker,
    ) -> Step {
        if Instant::now() >= running.until {
            return Step::Done(Err(inside.too_long(&self.shared.options)));
        }
        // Without an alarm, it checks at its next poll.
        let _ = wake_at(running.until, waker.clone());
        Step::Wait
    }

    pub(super) fn wait_for_connection(
        &self,
        running: &mut InFlightOperation,
        slot: &Arc<ConnectionSlot>,
        inside: &mut SlotState,
        waker: &Waker,
    ) -> Result<()> {
        if inside.is_closed {
            return Err(closed());
        }
        if self.shared.is_replica {
            return Err(inside.connect_later(slot, &self.shared.options));
        }
        if let Some(refused) = inside.refusal() {
            return Err(refused);
        }
        if Instant::now() >= running.until {
            return Err(inside.too_long(&self.shared.options));
        }
        let (until, place) = (running.until, &mut running.place);
        inside.want(slot, &self.shared.options, until, place, waker);
        Ok(())
    }

    pub(super) fn send_step(
        &mut self,
        ticket: Ticket,
        running: &mut InFlightOperation,
        waker: &Waker,
    ) -> Step {
        if running.slot_use == SlotUse::Wanted
            && let Some(step) = self.take_slot(running, waker)
        {
            return step;
        }
        if running.slot_use == SlotUse::Exclusive {
            let slot = Arc::clone(&running.slot);
            let mut inside = slot.lock();
            if inside.working().is_some_and(|connection| !connection.is_quiet(waker)) {
                return self.wait_for_quiet(running, &inside, waker);
            }
        }
        if self.write_down(ticket, running) {
            running.place.leave();
            return Step::GoOn;
        }
        if let Some(open) = &mut self.transaction {
            running.place.wait(&open.waiting, waker);
            return Step::Wait;
        }
        let slot = Arc::clone(&running.slot);
        let mut inside = slot.lock();
        match self.wait_for_connection(running, &slot, &mut inside, waker) {
            Ok(()) => Step::Wait,
            Err(error) => Step::Done(Err(error)),
        }
    }
}
