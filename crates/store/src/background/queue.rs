//! The queue of a background batch: accepted writes that are not executed yet, in order of arrival,
//! with a limit.
//!
//! Two condition variables connect the threads: callers notify `work` when there is something to
//! execute, and the thread notifies `room` when it has executed something. A caller that finds the
//! queue full sets `flushing`, so that the thread does not wait for more.

use std::time::Instant;

use marmota_model::{Error, ErrorKind, Result, Value};
use parking_lot::{Condvar, Mutex};

use super::accepted::Answer;
use super::{Limits, due};
use crate::contract::operation::{Link, Write};

/// The approximate size of a write in bytes, without its values.
const WRITE_BYTES: usize = 96;

/// Writes that are executed all or none.
#[derive(Debug)]
pub(super) struct Unit {
    /// The writes, in order.
    pub(super) writes: Vec<Write>,
    /// The keys that writes take from earlier ones of this unit.
    pub(super) links: Vec<Link>,
    /// The approximate size, for the limits.
    pub(super) bytes: usize,
    /// Receives the result.
    pub(super) answer: Answer,
}

impl Unit {
    /// Creates a unit, and adds up its size.
    pub(super) fn new(writes: Vec<Write>, links: Vec<Link>, answer: Answer) -> Self {
        let bytes = writes.iter().map(bytes_of).sum();
        Self { writes, links, bytes, answer }
    }
}

/// Returns the approximate size of a write in memory.
fn bytes_of(write: &Write) -> usize {
    let of = |value: &Value| match value {
        Value::Text(text) | Value::Json(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
        _ => 0,
    };
    let values: usize = match write {
        Write::Insert { row, .. } | Write::Update { row, .. } => {
            row.iter().map(|value| size_of::<Value>() + of(value)).sum()
        }
        Write::Increment { key, .. } | Write::Delete { key, .. } => of(key),
        Write::DeleteWhere { .. } => 0,
        Write::Cascading { write, .. }
        | Write::Audited { write, .. }
        | Write::Compared { write }
        | Write::Guarded { write, .. }
        | Write::Hooked { write, .. } => {
            return bytes_of(write);
        }
    };
    WRITE_BYTES + values
}

/// The queue of one batch.
pub(super) struct Queue {
    limits: Limits,
    state: Mutex<State>,
    /// Notified when the thread has something to check.
    work: Condvar,
    /// Notified when writes were executed, for callers that wait for room.
    room: Condvar,
}

/// The state of a queue; pairs are numbers of writes and bytes.
#[derive(Default)]
struct State {
    units: Vec<Unit>,
    /// Writes and bytes in `units`.
    queued: (usize, usize),
    /// The same, including the writes being executed.
    waiting: (usize, usize),
    /// The time at which the oldest unit has waited long enough.
    due: Option<Instant>,
    /// True if the units are to be executed without further delay.
    flushing: bool,
    /// True if no more units are accepted.
    closing: bool,
    /// True if the thread has ended.
    ended: bool,
    /// The number of accepted units, and how many of them are done.
    accepted: u64,
    done: u64,
    /// The number of accepted units when the thread last took some.
    taken: u64,
}

impl Queue {
    pub(super) fn new(limits: Limits) -> Self {
        let (work, room) = (Condvar::new(), Condvar::new());
        Self { limits, state: Mutex::default(), work, room }
    }

    /// Queues a unit. One that is larger than the limit is accepted when the queue is empty.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] once the queue is closed; [`ErrorKind::Busy`] if it is full and
    /// `waits` is false.
    pub(super) fn push(&self, unit: Unit, waits: bool) -> Result<()> {
        let (writes, bytes) = (unit.writes.len(), unit.bytes);
        let mut state = self.state.lock();
        loop {
            if state.closing || state.ended {
                return Err(Error::new(ErrorKind::Closed, "the background batch is closed"));
            }
            let fits = state.waiting.0 + writes <= self.limits.waiting_writes_max
                && state.waiting.1 + bytes <= self.limits.waiting_bytes_max;
            if fits || state.waiting.0 == 0 {
                break;
            }
            if !waits {
                let message = format!(
                    "{} writes already wait for the background batch; try again later",
                    state.waiting.0
                );
                return Err(Error::new(ErrorKind::Busy, message));
            }
            // The queued units have to be executed, or there will never be room.
            state.flushing = true;
            self.work.notify_one();
            self.room.wait(&mut state);
        }
        if state.units.is_empty() {
            state.due = due(&self.limits);
        }
        state.units.push(unit);
        state.queued = (state.queued.0 + writes, state.queued.1 + bytes);
        state.waiting = (state.waiting.0 + writes, state.waiting.1 + bytes);
        state.accepted += 1;
        if state.units.len() == 1 || self.is_full(&state) {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Returns true if there is enough for a flush.
    fn is_full(&self, state: &State) -> bool {
        state.queued.0 >= self.limits.flush_writes || state.queued.1 >= self.limits.flush_bytes
    }

    /// Waits until there are units to execute; `None` at the end.
    pub(super) fn take(&self) -> Option<Vec<Unit>> {
        let mut state = self.state.lock();
        loop {
            if state.units.is_empty() {
                state.flushing = false;
                if state.closing {
                    return None;
                }
                self.work.wait(&mut state);
                continue;
            }
            let is_due = state.due.is_some_and(|due| due <= Instant::now());
            if state.closing || state.flushing || is_due || self.is_full(&state) {
                state.flushing = false;
                state.queued = (0, 0);
                state.taken = state.accepted;
                return Some(std::mem::take(&mut state.units));
            }
            match state.due {
                Some(due) => drop(self.work.wait_until(&mut state, due)),
                None => self.work.wait(&mut state),
            }
        }
    }

    /// Records that the units taken last are executed.
    pub(super) fn done(&self, writes: usize, bytes: usize) {
        let mut state = self.state.lock();
        state.waiting = (state.waiting.0 - writes, state.waiting.1 - bytes);
        state.done = state.taken;
        self.room.notify_all();
    }

    /// Waits until all units accepted so far are executed.
    pub(super) fn flush(&self) {
        let mut state = self.state.lock();
        let until = state.accepted;
        while state.done < until && !state.ended {
            state.flushing = true;
            self.work.notify_one();
            self.room.wait(&mut state);
        }
    }

    /// Returns the number of writes that are queued or being executed.
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().waiting.0
    }

    /// Returns true once the queue is closed.
    pub(super) fn is_closing(&self) -> bool {
        self.state.lock().closing
    }

    /// Stops accepting units.
    pub(super) fn close(&self) {
        self.state.lock().closing = true;
        self.work.notify_one();
        self.room.notify_all();
    }

    /// Records that the thread ends, and returns the units that were not executed.
    pub(super) fn end(&self) -> Vec<Unit> {
        let mut state = self.state.lock();
        state.ended = true;
        state.waiting = (0, 0);
        self.room.notify_all();
        std::mem::take(&mut state.units)
    }
}
