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
use crate::write::undo_log::{Undo, UndoLog};

/// A commit whose row is in the table of commits.
#[derive(Debug)]
pub(crate) struct NumberedCommit {
    pub(crate) number: NonZeroU64,
    at: Timestamp,
    /// A copy of the changes, if the feed has readers.
    changes: Option<Vec<u8>>,
    is_reported: bool,
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
        let rows = locked.rows_mut(table)?;
        // It refers to no other row.
        let row = rows.insert(&recorder.row(at, &encoded))?;
        let number = rows.pages.int(row, recorder.table().key());
        log.inserted(table, row);
        let changes = recorder.for_readers(&encoded);
        buffer.reuse(encoded);
        let number = u64::try_from(number).ok().and_then(NonZeroU64::new);
        let number =
            number.ok_or_else(|| Error::new(ErrorKind::Bug, "a commit was given no number"))?;
        Ok(Some(Self { number, at, changes, is_reported: false }))
    }

    /// Reports the commit of an engine without a log while the table of commits is locked, so in
    /// order, unless the feed has readers.
    pub(crate) fn report_in_order(&mut self, recorder: &ChangeRecorder) {
        if self.changes.is_none() {
            recorder.committed_in_order(self.number.get());
            self.is_reported = true;
        }
    }

    /// Reports the commit, if it was not reported in order.
    pub(crate) fn report(self, recorder: &ChangeRecorder) {
        if !self.is_reported {
            recorder.committed(self.number.get(), self.at, self.changes);
        }
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
    for run in steps.chunk_by(|one, next| one.place().0 == next.place().0) {
        let (table, _) = run[0].place();
        let Some(known) = recorder.of(&locked.slot(table).table) else { continue };
        let pages = &locked.rows(table)?.pages;
        for step in run {
            match step {
                Undo::Remove { old, .. } => buffer.deleted(known, &borrowed(old)),
                Undo::Insert { row, .. } | Undo::Update { row, .. } => {
                    let row = pages.row(*row);
                    let values = pages.layout.columns.iter();
                    buffer.inserted_from(known, values.map(|column| row.value_in_place(column)));
                }
            }
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
