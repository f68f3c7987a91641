//! The verbs on one row, and rows as JSON.

use std::mem::MaybeUninit;

use marmota::model::{FieldSet, NoRows, Record, Scratch, Table, Value, ValueRef, json};
use marmota::store::operation::{Keys, Operation, Outcome, UpsertEffect};
use marmota::store::prepare::{self, ValueSource};
use marmota::store::{Store, read, refusal, write};

use crate::foreign::{MarmotaBytes, MarmotaRow, entry, required};
use crate::handles::{self, MarmotaHandle, Target};
use crate::status::Failure;
use crate::store::{MarmotaTable, filter_of, lend_text, table_of};
use crate::value::{MarmotaValue, lend};

/// `marmota_row_upsert`: leave a row that exists unchanged.
pub const MARMOTA_IGNORE: u32 = 1;
/// `marmota_row_upsert`: replace a row that exists.
pub const MARMOTA_REPLACE: u32 = 2;
/// `marmota_row_upsert`: update the given fields of a row that exists.
pub const MARMOTA_UPDATE: u32 = 3;

type RowOut<'a> = Option<&'a mut MaybeUninit<*const MarmotaValue>>;

/// Inserts a row. `values` has `count` values, one for each field; an automatic key may be absent.
/// `key` receives the row's key; it may be null.
///
/// Ownership: a text or UUID of `key` is lent until the thread's next call but one that lends.
/// Threads: any thread; for a transaction its thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_row_insert(
    store: MarmotaHandle,
    table: MarmotaTable,
    values: MarmotaRow,
    count: usize,
    key: Option<&mut MaybeUninit<MarmotaValue>>,
) -> i32 {
    entry(|| {
        let row_key = Target::find(store)?.with(|store| {
            let table = table_of(store, table)?;
            let scratch = Scratch::new();
            let mut row = row_of(table, &values, count)?;
            prepare::insert(table, &mut row, ValueSource::Values, store.stamp(table), &scratch)?;
            let mut outcome = store.run(&mut Operation::insert(table, &row), &mut NoRows)?;
            Ok(key_of(&mut outcome, || row[table.key()].to_value()))
        })?;
        write_key(key, &row_key)
    })
}

/// Inserts a row, or does what `action` states if one with the same key or unique value exists:
/// MARMOTA_IGNORE, MARMOTA_REPLACE or MARMOTA_UPDATE. `key` receives the key of the row. `effect`
/// receives 0 for an inserted row, otherwise the action. Both may be null.
///
/// Ownership: a text or UUID of `key` is lent until the thread's next call but one that lends.
/// Threads: any thread; for a transaction its thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_row_upsert(
    store: MarmotaHandle,
    table: MarmotaTable,
    values: MarmotaRow,
    count: usize,
    action: u32,
    key: Option<&mut MaybeUninit<MarmotaValue>>,
    effect: Option<&mut MaybeUninit<u32>>,
) -> i32 {
    entry(|| {
        let done = Target::find(store)?.with(|store| {
            let table = table_of(store, table)?;
            let record = Record::from_row(table.clone(), &row_of(table, &values, count)?);
            let upsert = store.insert_record(&record);
            Ok(match action {
                MARMOTA_IGNORE => upsert.or_ignore().run()?,
                MARMOTA_REPLACE => upsert.or_replace().run()?,
                MARMOTA_UPDATE => upsert.or_update().run()?,
                _ => return Err(unknown_action(action)),
            })
        })?;
        if let Some(effect) = effect {
            effect.write(match done.effect {
                UpsertEffect::Inserted => 0,
                UpsertEffect::Ignored => MARMOTA_IGNORE,
                UpsertEffect::Replaced => MARMOTA_REPLACE,
                UpsertEffect::Updated => MARMOTA_UPDATE,
            });
        }
        write_key(key, &done.key)
    })
}

/// Reads the row with a key. Fields with blobs are read too.
///
/// Ownership: `*row` has `*count` values. It is lent until the thread's next call but one that lends.
/// Threads: any thread; for a transaction its thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_row_get(
    store: MarmotaHandle,
    table: MarmotaTable,
    key: MarmotaRow,
    row: Option<&mut MaybeUninit<*const MarmotaValue>>,
    count: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    entry(|| {
        let (row, key) = (required(row, "row")?, key.one("key")?);
        let lent = Target::find(store)?.with(|store| {
            let table = table_of(store, table)?;
            read::check_key(table, key)?;
            let ((), lent) = lend(table.fields().len(), |rows| {
                let mut operation = Operation::Get { table, key, fields: table.all() };
                let mut sink = |row: &[ValueRef<'_>]| {
                    rows.push(row);
                    std::ops::ControlFlow::Continue(())
                };
                store.run(&mut operation, &mut sink).map(drop)
            })?;
            lent.ok_or_else(|| refusal::not_found(table, key).into())
        })?;
        row.write(lent.0);
        if let Some(count) = count {
            count.write(lent.1);
        }
        Ok(())
    })
}

/// Writes all fields of the row whose key is among `values`; absent fields get their default, or
/// null; absent blobs are kept. If the table has a version and `values` has it, the row must have that version.
///
/// Threads: any thread; for a transaction its thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_row_update(
    store: MarmotaHandle,
    table: MarmotaTable,
    values: MarmotaRow,
    count: usize,
) -> i32 {
    entry(|| update(store, table, &values, count, true))
}

/// Writes those fields that are not absent to the row whose key is among `values`. If the table has a
/// version and `values` has it, the row must have that version.
///
/// Threads: any thread; for a transaction its thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_row_patch(
    store: MarmotaHandle,
    table: MarmotaTable,
    values: MarmotaRow,
    count: usize,
) -> i32 {
    entry(|| update(store, table, &values, count, false))
}

fn update(
    store: MarmotaHandle,
    table: MarmotaTable,
    values: &MarmotaRow,
    count: usize,
    whole: bool,
) -> Result<(), Failure> {
    Target::find(store)?.with(|store| {
        let table = table_of(store, table)?;
        let mut row = row_of(table, values, count)?;
        let (key, version) = changed_row(table, &mut row, whole)?;
        let scratch = Scratch::new();
        prepare::update(table, &mut row, ValueSource::Values, store.stamp(table), &scratch)?;
        let mut operation = Operation::Update { table, key, row: &row, version };
        store.run(&mut operation, &mut NoRows)?;
        Ok(())
    })
}

/// Takes the key and the expected version from a row that is to be written; fills a whole row.
pub(crate) fn changed_row<'a>(
    table: &'a Table,
    row: &mut [ValueRef<'a>],
    whole: bool,
) -> Result<(ValueRef<'a>, Option<i64>), Failure> {
    let key = row[table.key()];
    read::check_key(table, key)?;
    let version = table.version().and_then(|version| row[version].as_int());
    write::check_version(table, version)?;
    if whole {
        let mut violations = Vec::new();
        prepare::fill_for_replace(table, row, &mut violations);
        prepare::finish(violations)?;
    }
    Ok((key, version))
}

/// Deletes the row with a key.
///
/// Threads: any thread; for a transaction its thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_row_delete(
    store: MarmotaHandle,
    table: MarmotaTable,
    key: MarmotaRow,
) -> i32 {
    entry(|| {
        let key = key.one("key")?;
        Target::find(store)?.with(|store| {
            let table = table_of(store, table)?;
            read::check_key(table, key)?;
            store.run(&mut Operation::Delete { table, key, version: None }, &mut NoRows)?;
            Ok(())
        })
    })
}

/// Deletes the rows that a filter selects; null or "" for all rows. `count` receives their number and
/// may be null.
///
/// Threads: any thread; for a transaction its thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_rows_delete(
    store: MarmotaHandle,
    table: MarmotaTable,
    filter: crate::foreign::MarmotaText,
    count: Option<&mut MaybeUninit<u64>>,
) -> i32 {
    entry(|| {
        let rows = Target::find(store)?.with(|store| {
            let table = table_of(store, table)?;
            let filter = filter_of(table, &filter)?;
            let mut operation = Operation::DeleteWhere { table, filter: filter.as_ref() };
            Ok(store.run(&mut operation, &mut NoRows)?.rows)
        })?;
        if let Some(count) = count {
            count.write(rows);
        }
        Ok(())
    })
}

/// Parses a JSON object as a row of a table. Members that are missing are absent.
///
/// Ownership: `*row` has `*count` values. It is lent until the thread's next call but one that lends.
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_row_from_json(
    store: MarmotaHandle,
    table: MarmotaTable,
    json: MarmotaBytes,
    length: usize,
    row: Option<&mut MaybeUninit<*const MarmotaValue>>,
    count: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    entry(|| {
        let row: RowOut<'_> = row;
        let row = required(row, "row")?;
        let body = json.get(length, "json")?;
        let store = handles::find::<Store>(store)?;
        let table = table_of(&store, table)?;
        let (scratch, mut violations) = (Scratch::new(), Vec::new());
        let mut values = vec![ValueRef::Absent; table.fields().len()];
        json::read_object(table, body, &scratch, &mut values, &mut violations)?;
        prepare::finish(violations)?;
        let ((), lent) = lend(values.len(), |rows| {
            rows.push(&values);
            Ok::<(), Failure>(())
        })?;
        let (at, length) = lent.unwrap_or((std::ptr::null(), 0));
        row.write(at);
        if let Some(count) = count {
            count.write(length);
        }
        Ok(())
    })
}

/// Writes a row as a JSON object with the names of the fields; absent fields are left out.
///
/// Ownership: the text is lent until the thread's next call but one that lends.
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_row_to_json(
    store: MarmotaHandle,
    table: MarmotaTable,
    values: MarmotaRow,
    count: usize,
    json: Option<&mut MaybeUninit<*const std::ffi::c_char>>,
    length: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    entry(|| {
        let out = required(json, "json")?;
        let store = handles::find::<Store>(store)?;
        let table = table_of(&store, table)?;
        let row = row_of(table, &values, count)?;
        let mut text = Vec::new();
        json::write_row(&mut text, table, FieldSet::present(&row), &row);
        let (at, bytes) = lend_text(&String::from_utf8_lossy(&text))?;
        out.write(at);
        if let Some(length) = length {
            length.write(bytes);
        }
        Ok(())
    })
}

/// Returns a row of C for a table.
pub(crate) fn row_of<'a>(
    table: &Table,
    values: &'a MarmotaRow,
    count: usize,
) -> Result<Vec<ValueRef<'a>>, Failure> {
    let fields = table.fields().len();
    if count != fields {
        let message = format!("a row of `{}` has {fields} values, not {count}", table.name());
        return Err(Failure::argument(message));
    }
    values.get(count, "values")
}

/// Takes the key of a row from the outcome of its insert.
pub(crate) fn key_of(outcome: &mut Outcome, given: impl FnOnce() -> Value) -> Value {
    match std::mem::take(&mut outcome.keys) {
        Keys::One(key) => key,
        Keys::Upserted(mut one) if one.len() == 1 => one.remove(0).key,
        _ => given(),
    }
}

/// Lends a key to the caller, if it wants it.
pub(crate) fn write_key(
    out: Option<&mut MaybeUninit<MarmotaValue>>,
    key: &Value,
) -> Result<(), Failure> {
    let Some(out) = out else { return Ok(()) };
    let ((), lent) = lend(1, |rows| {
        rows.push(&[key.as_ref()]);
        Ok::<(), Failure>(())
    })?;
    // SAFETY: the row was lent by this thread just now, and has one value.
    out.write(lent.map_or(MarmotaValue::EMPTY, |(row, _)| unsafe { *row }));
    Ok(())
}

#[cold]
pub(crate) fn unknown_action(action: u32) -> Failure {
    let message = format!("action {action}: use MARMOTA_IGNORE, MARMOTA_REPLACE or MARMOTA_UPDATE");
    Failure::argument(message)
}
