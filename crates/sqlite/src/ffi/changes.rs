//! The hook that SQLite calls before it changes a row
//! (<https://sqlite.org/c3ref/preupdate_blobwrite.html>).
//!
//! It is called for all statements of a connection, for each row of tables with row ids: also for
//! rows that an `OR REPLACE`, a trigger or a foreign key changes.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use parking_lot::Mutex;

use super::raw::{self, Cell};
use super::record::Record;
use super::value::StoredCell;
use super::{Connection, Failure, code};

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowChange {
    Insert,
    Update,
    Delete,
}

/// Receives the changes of a connection.
pub(crate) trait ChangeListener: Send {
    /// A row of this table of the main database is about to be changed.
    fn changing(&mut self, table: &[u8], change: RowChange, row: &ChangingRow<'_>);
}

/// A listener, as the connection and the hook share it.
pub(crate) struct ChangeHook<L> {
    listener: Mutex<L>,
}

impl<L> fmt::Debug for ChangeHook<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChangeHook")
    }
}

impl<L> ChangeHook<L> {
    pub(crate) const fn new(listener: L) -> Self {
        Self { listener: Mutex::new(listener) }
    }

    /// Calls `work` with the listener. No statement of the connection may be stepped in it.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut L) -> T) -> T {
        work(&mut self.listener.lock())
    }
}

/// The row that is being changed.
pub(crate) struct ChangingRow<'h> {
    db: NonNull<raw::Db>,
    hook: PhantomData<&'h ()>,
}

/// The values of some columns of a row.
pub(crate) struct ChangedCells(Vec<Cell>);

// SAFETY: the cells point to values of SQLite only between `read` and the return of the hook, on
// the thread that steps the statement; afterwards they are never read.
unsafe impl Send for ChangedCells {}

impl ChangedCells {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }
}

impl ChangingRow<'_> {
    /// Returns the record of the row before the change, or after an insert. `None` if SQLite does
    /// not have it in one place: then [`Self::read`] has the values.
    pub(crate) fn record(&self, after: bool) -> Option<Record<'_>> {
        let (mut size, mut key, mut key_column) = (0, 0, -1);
        // SAFETY: SQLite is calling the hook of this connection, since a `ChangingRow` exists only
        // then. The bytes of the record do not change until the hook returns, which is after the
        // lifetime of the slice.
        let bytes = unsafe {
            let record = raw::marmota_changed_record(
                self.db.as_ptr(),
                c_int::from(after),
                &raw mut size,
                &raw mut key,
                &raw mut key_column,
            );
            if record.is_null() {
                return None;
            }
            std::slice::from_raw_parts(record, size as usize)
        };
        Record::new(bytes, usize::try_from(key_column).ok().map(|column| (column, key)))
    }

    /// Reads these columns before the change, or after it. Returns `None` if SQLite has no memory.
    pub(crate) fn read<'c>(
        &'c self,
        after: bool,
        columns: &[c_int],
        cells: &'c mut ChangedCells,
    ) -> Option<impl Iterator<Item = StoredCell<'c>>> {
        let count = c_int::try_from(columns.len()).ok()?;
        cells.0.clear();
        cells.0.resize(columns.len(), Cell::NULL);
        // SAFETY: SQLite is calling the hook of this connection, since a `ChangingRow` exists only
        // then. As many cells are written as there are columns. Their bytes belong to values that
        // live until the hook returns, which is after `'c`.
        let code = unsafe {
            raw::marmota_changed_row(
                self.db.as_ptr(),
                c_int::from(after),
                columns.as_ptr(),
                cells.0.as_mut_ptr(),
                count,
            )
        };
        (code == code::OK).then(|| cells.0.iter().map(StoredCell::of))
    }
}

impl Connection {
    /// Calls a listener before each change of a row, until the connection is closed; called once.
    ///
    /// # Errors
    /// If there is a listener already.
    pub(crate) fn listen<L: ChangeListener + 'static>(
        &mut self,
        hook: &std::sync::Arc<ChangeHook<L>>,
    ) -> Result<(), Failure> {
        if self.change_hook.is_some() {
            return Err(Failure::new(code::MISUSE, "changes are recorded already"));
        }
        let data = std::sync::Arc::as_ptr(hook).cast_mut().cast();
        let kept: std::sync::Arc<dyn fmt::Debug + Send + Sync> =
            std::sync::Arc::<ChangeHook<L>>::clone(hook);
        self.change_hook = Some(kept);
        // SAFETY: the connection is open, and keeps the hook until it is closed.
        unsafe {
            raw::marmota_sqlite3_preupdate_hook(self.db.as_ptr(), Some(changing::<L>), data);
        }
        Ok(())
    }
}

/// The C callback.
unsafe extern "C" fn changing<L: ChangeListener>(
    hook: *mut c_void,
    db: *mut raw::Db,
    kind: c_int,
    database: *const c_char,
    table: *const c_char,
    _: i64,
    _: i64,
) {
    let Some(db) = NonNull::new(db) else { return };
    // SAFETY: SQLite passes terminated names, which live until the callback returns.
    let (database, table) = unsafe { (CStr::from_ptr(database), CStr::from_ptr(table)) };
    if database != c"main" {
        return;
    }
    let change = match kind {
        raw::INSERTED => RowChange::Insert,
        raw::UPDATED => RowChange::Update,
        _ => RowChange::Delete,
    };
    // SAFETY: the pointer is that of the connection's hook, which lives as long as the connection.
    let hook = unsafe { &*hook.cast::<ChangeHook<L>>() };
    let row = ChangingRow { db, hook: PhantomData };
    hook.listener.lock().changing(table.to_bytes(), change, &row);
}
