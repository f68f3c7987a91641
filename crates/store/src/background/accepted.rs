//! A write that a background batch has accepted, and how its result is delivered.
//!
//! ```text
//!  caller                         thread of the batch
//!  Accepted ──┐               ┌── Answer
//!             └─ Arc<Slot> ───┘
//!  Waiting ─> UnitResult ─> Taken          the result was delivered
//!  Waiting ─> Left                   the caller has dropped it: errors go to the callback
//! ```

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use marmota_model::{Error, ErrorKind, Result};
use parking_lot::{Condvar, Mutex};

use crate::contract::operation::Outcome;

/// The result of the writes of one unit.
type UnitResult = Result<Vec<Outcome>>;

/// Accepted writes. `.await` it, or call [`Accepted::wait`], for their outcomes. If it is dropped,
/// the writes are still executed.
///
/// The outcomes are in the order of the writes. Poll or wait for it once: the result is moved out.
///
/// ```
/// # use marmota_memory::Memory;
/// # use marmota_model::{Field, Kind, Record, Role, Schema};
/// # use marmota_store::Store;
/// # let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
/// # let store = Store::builder(Memory::new()).schema(city).open()?;
/// let background = store.background_batch().start()?;
/// let record = Record::new(store.table("city")?);
/// let accepted = background.add(|batch| {
///     batch.insert_record(&record);
/// })?;
/// let outcomes = marmota_store::action::block_on(accepted)?;
/// assert_eq!(outcomes[0].rows, 1);
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "drop it with `let _ =` if the results of the writes are not needed"]
pub struct Accepted(Arc<Slot>);

/// The sender of the result of writes.
#[derive(Debug)]
pub(super) struct Answer(Option<Arc<Slot>>);

/// The place where the result is delivered.
#[derive(Debug)]
struct Slot {
    state: Mutex<State>,
    told: Condvar,
}

/// The state of a result; the transitions are in the module's documentation.
#[derive(Debug)]
enum State {
    /// The result has not come; the waker of the caller, if it was polled.
    Waiting(Option<Waker>),
    /// The result has come.
    UnitResult(UnitResult),
    /// The result was moved out.
    Taken,
    /// The [`Accepted`] was dropped.
    Left,
}

impl Accepted {
    /// Creates both ends.
    pub(super) fn new() -> (Self, Answer) {
        let state = Mutex::new(State::Waiting(None));
        let slot = Arc::new(Slot { state, told: Condvar::new() });
        (Self(Arc::clone(&slot)), Answer(Some(slot)))
    }

    /// Waits until the writes were executed, and returns the outcome of each.
    ///
    /// Blocks the thread: on an event loop `.await` it instead.
    ///
    /// # Errors
    /// The reason why they could not be executed: none of them was.
    pub fn wait(self) -> Result<Vec<Outcome>> {
        let mut state = self.0.state.lock();
        loop {
            if let Some(told) = state.take() {
                return told;
            }
            self.0.told.wait(&mut state);
        }
    }
}

impl State {
    /// Moves the result out, if it has come.
    fn take(&mut self) -> Option<UnitResult> {
        if let Self::Waiting(_) = self {
            return None;
        }
        match std::mem::replace(self, Self::Taken) {
            Self::UnitResult(told) => Some(told),
            _ => Some(Err(Error::new(ErrorKind::Bug, "a result was taken twice"))),
        }
    }
}

impl Future for Accepted {
    type Output = Result<Vec<Outcome>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.state.lock();
        match state.take() {
            Some(told) => Poll::Ready(told),
            None => {
                *state = State::Waiting(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if let State::Waiting(_) = *state {
            *state = State::Left;
        }
    }
}

impl Answer {
    /// Delivers the result. Returns it if the [`Accepted`] was dropped.
    pub(super) fn give(mut self, told: UnitResult) -> Option<UnitResult> {
        self.0.take().and_then(|slot| slot.give(told))
    }
}

impl Slot {
    /// Delivers the result, and wakes the caller. Returns it if no caller waits.
    fn give(&self, told: UnitResult) -> Option<UnitResult> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Waiting(waker) => {
                *state = State::UnitResult(told);
                self.told.notify_all();
                drop(state);
                waker.into_iter().for_each(Waker::wake);
                None
            }
            _ => Some(told),
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // The answer was not sent, because of a panic.
        if let Some(slot) = self.0.take() {
            let message = "the thread of the background batch has panicked; see its message";
            slot.give(Err(Error::new(ErrorKind::Bug, message)));
        }
    }
}
