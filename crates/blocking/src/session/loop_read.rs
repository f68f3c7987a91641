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
use crate::loop_pool::{LoopConnection, LoopPool, SharedConnection, Taken, Turn, WAIT_MAX};
use crate::shared::{BlockingShared, InProgress};

/// What is read, and the rows that were lent.
enum Plan {
    List(Arc<Table>, Box<TableRead>, LentRows),
    Sql(RawRows),
}

/// A read in progress.
pub(super) struct LoopRead {
    plan: Plan,
    /// Its connection and its number there; `None` while it waits for a connection.
    connection: Option<(SharedConnection, u64)>,
    /// False until the other reads of the turn were added.
    is_sent: bool,
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
        let Some(plan) = Plan::of(pool, tables, operation)? else { return Ok(None) };
        let (place, since, in_progress) = (OwnedPlace::default(), Instant::now(), shared.enter());
        let mut read = Self { plan, connection: None, is_sent: false, place, since, in_progress };
        match connection.map(|connection| read.add(connection, operation)) {
            Some(Ok(false)) => Ok(None),
            Some(Err(failure)) => read.plan.ended(operation, Err(failure)).map(|_| None),
            Some(Ok(true)) | None => Ok(Some(read)),
        }
    }

    /// Adds the statement to a connection. Returns false if a thread has to execute it.
    fn add(
        &mut self,
        connection: SharedConnection,
        operation: &Operation<'_>,
    ) -> Result<bool, SqlFailure> {
        let mut inside = connection.lock();
        let added = match (&self.plan, operation) {
            (Plan::List(_, read, _), _) => inside.add(&read.sql.text, &read.sql.parameters)?,
            (Plan::Sql(_), Operation::Sql { statement, .. }) => {
                inside.add(statement.text, statement.values)?
            }
            _ => None,
        };
        drop(inside);
        self.connection = added.map(|number| (connection, number));
        Ok(added.is_some())
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
                Taken::Connection(connection) => match self.add(connection, operation) {
                    Ok(true) => {}
                    Ok(false) => return LoopPoll::HandOver,
                    Err(failure) => {
                        return LoopPoll::Ready(self.plan.ended(operation, Err(failure)));
                    }
                },
            }
        }
        if !std::mem::replace(&mut self.is_sent, true) {
            // Others that this thread submits before the next poll are sent with it.
            context.waker().wake_by_ref();
            return LoopPoll::Pending;
        }
        let Some((connection, number)) = self.connection.clone() else {
            return LoopPoll::HandOver;
        };
        let mut inside = connection.lock();
        match inside.turn(number, context.waker()) {
            Turn::Own => {}
            Turn::Lost => {
                let lost = inside.lost.clone();
                self.connection = None;
                return match lost {
                    Some(lost) if self.plan.has_lent() => {
                        LoopPoll::Ready(self.plan.ended(operation, Err(lost)))
                    }
                    _ => LoopPoll::HandOver,
                };
            }
            Turn::Other => {
                let stalls = inside.stalls();
                drop(inside);
                if stalls {
                    return LoopPoll::HandOver;
                }
                pool.set_alarm();
                return LoopPoll::Pending;
            }
        }
        let step = match self.plan.receive(&mut inside, tables, operation, sink) {
            Ok(step) => step,
            Err(error) => return LoopPoll::Ready(Err(error)),
        };
        match step {
            // Other requests of the thread have their turn.
            Ok(ReadStep::More) => context.waker().wake_by_ref(),
            Ok(ReadStep::Wait | ReadStep::Last) => inside.wait(number, context.waker()),
            Ok(ReadStep::Unwanted) => {
                drop(inside);
                return LoopPoll::Ready(self.plan.ended(operation, Ok(WriteCount::default())));
            }
            Ok(ReadStep::Done(count)) => return self.ended(pool, operation, Ok(count)),
            Err(failure) => return self.ended(pool, operation, Err(failure)),
        }
        LoopPoll::Pending
    }

    /// Ends a read that is not on its connection any more. [`Self::cancel`] ends the connection if only
    /// abandoned reads follow.
    fn ended(
        &mut self,
        pool: &LoopPool,
        operation: &Operation<'_>,
        done: Result<WriteCount, SqlFailure>,
    ) -> LoopPoll {
        pool.waiting.wake_next();
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

    /// Abandons a read, if it has not ended. If all reads of its connection are abandoned, the
    /// connection is ended.
    pub(super) fn cancel(&mut self, shared: &Arc<BlockingShared>, pool: &LoopPool) {
        self.place.leave();
        let Some((connection, number)) = self.connection.take() else { return };
        let Some(kill) = pool.abandon(&connection, number) else { return };
        let engine = Arc::clone(shared);
        let end = move || {
            engine.pool.ask(|_| Some(kill));
            drop(connection);
        };
        // If no thread is free, the statement ends by itself.
        drop(shared.control.result_of(end));
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

    /// Returns true if rows were lent.
    const fn has_lent(&self) -> bool {
        match self {
            Self::List(_, _, lent) => lent.count > 0,
            Self::Sql(rows) => rows.count > 0,
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
