//! Executes operations on locked tables: each is all or nothing.

mod cascade;
pub(crate) mod conflict;
pub(crate) mod long_delete;
pub(crate) mod references;
pub(crate) mod row_write;
pub(crate) mod undo_log;

use std::borrow::Cow;

use marmota_model::rule::violation;
use marmota_model::{
    Currency, Error, ErrorKind, KeyKind, Result, RowQuery, RowSink, RowSource, ValueRef,
};
use marmota_store::operation::{BatchMachine, BatchParts, Keys, OnConflict, Operation, Outcome};
use smallvec::smallvec;

use crate::catalog::locked_tables::LockedTables;
use crate::read::long_scan::LongScan;
use crate::read::related::resolved;
use crate::read::scan::Read;
use crate::table::table_rows::{TableRows, Values};
use crate::write::references::{check_references_of, check_referrers, refers_to_itself};
use crate::write::row_write::{insert_row, update_row, version_of};
use crate::write::undo_log::{Statement, UndoLog};

/// Executes an operation on rows, of the table with this number unless it is a batch; returns a
/// read that needs more turns.
pub(super) fn execute(
    operation: &mut Operation<'_>,
    table: u32,
    sink: &mut dyn RowSink,
    locked: &mut LockedTables<'_>,
    log: &mut UndoLog,
    outcome: &mut Outcome,
) -> Result<Option<Box<LongScan>>> {
    *outcome = match operation {
        Operation::Get { key, fields, .. } => {
            outcome.rows = locked.rows(table)?.get(*key, *fields, sink);
            return Ok(None);
        }
        Operation::Insert { row, on_conflict: OnConflict::Refuse, .. } => {
            return insert(locked, log, table, row, outcome).map(|()| None);
        }
        Operation::Insert { row, on_conflict, .. } => {
            conflict::insert(locked, log, table, row, *on_conflict)
        }
        Operation::List { query, .. } => {
            let with_related;
            let query = match resolved(locked, table, query.filter.as_ref())? {
                Some(Cow::Owned(filter)) => {
                    with_related = RowQuery { filter: Some(filter), ..(*query).clone() };
                    &with_related
                }
                _ => *query,
            };
            match locked.rows(table)?.list(query, sink)? {
                Read::Done(rows) => Ok(Outcome::rows(rows)),
                Read::Over(scan) => return Ok(Some(scan)),
            }
        }
        Operation::Count { filter, .. } => {
            let filter = resolved(locked, table, *filter)?;
            match locked.rows(table)?.count(filter.as_deref())? {
                Read::Done(rows) => Ok(Outcome::rows(rows)),
                Read::Over(scan) => return Ok(Some(scan)),
            }
        }
        Operation::InsertMany { rows, on_conflict: OnConflict::Refuse, .. } => {
            insert_many(locked, log, table, *rows)
        }
        Operation::InsertMany { rows, on_conflict, .. } => {
            conflict::insert_many(locked, log, table, *rows, *on_conflict)
        }
        Operation::Update { key, row, version, .. } => {
            update(locked, log, table, *key, row, *version)
        }
        Operation::UpdateMany { rows, .. } => update_many(locked, log, table, *rows),
        Operation::Increment { key, field, by, stamp, .. } => {
            increment(locked, log, table, *key, *field, *by, *stamp)
        }
        Operation::Delete { key, version, .. } => delete(locked, log, table, *key, *version),
        Operation::DeleteWhere { filter, .. } => {
            let filter = resolved(locked, table, *filter)?;
            let found = locked.rows(table)?.numbers(filter.as_deref())?;
            delete_rows(locked, log, table, found)
        }
        Operation::Batch { .. } => batch(locked, log, operation),
        _ => Err(unexpected()),
    }?;
    Ok(None)
}

#[cold]
fn unexpected() -> Error {
    Error::new(ErrorKind::Unsupported, "the memory engine does not support this operation here")
}

fn insert(
    locked: &mut LockedTables<'_>,
    log: &mut UndoLog,
    table: u32,
    row: &[ValueRef<'_>],
    outcome: &mut Outcome,
) -> Result<()> {
    let number = insert_row(locked, log, table, row, true)?;
    let rows = locked.rows(table)?;
    outcome.rows = 1;
    if row[rows.table.key()].is_absent() {
        outcome.keys = Keys::One(rows.pages.value(number, rows.table.key()).to_value());
    }
    outcome.version = version_of(rows, number);
    Ok(())
}

fn insert_many<'a>(
    locked: &mut LockedTables<'_>,
    log: &mut UndoLog,
    table: u32,
    source: &mut dyn RowSource<'a>,
) -> Result<Outcome> {
    let is_own = refers_to_itself(locked, table);
    let statement = Statement::new(locked, log);
    let schema = &statement.locked.slot(table).table;
    let mut row: Values<'a> = smallvec![ValueRef::Absent; schema.fields().len()];
    let (mut count, mut first, mut inserted) = (0, None, Vec::new());
    while source.next(&mut row)? {
        let is_auto = row[schema.key()].is_absent() && schema.key_kind() == KeyKind::Auto;
        let number = insert_row(statement.locked, statement.log, table, &row, false)
            .map_err(|error| error.at(format_args!("row {count}")))?;
        if is_auto && first.is_none() {
            first = statement.locked.rows(table)?.pages.value(number, schema.key()).as_int();
        }
        if is_own {
            inserted.push(number);
        }
        count += 1;
    }
    for (index, number) in (0..).zip(inserted) {
        check_references_of(statement.locked, table, number, true)
            .map_err(|error| error.at(format_args!("row {index}")))?;
    }
    statement.keep();
    let keys = first.map_or(Keys::Known, |first| Keys::Range { first });
    Ok(Outcome { keys, ..Outcome::rows(count) })
}

fn update(
    locked: &mut LockedTables<'_>,
    log: &mut UndoLog,
    table: u32,
    key: ValueRef<'_>,
    row: &[ValueRef<'_>],
    expected: Option<i64>,
) -> Result<Outcome> {
    let number = find_row(locked, table, key)?;
    check_version(locked.rows(table)?, number, key, expected)?;
    update_row(locked, log, table, number, row)?;
    let mut outcome = Outcome::rows(1);
    outcome.version = version_of(locked.rows(table)?, number);
    Ok(outcome)
}

fn update_many<'a>(
    locked: &mut LockedTables<'_>,
    log: &mut UndoLog,
    table: u32,
    source: &mut dyn RowSource<'a>,
) -> Result<Outcome> {
    let statement = Statement::new(locked, log);
    let schema = &statement.locked.slot(table).table;
    let mut row: Values<'a> = smallvec![ValueRef::Absent; schema.fields().len()];
    let mut count = 0;
    while source.next(&mut row)? {
        find_row(statement.locked, table, row[schema.key()])
            .and_then(|number| update_row(statement.locked, statement.log, table, number, &row))
            .map_err(|error| error.at(format_args!("row {count}")))?;
        count += 1;
    }
    statement.keep();
    Ok(Outcome::rows(count))
}

fn increment(
    locked: &mut LockedTables<'_>,
    log: &mut UndoLog,
    table: u32,
    key: ValueRef<'_>,
    position: usize,
    by: ValueRef<'_>,
    stamp: ValueRef<'_>,
) -> Result<Outcome> {
    let schema = &locked.slot(table).table;
    let Some(field) = schema.fields().get(position) else {
        let message = format!(
            "an increment uses field number {position}, which `{}` does not have",
            schema.name()
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    };
    let refuse = |value, rule, message: &str| {
        Err(Error::invalid(vec![violation(field, value, rule, message)]))
    };
    let number = find_row(locked, table, key)?;
    let current = locked.rows(table)?.pages.value(number, position);
    let sum = match (current, by) {
        (ValueRef::Int(a), ValueRef::Int(b)) => a.checked_add(b).map(ValueRef::Int),
        (ValueRef::Currency(a), ValueRef::Currency(b)) => {
            Currency::checked_add(a, b).map(ValueRef::Currency)
        }
        (ValueRef::Null, _) => {
            return refuse(
                current,
                "required",
                "is null and cannot be incremented; set a value first",
            );
        }
        _ => {
            return refuse(
                by,
                "type",
                "only integer and currency fields can be incremented, by a \
                                        value of the same kind",
            );
        }
    };
    let Some(sum) = sum else {
        return refuse(by, "range", "would make the sum larger than 64 bits allow");
    };
    let mut row: Values<'_> = smallvec![ValueRef::Absent; schema.fields().len()];
    row[position] = sum;
    schema.validate(&row)?;
    if let Some(updated_at) = schema.updated_at() {
        row[updated_at] = stamp;
    }
    update_row(locked, log, table, number, &row)?;
    let version = version_of(locked.rows(table)?, number);
    Ok(Outcome { version, value: sum.to_value(), ..Outcome::rows(1) })
}

fn delete(
    locked: &mut LockedTables<'_>,
    log: &mut UndoLog,
    table: u32,
    key: ValueRef<'_>,
    expected: Option<i64>,
) -> Result<Outcome> {
    let number = find_row(locked, table, key)?;
    check_version(locked.rows(table)?, number, key, expected)?;
    delete_rows(locked, log, table, vec![number])
}

/// Removes rows to which no remaining row refers.
pub(super) fn delete_rows(
    locked: &mut LockedTables<'_>,
    log: &mut UndoLog,
    table: u32,
    mut numbers: Vec<u32>,
) -> Result<Outcome> {
    numbers.sort_unstable();
    if locked.catalog.cascades(table) {
        return cascade::delete_rows(locked, log, table, &numbers);
    }
    if !locked.slot(table).referred.is_empty() {
        for &number in &numbers {
            check_referrers(locked, table, number, |source, row| {
                source == table && numbers.binary_search(&row).is_ok()
            })?;
        }
    }
    for &number in &numbers {
        log.removing(locked, table, number)?;
        locked.rows_mut(table)?.remove(number);
    }
    Ok(Outcome::rows(numbers.len() as u64))
}

fn batch(
    locked: &mut LockedTables<'_>,
    log: &mut UndoLog,
    operation: &mut Operation<'_>,
) -> Result<Outcome> {
    let parts = BatchParts::of(operation).ok_or_else(unexpected)?;
    let statement = Statement::new(locked, log);
    BatchMachine::run(parts, |step, sink| {
        let (locked, log) = (&mut *statement.locked, &mut *statement.log);
        match step {
            Operation::Savepoint(name) => log.save(*name),
            Operation::Release(name) => log.release(*name)?,
            Operation::RollbackTo(name) => log.undo_to_savepoint(*name, locked)?,
            step => {
                let number = locked.catalog.find(step.table().ok_or_else(unexpected)?)?;
                let mut outcome = Outcome::default();
                if let Some(scan) = execute(step, number, sink, locked, log, &mut outcome)? {
                    outcome.rows = scan.finish(locked.rows(number)?, sink)?;
                }
                return Ok(outcome);
            }
        }
        Ok(Outcome::default())
    })?;
    statement.keep();
    let Operation::Batch { results, .. } = operation else { return Err(unexpected()) };
    Ok(Outcome::rows(results.iter().flatten().map(|outcome| outcome.rows).sum()))
}

fn find_row(locked: &LockedTables<'_>, table: u32, key: ValueRef<'_>) -> Result<u32> {
    locked.find(table, key)?.ok_or_else(|| {
        let name = locked.slot(table).table.name();
        let key = marmota_model::text::excerpt_of(key);
        Error::new(ErrorKind::NotFound, format!("there is no `{name}` with the key {key}"))
    })
}

fn check_version(
    rows: &TableRows,
    number: u32,
    key: ValueRef<'_>,
    expected: Option<i64>,
) -> Result<()> {
    let Some(expected) = expected else { return Ok(()) };
    let current = version_of(rows, number);
    if current == Some(expected) {
        return Ok(());
    }
    let is = current.map_or("none".to_owned(), |version| version.to_string());
    let message = format!(
        "the row {} of `{}` has version {is}, not {expected}: read it again",
        marmota_model::text::excerpt_of(key),
        rows.table.name()
    );
    Err(Error::new(ErrorKind::Stale, message))
}
