//! A batch with links between its writes: executed write by write, because a generated key is only
//! known after the answer to the insert. The whole batch is one transaction, on a separate
//! connection.

use marmota_model::{Error, Result};
use marmota_store::operation::{BatchMode, Operation, Outcome, report_linked_key, resolve_links};
use marmota_store::refusal;

use crate::commands::command_batch::Role;
use crate::commands::reply::Mark;
use crate::composer::Composer;
use crate::fault::{self, Failure};
use crate::in_flight::InFlightOperation;
use crate::in_flight::stage::{Linked, Next, Problem, Stage};
use crate::in_flight::write_target::WriteTarget;

impl InFlightOperation {
    /// Continues with the write at a place, or ends the batch.
    pub(crate) fn link(
        &mut self,
        composer: &mut Composer,
        operation: &mut Operation<'_>,
        from: u32,
    ) -> Next {
        let Operation::Batch { writes, links, mode, results, .. } = operation else {
            return Next::Done(Ok(()));
        };
        self.commands.clear();
        for (at, write) in (0..).zip(writes.iter()).skip(from as usize) {
            let taken: Vec<_> = links.iter().filter(|l| l.write == at as usize).copied().collect();
            let composed = resolve_links(write, &taken, writes, results).and_then(|write| {
                composer.write(&mut self.commands, Role::Main(at), &write)?;
                Ok(write)
            });
            match composed {
                Ok(write) => {
                    self.stage = Stage::Linked(Linked::Write(at, Box::new(write)));
                    return Next::Send;
                }
                Err(error) => {
                    let told = refusal::copy_of(&error);
                    results.push(Err(error));
                    if *mode == BatchMode::AllOrNothing {
                        return self.end_link(Some(told));
                    }
                }
            }
        }
        self.end_link(None)
    }

    fn end_link(&mut self, error: Option<Error>) -> Next {
        self.stage = Stage::Linked(Linked::End(error));
        Next::Send
    }

    /// Processes the answer to a step of such a batch. Returns what follows.
    pub(crate) fn conclude_link(
        &mut self,
        composer: &mut Composer,
        operation: &mut Operation<'_>,
        linked: Linked,
        failure: Option<Failure>,
    ) -> Next {
        match (linked, failure) {
            (Linked::Write(at, write), None) => {
                let mut outcome = self.outcome_of_write(&write, self.reply.mark_at(at));
                if let Operation::Batch { writes, .. } = operation
                    && let Some(given) = writes.get(at as usize)
                {
                    report_linked_key(given, &write, &mut outcome);
                }
                push(operation, Ok(outcome));
                self.link(composer, operation, at + 1)
            }
            (Linked::Write(at, write), Some(failure)) => {
                if failure.lost_a_race() && self.in_transaction {
                    return Next::Done(Err(fault::lost_race()));
                }
                if failure.lost_a_race() || failure.is_of_preparing() {
                    return self.end_link(Some(fault::lost_race()));
                }
                self.commands.clear();
                if let Some(write_target) = WriteTarget::of_write(&write) {
                    write_target.diagnostic(
                        composer,
                        &mut self.commands,
                        Role::Diagnostic,
                        &failure,
                    );
                }
                self.stage = Stage::Linked(Linked::Diagnostic(Problem { at, failure }, write));
                Next::Send
            }
            (Linked::Diagnostic(problem, write), None) => {
                let diagnostic: Option<Mark> = self.reply.mark(Role::Diagnostic).cloned();
                let error = match WriteTarget::of_write(&write) {
                    Some(write_target) => {
                        let reply = &self.reply;
                        write_target.explain(composer, &problem.failure, reply, diagnostic.as_ref())
                    }
                    None => fault::of(&problem.failure),
                };
                let told = refusal::copy_of(&error);
                push(operation, Err(error));
                match operation {
                    Operation::Batch { mode: BatchMode::AllOrNothing, .. } => {
                        self.end_link(Some(told))
                    }
                    _ => self.link(composer, operation, problem.at + 1),
                }
            }
            (Linked::Diagnostic(..), Some(failure)) => self.end_link(Some(fault::of(&failure))),
            (Linked::End(None), None) => Next::Done(Ok(())),
            (Linked::End(Some(error)), _) => Next::Done(Err(error)),
            (Linked::End(None), Some(failure)) => self.end_link(Some(fault::of(&failure))),
        }
    }
}

fn push(operation: &mut Operation<'_>, result: Result<Outcome>) {
    if let Operation::Batch { results, .. } = operation {
        results.push(result);
    }
}
