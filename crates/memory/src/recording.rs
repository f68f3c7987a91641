//! Records changes for the change feed: the undo log of a commit has the rows as they were before,
//! and the locked tables have them as they are. From both, one row is made, and inserted into the
//! table of commits as the last step of the commit.

use std::num::NonZeroU64;

use hashbrown::HashMap;
use marmota_model::{Error, ErrorKind, Result, Timestamp, Value, ValueRef};
use marmota_store::change::{ChangeBuffer, ChangeRecorder, RecordedTable};
use smallvec::smallvec;

use crate::catalog::locked_tables::LockedTables;
use crate::table::table_rows::Values;
use crate::write::row_write::insert_row;
use crate::write::undo_log::{Undo, UndoLog};

/// A commit whose row is in the table of commits.
#[derive(Debug)]
pub(crate) struct NumberedCommit {
    pub(crate) number: NonZeroU64,
    at: Timestamp,
    /// A copy of the changes, if the feed has readers.
    changes: Option<Vec<u8>>,
}

impl NumberedCommit {
    /// Inserts the row of a commit with the changes of its undo log. `None` if no recorded table
    /// was changed. The table of commits is locked; `buffer` is empty before and after.
    ///
    /// # Errors
    /// That of the insert.
    pub(crate) fn insert(
        recorder: &ChangeRecorder,
        buffer: &mut ChangeBuffer,
        log: &mut UndoLog,
        locked: &mut LockedTables<'_>,
    ) -> Result<Option<Self>> {
        let recorded = record(recorder, log.steps(), locked, buffer);
        let is_empty = buffer.is_empty();
        let encoded = buffer.take();
        recorded?;
        if is_empty {
            return Ok(None);
        }
        let at = Timestamp::now();
        let table = locked.catalog.find(recorder.table())?;
        let row = insert_row(locked, log, table, &recorder.row(at, &encoded), false)?;
        let changes = recorder.for_readers(&encoded);
        buffer.reuse(encoded);
        let number = locked.rows(table)?.pages.value(row, recorder.table().key()).as_int();
        let number = number.and_then(|number| NonZeroU64::new(u64::try_from(number).ok()?));
        let number =
            number.ok_or_else(|| Error::new(ErrorKind::Bug, "a commit was given no number"))?;
        Ok(Some(Self { number, at, changes }))
    }

    /// Reports the commit.
    pub(crate) fn report(self, recorder: &ChangeRecorder) {
        recorder.committed(self.number.get(), self.at, self.changes);
    }
}

/// A row before and after a step.
struct Step<'r> {
    table: &'r RecordedTable,
    before: Option<Vec<Value>>,
    after: Option<Vec<Value>>,
}

/// Adds the changes of an undo log to a buffer, in order.
fn record(
    recorder: &ChangeRecorder,
    steps: &[Undo],
    locked: &LockedTables<'_>,
    buffer: &mut ChangeBuffer,
) -> Result<()> {
    // Rows of a load or of a delete are changed once, so none of them has to be looked up again.
    let is = |matches: fn(&Undo) -> bool| steps.iter().all(matches);
    if is(|step| matches!(step, Undo::Insert { .. }))
        || is(|step| matches!(step, Undo::Remove { .. }))
    {
        return record_once(recorder, steps, locked, buffer);
    }
    // The log has what a step has overwritten. So the rows are known from the last step back.
    let mut rows: HashMap<(u32, u32), Option<Vec<Value>>> = HashMap::new();
    let mut changes = Vec::with_capacity(steps.len());
    for step in steps.iter().rev() {
        let (table, row) = step.place();
        let Some(known) = recorder.of(&locked.slot(table).table) else { continue };
        let after = match (rows.remove(&(table, row)), step) {
            (Some(after), _) => after,
            (None, Undo::Remove { .. }) => None,
            (None, _) => Some(owned(&current(locked, table, row)?)),
        };
        let before = match step {
            Undo::Insert { .. } => None,
            Undo::Remove { old, .. } => Some(old.to_vec()),
            Undo::Update { old, .. } => after.as_ref().map(|after| merged(old, after)),
        };
        rows.insert((table, row), before.clone());
        changes.push(Step { table: known, before, after });
    }
    for Step { table, before, after } in changes.iter().rev() {
        match (before, after) {
            (None, Some(after)) => buffer.inserted(table, &borrowed(after)),
            (Some(before), Some(after)) => {
                buffer.updated(table, &borrowed(before), &borrowed(after));
            }
            (Some(before), None) => buffer.deleted(table, &borrowed(before)),
            (None, None) => {}
        }
    }
    Ok(())
}

/// Like [`record`], for steps that are all inserts, or all deletes.
fn record_once(
    recorder: &ChangeRecorder,
    steps: &[Undo],
    locked: &LockedTables<'_>,
    buffer: &mut ChangeBuffer,
) -> Result<()> {
    for step in steps {
        let (table, row) = step.place();
        let Some(known) = recorder.of(&locked.slot(table).table) else { continue };
        match step {
            Undo::Remove { old, .. } => buffer.deleted(known, &borrowed(old)),
            _ => buffer.inserted(known, &current(locked, table, row)?),
        }
    }
    Ok(())
}

/// Returns a row as it is now.
fn current<'l>(locked: &'l LockedTables<'_>, table: u32, row: u32) -> Result<Values<'l>> {
    let rows = locked.rows(table)?;
    let (stored, columns) = (rows.pages.row(row), &rows.pages.layout.columns);
    let mut values: Values<'_> = smallvec![ValueRef::Null; columns.len()];
    for (value, column) in values.iter_mut().zip(columns) {
        *value = stored.value(column);
    }
    Ok(values)
}

/// Returns a row with the values that an update has overwritten.
fn merged(old: &[Value], after: &[Value]) -> Vec<Value> {
    let value = |(old, after): (&Value, &Value)| match old {
        Value::Absent => after.clone(),
        old => old.clone(),
    };
    old.iter().zip(after).map(value).collect()
}

fn owned(row: &[ValueRef<'_>]) -> Vec<Value> {
    row.iter().map(|value| value.to_value()).collect()
}

fn borrowed(row: &[Value]) -> Values<'_> {
    row.iter().map(Value::as_ref).collect()
}
