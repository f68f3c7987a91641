//! A batch as a state machine, the same for all engines.
//!
//! A batch is more than its writes: each may take keys from earlier ones, be independent of the
//! others (with a savepoint around it), be entered in the history, and need reads for the rights of
//! its caller; and the batch may have an idempotency key. All of this is a sequence of operations
//! in one transaction, where each depends on the outcomes of the earlier ones. [`BatchMachine`] is
//! this sequence as data: it lends the current operation ([`BatchMachine::with_current`]), takes
//! its outcome ([`BatchMachine::advance`]), and reports whether another follows. Between the two
//! calls an engine may wait without a thread.
//!
//! The machine borrows nothing: an engine that waits keeps it, and passes the batch again at each
//! poll. The rows of its reads go to an internal sink. The engine owns the transaction, which it
//! begins before and commits or rolls back afterwards. An engine that answers at once uses
//! [`BatchMachine::run`]; one that waits drives a session with
//! [`crate::operation::BatchDriver`].
//!
//! Each write has these steps, most of which are usually skipped:
//!
//! 1. a savepoint, if the writes are independent;
//! 2. reads of rows that rights require (`checks.rs`);
//! 3. calls of the hooks of the table, with the rows before and after the write (`hooks.rs`); if a
//!    hook changes the row, step 2 is repeated;
//! 4. reads and writes of the rows that refer to those that a delete deletes (`cascade.rs`);
//! 5. a read of the rows that will be removed, for their entries (`entries.rs`), or of the row
//!    before the write, for its immutable fields and for its changes (`before.rs`);
//! 6. the write;
//! 7. a read of the written row, for its generated columns (`generated.rs`);
//! 8. entries in the history, and from time to time a delete of old ones;
//! 9. a read of the written row, for rights;
//! 10. the end of the savepoint, which is rolled back first if a step from 2 on has failed.
//!
//! A batch with an idempotency key begins with a search for the answer of an earlier batch with the
//! same key, and ends with storing this batch's answer (`answers.rs`).

mod cascade;
mod current;
mod hooks;
mod once;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use marmota_model::{Error, ErrorKind, FieldSet, NoRows, Result, RowQuery, RowSink, Table, Value};

use self::cascade::CascadeRun;
use self::current::{Current, Looked};
use self::hooks::HookCalls;
use super::before::{self, RowsBefore};
use super::checks::Checks;
use super::generated::GeneratedValues;
use super::trimming::Trimming;
use crate::contract::operation::{
    BatchMode, Link, Once, Operation, Outcome, Write, report_linked_key, resolve_links,
};
use crate::rows::refusal::copy_of;

/// The parts of an [`Operation::Batch`].
///
/// The machine borrows them for each call only; they are the same at each.
pub struct BatchParts<'p, 'a> {
    /// The writes, in order.
    pub writes: &'a [Write],
    /// The keys that writes take from earlier ones.
    pub links: &'a [Link],
    /// The idempotency key and its answer, if the batch is to be executed only once.
    pub once: Option<&'p mut Once<'a>>,
    /// Whether to keep the writes that succeed, or none if one fails.
    pub mode: BatchMode,
    /// Receives the result of each write that was tried.
    pub results: &'p mut Vec<Result<Outcome>>,
}

impl<'p, 'a> BatchParts<'p, 'a> {
    /// Returns the parts of a batch; `None` for another operation.
    ///
    /// ```
    /// use marmota_model::Result;
    /// use marmota_store::operation::{BatchMode, BatchParts, Operation, Outcome};
    ///
    /// let mut results: Vec<Result<Outcome>> = Vec::new();
    /// let mode = BatchMode::AllOrNothing;
    /// let mut batch =
    ///     Operation::Batch { writes: &[], links: &[], once: None, mode, results: &mut results };
    /// assert!(BatchParts::of(&mut batch).is_some());
    /// assert!(BatchParts::of(&mut Operation::Begin).is_none());
    /// ```
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

/// The result of [`BatchMachine::advance`].
#[derive(Debug)]
#[must_use]
pub enum BatchStep {
    /// Another operation is to be executed.
    Next,
    /// A hook has to be continued with [`BatchMachine::poll_hook`].
    Hook,
    /// The batch is over. In [`BatchMode::AllOrNothing`] the error is a copy of the last result's;
    /// otherwise it is an error of the engine between writes. After an error the transaction has to
    /// be rolled back.
    Done(Result<()>),
}

/// A batch in progress. The steps are in the documentation of `batch_machine/machine.rs`.
///
/// Invariants: [`BatchMachine::with_current`] and [`BatchMachine::advance`] are called in turns
/// after `Next`, and [`BatchMachine::poll_hook`] after `Hook`, until `Done`; the writes and links are those of [`BatchMachine::begin`]; nothing
/// else writes in the transaction meanwhile.
#[derive(Debug, Default)]
pub struct BatchMachine {
    /// The purpose of the current operation.
    stage: Stage,
    /// The current operation.
    current: Current,
    /// Receives the rows of reads.
    looked: Looked,
    /// The index of the current write.
    place: usize,
    /// The number of links that writes have taken.
    links: usize,
    /// The current write if it differs from the batch's: with its links replaced, or with another
    /// conflict action.
    write: Option<Box<Write>>,
    /// The outcome of the write, while the steps after it are executed.
    written: Outcome,
    /// The checks of rights for the current write.
    checks: Checks,
    /// The keys of rows that the write removes, and the number of them that have an entry.
    gone: Vec<Value>,
    entered: usize,
    /// The rows that the write is to change, before the write.
    before: Vec<Value>,
    /// The generated columns of the row that the write is for.
    generated: GeneratedValues,
    /// The calls of the hooks for the current write, if its table has hooks.
    calls: Option<Box<HookCalls>>,
    /// True if it deletes rows because of others, so that an engine may not count all of them.
    is_of_cascade: bool,
    /// The rows that refer to those that the current write deletes, if there can be some.
    cascade: Option<Box<CascadeRun>>,
    /// The answer of a batch with an idempotency key.
    answer: Vec<u8>,
    /// The deletes of old answers.
    trimming: Trimming,
}

/// The purpose of the current operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// The batch has not begun, or is over.
    #[default]
    Idle,
    /// Searches for the answer of an earlier batch.
    Recall,
    /// Deletes an expired answer.
    Forget,
    /// Counts a repeat.
    Replay,
    /// Sets the savepoint of an independent write.
    Savepoint,
    /// Counts rows, for rights.
    Check,
    /// Reads the rows that hooks get.
    LookForHooks,
    /// A hook is in progress.
    Hook,
    /// Reads the keys of rows that the write deletes, or of those that refer to them.
    LookForDeleted,
    LookForReferrers,
    /// Reads the keys of rows that the write removes.
    Look,
    /// Reads the row before the write.
    LookBefore,
    /// Executes the write.
    Write,
    /// Reads the row after the write.
    LookAfter,
    /// Inserts history entries.
    Enter,
    /// Deletes old history entries.
    Trim,
    /// Counts the written row, for rights.
    CheckWritten,
    /// Rolls back to the savepoint.
    Undo,
    /// Releases the savepoint.
    Release,
    /// Stores the answer.
    Keep,
    /// Deletes old answers.
    TrimAnswers,
}

impl BatchMachine {
    /// Executes a batch with `run`, which executes one operation at once.
    ///
    /// The engine begins a transaction before, commits after `Ok`, and rolls back after an error.
    /// `run` MUST execute each operation in that transaction, including savepoints if it has
    /// [`BatchMode::Each`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use marmota_memory::Memory;
    /// use marmota_model::{Field, Kind, NoRows, Result, Role, Schema, Table, Value};
    /// use marmota_store::engine::{self, Engine};
    /// use marmota_store::operation::{BatchMachine, BatchMode, BatchParts, Operation, Outcome, Write};
    ///
    /// let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    /// let table = Arc::new(Table::new(city)?);
    /// let engine = Memory::new();
    /// engine.prepare(&[Arc::clone(&table)], 0)?;
    /// let mut session = engine.session()?;
    ///
    /// let writes = [Write::insert(Arc::clone(&table), vec![Value::Absent])];
    /// let mut results: Vec<Result<Outcome>> = Vec::new();
    /// let parts = BatchParts {
    ///     writes: &writes,
    ///     links: &[],
    ///     once: None,
    ///     mode: BatchMode::AllOrNothing,
    ///     results: &mut results,
    /// };
    /// engine::run(&mut *session, &mut Operation::Begin, &mut NoRows)?;
    /// BatchMachine::run(parts, |operation, sink| engine::run(&mut *session, operation, sink))?;
    /// engine::run(&mut *session, &mut Operation::Commit, &mut NoRows)?;
    /// assert_eq!(results.len(), 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`BatchStep::Done`].
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
                BatchStep::Hook => {
                    let mut context = Context::from_waker(Waker::noop());
                    step = match machine.poll_hook(&mut parts, &mut context) {
                        Poll::Ready(step) => step,
                        Poll::Pending => {
                            let message = "an asynchronous hook was called where none can wait";
                            return Err(Error::new(ErrorKind::Bug, message));
                        }
                    };
                }
            }
        }
    }

    /// Begins a batch, or begins it again in another transaction.
    ///
    /// The results of an earlier attempt are cleared.
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

    /// Lends the current operation, and the sink for its rows. `writes` are those of the batch.
    ///
    /// An engine that waits calls it at each poll, and gets the same operation until
    /// [`BatchMachine::advance`].
    ///
    /// # Errors
    /// Those of `run`.
    pub fn with_current<T>(
        &mut self,
        writes: &[Write],
        run: impl FnOnce(&mut Operation<'_>, &mut dyn RowSink) -> Result<T>,
    ) -> Result<T> {
        if let Some((machine, writes)) = self.inner() {
            return machine.with_current(writes, run);
        }
        let Self { current, looked, write, place, .. } = self;
        match current {
            Current::Write => {
                let write = write_of(write.as_deref(), writes, *place)?;
                write.bare().with_operation(|operation| run(operation, &mut NoRows))
            }
            current => current.lend(looked, run),
        }
    }

    /// Takes the outcome of the current operation, and returns what follows.
    ///
    /// `came` is the outcome or the error of the engine. An error of a write ends the batch, or
    /// only that write, as [`BatchParts::mode`] states.
    pub fn advance(&mut self, parts: &mut BatchParts<'_, '_>, came: Result<Outcome>) -> BatchStep {
        if self.inner().is_some() {
            return self.advance_inner(parts, came);
        }
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
            Stage::LookForHooks => self.hooks_looked(parts),
            Stage::LookForDeleted | Stage::LookForReferrers => self.cascade_looked(parts),
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
            Stage::LookAfter => {
                let row = std::mem::take(&mut self.looked.values);
                write_of(self.write.as_deref(), parts.writes, self.place)
                    .and_then(|write| self.generated.read(write, row))
                    .and_then(|()| self.after_reads(parts))
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
            Stage::Idle | Stage::Hook => {
                let message = "a batch received a result that it does not wait for";
                return BatchStep::Done(Err(Error::new(ErrorKind::Bug, message)));
            }
        };
        went_on.unwrap_or_else(|error| self.fail_write(parts, error))
    }

    /// Ends the batch.
    fn done(&mut self, result: Result<()>) -> BatchStep {
        self.stage = Stage::Idle;
        BatchStep::Done(result)
    }

    fn look(&mut self, stage: Stage, table: &Arc<Table>, key: Option<usize>, query: RowQuery) {
        self.looked.key = key;
        self.looked.values.clear();
        self.stage = stage;
        self.current = Current::List(Arc::clone(table), Box::new(query));
    }

    /// Begins the write at the current place, or ends the batch.
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

    /// Replaces the links of the write, and begins the reads that rights require.
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
            // This is the usual case.
            (self.stage, self.current) = (Stage::Write, Current::Write);
            return BatchStep::Next;
        }
        self.gone.clear();
        self.before.clear();
        self.calls = None;
        self.cascade = None;
        self.entered = 0;
        let begun = write
            .and_then(Checks::begin)
            .map(|checks| self.checks = checks)
            .and_then(|()| self.leave_out_generated(parts))
            .and_then(|()| self.check(parts));
        begun.unwrap_or_else(|error| self.fail_write(parts, error))
    }

    /// Takes the values that the write has for generated columns, which no engine writes.
    fn leave_out_generated(&mut self, parts: &BatchParts<'_, '_>) -> Result<()> {
        let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
        if let Some(stripped) = self.generated.take(write) {
            self.write = Some(Box::new(stripped));
        }
        Ok(())
    }

    /// Begins the next read that rights require, or the write.
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
        if write.hooks().is_some() && !self.calls.as_ref().is_some_and(|calls| calls.are_over()) {
            return self.begin_hooks(parts);
        }
        if let Some(cascade) = write.cascade()
            && !self.cascade.as_ref().is_some_and(|run| run.is_over())
        {
            let cascade = cascade.clone();
            return self.begin_cascade(cascade, parts);
        }
        if let Some(query) = before::query(write) {
            let table = Arc::clone(write.table());
            self.look(Stage::LookBefore, &table, None, query);
            return Ok(BatchStep::Next);
        }
        let known = write.audit().and_then(|_| self.keys_of_deleted(write.bare()));
        if let Some(known) = known {
            self.gone = known;
            (self.stage, self.current) = (Stage::Write, Current::Write);
            return Ok(BatchStep::Next);
        }
        let goes = write.audit().and_then(|audit| audit.going(write.bare()));
        match goes {
            Some(filter) => {
                let table = Arc::clone(write.table());
                let fields = Some(FieldSet::EMPTY.with(table.key()));
                let query = RowQuery { filter, fields, ..RowQuery::new() };
                self.look(Stage::Look, &table, Some(table.key()), query);
            }
            None => (self.stage, self.current) = (Stage::Write, Current::Write),
        }
        Ok(BatchStep::Next)
    }

    /// Continues after a write that succeeded.
    fn after_write(&mut self, parts: &mut BatchParts<'_, '_>) -> Result<BatchStep> {
        let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
        if !write.is_of_steps() {
            // This is the usual case.
            return self.end_write(parts);
        }
        if self.cascade.is_some() {
            self.count_deleted(parts)?;
        }
        let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
        if let Some(calls) = self.calls.as_ref().filter(|_| !self.is_of_cascade) {
            calls.complete(write, &mut self.written)?;
        }
        if let Some(query) = self.generated.query(write, &self.written) {
            let table = Arc::clone(write.table());
            self.look(Stage::LookAfter, &table, None, query);
            return Ok(BatchStep::Next);
        }
        self.after_reads(parts)
    }

    /// Continues after a write whose generated columns are known, if they are needed.
    fn after_reads(&mut self, parts: &mut BatchParts<'_, '_>) -> Result<BatchStep> {
        let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
        if write.audit().is_some() && self.written.rows > 0 {
            return self.enter(parts);
        }
        if write.rights().is_some() {
            return self.check_written(parts);
        }
        self.end_write(parts)
    }

    /// Writes the next entries in the history.
    #[cold]
    fn enter(&mut self, parts: &mut BatchParts<'_, '_>) -> Result<BatchStep> {
        let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
        let Some(audit) = write.audit() else { return self.check_written(parts) };
        let mut entries = Vec::new();
        let (from, bare) = (self.entered, write.bare());
        let known = (&*self.gone, RowsBefore(&self.before), &self.generated);
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

    /// Reads the written row, if rights require it.
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

    /// Ends a write that succeeded in all its steps.
    fn end_write(&mut self, parts: &mut BatchParts<'_, '_>) -> Result<BatchStep> {
        if let (Some(given), Some(executed)) = (parts.writes.get(self.place), &self.write) {
            report_linked_key(given, executed, &mut self.written);
        }
        parts.results.push(Ok(std::mem::take(&mut self.written)));
        if parts.mode == BatchMode::Each {
            (self.stage, self.current) = (Stage::Release, Current::Release);
            return Ok(BatchStep::Next);
        }
        self.place += 1;
        Ok(self.begin_write(parts))
    }

    /// Continues after a step that failed.
    #[cold]
    fn failed(&mut self, parts: &mut BatchParts<'_, '_>, error: Error) -> BatchStep {
        match self.stage {
            Stage::Check
            | Stage::LookForHooks
            | Stage::LookForDeleted
            | Stage::LookForReferrers
            | Stage::Look
            | Stage::LookBefore
            | Stage::Write
            | Stage::LookAfter
            | Stage::Enter
            | Stage::Trim
            | Stage::CheckWritten => self.fail_write(parts, error),
            _ => self.done(Err(error)),
        }
    }

    /// Ends a write that failed.
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
}

/// Returns the write at a place, or the one that is executed instead.
fn write_of<'w>(own: Option<&'w Write>, writes: &'w [Write], place: usize) -> Result<&'w Write> {
    own.or_else(|| writes.get(place)).ok_or_else(|| {
        Error::new(ErrorKind::Bug, "a batch was resumed with fewer writes than before")
    })
}
