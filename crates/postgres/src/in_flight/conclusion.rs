//! The end of an exchange of an operation: its outcome or, after a refusal, the exchange that
//! follows.

use marmota_model::{Error, ErrorKind};
use marmota_store::operation::{OnConflict, Operation, Outcome};
use marmota_store::refusal;

use crate::commands::command_batch::Role;
use crate::commands::reply::Mark;
use crate::composer::Composer;
use crate::composer::{conflict, group};
use crate::connection::State;
use crate::fault::{self, Failure, code};
use crate::in_flight::stage::{Next, Problem, Stage};
use crate::in_flight::write_target::WriteTarget;
use crate::in_flight::{InFlightOperation, SlotUse, Task};

/// The number of retries of a write that conflicted with another.
const TRIES_MAX: u32 = 10;

impl InFlightOperation {
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
                    self.slot_use = SlotUse::Wanted;
                    Next::Send
                }
                Some((role, failure)) => self.fail_sql(composer, operation, role, &failure),
            },
            Stage::Main | Stage::Again => match failure {
                None => self.succeed(composer, operation, outcome),
                Some((role, failure)) => self.fail(composer, operation, role, failure),
            },
            Stage::Diagnostic(problem) => match failure {
                None => {
                    let diagnostic = self.reply.mark(Role::Diagnostic).cloned();
                    Next::Done(Err(self.explain(
                        composer,
                        operation,
                        &problem,
                        diagnostic.as_ref(),
                    )))
                }
                Some((_, failure)) if failure.lost_a_race() => Next::Done(Err(fault::lost_race())),
                Some((_, failure)) if failure.is_of_preparing() && self.tries < TRIES_MAX => {
                    self.tries += 1;
                    self.stage = Stage::Diagnostic(problem);
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
                None if self.task == Task::Commit && self.reply.is_undone => {
                    Next::Done(Err(undone()))
                }
                None => Next::Done(Ok(())),
            },
        }
    }

    /// Returns true for a write that met a lock on a shared connection and must wait for it on an
    /// exclusive one.
    fn must_leave_shared(&self, failure: &Failure) -> bool {
        self.writes()
            && !self.in_transaction
            && self.slot_use != SlotUse::Exclusive
            && self.reply.lent == 0
            && failure.code() == code::LOCKED
    }

    fn fail(
        &mut self,
        composer: &mut Composer,
        operation: &mut Operation<'_>,
        role: Role,
        failure: Failure,
    ) -> Next {
        let found_nothing = match (failure.code(), role) {
            (code::NO_ROW, Role::Main(at)) => WriteTarget::of(operation, &self.commands, at)
                .is_some_and(|write_target| write_target.may_find_it()),
            _ => false,
        };
        if self.must_leave_shared(&failure) {
            self.slot_use = SlotUse::Wanted;
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
        let is_single = self.commands.is_single || self.commands.rows.len() < 2;
        if is_many && !is_single && is_of_a_row {
            // Find the failed row.
            let singly = match operation {
                Operation::UpdateMany { table, .. } => {
                    composer.update_rows_singly(&mut self.commands, table)
                }
                Operation::InsertMany { table, .. } => {
                    composer.insert_rows_singly(&mut self.commands, table)
                }
                _ => Ok(()),
            };
            return match singly {
                Ok(()) => {
                    self.commands.is_single = true;
                    self.stage = Stage::Again;
                    Next::Send
                }
                Err(error) => self.give_up(error),
            };
        }
        let at = if is_many && !self.commands.is_single { 0 } else { at };
        let problem = Problem { at, failure };
        self.diagnose(composer, operation, problem)
    }

    /// Sends a diagnostic query for a problem, if it provides more information.
    fn diagnose(
        &mut self,
        composer: &mut Composer,
        operation: &mut Operation<'_>,
        problem: Problem,
    ) -> Next {
        let write_target = WriteTarget::of(operation, &self.commands, problem.at);
        let looks = write_target.is_some_and(|write_target| {
            write_target.diagnostic(
                composer,
                &mut self.commands,
                Role::Diagnostic,
                &problem.failure,
            )
        });
        if looks {
            self.stage = Stage::Diagnostic(problem);
            return Next::Send;
        }
        let error = self.explain(composer, operation, &problem, None);
        self.give_up(error)
    }

    /// Returns the error of a problem, for its operation.
    fn explain(
        &self,
        composer: &mut Composer,
        operation: &mut Operation<'_>,
        problem: &Problem,
        diagnostic: Option<&Mark>,
    ) -> Error {
        let failure = &problem.failure;
        if let Operation::Group { table, query, .. } = operation
            && failure.code() == code::TOO_LARGE
        {
            return query.overflow(table);
        }
        let error = match WriteTarget::of(operation, &self.commands, problem.at) {
            Some(write_target) => write_target.explain(composer, failure, &self.reply, diagnostic),
            None => fault::of(failure),
        };
        match operation {
            Operation::InsertMany { .. } | Operation::UpdateMany { .. } => {
                error.at(format_args!("row {}", problem.at))
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
            Operation::Get { .. }
            | Operation::List { .. }
            | Operation::ListEach { .. }
            | Operation::Group { .. } => outcome.rows = self.reply.lent,
            Operation::Estimate { .. } => {
                let plan = first.and_then(|mark| self.reply.columns(mark).next().flatten());
                outcome.rows = plan.and_then(group::expected_rows).unwrap_or(0);
            }
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
            Operation::UpdateMany { .. } => outcome.rows = self.commands.rows.len() as u64,
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
        self.commands.calls.clear();
        self.diagnose(
            composer,
            operation,
            Problem { at: 0, failure: Failure::of_code(code::NO_ROW) },
        )
    }
}

#[cold]
fn undone() -> Error {
    Error::new(
        ErrorKind::Engine,
        "the transaction was rolled back because one of its operations failed; begin a new one",
    )
}
