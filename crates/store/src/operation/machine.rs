//! A batch as a state machine, the same for all engines.
//!
//! A batch is more than its writes: each may take keys from those before it,
//! stand for itself (a savepoint around it), be entered in the history, need
//! looks at rows for its caller's rights, and the batch may take place once. All
//! of that is a sequence of operations in one transaction, where each follows
//! from what those before came to. [`BatchMachine`] is that sequence as data: it
//! lends the operation whose turn it is ([`BatchMachine::with_current`]), takes
//! what it came to ([`BatchMachine::advance`]), and says whether another follows.
//! Between the two an engine may wait as long as it likes; no thread is needed
//! for that.
//!
//! The machine borrows nothing: an engine that waits keeps it, and brings the
//! batch again at each poll. What its looks read goes to a sink of its own. The
//! transaction is the engine's: begun before, and committed or undone after. An
//! engine that answers at once has [`BatchMachine::run`]; one that waits drives
//! a session by [`super::BatchDriver`].
//!
//! For each write the steps are these, of which most are left out:
//!
//! 1. a savepoint, where each write stands for itself;
//! 2. looks at rows that rights ask for (`rights/guard.rs`);
//! 3. a look at the rows that will be gone, for their entries (`audit.rs`), or at the row as it was
//!    before, for its immutable fields and for what changes (`before.rs`);
//! 4. the write;
//! 5. entries in the history, and now and then a delete of old ones;
//! 6. a look at what was written, for rights;
//! 7. the end of the savepoint: undone first, if a step from 2 on has failed.
//!
//! Before the first write the answer of an earlier batch with the same key is
//! looked for, and after the last one this batch's is kept (`once.rs`).

use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_model::{
    Error, ErrorKind, FieldSet, FilterExpr, NoRows, Query, Result, RowSink, RowSource, Table,
    Value, ValueRef,
};

use super::link::resolve_links;
use super::once::Recalled;
use super::trimming::{Trim, Trimming};
use super::{BatchMode, Link, Once, Operation, Outcome, Write};
use crate::before::{self, RowsBefore};
use crate::refusal::copy_of;
use crate::rights::Checks;

/// The savepoint around a write that stands for itself.
const SAVEPOINT: u32 = u32::MAX;

/// The parts of an [`Operation::Batch`].
pub struct BatchParts<'p, 'a> {
    /// The writes, in order.
    pub writes: &'a [Write],
    /// The keys that they take from one another.
    pub links: &'a [Link],
    /// How it takes place only once, if it does.
    pub once: Option<&'p mut Once<'a>>,
    /// Keep those that succeed, or none if one fails.
    pub mode: BatchMode,
    /// Takes the result of each write that was tried.
    pub results: &'p mut Vec<Result<Outcome>>,
}

impl<'p, 'a> BatchParts<'p, 'a> {
    /// The parts of a batch; none of another operation.
    pub fn of(operation: &'p mut Operation<'a>) -> Option<Self> {
        match operation {
            Operation::Batch { writes, links, once, mode, results } => Some(Self {
                writes,
                links,
                once: once.as_mut(),
                mode: *mode,
                results: &mut **results,
            }),
            _ => None,
        }
    }
}

/// What [`BatchMachine::advance`] came to.
#[derive(Debug)]
#[must_use]
pub enum BatchStep {
    /// Another operation is to be carried out.
    Next,
    /// The batch is over. In [`BatchMode::AllOrNothing`] the error is a copy of
    /// the last result's; otherwise what the engine failed with between writes.
    /// The transaction is to be undone after an error.
    Done(Result<()>),
}

/// A batch under way; see the module's documentation.
#[derive(Debug, Default)]
pub struct BatchMachine {
    stage: Stage,
    current: Current,
    looked: Looked,
    /// The place of the write whose turn it is.
    place: usize,
    /// How many links writes have taken.
    links: usize,
    /// That write as it is carried out, where it is not the batch's own: with
    /// links in it, or refusing what it may not meet.
    write: Option<Box<Write>>,
    /// What the write came to, while steps after it are carried out.
    written: Outcome,
    checks: Checks,
    /// The keys of rows that the write removes, and how many are entered.
    gone: Vec<Value>,
    entered: usize,
    /// The rows that the write is to change, as they were.
    before: Vec<Value>,
    /// The answer of a batch that takes place once.
    answer: Vec<u8>,
    trimming: Trimming,
}

/// What the operation under way is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Nothing: the batch has not begun, or is over.
    #[default]
    Idle,
    Recall,
    Forget,
    Replay,
    Savepoint,
    Check,
    Look,
    LookBefore,
    Write,
    Enter,
    Trim,
    CheckWritten,
    Undo,
    Release,
    Keep,
    TrimAnswers,
}

/// The operation under way.
#[derive(Debug, Default)]
enum Current {
    /// The write whose turn it is.
    #[default]
    Write,
    /// A write of the machine's own.
    Own(Box<Write>),
    /// Rows of the machine's own.
    Rows(Arc<Table>, Vec<Vec<Value>>),
    Count(Arc<Table>, Option<FilterExpr>),
    List(Arc<Table>, Box<Query>),
    Savepoint,
    RollbackTo,
    Release,
}

/// Takes the rows that a look reads: of each the key, or all its values.
#[derive(Debug, Default)]
struct Looked {
    key: Option<usize>,
    values: Vec<Value>,
}

impl RowSink for Looked {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        match self.key {
            Some(key) => self.values.extend(row.get(key).map(ValueRef::to_value)),
            None => self.values.extend(row.iter().map(ValueRef::to_value)),
        }
        ControlFlow::Continue(())
    }
}

/// Rows that own their values, as a source.
struct Owned<'r>(std::slice::Iter<'r, Vec<Value>>);

impl<'r> RowSource<'r> for Owned<'r> {
    fn remaining(&self) -> usize {
        self.0.len()
    }

    fn next(&mut self, row: &mut [ValueRef<'r>]) -> Result<bool> {
        let Some(values) = self.0.next() else { return Ok(false) };
        row.iter_mut().zip(values).for_each(|(to, value)| *to = value.as_ref());
        Ok(true)
    }
}

impl BatchMachine {
    /// Carries out a batch with `run`, which carries out one operation at once.
    ///
    /// # Errors
    /// As [`BatchStep::Done`].
    pub fn run(
        mut parts: BatchParts<'_, '_>,
        mut run: impl FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<Outcome>,
    ) -> Result<()> {
        let mut machine = Self::default();
        let mut step = machine.begin(&mut parts);
        loop {
            match step {
                BatchStep::Done(done) => return done,
                BatchStep::Next => {
                    let came = machine.with_current(parts.writes, &mut run);
                    step = machine.advance(&mut parts, came);
                }
            }
        }
    }

    /// Begins a batch, or begins it again in another transaction.
    pub fn begin(&mut self, parts: &mut BatchParts<'_, '_>) -> BatchStep {
        parts.results.clear();
        (self.place, self.links) = (0, 0);
        match &parts.once {
            Some(once) => {
                self.look(Stage::Recall, once.table, None, once.query());
                BatchStep::Next
            }
            None => self.begin_write(parts),
        }
    }

    /// Lends the operation whose turn it is, and the sink for its rows. `writes`
    /// are the batch's.
    ///
    /// # Errors
    /// What `run` fails with.
    pub fn with_current<T>(
        &mut self,
        writes: &[Write],
        run: impl FnOnce(&mut Operation<'_>, &mut dyn RowSink) -> Result<T>,
    ) -> Result<T> {
        let nothing = &mut NoRows;
        match &self.current {
            Current::Write => {
                let write = write_of(self.write.as_deref(), writes, self.place)?;
                write.bare().with_operation(|operation| run(operation, nothing))
            }
            Current::Own(write) => write.with_operation(|operation| run(operation, nothing)),
            Current::Rows(table, rows) => {
                let mut source = Owned(rows.iter());
                run(&mut Operation::insert_many(table, &mut source), nothing)
            }
            Current::Count(table, filter) => {
                run(&mut Operation::Count { table, filter: filter.as_ref() }, nothing)
            }
            Current::List(table, query) => {
                run(&mut Operation::List { table, query }, &mut self.looked)
            }
            Current::Savepoint => run(&mut Operation::Savepoint(SAVEPOINT), nothing),
            Current::RollbackTo => run(&mut Operation::RollbackTo(SAVEPOINT), nothing),
            Current::Release => run(&mut Operation::Release(SAVEPOINT), nothing),
        }
    }

    /// Takes what the operation came to, and says what follows.
    pub fn advance(&mut self, parts: &mut BatchParts<'_, '_>, came: Result<Outcome>) -> BatchStep {
        let came = match came {
            Ok(came) => came,
            Err(error) => return self.failed(parts, error),
        };
        let went_on = match self.stage {
            Stage::Write => {
                self.written = came;
                self.after_write(parts)
            }
            Stage::Savepoint => return self.begin_checks(parts),
            Stage::Check => write_of(self.write.as_deref(), parts.writes, self.place)
                .and_then(|write| self.checks.counted(write, came.rows))
                .and_then(|()| self.check(parts)),
            Stage::Look => {
                self.gone = std::mem::take(&mut self.looked.values);
                self.current = Current::Write;
                self.stage = Stage::Write;
                Ok(BatchStep::Next)
            }
            Stage::LookBefore => {
                self.before = std::mem::take(&mut self.looked.values);
                (self.stage, self.current) = (Stage::Write, Current::Write);
                write_of(self.write.as_deref(), parts.writes, self.place)
                    .and_then(|write| RowsBefore(&self.before).check(write))
                    .map(|()| BatchStep::Next)
            }
            Stage::Enter => self.enter(parts),
            Stage::Trim => self.check_written(parts),
            Stage::CheckWritten => write_of(self.write.as_deref(), parts.writes, self.place)
                .and_then(|write| self.checks.counted_written(write, came.rows))
                .and_then(|()| self.end_write(parts)),
            Stage::Undo => {
                (self.stage, self.current) = (Stage::Release, Current::Release);
                return BatchStep::Next;
            }
            Stage::Release => {
                self.place += 1;
                return self.begin_write(parts);
            }
            Stage::Recall | Stage::Forget | Stage::Replay | Stage::Keep | Stage::TrimAnswers => {
                return match self.advance_once(parts, &came) {
                    Ok(step) => step,
                    Err(error) => self.done(Err(error)),
                };
            }
            Stage::Idle => {
                let message = "a batch was given a result that it does not wait for";
                return BatchStep::Done(Err(Error::new(ErrorKind::Bug, message)));
            }
        };
        went_on.unwrap_or_else(|error| self.fail_write(parts, error))
    }

    fn done(&mut self, result: Result<()>) -> BatchStep {
        self.stage = Stage::Idle;
        BatchStep::Done(result)
    }

    fn look(&mut self, stage: Stage, table: &Arc<Table>, key: Option<usize>, query: Query) {
        self.looked.key = key;
        self.looked.values.clear();
        self.stage = stage;
        self.current = Current::List(Arc::clone(table), Box::new(query));
    }

    /// Begins with the write at the place, or ends the batch.
    fn begin_write(&mut self, parts: &mut BatchParts<'_, '_>) -> BatchStep {
        if self.place >= parts.writes.len() {
            return self.end(parts);
        }
        if parts.mode == BatchMode::Each {
            (self.stage, self.current) = (Stage::Savepoint, Current::Savepoint);
            return BatchStep::Next;
        }
        self.begin_checks(parts)
    }

    /// Puts links into the write, and begins with what rights ask for.
    fn begin_checks(&mut self, parts: &mut BatchParts<'_, '_>) -> BatchStep {
        let place = self.place;
        let links = parts.links.get(self.links..).unwrap_or_default();
        let links = &links[..links.partition_point(|link| link.write <= place)];
        self.links += links.len();
        self.write = None;
        if !links.is_empty() {
            match resolve_links(&parts.writes[place], links, parts.writes, parts.results) {
                Ok(write) => self.write = Some(Box::new(write)),
                Err(error) => return self.fail_write(parts, error),
            }
        }
        let write = write_of(self.write.as_deref(), parts.writes, place);
        if write.as_ref().is_ok_and(|write| !write.is_of_steps()) {
            // Nearly always.
            (self.stage, self.current) = (Stage::Write, Current::Write);
            return BatchStep::Next;
        }
        self.gone.clear();
        self.before.clear();
        self.entered = 0;
        let begun = write
            .and_then(Checks::begin)
            .map(|checks| self.checks = checks)
            .and_then(|()| self.check(parts));
        begun.unwrap_or_else(|error| self.fail_write(parts, error))
    }

    /// The next look that rights ask for, or the write.
    #[cold]
    fn check(&mut self, parts: &BatchParts<'_, '_>) -> Result<BatchStep> {
        let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
        if let Some((table, filter)) = self.checks.next(write)? {
            (self.stage, self.current) = (Stage::Check, Current::Count(table, filter));
            return Ok(BatchStep::Next);
        }
        if self.checks.refuses() {
            self.write = Some(Box::new(write.refusing()));
        }
        let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
        if let Some(query) = before::query(write) {
            let table = Arc::clone(write.table());
            self.look(Stage::LookBefore, &table, None, query);
            return Ok(BatchStep::Next);
        }
        let goes = write.audit().and_then(|audit| audit.going(write.bare()));
        match goes {
            Some(filter) => {
                let table = Arc::clone(write.table());
                let fields = Some(FieldSet::EMPTY.with(table.key()));
                let query = Query { filter, fields, ..Query::new() };
                self.look(Stage::Look, &table, Some(table.key()), query);
            }
            None => (self.stage, self.current) = (Stage::Write, Current::Write),
        }
        Ok(BatchStep::Next)
    }

    /// What follows a write that went well.
    fn after_write(&mut self, parts: &mut BatchParts<'_, '_>) -> Result<BatchStep> {
        let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
        if write.audit().is_some() && self.written.rows > 0 {
            return self.enter(parts);
        }
        if write.rights().is_some() {
            return self.check_written(parts);
        }
        self.end_write(parts)
    }

    /// The next entries in the history.
    #[cold]
    fn enter(&mut self, parts: &mut BatchParts<'_, '_>) -> Result<BatchStep> {
        let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
        let Some(audit) = write.audit() else { return self.check_written(parts) };
        let mut entries = Vec::new();
        let (from, bare) = (self.entered, write.bare());
        let known = (&*self.gone, RowsBefore(&self.before));
        self.entered = audit.entries(bare, known, &self.written, from, &mut entries);
        if entries.is_empty() {
            let Some(trim) = audit.trim() else { return self.check_written(parts) };
            (self.stage, self.current) = (Stage::Trim, Current::Own(Box::new(trim)));
            return Ok(BatchStep::Next);
        }
        let table = Arc::clone(audit.table());
        self.stage = Stage::Enter;
        self.current = match entries.len() {
            1 => Current::Own(Box::new(Write::insert(table, entries.remove(0)))),
            _ => Current::Rows(table, entries),
        };
        Ok(BatchStep::Next)
    }

    /// A look at what was written, if rights ask for one.
    #[cold]
    fn check_written(&mut self, parts: &mut BatchParts<'_, '_>) -> Result<BatchStep> {
        let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
        match self.checks.of_written(write, &self.written)? {
            Some((table, filter)) => {
                (self.stage, self.current) = (Stage::CheckWritten, Current::Count(table, filter));
                Ok(BatchStep::Next)
            }
            None => self.end_write(parts),
        }
    }

    /// The end of a write that went well, with all its steps.
    fn end_write(&mut self, parts: &mut BatchParts<'_, '_>) -> Result<BatchStep> {
        parts.results.push(Ok(std::mem::take(&mut self.written)));
        if parts.mode == BatchMode::Each {
            (self.stage, self.current) = (Stage::Release, Current::Release);
            return Ok(BatchStep::Next);
        }
        self.place += 1;
        Ok(self.begin_write(parts))
    }

    /// What follows a step that failed.
    #[cold]
    fn failed(&mut self, parts: &mut BatchParts<'_, '_>, error: Error) -> BatchStep {
        match self.stage {
            Stage::Check
            | Stage::Look
            | Stage::LookBefore
            | Stage::Write
            | Stage::Enter
            | Stage::Trim
            | Stage::CheckWritten => self.fail_write(parts, error),
            _ => self.done(Err(error)),
        }
    }

    /// The end of a write that failed.
    #[cold]
    fn fail_write(&mut self, parts: &mut BatchParts<'_, '_>, error: Error) -> BatchStep {
        let all = (parts.mode == BatchMode::AllOrNothing).then(|| copy_of(&error));
        parts.results.push(Err(error));
        match all {
            Some(error) => self.done(Err(error)),
            None => {
                (self.stage, self.current) = (Stage::Undo, Current::RollbackTo);
                BatchStep::Next
            }
        }
    }

    /// The end of the writes: an answer is kept, or nothing is left to do.
    fn end(&mut self, parts: &mut BatchParts<'_, '_>) -> BatchStep {
        let Some(once) = &mut parts.once else { return self.done(Ok(())) };
        let (stage, write) = (Stage::Keep, once.keep(parts.results));
        (self.stage, self.current) = (stage, Current::Own(Box::new(write)));
        BatchStep::Next
    }

    /// What follows a step of a batch that takes place once.
    #[cold]
    fn advance_once(
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

    /// Forgets answers, step by step; `counted` is what the step before came to.
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

    fn answered(&mut self, parts: &mut BatchParts<'_, '_>, repeated: bool) -> BatchStep {
        let bytes = std::mem::take(&mut self.answer);
        if let Some(once) = &mut parts.once {
            *once.answered = Some(super::Answered { bytes, repeated });
        }
        self.done(Ok(()))
    }
}

/// The write at a place, or what is carried out in its stead.
fn write_of<'w>(own: Option<&'w Write>, writes: &'w [Write], place: usize) -> Result<&'w Write> {
    own.or_else(|| writes.get(place)).ok_or_else(|| {
        Error::new(ErrorKind::Bug, "a batch was brought again with fewer writes than before")
    })
}
