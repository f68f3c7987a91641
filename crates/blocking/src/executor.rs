//! Executes operations on one connection, and waits for the server: on a thread of the pool.
//!
//! Reads are in `read.rs`, writes of one row in `write.rs`, of many in `write_many.rs` and
//! `update_many.rs`; `explain.rs` finds the reason of a refusal. This file contains what they share,
//! and transactions.

mod conflict;
pub(crate) mod exact;
mod explain;
pub(crate) mod insert_sql;
pub(crate) mod raw_sql;
pub(crate) mod read;
mod update_many;
mod write;
mod write_many;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, RowSink, Table, Value, ValueForm, ValueRef};
use marmota_store::backoff::Backoff;
use marmota_store::operation::{
    BatchMachine, BatchMode, BatchParts, Link, OnConflict, Operation, Outcome, Write, owned_rows,
};
use marmota_store::refusal;
use marmota_store::tables::KnownTables;

use crate::connection::{ReadAs, SqlConnection, Transacting, WriteCount};
use crate::dialect::Dialect;
use crate::failure::{self, FailureCause, SqlFailure, lost_race};
use crate::shared::BlockingShared;
use crate::statement::sql::Sql;

/// How long a write that conflicts with others is repeated.
const RETRY: Duration = Duration::from_secs(20);

/// The savepoint that is set before a statement that would fail the transaction.
const GUARD: &str = "marmota_guard";

/// A connection that executes operations.
pub(crate) struct SqlExecutor<'c> {
    pub(crate) connection: &'c mut dyn SqlConnection,
    shared: &'c BlockingShared,
    pub(crate) tables: KnownTables,
    /// True in a transaction, of the caller or of an operation.
    pub(crate) in_transaction: bool,
    /// The number of savepoints around the current statement: each has its own name.
    depth: u32,
    /// The actor of the changes that are recorded.
    actor: Option<Arc<str>>,
    /// The number of the commit of the last transaction that it has ended.
    pub(crate) commit: Option<NonZeroU64>,
}

impl<'c> SqlExecutor<'c> {
    pub(crate) fn new(
        connection: &'c mut dyn SqlConnection,
        shared: &'c BlockingShared,
        in_transaction: bool,
    ) -> Self {
        let tables = shared.known();
        Self { connection, shared, tables, in_transaction, depth: 0, actor: None, commit: None }
    }

    /// The same, with the actor of its writes. In a transaction, the connection has it already.
    pub(crate) fn with_actor(mut self, actor: Option<Arc<str>>) -> Self {
        self.actor = actor;
        self
    }

    /// Executes an operation. Outside of a transaction it is repeated if it conflicts with others.
    pub(crate) fn run(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Outcome> {
        self.execute(operation, sink).map(|outcome| self.with_commit(outcome))
    }

    /// Adds the number of the commit to the outcome of an operation.
    pub(crate) fn with_commit(&mut self, outcome: Outcome) -> Outcome {
        Outcome { commit: self.commit.take(), ..outcome }
    }

    fn execute(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Outcome> {
        match operation {
            Operation::Get { table, key, fields } => {
                self.get(table, *key, *fields, sink).map(Outcome::rows)
            }
            Operation::List { table, query } => {
                // Another node of a cluster may number them at the same time.
                self.repeat(|executor| executor.collect_changes(table))?;
                self.list(table, query, sink).map(Outcome::rows)
            }
            Operation::Count { table, filter } => self.count(table, *filter).map(Outcome::rows),
            Operation::Sql { statement, .. } => self.sql(statement, sink),
            Operation::InsertMany { table, rows, on_conflict } => {
                let rows = owned_rows(*rows, table.fields().len())?;
                self.insert_rows(table, &rows, *on_conflict)
            }
            Operation::UpdateMany { table, rows } => {
                let rows = owned_rows(*rows, table.fields().len())?;
                self.update_rows(table, &rows)
            }
            Operation::Savepoint(number) => {
                self.savepoint(0, &format!("m{number}"), lost_race).map(|()| Outcome::default())
            }
            Operation::Release(number) => {
                self.end_savepoint(1, &format!("m{number}")).map(|()| Outcome::default())
            }
            Operation::RollbackTo(number) => {
                self.end_savepoint(2, &format!("m{number}")).map(|()| Outcome::default())
            }
            write => self.repeat(|executor| match executor.is_recorded(write) {
                true => executor.alone(Transacting::Committed, |executor| executor.write(write)),
                false => executor.write(write),
            }),
        }
    }

    /// Returns true for a write outside of a transaction whose changes are recorded, and which opens
    /// no transaction itself.
    fn is_recorded(&self, write: &Operation<'_>) -> bool {
        let is_single = match write {
            Operation::Insert { on_conflict, .. } => *on_conflict == OnConflict::Refuse,
            other => !matches!(other, Operation::Increment { .. }),
        };
        if !is_single {
            return false;
        }
        let recorder = self.shared.feed().filter(|_| !self.in_transaction);
        let recorder = recorder.map(|feed| &feed.recorder);
        recorder.zip(write.table()).is_some_and(|(of, table)| of.named(table.name()).is_some())
    }

    /// Numbers the changes of other programs before the table of commits is read.
    fn collect_changes(&mut self, table: &Table) -> Result<()> {
        match self.shared.feed() {
            Some(feed) if !self.in_transaction && feed.recorder.table().name() == table.name() => {
                feed.collect(self.connection)
            }
            _ => Ok(()),
        }
    }

    /// Inserts rows, all or none.
    pub(crate) fn insert_rows(
        &mut self,
        table: &Table,
        rows: &[Vec<Value>],
        on_conflict: OnConflict,
    ) -> Result<Outcome> {
        self.repeat(|executor| executor.insert_many(table, rows, on_conflict))
    }

    /// Updates rows by their keys, all or none.
    pub(crate) fn update_rows(&mut self, table: &Table, rows: &[Vec<Value>]) -> Result<Outcome> {
        self.repeat(|executor| executor.update_many(table, rows))
    }

    fn write(&mut self, write: &Operation<'_>) -> Result<Outcome> {
        match write {
            Operation::Insert { table, row, on_conflict: OnConflict::Refuse } => {
                self.insert(table, row)
            }
            Operation::Insert { table, row, on_conflict } => {
                self.insert_over(table, row, *on_conflict)
            }
            Operation::Update { table, key, row, version } => {
                self.update(table, *key, row, *version)
            }
            Operation::Increment { table, key, field, by, stamp } => {
                self.increment(table, *key, *field, *by, *stamp)
            }
            Operation::Delete { table, key, version } => self.delete(table, *key, *version),
            Operation::DeleteWhere { table, filter } => self.delete_where(table, *filter),
            _ => Err(failure::unsupported()),
        }
    }

    /// Executes the steps of a batch, all in one transaction.
    pub(crate) fn batch(
        &mut self,
        writes: &[Write],
        links: &[Link],
        mode: BatchMode,
        results: &mut Vec<Result<Outcome>>,
    ) -> Result<()> {
        let has_steps = writes.iter().any(Write::is_of_steps);
        self.repeat(|executor| {
            let run = |executor: &mut Self, results: &mut Vec<Result<Outcome>>| {
                results.clear();
                let parts = BatchParts { writes, links, once: None, mode, results };
                let mut lost = false;
                let done = BatchMachine::run(parts, |step, sink| {
                    let done = executor.execute(step, sink);
                    done.inspect_err(|error| lost |= error.is_retryable())
                });
                // The server has rolled back the writes before that one, too.
                if lost { Err(failure::lost_race()) } else { done }
            };
            if executor.in_transaction {
                return executor.within(|executor| run(executor, results));
            }
            // Reads before a write hold what they have read.
            let how = if has_steps { Transacting::Serializable } else { Transacting::Committed };
            executor.alone(how, |executor| run(executor, results))
        })
    }

    /// Runs `work` again if it conflicts with others, unless a transaction is open.
    fn repeat<T>(&mut self, mut work: impl FnMut(&mut Self) -> Result<T>) -> Result<T> {
        let (mut backoff, until) = (
            Backoff::new(Duration::from_micros(500), Duration::from_millis(32)),
            Instant::now() + RETRY,
        );
        loop {
            match work(self) {
                Err(error)
                    if error.is_retryable() && !self.in_transaction && Instant::now() < until =>
                {
                    std::thread::sleep(backoff.pause());
                }
                done => return done,
            }
        }
    }

    /// Runs statements that take effect together or not at all.
    fn atomically<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        match self.in_transaction {
            true => self.within(work),
            false => self.alone(Transacting::Committed, work),
        }
    }

    /// Runs `work` in a transaction.
    fn alone<T>(
        &mut self,
        how: Transacting,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.begin(how)?;
        self.in_transaction = true;
        let done = self.set_actor(true).and_then(|()| work(self));
        self.in_transaction = false;
        match done {
            Ok(done) => self.end(how, true).map(|()| done),
            Err(error) => {
                // The first error explains more than one of the rollback.
                let _ = self.end(how, false).and_then(|()| self.set_actor(false));
                Err(error)
            }
        }
    }

    /// Sets the actor of the connection for the transaction, or removes it.
    fn set_actor(&mut self, is_set: bool) -> Result<()> {
        match (self.shared.feed(), &self.actor) {
            (Some(feed), Some(actor)) => {
                feed.set_actor(self.connection, Some(&**actor).filter(|_| is_set))
            }
            _ => Ok(()),
        }
    }

    /// Runs `work` in the open transaction, and undoes only its statements if it fails.
    fn within<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let savepoint = format!("marmota_{}", self.depth);
        self.savepoint(0, &savepoint, lost_race)?;
        self.depth += 1;
        let done = work(self);
        self.depth -= 1;
        // Without its savepoint the transaction is gone: a node of a cluster rolls it back at any
        // time, if a commit of another node conflicts with it.
        match &done {
            Ok(_) => self.savepoint(1, &savepoint, lost_race)?,
            // The server has rolled back the whole transaction.
            Err(error) if error.is_retryable() => {}
            Err(_) => self.savepoint(2, &savepoint, lost_race)?,
        }
        done
    }

    /// Begins a transaction.
    pub(crate) fn begin(&mut self, how: Transacting) -> Result<()> {
        self.connection.begin(how).map_err(|failure| failure.error())
    }

    fn end(&mut self, how: Transacting, commits: bool) -> Result<()> {
        self.commit = self.shared.end(self.connection, how, commits)?;
        Ok(())
    }

    /// Executes the statement `at` of [`Dialect::savepoints`] with a savepoint of the caller, which
    /// may not exist.
    fn end_savepoint(&mut self, at: usize, name: &str) -> Result<()> {
        let missing = refusal::no_savepoint;
        if !self.dialect().guards_savepoints {
            return self.savepoint(at, name, missing);
        }
        // A success releases the guard, which was set later.
        self.savepoint(0, GUARD, lost_race)?;
        let done = self.savepoint(at, name, missing);
        if done.is_err() {
            self.savepoint(2, GUARD, lost_race)?;
            self.savepoint(1, GUARD, lost_race)?;
        }
        done
    }

    /// Executes the statement `at` of [`Dialect::savepoints`]. `missing` is the error if there is no
    /// such savepoint.
    fn savepoint(&mut self, at: usize, name: &str, missing: fn() -> Error) -> Result<()> {
        let sql = self.dialect().savepoints[at];
        if sql.is_empty() {
            return Ok(());
        }
        self.connection.execute(&sql.replace("{}", name)).map_err(|failure| match failure.cause {
            FailureCause::NoSavepoint => missing(),
            _ => failure.error(),
        })
    }

    fn dialect(&self) -> &'static Dialect {
        self.connection.dialect()
    }

    /// Executes a statement without rows.
    fn written(&mut self, sql: &Sql) -> Result<WriteCount, SqlFailure> {
        self.connection.run(&sql.text, &sql.parameters, ReadAs::Forms(&[]), &mut |_| true)
    }

    /// Executes a statement; returns its rows of integers, of which there are few.
    fn integers(&mut self, sql: &Sql) -> Result<Vec<Option<i64>>, SqlFailure> {
        let mut rows = Vec::new();
        let mut take = |row: &[Option<ValueRef<'_>>]| {
            rows.push(row.first().copied().flatten().and_then(|value| value.as_int()));
            true
        };
        let forms = ReadAs::Forms(&[ValueForm::Int]);
        self.connection.run(&sql.text, &sql.parameters, forms, &mut take)?;
        Ok(rows)
    }

    /// Checks that a table was prepared.
    fn check(&mut self, table: &Table) -> Result<()> {
        self.tables.number(table).map(drop)
    }
}

/// Returns the values of a row for one call.
fn borrowed(row: &[Value]) -> Vec<ValueRef<'_>> {
    row.iter().map(Value::as_ref).collect()
}

/// Returns the error of an operation on more values than a statement can have.
pub(crate) fn too_many(count: usize, dialect: &Dialect) -> Error {
    let message = format!(
        "the operation has {count} values, but a statement of {} has at most {}: divide it",
        dialect.name, dialect.limits.parameters
    );
    Error::new(ErrorKind::Invalid, message)
}
