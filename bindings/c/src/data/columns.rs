//! Columns: the rows of a CSV file in little memory, for reading.

use std::cell::RefCell;
use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::sync::Arc;

use marmota::app::AppFile;
use marmota::columns::{ColumnIndex, Columns, JsonFields};
use marmota::csv;
use marmota::model::{Record, Table, ValueRef};
use marmota::{Error, ErrorKind};
use parking_lot::RwLock;

use crate::foreign::{MarmotaNumbers, MarmotaText, entry, required};
use crate::handles::{self, MarmotaHandle, Object};
use crate::status::Failure;
use crate::store::lend_text_to;
use crate::value::{self, MarmotaValue};

/// The lists of fields whose writers are kept.
const WRITERS_MAX: usize = 64;

/// Rows, and what was prepared for them.
struct ColumnsObject {
    columns: Columns<Record>,
    /// The indexes, by the position of their field.
    indexes: RwLock<Vec<(usize, Arc<ColumnIndex>)>>,
    /// Writers of JSON, by the names of their fields.
    writers: RwLock<Vec<(String, JsonFields)>>,
}

impl Object for ColumnsObject {
    const KIND: u8 = 12;
    const NAME: &'static str = "columns";
}

thread_local! {
    /// The rows that `marmota_columns_find` has found last.
    static FOUND: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

impl ColumnsObject {
    fn index(&self, position: usize) -> Option<Arc<ColumnIndex>> {
        let indexes = self.indexes.read();
        indexes.iter().find(|(of, _)| *of == position).map(|(_, index)| Arc::clone(index))
    }

    fn check_row(&self, row: u32) -> Result<(), Failure> {
        if (row as usize) < self.columns.len() {
            return Ok(());
        }
        Err(Failure::argument(format!("row {row}: there are {} rows", self.columns.len())))
    }

    /// Returns the writer of fields whose names are separated by commas.
    fn writer(&self, fields: &str) -> Result<JsonFields, Failure> {
        let known = |writers: &[(String, JsonFields)]| {
            writers.iter().find(|(of, _)| of == fields).map(|(_, writer)| writer.clone())
        };
        if let Some(writer) = known(&self.writers.read()) {
            return Ok(writer);
        }
        let names: Vec<&str> = fields.split(',').map(str::trim).collect();
        let writer = self.columns.json(&names)?;
        let mut writers = self.writers.write();
        if writers.len() < WRITERS_MAX && known(&writers).is_none() {
            writers.push((fields.to_owned(), writer.clone()));
        }
        Ok(writer)
    }
}

/// Loads a CSV file (RFC 4180) whose first line has names. `table` is an application file in JSON with one
/// table: columns of the file with the names of its fields are kept, others are skipped. An integer key
/// that the file does not have is the number of the row.
///
/// Ownership: free the columns with `marmota_columns_free`.
/// Threads: the columns may be used on all threads at once. Loading uses all processors.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_columns_load(
    path: MarmotaText,
    table: MarmotaText,
    columns: Option<&mut MaybeUninit<MarmotaHandle>>,
) -> i32 {
    entry(|| {
        let columns = required(columns, "columns")?;
        let file = AppFile::parse_json(table.get("table")?)?;
        let [schema] = file.schemas() else {
            let message = format!("`table` has {} tables: it must have one", file.schemas().len());
            return Err(Failure::argument(message));
        };
        let table = Arc::new(Table::new(schema.clone())?);
        let loaded = csv::load_records(&table, path.get("path")?)?;
        let object = ColumnsObject {
            columns: loaded,
            indexes: RwLock::default(),
            writers: RwLock::default(),
        };
        columns.write(handles::add(object)?);
        Ok(())
    })
}

/// Returns the number of rows. Rows have the numbers from 0 on, in the order of the file.
///
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_columns_count(
    columns: MarmotaHandle,
    count: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    entry(|| {
        let count = required(count, "count")?;
        count.write(handles::find::<ColumnsObject>(columns)?.columns.len());
        Ok(())
    })
}

/// Makes an index of a field, for `marmota_columns_find`. A second one has no effect.
///
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_columns_index(columns: MarmotaHandle, field: MarmotaText) -> i32 {
    entry(|| {
        let object = handles::find::<ColumnsObject>(columns)?;
        let name = field.get("field")?;
        let position = object.columns.table().position(name)?;
        if object.index(position).is_none() {
            let index = Arc::new(object.columns.index_by(name)?);
            object.indexes.write().push((position, index));
        }
        Ok(())
    })
}

/// Finds the rows whose field has a text, by an index; returns their numbers in order.
///
/// Ownership: the numbers are lent until the thread's next call of `marmota_columns_find`.
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_columns_find(
    columns: MarmotaHandle,
    field: MarmotaText,
    text: MarmotaText,
    rows: Option<&mut MaybeUninit<*const u32>>,
    count: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    entry(|| {
        let (rows, count) = (required(rows, "rows")?, required(count, "count")?);
        let object = handles::find::<ColumnsObject>(columns)?;
        let name = field.get("field")?;
        let position = object.columns.table().position(name)?;
        let index = object.index(position).ok_or_else(|| {
            let message = format!("`{name}` has no index: call marmota_columns_index first");
            Failure::from(Error::new(ErrorKind::Invalid, message))
        })?;
        let text = ValueRef::Text(text.get("text")?);
        FOUND.with_borrow_mut(|found| {
            found.clear();
            found.extend(index.rows_of(text));
            rows.write(found.as_ptr());
            count.write(found.len());
        });
        Ok(())
    })
}

/// Returns a value of a row.
///
/// Ownership: the value is lent until the thread's next call but one that lends.
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_columns_value(
    columns: MarmotaHandle,
    row: u32,
    field: MarmotaText,
    value: Option<&mut MaybeUninit<*const MarmotaValue>>,
) -> i32 {
    entry(|| {
        let value = required(value, "value")?;
        let object = handles::find::<ColumnsObject>(columns)?;
        object.check_row(row)?;
        let position = object.columns.table().position(field.get("field")?)?;
        let found = object.columns.value(row, position).unwrap_or(ValueRef::Null);
        let ((), lent) = value::lend(1, |rows| {
            rows.push(&[found]);
            Ok::<(), Failure>(())
        })?;
        value.write(lent.map_or(std::ptr::null(), |(row, _)| row));
        Ok(())
    })
}

/// Writes rows as a JSON array of objects with some fields: their names, separated by commas. `length` may
/// be null.
///
/// Ownership: the text is lent until the thread's next call but one that lends.
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_columns_json(
    columns: MarmotaHandle,
    fields: MarmotaText,
    rows: MarmotaNumbers,
    count: usize,
    json: Option<&mut MaybeUninit<*const c_char>>,
    length: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    entry(|| {
        let object = handles::find::<ColumnsObject>(columns)?;
        let rows = rows.get(count, "rows")?;
        rows.iter().try_for_each(|row| object.check_row(*row))?;
        let mut text = Vec::new();
        object.writer(fields.get("fields")?)?.array(&mut text, rows.iter().copied());
        let text = String::from_utf8(text)
            .map_err(|error| Error::new(ErrorKind::Bug, error.to_string()))?;
        lend_text_to(&text, (json, "json"), length)
    })
}

/// Frees columns.
///
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_columns_free(columns: MarmotaHandle) -> i32 {
    entry(|| handles::remove::<ColumnsObject>(columns).map(drop))
}
