//! A session: accepts operations and chooses the connection that executes them.
//!
//! Reads use a connection for reads, writes one for writes, so that no read waits after a write
//! that waits for a lock. Both are shared; a transaction has an exclusive connection.
//!
//! A submitted operation is written to the connection's buffer. Its first poll lets others of the
//! same turn join; the next poll sends all of them together.

mod answer;
pub(crate) mod cluster_session;
mod connection_choice;
mod open_transaction;
pub(crate) mod other_processes;
mod probe;
pub(crate) mod replicas;
mod spare;
mod transaction;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, RowSink};
use marmota_store::Durability;
use marmota_store::engine::{Session, Submitted, Ticket};
use marmota_store::in_flight::InFlight;
use marmota_store::operation::{Keys, OnConflict, Operation, Outcome};
use marmota_store::refusal;
use marmota_store::wait::{OwnedPlace, WaitQueue};
use open_transaction::Open;
use spare::SpareOperations;

use crate::commands::command_batch::{CommandBatch, Role};
use crate::composer::Composer;
use crate::connection::cancel;
use crate::connection::slot::ConnectionSlot;
use crate::fault;
use crate::in_flight::recording::Recording;
use crate::in_flight::steps::{Steps, takes_steps};
use crate::in_flight::{Access, InFlightOperation, SlotUse, Stage, Task, may_leave_reader};
use crate::shared::Shared;
use crate::statement::controls::CONTROLS;

/// A session on a PostgreSQL database.
pub(crate) struct PostgresSession {
    shared: Arc<Shared>,
    composer: Composer,
    reader: Arc<ConnectionSlot>,
    writer: Arc<ConnectionSlot>,
    transaction: Option<Open>,
    /// The number of transactions that were begun here.
    begun: u64,
    /// The batch whose step is being submitted or polled.
    stepping: Option<Ticket>,
    /// The actor of the next writes.
    actor: Option<Arc<str>>,
    /// Where the number of its last commit is reported, for a session of a batch of steps.
    reports_commit: Option<Arc<AtomicU64>>,
    /// The time when a write last met a lock on the shared connection.
    met_lock: Option<Instant>,
    operations: InFlight<Box<InFlightOperation>>,
    spare: SpareOperations,
    /// Operations of its transactions that wait for their turn.
    waiting: Arc<WaitQueue>,
}

/// The result of a poll.
enum Step {
    Done(Result<()>),
    Wait,
    GoOn,
}

impl PostgresSession {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let (reader, writer) = shared.slots();
        let composer = Composer::new(&shared.catalog);
        Self {
            shared,
            composer,
            reader,
            writer,
            transaction: None,
            begun: 0,
            stepping: None,
            actor: None,
            reports_commit: None,
            met_lock: None,
            operations: InFlight::new(),
            spare: SpareOperations::default(),
            waiting: Arc::default(),
        }
    }

    /// Starts a batch of several steps, in the open transaction or on a session of its own.
    fn steps(&self) -> Steps {
        match &self.transaction {
            Some(open) => Steps::in_transaction(open.number),
            None => {
                let mut session = Self::new(Arc::clone(&self.shared));
                let commit = Arc::new(AtomicU64::new(0));
                session.actor.clone_from(&self.actor);
                session.reports_commit = Some(Arc::clone(&commit));
                Steps::on_session(Box::new(session), commit)
            }
        }
    }

    /// Returns true while a transaction is open.
    const fn has_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    fn until(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.shared.options.acquire_timeout_ms.into())
    }

    /// Converts an operation to calls.
    fn compose(
        &mut self,
        commands: &mut CommandBatch,
        operation: &mut Operation<'_>,
    ) -> Result<()> {
        let (composer, main) = (&mut self.composer, Role::Main(0));
        match operation {
            Operation::Get { table, key, fields } => composer.get(commands, table, *key, *fields),
            Operation::List { table, query } => composer.list(commands, table, query),
            Operation::ListEach { table, query, by, limit } => {
                composer.list_each(commands, table, query, (*by, *limit))
            }
            Operation::Group { table, query, result } => {
                composer.group(commands, (table, result), query)
            }
            Operation::Count { table, filter } => composer.count(commands, table, *filter),
            Operation::Estimate { table, filter } => composer.estimate(commands, table, *filter),
            Operation::Insert { table, row, on_conflict } => {
                composer.insert_over(commands, main, table, row, *on_conflict)
            }
            Operation::InsertMany { table, rows, on_conflict }
                if *on_conflict != OnConflict::Refuse =>
            {
                composer.insert_many_over(commands, table, *rows, *on_conflict)
            }
            Operation::InsertMany { table, rows, .. } => {
                composer.take_rows(commands, table, *rows)?;
                composer.insert_rows(commands, table)
            }
            Operation::Update { table, key, row, version } => {
                composer.update(commands, main, table, (*key, *version), row, 0)
            }
            Operation::UpdateMany { table, rows } => {
                commands.in_order = true;
                composer.update_many(commands, table, *rows)
            }
            Operation::Increment { table, key, field, by, stamp } => {
                composer.increment(commands, main, table, (*key, *field, *by, *stamp), 0)
            }
            Operation::Delete { table, key, version } => {
                composer.delete(commands, main, table, *key, *version, 0)
            }
            Operation::DeleteWhere { table, filter } => {
                composer.delete_where(commands, main, table, *filter)
            }
            Operation::Batch { writes, .. } => (0..)
                .zip(writes.iter())
                .try_for_each(|(at, write)| composer.write(commands, Role::Main(at), write)),
            _ => Err(Error::new(
                ErrorKind::Unsupported,
                "the PostgreSQL engine does not support \
                                                         this operation here",
            )),
        }
    }

    /// Returns a new operation for the slot of the transaction or of writes.
    fn running(&mut self, stage: Stage) -> Box<InFlightOperation> {
        let slot = match &self.transaction {
            Some(open) => Arc::clone(&open.slot),
            None => Arc::clone(&self.writer),
        };
        let until = self.until();
        let mut running =
            self.spare.take().unwrap_or_else(|| Box::new(InFlightOperation::new(&slot)));
        running.begin(&slot, stage, until, self.transaction.is_some());
        running.of_batch = self.stepping;
        running
    }

    fn begin_operation(
        &mut self,
        operation: &mut Operation<'_>,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        if let Some(controlled) = self.control(operation) {
            return controlled;
        }
        match &self.transaction {
            Some(open) if open.is_lost => return Err(fault::lost_race()),
            Some(_) => {}
            None => self.shared.check_open()?,
        }
        if takes_steps(operation) {
            let mut running = self.running(Stage::Control);
            running.steps = Some(Box::new(self.steps()));
            return Ok(Submitted::Waiting(self.operations.add(running)));
        }
        let mut running = self.running(InFlightOperation::first_stage(operation));
        if operation.is_write() {
            running.access = Access::Write;
        }
        if running.writes() && self.shared.feed().is_some() {
            running.recording = Some(self.recording(operation));
        }
        let links = matches!(operation, Operation::Batch { links, .. } if !links.is_empty());
        if links || matches!(running.stage, Stage::Each) {
            running.task = Task::Separate { has_begun: false };
            // No operation of others may be executed between its parts.
            if self.transaction.is_none() {
                running.slot_use = SlotUse::Wanted;
            }
        }
        if self.shared.options.has_one_primary() {
            self.check_primary();
        }
        if self.transaction.is_none() {
            if !running.writes() {
                running.slot = Arc::clone(&self.reader);
                running.shares_sync =
                    self.shared.options.group_reads && matches!(operation, Operation::Get { .. });
                if !matches!(operation, Operation::Get { .. }) {
                    running.access = Access::LongRead;
                }
                if may_leave_reader(operation) && self.reader_is_held_up() {
                    self.leave_shared(&mut running);
                }
            } else if running.slot_use == SlotUse::Shared && self.writer_stalls() {
                self.leave_shared(&mut running);
            }
        }
        let composed = match operation {
            // Only the first write: the others are composed in their turn.
            _ if links => Ok(()),
            Operation::Sql { statement, .. } => running.begin_sql(&mut self.composer, statement),
            _ => {
                let mut commands = std::mem::take(&mut running.commands);
                let composed = self.compose(&mut commands, operation);
                running.commands = commands;
                composed
            }
        };
        if links {
            if let Operation::Batch { results, .. } = operation {
                results.clear();
            }
            let _ = running.link(&mut self.composer, operation, 0);
        }
        if let Err(error) = composed {
            self.discard(running);
            return Err(error);
        }
        if running.access == Access::LongRead
            && running.slot_use != SlotUse::Exclusive
            && may_leave_reader(operation)
            && running.commands.calls.first().is_some_and(|call| call.text.is_long())
        {
            self.leave_shared(&mut running);
        }
        let is_empty = running.commands.calls.iter().all(|call| call.role == Role::Beside);
        if is_empty && !links && running.describes.is_none() {
            self.discard(running);
            match operation {
                Operation::Batch { results, .. } => results.clear(),
                Operation::InsertMany { on_conflict, .. } if *on_conflict != OnConflict::Refuse => {
                    outcome.keys = Keys::Upserted(Vec::new());
                }
                _ => {}
            }
            return Ok(Submitted::Done);
        }
        // Operations that can be sent now are sent with the rest of this turn.
        let ticket = self.operations.add(running);
        if let Some(mut running) = self.operations.take(ticket) {
            self.write_down(ticket, &mut running);
            self.operations.put(ticket, running);
        }
        Ok(Submitted::Waiting(ticket))
    }

    /// Returns how the changes of a write are recorded.
    fn recording(&mut self, operation: &Operation<'_>) -> Recording {
        let actor = self.actor.clone();
        let is_simple = Recording::is_simple(operation);
        let replaces_actor = match &mut self.transaction {
            Some(open) => {
                let had_actor = open.has_actor;
                open.has_actor |= actor.is_some();
                had_actor
            }
            None => false,
        };
        Recording { actor, is_simple, is_on_direct: false, replaces_actor }
    }

    /// Reports the commit of an operation that has succeeded.
    fn note_commit(&self, running: &InFlightOperation, outcome: &mut Outcome) {
        let Some(feed) = self.shared.feed() else { return };
        outcome.commit = match &running.steps {
            Some(steps) => steps.commit(),
            None => running.reply.commit,
        };
        if let (Some(number), None) = (outcome.commit, &running.steps) {
            feed.recorder().acknowledged(number.get());
            if let Some(reports) = &self.reports_commit {
                reports.store(number.get(), Ordering::Relaxed);
            }
        }
    }

    /// Drops an operation that was not sent, and gives back its exclusive connection.
    fn discard(&mut self, mut running: Box<InFlightOperation>) {
        if running.gives_slot_back() {
            self.shared.pool.give_back(Arc::clone(&running.slot));
        }
        self.spare.give_back(running);
    }

    /// Writes the messages to a connection's buffer, if the connection is available and the
    /// operation has its turn.
    fn write_down(&mut self, ticket: Ticket, running: &mut InFlightOperation) -> bool {
        if let Some(open) = &mut self.transaction {
            if open.busy.is_some_and(|busy| busy != ticket)
                || open.batch.is_some() && open.batch != running.of_batch
            {
                return false;
            }
            let mut inside = open.slot.lock();
            match &mut inside.connection {
                Some(connection) if connection.number() == open.connection => {
                    open.busy = Some(ticket);
                    running.send(connection);
                }
                // The poll detects the loss of the connection.
                _ => running.exchange = Some((open.connection, u64::MAX)),
            }
            return true;
        }
        if running.slot_use == SlotUse::Wanted {
            return false;
        }
        let slot = Arc::clone(&running.slot);
        let mut inside = slot.lock();
        let connection = inside.working();
        if let Some(begun_on) = running.continues_on()
            && connection.as_ref().is_none_or(|connection| connection.number() != begun_on)
        {
            // The poll detects the loss of the connection.
            running.exchange = Some((begun_on, u64::MAX));
            return true;
        }
        let Some(connection) = connection else { return false };
        running.send(connection);
        true
    }

    /// Continues an operation as far as possible.
    fn drive(
        &mut self,
        ticket: Ticket,
        running: &mut InFlightOperation,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        waker: &Waker,
    ) -> Poll<Result<()>> {
        if let Operation::Sql { statement, .. } = operation {
            running.set_columns(statement);
        }
        if let Some(steps) = &mut running.steps {
            return self.drive_steps(ticket, (steps, &mut running.place), operation, waker);
        }
        loop {
            let step = if running.task == Task::Begin {
                self.begin_step(running, waker)
            } else if running.exchange.is_none() {
                self.send_step(ticket, running, waker)
            } else {
                self.answer_step(running, operation, sink, outcome, waker)
            };
            match step {
                Step::GoOn => {}
                Step::Wait => return Poll::Pending,
                Step::Done(result) => return Poll::Ready(result),
            }
        }
    }

    /// Continues a batch of several steps. Within a transaction, other operations wait for it.
    fn drive_steps(
        &mut self,
        ticket: Ticket,
        (steps, place): (&mut Steps, &mut OwnedPlace),
        operation: &mut Operation<'_>,
        waker: &Waker,
    ) -> Poll<Result<()>> {
        if let Some(number) = steps.transaction() {
            match &mut self.transaction {
                Some(open) if open.number == number => {
                    if open.batch.is_some_and(|other| other != ticket) {
                        place.wait(&open.waiting, waker);
                        return Poll::Pending;
                    }
                    place.leave();
                    open.batch = Some(ticket);
                }
                // The transaction was rolled back meanwhile.
                _ => return Poll::Ready(Err(refusal::no_transaction())),
            }
            let outer = self.stepping.replace(ticket);
            let polled = steps.poll(self, operation, waker);
            self.stepping = outer;
            return polled;
        }
        steps.poll(self, operation, waker)
    }

    /// Ends an operation, so that the next one of its transaction has its turn.
    fn finish(&mut self, ticket: Ticket, running: Box<InFlightOperation>, result: &Result<()>) {
        if let Some(open) = &mut self.transaction {
            if open.busy == Some(ticket) {
                open.busy = None;
            }
            if open.batch == Some(ticket) {
                open.batch = None;
            }
            open.waiting.wake_all();
            if result.as_ref().is_err_and(Error::is_retryable) {
                open.is_lost = true;
            }
            if running.task == Task::Commit {
                self.end(false);
            }
        }
        self.spare.give_back(running);
    }

    fn forget(&mut self, ticket: Ticket) {
        let Some(mut running) = self.operations.remove(ticket) else { return };
        if let Some(mut steps) = running.steps.take() {
            steps.cancel(self);
            if let Some(open) = &mut self.transaction
                && open.batch == Some(ticket)
            {
                open.batch = None;
                // Its first steps are not rolled back.
                open.is_lost = true;
                open.waiting.wake_all();
            }
            return self.spare.give_back(running);
        }
        let mut left_open = false;
        if let Some((of, number)) = running.exchange.take() {
            let mut inside = running.slot.lock();
            if let Some(connection) = inside.connection.as_mut()
                && connection.number() == of
            {
                connection.flush();
                connection.abandon(number);
                // Cancelling a read would abort its transaction, which continues.
                let goes_on =
                    running.in_transaction && !running.writes() && running.task != Task::Commit;
                if connection.under_way() > 0 && !goes_on {
                    cancel::watch(&running.slot, &self.shared.options, (of, number));
                }
                if running.writes() || running.task == Task::Commit {
                    self.shared.note_unknown_write();
                    connection.is_news();
                }
                left_open =
                    matches!(running.stage, Stage::Each | Stage::EachDone | Stage::Linked(_));
                if left_open && !running.in_transaction {
                    let number = connection.submit(|sending| {
                        sending.call(&CONTROLS.rollback, 0, &[]);
                        sending.sync();
                    });
                    connection.abandon(number);
                    connection.flush();
                }
            }
        }
        if let Some(open) = &mut self.transaction
            && open.busy == Some(ticket)
        {
            open.busy = None;
            // Its effect on the transaction is unknown.
            open.is_lost |= running.writes() || left_open;
            open.waiting.wake_all();
        }
        // After the rollback of the rest was submitted.
        if running.gives_slot_back() {
            self.shared.pool.give_back(Arc::clone(&running.slot));
        }
        self.spare.give_back(running);
    }
}

impl Session for PostgresSession {
    fn submit(
        &mut self,
        _: Option<Durability>,
        operation: &mut Operation<'_>,
        _: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        self.begin_operation(operation, outcome)
    }

    fn poll(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let Some(mut running) = self.operations.take(ticket) else {
            return Poll::Ready(Err(refusal::not_waiting()));
        };
        let polled = self.drive(ticket, &mut running, operation, sink, outcome, context.waker());
        match &polled {
            Poll::Pending => self.operations.put(ticket, running),
            Poll::Ready(result) => {
                if result.is_ok() {
                    self.note_commit(&running, outcome);
                }
                self.operations.remove(ticket);
                if running.gives_slot_back() {
                    self.shared.pool.give_back(Arc::clone(&running.slot));
                }
                self.finish(ticket, running, result);
            }
        }
        polled
    }

    fn set_actor(&mut self, actor: Option<&Arc<str>>) {
        if self.actor.as_ref() != actor {
            self.actor = actor.cloned();
        }
    }

    fn cancel(&mut self, ticket: Ticket) {
        self.forget(ticket);
    }
}

impl Drop for PostgresSession {
    fn drop(&mut self) {
        while let Some(ticket) = self.operations.any() {
            self.forget(ticket);
        }
        self.end(true);
    }
}
