//! Where operations come in, and which connection carries them out.
//!
//! Reads go to a connection that carries reads, writes to one that carries
//! writes, so that no read waits behind a write that waits for a lock. Both are
//! shared; a transaction has a connection to itself.
//!
//! A write may wait for a row that another transaction has locked, and the
//! server does what comes by one connection in order. So once the shared
//! connection for writes has given no answer for [`STALL`], further writes of
//! the thread go to connections of the pool, each with one to itself, until an
//! answer has come; if the pool has none, they wait. What was sent before stays
//! behind the write that waits. Nothing is promised about the order of writes
//! that are under way at once, so that none is lost: a write that is to follow
//! another is submitted when that was answered, and then sees it from any
//! connection. A write that is given up makes its connection's writes news, so
//! that a cache hears of what it may still do.
//!
//! What is submitted is written down; polled the first time it lets others in,
//! the second time all of them are sent at once.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, FieldSet, Result, RowSink};
use marmota_store::Durability;
use marmota_store::engine::{Session, Submitted, Ticket, wake_at};
use marmota_store::operation::{Keys, OnConflict, Operation, Outcome};

use crate::composer::Composer;
use crate::connection::{Connection, Loss, State};
use crate::engine::{Shared, closed};
use crate::exchange::CONTROLS;
use crate::fault;
use crate::giving_up;
use crate::lane::Lane;
use crate::reply::{Lending, Reply, Rows};
use crate::running::{Next, Running, Stage};
use crate::script::{Role, Script};
use crate::statement::{Text, Verb};
use crate::steps::{Steps, takes_steps};
use crate::tickets::Tickets;

/// How often a read is begun again when its connection went away.
const READ_TRIES_MAX: u32 = 3;

/// A connection for writes that has given no answer for so long is left to those
/// that wait on it. Longer than a commit waits for a disk, as a rule.
const STALL: Duration = Duration::from_millis(5);

/// A session on a PostgreSQL database.
pub(crate) struct PostgresSession {
    shared: Arc<Shared>,
    composer: Composer,
    reader: Arc<Lane>,
    writer: Arc<Lane>,
    transaction: Option<Open>,
    /// Counts the transactions that were begun here.
    begun: u64,
    /// The batch whose step is being submitted or polled.
    stepping: Option<Ticket>,
    tickets: Tickets,
}

/// A transaction that is open.
struct Open {
    /// Tells it from those before it.
    number: u64,
    lane: Arc<Lane>,
    connection: u64,
    savepoints: Vec<u32>,
    /// It lost against another transaction, or its connection.
    is_lost: bool,
    /// The operation that is under way: one at a time, so that one that fails
    /// can be undone before the next.
    busy: Option<Ticket>,
    /// The batch that is under way step by step: others wait until it is over.
    batch: Option<Ticket>,
    waiting: Vec<Waker>,
}

/// What a poll came to.
enum Step {
    Done(Result<()>),
    Wait,
    GoOn,
}

impl PostgresSession {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let (reader, writer) = shared.lanes();
        let composer = Composer::new(&shared.catalog);
        let tickets = Tickets::default();
        let (transaction, begun, stepping) = (None, 0, None);
        Self { shared, composer, reader, writer, transaction, begun, stepping, tickets }
    }

    /// The number of the transaction that is open.
    pub(crate) fn transaction_number(&self) -> Option<u64> {
        self.transaction.as_ref().map(|open| open.number)
    }

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn until(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.shared.options.acquire_timeout_ms.into())
    }

    /// Writes an operation down as calls.
    fn compose(&mut self, script: &mut Script, operation: &mut Operation<'_>) -> Result<()> {
        let (composer, main) = (&mut self.composer, Role::Main(0));
        match operation {
            Operation::Get { table, key, fields } => composer.get(script, table, *key, *fields),
            Operation::List { table, query } => composer.list(script, table, query),
            Operation::Count { table, filter } => composer.count(script, table, *filter),
            Operation::Insert { table, row, on_conflict } => {
                composer.insert_over(script, main, table, row, *on_conflict)
            }
            Operation::InsertMany { table, rows, on_conflict }
                if *on_conflict != OnConflict::Refuse =>
            {
                composer.insert_many_over(script, table, *rows, *on_conflict)
            }
            Operation::InsertMany { table, rows, .. } => {
                composer.take_rows(script, table, *rows)?;
                composer.insert_rows(script, table)
            }
            Operation::Update { table, key, row, version } => {
                composer.update(script, main, table, (*key, *version), row, 0)
            }
            Operation::UpdateMany { table, rows } => {
                script.in_order = true;
                composer.update_many(script, table, *rows)
            }
            Operation::Increment { table, key, field, by, stamp } => {
                composer.increment(script, main, table, (*key, *field, *by, *stamp), 0)
            }
            Operation::Delete { table, key, version } => {
                composer.delete(script, main, table, *key, *version, 0)
            }
            Operation::DeleteWhere { table, filter } => {
                composer.delete_where(script, main, table, *filter)
            }
            Operation::Batch { writes, .. } => (0..)
                .zip(writes.iter())
                .try_for_each(|(at, write)| composer.write(script, Role::Main(at), write)),
            _ => Err(Error::new(ErrorKind::Unsupported, "PostgreSQL has no such operation here")),
        }
    }

    /// A step of a transaction; done at once where that is possible.
    fn control(&mut self, operation: &Operation<'_>) -> Option<Result<Submitted>> {
        let step = match operation {
            Operation::Begin => return Some(self.begin()),
            Operation::Rollback => return Some(self.roll_back()),
            Operation::Commit => "COMMIT".to_owned(),
            Operation::Savepoint(number) => format!("SAVEPOINT s{number}"),
            Operation::Release(number) => format!("RELEASE s{number}"),
            Operation::RollbackTo(number) => format!("ROLLBACK TO s{number}"),
            _ => return None,
        };
        Some(self.submit_control(operation, &step))
    }

    fn begin(&mut self) -> Result<Submitted> {
        if self.transaction.is_some() {
            return Err(Error::new(
                ErrorKind::Invalid,
                "a transaction is open already; set a savepoint in it",
            ));
        }
        self.shared.check_open()?;
        let mut running = self.running(Stage::Control);
        running.writes = true;
        running.is_begin = true;
        Ok(Submitted::Waiting(self.tickets.add(running)))
    }

    fn roll_back(&mut self) -> Result<Submitted> {
        if self.transaction.is_none() {
            return Err(no_transaction());
        }
        self.end(true);
        Ok(Submitted::Done)
    }

    fn submit_control(&mut self, operation: &Operation<'_>, step: &str) -> Result<Submitted> {
        let Some(open) = &mut self.transaction else { return Err(no_transaction()) };
        if open.is_lost {
            if matches!(operation, Operation::Commit) {
                self.end(true);
            }
            return Err(fault::lost_race());
        }
        let known = |open: &Open, number: &u32| open.savepoints.iter().position(|s| s == number);
        match operation {
            Operation::Savepoint(number) => open.savepoints.push(*number),
            Operation::Release(number) | Operation::RollbackTo(number) => {
                let Some(at) = known(open, number) else {
                    let message = "the transaction has no such savepoint any more";
                    return Err(Error::new(ErrorKind::Invalid, message));
                };
                let kept = usize::from(matches!(operation, Operation::RollbackTo(_)));
                open.savepoints.truncate(at + kept);
            }
            _ => {}
        }
        let mut running = self.running(Stage::Control);
        running.is_commit = matches!(operation, Operation::Commit);
        let shape = step.as_bytes();
        let text =
            self.composer
                .texts
                .find(Verb::Control, u32::MAX, FieldSet::EMPTY, 0, shape, || Text::plain(step));
        running.script.call(Role::Main(0), text, |_| Ok(0))?;
        Ok(Submitted::Waiting(self.tickets.add(running)))
    }

    /// A new one, for the lane of the transaction or of writes.
    fn running(&mut self, stage: Stage) -> Box<Running> {
        let lane = match &self.transaction {
            Some(open) => Arc::clone(&open.lane),
            None => Arc::clone(&self.writer),
        };
        let until = self.until();
        let mut running = self.tickets.spare().unwrap_or_else(|| Box::new(Running::new(&lane)));
        running.begin(&lane, stage, until, self.transaction.is_some());
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
            running.steps = Some(Box::new(Steps::begin(self)));
            return Ok(Submitted::Waiting(self.tickets.add(running)));
        }
        let mut running = self.running(Running::first_stage(operation));
        running.writes = operation.is_write();
        let links = matches!(operation, Operation::Batch { links, .. } if !links.is_empty());
        running.is_each = links || matches!(running.stage, Stage::Each);
        // Nobody else's operation may come between its parts.
        running.wants_lane = running.is_each && self.transaction.is_none();
        if self.transaction.is_none() {
            if !running.writes {
                running.lane = Arc::clone(&self.reader);
            } else if !running.wants_lane && self.writer_stalls() {
                // One of many rows has rows found in their order, which a connection of
                // the pool would keep for the transactions after it.
                if !matches!(operation, Operation::UpdateMany { .. }) {
                    self.leave_writer(&mut running);
                }
            }
        }
        let composed = match operation {
            // The first: the others are written down when it is their turn.
            _ if links => Ok(()),
            Operation::Sql { statement, .. } => running.begin_sql(&mut self.composer, statement),
            _ => {
                let mut script = std::mem::take(&mut running.script);
                let composed = self.compose(&mut script, operation);
                running.script = script;
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
            self.tickets.give_back(running);
            return Err(error);
        }
        let is_empty = running.script.calls.iter().all(|call| call.role == Role::Beside);
        if is_empty && !links && running.describes.is_none() {
            self.tickets.give_back(running);
            match operation {
                Operation::Batch { results, .. } => results.clear(),
                Operation::InsertMany { on_conflict, .. } if *on_conflict != OnConflict::Refuse => {
                    outcome.keys = Keys::Placed(Vec::new());
                }
                _ => {}
            }
            return Ok(Submitted::Done);
        }
        // What can be written down now goes out with the rest of this turn.
        let ticket = self.tickets.add(running);
        if let Some(mut running) = self.tickets.take(ticket) {
            self.write_down(ticket, &mut running);
            self.tickets.put(ticket, running);
        }
        Ok(Submitted::Waiting(ticket))
    }

    /// True if the server has been at a write of this thread's shared connection
    /// for so long that others are not to wait for it.
    fn writer_stalls(&self) -> bool {
        let mut inside = self.writer.lock();
        inside.connection.as_mut().is_some_and(|connection| connection.stalls(STALL))
    }

    /// Gives a write a connection of its own, if there is one.
    #[cold]
    fn leave_writer(&self, running: &mut Running) {
        if let Some(lane) = self.shared.pool.take_free(&self.shared) {
            (running.lane, running.has_lane, running.wants_lane) = (lane, true, true);
        }
    }

    /// Adds to a connection's buffer what is to be sent, if there is one and
    /// its turn has come.
    fn write_down(&mut self, ticket: Ticket, running: &mut Running) -> bool {
        if let Some(open) = &mut self.transaction {
            if open.busy.is_some_and(|busy| busy != ticket)
                || open.batch.is_some() && open.batch != running.of_batch
            {
                return false;
            }
            let mut inside = open.lane.lock();
            match &mut inside.connection {
                Some(connection) if connection.number() == open.connection => {
                    open.busy = Some(ticket);
                    running.send(connection);
                }
                // Its loss is found by the poll.
                _ => running.exchange = Some((open.connection, u64::MAX)),
            }
            return true;
        }
        if running.wants_lane && !running.has_lane {
            return false;
        }
        let lane = Arc::clone(&running.lane);
        let mut inside = lane.lock();
        let Some(connection) = inside.working() else { return false };
        running.send(connection);
        true
    }

    /// Goes on with an operation as far as that is possible.
    fn drive(
        &mut self,
        ticket: Ticket,
        running: &mut Running,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        waker: &Waker,
    ) -> Poll<Result<()>> {
        if let Operation::Sql { statement, .. } = operation {
            running.tell_columns(statement);
        }
        if let Some(steps) = &mut running.steps {
            return self.drive_steps(ticket, steps, operation, waker);
        }
        loop {
            let step = if running.is_begin {
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

    /// Goes on with a batch of several steps. One in a transaction has it to itself.
    fn drive_steps(
        &mut self,
        ticket: Ticket,
        steps: &mut Steps,
        operation: &mut Operation<'_>,
        waker: &Waker,
    ) -> Poll<Result<()>> {
        if let Some(number) = steps.transaction() {
            match &mut self.transaction {
                Some(open) if open.number == number => {
                    if open.batch.is_some_and(|other| other != ticket) {
                        open.waiting.push(waker.clone());
                        return Poll::Pending;
                    }
                    open.batch = Some(ticket);
                }
                // Rolled back meanwhile.
                _ => return Poll::Ready(Err(no_transaction())),
            }
            let outer = self.stepping.replace(ticket);
            let polled = steps.poll(self, operation, waker);
            self.stepping = outer;
            return polled;
        }
        steps.poll(self, operation, waker)
    }

    /// Looks for a connection that is free, and begins a transaction on it.
    fn begin_step(&mut self, running: &mut Running, waker: &Waker) -> Step {
        if let Some(step) = self.take_lane(running, waker) {
            return step;
        }
        let lane = Arc::clone(&running.lane);
        let mut inside = lane.lock();
        let Some(connection) = inside.working() else {
            return match self.wait_for_connection(running, &lane, &mut inside, waker) {
                Ok(()) => Step::Wait,
                Err(error) => Step::Done(Err(error)),
            };
        };
        if !connection.is_quiet(waker) {
            return self.wait_for_quiet(running, &inside, waker);
        }
        // Nobody waits for the answer: it comes before that of the first
        // operation, and goes out with it.
        let number = connection.submit(|sending| {
            sending.call(&CONTROLS.begin, 0, &[]);
            if let Some(settings) = sending.settings() {
                sending.call(&settings, 0, &[]);
            }
            sending.sync();
        });
        connection.abandon(number);
        running.has_lane = false;
        self.begun += 1;
        self.transaction = Some(Open {
            number: self.begun,
            connection: connection.number(),
            lane: Arc::clone(&lane),
            savepoints: Vec::new(),
            is_lost: false,
            busy: None,
            batch: None,
            waiting: Vec::new(),
        });
        Step::Done(Ok(()))
    }

    /// Takes a lane that nobody else has; what to do if there is none.
    fn take_lane(&self, running: &mut Running, waker: &Waker) -> Option<Step> {
        if !running.has_lane {
            match self.shared.pool.take(&self.shared, running.until, waker) {
                Ok(Some(lane)) => (running.lane, running.has_lane) = (lane, true),
                Ok(None) => return Some(Step::Wait),
                Err(error) => return Some(Step::Done(Err(error))),
            }
        }
        None
    }

    /// What was given up on a connection, and what ends it there, must not meet its next owner: it
    /// would undo a part of the transaction, and the rest be carried out by itself.
    fn wait_for_quiet(
        &self,
        running: &Running,
        inside: &crate::lane::Inside,
        waker: &Waker,
    ) -> Step {
        if Instant::now() >= running.until {
            return Step::Done(Err(inside.too_long(&self.shared.options)));
        }
        // Whoever is not woken then looks when something else happens.
        let _ = wake_at(running.until, waker.clone());
        Step::Wait
    }

    fn wait_for_connection(
        &self,
        running: &Running,
        lane: &Arc<Lane>,
        inside: &mut crate::lane::Inside,
        waker: &Waker,
    ) -> Result<()> {
        if inside.is_closed {
            return Err(closed());
        }
        if let Some(refused) = inside.refusal() {
            return Err(refused);
        }
        if Instant::now() >= running.until {
            return Err(inside.too_long(&self.shared.options));
        }
        inside.want(lane, &self.shared.options, running.until, Some(waker));
        Ok(())
    }

    fn send_step(&mut self, ticket: Ticket, running: &mut Running, waker: &Waker) -> Step {
        if running.wants_lane
            && let Some(step) = self.take_lane(running, waker)
        {
            return step;
        }
        if running.wants_lane {
            let lane = Arc::clone(&running.lane);
            let mut inside = lane.lock();
            if inside.working().is_some_and(|connection| !connection.is_quiet(waker)) {
                return self.wait_for_quiet(running, &inside, waker);
            }
        }
        if self.write_down(ticket, running) {
            return Step::GoOn;
        }
        if let Some(open) = &mut self.transaction {
            open.waiting.push(waker.clone());
            return Step::Wait;
        }
        let lane = Arc::clone(&running.lane);
        let mut inside = lane.lock();
        match self.wait_for_connection(running, &lane, &mut inside, waker) {
            Ok(()) => Step::Wait,
            Err(error) => Step::Done(Err(error)),
        }
    }

    fn answer_step(
        &mut self,
        running: &mut Running,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        waker: &Waker,
    ) -> Step {
        let lane = Arc::clone(&running.lane);
        let mut inside = lane.lock();
        let (of, number) = running.exchange.unwrap_or_default();
        let connection = inside.connection.as_mut().filter(|connection| connection.number() == of);
        let is_first = !std::mem::replace(&mut running.has_yielded, true);
        if is_first && connection.as_ref().is_some_and(|connection| connection.has_unsent()) {
            // Whoever else is ready on this thread is sent with it.
            waker.wake_by_ref();
            return Step::Wait;
        }
        let answered = match connection {
            None => Poll::Ready(Err(Loss("the connection was lost".into()))),
            Some(connection) => {
                let answered = take_answer(connection, number, running, operation, sink);
                if answered.is_pending() {
                    connection.wait(number, waker);
                    if connection.take_leave() {
                        self.shared.note_yield();
                        waker.wake_by_ref();
                    }
                    return Step::Wait;
                }
                if let Some((_, failure)) = running.reply.failures.first()
                    && failure.is_of_preparing()
                {
                    running.script.calls.iter().for_each(|call| connection.forget(&call.text));
                }
                running.may_be_cancelled = connection.may_be_cancelled(number);
                answered.map(|answered| answered.map(|()| connection.state()))
            }
        };
        drop(inside);
        match answered {
            Poll::Ready(Ok(state)) => {
                match running.conclude(&mut self.composer, operation, outcome, state) {
                    Next::Done(result) => Step::Done(result),
                    Next::Send => Step::GoOn,
                }
            }
            Poll::Ready(Err(loss)) => self.lost(running, &loss),
            Poll::Pending => Step::Wait,
        }
    }

    /// The connection went away. A read that has given nothing begins again.
    fn lost(&mut self, running: &mut Running, loss: &Loss) -> Step {
        let error = fault::lost(loss, &self.shared.options, running.writes);
        if let Some(open) = &mut self.transaction {
            open.is_lost = true;
            // Nothing of it is done, unless it was being committed.
            let undone = !running.is_commit;
            return Step::Done(Err(if undone { error.repeatable() } else { error }));
        }
        if !running.writes
            && running.reply.lent == 0
            && running.tries < READ_TRIES_MAX
            && !self.shared.is_closed()
        {
            running.tries += 1;
            running.exchange = None;
            return Step::GoOn;
        }
        Step::Done(Err(error))
    }

    /// The end of an operation: the next one of its transaction has its turn.
    fn finish(&mut self, ticket: Ticket, running: Box<Running>, result: &Result<()>) {
        if let Some(open) = &mut self.transaction {
            if open.busy == Some(ticket) {
                open.busy = None;
            }
            if open.batch == Some(ticket) {
                open.batch = None;
            }
            open.waiting.drain(..).for_each(Waker::wake);
            if result.as_ref().is_err_and(Error::is_repeatable) {
                open.is_lost = true;
            }
            if running.is_commit {
                self.end(false);
            }
        }
        self.tickets.give_back(running);
    }

    /// Ends the transaction, and gives its connection back; `undoes` if it is
    /// still open on the server.
    fn end(&mut self, undoes: bool) {
        let Some(open) = self.transaction.take() else { return };
        let mut inside = open.lane.lock();
        if let Some(connection) = inside.connection.as_mut()
            && connection.number() == open.connection
            && (undoes || connection.state() != State::Idle)
        {
            if connection.under_way() > 0 {
                let exchange = (connection.number(), connection.current());
                giving_up::watch(&open.lane, &self.shared.options, exchange);
            }
            let number = connection.submit(|sending| {
                sending.call(&CONTROLS.rollback, 0, &[]);
                sending.sync();
            });
            connection.abandon(number);
            connection.flush();
        }
        drop(inside);
        open.waiting.into_iter().for_each(Waker::wake);
        self.shared.pool.give_back(open.lane);
    }

    fn forget(&mut self, ticket: Ticket) {
        let Some(mut running) = self.tickets.remove(ticket) else { return };
        if let Some(mut steps) = running.steps.take() {
            steps.cancel(self);
            if let Some(open) = &mut self.transaction
                && open.batch == Some(ticket)
            {
                open.batch = None;
                // Its first steps are not undone.
                open.is_lost = true;
                open.waiting.drain(..).for_each(Waker::wake);
            }
            return self.tickets.give_back(running);
        }
        let mut left_open = false;
        if let Some((of, number)) = running.exchange.take() {
            let mut inside = running.lane.lock();
            if let Some(connection) = inside.connection.as_mut()
                && connection.number() == of
            {
                connection.flush();
                connection.abandon(number);
                // A read of a transaction that goes on would undo it with its end.
                let goes_on = running.in_transaction && !running.writes && !running.is_commit;
                if connection.under_way() > 0 && !goes_on {
                    giving_up::watch(&running.lane, &self.shared.options, (of, number));
                }
                if running.writes || running.is_commit {
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
            // What it would have done to the transaction is not known.
            open.is_lost |= running.writes || left_open;
            open.waiting.drain(..).for_each(Waker::wake);
        }
        // Behind what undoes the rest of it.
        if std::mem::take(&mut running.has_lane) {
            self.shared.pool.give_back(Arc::clone(&running.lane));
        }
        self.tickets.give_back(running);
    }
}

/// Takes what has come for an operation; rows of a read go to the sink.
fn take_answer(
    connection: &mut Connection,
    number: u64,
    running: &mut Running,
    operation: &Operation<'_>,
    sink: &mut dyn RowSink,
) -> Poll<Result<(), Loss>> {
    let Running { reply, roles, script, stage, sql, .. } = running;
    let reads = matches!(stage, Stage::Main | Stage::Again);
    let rows = match (operation, script.calls.first(), &*sql) {
        (Operation::Get { table, .. } | Operation::List { table, .. }, Some(call), _) => {
            Some(Rows::Table(table, &call.text.columns))
        }
        (Operation::Sql { .. }, _, Some(text)) => Some(Rows::Sql(text)),
        _ => None,
    };
    let mut lending = rows.filter(|_| reads).map(|rows| Lending { rows, sink });
    let is_lending = lending.is_some();
    let mut take = |connection: &mut Connection, reply: &mut Reply| {
        connection.answer(number, &mut |message| reply.hear(roles, message, &mut lending))
    };
    if !is_lending {
        return take(connection, reply);
    }
    match catch_unwind(AssertUnwindSafe(|| take(connection, reply))) {
        Ok(answered) => answered,
        Err(panicked) => {
            connection.abandon(number);
            resume_unwind(panicked)
        }
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
        let Some(mut running) = self.tickets.take(ticket) else {
            return Poll::Ready(Err(Error::new(ErrorKind::Bug, "nothing waits with this ticket")));
        };
        let polled = self.drive(ticket, &mut running, operation, sink, outcome, context.waker());
        match &polled {
            Poll::Pending => self.tickets.put(ticket, running),
            Poll::Ready(result) => {
                self.tickets.free(ticket);
                if running.has_lane {
                    running.has_lane = false;
                    self.shared.pool.give_back(Arc::clone(&running.lane));
                }
                self.finish(ticket, running, result);
            }
        }
        polled
    }

    fn cancel(&mut self, ticket: Ticket) {
        self.forget(ticket);
    }
}

impl Drop for PostgresSession {
    fn drop(&mut self) {
        while let Some(ticket) = self.tickets.any() {
            self.forget(ticket);
        }
        self.end(true);
    }
}

#[cold]
fn no_transaction() -> Error {
    Error::new(ErrorKind::Invalid, "no transaction is open: begin one first")
}
