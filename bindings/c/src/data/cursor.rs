//! Cursors: lists of rows, and rows of SQL, which are lent one after the other.

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::sync::Arc;

use marmota::model::{RowQuery, Table, Value, ValueRef, parse_order};
use marmota::store::operation::Operation;

use crate::foreign::{MarmotaContext, MarmotaText, entry, entry_with, required};
use crate::handles::{self, MarmotaHandle, Object, Owned, Target};
use crate::status::{Failure, MARMOTA_END, MARMOTA_OK};
use crate::store::{MarmotaTable, filter_of, table_of};
use crate::value::{LentRows, MarmotaValue};

/// The number of rows of a list's first page, and of the others.
const PAGES: [u64; 2] = [64, 512];

/// A list that is read in pages, or the rows of SQL.
pub(crate) struct Cursor {
    columns: Vec<CString>,
    page: LentRows,
    at: usize,
    list: Option<List>,
}

/// What remains to be read of a list.
struct List {
    target: Target,
    table: Arc<Table>,
    query: RowQuery,
    /// The number of rows that remain, if the list has a limit.
    remaining: Option<u64>,
    pages: usize,
}

/// A cursor, which belongs to its thread.
pub(crate) struct CursorObject(Owned<Cursor>);

impl Object for CursorObject {
    const KIND: u8 = 3;
    const NAME: &'static str = "cursor";
}

/// Opens a cursor over the rows that `filter` selects (null or "" for all), in `order` ("name,-born";
/// null or "" for the order of keys), at most `limit` rows (0 for all). It reads pages: each continues
/// after the last row of the page before it.
///
/// Ownership: free it with `marmota_cursor_free`.
/// Threads: the cursor belongs to the calling thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_cursor_open(
    store: MarmotaHandle,
    table: MarmotaTable,
    filter: MarmotaText,
    order: MarmotaText,
    limit: u64,
    cursor: Option<&mut MaybeUninit<MarmotaHandle>>,
) -> i32 {
    entry(|| {
        let cursor = required(cursor, "cursor")?;
        let target = Target::find(store)?;
        let (table, query) =
            target.with(|store| query_of(table_of(store, table)?, &filter, &order))?;
        let names = table.fields().iter().map(|field| c_name(&field.name)).collect();
        let remaining = (limit > 0).then_some(limit);
        let list = List { target, table, query, remaining, pages: 0 };
        let opened = Cursor { columns: names, page: LentRows::default(), at: 0, list: Some(list) };
        cursor.write(opened.add()?);
        Ok(())
    })
}

/// Lends the next row: `*row` has `*count` values. Returns MARMOTA_END after the last row.
///
/// Ownership: the row is lent until the next call with this cursor.
/// Threads: the cursor's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_cursor_next(
    cursor: MarmotaHandle,
    row: Option<&mut MaybeUninit<*const MarmotaValue>>,
    count: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    entry_with(|| {
        let row = required(row, "row")?;
        let cursor = handles::find::<CursorObject>(cursor)?;
        let mut cursor = cursor.0.lock()?;
        let Some((at, length)) = cursor.next()? else { return Ok(MARMOTA_END) };
        row.write(at);
        if let Some(count) = count {
            count.write(length);
        }
        Ok(MARMOTA_OK)
    })
}

/// Returns the number of columns of a cursor.
///
/// Threads: the cursor's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_cursor_columns(
    cursor: MarmotaHandle,
    count: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    entry(|| {
        let count = required(count, "count")?;
        count.write(handles::find::<CursorObject>(cursor)?.0.lock()?.columns.len());
        Ok(())
    })
}

/// Returns the name of a column of a cursor.
///
/// Ownership: the name is lent until the cursor is freed.
/// Threads: the cursor's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_cursor_column(
    cursor: MarmotaHandle,
    column: usize,
    name: Option<&mut MaybeUninit<*const c_char>>,
) -> i32 {
    entry(|| {
        let name = required(name, "name")?;
        let cursor = handles::find::<CursorObject>(cursor)?;
        let cursor = cursor.0.lock()?;
        let column = cursor.columns.get(column).ok_or_else(|| {
            let count = cursor.columns.len();
            Failure::argument(format!("column {column}: the cursor has {count} columns"))
        })?;
        name.write(column.as_ptr());
        Ok(())
    })
}

/// Frees a cursor.
///
/// Threads: any thread, when no call uses the cursor and its rows.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_cursor_free(cursor: MarmotaHandle) -> i32 {
    entry(|| handles::remove::<CursorObject>(cursor).map(drop))
}

/// Receives a row. Returns true for the next one, false to stop. The row is lent until it returns. Calls
/// that use the store that is lending fail with MARMOTA_UNSUPPORTED or MARMOTA_BUSY.
pub type MarmotaRowCallback = Option<
    unsafe extern "C" fn(row: *const MarmotaValue, count: usize, context: MarmotaContext) -> bool,
>;

/// Calls `callback` with each row of a list, which the engine lends without a copy. The arguments are
/// those of `marmota_cursor_open`.
///
/// Threads: any thread; for a transaction its thread. The callback runs on the calling thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_rows_each(
    store: MarmotaHandle,
    table: MarmotaTable,
    filter: MarmotaText,
    order: MarmotaText,
    limit: u64,
    callback: MarmotaRowCallback,
    context: MarmotaContext,
) -> i32 {
    entry(|| {
        let callback = callback.ok_or_else(|| Failure::argument("`callback` is null"))?;
        Target::find(store)?.with(|store| {
            let (table, mut query) = query_of(table_of(store, table)?, &filter, &order)?;
            query.limit = (limit > 0).then_some(limit);
            let mut values = vec![MarmotaValue::EMPTY; table.fields().len()];
            let mut uuids = vec![[0; 16]; values.len()];
            let mut sink = |row: &[ValueRef<'_>]| {
                for ((to, uuid), from) in values.iter_mut().zip(&mut uuids).zip(row) {
                    if let ValueRef::Uuid(value) = from {
                        *uuid = *value.as_bytes();
                    }
                    *to = MarmotaValue::of(*from, uuid);
                }
                // SAFETY: the callback has this signature, and returns before the row is dropped.
                match unsafe { callback(values.as_ptr(), values.len(), context) } {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            };
            store.run(&mut Operation::List { table: &table, query: &query }, &mut sink)?;
            Ok(())
        })
    })
}

/// Returns the query of a list, all of whose fields are read.
pub(crate) fn query_of(
    table: &Arc<Table>,
    filter: &MarmotaText,
    order: &MarmotaText,
) -> Result<(Arc<Table>, RowQuery), Failure> {
    let mut query = RowQuery { filter: filter_of(table, filter)?, ..RowQuery::new() };
    query.fields = Some(table.all());
    let order = order.optional("order")?.filter(|order| !order.is_empty());
    if let Some(order) = order {
        let keys = parse_order(table, order)?.into_iter().map(|key| key.into_key_for(table));
        query.order = keys.collect::<Result<_, _>>()?;
    }
    query.check(table)?;
    Ok((Arc::clone(table), query))
}

pub(crate) fn c_name(name: &str) -> CString {
    CString::new(name.replace('\0', "")).unwrap_or_default()
}

impl Cursor {
    /// A cursor over rows that are read already.
    pub(crate) fn of_rows(columns: Vec<CString>, mut page: LentRows) -> Self {
        page.seal();
        Self { columns, page, at: 0, list: None }
    }

    pub(crate) fn add(self) -> Result<MarmotaHandle, Failure> {
        handles::add(CursorObject(Owned::new(self)))
    }

    fn next(&mut self) -> Result<Option<(*const MarmotaValue, usize)>, Failure> {
        if self.page.row(self.at).is_none()
            && let Some(list) = self.list.take()
        {
            self.at = 0;
            self.list = list.read_page(&mut self.page)?;
        }
        let row = self.page.row(self.at).map(|row| (row.as_ptr(), row.len()));
        self.at += usize::from(row.is_some());
        Ok(row)
    }
}

impl List {
    /// Reads the next page. Returns what remains after it.
    fn read_page(mut self, page: &mut LentRows) -> Result<Option<Self>, Failure> {
        let Self { target, table, query, remaining, pages } = &mut self;
        let rows = PAGES[usize::from(*pages > 0)].min(remaining.unwrap_or(u64::MAX));
        query.limit = Some(rows);
        page.clear(table.fields().len());
        let order = query.order_with_key(table);
        let (mut count, mut last) = (0, None);
        let mut sink = |row: &[ValueRef<'_>]| {
            page.push(row);
            count += 1;
            if count == rows {
                let values = order.iter().map(|key| row[key.field].to_value());
                last = Some(values.collect::<Vec<Value>>());
            }
            ControlFlow::Continue(())
        };
        target.with(|store| {
            store.run(&mut Operation::List { table, query }, &mut sink)?;
            Ok(())
        })?;
        page.seal();
        *remaining = remaining.map(|remaining| remaining - count);
        let is_end = last.is_none() || *remaining == Some(0);
        query.after = last;
        *pages += 1;
        Ok((!is_end).then_some(self))
    }
}
