//! Stores, and the tables that they have.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use marmota::app::AppFile;
use marmota::model::{Kind, Table};
use marmota::store::Store;
use marmota::store::change::ChangeRetention;

use crate::foreign::{MarmotaText, entry, required};
use crate::handles::{self, MarmotaHandle, Target};
use crate::status::Failure;
use crate::value::{self, MarmotaValue};

/// `marmota_store_open`: record changes, for `marmota_changes_subscribe`, `marmota_live_open` and the
/// live queries of REST.
pub const MARMOTA_RECORD_CHANGES: u32 = 1;

/// The number of a table in its store.
pub type MarmotaTable = u32;

/// Opens the store of a URL, such as "sqlite:people.db", "memory:", "postgres://user@host/app" or
/// "http://host:8080/api". `tables` is an application file in JSON, {"tables": {…}}; missing tables
/// and fields are created. `options` is 0 or MARMOTA_RECORD_CHANGES.
///
/// Ownership: close the store with `marmota_store_close`.
/// Threads: the store may be used on all threads at once.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_store_open(
    url: MarmotaText,
    tables: MarmotaText,
    options: u32,
    store: Option<&mut MaybeUninit<MarmotaHandle>>,
) -> i32 {
    entry(|| {
        let store = required(store, "store")?;
        if options & !MARMOTA_RECORD_CHANGES != 0 {
            let message = format!("options {options}: use 0 or MARMOTA_RECORD_CHANGES");
            return Err(Failure::argument(message));
        }
        let builder = marmota::open(url.get("url")?)?;
        let mut builder = AppFile::parse_json(tables.get("tables")?)?.add_to(builder);
        if options & MARMOTA_RECORD_CHANGES != 0 {
            builder = builder.changes(ChangeRetention::default());
        }
        store.write(handles::add(builder.open()?)?);
        Ok(())
    })
}

/// Closes a store and frees its handle. Later calls with its transactions, cursors and batches fail
/// with MARMOTA_CLOSED; free these handles as well. Stop servers of the store first.
///
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_store_close(store: MarmotaHandle) -> i32 {
    entry(|| Ok(handles::remove::<Store>(store)?.close()?))
}

/// Finds the number of a table by its name. It is valid until the store is closed.
///
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_table_find(
    store: MarmotaHandle,
    name: MarmotaText,
    table: Option<&mut MaybeUninit<MarmotaTable>>,
) -> i32 {
    entry(|| {
        let table = required(table, "table")?;
        let (store, name) = (handles::find::<Store>(store)?, name.get("name")?);
        // The error names the tables of the store.
        store.table(name)?;
        let tables = store.registry().tables();
        let number = tables.iter().position(|table| table.name() == name).unwrap_or_default();
        table.write(number as MarmotaTable);
        Ok(())
    })
}

/// Returns the number of fields of a table, which is the number of values in its rows.
///
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_table_fields(
    store: MarmotaHandle,
    table: MarmotaTable,
    count: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    entry(|| {
        let count = required(count, "count")?;
        count.write(table_of(&*handles::find::<Store>(store)?, table)?.fields().len());
        Ok(())
    })
}

/// Finds the place of a field in rows by its name.
///
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_field_find(
    store: MarmotaHandle,
    table: MarmotaTable,
    name: MarmotaText,
    field: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    entry(|| {
        let field = required(field, "field")?;
        let store = handles::find::<Store>(store)?;
        field.write(table_of(&store, table)?.position(name.get("name")?)?);
        Ok(())
    })
}

/// Describes a field: its name, and the kind of its values. Either place may be null.
///
/// Ownership: the name is lent until the thread's next call but one that lends.
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_field_describe(
    store: MarmotaHandle,
    table: MarmotaTable,
    field: usize,
    name: Option<&mut MaybeUninit<*const c_char>>,
    kind: Option<&mut MaybeUninit<u32>>,
) -> i32 {
    entry(|| {
        let store = handles::find::<Store>(store)?;
        let fields = table_of(&store, table)?.fields();
        let described = fields.get(field).ok_or_else(|| {
            Failure::argument(format!("field {field}: the table has {} fields", fields.len()))
        })?;
        if let Some(kind) = kind {
            kind.write(kind_of(&described.kind));
        }
        if let Some(name) = name {
            name.write(lend_text(&described.name)?.0);
        }
        Ok(())
    })
}

/// The kind of the values of a field.
fn kind_of(kind: &Kind) -> u32 {
    match kind {
        Kind::Bool => value::MARMOTA_BOOL,
        Kind::Int { .. } => value::MARMOTA_INT,
        Kind::Float => value::MARMOTA_FLOAT,
        Kind::Currency => value::MARMOTA_CURRENCY,
        Kind::Blob => value::MARMOTA_BLOB,
        Kind::Date => value::MARMOTA_DATE,
        Kind::Time => value::MARMOTA_TIME,
        Kind::Timestamp => value::MARMOTA_TIMESTAMP,
        Kind::Uuid => value::MARMOTA_UUID,
        Kind::Text { .. } => value::MARMOTA_TEXT,
        _ => value::MARMOTA_JSON,
    }
}

/// Lends a text with a NUL at its end.
pub(crate) fn lend_text(text: &str) -> Result<(*const c_char, usize), Failure> {
    let ((), row) = value::lend(1, |rows| {
        rows.push(&[marmota::model::ValueRef::Text(text)]);
        Ok::<(), Failure>(())
    })?;
    Ok(row.map_or((c"".as_ptr(), 0), |(row, _)| text_of(row)))
}

/// Lends a text, and writes it to the places of a caller, of which the second may be missing.
pub(crate) fn lend_text_to(
    text: &str,
    (out, name): (Option<&mut MaybeUninit<*const c_char>>, &str),
    length: Option<&mut MaybeUninit<usize>>,
) -> Result<(), Failure> {
    let out = required(out, name)?;
    let (at, bytes) = lend_text(text)?;
    out.write(at);
    if let Some(length) = length {
        length.write(bytes);
    }
    Ok(())
}

/// The text of a lent value.
fn text_of(value: *const MarmotaValue) -> (*const c_char, usize) {
    // SAFETY: `value` was lent by this thread just now, and nothing has replaced it.
    let value = unsafe { &*value };
    (value.data.cast(), value.length)
}

/// Returns a table by its number.
pub(crate) fn table_of(
    store: &Store,
    table: MarmotaTable,
) -> Result<&std::sync::Arc<Table>, Failure> {
    let tables = store.registry().tables();
    tables.get(table as usize).ok_or_else(|| {
        Failure::argument(format!("table {table}: the store has {} tables", tables.len()))
    })
}

/// Counts the rows of a table that a filter selects; null or "" for all rows.
///
/// Threads: any thread; for a transaction its thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_rows_count(
    store: MarmotaHandle,
    table: MarmotaTable,
    filter: MarmotaText,
    count: Option<&mut MaybeUninit<u64>>,
) -> i32 {
    entry(|| {
        let count = required(count, "count")?;
        let rows = Target::find(store)?.with(|store| {
            let table = table_of(store, table)?;
            let filter = filter_of(table, &filter)?;
            let mut operation =
                marmota::store::operation::Operation::Count { table, filter: filter.as_ref() };
            Ok(store.run(&mut operation, &mut marmota::model::NoRows)?.rows)
        })?;
        count.write(rows);
        Ok(())
    })
}

/// Parses a filter; none for null or "".
pub(crate) fn filter_of(
    table: &Table,
    filter: &MarmotaText,
) -> Result<Option<marmota::model::FilterExpr>, Failure> {
    match filter.optional("filter")? {
        None | Some("") => Ok(None),
        Some(text) => {
            let filter = marmota::model::parse_filter(table, text)?;
            Ok(Some(filter.into_expr_for(table)?))
        }
    }
}
