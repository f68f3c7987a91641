//! A write that a background batch has accepted, and how its result is delivered.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use marmota_model::{Error, ErrorKind, Result};
use parking_lot::{Condvar, Mutex};

use crate::contract::operation::Outcome;

type Told = Result<Vec<Outcome>>;

/// Accepted writes. `.await` it, or call [`Accepted::wait`], for their outcomes. If it is dropped,
/// the writes are still executed.
#[derive(Debug)]
#[must_use = "drop it with `let _ =` if the results of the writes are not needed"]
pub struct Accepted(Arc<Slot>);

/// The sender of the result of writes.
#[derive(Debug)]
pub(super) struct Answer(Option<Arc<Slot>>);

#[derive(Debug)]
struct Slot {
    state: Mutex<State>,
    told: Condvar,
}

#[derive(Debug)]
enum State {
    Waiting(Option<Waker>),
    Told(Told),
    Taken,
    /// The [`Accepted`] was dropped.
    Left,
}

impl Accepted {
    pub(super) fn new() -> (Self, Answer) {
        let state = Mutex::new(State::Waiting(None));
        let slot = Arc::new(Slot { state, told: Condvar::new() });
        (Self(Arc::clone(&slot)), Answer(Some(slot)))
    }

    /// Waits until the writes were executed, and returns the outcome of each.
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
    fn take(&mut self) -> Option<Told> {
        if let Self::Waiting(_) = self {
            return None;
        }
        match std::mem::replace(self, Self::Taken) {
            Self::Told(told) => Some(told),
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
    pub(super) fn give(mut self, told: Told) -> Option<Told> {
        self.0.take().and_then(|slot| slot.give(told))
    }
}

impl Slot {
    fn give(&self, told: Told) -> Option<Told> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Waiting(waker) => {
                *state = State::Told(told);
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
