//! The lowest layer: the sessions of the engine, which execute operations.
//!
//! A store without other layers calls [`Sessions::submit_to`] directly, and needs no state of other
//! layers while an operation waits.

mod lending;
mod open_transactions;
pub(super) mod pool;
pub(crate) mod read_samples;

use std::task::{Context, Poll};

use marmota_model::{Result, RowSink};

use self::pool::note_end;
pub(crate) use self::pool::{Sessions, SharedSnapshot};
use crate::contract::durability::Durability;
use crate::contract::engine::{Submitted, Ticket};
use crate::contract::operation::{Operation, Outcome};
use crate::layers::handle::HandleContext;
use crate::layers::layer::Layer;
use crate::layers::thread_slot::slot_number;

/// An operation that waits in a session: the slot of the session, and the ticket that the session
/// gave. The operation may be polled by another thread, but is polled in the session that has it.
#[derive(Debug)]
pub(crate) struct SessionState {
    slot: usize,
    ticket: Ticket,
}

impl Default for SessionState {
    /// Returns the state of an operation that does not wait; it is not read.
    #[inline]
    fn default() -> Self {
        Self { slot: 0, ticket: Ticket(0) }
    }
}

impl SessionState {
    /// The state of an operation that was submitted on this thread.
    #[inline]
    pub(crate) fn here(ticket: Ticket) -> Self {
        Self { slot: slot_number(), ticket }
    }
}

impl Layer for Sessions {
    type State = SessionState;

    /// Submits an operation to the session of the handle's transaction, or of the calling thread.
    #[inline]
    fn submit(
        &self,
        handle: &HandleContext,
        state: &mut SessionState,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Poll<Result<()>> {
        let submitted = match (self.records_changes, handle.replica) {
            (_, Some(replica)) => self.submit_read(handle, replica, operation, sink, outcome)?,
            (false, None) => self.submit_to(&handle.place, durability, operation, sink, outcome)?,
            (true, None) => self.submit_as(handle, durability, operation, sink, outcome)?,
        };
        match submitted {
            Submitted::Done => Poll::Ready(Ok(())),
            Submitted::Waiting(ticket) => {
                *state = SessionState::here(ticket);
                Poll::Pending
            }
        }
    }

    /// Continues an operation in the session that it waits in. An operation that fails because it
    /// waited for a transaction of its own thread gets an error with a hint.
    fn poll(
        &self,
        handle: &HandleContext,
        state: &mut SessionState,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let place = &handle.place;
        let polled = self.with_session(place, state.slot, false, |session| {
            if self.records_changes {
                session.set_actor(handle.actor.as_ref());
            }
            let polled = session.poll(state.ticket, operation, sink, outcome, context);
            if let Poll::Ready(done) = &polled {
                note_end(place, operation, done.is_ok());
            }
            Ok(polled)
        });
        match polled {
            Ok(Poll::Ready(Err(error))) | Err(error) => {
                Poll::Ready(Err(self.explained(place, error)))
            }
            Ok(polled) => polled,
        }
    }

    /// Cancels an operation in the session that it waits in. A closed store has nothing to cancel.
    fn cancel(&self, handle: &HandleContext, state: SessionState) {
        // A closed store has no operations left to cancel.
        let _ = self.with_session(&handle.place, state.slot, false, |session| {
            session.cancel(state.ticket);
            Ok(())
        });
    }

    #[inline]
    fn sessions(&self) -> &Sessions {
        self
    }
}
