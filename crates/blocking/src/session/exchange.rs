//! The state between an operation that waits and the thread that executes it: rows, and the result.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, RowSink, Value, ValueRef};
use marmota_store::sql::SqlColumns;
use parking_lot::{Condvar, Mutex};

use super::task::Done;
use crate::shared::BlockingShared;

/// The most rows and bytes of a chunk, and the most chunks that wait to be lent.
const CHUNK_ROWS: usize = 64;
const CHUNK_BYTES: usize = 64 << 10;
const CHUNKS_MAX: usize = 4;
/// The longest time that a thread waits for rows to be lent. Then the operation fails.
const LEND_TIMEOUT: Duration =
    if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(120) };

/// What has arrived for an operation.
pub(super) enum Arrival {
    Nothing,
    Rows(Vec<Vec<Value>>),
    Done(Result<Done>),
}

#[derive(Default)]
struct ExchangeState {
    chunks: VecDeque<Vec<Vec<Value>>>,
    columns: Option<Arc<SqlColumns>>,
    result: Option<Result<Done>>,
    has_ended: bool,
    has_started: bool,
    is_cancelled: bool,
    /// True if its rows were not lent in time, so that the others are missing.
    is_incomplete: bool,
    lent: u64,
    /// The connection that executes it.
    connection: Option<u64>,
    /// Set if it was abandoned as a running write.
    abandoned: Option<Arc<BlockingShared>>,
    waker: Option<Waker>,
}

/// The state that an operation and its thread share.
#[derive(Default)]
pub(super) struct Exchange {
    state: Mutex<ExchangeState>,
    drained: Condvar,
}

impl Exchange {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Returns the thread's side.
    pub(super) fn end(self: &Arc<Self>) -> ExchangeEnd {
        ExchangeEnd(Arc::clone(self))
    }

    /// Returns what has arrived; otherwise the waker is woken later.
    pub(super) fn next(&self, waker: &Waker) -> Arrival {
        let mut state = self.state.lock();
        if let Some(rows) = state.chunks.pop_front() {
            self.drained.notify_all();
            return Arrival::Rows(rows);
        }
        if state.has_ended {
            let bug = || Err(Error::new(ErrorKind::Bug, "the operation panicked"));
            return Arrival::Done(state.result.take().unwrap_or_else(bug));
        }
        state.waker = Some(waker.clone());
        Arrival::Nothing
    }

    /// Returns the columns of a statement, once they are known.
    pub(super) fn columns(&self) -> Option<Arc<SqlColumns>> {
        self.state.lock().columns.take()
    }

    /// Counts a row that is lent; returns their number.
    pub(super) fn count_lent(&self) -> u64 {
        let mut state = self.state.lock();
        state.lent += 1;
        state.lent
    }

    /// Cancels the operation. With `shared` it counts as an abandoned write if it has started.
    /// Returns the connection whose statement is to be ended.
    pub(super) fn cancel(&self, shared: Option<&Arc<BlockingShared>>) -> Option<u64> {
        let mut state = self.state.lock();
        if state.has_ended || state.is_cancelled {
            return None;
        }
        state.is_cancelled = true;
        self.drained.notify_all();
        if !state.has_started {
            return None;
        }
        if let Some(shared) = shared {
            shared.abandon();
            state.abandoned = Some(Arc::clone(shared));
        }
        state.connection
    }
}

/// The side of the thread. When it is dropped, the operation has ended.
pub(super) struct ExchangeEnd(Arc<Exchange>);

impl ExchangeEnd {
    /// Returns false if the operation was cancelled before.
    pub(super) fn start(&self) -> bool {
        let mut state = self.0.state.lock();
        state.has_started = !state.is_cancelled;
        state.has_started
    }

    /// Sets the connection that executes it.
    pub(super) fn set_connection(&self, id: u64) {
        self.0.state.lock().connection = Some(id);
    }

    /// Returns true if a request to end its statement may be on the way; after false none follows.
    pub(super) fn release_connection(&self) -> bool {
        let mut state = self.0.state.lock();
        state.connection = None;
        state.is_cancelled
    }

    /// Stores the result.
    pub(super) fn finish(self, result: Result<Done>) {
        let mut state = self.0.state.lock();
        state.result = Some(if state.is_incomplete { Err(not_lent()) } else { result });
    }

    /// Passes rows on. Returns false if no more are wanted. The caller is woken for them unless the
    /// operation `ends` with them.
    pub(super) fn pass(
        &self,
        rows: Vec<Vec<Value>>,
        columns: Option<&Arc<SqlColumns>>,
        ends: bool,
    ) -> bool {
        let until = Instant::now() + LEND_TIMEOUT;
        let mut state = self.0.state.lock();
        if let Some(columns) = columns {
            state.columns = Some(Arc::clone(columns));
        }
        while state.chunks.len() >= CHUNKS_MAX && !state.is_cancelled {
            if self.0.drained.wait_until(&mut state, until).timed_out() {
                (state.is_cancelled, state.is_incomplete) = (true, true);
            }
        }
        if state.is_cancelled {
            return false;
        }
        if !rows.is_empty() {
            state.chunks.push_back(rows);
        }
        let waker = if ends { None } else { state.waker.take() };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }
}

impl Drop for ExchangeEnd {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.has_ended = true;
        let (waker, abandoned) = (state.waker.take(), state.abandoned.take());
        drop(state);
        if let Some(shared) = abandoned {
            shared.settle();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Collects rows into chunks.
pub(super) struct ChunkSink<'e> {
    end: &'e ExchangeEnd,
    rows: Vec<Vec<Value>>,
    bytes: usize,
    columns: &'e OnceCell<Arc<SqlColumns>>,
}

impl<'e> ChunkSink<'e> {
    pub(super) const fn new(end: &'e ExchangeEnd, columns: &'e OnceCell<Arc<SqlColumns>>) -> Self {
        Self { end, rows: Vec::new(), bytes: 0, columns }
    }

    /// Passes the collected rows on. Returns false if no more are wanted.
    fn flush(&mut self) -> bool {
        self.bytes = 0;
        self.end.pass(std::mem::take(&mut self.rows), self.columns.get(), false)
    }

    /// Passes the last rows on.
    pub(super) fn finish(self) {
        self.end.pass(self.rows, self.columns.get(), true);
    }
}

impl RowSink for ChunkSink<'_> {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.bytes += row.iter().map(bytes_of).sum::<usize>();
        self.rows.push(row.iter().map(ValueRef::to_value).collect());
        if self.rows.len() < CHUNK_ROWS && self.bytes < CHUNK_BYTES || self.flush() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }
}

/// The error of a read whose rows were not lent in time.
#[cold]
fn not_lent() -> Error {
    let message = format!(
        "the rows were not taken for {} s, and the statement was ended; read them in pages",
        LEND_TIMEOUT.as_secs()
    );
    Error::new(ErrorKind::Timeout, message)
}

fn bytes_of(value: &ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(text) | ValueRef::Json(text) => text.len(),
        ValueRef::Blob(bytes) => bytes.len(),
        _ => 16,
    }
}

#[cfg(test)]
mod tests {
    use marmota_store::operation::Outcome;

    use super::*;

    #[test]
    fn rows_that_are_not_taken_in_time_are_an_error_and_not_the_end() {
        let exchange = Exchange::new();
        let end = exchange.end();
        assert!(end.start());
        let row = || vec![vec![Value::Int(1)]];
        let passed = (0..=CHUNKS_MAX).filter(|_| end.pass(row(), None, false)).count();
        assert_eq!(passed, CHUNKS_MAX);
        end.finish(Ok(Done::One(Outcome::rows(4))));
        for _ in 0..CHUNKS_MAX {
            assert!(matches!(exchange.next(Waker::noop()), Arrival::Rows(_)));
        }
        let Arrival::Done(Err(error)) = exchange.next(Waker::noop()) else {
            panic!("the read has ended without an error");
        };
        assert_eq!(error.kind(), ErrorKind::Timeout);
    }
}
