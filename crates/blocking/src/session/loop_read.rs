//! A read that an event loop executes itself, on a connection of its session.

use std::sync::Arc;
use std::task::Context;
use std::time::Instant;

use marmota_model::{Result, RowSink, Table, ValueRef};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::tables::KnownTables;
use marmota_store::wait::OwnedPlace;

use crate::connection::{ColumnName, ReadAs, ReadStep, WriteCount};
use crate::executor::exact::is_one_read;
use crate::executor::raw_sql::{RawRows, check_sql, describe};
use crate::executor::read::{LentRows, TableRead, check_size};
use crate::failure::{self, SqlFailure};
use crate::loop_pool::{LoopConnection, LoopPool, Taken, WAIT_MAX};
use crate::shared::{BlockingShared, InProgress};

/// What is read, and the rows that were lent.
enum Plan {
    List(Arc<Table>, Box<TableRead>, LentRows),
    Sql(RawRows),
}

/// A read in progress.
pub(super) struct LoopRead {
    plan: Plan,
    /// `None` while it waits for a connection.
    connection: Option<LoopConnection>,
    place: OwnedPlace,
    since: Instant,
    #[expect(dead_code, reason = "counts until it is dropped")]
    in_progress: InProgress,
}

/// The result of a poll.
pub(super) enum LoopPoll {
    Pending,
    Ready(Result<Outcome>),
    /// A thread has to execute it.
    HandOver,
}

impl LoopRead {
    /// Begins a read, if there is a connection or one is free soon.
    pub(super) fn begin(
        shared: &Arc<BlockingShared>,
        pool: &Arc<LoopPool>,
        tables: &mut KnownTables,
        operation: &Operation<'_>,
    ) -> Result<Option<Self>> {
        let is_read = match operation {
            Operation::List { table, query } => {
                let feed = shared.feed().map(|feed| feed.recorder.table());
                let is_one_read = query.filter.as_ref().is_none_or(is_one_read);
                // A read of the commits numbers the changes of other programs first.
                is_one_read
                    && query.limit != Some(0)
                    && feed.is_none_or(|feed| feed.name() != table.name())
            }
            Operation::Sql { statement, .. } => !statement.writes,
            _ => false,
        };
        if !is_read {
            return Ok(None);
        }
        shared.check_open()?;
        let connection = match pool.take(true) {
            Taken::Connection(connection) => Some(connection),
            Taken::Wait => None,
            Taken::HandOver => return Ok(None),
        };
        let plan = Plan::of(pool, tables, operation);
        let Ok(Some(plan)) = plan else {
            connection.into_iter().for_each(|connection| pool.put(connection));
            return plan.map(|_| None);
        };
        let (place, since, in_progress) = (OwnedPlace::default(), Instant::now(), shared.enter());
        let mut read = Self { plan, connection: None, place, since, in_progress };
        match connection.map(|connection| read.send(pool, connection, operation)) {
            Some(Ok(false)) => Ok(None),
            Some(Err(failure)) => read.plan.ended(operation, Err(failure)).map(|_| None),
            Some(Ok(true)) | None => Ok(Some(read)),
        }
    }

    /// Sends the statement. Returns false if a thread has to execute it.
    fn send(
        &mut self,
        pool: &LoopPool,
        mut connection: LoopConnection,
        operation: &Operation<'_>,
    ) -> Result<bool, SqlFailure> {
        let sent = match (&self.plan, operation) {
            (Plan::List(_, read, _), _) => {
                connection.steps.send(&read.sql.text, &read.sql.parameters)
            }
            (Plan::Sql(_), Operation::Sql { statement, .. }) => {
                connection.steps.send(statement.text, statement.values)
            }
            _ => Ok(false),
        };
        match sent {
            Ok(true) => self.connection = Some(connection),
            Err(SqlFailure { breaks_connection: true, .. }) => drop(connection),
            _ => pool.put(connection),
        }
        sent
    }

    /// Continues a read.
    pub(super) fn poll(
        &mut self,
        pool: &Arc<LoopPool>,
        tables: &KnownTables,
        operation: &Operation<'_>,
        sink: &mut dyn RowSink,
        context: &Context<'_>,
    ) -> LoopPoll {
        if self.connection.is_none() {
            match self.take(pool, context) {
                Taken::Wait => return LoopPoll::Pending,
                Taken::HandOver => return LoopPoll::HandOver,
                Taken::Connection(connection) => match self.send(pool, connection, operation) {
                    Ok(true) => {}
                    Ok(false) => return LoopPoll::HandOver,
                    Err(failure) => {
                        return LoopPoll::Ready(self.plan.ended(operation, Err(failure)));
                    }
                },
            }
        }
        let Some(mut connection) = self.connection.take() else { return LoopPoll::HandOver };
        let done = match self.plan.receive(&mut connection, tables, operation, sink) {
            Ok(Ok(ReadStep::Done(count))) => Ok(count),
            Ok(Ok(step)) => {
                match step {
                    // Other requests of the thread have their turn.
                    ReadStep::More => context.waker().wake_by_ref(),
                    _ => connection.wait(context.waker()),
                }
                self.connection = Some(connection);
                return LoopPoll::Pending;
            }
            Ok(Err(failure)) => Err(failure),
            Err(error) => {
                pool.put(connection);
                return LoopPoll::Ready(Err(error));
            }
        };
        match &done {
            Err(SqlFailure { breaks_connection: true, .. }) => {
                drop(connection);
                pool.waiting.wake_next();
            }
            _ => pool.put(connection),
        }
        LoopPoll::Ready(self.plan.ended(operation, done))
    }

    /// Takes a connection, or waits for one.
    fn take(&mut self, pool: &Arc<LoopPool>, context: &Context<'_>) -> Taken {
        let mut taken = pool.take(false);
        if let Taken::Wait = taken {
            self.place.wait(&pool.waiting, context.waker());
            // One may have been put back before.
            taken = pool.take(false);
        }
        match taken {
            Taken::Wait if self.since.elapsed() < WAIT_MAX => pool.set_alarm(),
            Taken::Wait => taken = Taken::HandOver,
            _ => {}
        }
        if !matches!(taken, Taken::Wait) {
            self.place.leave();
        }
        taken
    }

    /// Cancels a read, and ends its statement.
    pub(super) fn cancel(mut self, shared: &Arc<BlockingShared>, pool: &LoopPool) {
        self.place.leave();
        let Some(connection) = self.connection.take() else { return };
        if connection.steps.is_idle() {
            return pool.put(connection);
        }
        let engine = Arc::clone(shared);
        let kill = move || {
            if let Some(id) = connection.steps.id() {
                engine.pool.kill(id);
            }
            drop(connection);
        };
        // If no thread is free, the statement ends by itself.
        drop(shared.control.result_of(kill));
        pool.waiting.wake_next();
    }
}

impl Plan {
    fn of(
        pool: &LoopPool,
        tables: &mut KnownTables,
        operation: &Operation<'_>,
    ) -> Result<Option<Self>> {
        match operation {
            Operation::List { table, query } => {
                let table = tables.kept(table)?;
                let Some(dialect) = pool.dialect() else { return Ok(None) };
                let rest = &mut |rest: &_| Ok(Clone::clone(rest));
                let read = TableRead::list(dialect, &table, query, rest)?;
                check_size(&read.sql)?;
                Ok(Some(Self::List(table, Box::new(read), LentRows::default())))
            }
            Operation::Sql { statement, .. } => {
                tables.learn();
                check_sql(statement, tables)?;
                Ok(Some(Self::Sql(RawRows::default())))
            }
            _ => Err(failure::unsupported()),
        }
    }

    /// Lends the rows that have arrived. The outer error is one of the operation.
    fn receive(
        &mut self,
        connection: &mut LoopConnection,
        tables: &KnownTables,
        operation: &Operation<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Result<ReadStep, SqlFailure>> {
        match (self, operation) {
            (Self::List(table, read, lent), _) => {
                let lending = &read.lending;
                let ready = lending.condition.as_ref().map(|it| it.asked(table)).transpose()?;
                let mut take = |values: &[Option<ValueRef<'_>>]| {
                    lending.lend(table, values, ready.as_ref(), lent, sink)
                };
                Ok(connection.receive(ReadAs::Forms(&read.forms), &mut take))
            }
            (Self::Sql(rows), Operation::Sql { statement, .. }) => {
                let mut columns = |names: Vec<ColumnName>| describe(statement, tables, names);
                let mut take = |values: &[Option<ValueRef<'_>>]| rows.lend(values, sink);
                Ok(connection.receive(ReadAs::Columns(&mut columns), &mut take))
            }
            _ => Err(failure::unsupported()),
        }
    }

    /// Returns the outcome, after the last row.
    fn ended(
        &mut self,
        operation: &Operation<'_>,
        done: Result<WriteCount, SqlFailure>,
    ) -> Result<Outcome> {
        match (self, operation) {
            (Self::List(_, _, lent), _) => lent.ended(done).map(Outcome::rows),
            (Self::Sql(rows), Operation::Sql { statement, .. }) => rows.ended(statement, done),
            _ => Err(failure::unsupported()),
        }
    }
}
