//! The functions of SQLite's C interface that the baseline uses, and an error with the failed call.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use bench_orm_workload::Result;

pub(crate) const OK: c_int = 0;
pub(crate) const ROW: c_int = 100;
pub(crate) const DONE: c_int = 101;
const OPEN_READWRITE: c_int = 0x2;
const OPEN_CREATE: c_int = 0x4;
const OPEN_NOMUTEX: c_int = 0x8000;
const PREPARE_PERSISTENT: u32 = 1;

#[repr(C)]
pub(crate) struct Db {
    _private: [u8; 0],
}

#[repr(C)]
pub(crate) struct Stmt {
    _private: [u8; 0],
}

unsafe extern "C" {
    pub(crate) fn sqlite3_initialize() -> c_int;
    fn sqlite3_open_v2(
        path: *const c_char,
        db: *mut *mut Db,
        flags: c_int,
        vfs: *const c_char,
    ) -> c_int;
    pub(crate) fn sqlite3_close(db: *mut Db) -> c_int;
    fn sqlite3_errmsg(db: *mut Db) -> *const c_char;
    fn sqlite3_prepare_v3(
        db: *mut Db,
        sql: *const c_char,
        bytes: c_int,
        flags: u32,
        stmt: *mut *mut Stmt,
        tail: *mut *const c_char,
    ) -> c_int;
    pub(crate) fn sqlite3_finalize(stmt: *mut Stmt) -> c_int;
    pub(crate) fn sqlite3_step(stmt: *mut Stmt) -> c_int;
    pub(crate) fn sqlite3_reset(stmt: *mut Stmt) -> c_int;
    pub(crate) fn sqlite3_bind_int64(stmt: *mut Stmt, index: c_int, value: i64) -> c_int;
    pub(crate) fn sqlite3_bind_text(
        stmt: *mut Stmt,
        index: c_int,
        text: *const c_char,
        bytes: c_int,
        destructor: *const c_void,
    ) -> c_int;
    pub(crate) fn sqlite3_column_int64(stmt: *mut Stmt, column: c_int) -> i64;
    pub(crate) fn sqlite3_column_blob(stmt: *mut Stmt, column: c_int) -> *const u8;
    pub(crate) fn sqlite3_column_bytes(stmt: *mut Stmt, column: c_int) -> c_int;
    pub(crate) fn sqlite3_last_insert_rowid(db: *mut Db) -> i64;
    fn sqlite3_libversion() -> *const c_char;
}

/// Returns the version of the linked SQLite.
pub(crate) fn version() -> String {
    // SAFETY: the function returns a pointer to a constant, terminated string.
    unsafe { CStr::from_ptr(sqlite3_libversion()) }.to_string_lossy().into_owned()
}

/// Opens a connection for use by one thread at a time.
///
/// # Safety
/// The caller closes it after its last statement was finalized.
pub(crate) unsafe fn open(path: &str) -> Result<*mut Db> {
    let path = CString::new(path)?;
    let mut db = ptr::null_mut();
    // SAFETY: `path` is terminated and outlives the calls; `db` is written before it is read.
    unsafe {
        if sqlite3_initialize() != OK {
            return Err("SQLite could not be initialized".into());
        }
        let code = sqlite3_open_v2(
            path.as_ptr(),
            &mut db,
            OPEN_READWRITE | OPEN_CREATE | OPEN_NOMUTEX,
            ptr::null(),
        );
        if code == OK { Ok(db) } else { Err(failed(db, code)) }
    }
}

/// Prepares a statement.
///
/// # Safety
/// `db` is open, and the caller finalizes the statement before closing it.
pub(crate) unsafe fn prepare(db: *mut Db, sql: &str) -> Result<*mut Stmt> {
    let mut stmt = ptr::null_mut();
    // SAFETY: the length is passed, so that `sql` needs no terminator; `db` is open by contract.
    unsafe {
        let code = sqlite3_prepare_v3(
            db,
            sql.as_ptr().cast(),
            c_int::try_from(sql.len())?,
            PREPARE_PERSISTENT,
            &mut stmt,
            ptr::null_mut(),
        );
        if code == OK { Ok(stmt) } else { Err(failed(db, code)) }
    }
}

/// Runs a statement once and ignores its rows.
///
/// # Safety
/// `db` is open.
pub(crate) unsafe fn execute(db: *mut Db, sql: &str) -> Result<()> {
    // SAFETY: the statement is finalized before this returns; `db` is open by contract.
    unsafe {
        let stmt = prepare(db, sql)?;
        while sqlite3_step(stmt) == ROW {}
        match sqlite3_finalize(stmt) {
            OK => Ok(()),
            code => Err(failed(db, code)),
        }
    }
}

/// Returns the message of the last failure of a connection.
///
/// # Safety
/// `db` is a connection, or null after a failed open.
#[cold]
pub(crate) unsafe fn failed(db: *mut Db, code: c_int) -> Box<dyn std::error::Error + Send + Sync> {
    // SAFETY: the message is a terminated string that lives until the next call on `db`.
    let text = unsafe { CStr::from_ptr(sqlite3_errmsg(db)) }.to_string_lossy();
    format!("SQLite {}: code {code}: {text}", version()).into()
}
