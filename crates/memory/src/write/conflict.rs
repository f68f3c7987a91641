//! Inserts with a conflict action; see [`OnConflict`].

use marmota_model::{Result, RowSource, Value, ValueRef};
use marmota_store::operation::{Keys, OnConflict, Outcome, UpsertEffect, UpsertResult};
use smallvec::smallvec;

use crate::catalog::locked_tables::LockedTables;
use crate::table::table_rows::Values;
use crate::write::references::check_referrers_of;
use crate::write::row_write::{insert_row, update_row, version_of};
use crate::write::undo_log::{Statement, UndoLog};

pub(crate) fn insert(
    locked: &mut LockedTables<'_>,
    log: &mut UndoLog,
    table: u32,
    row: &[ValueRef<'_>],
    on_conflict: OnConflict,
) -> Result<Outcome> {
    let (number, effect) = put(locked, log, table, row, on_conflict)?;
    let rows = locked.rows(table)?;
    let keys = Keys::One(rows.pages.value(number, rows.table.key()).to_value());
    if effect == UpsertEffect::Ignored {
        return Ok(Outcome { keys, effect, ..Outcome::default() });
    }
    Ok(Outcome { keys, effect, version: version_of(rows, number), ..Outcome::rows(1) })
}

pub(crate) fn insert_many<'a>(
    locked: &mut LockedTables<'_>,
    log: &mut UndoLog,
    table: u32,
    source: &mut dyn RowSource<'a>,
    on_conflict: OnConflict,
) -> Result<Outcome> {
    let statement = Statement::new(locked, log);
    let schema = &statement.locked.slot(table).table;
    let mut row: Values<'a> = smallvec![ValueRef::Absent; schema.fields().len()];
    let (mut count, mut placed) = (0, Vec::with_capacity(source.remaining()));
    while source.next(&mut row)? {
        let index = placed.len() as u64;
        let (number, effect) = put(statement.locked, statement.log, table, &row, on_conflict)
            .map_err(|error| error.at(format_args!("row {index}")))?;
        let key = statement.locked.rows(table)?.pages.value(number, schema.key()).to_value();
        placed.push(UpsertResult { key, effect });
        count += u64::from(effect != UpsertEffect::Ignored);
    }
    statement.keep();
    Ok(Outcome { keys: Keys::Upserted(placed), ..Outcome::rows(count) })
}

/// Inserts a row, or executes the conflict action; returns the row that exists afterwards.
fn put(
    locked: &mut LockedTables<'_>,
    log: &mut UndoLog,
    table: u32,
    row: &[ValueRef<'_>],
    on_conflict: OnConflict,
) -> Result<(u32, UpsertEffect)> {
    let in_the_way = locked.rows(table)?.in_the_way(row);
    let Some(&there) = in_the_way.first() else {
        return Ok((insert_row(locked, log, table, row, true)?, UpsertEffect::Inserted));
    };
    match on_conflict {
        OnConflict::Refuse => {
            Ok((insert_row(locked, log, table, row, true)?, UpsertEffect::Inserted))
        }
        OnConflict::Ignore => Ok((there, UpsertEffect::Ignored)),
        OnConflict::Replace => {
            Ok((replace(locked, log, table, row, &in_the_way)?, UpsertEffect::Replaced))
        }
        OnConflict::Update { fields } => {
            let mut written: Values<'_> = row.iter().copied().collect();
            for field in (0..row.len()).filter(|&field| !fields.contains(field)) {
                written[field] = ValueRef::Absent;
            }
            update_row(locked, log, table, there, &written)?;
            Ok((there, UpsertEffect::Updated))
        }
    }
}

/// Replaces other rows by this row, all or nothing.
fn replace(
    locked: &mut LockedTables<'_>,
    log: &mut UndoLog,
    table: u32,
    row: &[ValueRef<'_>],
    going: &[u32],
) -> Result<u32> {
    let statement = Statement::new(locked, log);
    let mut row: Values<'_> = row.iter().copied().collect();
    let rows = statement.locked.rows(table)?;
    let key = rows.table.key();
    if row[key].is_absent() {
        // This is done while the replaced rows still exist, so that none of them had this key.
        row[key] = ValueRef::Int(rows.next_key()?);
    }
    let gone: Vec<Value> =
        going.iter().map(|&number| rows.pages.value(number, key).to_value()).collect();
    for &number in going {
        statement.log.removing(statement.locked, table, number)?;
        statement.locked.rows_mut(table)?.remove(number);
    }
    let number = insert_row(statement.locked, statement.log, table, &row, true)?;
    for key in &gone {
        if statement.locked.find(table, key.as_ref())?.is_none() {
            check_referrers_of(statement.locked, table, key.as_ref(), |_, _| false)?;
        }
    }
    statement.keep();
    Ok(number)
}
