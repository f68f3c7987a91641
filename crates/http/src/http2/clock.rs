//! Timers of streams. A stream's future has no access to the thread's clock: it sets a deadline in
//! its [`Clock`], and the connection, which has the time, wakes it when the deadline has passed.
//!
//! [`Patience`] is the time limit of a body. It is extended by arriving bytes, as on HTTP/1.1.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};

use crate::message::limits::{Limits, Pace};

/// The time limits for clients that neither send nor read.
#[derive(Clone, Copy)]
pub(super) struct StreamTimeouts {
    /// For a body, in normal operation.
    pace: Pace,
    /// For a body, while the server's budget for bodies is nearly used up.
    tight: Pace,
    /// For an answer that the client does not read, in ms.
    pub(super) write_ms: u64,
}

impl StreamTimeouts {
    /// Returns the time limits of a server.
    pub(super) fn of(limits: &Limits) -> Self {
        Self {
            pace: Pace::of(limits, false),
            tight: Pace::of(limits, true),
            write_ms: limits.write_timeout_ms,
        }
    }
}

/// A stream's timer, which the connection checks.
pub(super) struct Clock {
    /// The time of the connection's latest turn.
    now_ms: Rc<Cell<u64>>,
    /// `u64::MAX` if the timer is stopped.
    deadline_ms: Cell<u64>,
    waker: RefCell<Option<Waker>>,
}

impl Clock {
    /// Returns a timer that is stopped.
    pub(super) fn new(now_ms: &Rc<Cell<u64>>) -> Self {
        let (deadline_ms, waker) = (Cell::new(u64::MAX), RefCell::default());
        Self { now_ms: Rc::clone(now_ms), deadline_ms, waker }
    }

    /// Returns the time of the connection's latest turn.
    pub(super) fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }

    /// Returns the deadline, in ms; `u64::MAX` if the timer is stopped.
    pub(super) fn deadline_ms(&self) -> u64 {
        self.deadline_ms.get()
    }

    /// Wakes the future whose deadline has passed.
    pub(super) fn ring(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Returns true once `after_ms` have passed since the first of these calls; `stop` resets it.
    /// Until then, the future of `context` is woken at the deadline.
    pub(super) fn is_over(&self, after_ms: u64, context: &Context<'_>) -> bool {
        if self.deadline_ms.get() == u64::MAX {
            self.deadline_ms.set(self.now_ms.get().saturating_add(after_ms));
        }
        if self.now_ms.get() >= self.deadline_ms.get() {
            return true;
        }
        *self.waker.borrow_mut() = Some(context.waker().clone());
        false
    }

    /// Wakes the future at this time; replaces an earlier deadline.
    pub(super) fn set(&self, deadline_ms: u64, waker: &Waker) {
        self.deadline_ms.set(deadline_ms);
        *self.waker.borrow_mut() = Some(waker.clone());
    }

    /// Stops the timer, and returns the remaining time, or `None` if it was not running.
    pub(super) fn stop(&self) -> Option<u64> {
        match self.deadline_ms.replace(u64::MAX) {
            u64::MAX => None,
            deadline_ms => Some(deadline_ms.saturating_sub(self.now_ms.get())),
        }
    }
}

/// How long a body's client may still keep the server waiting.
pub(super) struct Patience {
    clock: Rc<Clock>,
    timeouts: StreamTimeouts,
    left_ms: u64,
}

impl Patience {
    /// Returns the initial time limit of a body.
    pub(super) fn new(clock: Rc<Clock>, timeouts: StreamTimeouts) -> Self {
        Self { clock, left_ms: timeouts.pace.rest_ms, timeouts }
    }

    /// Returns true if the client has not sent bytes in time. Otherwise the future is woken at the
    /// deadline.
    pub(super) fn is_over(&self, context: &Context<'_>) -> bool {
        self.clock.is_over(self.left_ms, context)
    }

    /// Extends the deadline by bytes that have arrived.
    pub(super) fn note(&mut self, bytes: usize) {
        let left_ms = self.clock.stop().unwrap_or(self.left_ms);
        self.left_ms = self.timeouts.pace.after(left_ms, bytes);
    }

    /// Like [`Patience::note`], with less time for each byte if the bodies' budget is nearly used
    /// up (`tight`).
    pub(super) fn note_held(&mut self, bytes: usize, tight: bool) {
        let left_ms = self.clock.stop().unwrap_or(self.left_ms);
        let pace = if tight { self.timeouts.tight } else { self.timeouts.pace };
        self.left_ms = pace.after(left_ms, bytes);
    }
}
