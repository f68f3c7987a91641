//! The calls of SQLite's C interface that this crate makes, under the names
//! that `build.rs` gives them, and the constants they take. Nothing here is
//! safe to call but through the types of the module above.

use std::ffi::{c_char, c_int, c_uchar, c_void};

pub(super) const OPEN_READWRITE: c_int = 0x2;
pub(super) const OPEN_CREATE: c_int = 0x4;
pub(super) const OPEN_NOMUTEX: c_int = 0x8000;
pub(super) const OPEN_EXRESCODE: c_int = 0x0200_0000;
pub(super) const PREPARE_PERSISTENT: u32 = 1;
pub(super) const DBCONFIG_ENABLE_QPSG: c_int = 1007;
pub(super) const UTF8: c_uchar = 1;
/// The destructor of memory that SQLite shall neither copy nor free.
pub(super) const STATIC: *const c_void = std::ptr::null();

#[repr(C)]
pub(super) struct Db {
    private: [u8; 0],
}

#[repr(C)]
pub(super) struct Stmt {
    private: [u8; 0],
}

unsafe extern "C" {
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
    pub(super) fn marmota_sqlite3_step(statement: *mut Stmt) -> c_int;
    pub(super) fn marmota_sqlite3_reset(statement: *mut Stmt) -> c_int;
    pub(super) fn marmota_sqlite3_clear_bindings(statement: *mut Stmt) -> c_int;
    pub(super) fn marmota_sqlite3_bind_null(statement: *mut Stmt, parameter: c_int) -> c_int;
    pub(super) fn marmota_sqlite3_bind_int64(
        statement: *mut Stmt,
        parameter: c_int,
        value: i64,
    ) -> c_int;
    pub(super) fn marmota_sqlite3_bind_double(
        statement: *mut Stmt,
        parameter: c_int,
        value: f64,
    ) -> c_int;
    pub(super) fn marmota_sqlite3_bind_text64(
        statement: *mut Stmt,
        parameter: c_int,
        text: *const c_char,
        bytes: u64,
        destructor: *const c_void,
        encoding: c_uchar,
    ) -> c_int;
    pub(super) fn marmota_sqlite3_bind_blob64(
        statement: *mut Stmt,
        parameter: c_int,
        blob: *const c_void,
        bytes: u64,
        destructor: *const c_void,
    ) -> c_int;
    pub(super) fn marmota_sqlite3_column_type(statement: *mut Stmt, column: c_int) -> c_int;
    pub(super) fn marmota_sqlite3_column_int64(statement: *mut Stmt, column: c_int) -> i64;
    pub(super) fn marmota_sqlite3_column_double(statement: *mut Stmt, column: c_int) -> f64;
    pub(super) fn marmota_sqlite3_column_blob(statement: *mut Stmt, column: c_int)
    -> *const c_void;
    pub(super) fn marmota_sqlite3_column_bytes(statement: *mut Stmt, column: c_int) -> c_int;
}
