//! Tables in memory as virtual tables of a connection: the calls that SQLite makes to find and read
//! their rows. `crate::virtual_table` implements the search; this file converts arguments and
//! values.
//!
//! The virtual tables of a connection are on its [`Stage`]: the tables it declares and, while a
//! statement runs, the tables lent to it. A cursor shares the lent table, so that it stays locked
//! until the cursor is closed; texts that are passed to SQLite without a copy are in that table,
//! and no statement steps after the end of its loan.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use marmota_model::ValueRef;
use marmota_store::borrowed_table::{BorrowedTable, BorrowedTables, RowNumbers};

use super::raw::{self, Db};
use super::watch::Watch;
use super::{Connection, Failure, code};
use crate::virtual_table::{Condition, Found, Plan, Relation, SortedBy, VirtualTableShape};

/// The tables of other databases that a connection sees.
pub(crate) struct Stage {
    shapes: RefCell<Vec<Arc<VirtualTableShape>>>,
    /// The tables planned for since [`Connection::begin_use`].
    used: RefCell<Vec<usize>>,
    lent: RefCell<Vec<Option<Arc<dyn BorrowedTable>>>>,
    /// Ends statements that take too long.
    watch: RefCell<Option<Arc<Watch>>>,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tables shown", self.shapes.borrow().len())
    }
}

/// The tables lent to the connection's statements; they stay lent until this is dropped, which is
/// after the run of the statement that needs them.
pub(crate) struct Loan(Arc<Stage>);

impl Loan {
    /// Takes the tables back, in the order of their numbers, from an interrupted statement.
    pub(crate) fn take_back(self) -> BorrowedTables {
        let mut lent = self.0.lent.borrow_mut();
        lent.iter_mut().filter_map(Option::take).collect()
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.0.lent.borrow_mut().iter_mut().for_each(|lent| *lent = None);
    }
}

impl Connection {
    /// Declares tables as those of a database with this name.
    pub(crate) fn show(
        &mut self,
        name: &str,
        shapes: Vec<VirtualTableShape>,
    ) -> Result<(), Failure> {
        let stage = match &self.stage {
            Some(stage) => Arc::clone(stage),
            None => self.set_stage()?,
        };
        self.execute(&format!("ATTACH ':memory:' AS {} KEY ''", marmota_sql::quoted(name)))?;
        for shape in shapes {
            let number = stage.shapes.borrow().len();
            let table = marmota_sql::quoted(shape.table.name());
            stage.shapes.borrow_mut().push(Arc::new(shape));
            stage.lent.borrow_mut().push(None);
            let name = marmota_sql::quoted(name);
            self.execute(&format!("CREATE VIRTUAL TABLE {name}.{table} USING lent({number})"))?;
        }
        Ok(())
    }

    fn set_stage(&mut self) -> Result<Arc<Stage>, Failure> {
        let stage = Stage {
            shapes: RefCell::default(),
            used: RefCell::default(),
            lent: RefCell::default(),
            watch: RefCell::new(self.watch.clone()),
        };
        #[allow(clippy::arc_with_non_send_sync, reason = "it never leaves its connection")]
        let stage = Arc::new(stage);
        // SAFETY: the connection is open, the module and its name are constants, and the connection
        // keeps the stage until it is closed.
        let made = unsafe {
            raw::marmota_sqlite3_create_module_v2(
                self.db.as_ptr(),
                c"lent".as_ptr(),
                &raw const MODULE,
                Arc::as_ptr(&stage).cast_mut().cast(),
                None,
            )
        };
        if made != code::OK {
            return Err(self.failure(made));
        }
        self.stage = Some(Arc::clone(&stage));
        Ok(stage)
    }

    /// Clears the list of used tables.
    pub(crate) fn begin_use(&self) {
        if let Some(stage) = &self.stage {
            stage.used.borrow_mut().clear();
        }
    }

    /// Returns the numbers of the tables that were planned for since then.
    pub(crate) fn used(&self) -> Vec<usize> {
        let Some(stage) = &self.stage else { return Vec::new() };
        let mut used = stage.used.borrow().clone();
        used.sort_unstable();
        used.dedup();
        used
    }

    /// Lends tables to the statements that run until the loan is dropped.
    pub(crate) fn lend(
        &self,
        tables: impl Iterator<Item = (usize, Arc<dyn BorrowedTable>)>,
    ) -> Option<Loan> {
        let stage = self.stage.as_ref()?;
        if stage.watch.borrow().is_none() {
            stage.watch.borrow_mut().clone_from(&self.watch);
        }
        for (number, table) in tables {
            if let Some(place) = stage.lent.borrow_mut().get_mut(number) {
                *place = Some(table);
            }
        }
        Some(Loan(Arc::clone(stage)))
    }
}

#[repr(C)]
struct Vtab {
    base: raw::Vtab,
    stage: *const Stage,
    number: usize,
    shape: Arc<VirtualTableShape>,
}

#[repr(C)]
struct Cursor {
    base: raw::VtabCursor,
    table: Option<Arc<dyn BorrowedTable>>,
    numbers: RowNumbers,
    row: Option<u32>,
}

static MODULE: raw::Module = raw::Module {
    version: 1,
    create: Some(connect),
    connect: Some(connect),
    best_index: Some(best_index),
    disconnect: Some(disconnect),
    destroy: Some(disconnect),
    open: Some(open),
    close: Some(close),
    filter: Some(filter),
    next: Some(next),
    eof: Some(eof),
    column: Some(column),
    rowid: Some(rowid),
    // The tables are read-only and take no part in transactions.
    rest: [ptr::null(); 12],
};

/// Creates the virtual table for `lent(number)`.
unsafe extern "C" fn connect(
    db: *mut Db,
    stage: *mut c_void,
    count: c_int,
    arguments: *const *const c_char,
    vtab: *mut *mut raw::Vtab,
    _: *mut *mut c_char,
) -> c_int {
    if count < 4 {
        return code::ERROR;
    }
    // SAFETY: there are `count` arguments, each a terminated string; the fourth is the first in the
    // brackets.
    let number = unsafe { CStr::from_ptr(*arguments.add(3)) };
    let Some(number) = number.to_str().ok().and_then(|text| text.trim().parse().ok()) else {
        return code::ERROR;
    };
    // SAFETY: the stage that the module was made with, which the connection keeps.
    let stage: &Stage = unsafe { &*stage.cast::<Stage>() };
    let Some(shape) = stage.shapes.borrow().get::<usize>(number).map(Arc::clone) else {
        return code::ERROR;
    };
    let Ok(declared) = CString::new(shape.declaration()) else { return code::ERROR };
    // SAFETY: the connection is open and the text terminated.
    let done = unsafe { raw::marmota_sqlite3_declare_vtab(db, declared.as_ptr()) };
    if done != code::OK {
        return done;
    }
    let base = raw::Vtab { module: ptr::null(), references: 0, error: ptr::null_mut() };
    let made = Box::new(Vtab { base, stage, number, shape });
    // SAFETY: SQLite provides the place for the pointer, and passes it to `disconnect`. The base is
    // the first member.
    unsafe { *vtab = Box::into_raw(made).cast() };
    code::OK
}

unsafe extern "C" fn disconnect(vtab: *mut raw::Vtab) -> c_int {
    // SAFETY: it was made by `connect`, and is not used any more.
    drop(unsafe { Box::from_raw(vtab.cast::<Vtab>()) });
    code::OK
}

unsafe extern "C" fn best_index(vtab: *mut raw::Vtab, info: *mut raw::IndexInfo) -> c_int {
    // SAFETY: it was made by `connect`; SQLite does not change it meanwhile.
    let vtab = unsafe { &*vtab.cast::<Vtab>() };
    // SAFETY: the stage is kept by the connection, which is open.
    let stage = unsafe { &*vtab.stage };
    stage.used.borrow_mut().push(vtab.number);
    // SAFETY: SQLite's, valid for the call; the members read and the members written are different.
    let asked = unsafe { &mut *info };
    let count = usize::try_from(asked.constraint_count).unwrap_or(0);
    let mut conditions = Vec::with_capacity(count);
    for place in 0..count {
        // SAFETY: there are `count` constraints.
        let constraint = unsafe { &*asked.constraints.add(place) };
        let relation = match constraint.operator {
            2 => Relation::Equal,
            4 => Relation::Greater,
            8 => Relation::LessOrEqual,
            16 => Relation::Less,
            32 => Relation::GreaterOrEqual,
            _ => continue,
        };
        let (Ok(field), true) = (usize::try_from(constraint.column), constraint.usable != 0) else {
            continue;
        };
        // SAFETY: called from within this function, for an existing constraint; the name is
        // terminated and constant.
        let collation =
            unsafe { CStr::from_ptr(raw::marmota_sqlite3_vtab_collation(info, place as c_int)) };
        if vtab.shape.compares_by(field, &collation.to_string_lossy()) {
            conditions.push(Condition { place, field, relation });
        }
    }
    let sorted_by: Vec<SortedBy> = (0..usize::try_from(asked.order_count).unwrap_or(0))
        .map(|place| {
            // SAFETY: there are `order_count` entries.
            let order = unsafe { &*asked.orders.add(place) };
            SortedBy {
                field: usize::try_from(order.column).ok(),
                descending: order.descending != 0,
            }
        })
        .collect();
    let plan = vtab.shape.plan(&conditions, &sorted_by);
    for (argument, place) in plan.arguments.iter().enumerate() {
        // SAFETY: there is one usage for each constraint. SQLite checks the passed conditions again
        // (`omit` stays 0).
        unsafe { (*asked.usages.add(*place)).argument = argument as c_int + 1 };
    }
    asked.number = plan.found.to_number();
    asked.is_sorted = c_int::from(plan.is_sorted && !sorted_by.is_empty());
    asked.cost = plan.cost;
    asked.rows = plan.rows;
    asked.flags = c_int::from(plan.found.is_one());
    code::OK
}

unsafe extern "C" fn open(_: *mut raw::Vtab, cursor: *mut *mut raw::VtabCursor) -> c_int {
    let base = raw::VtabCursor { vtab: ptr::null_mut() };
    let made = Box::new(Cursor { base, table: None, numbers: RowNumbers::none(), row: None });
    // SAFETY: as for `connect`; SQLite passes it to `close`.
    unsafe { *cursor = Box::into_raw(made).cast() };
    code::OK
}

unsafe extern "C" fn close(cursor: *mut raw::VtabCursor) -> c_int {
    // SAFETY: it was made by `open`, and is not used any more.
    drop(unsafe { Box::from_raw(cursor.cast::<Cursor>()) });
    code::OK
}

unsafe extern "C" fn filter(
    cursor: *mut raw::VtabCursor,
    number: c_int,
    _: *const c_char,
    count: c_int,
    values: *mut *mut raw::Argument,
) -> c_int {
    // SAFETY: it was made by `open`, and its table by `connect`.
    let (cursor, vtab) = unsafe {
        let cursor = &mut *cursor.cast::<Cursor>();
        let vtab = &*cursor.base.vtab.cast::<Vtab>();
        (cursor, vtab)
    };
    // SAFETY: the stage is kept by the connection, which is open.
    let stage = unsafe { &*vtab.stage };
    let lent = stage.lent.borrow().get(vtab.number).cloned().flatten();
    // A statement without a loan.
    let Some(table) = lent else { return code::MISUSE };
    let mut stored = [ValueRef::Null; Plan::ARGUMENTS_MAX];
    let count = usize::try_from(count).unwrap_or(0).min(stored.len());
    for (at, value) in stored.iter_mut().enumerate().take(count) {
        // SAFETY: there are `count` values, which live for the call.
        *value = unsafe { stored_value(*values.add(at)) };
    }
    let found = Found::from_number(number);
    let watch = stage.watch.borrow();
    let stop = || watch.as_ref().is_some_and(|watch| watch.is_due());
    let Some(numbers) = vtab.shape.find(&*table, &found, &stored[..count], &stop) else {
        return code::INTERRUPT;
    };
    cursor.numbers = numbers;
    cursor.row = cursor.numbers.next(&*table);
    cursor.table = Some(table);
    code::OK
}

/// # Safety
/// The value is SQLite's and lives for `'v`.
unsafe fn stored_value<'v>(value: *mut raw::Argument) -> ValueRef<'v> {
    // SAFETY: by contract. The length is requested after the bytes, as SQLite requires; a pointer
    // to zero bytes may be null.
    unsafe {
        let bytes = |start: *const u8| {
            let length = usize::try_from(raw::marmota_sqlite3_value_bytes(value)).unwrap_or(0);
            if start.is_null() || length == 0 {
                return &[][..];
            }
            std::slice::from_raw_parts(start, length)
        };
        match raw::marmota_sqlite3_value_type(value) as u32 {
            raw::INTEGER => ValueRef::Int(raw::marmota_sqlite3_value_int64(value)),
            raw::FLOAT => ValueRef::Float(raw::marmota_sqlite3_value_double(value)),
            raw::TEXT => match super::utf8(bytes(raw::marmota_sqlite3_value_text(value))) {
                Some(text) => ValueRef::Text(text),
                // No text of a table equals this; SQLite compares it.
                None => ValueRef::Absent,
            },
            raw::BLOB => ValueRef::Blob(bytes(raw::marmota_sqlite3_value_blob(value).cast())),
            _ => ValueRef::Null,
        }
    }
}

unsafe extern "C" fn next(cursor: *mut raw::VtabCursor) -> c_int {
    // SAFETY: it was made by `open`.
    let cursor = unsafe { &mut *cursor.cast::<Cursor>() };
    let Some(table) = &cursor.table else { return code::MISUSE };
    cursor.row = cursor.numbers.next(&**table);
    code::OK
}

unsafe extern "C" fn eof(cursor: *mut raw::VtabCursor) -> c_int {
    // SAFETY: it was made by `open`.
    c_int::from(unsafe { &*cursor.cast::<Cursor>() }.row.is_none())
}

unsafe extern "C" fn column(
    cursor: *mut raw::VtabCursor,
    context: *mut raw::Context,
    field: c_int,
) -> c_int {
    // SAFETY: it was made by `open`.
    let cursor = unsafe { &*cursor.cast::<Cursor>() };
    let (Some(table), Some(row), Ok(field)) = (&cursor.table, cursor.row, usize::try_from(field))
    else {
        return code::MISUSE;
    };
    let integer = |value: i64| {
        // SAFETY: the context is SQLite's, for the time of the call.
        unsafe { raw::marmota_sqlite3_result_int64(context, value) };
    };
    match table.value(row, field) {
        ValueRef::Int(value) => integer(value),
        ValueRef::Text(text) | ValueRef::Json(text) => {
            let length = c_int::try_from(text.len()).unwrap_or(c_int::MAX);
            // SAFETY: as above. The text is in the table, which is locked until the statement is
            // reset: it is read there, not copied.
            unsafe {
                raw::marmota_sqlite3_result_text(
                    context,
                    text.as_ptr().cast(),
                    length,
                    raw::STATIC,
                );
            }
        }
        ValueRef::Currency(value) => integer(value.scaled()),
        ValueRef::Timestamp(value) => integer(value.micros()),
        ValueRef::Date(value) => integer(i64::from(value.days())),
        ValueRef::Time(value) => integer(value.micros()),
        ValueRef::Bool(value) => integer(i64::from(value)),
        // SAFETY: as above.
        ValueRef::Float(value) => unsafe { raw::marmota_sqlite3_result_double(context, value) },
        ValueRef::Blob(bytes) => {
            let length = c_int::try_from(bytes.len()).unwrap_or(c_int::MAX);
            // SAFETY: as for a text. (A null pointer would mean NULL; that of a slice is never
            // null.)
            unsafe {
                raw::marmota_sqlite3_result_blob(
                    context,
                    bytes.as_ptr().cast(),
                    length,
                    raw::STATIC,
                );
            }
        }
        ValueRef::Uuid(uuid) => {
            let bytes = uuid.as_bytes();
            // SAFETY: as above; these are copied, since they are on the stack.
            unsafe {
                raw::marmota_sqlite3_result_blob(
                    context,
                    bytes.as_ptr().cast(),
                    bytes.len() as c_int,
                    raw::TRANSIENT,
                );
            }
        }
        // The result defaults to NULL.
        ValueRef::Null | ValueRef::Absent => {}
    }
    code::OK
}

unsafe extern "C" fn rowid(cursor: *mut raw::VtabCursor, rowid: *mut i64) -> c_int {
    // SAFETY: it was made by `open`; SQLite provides the place for the number.
    unsafe { *rowid = (*cursor.cast::<Cursor>()).row.map_or(0, i64::from) };
    code::OK
}
