//! Deletes that also delete or change the rows that refer to the deleted ones ([`OnDelete`]).
//!
//! The store has deleted and changed those rows before, in the same batch, unless rows of several
//! tables refer to each other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow::Continue;

use marmota_model::{OnDelete, Result, ValueRef};
use marmota_store::operation::Outcome;
use smallvec::smallvec;

use crate::catalog::locked_tables::LockedTables;
use crate::table::table_rows::Values;
use crate::write::references::{check_referrers, each_referrer};
use crate::write::row_write::update_row;
use crate::write::undo_log::{Statement, UndoLog};

/// The rows that a delete removes and changes.
#[derive(Default)]
struct Reached {
    /// By table.
    removed: BTreeMap<u32, BTreeSet<u32>>,
    /// By table and row: the fields that become NULL.
    changed: BTreeMap<(u32, u32), BTreeSet<usize>>,
}

/// Removes rows of a table, and executes the actions of the references to them, all or nothing.
pub(super) fn delete_rows(
    locked: &mut LockedTables<'_>,
    log: &mut UndoLog,
    table: u32,
    numbers: &[u32],
) -> Result<Outcome> {
    let reached = Reached::of(locked, table, numbers)?;
    let goes = |table: u32, row: u32| {
        reached.removed.get(&table).is_some_and(|rows| rows.contains(&row))
            || reached.changed.contains_key(&(table, row))
    };
    for (&table, rows) in &reached.removed {
        for &number in rows {
            check_referrers(locked, table, number, goes)?;
        }
    }
    let statement = Statement::new(locked, log);
    for (&(table, number), fields) in &reached.changed {
        if reached.removed.get(&table).is_some_and(|rows| rows.contains(&number)) {
            continue;
        }
        let schema = &statement.locked.slot(table).table;
        let mut row: Values<'_> = smallvec![ValueRef::Absent; schema.fields().len()];
        fields.iter().for_each(|&field| row[field] = ValueRef::Null);
        update_row(statement.locked, statement.log, table, number, &row)?;
    }
    for (&table, rows) in &reached.removed {
        for &number in rows {
            statement.log.removing(statement.locked, table, number)?;
            statement.locked.rows_mut(table)?.remove(number);
        }
    }
    statement.keep();
    Ok(Outcome::rows(numbers.len() as u64))
}

impl Reached {
    fn of(locked: &LockedTables<'_>, table: u32, numbers: &[u32]) -> Result<Self> {
        let mut reached = Self::default();
        let mut left: Vec<(u32, u32)> = numbers.iter().map(|&number| (table, number)).collect();
        reached.removed.entry(table).or_default().extend(numbers);
        while let Some((table, number)) = left.pop() {
            let rows = locked.rows(table)?;
            let key_field = rows.table.key();
            let key = rows.pages.value(number, key_field);
            let collation = rows.pages.layout.columns[key_field].collation;
            for &(field, source) in &locked.slot(table).referred {
                let on_delete = locked.catalog.on_delete(source, field);
                if on_delete == OnDelete::Restrict {
                    continue;
                }
                let Self { removed, changed } = &mut reached;
                let _ = each_referrer(locked.rows(source)?, field, key, collation, |row| {
                    if on_delete == OnDelete::SetNull {
                        let nulled = locked.slot(source).table.nulled_with(field);
                        changed.entry((source, row)).or_default().extend(nulled.iter());
                    } else if removed.entry(source).or_default().insert(row) {
                        left.push((source, row));
                    }
                    Continue(())
                });
            }
        }
        Ok(reached)
    }
}
