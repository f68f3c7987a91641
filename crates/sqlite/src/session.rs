//! A session: accepts operations and chooses the connection that executes them.
//!
//! Reads use the session's own connection, which sees the last commit and never waits; writes use
//! the writing connection. In a transaction, and if the file has only one connection, reads use
//! that as well.
//!
//! A write to a file joins a group (`group_commit.rs`): in `submit` if the writer is free. It waits
//! for the commit with a ticket: the first poll lets other writes join, the second leads. Without
//! groups, a write is executed alone in its turn. Operations that exceed their budget are in
//! `session/long.rs`.

mod locked;
pub(crate) mod logged_file;
mod long;
pub(crate) mod offloaded;
pub(crate) mod shared;
mod shared_reads;
pub(crate) mod wait;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, RowSink, Value, ValueRef};
use marmota_store::Durability;
use marmota_store::engine::{Session, Submitted, Ticket};
use marmota_store::in_flight::InFlight;
use marmota_store::operation::{Operation, Outcome, Write};
use marmota_store::refusal;
use marmota_store::wait::QueuePlace;

use crate::commit::write_lock::OwnedWriteGuard;
use crate::executor::Executor;
use crate::executor::read_budget::Ended;
use crate::fault::busy;
use crate::session::offloaded::{OffloadedOperation, OnConnection};
use crate::session::shared::{Reader, Shared};
use crate::session::shared_reads::SharedReads;
use crate::session::wait::{Member, Wait};
use marmota_store::tables::KnownTables;

use crate::commit::group_commit::closed;

/// A session on an SQLite database.
pub(crate) struct SqliteSession {
    shared: Arc<Shared>,
    /// Its own connection, after its first read.
    reader: Option<Arc<Reader>>,
    transaction: Option<OwnedWriteGuard<Executor>>,
    /// The offloaded operation that has the transaction's connection.
    away: Option<Arc<OffloadedOperation>>,
    waiting: InFlight<Wait>,
    tables: KnownTables,
    /// The actor of the next writes, if changes are recorded.
    actor: Option<Arc<str>>,
    /// Reads by key of one call, which share a snapshot.
    shared_reads: Option<SharedReads>,
}

/// The state of an operation after an attempt.
enum Attempt {
    Done(Result<()>),
    /// It joined a group.
    Member(Member),
    /// It must wait for its turn.
    Wait,
    /// It continues on a helper thread.
    Offloaded(Arc<OffloadedOperation>),
    /// It must wait for the transaction's connection.
    Away,
    /// A lock of others prevents reading the file.
    Locked,
}

impl SqliteSession {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let tables = shared.known_tables();
        Self {
            shared,
            reader: None,
            transaction: None,
            away: None,
            waiting: InFlight::new(),
            tables,
            actor: None,
            shared_reads: None,
        }
    }

    /// Executes an operation if its turn has come.
    #[inline]
    fn attempt(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Attempt {
        if self.shared.is_closed() {
            return Attempt::Done(Err(closed()));
        }
        if self.away.is_some() && !self.is_back() {
            if matches!(operation, Operation::Rollback) {
                self.end();
                return Attempt::Done(Ok(()));
            }
            return Attempt::Away;
        }
        if self.transaction.is_some() {
            return self.in_transaction(durability, operation, sink, outcome);
        }
        if !operation.is_write() {
            if !self.shared.one_connection {
                return self.read(operation, sink, outcome);
            }
            if !matches!(operation, Operation::Get { .. }) {
                return self.read_on_writer(operation, sink, outcome);
            }
        }
        match operation {
            Operation::Begin => match self.shared.writer.try_lock_owned() {
                Some(guard) => self.begin(guard),
                None => Attempt::Wait,
            },
            Operation::Commit
            | Operation::Rollback
            | Operation::Savepoint(_)
            | Operation::Release(_)
            | Operation::RollbackTo(_) => Attempt::Done(Err(refusal::no_transaction())),
            Operation::DeleteWhere { .. } | Operation::Sql { .. } => {
                self.write_in_budget(durability, operation, sink, outcome)
            }
            operation if self.shared.groups() => self.join(durability, operation, sink, outcome),
            operation => {
                let Some(mut guard) = self.shared.writer.try_lock_now() else {
                    return Attempt::Wait;
                };
                let Some(executor) = guard.executor() else { return Attempt::Done(Err(closed())) };
                executor.set_actor(self.actor.as_ref());
                let done = executor.run_alone(durability, operation, sink, outcome);
                if done.is_err() && executor.take_refused() {
                    guard.refused();
                    return Attempt::Wait;
                }
                guard.begun();
                Attempt::Done(done)
            }
        }
    }

    /// Executes an operation in a group, or queues it for one.
    fn join(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Attempt {
        let durability = durability.unwrap_or(self.shared.options.durability);
        let Some(mut guard) = self.shared.writer.try_lock_now() else {
            return self.enqueue(durability, operation);
        };
        if !operation.is_write() {
            // It shares the connection, and must not see changes that may be rolled back.
            guard.settle();
            return Attempt::Done(match guard.executor() {
                Some(executor) => executor.run(operation, sink, outcome),
                None => Err(closed()),
            });
        }
        let joined = guard.join(durability, |executor| {
            executor.set_actor(self.actor.as_ref());
            let mut outcome = Outcome::default();
            executor.run(operation, sink, &mut outcome).map(|()| outcome)
        });
        match joined {
            Ok(Some(member)) => Attempt::Member(member),
            Ok(None) => {
                guard.refused();
                self.enqueue(durability, operation)
            }
            Err(error) => Attempt::Done(Err(error)),
        }
    }

    /// Queues a write for the next leader, or makes it wait for its turn.
    fn enqueue(&mut self, durability: Durability, operation: &Operation<'_>) -> Attempt {
        let job = match copy(&mut self.tables, operation) {
            Some(Ok(job)) => (job, self.actor.clone()),
            Some(Err(error)) => return Attempt::Done(Err(error)),
            None => return Attempt::Wait,
        };
        match self.shared.writer.enqueue(job, durability, self.until()) {
            Ok(member) => Attempt::Member(member),
            Err(error) => {
                self.shared.counts.refuse();
                Attempt::Done(Err(error))
            }
        }
    }

    fn read(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Attempt {
        if self.shared_reads.is_some() {
            self.share_or_end(operation);
        }
        let reader = match &self.reader {
            Some(reader) => reader,
            None => match self.shared.take_reader(false) {
                Ok(reader) => self.reader.insert(reader),
                Err(error) if error.kind() == ErrorKind::Busy => return Attempt::Locked,
                Err(error) => return Attempt::Done(Err(error)),
            },
        };
        let (ended, is_locked) = match &mut *reader.lock() {
            Some(executor) => {
                let ended = match operation {
                    Operation::Get { .. } => Ended::Done(executor.run(operation, sink, outcome)),
                    _ => executor.run_in_budget(operation, sink, outcome),
                };
                (ended, executor.take_refused())
            }
            None => (Ended::Done(Err(closed())), false),
        };
        // The engine was closed while this connection was in use.
        if self.shared.is_closed() {
            reader.lock().take();
        }
        match ended {
            Ended::Done(Err(_)) if is_locked => Attempt::Locked,
            Ended::Done(result) => Attempt::Done(result),
            Ended::Over(over) => self.continue_read(operation, over),
            Ended::Late => Attempt::Done(Err(self.read_late())),
        }
    }

    fn begin(&mut self, mut guard: OwnedWriteGuard<Executor>) -> Attempt {
        let Some(executor) = guard.executor() else { return Attempt::Done(Err(closed())) };
        match executor.begin() {
            Err(_) if executor.take_refused() => {
                guard.refused();
                Attempt::Wait
            }
            Err(error) => Attempt::Done(Err(error)),
            Ok(()) => {
                guard.begun();
                self.transaction = Some(guard);
                Attempt::Done(Ok(()))
            }
        }
    }

    fn in_transaction(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Attempt {
        match operation {
            Operation::Begin => {
                return Attempt::Done(Err(refusal::transaction_is_open()));
            }
            Operation::Rollback => {
                self.end();
                return Attempt::Done(Ok(()));
            }
            _ => {}
        }
        if matches!(operation, Operation::Commit)
            && let Some(attempt) = self.commit_on_helper(durability)
        {
            return attempt;
        }
        match self.step_in_transaction(durability, operation, sink, outcome) {
            Ok(Ended::Done(result)) => Attempt::Done(result),
            Ok(Ended::Over(over)) => match self.transaction.take() {
                Some(guard) => {
                    self.offload(durability, operation, over, OnConnection::Transaction(guard))
                }
                None => Attempt::Done(Err(closed())),
            },
            Ok(Ended::Late) => Attempt::Done(Err(self.read_late())),
            Err(error) => Attempt::Done(Err(error)),
        }
    }

    fn step_in_transaction(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Ended> {
        let actor = self.actor.clone();
        let executor = self.executor()?;
        executor.set_actor(actor.as_ref());
        if !executor.connection.in_transaction() {
            if matches!(operation, Operation::Commit) {
                self.end();
            }
            return Err(Error::new(
                ErrorKind::Engine,
                "the transaction was rolled back because one of its operations failed; begin a new \
                 one",
            ));
        }
        if matches!(operation, Operation::Commit) {
            let committed = executor.commit_alone(durability, outcome);
            self.end();
            return Ok(Ended::Done(committed));
        }
        Ok(match operation {
            Operation::DeleteWhere { .. } => executor.step_in_budget(operation, sink, outcome),
            Operation::Sql { statement, .. } if statement.writes => {
                executor.step_in_budget(operation, sink, outcome)
            }
            Operation::List { .. }
            | Operation::ListEach { .. }
            | Operation::Group { .. }
            | Operation::Count { .. }
            | Operation::Sql { .. } => executor.run_in_budget(operation, sink, outcome),
            operation => Ended::Done(executor.run(operation, sink, outcome)),
        })
    }

    fn executor(&mut self) -> Result<&mut Executor> {
        self.transaction.as_mut().and_then(OwnedWriteGuard::executor).ok_or_else(closed)
    }

    /// Ends the transaction and rolls back uncommitted changes.
    fn end(&mut self) {
        let left = self.away.take().and_then(|offloaded| offloaded.leave());
        let Some(mut guard) = self.transaction.take().or(left) else { return };
        if let Some(executor) = guard.executor() {
            executor.roll_back();
        }
    }

    const fn member(member: Member) -> Wait {
        Wait::Member { member, has_yielded: false }
    }

    fn until(&self) -> Instant {
        Instant::now() + self.shared.busy_timeout()
    }

    /// Polls an operation that waits for its turn.
    fn poll_turn(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        waker: &Waker,
    ) -> Poll<Result<()>> {
        let Some(Wait::Turn { until, place, durability }) = self.waiting.get_mut(ticket) else {
            return Poll::Ready(Err(refusal::not_waiting()));
        };
        let (until, durability) = (*until, *durability);
        self.shared.writer.wait(place, waker, until);
        // Only now: this detects a turn that became free before the waker was registered.
        match self.attempt(durability, operation, sink, outcome) {
            Attempt::Done(result) => {
                self.forget(ticket);
                Poll::Ready(result)
            }
            Attempt::Member(member) => {
                // Its turn may not have come, but it is in the queue now.
                self.change(ticket, Self::member(member));
                self.poll_member(ticket, outcome, waker)
            }
            Attempt::Wait if Instant::now() >= until => {
                self.forget(ticket);
                Poll::Ready(Err(self.late()))
            }
            Attempt::Wait => Poll::Pending,
            Attempt::Offloaded(offloaded) => {
                self.change(ticket, Wait::Offloaded(offloaded, 0));
                self.poll_offloaded(ticket, operation, sink, outcome, waker)
            }
            // A transaction was begun on this session meanwhile.
            Attempt::Away => {
                self.change(ticket, Wait::Away { durability });
                self.poll_away(ticket, operation, sink, outcome, waker)
            }
            Attempt::Locked => {
                let wait = self.locked();
                self.change(ticket, wait);
                self.poll_locked(ticket, operation, sink, outcome, waker)
            }
        }
    }

    /// Polls a write in a group or in its queue.
    fn poll_member(
        &mut self,
        ticket: Ticket,
        outcome: &mut Outcome,
        waker: &Waker,
    ) -> Poll<Result<()>> {
        let Some(Wait::Member { member, has_yielded }) = self.waiting.get_mut(ticket) else {
            return Poll::Ready(Err(refusal::not_waiting()));
        };
        if let Some(result) = member.poll(waker) {
            return self.finish(ticket, result, outcome);
        }
        if !std::mem::replace(has_yielded, true) {
            // Other tasks that are ready on this thread join before the commit.
            waker.wake_by_ref();
            return Poll::Pending;
        }
        let member = Arc::clone(member);
        if member.is_late() && member.give_up() {
            self.forget(ticket);
            return Poll::Ready(Err(self.late()));
        }
        let commit_thread = &self.shared.commit_thread;
        if commit_thread.is_better() && commit_thread.ask_to_lead() {
            return Poll::Pending;
        }
        self.shared.writer.lead(&member);
        match member.poll(waker) {
            Some(result) => self.finish(ticket, result, outcome),
            None => {
                self.shared.writer.have_deadline(|| member.until().unwrap_or_else(|| self.until()));
                Poll::Pending
            }
        }
    }

    /// Returns the error of an operation that has waited too long.
    #[cold]
    fn late(&self) -> Error {
        match self.shared.writer.was_refused_lately() {
            true => self.shared.locked_by_other(),
            false => busy(),
        }
    }

    /// Makes an operation wait for something other than its turn.
    fn change(&mut self, ticket: Ticket, wait: Wait) {
        if let Some(known) = self.waiting.get_mut(ticket)
            && let Wait::Turn { mut place, .. } = std::mem::replace(known, wait)
        {
            self.shared.writer.forget(&mut place);
        }
    }

    fn finish(
        &mut self,
        ticket: Ticket,
        result: Result<Outcome>,
        outcome: &mut Outcome,
    ) -> Poll<Result<()>> {
        self.waiting.remove(ticket);
        Poll::Ready(result.map(|done| *outcome = done))
    }

    /// Removes a ticket.
    fn forget(&mut self, ticket: Ticket) {
        match self.waiting.remove(ticket) {
            Some(Wait::Turn { mut place, .. }) => self.shared.writer.forget(&mut place),
            Some(Wait::Member { member, .. }) => self.abandon(&member),
            Some(Wait::Offloaded(offloaded, _)) => offloaded.cancel(),
            _ => {}
        }
    }

    /// Abandons a member: it is removed from the queue, or committed with its group.
    fn abandon(&mut self, member: &Member) {
        member.leave();
        // It may have been woken instead of another one.
        self.shared.writer.pass_on();
        let mut waits = self.waiting.iter();
        let is_unfinished =
            |wait: &Wait| matches!(wait, Wait::Member { member, .. } if !member.is_done());
        if member.is_done() || waits.any(|(_, wait)| is_unfinished(wait)) {
            return;
        }
        // It was executed, and perhaps no session is left to commit it. If another one has the
        // lock, that one commits the group: it leads, has joined the group, or commits it before
        // its next operation.
        if self.shared.writer.lead_within(Duration::ZERO).is_none() {
            self.shared.commit_thread.ask_to_lead();
        }
    }
}

impl Session for SqliteSession {
    fn submit(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        let wait = match self.attempt(durability, operation, sink, outcome) {
            Attempt::Done(result) => return result.map(|()| Submitted::Done),
            Attempt::Member(member) => Self::member(member),
            Attempt::Offloaded(offloaded) => Wait::Offloaded(offloaded, 0),
            Attempt::Away => Wait::Away { durability },
            Attempt::Locked => self.locked(),
            Attempt::Wait => {
                let room = self.shared.writer.check_room();
                room.inspect_err(|_| self.shared.counts.refuse())?;
                Wait::Turn { until: self.until(), place: QueuePlace::default(), durability }
            }
        };
        Ok(Submitted::Waiting(self.waiting.add(wait)))
    }

    fn poll(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        match self.waiting.get_mut(ticket) {
            Some(Wait::Read { .. }) => {
                self.poll_locked(ticket, operation, sink, outcome, context.waker())
            }
            Some(Wait::Turn { .. }) => {
                self.poll_turn(ticket, operation, sink, outcome, context.waker())
            }
            Some(Wait::Member { .. }) => self.poll_member(ticket, outcome, context.waker()),
            Some(Wait::Offloaded(..)) => {
                self.poll_offloaded(ticket, operation, sink, outcome, context.waker())
            }
            Some(Wait::Away { .. }) => {
                self.poll_away(ticket, operation, sink, outcome, context.waker())
            }
            None => Poll::Ready(Err(refusal::not_waiting())),
        }
    }

    fn share_snapshot(&mut self, is_shared: bool) {
        self.set_shared(is_shared);
    }

    fn set_actor(&mut self, actor: Option<&Arc<str>>) {
        self.actor = actor.cloned();
    }

    fn cancel(&mut self, ticket: Ticket) {
        if matches!(self.waiting.get_mut(ticket), Some(Wait::Offloaded(..))) {
            self.shared.counts.read_cancelled();
        }
        self.forget(ticket);
    }
}

impl Drop for SqliteSession {
    fn drop(&mut self) {
        self.end();
        while let Some(ticket) = self.waiting.any() {
            self.forget(ticket);
        }
    }
}

/// Returns a copy of a write of one row for the queue, or `None` for operations that cannot be
/// queued.
fn copy(tables: &mut KnownTables, operation: &Operation<'_>) -> Option<Result<Write>> {
    let row_of = |row: &[ValueRef<'_>]| row.iter().map(ValueRef::to_value).collect::<Vec<Value>>();
    let mut with = |table| tables.kept(table);
    Some(match operation {
        Operation::Insert { table, row, on_conflict } => with(table).map(|table| {
            let on_conflict = *on_conflict;
            Write::Insert { table, row: row_of(row), on_conflict }
        }),
        Operation::Update { table, key, row, version } => with(table).map(|table| Write::Update {
            table,
            key: key.to_value(),
            row: row_of(row),
            version: *version,
        }),
        Operation::Increment { table, key, field, by, stamp } => with(table).map(|table| {
            let (key, by, stamp) = (key.to_value(), by.to_value(), stamp.to_value());
            Write::Increment { table, key, field: *field, by, stamp }
        }),
        Operation::Delete { table, key, version } => {
            with(table).map(|table| Write::Delete { table, key: key.to_value(), version: *version })
        }
        _ => return None,
    })
}
