//! A batch whose writes are executed separately: all are tried first, then those that were not
//! refused are sent again.

use marmota_model::Result;
use marmota_store::operation::{Operation, Outcome, Write};

use crate::commands::command_batch::Role;
use crate::composer::Composer;
use crate::connection::State;
use crate::fault::{self, Failure};
use crate::in_flight::InFlightOperation;
use crate::in_flight::stage::{Next, Problem, Stage};
use crate::in_flight::write_target::WriteTarget;

impl InFlightOperation {
    /// Continues after each write of a batch was tried: ends if none was refused; otherwise sends
    /// the others again, with diagnostic queries in place of the refused ones.
    pub(super) fn each_tried(
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
        self.commands.clear();
        for (at, write) in (0..).zip(writes.iter()) {
            let problem = problems.iter().find(|problem| problem.at == at);
            let composed = match problem {
                None => composer.write(&mut self.commands, Role::Main(at), write),
                Some(problem) => {
                    if let Some(write_target) = WriteTarget::of(operation, &self.commands, at) {
                        write_target.diagnostic(
                            composer,
                            &mut self.commands,
                            Role::Main(at),
                            &problem.failure,
                        );
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

    pub(super) fn each_done(
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
                Some(problem) => Err(match WriteTarget::of(operation, &self.commands, at) {
                    Some(write_target) => {
                        write_target.explain(composer, &problem.failure, &self.reply, mark)
                    }
                    None => fault::of(&problem.failure),
                }),
            }
        };
        let told: Vec<Result<Outcome>> = (0..).zip(writes.iter()).map(tell).collect();
        if let Operation::Batch { results, .. } = operation {
            **results = told;
        }
    }
}
