//! An operation in progress: the messages sent, the results received, and the steps that follow.
//!
//! Most operations are one exchange. A refusal may need another one (a diagnostic query, *look*), a
//! failed write of many rows is sent again row by row, and in a transaction a failure is rolled
//! back to the savepoint that each write sets.

use std::sync::Arc;
use std::time::Instant;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::engine::Ticket;
use marmota_store::operation::{BatchMode, OnConflict, Operation, Outcome, Write};
use marmota_store::refusal;
use marmota_store::wait::OwnedPlace;

use crate::composer::Composer;
use crate::conflict;
use crate::connection::{Connection, Sending, State};
use crate::exchange::{CONTROLS, Exchange, each, link, look};
use crate::fault::{self, Failure, code};
use crate::lane::Lane;
use crate::linked::Linked;
use crate::reply::{Mark, Reply};
use crate::script::{Role, Script};
use crate::sql::SqlText;
use crate::statement::Text;
use crate::steps::Steps;
use crate::subject::Subject;

/// The number of retries of a write that conflicted with another.
const TRIES_MAX: u32 = 10;

/// A refused write: its place, and the failure.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) at: u32,
    pub(crate) failure: Failure,
}

/// The stage of an operation.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The whole operation at once.
    Main,
    /// The same again, after a failure; a write of many rows row by row.
    Again,
    /// A diagnostic query for a refusal, after the calls before it.
    Look(Problem),
    /// Rolling back a failure.
    Recover(Error),
    /// Each write of a batch separately.
    Each,
    /// The end of that, if no write was refused.
    EachDone,
    /// The writes that were not refused, and diagnostic queries for those that were.
    EachAgain(Vec<Problem>),
    /// A batch with links between its writes.
    Linked(Linked),
    /// A transaction statement.
    Control,
    /// The description of a raw SQL statement.
    Describe,
}

/// The next step after an answer.
pub(crate) enum Next {
    Done(Result<()>),
    /// Another exchange.
    Send,
}

/// An operation in progress.
pub(crate) struct Running {
    pub(crate) lane: Arc<Lane>,
    /// The numbers of its connection and exchange; `None` if it is not sent yet.
    pub(crate) exchange: Option<(u64, u64)>,
    pub(crate) stage: Stage,
    pub(crate) script: Script,
    pub(crate) roles: Vec<Role>,
    pub(crate) reply: Reply,
    pub(crate) until: Instant,
    pub(crate) tries: u32,
    pub(crate) has_yielded: bool,
    pub(crate) writes: bool,
    pub(crate) in_transaction: bool,
    /// True for a batch whose writes are executed separately.
    pub(crate) is_each: bool,
    pub(crate) is_begin: bool,
    pub(crate) is_commit: bool,
    /// True if it is several exchanges in one transaction and needs an exclusive lane.
    pub(crate) wants_lane: bool,
    /// True if a batch has begun its transaction.
    has_begun: bool,
    /// The raw SQL statement being described.
    pub(crate) describes: Option<Arc<Text>>,
    /// The description of that statement.
    pub(crate) sql: Option<Arc<SqlText>>,
    /// True for SQL that must only read, in a transaction that may write.
    pub(crate) is_held_to_reading: bool,
    /// True if it may share its Sync with other operations of its turn.
    pub(crate) shares_sync: bool,
    /// True for a read that may take long.
    pub(crate) may_be_long: bool,
    /// True if it has an exclusive lane, which must be given back.
    pub(crate) has_lane: bool,
    /// True if the cancellation of another operation may have hit it.
    pub(crate) may_be_cancelled: bool,
    /// Its place in the queue for a lane, a connection or its turn.
    pub(crate) place: OwnedPlace,
    /// A batch of several steps, each of which is an operation.
    pub(crate) steps: Option<Box<Steps>>,
    /// The batch that it is a step of.
    pub(crate) of_batch: Option<Ticket>,
}

impl Running {
    pub(crate) fn new(lane: &Arc<Lane>) -> Self {
        Self {
            lane: Arc::clone(lane),
            exchange: None,
            stage: Stage::Main,
            script: Script::default(),
            roles: Vec::new(),
            reply: Reply::default(),
            until: Instant::now(),
            tries: 0,
            has_yielded: false,
            writes: false,
            in_transaction: false,
            is_each: false,
            is_begin: false,
            is_commit: false,
            wants_lane: false,
            has_begun: false,
            describes: None,
            sql: None,
            is_held_to_reading: false,
            shares_sync: false,
            may_be_long: false,
            has_lane: false,
            may_be_cancelled: false,
            place: OwnedPlace::default(),
            steps: None,
            of_batch: None,
        }
    }

    /// Starts another operation with the buffers of the last one.
    pub(crate) fn begin(
        &mut self,
        lane: &Arc<Lane>,
        stage: Stage,
        until: Instant,
        in_transaction: bool,
    ) {
        let mut fresh = Self { stage, until, in_transaction, ..Self::new(lane) };
        std::mem::swap(&mut fresh.script, &mut self.script);
        std::mem::swap(&mut fresh.roles, &mut self.roles);
        std::mem::swap(&mut fresh.reply, &mut self.reply);
        *self = fresh;
        self.script.clear();
        self.reply.clear();
    }

    /// Returns the approximate memory of its buffers.
    pub(crate) fn bytes(&self) -> usize {
        self.script.parameters.capacity() + self.reply.bytes()
    }

    /// Adds the messages of its stage to a connection.
    pub(crate) fn send(&mut self, connection: &mut Connection) {
        self.reply.clear();
        self.roles.clear();
        let (guarded, only_reads) = (self.is_guarded(), self.is_held_to_reading);
        let (describes, in_transaction) = (self.describes.clone(), self.in_transaction);
        let (stage, script, roles) = (&self.stage, &self.script, &mut self.roles);
        let (is_each, has_begun) = (self.is_each, &mut self.has_begun);
        let is_exclusive = self.has_lane;
        let failed = connection.state() == State::Failed;
        let all = 0..script.calls.len();
        let controls = &*CONTROLS;
        let build = |sending: &mut Sending<'_>| {
            let mut exchange = Exchange { sending, roles };
            match stage {
                Stage::Main | Stage::Again => {
                    let again = matches!(stage, Stage::Again) && failed;
                    if guarded {
                        let open = if again { &controls.rollback_to } else { &controls.savepoint };
                        exchange.control(open);
                    }
                    if only_reads {
                        exchange.control(&controls.only_read);
                    }
                    // Transactions have exclusive connections, which they do not change.
                    if !in_transaction {
                        exchange.settings();
                        exchange.order(script.in_order, is_exclusive);
                    }
                    exchange.calls(script, all, false);
                    if only_reads {
                        exchange.control(&controls.rollback_to);
                    }
                    if guarded {
                        exchange.control(&controls.release);
                    }
                    if !exchange.sending.shares_sync() {
                        exchange.sync();
                    }
                }
                Stage::Describe => {
                    if guarded {
                        exchange.control(&controls.savepoint);
                    }
                    if let Some(text) = &describes {
                        exchange.sending.describe(text);
                    }
                    if guarded {
                        exchange.control(&controls.release);
                    }
                    exchange.sync();
                }
                Stage::Look(problem) => look(&mut exchange, script, problem, guarded, failed),
                Stage::Recover(_) => {
                    if guarded && is_each {
                        exchange.control(&controls.rollback_batch);
                        exchange.control(&controls.release_batch);
                    } else if guarded {
                        exchange.control(&controls.rollback_to);
                        exchange.control(&controls.release);
                    } else {
                        exchange.control(&controls.rollback);
                    }
                    exchange.sync();
                }
                Stage::Each => each(&mut exchange, script, guarded),
                Stage::EachDone => {
                    let end = if guarded { &controls.release_batch } else { &controls.commit };
                    exchange.control(end);
                    exchange.sync();
                }
                Stage::EachAgain(_) => {
                    if guarded {
                        exchange.control(&controls.rollback_batch);
                    } else {
                        exchange.control(&controls.rollback);
                        exchange.begin();
                    }
                    exchange.calls(script, all, false);
                    let end = if guarded { &controls.release_batch } else { &controls.commit };
                    exchange.control(end);
                    exchange.sync();
                }
                Stage::Linked(linked) => {
                    let opens = !*has_begun;
                    *has_begun = true;
                    link(&mut exchange, script, linked, guarded, opens);
                }
                Stage::Control => {
                    exchange.calls(script, all, false);
                    exchange.sync();
                }
            }
        };
        let number = match self.shares_sync {
            true => connection.submit_shared(build),
            false => connection.submit(build),
        };
        if self.may_be_long {
            connection.may_be_long(number);
        }
        self.exchange = Some((connection.number(), number));
    }

    /// Processes the received answer. Returns what follows.
    pub(crate) fn conclude(
        &mut self,
        composer: &mut Composer,
        operation: &mut Operation<'_>,
        outcome: &mut Outcome,
        state: State,
    ) -> Next {
        self.exchange = None;
        let failure = match self.reply.failures.is_empty() {
            true => None,
            false => Some(self.reply.failures.remove(0)),
        };
        match std::mem::replace(&mut self.stage, Stage::Main) {
            Stage::Describe => match failure {
                None => self.end_description(composer, operation),
                Some((_, failure)) if self.may_be_cancelled && failure.is_cancelled() => {
                    self.stage = Stage::Describe;
                    Next::Send
                }
                Some((_, failure)) if self.must_leave_shared(&failure) => {
                    self.stage = Stage::Describe;
                    self.wants_lane = true;
                    Next::Send
                }
                Some((role, failure)) => self.fail_sql(composer, operation, role, &failure),
            },
            Stage::Main | Stage::Again => match failure {
                None => self.succeed(composer, operation, outcome),
                Some((role, failure)) => self.fail(composer, operation, role, failure),
            },
            Stage::Look(problem) => match failure {
                None => {
                    let look = self.reply.mark(Role::Look).cloned();
                    Next::Done(Err(self.explain(composer, operation, &problem, look.as_ref())))
                }
                Some((_, failure)) if failure.lost_a_race() => Next::Done(Err(fault::lost_race())),
                Some((_, failure)) if failure.is_of_preparing() && self.tries < TRIES_MAX => {
                    self.tries += 1;
                    self.stage = Stage::Look(problem);
                    Next::Send
                }
                Some((_, failure)) => Next::Done(Err(fault::of(&failure))),
            },
            Stage::Recover(error) => Next::Done(Err(error)),
            Stage::Each => self.each_tried(composer, operation, failure, state),
            Stage::EachDone | Stage::EachAgain(_) if failure.is_some() => {
                let error =
                    failure.map_or_else(fault::lost_race, |(_, failure)| fault::of(&failure));
                self.recover(error)
            }
            Stage::EachDone => Next::Done(Ok(())),
            Stage::EachAgain(problems) => {
                self.each_done(composer, operation, &problems);
                Next::Done(Ok(()))
            }
            Stage::Linked(linked) => {
                let failure = failure.map(|(_, failure)| failure);
                self.conclude_link(composer, operation, linked, failure)
            }
            Stage::Control => match failure {
                Some((_, failure)) => Next::Done(Err(fault::of(&failure))),
                None if self.is_commit && self.reply.is_undone => Next::Done(Err(undone())),
                None => Next::Done(Ok(())),
            },
        }
    }

    /// Returns true if its failures are rolled back separately, in a transaction.
    pub(crate) const fn is_guarded(&self) -> bool {
        self.in_transaction && (self.writes || self.is_held_to_reading)
    }

    /// Returns true for a write that met a lock on a shared connection and must wait for it on an
    /// exclusive one.
    fn must_leave_shared(&self, failure: &Failure) -> bool {
        self.writes
            && !self.in_transaction
            && !self.has_lane
            && self.reply.lent == 0
            && failure.code() == code::LOCKED
    }

    pub(crate) fn recover(&mut self, error: Error) -> Next {
        self.stage = Stage::Recover(error);
        Next::Send
    }

    fn fail(
        &mut self,
        composer: &mut Composer,
        operation: &mut Operation<'_>,
        role: Role,
        failure: Failure,
    ) -> Next {
        let found_nothing = match (failure.code(), role) {
            (code::NO_ROW, Role::Main(at)) => Subject::of(operation, &self.script, at)
                .is_some_and(|subject| subject.may_find_it()),
            _ => false,
        };
        if self.must_leave_shared(&failure) {
            self.wants_lane = true;
            self.stage = Stage::Again;
            return Next::Send;
        }
        let lost = failure.lost_a_race() || found_nothing;
        let was_hit = self.may_be_cancelled && failure.is_cancelled();
        let again = failure.is_of_preparing() || (lost || was_hit) && !self.in_transaction;
        if again && self.tries < TRIES_MAX && self.reply.lent == 0 {
            self.tries += 1;
            self.stage = Stage::Again;
            return Next::Send;
        }
        if lost {
            return Next::Done(Err(fault::lost_race()));
        }
        if let Operation::Sql { .. } = operation {
            return self.fail_sql(composer, operation, role, &failure);
        }
        let Role::Main(at) = role else { return self.give_up(fault::of(&failure)) };
        let is_many =
            matches!(operation, Operation::InsertMany { .. } | Operation::UpdateMany { .. });
        let is_of_a_row = failure.code().starts_with("23")
            || matches!(failure.code(), code::NO_ROW | code::TOO_LARGE | code::TOO_LONG);
        let is_single = self.script.is_single || self.script.rows.len() < 2;
        if is_many && !is_single && is_of_a_row {
            // Find the failed row.
            let singly = match operation {
                Operation::UpdateMany { table, .. } => {
                    composer.update_rows_singly(&mut self.script, table)
                }
                Operation::InsertMany { table, .. } => {
                    composer.insert_rows_singly(&mut self.script, table)
                }
                _ => Ok(()),
            };
            return match singly {
                Ok(()) => {
                    self.script.is_single = true;
                    self.stage = Stage::Again;
                    Next::Send
                }
                Err(error) => self.give_up(error),
            };
        }
        let at = if is_many && !self.script.is_single { 0 } else { at };
        let problem = Problem { at, failure };
        self.look_at(composer, operation, problem)
    }

    /// Sends a diagnostic query for a problem, if it provides more information.
    fn look_at(
        &mut self,
        composer: &mut Composer,
        operation: &mut Operation<'_>,
        problem: Problem,
    ) -> Next {
        let subject = Subject::of(operation, &self.script, problem.at);
        let looks = subject.is_some_and(|subject| {
            subject.look(composer, &mut self.script, Role::Look, &problem.failure)
        });
        if looks {
            self.stage = Stage::Look(problem);
            return Next::Send;
        }
        let error = self.explain(composer, operation, &problem, None);
        self.give_up(error)
    }

    /// Ends with an error; in a transaction, after rolling back the failure.
    pub(crate) fn give_up(&mut self, error: Error) -> Next {
        if self.is_guarded() { self.recover(error) } else { Next::Done(Err(error)) }
    }

    /// Returns the error of a problem, for its operation.
    fn explain(
        &self,
        composer: &mut Composer,
        operation: &mut Operation<'_>,
        problem: &Problem,
        look: Option<&Mark>,
    ) -> Error {
        let failure = &problem.failure;
        let error = match Subject::of(operation, &self.script, problem.at) {
            Some(subject) => subject.explain(composer, failure, &self.reply, look),
            None => fault::of(failure),
        };
        match operation {
            Operation::InsertMany { .. } | Operation::UpdateMany { .. } => {
                refusal::at_row(problem.at as usize, &error)
            }
            Operation::Batch { results, .. } => {
                // The writes before it were executed, and rolled back with it.
                results.resize_with(problem.at as usize, || Ok(Outcome::default()));
                let told = refusal::copy_of(&error);
                results.push(Err(error));
                told
            }
            _ => error,
        }
    }

    fn succeed(
        &mut self,
        composer: &mut Composer,
        operation: &mut Operation<'_>,
        outcome: &mut Outcome,
    ) -> Next {
        if let Some(error) = self.reply.fault.take() {
            return Next::Done(Err(error));
        }
        let first = self.reply.mark(Role::Main(0));
        match operation {
            Operation::Get { .. } | Operation::List { .. } => outcome.rows = self.reply.lent,
            Operation::Count { .. } => {
                let rows = first.and_then(|mark| self.reply.integer(mark, 0)).unwrap_or(0);
                outcome.rows = u64::try_from(rows).unwrap_or(0);
            }
            Operation::DeleteWhere { .. } => outcome.rows = first.map_or(0, |mark| mark.rows),
            Operation::Sql { statement, .. } => {
                outcome.rows = match statement.writes {
                    true => first.map_or(0, |mark| mark.rows),
                    false => self.reply.lent,
                };
            }
            Operation::InsertMany { table, on_conflict: OnConflict::Refuse, .. } => {
                *outcome = self.inserted(table);
            }
            Operation::InsertMany { table, .. } => *outcome = self.placed(table),
            Operation::UpdateMany { .. } => outcome.rows = self.script.rows.len() as u64,
            Operation::Batch { writes, results, .. } => {
                results.clear();
                for (at, write) in (0..).zip(writes.iter()) {
                    let mark = self.reply.mark_at(at);
                    results.push(Ok(self.outcome_of_write(write, mark)));
                }
            }
            Operation::Insert { table, on_conflict, .. } if *on_conflict != OnConflict::Refuse => {
                *outcome = conflict::outcome(table, &self.reply, first);
            }
            Operation::Insert { table, row, .. } => {
                let key = row[table.key()];
                *outcome = self.outcome_of_insert(key.is_absent(), first);
                outcome.version = table.version().and_then(|version| row[version].as_int());
            }
            Operation::Update { table, version, .. } => {
                if first.is_none_or(|mark| mark.rows == 0) {
                    return self.missing(composer, operation);
                }
                let version = version.filter(|_| table.version().is_some());
                *outcome = self.outcome_of_update(table, version, first);
            }
            Operation::Increment { table, field, .. } => {
                if first.is_none_or(|mark| mark.rows == 0) {
                    return self.missing(composer, operation);
                }
                *outcome = self.outcome_of_increment(table, *field, first);
            }
            Operation::Delete { .. } => {
                if first.is_none_or(|mark| mark.rows == 0) {
                    return self.missing(composer, operation);
                }
                outcome.rows = 1;
            }
            _ => {}
        }
        Next::Done(Ok(()))
    }

    /// Sends a diagnostic query for a write that found no row.
    fn missing(&mut self, composer: &mut Composer, operation: &mut Operation<'_>) -> Next {
        self.script.calls.clear();
        self.look_at(composer, operation, Problem { at: 0, failure: Failure::no_row() })
    }

    /// Continues after each write of a batch was tried: ends if none was refused; otherwise sends
    /// the others again, with diagnostic queries in place of the refused ones.
    fn each_tried(
        &mut self,
        composer: &mut Composer,
        operation: &mut Operation<'_>,
        first: Option<(Role, Failure)>,
        state: State,
    ) -> Next {
        let mut problems = Vec::new();
        for (role, failure) in first.into_iter().chain(std::mem::take(&mut self.reply.failures)) {
            let Role::Main(at) = role else {
                let error = fault::of(&failure);
                return match state {
                    State::Idle => Next::Done(Err(error)),
                    _ => self.recover(error),
                };
            };
            if failure.lost_a_race() {
                return if self.in_transaction {
                    Next::Done(Err(fault::of(&failure)))
                } else {
                    self.recover(fault::of(&failure))
                };
            }
            problems.push(Problem { at, failure });
        }
        if problems.is_empty() {
            self.each_done(composer, operation, &[]);
            self.stage = Stage::EachDone;
            return Next::Send;
        }
        let Operation::Batch { writes, .. } = &*operation else { return Next::Done(Ok(())) };
        self.script.clear();
        for (at, write) in (0..).zip(writes.iter()) {
            let problem = problems.iter().find(|problem| problem.at == at);
            let composed = match problem {
                None => composer.write(&mut self.script, Role::Main(at), write),
                Some(problem) => {
                    if let Some(subject) = Subject::of(operation, &self.script, at) {
                        subject.look(composer, &mut self.script, Role::Main(at), &problem.failure);
                    }
                    Ok(())
                }
            };
            if let Err(error) = composed {
                return self.recover(error);
            }
        }
        self.stage = Stage::EachAgain(problems);
        Next::Send
    }

    fn each_done(
        &self,
        composer: &mut Composer,
        operation: &mut Operation<'_>,
        problems: &[Problem],
    ) {
        let Operation::Batch { writes, .. } = &*operation else { return };
        let tell = |(at, write): (u32, &Write)| {
            let mark = self.reply.mark_at(at);
            match problems.iter().find(|problem| problem.at == at) {
                None => Ok(self.outcome_of_write(write, mark)),
                Some(problem) => Err(match Subject::of(operation, &self.script, at) {
                    Some(subject) => subject.explain(composer, &problem.failure, &self.reply, mark),
                    None => fault::of(&problem.failure),
                }),
            }
        };
        let told: Vec<Result<Outcome>> = (0..).zip(writes.iter()).map(tell).collect();
        if let Operation::Batch { results, .. } = operation {
            **results = told;
        }
    }

    /// Returns the first stage of an operation.
    pub(crate) fn first_stage(operation: &Operation<'_>) -> Stage {
        match operation {
            Operation::Batch { mode: BatchMode::Each, .. } => Stage::Each,
            _ => Stage::Main,
        }
    }
}

/// Returns true for a read that may be sent on any connection. Raw SQL may write if the connection
/// does not prevent it.
pub(crate) const fn may_leave_reader(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Get { .. } | Operation::List { .. } | Operation::Count { .. })
}

#[cold]
fn undone() -> Error {
    Error::new(
        ErrorKind::Engine,
        "the transaction was undone when one of its operations failed; begin again",
    )
}

impl Failure {
    /// Returns the failure of a write that found no row.
    fn no_row() -> Self {
        Self::of_code(code::NO_ROW)
    }
}
