//! A read that has used up its budget and continues on a helper thread, or a write that a helper
//! executes because the disk is slow.
//!
//! The first budget ends inside of a step of SQLite, and the statement's values are borrowed from
//! the caller. So the statement is run again, with copies of the values, on the same snapshot, and
//! the rows that the sink already has are skipped: they took two milliseconds, independent of the
//! duration of the whole read. If the sink has no rows yet, the read starts again on any
//! connection.
//!
//! The helper copies rows into buffers; each poll passes the full ones to the sink, on the caller's
//! thread. If enough of them are waiting, the helper waits as well.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Instant;

use marmota_model::{
    Error, ErrorKind, FilterExpr, GroupQuery, Result, RowQuery, RowSink, Table, Value, ValueRef,
};
use marmota_store::Durability;
use marmota_store::borrowed_table::BorrowedTables;
use marmota_store::operation::{Operation, Outcome};
use marmota_store::row_buffer::RowBuffer;
use marmota_store::sql::{Lender, SqlCall, SqlColumns, Wanted};
use marmota_store::tables::KnownTables;
use parking_lot::{Condvar, Mutex};

use crate::commit::group_commit::closed;
use crate::commit::write_lock::OwnedWriteGuard;
use crate::executor::Executor;
use crate::executor::read_budget::{UsedUp, late};
use crate::session::shared::{Reader, Shared};

/// The size at which a buffer is passed on.
const BUFFER_BYTES: usize = 256 << 10;
/// The size of waiting rows at which the helper waits.
const READY_BYTES_MAX: usize = 2 << 20;
/// The same for an operation with the only connection or a transaction's: a caller that blocks its
/// thread for that connection does not take rows meanwhile.
const READY_BYTES_MAX_ALONE: usize = 64 << 20;

/// A read or write on a helper thread, and its rows for the caller.
pub(crate) struct OffloadedOperation {
    read: Read,
    /// The number of rows that the sink already has.
    skip: u64,
    /// The tables in memory that it reads, from its first row to its end.
    lent: Mutex<Option<Box<BorrowedTables>>>,
    /// The durability of a write.
    durability: Option<Durability>,
    /// The actor of a write, if changes are recorded.
    actor: Option<Arc<str>>,
    until: Option<Instant>,
    /// The size of waiting rows at which the helper waits.
    ready_bytes_max: AtomicUsize,
    cancelled: Arc<AtomicBool>,
    flow: Mutex<Flow>,
    /// Notified when rows have room, or the operation is cancelled.
    room: Condvar,
}

/// A read with owned values, or a write that reads many rows.
enum Read {
    List(Arc<Table>, RowQuery),
    ListEach(Arc<Table>, RowQuery, usize, u64),
    Group(Arc<Table>, Box<(GroupQuery, Table)>),
    Count(Arc<Table>, Option<FilterExpr>),
    Sql(Box<str>, Vec<Value>, Option<Arc<SqlColumns>>),
    DeleteWhere(Arc<Table>, Option<FilterExpr>),
    /// SQL that writes; the flag allows tables whose history is kept.
    Execute(Box<str>, Vec<Value>, Option<Arc<SqlColumns>>, bool),
    /// The end of the transaction whose connection it has.
    Commit,
}

/// The connection on which an offloaded operation runs.
pub(crate) enum OnConnection {
    /// Any reading connection.
    Any,
    /// The connection that has returned rows before, which keeps its snapshot.
    Reader(Arc<Reader>),
    /// The only connection, or the one that writes.
    Writer(OwnedWriteGuard<Executor>),
    /// The connection of a transaction, which is given back.
    Transaction(OwnedWriteGuard<Executor>),
}

#[derive(Default)]
struct Flow {
    ready: VecDeque<RowBuffer>,
    ready_bytes: usize,
    free: Vec<RowBuffer>,
    has_begun: bool,
    ended: Option<Result<Finished>>,
    waker: Option<Waker>,
    /// The connection of a transaction, given back.
    guard: Option<OwnedWriteGuard<Executor>>,
    /// The operations that wait for that connection.
    waiting: Vec<Waker>,
    /// True if the transaction has ended meanwhile.
    is_left: bool,
}

/// The result of an operation that a helper has executed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    pub(crate) rows: u64,
    /// The number of the commit, if changes are recorded.
    pub(crate) commit: Option<NonZeroU64>,
}

/// The next result for the caller.
pub(crate) enum Next {
    Rows(RowBuffer),
    Ended(Result<Finished>),
    /// The waker will be woken.
    Later {
        /// True if no thread has started it.
        is_queued: bool,
    },
}

impl OffloadedOperation {
    /// Creates an offloaded operation from one that has used up its budget, with copies of its
    /// parts.
    pub(crate) fn new(
        tables: &mut KnownTables,
        operation: &Operation<'_>,
        over: UsedUp,
        (durability, actor): (Option<Durability>, Option<Arc<str>>),
        until: Option<Instant>,
    ) -> Result<Arc<Self>> {
        let read = match operation {
            Operation::List { table, query } => Read::List(tables.kept(table)?, (*query).clone()),
            Operation::ListEach { table, query, by, limit } => {
                Read::ListEach(tables.kept(table)?, (*query).clone(), *by, *limit)
            }
            Operation::Group { table, query, .. } => {
                let groups = ((*query).clone(), query.result(table)?);
                Read::Group(tables.kept(table)?, Box::new(groups))
            }
            Operation::Count { table, filter } => Read::Count(tables.kept(table)?, filter.cloned()),
            Operation::DeleteWhere { table, filter } => {
                Read::DeleteWhere(tables.kept(table)?, filter.cloned())
            }
            Operation::Sql { statement, .. } => {
                let columns = statement.columns.get().cloned();
                let (text, values) = (statement.text.into(), statement.values.to_vec());
                match statement.writes {
                    true => Read::Execute(text, values, columns, statement.unaudited),
                    false => Read::Sql(text, values, columns),
                }
            }
            Operation::Commit => Read::Commit,
            _ => return Err(Error::new(ErrorKind::Bug, "no other operation is a scan")),
        };
        let (cancelled, flow, room) = (Arc::default(), Mutex::default(), Condvar::new());
        let ready_bytes_max = AtomicUsize::new(READY_BYTES_MAX);
        let (skip, lent) = (over.lent, Mutex::new(over.tables));
        Ok(Arc::new(Self {
            read,
            skip,
            lent,
            durability,
            actor,
            until,
            ready_bytes_max,
            cancelled,
            flow,
            room,
        }))
    }

    const fn writes(&self) -> bool {
        matches!(self.read, Read::DeleteWhere(..) | Read::Execute(..) | Read::Commit)
    }

    /// Sets the columns of the rows before they are passed to the sink.
    pub(crate) fn name_columns(&self, operation: &Operation<'_>) {
        if let (
            Read::Sql(.., Some(columns)) | Read::Execute(_, _, Some(columns), _),
            Operation::Sql { statement, .. },
        ) = (&self.read, operation)
        {
            // Set already if the operation is the same as before.
            let _ = statement.columns.set(Arc::clone(columns));
        }
    }

    /// Returns the number of rows that the sink already has.
    pub(crate) const fn skipped(&self) -> u64 {
        self.skip
    }

    pub(crate) const fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Returns the available result; `waker` is woken for later ones.
    pub(crate) fn next(&self, waker: &Waker) -> Next {
        let mut flow = self.flow.lock();
        if let Some(rows) = flow.ready.pop_front() {
            let was_full = flow.ready_bytes >= self.ready_bytes_max.load(Ordering::Relaxed);
            flow.ready_bytes -= rows.size();
            drop(flow);
            if was_full {
                self.room.notify_one();
            }
            return Next::Rows(rows);
        }
        if let Some(ended) = flow.ended.take() {
            return Next::Ended(ended);
        }
        match &mut flow.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        Next::Later { is_queued: !flow.has_begun }
    }

    /// Takes a used buffer back.
    pub(crate) fn give_back(&self, mut rows: RowBuffer) {
        // A single row may have been large.
        if rows.size() <= 2 * BUFFER_BYTES {
            rows.clear();
            self.flow.lock().free.push(rows);
        }
    }

    /// Cancels it.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        // While locked; otherwise a helper that is about to wait would miss it.
        let mut flow = self.flow.lock();
        flow.ready.clear();
        flow.ready_bytes = 0;
        let unread = if flow.has_begun || self.writes() { None } else { self.lent.lock().take() };
        drop(flow);
        drop(unread);
        self.room.notify_one();
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Returns the connection of the transaction if it was given back.
    pub(crate) fn take_guard(&self) -> Option<OwnedWriteGuard<Executor>> {
        self.flow.lock().guard.take()
    }

    /// Wakes `waker` when the transaction has its connection back.
    pub(crate) fn wait_for_turn(&self, waker: &Waker) {
        let mut flow = self.flow.lock();
        if flow.guard.is_some() {
            drop(flow);
            waker.wake_by_ref();
        } else if !flow.waiting.iter().any(|known| known.will_wake(waker)) {
            flow.waiting.push(waker.clone());
        }
    }

    /// Called when the transaction has ended: its connection is rolled back when the operation
    /// ends. Returned at once if it has ended.
    pub(crate) fn leave(&self) -> Option<OwnedWriteGuard<Executor>> {
        self.cancel();
        let mut flow = self.flow.lock();
        flow.is_left = true;
        flow.guard.take()
    }

    /// Continues a counted read on a helper thread.
    pub(crate) fn start(self: &Arc<Self>, shared: &Arc<Shared>, place: OnConnection) {
        shared.counts.read_handover();
        let (scan, for_helper) = (Arc::clone(self), Arc::clone(shared));
        shared.helpers.run(move || scan.carry_out(&for_helper, place));
    }

    /// Executes it on a helper thread.
    pub(crate) fn carry_out(&self, shared: &Shared, place: OnConnection) {
        if matches!(place, OnConnection::Writer(_) | OnConnection::Transaction(_)) {
            self.ready_bytes_max.store(READY_BYTES_MAX_ALONE, Ordering::Relaxed);
        }
        self.flow.lock().has_begun = true;
        let ended = match place {
            OnConnection::Any => match shared.take_reader(true) {
                Ok(reader) => self.run_on_reader(shared, reader),
                Err(error) => Err(error),
            },
            OnConnection::Reader(reader) => self.run_on_reader(shared, reader),
            OnConnection::Writer(mut guard) => {
                guard.executor().ok_or_else(closed).and_then(|executor| {
                    let ended = self.run_on(shared, executor);
                    if matches!(self.read, Read::Commit) {
                        // A commit that failed, or was cancelled before it began.
                        executor.roll_back();
                    }
                    ended
                })
            }
            OnConnection::Transaction(mut guard) => {
                let ended = guard
                    .executor()
                    .ok_or_else(closed)
                    .and_then(|executor| self.run_on(shared, executor));
                self.return_guard(guard);
                ended
            }
        };
        self.end(shared, ended);
    }

    fn run_on_reader(&self, shared: &Shared, reader: Arc<Reader>) -> Result<Finished> {
        let mut executor = reader.lock();
        let ended = match &mut *executor {
            Some(executor) => self.run_on(shared, executor),
            None => Err(closed()),
        };
        if shared.is_closed() {
            executor.take();
        }
        drop(executor);
        shared.give_reader_back(reader);
        ended
    }

    fn run_on(&self, shared: &Shared, executor: &mut Executor) -> Result<Finished> {
        executor.set_actor(self.actor.as_ref());
        let (mut outcome, mut rows) = (Outcome::default(), RowBuffer::default());
        let mut is_stuck = false;
        let ended = if self.is_late() || self.is_cancelled() {
            Err(self.stopped(shared))
        } else {
            // A cancelled write takes effect all the same.
            let cancelled = (!self.writes()).then(|| Arc::clone(&self.cancelled));
            executor.connection.limit(self.until, cancelled);
            let mut copying = Copying { scan: self, skip: self.skip, rows, is_stuck: false };
            let run = || self.run_read(executor, &mut copying, &mut outcome);
            let ended = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
                let message = "the thread that executed a read panicked";
                Err(Error::new(ErrorKind::Bug, message))
            });
            (rows, is_stuck) = (copying.rows, copying.is_stuck);
            executor.connection.end_budget();
            match executor.connection.take_interrupted() || self.is_cancelled() {
                true => Err(self.stopped(shared)),
                false => ended,
            }
        };
        if executor.connection.take_hold() {
            executor.roll_back();
        }
        ended?;
        if is_stuck || rows.rows() > 0 && self.hand_over(rows).is_none() {
            return Err(self.stopped(shared));
        }
        Ok(Finished { rows: outcome.rows, commit: outcome.commit })
    }

    fn run_read(
        &self,
        executor: &mut Executor,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let columns = OnceCell::new();
        let mut given = KeptTables(self.lent.lock().take());
        let lender = given.0.is_some().then_some(&mut given as &mut dyn Lender);
        let sql = |text, values, writes, unaudited| Operation::Sql {
            statement: SqlCall {
                text,
                values,
                writes,
                unaudited,
                database: None,
                columns: &columns,
            },
            lender,
        };
        let mut operation = match &self.read {
            Read::List(table, query) => Operation::List { table, query },
            Read::ListEach(table, query, by, limit) => {
                Operation::ListEach { table, query, by: *by, limit: *limit }
            }
            Read::Group(table, groups) => {
                let (query, result) = &**groups;
                Operation::Group { table, query, result }
            }
            Read::Count(table, filter) => Operation::Count { table, filter: filter.as_ref() },
            Read::Sql(text, values, _) => sql(text, values, false, false),
            Read::DeleteWhere(table, filter) => {
                Operation::DeleteWhere { table, filter: filter.as_ref() }
            }
            Read::Execute(text, values, _, unaudited) => sql(text, values, true, *unaudited),
            Read::Commit => return executor.commit_alone(self.durability, outcome),
        };
        // This thread may block for locks.
        if !self.writes() {
            return executor.blocking(|executor| executor.run(&mut operation, sink, outcome));
        }
        if executor.connection.in_transaction() {
            return executor.atomically(|executor| executor.run(&mut operation, sink, outcome));
        }
        executor
            .blocking(|executor| executor.run_alone(self.durability, &mut operation, sink, outcome))
    }

    fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn stopped(&self, shared: &Shared) -> Error {
        if self.is_cancelled() {
            return Error::new(ErrorKind::Timeout, "the read was canceled");
        }
        shared.counts.read_timeout();
        late(shared.options.read_deadline_ms)
    }

    /// Passes rows on and returns a buffer for the next ones. Waits while too many rows are
    /// waiting.
    fn hand_over(&self, rows: RowBuffer) -> Option<RowBuffer> {
        let mut flow = self.flow.lock();
        // A write has the writer's turn, and does not wait until its rows are taken.
        let ready_bytes_max = self.ready_bytes_max.load(Ordering::Relaxed);
        while flow.ready_bytes >= ready_bytes_max && !self.writes() {
            if self.is_cancelled() {
                return None;
            }
            match self.until {
                Some(until) if self.room.wait_until(&mut flow, until).timed_out() => return None,
                Some(_) => {}
                None => self.room.wait(&mut flow),
            }
        }
        // Rows of a table in memory are read without SQLite, which would check both.
        if self.is_cancelled() || self.is_late() {
            return None;
        }
        flow.ready_bytes += rows.size();
        flow.ready.push_back(rows);
        let next = flow.free.pop().unwrap_or_default();
        let waker = flow.waker.take();
        drop(flow);
        if let Some(waker) = waker {
            waker.wake();
        }
        Some(next)
    }

    fn return_guard(&self, mut guard: OwnedWriteGuard<Executor>) {
        let mut flow = self.flow.lock();
        if flow.is_left {
            drop(flow);
            if let Some(executor) = guard.executor() {
                executor.roll_back();
            }
            return;
        }
        flow.guard = Some(guard);
        let waiting = std::mem::take(&mut flow.waiting);
        drop(flow);
        waiting.into_iter().for_each(Waker::wake);
    }

    fn end(&self, shared: &Shared, ended: Result<Finished>) {
        shared.offloaded_ended();
        let mut flow = self.flow.lock();
        flow.ended = Some(ended);
        let waker = flow.waker.take();
        drop(flow);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Lends the tables that an offloaded operation keeps.
struct KeptTables(Option<Box<BorrowedTables>>);

impl Lender for KeptTables {
    fn lend(&mut self, _: &[Wanted]) -> Result<BorrowedTables> {
        let tables = self.0.take().ok_or_else(|| {
            Error::new(ErrorKind::Bug, "the tables of a long statement are missing")
        })?;
        Ok(*tables)
    }
}

/// Copies rows into buffers, except those that the caller already has.
struct Copying<'s> {
    scan: &'s OffloadedOperation,
    skip: u64,
    rows: RowBuffer,
    /// True if rows could not be passed on in time or are no longer wanted.
    is_stuck: bool,
}

impl RowSink for Copying<'_> {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        if self.skip > 0 {
            self.skip -= 1;
            return ControlFlow::Continue(());
        }
        self.rows.push(row);
        if self.rows.size() < BUFFER_BYTES {
            return ControlFlow::Continue(());
        }
        match self.scan.hand_over(std::mem::take(&mut self.rows)) {
            Some(next) => {
                self.rows = next;
                ControlFlow::Continue(())
            }
            None => {
                self.is_stuck = true;
                ControlFlow::Break(())
            }
        }
    }
}

impl fmt::Debug for OffloadedOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match &self.read {
            Read::List(table, _) | Read::ListEach(table, ..) | Read::Group(table, _) => {
                table.name()
            }
            Read::Count(table, _) | Read::DeleteWhere(table, _) => table.name(),
            Read::Sql(text, ..) | Read::Execute(text, ..) => text,
            Read::Commit => return f.write_str("a commit"),
        };
        write!(f, "a scan of {what}, {} rows skipped", self.skip)
    }
}
