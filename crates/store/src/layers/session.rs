//! The lowest layer: the sessions of the engine, which execute operations.

mod lending;
mod open_transactions;
pub(super) mod pool;

use std::task::{Context, Poll};

use marmota_model::{Result, RowSink};

pub(crate) use self::pool::Sessions;
use self::pool::note_end;
use crate::contract::durability::Durability;
use crate::contract::engine::{Submitted, Ticket};
use crate::contract::operation::{Operation, Outcome};
use crate::layers::handle::HandleContext;
use crate::layers::layer::Layer;
use crate::layers::thread_slot::slot_number;

/// An operation that waits in a session.
#[derive(Debug)]
pub(crate) struct SessionState {
    slot: usize,
    ticket: Ticket,
}

impl Default for SessionState {
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
        match self.submit_to(&handle.place, durability, operation, sink, outcome)? {
            Submitted::Done => Poll::Ready(Ok(())),
            Submitted::Waiting(ticket) => {
                *state = SessionState::here(ticket);
                Poll::Pending
            }
        }
    }

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
