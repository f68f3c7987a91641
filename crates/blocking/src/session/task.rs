//! An operation with owned values, and its execution on a thread.

use std::cell::OnceCell;
use std::num::NonZeroU64;
use std::sync::Arc;

use marmota_model::{FieldSet, FilterExpr, NoRows, Result, RowQuery, Table, Value};
use marmota_store::operation::{
    BatchMode, Link, OnConflict, Operation, Outcome, Write, owned_rows,
};
use marmota_store::sql::SqlCall;
use marmota_store::tables::KnownTables;

use super::exchange::{ChunkSink, ExchangeEnd};
use crate::executor::SqlExecutor;
use crate::failure;
use crate::shared::BlockingShared;

/// An operation with owned values.
pub(super) enum Task {
    Get(Arc<Table>, Value, FieldSet),
    List(Arc<Table>, Box<RowQuery>),
    Count(Arc<Table>, Option<FilterExpr>),
    Write(Box<Write>),
    InsertMany(Arc<Table>, Vec<Vec<Value>>, OnConflict),
    UpdateMany(Arc<Table>, Vec<Vec<Value>>),
    Batch(Vec<Write>, Vec<Link>, BatchMode),
    Sql { text: String, values: Vec<Value>, writes: bool, unaudited: bool },
    Savepoint(u32),
    Release(u32),
    RollbackTo(u32),
}

/// The result of a task.
pub(super) enum Done {
    One(Outcome),
    /// The results of the writes, the result of the batch, and the number of its commit.
    Batch(Vec<Result<Outcome>>, Result<()>, Option<NonZeroU64>),
}

impl Task {
    /// Copies an operation.
    pub(super) fn of(tables: &mut KnownTables, operation: &mut Operation<'_>) -> Result<Self> {
        Ok(match operation {
            Operation::Get { table, key, fields } => {
                Self::Get(tables.kept(table)?, key.to_value(), *fields)
            }
            Operation::List { table, query } => {
                Self::List(tables.kept(table)?, Box::new((*query).clone()))
            }
            Operation::Count { table, filter } => Self::Count(tables.kept(table)?, filter.cloned()),
            Operation::InsertMany { table, rows, on_conflict } => {
                let kept = tables.kept(table)?;
                Self::InsertMany(kept, owned_rows(*rows, table.fields().len())?, *on_conflict)
            }
            Operation::UpdateMany { table, rows } => {
                Self::UpdateMany(tables.kept(table)?, owned_rows(*rows, table.fields().len())?)
            }
            Operation::Batch { writes, links, mode, .. } => {
                Self::Batch(writes.to_vec(), links.to_vec(), *mode)
            }
            Operation::Sql { statement, .. } => Self::Sql {
                text: statement.text.to_owned(),
                values: statement.values.to_vec(),
                writes: statement.writes,
                unaudited: statement.unaudited,
            },
            Operation::Savepoint(number) => Self::Savepoint(*number),
            Operation::Release(number) => Self::Release(*number),
            Operation::RollbackTo(number) => Self::RollbackTo(*number),
            operation => {
                let table = operation.table().ok_or_else(failure::unsupported)?;
                let table = tables.kept(table)?;
                let write =
                    Write::of_operation(operation, table).ok_or_else(failure::unsupported)?;
                Self::Write(Box::new(write))
            }
        })
    }

    /// Returns true if it may change rows.
    pub(super) const fn is_write(&self) -> bool {
        match self {
            Self::Get(..) | Self::List(..) | Self::Count(..) => false,
            Self::Sql { writes, .. } => *writes,
            _ => true,
        }
    }

    /// Returns true for a step of a transaction.
    pub(super) const fn is_of_transaction(&self) -> bool {
        matches!(self, Self::Savepoint(_) | Self::Release(_) | Self::RollbackTo(_))
    }
}

/// Executes a task outside of a transaction, on a connection of the pool.
pub(super) fn alone(
    shared: &Arc<BlockingShared>,
    task: Task,
    actor: Option<Arc<str>>,
    end: ExchangeEnd,
) {
    if task.is_write() {
        shared.wait_for_abandoned();
    }
    if !end.start() {
        return;
    }
    let mut connection = match shared.take() {
        Ok(connection) => connection,
        Err(error) => return end.finish(Err(error)),
    };
    if let Some(id) = connection.id() {
        end.set_connection(id);
    }
    let mut executor = SqlExecutor::new(&mut *connection, shared, false).with_actor(actor);
    let done = execute(&mut executor, task, &end);
    // A late request to end the statement would end another one.
    if !end.release_connection() {
        shared.pool.put(connection);
    }
    end.finish(done);
}

/// Executes a task on a connection.
pub(super) fn execute(
    executor: &mut SqlExecutor<'_>,
    task: Task,
    end: &ExchangeEnd,
) -> Result<Done> {
    executor.tables.learn();
    let columns = OnceCell::new();
    let mut sink = ChunkSink::new(end, &columns);
    let outcome = match task {
        Task::Get(table, key, fields) => {
            let mut get = Operation::Get { table: &table, key: key.as_ref(), fields };
            executor.run(&mut get, &mut sink)
        }
        Task::List(table, query) => {
            let mut list = Operation::List { table: &table, query: &query };
            executor.run(&mut list, &mut sink)
        }
        Task::Count(table, filter) => {
            let mut count = Operation::Count { table: &table, filter: filter.as_ref() };
            executor.run(&mut count, &mut NoRows)
        }
        Task::Write(write) => {
            write.with_operation(|operation| executor.run(operation, &mut NoRows))
        }
        Task::InsertMany(table, rows, on_conflict) => {
            executor.insert_rows(&table, &rows, on_conflict).map(|done| executor.with_commit(done))
        }
        Task::UpdateMany(table, rows) => {
            executor.update_rows(&table, &rows).map(|done| executor.with_commit(done))
        }
        Task::Batch(writes, links, mode) => {
            let mut results = Vec::new();
            let ended = executor.batch(&writes, &links, mode, &mut results);
            return Ok(Done::Batch(results, ended, executor.commit.take()));
        }
        Task::Sql { text, values, writes, unaudited } => {
            let statement = SqlCall {
                text: &text,
                values: &values,
                writes,
                unaudited,
                database: None,
                columns: &columns,
            };
            executor.run(&mut Operation::Sql { statement, lender: None }, &mut sink)
        }
        Task::Savepoint(number) => executor.run(&mut Operation::Savepoint(number), &mut NoRows),
        Task::Release(number) => executor.run(&mut Operation::Release(number), &mut NoRows),
        Task::RollbackTo(number) => executor.run(&mut Operation::RollbackTo(number), &mut NoRows),
    };
    sink.finish();
    outcome.map(Done::One)
}
