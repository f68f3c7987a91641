//! Drives a batch from poll to poll on a session that may have to wait. Engines use it whose
//! batches take several round trips to a server.
//!
//! ```text
//!  Begin ─> Batch ─> Keep ─> done           Begin: BEGIN, or a savepoint in an open transaction
//!    ^        │        │                    Keep:  COMMIT, or RELEASE
//!    │        v        v
//!    │      Undo <─────┘                    Undo:  ROLLBACK, or ROLLBACK TO and RELEASE
//!    │        │
//!    └─ Pause ┘ if `retry` permits          only with a separate transaction
//! ```
//!
//! An engine keeps the driver in the waiting operation, and polls it from [`Session::poll`].

use std::num::NonZeroU64;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use marmota_model::{Error, NoRows, Result, RowSink};

use super::machine::{BatchMachine, BatchParts, BatchStep};
use crate::contract::durability::Durability;
use crate::contract::engine::{Session, Submitted, Ticket};
use crate::contract::operation::{Operation, Outcome};

/// The savepoint around a batch in a transaction. No other has this number.
const SAVEPOINT: u32 = u32::MAX - 1;

/// A batch in progress on a session: in a separate transaction, or in the one that is open there,
/// of which only the batch is undone if it fails.
///
/// No other operation may be executed in the session's transaction meanwhile: it would be undone
/// with the batch.
///
/// ```no_run
/// use std::task::{Context, Poll};
/// use marmota_model::{Error, ErrorKind, Result};
/// use marmota_store::engine::Session;
/// use marmota_store::operation::{BatchDriver, BatchParts, Operation};
///
/// /// Polls the batch of an operation on the session of a connection.
/// fn poll_batch(
///     driver: &mut BatchDriver,
///     connection: &mut dyn Session,
///     operation: &mut Operation<'_>,
///     context: &mut Context<'_>,
/// ) -> Poll<Result<()>> {
///     let Some(mut parts) = BatchParts::of(operation) else {
///         return Poll::Ready(Err(Error::new(ErrorKind::Bug, "not a batch")));
///     };
///     // A transaction that lost against another one is begun again at once.
///     let mut retry = |error: &Error| error.is_retryable().then_some(std::time::Duration::ZERO);
///     driver.poll(connection, &mut parts, &mut retry, context)
/// }
/// ```
#[derive(Debug)]
pub struct BatchDriver {
    /// The steps of the batch.
    machine: BatchMachine,
    stage: Stage,
    /// The ticket of the operation that waits in the session.
    ticket: Option<Ticket>,
    /// Receives the outcome of the current operation.
    outcome: Outcome,
    /// The number of the commit in the change feed.
    commit: Option<NonZeroU64>,
    durability: Option<Durability>,
    /// True in a transaction of the caller.
    is_nested: bool,
}

/// The stage of a batch; see the module's documentation.
#[derive(Debug)]
enum Stage {
    /// The transaction or the savepoint begins.
    Begin,
    /// An operation of the batch is executed.
    Batch,
    /// A hook is in progress.
    Hook,
    /// The end of a batch that succeeded.
    Keep,
    /// The batch has failed with this error, and is rolled back.
    Undo(Error),
    /// The end of the savepoint that was rolled back.
    Release(Error),
    /// The time at which the batch begins again.
    Pause(Instant),
}

impl BatchDriver {
    /// Creates the driver of a batch with a separate transaction, or, if `is_nested`, of one in the
    /// transaction that is open on the session.
    #[must_use]
    pub fn new(durability: Option<Durability>, is_nested: bool) -> Self {
        Self {
            machine: BatchMachine::default(),
            stage: Stage::Begin,
            ticket: None,
            outcome: Outcome::default(),
            commit: None,
            durability,
            is_nested,
        }
    }

    /// Continues until it has to wait. The session and the batch are the same at each call. `retry`
    /// returns the pause before a batch that failed in a separate transaction is begun again;
    /// `None` to report the error.
    ///
    /// After `Ready` the transaction has ended, or the savepoint was released, and the driver must
    /// not be polled again.
    ///
    /// # Errors
    /// Those of the batch; of a rollback or a release that failed, if it is nested.
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
                Stage::Hook => {
                    let step = ready!(self.machine.poll_hook(parts, context));
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
                    // The batch's error is more useful than a failed rollback: a transaction that
                    // was lost is already gone.
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

    /// Returns the number of the commit in the change feed, once a batch in a separate transaction
    /// is over ([`Outcome::commit`]).
    #[must_use]
    pub const fn commit(&self) -> Option<NonZeroU64> {
        self.commit
    }

    /// Cancels the operation that waits in the session. Then the transaction has to be rolled back.
    ///
    /// The engine rolls it back, or closes the connection.
    pub fn cancel(&mut self, session: &mut dyn Session) {
        // The operations of a hook are cancelled with it.
        self.machine.drop_hook();
        if let Some(ticket) = self.ticket.take() {
            session.cancel(ticket);
        }
    }

    /// Sets the stage after a step of the machine.
    fn follow(&mut self, step: BatchStep) {
        self.stage = match step {
            BatchStep::Next => Stage::Batch,
            BatchStep::Hook => Stage::Hook,
            BatchStep::Done(Ok(())) => Stage::Keep,
            BatchStep::Done(Err(error)) => Stage::Undo(error),
        };
    }

    /// Continues after a failed attempt: with another one, or with the error.
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

    /// Executes the current operation of the machine.
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

    /// Executes an operation of the transaction itself.
    fn control(
        &mut self,
        session: &mut dyn Session,
        mut operation: Operation<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let waits = (&mut self.ticket, &mut self.outcome);
        let done =
            ready!(drive(session, self.durability, waits, &mut operation, &mut NoRows, context));
        Poll::Ready(done.map(|outcome| self.commit = outcome.commit))
    }
}

/// Submits an operation, or continues it.
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

/// Wakes the task at this time or earlier.
fn wake_at(until: Instant, context: &Context<'_>) {
    #[cfg(target_os = "linux")]
    if crate::contract::engine::wake_at(until, context.waker().clone()) {
        return;
    }
    // This avoids a thread: the task is polled again until the time has come.
    let _ = until;
    context.waker().wake_by_ref();
}
