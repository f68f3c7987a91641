//! The calls of the hooks of a table before a write: which changes they get, and the write with the
//! fields that they have changed.
//!
//! | write | changes |
//! |---|---|
//! | insert | an insert; an update, if the conflict action writes to an existing row; none, if the row is ignored |
//! | insert that replaces rows | deletes of the rows with other keys, then an update or an insert |
//! | update, increment | an update |
//! | delete | a delete |
//! | delete by filter | a delete for each row, read in pages |
//!
//! Expressions are evaluated in the same place: default expressions before the hooks, computed fields
//! before and after them.
//!
//! A write of a missing row, or with another version than expected, calls no hook: the engine
//! refuses it.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use marmota_model::{
    Comparison, Currency, Error, ErrorKind, FieldSet, FilterExpr, KeyKind, Result, RowQuery,
    Scratch, Table, Value, ValueRef,
};

use super::{BatchMachine, BatchParts, BatchStep, Checks, Current, Stage, write_of};
use crate::batch_machine::computed::{self, Computing};
use crate::contract::change::ChangeKind;
use crate::contract::operation::conflict::{conflicting_indexes, conflicting_rows, selects};
use crate::contract::operation::{OnConflict, Outcome, Write};
use crate::contract::row_hook::{AssignedFields, HookCall, RowChange, RunningHook};
use crate::rights::present;
use crate::rows::prepare;
use crate::runtime::alarm::TaskAlarm;

/// The number of rows that a delete by filter reads at once.
const PAGE_ROWS: usize = 256;

/// The calls of the hooks for one write.
#[derive(Default)]
pub(super) struct HookCalls {
    stage: CallStage,
    /// The changes for which the hooks are still to be called.
    changes: VecDeque<RowChange>,
    /// The change for which they are called, and the index of the next hook.
    current: Option<(RowChange, usize)>,
    /// The hook that is in progress.
    running: Option<Running>,
    /// The key of the last row of a full page.
    last_key: Option<Value>,
    /// The number of rows that a delete by filter is to delete.
    rows: u64,
    /// True if a hook has changed the row.
    has_changed: bool,
    /// The field of an increment that has become an update.
    incremented: Option<usize>,
}

/// A hook in progress.
struct Running {
    hook: RunningHook,
    /// The time at which it has to be over.
    deadline: Instant,
    alarm: TaskAlarm,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CallStage {
    #[default]
    Calling,
    /// All hooks have been called.
    Over,
}

impl fmt::Debug for HookCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookCalls").field("stage", &self.stage).finish_non_exhaustive()
    }
}

impl HookCalls {
    /// Returns true once all hooks have been called.
    pub(super) fn are_over(&self) -> bool {
        self.stage == CallStage::Over
    }

    /// Completes the outcome of the write that was executed.
    ///
    /// # Errors
    /// A retryable [`ErrorKind::Conflict`] if a delete by filter has deleted other rows than those
    /// for which hooks were called.
    pub(super) fn complete(&self, write: &Write, outcome: &mut Outcome) -> Result<()> {
        match write.bare() {
            Write::DeleteWhere { table, .. } if outcome.rows != self.rows => {
                let message = format!(
                    "hooks of `{}` were called for {} rows, but the filter then selected {}: a \
                     hook or another transaction has changed the rows",
                    table.name(),
                    self.rows,
                    outcome.rows
                );
                Err(Error::new(ErrorKind::Conflict, message).retryable())
            }
            Write::Update { row, .. } => {
                if let Some(field) = self.incremented {
                    outcome.value = row[field].clone();
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl BatchMachine {
    /// Reads the rows that hooks get, or calls the hooks.
    #[cold]
    pub(super) fn begin_hooks(&mut self, parts: &BatchParts<'_, '_>) -> Result<BatchStep> {
        let mut calls = HookCalls { has_changed: self.complete(parts)?, ..HookCalls::default() };
        let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
        let has_hooks = write.hooks().is_some_and(|hooks| !hooks.0.is_empty());
        let is_read = computed::of_write(write) == Computing::OfStored;
        if !has_hooks && !is_read {
            self.calls = Some(Box::new(calls));
            return self.call_hooks(parts);
        }
        let (table, bare) = (Arc::clone(write.table()), write.bare());
        let filter = match bare {
            Write::Insert { row, on_conflict: OnConflict::Refuse, .. } => {
                let after = Some(readable(&table, row));
                calls.changes.push_back(RowChange {
                    kind: ChangeKind::Insert,
                    before: None,
                    after,
                });
                None
            }
            Write::Insert { row, .. } => Some(conflicting_rows(&table, row)),
            Write::Update { key, .. }
            | Write::Increment { key, .. }
            | Write::Delete { key, .. } => Some(compare(table.key(), Comparison::Equal, key)),
            _ => {
                self.calls = Some(Box::new(calls));
                return self.look_for_page(parts);
            }
        };
        self.calls = Some(Box::new(calls));
        match filter {
            Some(filter) => {
                let query = RowQuery { filter: Some(filter), ..RowQuery::new() };
                self.look(Stage::LookForHooks, &table, None, query);
                Ok(BatchStep::Next)
            }
            None => self.call_hooks(parts),
        }
    }

    /// Evaluates the expressions that the written values determine: of a new row, and of an update
    /// that writes all that computed fields use. Returns true if the write has changed.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with each field that gets no value.
    fn complete(&mut self, parts: &BatchParts<'_, '_>) -> Result<bool> {
        let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
        let Some(hooks) = write.hooks() else { return Ok(false) };
        let assigned = match write.bare() {
            Write::Insert { table, row, .. } => hooks.0.complete(table, row)?,
            Write::Update { table, key, row, .. }
                if computed::of_write(write) == Computing::OfWrite =>
            {
                let mut whole = row.clone();
                whole[table.key()] = key.clone();
                let written = present(row);
                computed_values(table, &whole, table.affected_by(written).0, written)?
            }
            _ => return Ok(false),
        };
        if assigned.is_empty() {
            return Ok(false);
        }
        let mut completed = write.clone();
        if let Write::Insert { row, .. } | Write::Update { row, .. } = completed.bare_mut() {
            for (field, value) in assigned {
                row[field] = value;
            }
        }
        self.write = Some(Box::new(completed));
        // The machine lends the write from its own place now.
        self.current = Current::Write;
        Ok(true)
    }

    /// Computes the computed fields of the current change, and writes those that differ. The values
    /// that an update gives for them are compared, if it `is_given`.
    fn compute(&mut self, parts: &BatchParts<'_, '_>, is_given: bool) -> Result<()> {
        let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
        let current = self.calls.as_ref().and_then(|calls| calls.current.as_ref());
        let Some(after) = current.and_then(|(change, _)| change.after.as_ref()) else {
            return Ok(());
        };
        let table = write.table();
        if table.computed_fields().is_empty() {
            return Ok(());
        }
        let given = match write.bare() {
            Write::Update { row, .. } if is_given => present(row),
            _ => FieldSet::EMPTY,
        };
        let assigned = computed_values(table, after, table.computed_fields(), given)?;
        self.assign(parts, &assigned)
    }

    /// Reads the next rows of a delete by filter.
    fn look_for_page(&mut self, parts: &BatchParts<'_, '_>) -> Result<BatchStep> {
        let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
        let Write::DeleteWhere { table, filter } = write.bare() else {
            return Err(Error::new(ErrorKind::Bug, "a write without a filter was read in pages"));
        };
        let table = Arc::clone(table);
        let after = self.calls.as_mut().and_then(|calls| calls.last_key.take());
        let (filter, after) = (filter.clone(), after.map(|last| table.place_of_key(last)));
        let query = RowQuery { filter, after, limit: Some(PAGE_ROWS as u64), ..RowQuery::new() };
        self.look(Stage::LookForHooks, &table, None, query);
        Ok(BatchStep::Next)
    }

    /// Makes the changes of a write from the stored rows that were read, and calls the hooks.
    #[cold]
    pub(super) fn hooks_looked(&mut self, parts: &BatchParts<'_, '_>) -> Result<BatchStep> {
        let values = std::mem::take(&mut self.looked.values);
        let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
        let (table, bare) = (&**write.table(), write.bare());
        let rows: Vec<&[Value]> = values.chunks_exact(table.fields().len()).collect();
        if let Some(calls) = &mut self.calls {
            calls.add_changes(table, bare, &rows);
        }
        self.call_hooks(parts)
    }

    /// Calls hooks until one is in progress, and continues with the write after the last one.
    fn call_hooks(&mut self, parts: &BatchParts<'_, '_>) -> Result<BatchStep> {
        while let Some(calls) = &mut self.calls {
            let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
            let Some((change, index)) = &mut calls.current else {
                match calls.changes.pop_front() {
                    Some(change) => {
                        calls.current = Some((change, 0));
                        self.compute(parts, true)?;
                    }
                    None if calls.last_key.is_some() => return self.look_for_page(parts),
                    None => break,
                }
                continue;
            };
            let Some(hooks) = write.hooks() else { break };
            match caught(write.table(), || hooks.0.call(*index, change))? {
                None => {
                    let had_hooks = *index > 0;
                    if had_hooks {
                        self.compute(parts, false)?;
                    }
                    if let Some(calls) = &mut self.calls {
                        calls.current = None;
                    }
                }
                Some(HookCall::Done(assigned)) => {
                    *index += 1;
                    self.assign(parts, &assigned?)?;
                }
                Some(HookCall::Running(hook)) => {
                    *index += 1;
                    let deadline = Instant::now() + hooks.0.deadline();
                    calls.running = Some(Running { hook, deadline, alarm: TaskAlarm::default() });
                    self.stage = Stage::Hook;
                    return Ok(BatchStep::Hook);
                }
            }
        }
        if let Some(calls) = &mut self.calls {
            calls.stage = CallStage::Over;
            if calls.has_changed {
                // The rights are checked for the row as it will be written.
                let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
                self.checks = Checks::begin_changed(write, &self.checks)?;
            }
        }
        self.check(parts)
    }

    /// Continues the hook that is in progress, after [`BatchStep::Hook`]. It fails after its
    /// deadline; the context is woken then.
    pub fn poll_hook(
        &mut self,
        parts: &mut BatchParts<'_, '_>,
        context: &mut Context<'_>,
    ) -> Poll<BatchStep> {
        if let Some(polled) = self.poll_inner_hook(parts, context) {
            return polled;
        }
        let step = match self.poll_running(parts, context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(assigned)) => {
                self.assign(parts, &assigned).and_then(|()| self.call_hooks(parts))
            }
            Poll::Ready(Err(error)) => Err(error),
        };
        Poll::Ready(step.unwrap_or_else(|error| self.fail_write(parts, error)))
    }

    fn poll_running(
        &mut self,
        parts: &BatchParts<'_, '_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<AssignedFields>> {
        let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
        let calls = self.calls.as_mut();
        let Some(running) = calls.and_then(|calls| calls.running.as_mut()) else {
            let message = "a hook was polled that is not in progress";
            return Poll::Ready(Err(Error::new(ErrorKind::Bug, message)));
        };
        let polled = caught(write.table(), || running.hook.as_mut().poll(context));
        let result = match polled {
            Ok(Poll::Pending) if Instant::now() < running.deadline => {
                running.alarm.set(running.deadline, context.waker());
                return Poll::Pending;
            }
            Ok(Poll::Pending) => Err(too_late(write)),
            Ok(Poll::Ready(result)) => result,
            Err(error) => Err(error),
        };
        self.drop_hook();
        Poll::Ready(result)
    }

    /// Drops the hook that is in progress, which cancels its operations.
    pub(crate) fn drop_hook(&mut self) {
        if let Some((machine, _)) = self.inner() {
            machine.drop_hook();
        }
        if let Some(calls) = &mut self.calls {
            calls.running = None;
        }
    }

    /// Changes the write and the row after the change by the fields that a hook has assigned.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for values that break a rule; [`ErrorKind::Bug`] for a field that the
    /// store sets.
    fn assign(&mut self, parts: &BatchParts<'_, '_>, assigned: &[(usize, Value)]) -> Result<()> {
        if assigned.is_empty() {
            return Ok(());
        }
        let Some(calls) = &mut self.calls else { return Ok(()) };
        let mut write = write_of(self.write.as_deref(), parts.writes, self.place)?.clone();
        let table = Arc::clone(write.table());
        let set_by_store =
            [Some(table.key()), table.created_at(), table.updated_at(), table.version()];
        let is_fixed = |field: usize| {
            set_by_store.contains(&Some(field)) || table.generated_fields().contains(field)
        };
        if let Some((field, _)) = assigned.iter().find(|(field, _)| is_fixed(*field)) {
            let message = format!(
                "a hook of `{}` has changed `{}`: the key, the timestamps, the version and the \
                 generated columns of a row cannot be changed by a hook",
                table.name(),
                table.fields()[*field].name
            );
            return Err(Error::new(ErrorKind::Bug, message));
        }
        let after = calls.current.as_mut().and_then(|(change, _)| change.after.as_mut());
        let bare = write.bare_mut();
        if let Write::Increment { table, key, field, stamp, .. } = bare {
            let mut row = vec![Value::Absent; table.fields().len()];
            if let Some(sum) = after.as_ref().map(|after| after[*field].clone()) {
                row[*field] = sum;
            }
            if let Some(updated_at) = table.updated_at() {
                row[updated_at] = stamp.clone();
            }
            calls.incremented = Some(*field);
            let (table, key) = (Arc::clone(table), key.clone());
            *bare = Write::Update { table, key, row, version: None };
        }
        let row = match bare {
            Write::Insert { row, on_conflict, .. } => {
                if let OnConflict::Update { fields } = on_conflict {
                    *fields = assigned.iter().fold(*fields, |fields, (at, _)| fields.with(*at));
                }
                row
            }
            Write::Update { row, .. } => row,
            _ => return Ok(()),
        };
        let mut checked = vec![ValueRef::Absent; row.len()];
        for (field, value) in assigned {
            checked[*field] = value.as_ref();
        }
        if let Some(field) = calls.incremented {
            checked[field] = row[field].as_ref();
        }
        let mut violations = Vec::new();
        table.check(&checked, &mut violations);
        prepare::finish(violations)?;
        let after = after.into_iter();
        for row in [row].into_iter().chain(after) {
            for (field, value) in assigned {
                row[*field] = value.clone();
            }
        }
        calls.has_changed = true;
        self.write = Some(Box::new(write));
        // The machine lends the write from its own place now.
        self.current = Current::Write;
        Ok(())
    }
}

impl HookCalls {
    /// Adds the changes that a write makes to these stored rows.
    fn add_changes(&mut self, table: &Table, bare: &Write, rows: &[&[Value]]) {
        match bare {
            Write::Insert { row, on_conflict, .. } => {
                self.add_upsert(table, row, *on_conflict, rows);
            }
            Write::Update { row, version, .. } => {
                if let Some(before) = rows.first().filter(|row| has_version(table, row, *version)) {
                    self.add_update(table, before, |field| Some(row[field].clone()));
                }
            }
            Write::Increment { field, by, stamp, .. } => {
                if let Some(before) = rows.first() {
                    self.add_update(table, before, |at| match at {
                        at if at == *field => sum(&before[at], by),
                        at if Some(at) == table.updated_at() => Some(stamp.clone()),
                        _ => None,
                    });
                }
            }
            Write::Delete { version, .. } => {
                let before = rows.first().filter(|row| has_version(table, row, *version));
                before.into_iter().for_each(|before| self.add_delete(before));
            }
            Write::DeleteWhere { .. } => {
                rows.iter().for_each(|before| self.add_delete(before));
                self.rows += rows.len() as u64;
                let last = rows.last().filter(|_| rows.len() == PAGE_ROWS);
                self.last_key = last.map(|last| last[table.key()].clone());
            }
            _ => {}
        }
    }

    /// Adds the changes of an insert with a conflict action.
    fn add_upsert(
        &mut self,
        table: &Table,
        row: &[Value],
        on_conflict: OnConflict,
        rows: &[&[Value]],
    ) {
        let same_key = rows.iter().position(|other| other[table.key()] == row[table.key()]);
        match on_conflict {
            OnConflict::Ignore if !rows.is_empty() => return,
            OnConflict::Update { fields } => {
                if let Some(before) = existing_row(table, row, rows) {
                    self.add_update(table, before, |field| {
                        fields.contains(field).then(|| row[field].clone())
                    });
                    return;
                }
            }
            OnConflict::Replace => {
                let others = rows.iter().enumerate().filter(|(at, _)| Some(*at) != same_key);
                others.for_each(|(_, before)| self.add_delete(before));
            }
            OnConflict::Refuse | OnConflict::Ignore => {}
        }
        let before = same_key.map(|at| rows[at].to_vec());
        let kind = if before.is_some() { ChangeKind::Update } else { ChangeKind::Insert };
        self.changes.push_back(RowChange { kind, before, after: Some(readable(table, row)) });
    }

    /// Adds an update; `written` returns the new value of a field.
    fn add_update(
        &mut self,
        table: &Table,
        before: &[Value],
        written: impl Fn(usize) -> Option<Value>,
    ) {
        let mut after = before.to_vec();
        for (field, value) in after.iter_mut().enumerate() {
            if let Some(new) = written(field).filter(|new| *new != Value::Absent) {
                *value = new;
            }
        }
        if let Some(Value::Int(version)) = table.version().map(|version| &mut after[version]) {
            *version = version.saturating_add(1);
        }
        let (kind, before) = (ChangeKind::Update, Some(before.to_vec()));
        self.changes.push_back(RowChange { kind, before, after: Some(after) });
    }

    fn add_delete(&mut self, before: &[Value]) {
        let (kind, before) = (ChangeKind::Delete, Some(before.to_vec()));
        self.changes.push_back(RowChange { kind, before, after: None });
    }
}

/// Returns the row that an insert writes to: the one with its key, or with its values in the first
/// unique index.
fn existing_row<'r>(table: &Table, row: &[Value], rows: &[&'r [Value]]) -> Option<&'r [Value]> {
    let same = conflicting_indexes(table, &borrowed(row)).into_iter().find_map(|way| {
        let (fields, filter) = way;
        let is_same = |other: &&&[Value]| {
            fields.iter().all(|&field| other[field] == row[field])
                && filter.as_ref().is_none_or(|filter| selects(table, filter, &borrowed(other)))
        };
        rows.iter().find(is_same).copied()
    });
    same.or_else(|| rows.first().copied())
}

/// Returns the values of computed fields that differ from those of a row; see [`Table::compute`].
fn computed_values(
    table: &Table,
    row: &[Value],
    fields: FieldSet,
    given: FieldSet,
) -> Result<AssignedFields> {
    let scratch = Scratch::new();
    let mut row = borrowed(row);
    let given = given.intersection(table.computed_fields());
    let changed = table.compute(&mut row, fields, given, &scratch)?;
    let mut violations = Vec::new();
    table.check_fields(&row, changed, &mut violations);
    prepare::finish(violations)?;
    Ok(changed.iter().map(|field| (field, row[field].to_value())).collect())
}

fn borrowed(row: &[Value]) -> Vec<ValueRef<'_>> {
    row.iter().map(Value::as_ref).collect()
}

/// Returns a row of an insert as a struct can be read from it: a key that the engine generates is 0,
/// and a generated column NULL or, if it is not optional, empty or 0.
fn readable(table: &Table, row: &[Value]) -> Vec<Value> {
    let mut row = row.to_vec();
    if table.key_kind() == KeyKind::Auto && row[table.key()] == Value::Absent {
        row[table.key()] = Value::Int(0);
    }
    for field in table.generated_fields().iter() {
        row[field] = table.placeholder(field);
    }
    row
}

/// Returns true if a write expects this version of a row, or none.
fn has_version(table: &Table, row: &[Value], expected: Option<i64>) -> bool {
    let stored = table.version().map(|version| &row[version]);
    expected.is_none_or(|expected| stored == Some(&Value::Int(expected)))
}

/// Returns the sum of an increment; `None` if the engine will refuse it.
fn sum(before: &Value, by: &Value) -> Option<Value> {
    match (before, by) {
        (Value::Int(before), Value::Int(by)) => before.checked_add(*by).map(Value::Int),
        (Value::Currency(before), Value::Currency(by)) => {
            Currency::checked_add(*before, *by).map(Value::Currency)
        }
        _ => None,
    }
}

/// Returns the filter that compares a field with a value.
fn compare(field: usize, comparison: Comparison, value: &Value) -> FilterExpr {
    FilterExpr::Compare { field, comparison, value: value.clone() }
}

/// Calls a hook, and returns a panic as an error.
fn caught<T>(table: &Table, call: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        let message = format!("a hook of `{}` panicked: {text}", table.name());
        log::error!("{message}");
        Error::new(ErrorKind::Bug, message)
    })
}

/// The error for a hook that is not over at its deadline.
#[cold]
fn too_late(write: &Write) -> Error {
    let deadline = write.hooks().map(|hooks| hooks.0.deadline()).unwrap_or_default();
    let message = format!(
        "a hook of `{}` was not over after {deadline:?}; `StoreBuilder::before_deadline` sets how \
         long a hook may take",
        write.table().name()
    );
    log::error!("{message}");
    Error::new(ErrorKind::Timeout, message)
}
