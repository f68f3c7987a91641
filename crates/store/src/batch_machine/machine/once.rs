//! The steps of a batch with an idempotency key: the search for an earlier answer, and storing this
//! one (`answers.rs`).

use std::sync::Arc;

use marmota_model::Result;

use super::current::Current;
use super::{BatchMachine, BatchParts, BatchStep, Stage};
use crate::batch_machine::answers::Recalled;
use crate::batch_machine::trimming::Trim;
use crate::contract::operation::{Answered, Once, Outcome, Write};

impl BatchMachine {
    /// Ends the batch: its answer is stored, if it has an idempotency key.
    pub(super) fn end(&mut self, parts: &mut BatchParts<'_, '_>) -> BatchStep {
        let Some(once) = &mut parts.once else { return self.done(Ok(())) };
        let (stage, write) = (Stage::Keep, once.keep(parts.results));
        (self.stage, self.current) = (stage, Current::Own(Box::new(write)));
        BatchStep::Next
    }

    /// Continues after a step of a batch with an idempotency key.
    #[cold]
    pub(super) fn advance_once(
        &mut self,
        parts: &mut BatchParts<'_, '_>,
        came: &Outcome,
    ) -> Result<BatchStep> {
        let Some(once) = &mut parts.once else { return Ok(self.done(Ok(()))) };
        let own = |write| Current::Own(Box::new(write));
        match self.stage {
            Stage::Recall => {
                match once.recall(std::mem::take(&mut self.looked.values))? {
                    Recalled::Nothing => return Ok(self.begin_write(parts)),
                    Recalled::TooOld(forget) => {
                        (self.stage, self.current) = (Stage::Forget, own(forget));
                    }
                    Recalled::Answer(count, answer) => {
                        self.answer = answer;
                        (self.stage, self.current) = (Stage::Replay, own(count));
                    }
                }
                Ok(BatchStep::Next)
            }
            Stage::Forget => Ok(self.begin_write(parts)),
            Stage::Keep => {
                if let Current::Own(kept) = &mut self.current {
                    self.answer = Once::answer_of(kept);
                }
                self.trimming = once.trimming(came);
                self.looked.values.clear();
                Ok(self.trim_answers(parts, 0))
            }
            Stage::Replay => Ok(self.answered(parts, true)),
            _ => Ok(self.trim_answers(parts, came.rows)),
        }
    }

    /// Deletes answers, step by step; `counted` is the count of the step before.
    fn trim_answers(&mut self, parts: &mut BatchParts<'_, '_>, counted: u64) -> BatchStep {
        let Some(once) = &parts.once else { return self.done(Ok(())) };
        let (table, last) = (once.table, std::mem::take(&mut self.looked.values).pop());
        let current = match self.trimming.next(table, counted, last) {
            None => return self.answered(parts, false),
            Some(Trim::Count(filter)) => Current::Count(Arc::clone(table), filter),
            Some(Trim::Delete(filter)) => {
                let (table, filter) = (Arc::clone(table), Some(filter));
                Current::Own(Box::new(Write::DeleteWhere { table, filter }))
            }
            Some(Trim::List(query)) => {
                self.look(Stage::TrimAnswers, table, Some(table.key()), query);
                return BatchStep::Next;
            }
        };
        (self.stage, self.current) = (Stage::TrimAnswers, current);
        BatchStep::Next
    }

    /// Delivers the answer, and ends the batch.
    fn answered(&mut self, parts: &mut BatchParts<'_, '_>, repeated: bool) -> BatchStep {
        let bytes = std::mem::take(&mut self.answer);
        if let Some(once) = &mut parts.once {
            *once.answered = Some(Answered { bytes, repeated });
        }
        self.done(Ok(()))
    }
}
