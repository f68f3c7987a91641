//! A write with asynchronous hooks: it is executed in a transaction of the store, so that hooks can
//! read and write in it, and wait, without a thread.
//!
//! ```text
//!  batch machine ── current operation ──┐
//!       │                               v
//!     hook ── operations of its handle ─> the layers below ─> session of the transaction
//! ```
//!
//! In a transaction of the caller the write has a savepoint, and no other operation of the caller is
//! executed in the transaction meanwhile. Otherwise it has a separate transaction, which is repeated
//! if it conflicts with others.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, RowSink};

use super::before_hooks::HookPlace;
use super::write_as_batch::WriteAsBatch;
use crate::batch_machine::{BatchDriver, BatchParts};
use crate::contract::durability::Durability;
use crate::contract::engine::{Session, Submitted, Ticket};
use crate::contract::operation::{Operation, Outcome};
use crate::layers::handle::{HandleContext, Place, TransactionState};
use crate::layers::layer::Layer;
use crate::runtime::alarm::TaskAlarm;
use crate::runtime::backoff::Backoff;

/// The number of attempts after conflicts with other transactions: for about two seconds.
const ATTEMPTS_MAX: u32 = 50;
/// The first pause between two attempts, and the longest.
const PAUSE: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Such a write in progress. `S` is the state of an operation in the layers below.
pub(super) struct TransactionWrite<S> {
    batch: WriteAsBatch,
    driver: BatchDriver,
    turn: HookedTurn,
    /// The context of the operations of the batch.
    handle: HandleContext,
    place: Arc<HookPlace>,
    /// The operation that waits in the layers below.
    next: S,
    durability: Option<Durability>,
    /// False in a transaction of the caller.
    is_separate: bool,
    attempts: u32,
    backoff: Backoff,
    /// The end of the pause before the next attempt.
    pause: Option<Instant>,
    alarm: TaskAlarm,
}

/// The right to execute a write with hooks in a transaction.
struct HookedTurn(Arc<TransactionState>);

impl HookedTurn {
    fn new(transaction: &Arc<TransactionState>) -> Self {
        transaction.hooked_writes.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(transaction))
    }
}

impl Drop for HookedTurn {
    fn drop(&mut self) {
        self.0.hooked_writes.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Checks that no write with hooks is in progress in the transaction of a handle, unless the handle
/// belongs to one of its hooks.
///
/// # Errors
/// [`ErrorKind::Busy`].
pub(super) fn check_turn(handle: &HandleContext, operation: &Operation<'_>) -> Result<()> {
    let Place::Transaction(transaction) = &handle.place else { return Ok(()) };
    let in_progress = transaction.hooked_writes.load(Ordering::Relaxed);
    if in_progress == handle.hook_depth || !operation.is_write() {
        return Ok(());
    }
    let message = "a write with hooks is in progress in this transaction: await it before the next \
                   operation, and use the handle of a hook only inside of the hook";
    Err(Error::new(ErrorKind::Busy, message))
}

impl<S> fmt::Debug for TransactionWrite<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionWrite").field("driver", &self.driver).finish_non_exhaustive()
    }
}

impl<S: Default + Send> TransactionWrite<S> {
    /// Begins the batch of an operation of `handle` in the transaction of the handle, or else in a
    /// separate one.
    ///
    /// # Errors
    /// An error if the engine opens no session.
    pub(super) fn begin<L: Layer<State = S>>(
        layer: &L,
        handle: &HandleContext,
        (batch, place): (WriteAsBatch, Arc<HookPlace>),
        durability: Option<Durability>,
    ) -> Result<Self> {
        let (transaction, is_separate) = match &handle.place {
            Place::Transaction(transaction) => (Arc::clone(transaction), false),
            Place::Thread => (Arc::new(layer.sessions().transaction()?), true),
        };
        let handle = HandleContext {
            place: Place::Transaction(Arc::clone(&transaction)),
            rights: None,
            ..handle.clone()
        };
        let write = Self {
            batch,
            driver: BatchDriver::new(durability, !is_separate),
            turn: HookedTurn::new(&transaction),
            handle,
            place,
            next: S::default(),
            durability,
            is_separate,
            attempts: 0,
            backoff: Backoff::new(PAUSE, PAUSE_MAX),
            pause: None,
            alarm: TaskAlarm::default(),
        };
        write.place_hooks();
        Ok(write)
    }

    /// Lets the hooks operate in the transaction.
    fn place_hooks(&self) {
        let hook_depth = self.handle.hook_depth.saturating_add(1);
        self.place.set(HandleContext { hook_depth, ..self.handle.clone() });
    }

    /// Continues as far as possible. After `Ready` the transaction has ended, if it was a separate
    /// one; [`TransactionWrite::finish`] returns the result.
    pub(super) fn poll<L: Layer<State = S>>(
        &mut self,
        layer: &L,
        operation: &mut Operation<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        loop {
            if let Some(until) = self.pause {
                if Instant::now() < until {
                    self.alarm.set(until, context.waker());
                    return Poll::Pending;
                }
                self.pause = None;
                self.begin_again(layer)?;
            }
            let Self { batch, driver, handle, next, .. } = self;
            let mut session = LayerSession { layer, handle, state: next };
            let done = ready!(batch.with(operation, |batch| match BatchParts::of(batch) {
                Some(mut parts) => driver.poll(&mut session, &mut parts, &mut |_| None, context),
                None => Poll::Ready(Err(Error::new(ErrorKind::Bug, "a batch has no parts"))),
            }));
            self.attempts += 1;
            match done {
                Err(error)
                    if self.is_separate && error.is_retryable() && self.attempts < ATTEMPTS_MAX =>
                {
                    self.pause = Some(Instant::now() + self.backoff.pause());
                    self.alarm = TaskAlarm::default();
                }
                done => {
                    self.end(layer);
                    return Poll::Ready(done);
                }
            }
        }
    }

    /// Begins again in another transaction.
    fn begin_again<L: Layer<State = S>>(&mut self, layer: &L) -> Result<()> {
        self.end(layer);
        let transaction = Arc::new(layer.sessions().transaction()?);
        self.turn = HookedTurn::new(&transaction);
        self.handle.place = Place::Transaction(transaction);
        self.driver = BatchDriver::new(self.durability, false);
        self.place_hooks();
        Ok(())
    }

    /// Drops the session of a separate transaction.
    fn end<L: Layer<State = S>>(&self, layer: &L) {
        if self.is_separate {
            layer.sessions().end(&self.turn.0);
        }
    }

    /// Returns the result of the operation after `poll` has returned `done`.
    ///
    /// # Errors
    /// That of the write.
    pub(super) fn finish(
        self,
        done: Result<()>,
        operation: &mut Operation<'_>,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let finished = self.batch.finish(done, operation, outcome);
        outcome.commit = self.driver.commit();
        finished
    }

    /// Cancels it. A part of it may have been executed, so the transaction is rolled back, also that
    /// of a caller.
    pub(super) fn cancel<L: Layer<State = S>>(mut self, layer: &L) {
        let Self { driver, handle, next, turn, .. } = &mut self;
        driver.cancel(&mut LayerSession { layer, handle, state: next });
        layer.sessions().end(&turn.0);
    }
}

/// The layers below as the session of a batch.
struct LayerSession<'l, L: Layer> {
    layer: &'l L,
    handle: &'l HandleContext,
    state: &'l mut L::State,
}

impl<L: Layer> Session for LayerSession<'_, L> {
    fn submit(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        let Self { layer, handle, state } = self;
        match layer.submit(handle, state, durability, operation, sink, outcome) {
            Poll::Ready(done) => done.map(|()| Submitted::Done),
            // The driver has one operation at a time.
            Poll::Pending => Ok(Submitted::Waiting(Ticket(0))),
        }
    }

    fn poll(
        &mut self,
        _: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        self.layer.poll(self.handle, self.state, operation, sink, outcome, context)
    }

    fn cancel(&mut self, _: Ticket) {
        self.layer.cancel(self.handle, std::mem::take(self.state));
    }
}
