//! A connection with its statements, which executes operations. One connection writes; if the file
//! allows it, each session has another one for reads.
//!
//! Reads are in `executor/read.rs`, writes of one row in `executor/write.rs`, of many in
//! `executor/write_many.rs`. This file contains what they share, and transactions.

pub(crate) mod conflict;
pub(crate) mod group;
pub(crate) mod log_copy;
pub(crate) mod raw_sql;
pub(crate) mod read;
pub(crate) mod read_budget;
pub(crate) mod recording;
pub(crate) mod statistics;
mod virtual_columns;
pub(crate) mod write;
pub(crate) mod write_many;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, FieldSet, NoRows, Result, RowSink, Table, ValueRef};
use marmota_store::Durability;
use marmota_store::borrowed_table::BorrowedTables;
use marmota_store::operation::{BatchMachine, BatchParts, OnConflict, Operation, Outcome, Write};

use crate::commit::commit_thread::CommitThread;
use crate::commit::group_commit::Work;
use crate::executor::log_copy::LogCopy;
use crate::executor::recording::{Recording, SavepointStep};
use crate::executor::statistics::Counts;
use crate::fault;
use crate::ffi::{Connection, Failure, StatementId, Syncs};
use crate::file::attached_databases::AttachedDatabases;
use crate::file::failed_sync::{Stopped, leaves_unknown, unknown};
use crate::file::lock_owner;
use crate::statement::column::Column;
use crate::statement::filter_shape::FilterShape;
use crate::statement::raw_sql_cache::RawSqlCache;
use crate::statement::{Head, Statements, Verb};
use marmota_store::tables::KnownTables;

/// The number of the savepoint around a write of many rows in a transaction; [`BatchMachine`] uses
/// the next higher one.
const SAVEPOINT_OF_MANY: u32 = u32::MAX - 1;

/// The size of the log after which the committing thread runs a checkpoint.
///
/// Relaxed single inserts fill it with about 450 rows, and wait for the disk twice then: a fifth of
/// their time on an idle disk, most of it on a busy one. With 4,000 pages there were 0.83 times as
/// many inserts on an idle disk (that much does not fit into the processor's cache) and 1.25 times
/// on a busy one, the slowest of which took 1.6 times as long. A thread that synced the log ahead
/// of that gained nothing beyond the noise.
const LOG_PAGES_MAX: u32 = 1_000;

/// A connection with its statements.
#[derive(Debug)]
pub(crate) struct Executor {
    pub(crate) connection: Connection,
    pub(crate) statements: Statements,
    pub(crate) texts: RawSqlCache,
    /// The tables of other databases that SQL sees here.
    pub(crate) attached: AttachedDatabases,
    pub(crate) tables: KnownTables,
    /// A reusable buffer for the shape of a filter.
    pub(crate) shape: FilterShape,
    begin: StatementId,
    commit: StatementId,
    rollback: StatementId,
    /// The durability of commits, unless a write requests another.
    durability: Durability,
    /// The durability of the next commit.
    set: Durability,
    /// Notified of relaxed commits.
    commit_thread: Option<Arc<CommitThread>>,
    pub(crate) counts: Arc<Counts>,
    /// The file, and the timeout for locks of others.
    pub(crate) file: Option<(PathBuf, Duration)>,
    /// True if SQLite waits for locks of others, which blocks the thread.
    blocks: bool,
    /// True if a lock of others prevented the last operation.
    is_refused: bool,
    /// Set by the first failed sync: no more writes.
    stopped: Option<Stopped>,
    /// A fault injected by a test.
    #[cfg(feature = "simulated-disk")]
    pub(crate) planted: Option<crate::file::disk::DiskFault>,
    /// The number of rows that the last list or SQL has passed to the sink.
    pub(crate) lent: u64,
    /// The tables in memory of a statement that has used up its first budget.
    pub(crate) kept: Option<Box<BorrowedTables>>,
    /// The time limit of a read, in milliseconds; 0 if unlimited.
    pub(crate) read_deadline_ms: u32,
    /// Records changes, if the store has a change feed.
    recording: Option<Box<Recording>>,
    /// The number of the last commit with changes, until it is taken.
    committed: Option<NonZeroU64>,
    /// What copies the log, if this connection writes.
    pub(crate) log_copy: LogCopy,
}

impl Executor {
    pub(crate) fn new(mut connection: Connection, tables: KnownTables) -> Result<Self> {
        let mut prepare = |sql| connection.prepare(sql).map_err(|failure| fault::of(&failure));
        // IMMEDIATE: a transaction that begins as a reader may find, at its first write, that its
        // snapshot is old, and would have to start again.
        let (begin, commit, rollback) =
            (prepare("BEGIN IMMEDIATE")?, prepare("COMMIT")?, prepare("ROLLBACK")?);
        Ok(Self {
            connection,
            statements: Statements::default(),
            texts: RawSqlCache::default(),
            attached: AttachedDatabases::default(),
            tables,
            shape: FilterShape::default(),
            begin,
            commit,
            rollback,
            durability: Durability::None,
            set: Durability::None,
            commit_thread: None,
            counts: Arc::default(),
            file: None,
            blocks: true,
            is_refused: false,
            stopped: None,
            #[cfg(feature = "simulated-disk")]
            planted: None,
            lent: 0,
            kept: None,
            read_deadline_ms: 0,
            recording: None,
            committed: None,
            log_copy: LogCopy::None,
        })
    }

    /// Executes an operation that is not a step of a session's transaction.
    #[inline]
    pub(crate) fn run(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<()> {
        if self.is_recording() && operation.is_write() {
            return self.run_recorded(operation, sink, outcome);
        }
        self.carry_out(operation, sink, outcome).map_err(|error| self.refused_or_named(error))
    }

    /// Executes a write whose changes are recorded: in a transaction, since the row of the commit
    /// belongs to it.
    fn run_recorded(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let mark = self.changes_so_far();
        let done = match self.connection.in_transaction() {
            true => self.carry_out(operation, sink, outcome),
            false => self.atomically(|executor| executor.carry_out(operation, sink, outcome)),
        };
        done.map_err(|error| {
            self.forget_changes(mark.as_ref());
            self.refused_or_named(error)
        })
    }

    /// Adds the holder of the lock to the error if others have the file, or marks the operation to
    /// be tried again ([`Self::take_refused`]).
    #[cold]
    fn refused_or_named(&mut self, error: Error) -> Error {
        let is_busy = self.file.is_some() && error.kind() == ErrorKind::Busy;
        if is_busy && !self.blocks && !self.connection.in_transaction() {
            self.is_refused = true;
            return error;
        }
        self.with_holder(error)
    }

    /// Adds the holder of the lock to the error if others have the file.
    #[cold]
    fn with_holder(&self, error: Error) -> Error {
        match &self.file {
            Some((path, waited)) if error.kind() == ErrorKind::Busy => {
                lock_owner::busy(path, *waited).with_source(error)
            }
            _ => error,
        }
    }

    /// Returns true if the last operation failed because another process or engine has the lock of
    /// the file. Nothing of it was done.
    pub(crate) const fn take_refused(&mut self) -> bool {
        std::mem::replace(&mut self.is_refused, false)
    }

    /// Makes operations return at once if others have the lock of the file.
    pub(crate) fn never_block(&mut self) {
        self.connection.busy_timeout_ms(0);
        self.blocks = false;
    }

    /// Runs `work` with waiting for locks of others: on a thread that may block.
    pub(crate) fn blocking<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let was_blocking = self.blocks;
        if let (false, Some((_, timeout))) = (was_blocking, &self.file) {
            self.connection.busy_timeout_ms(u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX));
            self.blocks = true;
        }
        let done = work(self);
        if !was_blocking {
            self.never_block();
        }
        done
    }

    fn carry_out(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<()> {
        match operation {
            Operation::Get { table, key, fields } => {
                self.get(table, key, *fields, sink).map(|rows| outcome.rows = rows)
            }
            Operation::List { table, query } => {
                self.list(table, query, sink).map(|rows| outcome.rows = rows)
            }
            Operation::ListEach { .. } | Operation::ListRanked { .. } | Operation::Group { .. } => {
                self.groups_or_each(operation, sink).map(|rows| outcome.rows = rows)
            }
            Operation::Count { table, filter } => {
                self.count(table, *filter).map(|rows| outcome.rows = rows)
            }
            Operation::Sql { statement, lender } if statement.writes => {
                // All or nothing, even for `OR FAIL`.
                let lender = lender.as_deref_mut();
                self.atomically(|executor| executor.sql(statement, lender, sink))
                    .map(|rows| outcome.rows = rows)
            }
            Operation::Sql { statement, lender } => {
                self.sql(statement, lender.as_deref_mut(), sink).map(|rows| outcome.rows = rows)
            }
            Operation::Batch { .. } => self.batch(operation, outcome),
            write => self.write(write, outcome),
        }
    }

    fn batch(&mut self, batch: &mut Operation<'_>, outcome: &mut Outcome) -> Result<()> {
        let Some(parts) = BatchParts::of(batch) else { return Ok(()) };
        let done = self.atomically(|executor| {
            BatchMachine::run(parts, |step, sink| {
                let mut outcome = Outcome::default();
                executor.run(step, sink, &mut outcome).map(|()| outcome)
            })
        });
        if let Operation::Batch { results, .. } = batch {
            outcome.rows = results.iter().filter(|done| done.is_ok()).count() as u64;
        }
        done
    }

    fn write(&mut self, operation: &mut Operation<'_>, outcome: &mut Outcome) -> Result<()> {
        *outcome = match operation {
            Operation::Insert { table, row, on_conflict: OnConflict::Refuse } => {
                return self.insert(table, row, outcome);
            }
            Operation::Insert { table, row, on_conflict } => {
                self.insert_over(table, row, *on_conflict)
            }
            Operation::InsertMany { table, rows, on_conflict } => {
                self.atomically(|executor| executor.insert_many(table, *rows, *on_conflict))
            }
            Operation::Update { table, key, row, version } => {
                self.update(table, key, row, *version)
            }
            Operation::UpdateMany { table, rows } => {
                self.atomically(|executor| executor.update_many(table, *rows))
            }
            Operation::Increment { table, key, field, by, stamp } => {
                if table.fields()[*field].rules.is_empty() {
                    self.increment(table, key, *field, *by, stamp)
                } else {
                    // The rules are checked against the sum, which only SQLite knows.
                    self.atomically(|executor| {
                        let outcome = executor.increment(table, key, *field, *by, stamp)?;
                        let mut row = vec![ValueRef::Absent; table.fields().len()];
                        row[*field] = outcome.value.as_ref();
                        table.validate(&row)?;
                        Ok(outcome)
                    })
                }
            }
            Operation::Delete { table, key, version } => self.delete(table, key, *version),
            Operation::DeleteWhere { table, filter } => self.delete_where(table, *filter),
            Operation::Savepoint(number) => self.savepoint(Verb::Savepoint, *number),
            Operation::Release(number) => self.savepoint(Verb::Release, *number),
            Operation::RollbackTo(number) => self.savepoint(Verb::RollbackTo, *number),
            _ => Err(Error::new(
                ErrorKind::Unsupported,
                "the SQLite engine does not support this operation here",
            )),
        }?;
        Ok(())
    }

    /// Returns the place of a statement, which is prepared if necessary.
    #[inline]
    pub(crate) fn statement(
        &mut self,
        head: Head,
        make: impl FnOnce(&Self) -> (String, Box<[Column]>),
    ) -> Result<usize> {
        match self.statements.find(&head, &self.shape.bytes) {
            Some(place) => Ok(place),
            None => {
                let (sql, columns) = make(self);
                self.prepare(head, &sql, columns)
            }
        }
    }

    #[cold]
    fn prepare(&mut self, head: Head, sql: &str, columns: Box<[Column]>) -> Result<usize> {
        let id = self.connection.prepare(sql).map_err(|failure| {
            let error = fault::of(&failure);
            Error::new(error.kind(), format!("{} (in: {sql})", error.message()))
        })?;
        let (place, dropped) = self.statements.add(head, &self.shape.bytes, id, columns);
        if let Some(dropped) = dropped {
            self.connection.finalize(dropped);
        }
        Ok(place)
    }

    /// Returns the number of a table, and clears the filter's shape.
    #[inline]
    pub(crate) fn number(&mut self, table: &Table) -> Result<u32> {
        self.shape.clear();
        self.tables.number(table)
    }

    fn control(&mut self, id: StatementId) -> Result<()> {
        let mut run = self.connection.start(id);
        let done = run.step().map(|_| ()).map_err(|failure| fault::of(&failure));
        drop(run);
        done.map_err(|error| self.refused_or_named(error))
    }

    pub(crate) fn begin(&mut self) -> Result<()> {
        self.is_refused = false;
        self.check_writable()?;
        self.begin_unchecked()
    }

    /// Like [`Self::begin`], for work that makes no commit of its own or replaces pages.
    pub(crate) fn begin_unchecked(&mut self) -> Result<()> {
        self.is_refused = false;
        self.control(self.begin)
    }

    /// # Errors
    /// [`ErrorKind::Io`] after a failed sync.
    #[inline]
    pub(crate) fn check_stopped(&self) -> Result<()> {
        match &self.stopped {
            None => Ok(()),
            Some(stopped) => Err(stopped.error()),
        }
    }

    pub(crate) const fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Stops all writes after this thread's last sync failed.
    #[cold]
    fn stop(&mut self) {
        #[cfg(feature = "simulated-disk")]
        if self.planted == Some(crate::file::disk::DiskFault::RetriesSync) {
            return;
        }
        let path = self.file.as_ref().map(|(path, _)| &**path);
        self.stopped.get_or_insert_with(|| Stopped::by_failed_sync(path));
        self.connection.keep_log_at_close();
    }

    /// Commits, or rolls back everything if that fails. After [`ErrorKind::Lost`], the changes may
    /// exist all the same when the file is opened again.
    pub(crate) fn commit(&mut self) -> Result<()> {
        if let Err(error) = self.write_changes() {
            self.roll_back();
            return Err(error);
        }
        self.commit_statement()?;
        let copied = self.report_to_sink();
        self.report_commit();
        if copied.is_err() {
            self.committed = None;
        }
        copied
    }

    /// Executes COMMIT.
    fn commit_statement(&mut self) -> Result<()> {
        let before = Syncs::of_thread();
        let mut run = self.connection.start(self.commit);
        let done = run.step().map(|_| ());
        drop(run);
        match done {
            Ok(()) if !Syncs::since(before).failed() => Ok(()),
            done => Err(self.commit_failed(done.err().as_ref(), Syncs::since(before))),
        }
    }

    #[cold]
    fn commit_failed(&mut self, failure: Option<&Failure>, syncs: Syncs) -> Error {
        if failure.is_some() {
            self.roll_back();
        }
        if syncs.failed() {
            self.stop();
        }
        #[cfg(feature = "simulated-disk")]
        if let (Some(crate::file::disk::DiskFault::DeniesWrite), Some(failure)) =
            (self.planted, failure)
        {
            return fault::of(failure);
        }
        match failure {
            Some(failure) if syncs.failed() || leaves_unknown(failure.code()) => {
                unknown(failure.message())
            }
            Some(failure) => self.with_holder(fault::of(failure)),
            None => unknown("the folder or the file could not be synced to the disk"),
        }
    }

    /// Returns the error of a statement that commits by itself, including that its outcome is
    /// unknown.
    #[cold]
    fn alone_failed(&mut self, error: Error, syncs: Syncs) -> Error {
        let is_unknown = match error.kind() {
            ErrorKind::Io | ErrorKind::Engine => leaves_unknown(self.connection.last_code()),
            _ => false,
        };
        match error.kind() {
            ErrorKind::Lost => error,
            _ if is_unknown || syncs.failed() => unknown(error.message()).with_source(error),
            _ => error,
        }
    }

    /// Sets the durability of later commits.
    pub(crate) fn keep_with(&mut self, durability: Durability, commit_thread: &Arc<CommitThread>) {
        self.durability = durability;
        self.commit_thread = Some(Arc::clone(commit_thread));
        self.wait_for(durability);
    }

    /// Returns the durability of commits, unless a write requests another.
    pub(crate) const fn durability(&self) -> Durability {
        self.durability
    }

    /// Sets the durability of the next commit. A file with less than relaxed durability keeps it:
    /// promises about a single write would not hold there.
    pub(crate) fn wait_for(&mut self, durability: Durability) {
        if self.durability == Durability::None || self.set == durability {
            return;
        }
        self.connection.set_synchronous(durability);
        self.set = durability;
    }

    /// Completes a commit: schedules a sync if it was relaxed, and runs a checkpoint if the log has
    /// become long.
    fn note_commit(&mut self) -> Result<()> {
        self.counts.commit();
        let copied = self.complete_report();
        if let (Durability::Relaxed, Some(commit_thread)) = (self.set, &self.commit_thread) {
            commit_thread.fall_behind();
        }
        self.checkpoint_if_long();
        copied
    }

    fn checkpoint_if_long(&mut self) {
        if self.commit_thread.is_some()
            && self.connection.log_pages() >= LOG_PAGES_MAX
            && !self.is_stopped()
            && self.may_checkpoint()
            && self.connection.checkpoint()
        {
            self.counts.checkpoint();
        }
    }

    /// Counts the syncs of `work`.
    pub(crate) fn counted<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = Syncs::of_thread();
        let done = work(self);
        let syncs = Syncs::since(before);
        self.counts.syncs(syncs.count());
        if syncs.failed() {
            self.stop();
        }
        done
    }

    /// Waits until all commits are on the disk. If that fails, writes are stopped: a second try
    /// would succeed although the pages were dropped.
    pub(crate) fn sync_log(&mut self) -> Result<()> {
        self.check_stopped()?;
        self.counted(|executor| executor.connection.sync_log())
            .map_err(|failure| fault::of(&failure))
    }

    /// Like [`Self::run`] for a write outside of a group.
    #[inline]
    pub(crate) fn run_alone(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<()> {
        if !operation.is_write() {
            return self.run(operation, sink, outcome);
        }
        self.check_writable()?;
        self.is_refused = false;
        self.wait_for(durability.unwrap_or(self.durability));
        self.counted(|executor| {
            let (before, started) = (Syncs::of_thread(), Instant::now());
            let done = executor.run(operation, sink, outcome);
            let syncs = Syncs::since(before);
            executor.note_alone(started);
            match done {
                Ok(()) if !syncs.failed() => {}
                Ok(()) => {
                    return Err(unknown("the folder or the file could not be synced to the disk"));
                }
                Err(error) => return Err(executor.alone_failed(error, syncs)),
            }
            executor.note_commit()
        })?;
        outcome.commit = self.take_committed();
        Ok(())
    }

    /// Like [`Self::commit`] for a session's transaction.
    pub(crate) fn commit_alone(
        &mut self,
        durability: Option<Durability>,
        outcome: &mut Outcome,
    ) -> Result<()> {
        self.wait_for(durability.unwrap_or(self.durability));
        let committed: Result<()> = self.counted(|executor| {
            let started = Instant::now();
            executor.commit()?;
            executor.note_alone(started);
            executor.note_commit()
        });
        committed?;
        outcome.commit = self.take_committed();
        Ok(())
    }

    fn note_alone(&self, started: Instant) {
        if let Some(commit_thread) = &self.commit_thread {
            commit_thread.note_alone(started.elapsed());
        }
    }

    /// Rolls back the transaction, if one is open. It cannot fail such that the transaction stays
    /// open: changes that SQLite cannot undo in memory are undone from the log when the file is
    /// opened.
    pub(crate) fn roll_back(&mut self) {
        if self.connection.in_transaction() {
            let _ = self.control(self.rollback);
        }
        self.forget_all_changes();
    }

    fn savepoint(&mut self, verb: Verb, number: u32) -> Result<Outcome> {
        self.shape.clear();
        let head = Head { verb, table: 0, fields: FieldSet::EMPTY, variant: number };
        let (words, step) = match verb {
            Verb::Savepoint => ("SAVEPOINT", SavepointStep::Set),
            Verb::Release => ("RELEASE", SavepointStep::Release),
            _ => ("ROLLBACK TO", SavepointStep::RollBack),
        };
        let place =
            self.statement(head, |_| (format!("{words} marmota_{number}"), Box::default()))?;
        self.control(self.statements.at(place).id)?;
        self.note_savepoint(step, number);
        Ok(Outcome::default())
    }

    /// Runs `work` so that all of its writes take effect or none: in a transaction, or in a
    /// savepoint of the open transaction.
    pub(crate) fn atomically<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let nested = self.connection.in_transaction();
        if nested {
            self.savepoint(Verb::Savepoint, SAVEPOINT_OF_MANY)?;
        } else {
            self.begin()?;
        }
        let mut undo = Undo { executor: self, nested, armed: true };
        let done = work(undo.executor)?;
        undo.armed = false;
        if nested {
            undo.executor.savepoint(Verb::Release, SAVEPOINT_OF_MANY)?;
        } else {
            // From here on the disk decides, not the budget.
            undo.executor.connection.end_budget();
            undo.executor.commit()?;
        }
        Ok(done)
    }
}

impl Work for Executor {
    type Job = (Write, Option<Arc<str>>);

    fn begin(&mut self) -> Result<bool> {
        match Self::begin(self) {
            Err(_) if self.take_refused() => Ok(false),
            done => done.map(|()| true),
        }
    }

    fn refused(&self) -> Error {
        match &self.file {
            Some((path, waited)) => lock_owner::busy(path, *waited),
            None => fault::busy(),
        }
    }

    fn is_open(&self) -> bool {
        self.connection.in_transaction()
    }

    fn run(&mut self, (write, actor): &Self::Job) -> Result<Outcome> {
        self.set_actor(actor.as_ref());
        write.with_operation(|operation| {
            let mut outcome = Outcome::default();
            Self::run(self, operation, &mut NoRows, &mut outcome).map(|()| outcome)
        })
    }

    fn commit(&mut self, durability: Durability, members: usize) -> Result<Option<NonZeroU64>> {
        self.wait_for(durability);
        self.counted(|executor| {
            let started = Instant::now();
            Self::commit(executor)?;
            if let (Durability::Full, Some(commit_thread)) = (durability, &executor.commit_thread) {
                commit_thread.note_wait(started.elapsed());
            }
            executor.counts.group(members);
            executor.note_commit()?;
            Ok(executor.take_committed())
        })
    }

    fn roll_back(&mut self) {
        Self::roll_back(self);
    }
}

/// Undoes what [`Executor::atomically`] did, also if a row source panics.
struct Undo<'l> {
    executor: &'l mut Executor,
    nested: bool,
    armed: bool,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        if self.nested {
            // These fail only if SQLite has already rolled back the whole transaction, which the
            // session checks.
            let _ = self.executor.savepoint(Verb::RollbackTo, SAVEPOINT_OF_MANY);
            let _ = self.executor.savepoint(Verb::Release, SAVEPOINT_OF_MANY);
        } else {
            self.executor.roll_back();
        }
    }
}
