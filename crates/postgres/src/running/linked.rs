//! A batch with links between its writes: executed write by write, because a generated key is only
//! known after the answer to the insert. The whole batch is one transaction, on a separate
//! connection.

use marmota_model::{Error, Result};
use marmota_store::operation::{BatchMode, Operation, Outcome, resolve_links};
use marmota_store::refusal;

use super::Running;
use super::stage::{Linked, Next, Problem, Stage};
use super::subject::Subject;
use crate::composer::Composer;
use crate::fault::{self, Failure};
use crate::reply::Mark;
use crate::script::Role;

impl Running {
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
        self.script.clear();
        for (at, write) in (0..).zip(writes.iter()).skip(from as usize) {
            let taken: Vec<_> = links.iter().filter(|l| l.write == at as usize).copied().collect();
            let composed = resolve_links(write, &taken, writes, results).and_then(|write| {
                composer.write(&mut self.script, Role::Main(at), &write)?;
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
                let outcome = self.outcome_of_write(&write, self.reply.mark_at(at));
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
                self.script.clear();
                if let Some(subject) = Subject::of_write(&write) {
                    subject.look(composer, &mut self.script, Role::Look, &failure);
                }
                self.stage = Stage::Linked(Linked::Look(Problem { at, failure }, write));
                Next::Send
            }
            (Linked::Look(problem, write), None) => {
                let look: Option<Mark> = self.reply.mark(Role::Look).cloned();
                let error = match Subject::of_write(&write) {
                    Some(subject) => {
                        let reply = &self.reply;
                        subject.explain(composer, &problem.failure, reply, look.as_ref())
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
            (Linked::Look(..), Some(failure)) => self.end_link(Some(fault::of(&failure))),
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
