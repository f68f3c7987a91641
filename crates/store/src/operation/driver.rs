//! Drives a batch on a session that may have to wait, from poll to poll: what
//! engines use whose batches are several exchanges with a server.

use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use marmota_model::{Error, NoRows, Result, RowSink};

use super::machine::{BatchMachine, BatchParts, BatchStep};
use super::{Operation, Outcome};
use crate::durability::Durability;
use crate::engine::{Session, Submitted, Ticket};

/// The savepoint around a batch in a transaction. No other is called so.
const SAVEPOINT: u32 = u32::MAX - 1;

/// A batch under way on a session: in a transaction of its own, or in the one
/// that is open there, of which only the batch is undone if it fails.
///
/// Nothing else may be carried out on the session's transaction meanwhile: it
/// would be undone with the batch.
#[derive(Debug)]
pub struct BatchDriver {
    machine: BatchMachine,
    stage: Stage,
    /// The operation that the session waits with.
    ticket: Option<Ticket>,
    outcome: Outcome,
    durability: Option<Durability>,
    is_nested: bool,
}

#[derive(Debug)]
enum Stage {
    Begin,
    Batch,
    /// The end of a batch that went well.
    Keep,
    Undo(Error),
    /// The end of the savepoint that was undone.
    Release(Error),
    Pause(Instant),
}

impl BatchDriver {
    /// A batch that has a transaction of its own; `is_nested` if it is in the one
    /// that is open on the session.
    #[must_use]
    pub fn new(durability: Option<Durability>, is_nested: bool) -> Self {
        Self {
            machine: BatchMachine::default(),
            stage: Stage::Begin,
            ticket: None,
            outcome: Outcome::default(),
            durability,
            is_nested,
        }
    }

    /// Continues as far as that is possible. The session and the batch are the
    /// same each time. `retry` says after which pause a batch is begun again that
    /// failed in a transaction of its own; none to let it fail.
    pub fn poll(
        &mut self,
        session: &mut dyn Session,
        parts: &mut BatchParts<'_, '_>,
        retry: &mut dyn FnMut(&Error) -> Option<Duration>,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        loop {
            match &mut self.stage {
                Stage::Begin => {
                    let operation = if self.is_nested {
                        Operation::Savepoint(SAVEPOINT)
                    } else {
                        Operation::Begin
                    };
                    if let Err(error) = ready!(self.control(session, operation, context)) {
                        ready!(self.after_undo(error, retry, context))?;
                        continue;
                    }
                    let step = self.machine.begin(parts);
                    self.follow(step);
                }
                Stage::Batch => {
                    let came = ready!(self.step(session, parts, context));
                    let step = self.machine.advance(parts, came);
                    self.follow(step);
                }
                Stage::Keep => {
                    let operation = if self.is_nested {
                        Operation::Release(SAVEPOINT)
                    } else {
                        Operation::Commit
                    };
                    match ready!(self.control(session, operation, context)) {
                        Ok(()) => return Poll::Ready(Ok(())),
                        Err(error) if self.is_nested => return Poll::Ready(Err(error)),
                        Err(error) => self.stage = Stage::Undo(error),
                    }
                }
                Stage::Undo(_) if self.is_nested => {
                    ready!(self.control(session, Operation::RollbackTo(SAVEPOINT), context))?;
                    if let Stage::Undo(error) = std::mem::replace(&mut self.stage, Stage::Batch) {
                        self.stage = Stage::Release(error);
                    }
                }
                Stage::Undo(_) => {
                    // The error says more than that what failed could not be undone:
                    // a transaction that was lost is gone already.
                    let _ = ready!(self.control(session, Operation::Rollback, context));
                    if let Stage::Undo(error) = std::mem::replace(&mut self.stage, Stage::Begin) {
                        ready!(self.after_undo(error, retry, context))?;
                    }
                }
                Stage::Release(_) => {
                    ready!(self.control(session, Operation::Release(SAVEPOINT), context))?;
                    if let Stage::Release(error) = std::mem::replace(&mut self.stage, Stage::Begin)
                    {
                        return Poll::Ready(Err(error));
                    }
                }
                Stage::Pause(until) => {
                    if Instant::now() < *until {
                        wake_at(*until, context);
                        return Poll::Pending;
                    }
                    self.stage = Stage::Begin;
                }
            }
        }
    }

    /// Gives up what the session waits with. The transaction is then to be undone.
    pub fn cancel(&mut self, session: &mut dyn Session) {
        if let Some(ticket) = self.ticket.take() {
            session.cancel(ticket);
        }
    }

    fn follow(&mut self, step: BatchStep) {
        self.stage = match step {
            BatchStep::Next => Stage::Batch,
            BatchStep::Done(Ok(())) => Stage::Keep,
            BatchStep::Done(Err(error)) => Stage::Undo(error),
        };
    }

    /// What follows when a try came to nothing: another one, or the error.
    fn after_undo(
        &mut self,
        error: Error,
        retry: &mut dyn FnMut(&Error) -> Option<Duration>,
        context: &Context<'_>,
    ) -> Poll<Result<()>> {
        let pause = if self.is_nested { None } else { retry(&error) };
        let Some(pause) = pause else { return Poll::Ready(Err(error)) };
        self.stage = Stage::Begin;
        if !pause.is_zero() {
            let until = Instant::now() + pause;
            self.stage = Stage::Pause(until);
            wake_at(until, context);
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    /// The operation of the machine whose turn it is.
    fn step(
        &mut self,
        session: &mut dyn Session,
        parts: &BatchParts<'_, '_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Outcome>> {
        let Self { machine, ticket, outcome, durability, .. } = self;
        let carried_out = machine.with_current(parts.writes, |operation, sink| {
            Ok(drive(session, *durability, (ticket, outcome), operation, sink, context))
        });
        carried_out.unwrap_or_else(|error| Poll::Ready(Err(error)))
    }

    fn control(
        &mut self,
        session: &mut dyn Session,
        mut operation: Operation<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let waits = (&mut self.ticket, &mut self.outcome);
        drive(session, self.durability, waits, &mut operation, &mut NoRows, context).map_ok(|_| ())
    }
}

/// Submits an operation, or goes on with it.
fn drive(
    session: &mut dyn Session,
    durability: Option<Durability>,
    (waits, outcome): (&mut Option<Ticket>, &mut Outcome),
    operation: &mut Operation<'_>,
    sink: &mut dyn RowSink,
    context: &mut Context<'_>,
) -> Poll<Result<Outcome>> {
    let ticket = match *waits {
        Some(ticket) => ticket,
        None => {
            *outcome = Outcome::default();
            match session.submit(durability, operation, sink, outcome)? {
                Submitted::Done => return Poll::Ready(Ok(std::mem::take(outcome))),
                Submitted::Waiting(ticket) => *waits.insert(ticket),
            }
        }
    };
    let done = ready!(session.poll(ticket, operation, sink, outcome, context));
    *waits = None;
    Poll::Ready(done.map(|()| std::mem::take(outcome)))
}

fn wake_at(until: Instant, context: &Context<'_>) {
    #[cfg(target_os = "linux")]
    if crate::engine::wake_at(until, context.waker().clone()) {
        return;
    }
    // No thread for it: it is polled again until the time has come.
    let _ = until;
    context.waker().wake_by_ref();
}
