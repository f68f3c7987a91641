//! The calls of SQLite's C interface that this crate makes, under the names that `build.rs` gives
//! them, and their constants. They are safe only through the types of the parent module.

use std::ffi::{c_char, c_int, c_uint, c_void};

pub(super) const OPEN_READWRITE: c_int = 0x2;
pub(super) const OPEN_CREATE: c_int = 0x4;
pub(super) const OPEN_NOMUTEX: c_int = 0x8000;
pub(super) const OPEN_EXRESCODE: c_int = 0x0200_0000;
pub(super) const PREPARE_PERSISTENT: u32 = 1;
pub(super) const DBCONFIG_NO_CKPT_ON_CLOSE: c_int = 1006;
pub(super) const DBCONFIG_ENABLE_QPSG: c_int = 1007;

#[repr(C)]
pub(super) struct Db {
    private: [u8; 0],
}

#[repr(C)]
pub(super) struct Stmt {
    private: [u8; 0],
}

#[repr(C)]
pub(super) struct Context {
    private: [u8; 0],
}

#[repr(C)]
pub(super) struct Argument {
    private: [u8; 0],
}

pub(super) type Function = unsafe extern "C" fn(*mut Context, c_int, *mut *mut Argument);

/// A value passed to or from SQLite; must match `marmota_Cell` in `rows.c`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Cell {
    pub(super) value: CellValue,
    pub(super) length: u32,
    pub(super) storage: u32,
}

/// The value of a [`Cell`]: the member that its `storage` denotes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union CellValue {
    pub(super) integer: i64,
    pub(super) real: f64,
    pub(super) bytes: *const u8,
}

pub(super) const INTEGER: u32 = 1;
pub(super) const FLOAT: u32 = 2;
pub(super) const TEXT: u32 = 3;
pub(super) const BLOB: u32 = 4;
pub(super) const NULL: u32 = 5;
/// A condition; `MARMOTA_JSON` in `rows.c`.
pub(super) const JSON: u32 = 6;

pub(super) const UTF8: c_int = 1;
pub(super) const DETERMINISTIC: c_int = 0x800;
pub(super) const DIRECTONLY: c_int = 0x8_0000;

// `rows.c`.
unsafe extern "C" {
    pub(super) fn marmota_row(statement: *mut Stmt, cells: *mut Cell, count: c_int);
    pub(super) fn marmota_written(statement: *mut Stmt) -> u32;
    pub(super) fn marmota_writes_root(statement: *mut Stmt, root: u32) -> c_int;
    pub(super) fn marmota_bind(
        statement: *mut Stmt,
        first: c_int,
        cells: *const Cell,
        count: c_int,
    ) -> c_int;
}

/// `sqlite3_vtab`.
#[repr(C)]
pub(super) struct Vtab {
    pub(super) module: *const Module,
    pub(super) references: c_int,
    pub(super) error: *mut c_char,
}

/// `sqlite3_vtab_cursor`.
#[repr(C)]
pub(super) struct VtabCursor {
    pub(super) vtab: *mut Vtab,
}

type Connect = unsafe extern "C" fn(
    *mut Db,
    *mut c_void,
    c_int,
    *const *const c_char,
    *mut *mut Vtab,
    *mut *mut c_char,
) -> c_int;
type Filter =
    unsafe extern "C" fn(*mut VtabCursor, c_int, *const c_char, c_int, *mut *mut Argument) -> c_int;

/// The first part of `sqlite3_module`.
#[repr(C)]
pub(super) struct Module {
    pub(super) version: c_int,
    pub(super) create: Option<Connect>,
    pub(super) connect: Option<Connect>,
    pub(super) best_index: Option<unsafe extern "C" fn(*mut Vtab, *mut IndexInfo) -> c_int>,
    pub(super) disconnect: Option<unsafe extern "C" fn(*mut Vtab) -> c_int>,
    pub(super) destroy: Option<unsafe extern "C" fn(*mut Vtab) -> c_int>,
    pub(super) open: Option<unsafe extern "C" fn(*mut Vtab, *mut *mut VtabCursor) -> c_int>,
    pub(super) close: Option<unsafe extern "C" fn(*mut VtabCursor) -> c_int>,
    pub(super) filter: Option<Filter>,
    pub(super) next: Option<unsafe extern "C" fn(*mut VtabCursor) -> c_int>,
    pub(super) eof: Option<unsafe extern "C" fn(*mut VtabCursor) -> c_int>,
    pub(super) column: Option<unsafe extern "C" fn(*mut VtabCursor, *mut Context, c_int) -> c_int>,
    pub(super) rowid: Option<unsafe extern "C" fn(*mut VtabCursor, *mut i64) -> c_int>,
    /// The functions for writes, transactions, functions, renaming, savepoints, shadow tables and
    /// integrity, all null.
    pub(super) rest: [*const c_void; 12],
}

// SAFETY: it consists of functions and null pointers; nothing is written.
unsafe impl Sync for Module {}

/// `sqlite3_index_info`.
#[repr(C)]
pub(super) struct IndexInfo {
    pub(super) constraint_count: c_int,
    pub(super) constraints: *const Constraint,
    pub(super) order_count: c_int,
    pub(super) orders: *const OrderBy,
    pub(super) usages: *mut Usage,
    pub(super) number: c_int,
    pub(super) text: *mut c_char,
    pub(super) frees_text: c_int,
    pub(super) is_sorted: c_int,
    pub(super) cost: f64,
    pub(super) rows: i64,
    pub(super) flags: c_int,
    pub(super) columns_used: u64,
}

#[repr(C)]
pub(super) struct Constraint {
    pub(super) column: c_int,
    pub(super) operator: u8,
    pub(super) usable: u8,
    pub(super) term: c_int,
}

#[repr(C)]
pub(super) struct OrderBy {
    pub(super) column: c_int,
    pub(super) descending: u8,
}

#[repr(C)]
pub(super) struct Usage {
    pub(super) argument: c_int,
    pub(super) omit: u8,
}

/// The function that frees a value.
pub(super) type Destructor = isize;
/// None: the value lives as long as it is read.
pub(super) const STATIC: Destructor = 0;
/// None: the value is copied within the call.
pub(super) const TRANSIENT: Destructor = -1;

// `sqlite3.h`, for virtual tables.
unsafe extern "C" {
    pub(super) fn marmota_sqlite3_create_module_v2(
        db: *mut Db,
        name: *const c_char,
        module: *const Module,
        data: *mut c_void,
        free: Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> c_int;
    pub(super) fn marmota_sqlite3_declare_vtab(db: *mut Db, sql: *const c_char) -> c_int;
    pub(super) fn marmota_sqlite3_vtab_collation(info: *mut IndexInfo, at: c_int) -> *const c_char;
    pub(super) fn marmota_sqlite3_value_int64(value: *mut Argument) -> i64;
    pub(super) fn marmota_sqlite3_value_double(value: *mut Argument) -> f64;
    pub(super) fn marmota_sqlite3_value_blob(value: *mut Argument) -> *const c_void;
    pub(super) fn marmota_sqlite3_result_int64(context: *mut Context, value: i64);
    pub(super) fn marmota_sqlite3_result_double(context: *mut Context, value: f64);
    pub(super) fn marmota_sqlite3_result_text(
        context: *mut Context,
        text: *const c_char,
        bytes: c_int,
        free: Destructor,
    );
    pub(super) fn marmota_sqlite3_result_blob(
        context: *mut Context,
        bytes: *const c_void,
        count: c_int,
        free: Destructor,
    );
}

// `durability.c`.
unsafe extern "C" {
    pub(super) fn marmota_synchronous(db: *mut Db, level: c_int);
    pub(super) fn marmota_sync_log(db: *mut Db) -> c_int;
    pub(super) fn marmota_syncs() -> u64;
    pub(super) fn marmota_sync_errno() -> c_int;
    pub(super) fn marmota_log_pages(db: *mut Db) -> c_uint;
    pub(super) fn marmota_log_salt(db: *mut Db) -> c_uint;
    pub(super) fn marmota_checkpoint(db: *mut Db) -> c_int;
}

// `pages.c`.
unsafe extern "C" {
    pub(super) fn marmota_replace_pages(
        db: *mut Db,
        numbers: *const u32,
        bytes: *const u8,
        count: c_int,
        page_bytes: c_int,
        database_pages: u32,
    ) -> c_int;
}

// `budget.c`.
unsafe extern "C" {
    pub(super) fn marmota_is_running(db: *mut Db) -> c_int;
    pub(super) fn marmota_hold(db: *mut Db) -> c_int;
    pub(super) fn marmota_spare(db: *mut Db);
    pub(super) fn marmota_restore(db: *mut Db);
}

/// `SQLITE_INSERT`.
pub(super) const INSERTED: c_int = 18;
/// `SQLITE_UPDATE`.
pub(super) const UPDATED: c_int = 23;

/// The function of `sqlite3_preupdate_hook`.
type PreupdateHook =
    unsafe extern "C" fn(*mut c_void, *mut Db, c_int, *const c_char, *const c_char, i64, i64);

// `changes.c`, and `sqlite3.h` for its hook.
unsafe extern "C" {
    pub(super) fn marmota_changed_row(
        db: *mut Db,
        after: c_int,
        columns: *const c_int,
        cells: *mut Cell,
        count: c_int,
    ) -> c_int;
    pub(super) fn marmota_changed_record(
        db: *mut Db,
        after: c_int,
        size: *mut u32,
        key: *mut i64,
        key_column: *mut c_int,
    ) -> *const u8;
    pub(super) fn marmota_sqlite3_preupdate_hook(
        db: *mut Db,
        hook: Option<PreupdateHook>,
        data: *mut c_void,
    ) -> *mut c_void;
}

// `sqlite3.h`.
unsafe extern "C" {
    pub(super) fn marmota_sqlite3_progress_handler(
        db: *mut Db,
        steps: c_int,
        handler: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
        data: *mut c_void,
    );
    pub(super) fn marmota_sqlite3_db_release_memory(db: *mut Db) -> c_int;
    pub(super) fn marmota_sqlite3_initialize() -> c_int;
    pub(super) fn marmota_sqlite3_libversion() -> *const c_char;
    pub(super) fn marmota_sqlite3_open_v2(
        path: *const c_char,
        db: *mut *mut Db,
        flags: c_int,
        vfs: *const c_char,
    ) -> c_int;
    pub(super) fn marmota_sqlite3_close_v2(db: *mut Db) -> c_int;
    pub(super) fn marmota_sqlite3_db_config(db: *mut Db, option: c_int, ...) -> c_int;
    pub(super) fn marmota_sqlite3_busy_timeout(db: *mut Db, timeout_ms: c_int) -> c_int;
    pub(super) fn marmota_sqlite3_extended_errcode(db: *mut Db) -> c_int;
    pub(super) fn marmota_sqlite3_errmsg(db: *mut Db) -> *const c_char;
    pub(super) fn marmota_sqlite3_changes64(db: *mut Db) -> i64;
    pub(super) fn marmota_sqlite3_last_insert_rowid(db: *mut Db) -> i64;
    pub(super) fn marmota_sqlite3_get_autocommit(db: *mut Db) -> c_int;
    pub(super) fn marmota_sqlite3_db_readonly(db: *mut Db, name: *const c_char) -> c_int;
    pub(super) fn marmota_sqlite3_table_column_metadata(
        db: *mut Db,
        schema: *const c_char,
        table: *const c_char,
        column: *const c_char,
        declared: *mut *const c_char,
        collation: *mut *const c_char,
        not_null: *mut c_int,
        primary_key: *mut c_int,
        autoincrement: *mut c_int,
    ) -> c_int;
    pub(super) fn marmota_sqlite3_prepare_v3(
        db: *mut Db,
        sql: *const c_char,
        bytes: c_int,
        flags: u32,
        statement: *mut *mut Stmt,
        tail: *mut *const c_char,
    ) -> c_int;
    pub(super) fn marmota_sqlite3_finalize(statement: *mut Stmt) -> c_int;
    pub(super) fn marmota_sqlite3_bind_parameter_count(statement: *mut Stmt) -> c_int;
    pub(super) fn marmota_sqlite3_stmt_readonly(statement: *mut Stmt) -> c_int;
    pub(super) fn marmota_sqlite3_error_offset(db: *mut Db) -> c_int;
    pub(super) fn marmota_sqlite3_column_count(statement: *mut Stmt) -> c_int;
    pub(super) fn marmota_sqlite3_column_name(statement: *mut Stmt, at: c_int) -> *const c_char;
    pub(super) fn marmota_sqlite3_column_database_name(
        statement: *mut Stmt,
        at: c_int,
    ) -> *const c_char;
    pub(super) fn marmota_sqlite3_column_table_name(
        statement: *mut Stmt,
        at: c_int,
    ) -> *const c_char;
    pub(super) fn marmota_sqlite3_column_origin_name(
        statement: *mut Stmt,
        at: c_int,
    ) -> *const c_char;
    pub(super) fn marmota_sqlite3_reset(statement: *mut Stmt) -> c_int;
    pub(super) fn marmota_sqlite3_step(statement: *mut Stmt) -> c_int;
    pub(super) fn marmota_sqlite3_create_function_v2(
        db: *mut Db,
        name: *const c_char,
        arguments: c_int,
        flags: c_int,
        data: *mut c_void,
        function: Option<Function>,
        step: Option<Function>,
        end: Option<unsafe extern "C" fn(*mut Context)>,
        drop: Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> c_int;
    pub(super) fn marmota_sqlite3_value_type(value: *mut Argument) -> c_int;
    pub(super) fn marmota_sqlite3_value_text(value: *mut Argument) -> *const u8;
    pub(super) fn marmota_sqlite3_value_bytes(value: *mut Argument) -> c_int;
    pub(super) fn marmota_sqlite3_value_pointer(
        value: *mut Argument,
        name: *const c_char,
    ) -> *mut c_void;
    pub(super) fn marmota_sqlite3_result_int(context: *mut Context, value: c_int);
    pub(super) fn marmota_sqlite3_result_error_code(context: *mut Context, code: c_int);
}

impl std::fmt::Debug for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cell").field("storage", &self.storage).finish_non_exhaustive()
    }
}
