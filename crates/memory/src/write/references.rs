//! References between rows: a row may only refer to existing rows, and a row that is referred to
//! may not be removed.

use std::ops::ControlFlow::{self, Break, Continue};

use marmota_model::{Collation, Error, ErrorKind, Result, ValueRef};
use marmota_store::prepare::no_target;

use crate::catalog::locked_tables::LockedTables;
use crate::read::read_plan::Search;
use crate::table::table_rows::TableRows;

/// Returns true if rows of the table can refer to other rows of it.
pub(crate) fn refers_to_itself(locked: &LockedTables<'_>, table: u32) -> bool {
    locked.slot(table).refers.iter().any(|&(_, target)| target == table)
}

/// Checks the references of an existing row.
pub(crate) fn check_references_of(
    locked: &LockedTables<'_>,
    table: u32,
    number: u32,
    with_own: bool,
) -> Result<()> {
    let pages = &locked.rows(table)?.pages;
    check_references(locked, table, with_own, |field| pages.value(number, field))
}

/// Checks that the rows to which these values refer exist. Rows that are inserted together may
/// refer to each other: until all are inserted, a missing row of their own table is not an error on
/// its own (`with_own`).
pub(crate) fn check_references<'v>(
    locked: &LockedTables<'_>,
    table: u32,
    with_own: bool,
    value: impl Fn(usize) -> ValueRef<'v>,
) -> Result<()> {
    let slot = locked.slot(table);
    let (mut violations, mut is_broken) = (Vec::new(), false);
    for &(field, target) in &slot.refers {
        let value = value(field);
        if value.is_null() || value.is_absent() || locked.find(target, value)?.is_some() {
            continue;
        }
        is_broken |= with_own || target != table;
        let target = locked.slot(target).table.name();
        violations.push(no_target(&slot.table.fields()[field], value, target));
    }
    if is_broken { Err(Error::invalid(violations)) } else { Ok(()) }
}

/// Checks that no row refers to a row that is to be removed, except rows for which `goes` is true:
/// it gets the table and the row.
pub(crate) fn check_referrers(
    locked: &LockedTables<'_>,
    table: u32,
    number: u32,
    goes: impl Fn(u32, u32) -> bool,
) -> Result<()> {
    let rows = locked.rows(table)?;
    check_referrers_of(locked, table, rows.pages.value(number, rows.table.key()), goes)
}

/// [`check_referrers`] by the row's key.
pub(crate) fn check_referrers_of(
    locked: &LockedTables<'_>,
    table: u32,
    key: ValueRef<'_>,
    goes: impl Fn(u32, u32) -> bool,
) -> Result<()> {
    let rows = locked.rows(table)?;
    let collation = rows.pages.layout.columns[rows.table.key()].collation;
    for &(field, source) in &locked.slot(table).referred {
        let is_referred = each_referrer(locked.rows(source)?, field, key, collation, |referrer| {
            if goes(source, referrer) { Continue(()) } else { Break(()) }
        });
        if is_referred.is_break() {
            let message = format!(
                "the row {} of `{}` is still referred to by table `{}` (field `{}`)",
                marmota_model::text::excerpt_of(key),
                rows.table.name(),
                locked.slot(source).table.name(),
                locked.slot(source).table.fields()[field].name
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
    }
    Ok(())
}

/// Calls `visit` with each row whose field has this key, which is compared under `collation`.
pub(crate) fn each_referrer(
    rows: &TableRows,
    field: usize,
    key: ValueRef<'_>,
    collation: Collation,
    mut visit: impl FnMut(u32) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let index = rows.indexes.iter().find(|index| index.fields[0] == field && index.is_whole());
    // References are ordered byte by byte; a key that ignores case is not.
    if let Some(index) = index.filter(|_| collation == Collation::Binary) {
        let (from, to) = Search { rows, index }.rows_with(key);
        return index.ordered.walk(from, to, false, visit);
    }
    let visit = |referrer: u32| {
        let value = rows.pages.value(referrer, field);
        if collation.order(value, key).is_eq() { visit(referrer) } else { Continue(()) }
    };
    rows.keys.walk(rows.keys.range(&rows.pages, None, None), false, visit)
}
