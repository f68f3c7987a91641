//! Reads of a file that another process has locked, for example while it recovers the log of a
//! killed program: they are retried, and no thread waits for that.

use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use marmota_model::{Result, RowSink};
use marmota_store::backoff::Backoff;
use marmota_store::engine::Ticket;
use marmota_store::operation::{Operation, Outcome};
use marmota_store::refusal;
use marmota_store::wait::QueuePlace;

use super::{Attempt, SqliteSession};
use crate::commit::sync::wake_at;
use crate::session::wait::Wait;

/// The first pause before the file is read again, and the longest.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(20);

impl SqliteSession {
    /// Returns the wait of a read that a lock prevented.
    #[cold]
    pub(super) fn locked(&self) -> Wait {
        Wait::Read { until: self.until(), backoff: Backoff::new(PAUSE, PAUSE_MAX) }
    }

    /// Polls a read that is retried.
    #[cold]
    pub(super) fn poll_locked(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        waker: &Waker,
    ) -> Poll<Result<()>> {
        let attempt = self.attempt(None, operation, sink, outcome);
        let Some(Wait::Read { until, backoff }) = self.waiting.get_mut(ticket) else {
            return Poll::Ready(Err(refusal::not_waiting()));
        };
        match attempt {
            Attempt::Locked if Instant::now() < *until => {
                wake_at(*until.min(&mut (Instant::now() + backoff.pause())), waker.clone());
                Poll::Pending
            }
            Attempt::Locked => {
                self.forget(ticket);
                Poll::Ready(Err(self.shared.locked_by_other()))
            }
            Attempt::Done(result) => {
                self.forget(ticket);
                Poll::Ready(result)
            }
            Attempt::Offloaded(offloaded) => {
                self.waiting.put(ticket, Wait::Offloaded(offloaded, 0));
                self.poll_offloaded(ticket, operation, sink, outcome, waker)
            }
            // A transaction was begun on this session meanwhile.
            Attempt::Away => {
                self.waiting.put(ticket, Wait::Away { durability: None });
                self.poll_away(ticket, operation, sink, outcome, waker)
            }
            Attempt::Member(member) => {
                self.waiting.put(ticket, Self::member(member));
                self.poll_member(ticket, outcome, waker)
            }
            Attempt::Wait => {
                let (until, place) = (*until, QueuePlace::default());
                self.waiting.put(ticket, Wait::Turn { until, place, durability: None });
                self.poll_turn(ticket, operation, sink, outcome, waker)
            }
        }
    }
}
