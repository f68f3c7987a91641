//! Inserts and updates one row in a locked table, and adds the undo steps to the log.

use marmota_model::rule::violation;
use marmota_model::{Error, FieldSet, Result, ValueRef};

use crate::catalog::locked_tables::LockedTables;
use crate::table::table_rows::TableRows;
use crate::write::references::{check_references, check_references_of};
use crate::write::undo_log::{UndoLog, without};

/// Inserts a row; references to its own table are only checked `with_own`.
pub(crate) fn insert_row(
    locked: &mut LockedTables<'_>,
    log: &mut UndoLog,
    table: u32,
    row: &[ValueRef<'_>],
    with_own: bool,
) -> Result<u32> {
    let number = locked.rows_mut(table)?.insert(row)?;
    if let Err(error) = check_references_of(locked, table, number, with_own) {
        locked.rows_mut(table)?.remove(number);
        return Err(error);
    }
    log.inserted(table, number);
    Ok(number)
}

/// Writes the present fields except the key, and adds one to the version.
pub(crate) fn update_row(
    locked: &mut LockedTables<'_>,
    log: &mut UndoLog,
    table: u32,
    number: u32,
    row: &[ValueRef<'_>],
) -> Result<()> {
    let schema = &locked.slot(table).table;
    let mut changes = without(row, &[schema.key()]);
    if let (Some(field), Some(version)) =
        (schema.version(), version_of(locked.rows(table)?, number))
    {
        changes[field] = ValueRef::Int(version.checked_add(1).ok_or_else(|| {
            let field = &schema.fields()[field];
            let message = "has reached the highest possible number";
            Error::invalid(vec![violation(field, ValueRef::Int(version), "range", message)])
        })?);
    }
    locked.rows(table)?.check_update(number, &changes)?;
    check_references(locked, table, true, |field| changes[field])?;
    log.updating(locked, table, number, FieldSet::present(&changes))?;
    locked.rows_mut(table)?.update(number, &changes);
    Ok(())
}

pub(crate) fn version_of(rows: &TableRows, number: u32) -> Option<i64> {
    rows.pages.value(number, rows.table.version()?).as_int()
}
