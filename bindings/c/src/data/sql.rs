//! Raw SQL.

use std::mem::MaybeUninit;

use marmota::model::{Value, ValueRef};
use marmota::{Error, ErrorKind};

use crate::data::cursor::{Cursor, c_name};
use crate::foreign::{MarmotaRow, MarmotaText, entry, required};
use crate::handles::{MarmotaHandle, Target};
use crate::status::Failure;
use crate::value::LentRows;

/// The maximum size of the rows of a statement.
const ROWS_BYTES_MAX: usize = 256 << 20;

/// Opens a cursor over the rows of a SQL statement that only reads. `values` has the `count` values of
/// its parameters, in order. All rows are read at once, 256 MB at most. A result without rows has no
/// columns.
///
/// Ownership: free the cursor with `marmota_cursor_free`.
/// Threads: any thread; for a transaction its thread. The cursor belongs to the calling thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_sql_query(
    store: MarmotaHandle,
    sql: MarmotaText,
    values: MarmotaRow,
    count: usize,
    cursor: Option<&mut MaybeUninit<MarmotaHandle>>,
) -> i32 {
    entry(|| {
        let cursor = required(cursor, "cursor")?;
        let (sql, values) = (sql.get("sql")?, parameters(&values, count)?);
        let opened = Target::find(store)?.with(|store| {
            let (mut page, mut columns) = (LentRows::default(), Vec::new());
            let mut query = store.sql(sql);
            for value in values {
                query = query.bind(value);
            }
            let lend = |row: &marmota::store::sql::SqlRow<'_>| {
                if columns.is_empty() {
                    page.clear(row.values().len());
                    columns.extend(row.columns().list().iter().map(|one| c_name(&one.name)));
                }
                page.push(row.values());
                if page.size() > ROWS_BYTES_MAX {
                    let message = "the rows of the statement have more than 256 MB: read fewer";
                    return Err(Error::new(ErrorKind::Invalid, message));
                }
                Ok(())
            };
            query.map(lend).run()?;
            Ok(Cursor::of_rows(columns, page))
        })?;
        cursor.write(opened.add()?);
        Ok(())
    })
}

/// Executes a SQL statement that changes rows. `rows` receives their number, and may be null.
///
/// Threads: any thread; for a transaction its thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_sql_execute(
    store: MarmotaHandle,
    sql: MarmotaText,
    values: MarmotaRow,
    count: usize,
    rows: Option<&mut MaybeUninit<u64>>,
) -> i32 {
    entry(|| {
        let (sql, values) = (sql.get("sql")?, parameters(&values, count)?);
        let changed = Target::find(store)?.with(|store| {
            let mut statement = store.execute(sql);
            for value in values {
                statement = statement.bind(value);
            }
            Ok(statement.run()?)
        })?;
        if let Some(rows) = rows {
            rows.write(changed);
        }
        Ok(())
    })
}

fn parameters(values: &MarmotaRow, count: usize) -> Result<Vec<Value>, Failure> {
    Ok(values.get(count, "values")?.iter().map(ValueRef::to_value).collect())
}
