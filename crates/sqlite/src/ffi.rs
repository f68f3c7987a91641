//! SQLite's C interface in safe types: the only module of this crate with
//! `unsafe` code.
//!
//! A [`Connection`] owns its statements and is used by one thread at a time. A [`Run`] borrows it
//! for one execution of a statement, so that no two statements step at once. Texts and bytes are
//! bound in place: their lifetime is a parameter of the `Run`. The values of a row are read in
//! place: they are borrowed from the `Run` until the next step. When a `Run` is dropped, for any
//! reason, the statement is reset, so that it does not hold a snapshot open. It may still point to
//! the bound values then; therefore a `Run` does not step before it has bound every parameter
//! again.

mod backup;
pub(crate) mod changes;
#[cfg(feature = "encryption")]
pub(crate) mod cipher;
mod describe;
#[cfg(feature = "simulated-disk")]
pub(crate) mod disk;
mod json;
mod pages;
mod raw;
mod record;
mod value;
pub(crate) mod virtual_table;
mod watch;

use std::ffi::{CStr, CString, c_char, c_int};
use std::marker::PhantomData;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

pub(crate) use describe::{Described, Unfit, has_nul, is_misunderstood};
use marmota_store::Durability;
use raw::Cell;
pub(crate) use value::{Bound, Cells, Row, Stored, StoredCell, utf8};

/// An extended result code of SQLite, with its message.
#[derive(Debug)]
pub(crate) struct Failure(Box<(c_int, String)>);

impl Failure {
    #[cold]
    pub(crate) fn new(code: c_int, message: impl Into<String>) -> Self {
        Self(Box::new((code, message.into())))
    }

    pub(crate) fn code(&self) -> c_int {
        self.0.0
    }

    pub(crate) fn message(&self) -> &str {
        &self.0.1
    }
}

/// The extended codes that this crate distinguishes.
pub(crate) mod code {
    #![allow(missing_docs, reason = "the names are SQLite's")]
    use std::ffi::c_int;

    pub(crate) const OK: c_int = 0;
    pub(crate) const ERROR: c_int = 1;
    pub(crate) const INTERNAL: c_int = 2;
    pub(crate) const BUSY: c_int = 5;
    pub(crate) const LOCKED: c_int = 6;
    pub(crate) const NOMEM: c_int = 7;
    pub(crate) const READONLY: c_int = 8;
    pub(crate) const INTERRUPT: c_int = 9;
    pub(crate) const IOERR: c_int = 10;
    pub(crate) const CORRUPT: c_int = 11;
    pub(crate) const FULL: c_int = 13;
    pub(crate) const CANTOPEN: c_int = 14;
    pub(crate) const PROTOCOL: c_int = 15;
    pub(crate) const TOOBIG: c_int = 18;
    pub(crate) const CONSTRAINT: c_int = 19;
    pub(crate) const MISUSE: c_int = 21;
    pub(crate) const NOTADB: c_int = 26;
    pub(crate) const ROW: c_int = 100;
    pub(crate) const DONE: c_int = 101;

    pub(crate) const IOERR_READ: c_int = IOERR | 1 << 8;
    pub(crate) const IOERR_SHORT_READ: c_int = IOERR | 2 << 8;
    pub(crate) const IOERR_WRITE: c_int = IOERR | 3 << 8;
    pub(crate) const CONSTRAINT_FOREIGNKEY: c_int = CONSTRAINT | 3 << 8;
    pub(crate) const CONSTRAINT_NOTNULL: c_int = CONSTRAINT | 5 << 8;
    pub(crate) const CONSTRAINT_PRIMARYKEY: c_int = CONSTRAINT | 6 << 8;
    pub(crate) const CONSTRAINT_TRIGGER: c_int = CONSTRAINT | 7 << 8;
    pub(crate) const CONSTRAINT_UNIQUE: c_int = CONSTRAINT | 8 << 8;
    pub(crate) const CONSTRAINT_ROWID: c_int = CONSTRAINT | 10 << 8;
    pub(crate) const CONSTRAINT_DATATYPE: c_int = CONSTRAINT | 12 << 8;
}

/// Returns the compiled-in version.
pub(crate) fn version() -> &'static str {
    // SAFETY: the function returns a pointer to a constant, terminated string.
    unsafe { CStr::from_ptr(raw::marmota_sqlite3_libversion()) }.to_str().unwrap_or_default()
}

/// The number of system calls of this thread, in this library, that waited for the disk, and the
/// number of those that failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Syncs(u64);

impl Syncs {
    /// Returns the counters until now.
    #[inline]
    pub(crate) fn of_thread() -> Self {
        // SAFETY: reads a thread-local number.
        Self(unsafe { raw::marmota_syncs() })
    }

    /// Returns the counters since an earlier time.
    #[inline]
    pub(crate) fn since(earlier: Self) -> Self {
        Self(Self::of_thread().0.wrapping_sub(earlier.0))
    }

    /// Returns the number of syncs.
    pub(crate) const fn count(self) -> u64 {
        self.0 & (u64::MAX >> 16)
    }

    /// Returns true if any sync failed.
    pub(crate) const fn failed(self) -> bool {
        self.0 >> 48 != 0
    }
}

/// Returns the system's error of this thread's last failed sync.
#[cold]
pub(crate) fn thread_sync_errno() -> c_int {
    // SAFETY: reads a thread-local number.
    unsafe { raw::marmota_sync_errno() }
}

/// Initializes SQLite once per process (it is built without automatic initialization).
fn initialize() -> Result<(), Failure> {
    static CODE: OnceLock<c_int> = OnceLock::new();
    // SAFETY: has no arguments, and may be called from any thread.
    match *CODE.get_or_init(|| unsafe { raw::marmota_sqlite3_initialize() }) {
        code::OK => Ok(()),
        code => Err(Failure::new(code, "SQLite cannot be initialized")),
    }
}

/// An open database and the statements prepared on it.
#[derive(Debug)]
pub(crate) struct Connection {
    db: NonNull<raw::Db>,
    statements: Vec<Prepared>,
    free: Vec<u32>,
    /// Values of the current [`Run`] that are not bound yet.
    cells: Box<[Cell; CELLS]>,
    /// The tables of other databases that it sees. Kept until the connection is closed, since
    /// SQLite has a pointer to it.
    stage: Option<Arc<virtual_table::Stage>>,
    /// The state of its progress handler. Kept until the connection is closed.
    watch: Option<Arc<watch::Watch>>,
    /// The hook that SQLite calls before it changes a row, if one is set.
    change_hook: Option<Arc<dyn std::fmt::Debug + Send + Sync>>,
}

/// An entry of [`Connection::statements`].
#[derive(Debug)]
struct Prepared {
    /// Null if the entry is free.
    statement: *mut raw::Stmt,
    /// The number of its parameters.
    parameters: c_int,
}

/// The most columns of a row that [`Connection::query`] returns.
pub(crate) const QUERY_COLUMNS: usize = 8;

/// Identifies a statement of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatementId(u32);

// SAFETY: a connection opened with SQLITE_OPEN_NOMUTEX in a library built with SQLITE_THREADSAFE=2
// may be used by any thread, by one at a time. It is neither `Sync` nor `Clone`, and everything
// that reaches its pointers borrows it, so that one thread at a time has them. The same holds for
// its stage, except for the loans of a statement, which end on the thread that runs it.
unsafe impl Send for Connection {}

impl Connection {
    /// Opens the file at `path`; creates it if it is missing.
    pub(crate) fn open_file(path: &Path) -> Result<Self, Failure> {
        let name = file_name(path)
            .ok_or_else(|| Failure::new(code::CANTOPEN, "the path is not valid for a file"))?;
        Self::open(&name)
    }

    /// Opens a new database in memory.
    pub(crate) fn open_memory() -> Result<Self, Failure> {
        Self::open(c":memory:")
    }

    fn open(name: &CStr) -> Result<Self, Failure> {
        initialize()?;
        let mut db = ptr::null_mut();
        let flags =
            raw::OPEN_READWRITE | raw::OPEN_CREATE | raw::OPEN_NOMUTEX | raw::OPEN_EXRESCODE;
        // SAFETY: `name` is terminated and outlives the call, `db` is written by it.
        let code =
            unsafe { raw::marmota_sqlite3_open_v2(name.as_ptr(), &raw mut db, flags, ptr::null()) };
        let Some(db) = NonNull::new(db) else {
            return Err(Failure::new(code::NOMEM, "out of memory for a connection"));
        };
        // From here on, dropping it closes the connection, also after a failure.
        let mut connection = Self {
            db,
            statements: Vec::new(),
            free: Vec::new(),
            cells: Box::new([Cell::NULL; CELLS]),
            stage: None,
            watch: None,
            change_hook: None,
        };
        if code != code::OK {
            return Err(connection.failure(code));
        }
        let on: c_int = 1;
        // SAFETY: the connection is open, and this option takes an int and a pointer to an int,
        // which may be null. Without the option, a statement with a text pattern bound to LIKE
        // would be recompiled each time.
        unsafe {
            raw::marmota_sqlite3_db_config(
                db.as_ptr(),
                raw::DBCONFIG_ENABLE_QPSG,
                on,
                ptr::null_mut::<c_int>(),
            )
        };
        connection.add_json_function()?;
        Ok(connection)
    }

    /// Sets the timeout for a file that another process writes.
    pub(crate) fn busy_timeout_ms(&mut self, timeout_ms: u32) {
        let timeout = c_int::try_from(timeout_ms).unwrap_or(c_int::MAX);
        // SAFETY: the connection is open.
        unsafe { raw::marmota_sqlite3_busy_timeout(self.db.as_ptr(), timeout) };
    }

    /// Prepares a statement for frequent use.
    pub(crate) fn prepare(&mut self, sql: &str) -> Result<StatementId, Failure> {
        let (statement, _) = self.compile(sql, raw::PREPARE_PERSISTENT)?;
        if statement.is_null() {
            return Err(Failure::new(code::MISUSE, "the text does not contain a statement"));
        }
        Ok(self.keep(Prepared::new(statement)))
    }

    fn keep(&mut self, prepared: Prepared) -> StatementId {
        StatementId(match self.free.pop() {
            Some(place) => {
                self.statements[place as usize] = prepared;
                place
            }
            None => {
                self.statements.push(prepared);
                (self.statements.len() - 1) as u32
            }
        })
    }

    /// Frees a statement. Its id may name another one afterwards.
    pub(crate) fn finalize(&mut self, id: StatementId) {
        let Some(prepared) = self.statements.get_mut(id.0 as usize) else { return };
        if !prepared.statement.is_null() {
            // SAFETY: the statement belongs to this connection and is not finalized; the pointer is
            // cleared here.
            unsafe { raw::marmota_sqlite3_finalize(prepared.statement) };
            prepared.statement = ptr::null_mut();
            self.free.push(id.0);
        }
    }

    /// Compiles the first statement of `sql`. Also returns the number of bytes it took. The
    /// statement is null if the text has only white space.
    fn compile(&mut self, sql: &str, flags: u32) -> Result<(*mut raw::Stmt, usize), Failure> {
        let bytes = c_int::try_from(sql.len())
            .map_err(|_| Failure::new(code::TOOBIG, "the statement is too long"))?;
        let mut statement = ptr::null_mut();
        let mut tail: *const c_char = ptr::null();
        let start: *const c_char = sql.as_ptr().cast();
        // SAFETY: the length is passed, so that `sql` needs no terminator; both outputs are written
        // before they are read.
        let code = unsafe {
            raw::marmota_sqlite3_prepare_v3(
                self.db.as_ptr(),
                start,
                bytes,
                flags,
                &raw mut statement,
                &raw mut tail,
            )
        };
        if code != code::OK {
            return Err(self.failure(code));
        }
        Ok((statement, (tail as usize).saturating_sub(start as usize).min(sql.len())))
    }

    /// Runs the statements of `sql` one after the other and drops their rows.
    pub(crate) fn execute(&mut self, sql: &str) -> Result<(), Failure> {
        self.query(sql, |_| {})
    }

    /// Attaches another file as the database `name`.
    pub(crate) fn attach(&mut self, path: &Path, name: &str) -> Result<(), Failure> {
        // Without an empty key, SQLite would use the key of this file.
        self.attach_by(path, name, Bound::text(""))
    }

    fn attach_by(&mut self, path: &Path, name: &str, key: Bound<'_>) -> Result<(), Failure> {
        let id = self.prepare("ATTACH ? AS ? KEY ?")?;
        let path = attached_name(path);
        let mut run = self.start(id);
        run.bind_all([Bound::text(&path), Bound::text(name), key].into_iter());
        let done = run.step().map(|_| ());
        drop(run);
        self.finalize(id);
        done
    }

    /// Runs the statements of `sql` and passes each row, up to [`QUERY_COLUMNS`] columns, to
    /// `take`. Parameters are NULL.
    pub(crate) fn query(
        &mut self,
        sql: &str,
        mut take: impl FnMut(&Row<'_, QUERY_COLUMNS>),
    ) -> Result<(), Failure> {
        let mut rest = sql;
        while !rest.is_empty() {
            let (statement, taken) = self.compile(rest, 0)?;
            rest = rest.get(taken.max(1)..).unwrap_or_default();
            if statement.is_null() {
                continue;
            }
            let id = StatementId(self.statements.len() as u32);
            self.statements.push(Prepared::new(statement));
            let (mut run, mut cells) = (self.start(id), Cells::new());
            run.bind_all((0..run.parameters).map(|_| Bound::NULL));
            let mut stepped = run.step();
            while let Ok(true) = stepped {
                take(&run.row(&mut cells));
                stepped = run.step();
            }
            drop(run);
            self.finalize(id);
            stepped?;
        }
        Ok(())
    }

    /// Starts an execution of a statement.
    #[inline]
    pub(crate) fn start<'v>(&mut self, id: StatementId) -> Run<'_, 'v> {
        let &Prepared { statement, parameters } = &self.statements[id.0 as usize];
        assert!(!statement.is_null(), "a statement is used after it was freed");
        Run {
            connection: self,
            statement,
            parameters,
            waiting: 0,
            bound: 0,
            fault: code::OK,
            values: PhantomData,
        }
    }

    /// Returns the number of rows that the last statement wrote.
    pub(crate) fn changes(&self) -> u64 {
        // SAFETY: the connection is open.
        let changes = unsafe { raw::marmota_sqlite3_changes64(self.db.as_ptr()) };
        u64::try_from(changes).unwrap_or(0)
    }

    /// Returns the integer key of the last inserted row.
    pub(crate) fn last_insert_rowid(&self) -> i64 {
        // SAFETY: the connection is open.
        unsafe { raw::marmota_sqlite3_last_insert_rowid(self.db.as_ptr()) }
    }

    /// Returns true inside a transaction. An error may have ended it.
    pub(crate) fn in_transaction(&self) -> bool {
        // SAFETY: the connection is open.
        unsafe { raw::marmota_sqlite3_get_autocommit(self.db.as_ptr()) == 0 }
    }

    /// Sets the durability of later commits, including that of the open transaction.
    pub(crate) fn set_synchronous(&mut self, durability: Durability) {
        let level = match durability {
            Durability::Full => 3,
            Durability::Relaxed => 2,
            // The order of writes to the log and the file is kept all the same.
            Durability::None => 2,
        };
        // SAFETY: the connection is open, and this is one of SQLite's levels.
        unsafe { raw::marmota_synchronous(self.db.as_ptr(), level) };
    }

    /// Waits until all commits are on the disk.
    pub(crate) fn sync_log(&mut self) -> Result<(), Failure> {
        // SAFETY: the connection is open, and no statement of it is being stepped, since that would
        // borrow it.
        match unsafe { raw::marmota_sync_log(self.db.as_ptr()) } {
            code::OK => Ok(()),
            code => Err(Failure::new(code, "the log cannot be synced to the disk")),
        }
    }

    /// Returns the extended code of the last failed call.
    #[cold]
    pub(crate) fn last_code(&self) -> c_int {
        // SAFETY: the connection is open.
        unsafe { raw::marmota_sqlite3_extended_errcode(self.db.as_ptr()) }
    }

    /// Keeps the log when this connection is closed as the last one.
    pub(crate) fn keep_log_at_close(&mut self) {
        let on: c_int = 1;
        // SAFETY: the connection is open, and this option takes an int and a
        // pointer to an int, which may be null.
        unsafe {
            raw::marmota_sqlite3_db_config(
                self.db.as_ptr(),
                raw::DBCONFIG_NO_CKPT_ON_CLOSE,
                on,
                ptr::null_mut::<c_int>(),
            )
        };
    }

    /// Returns the number of pages in the write-ahead log.
    #[inline]
    pub(crate) fn log_pages(&self) -> u32 {
        // SAFETY: the connection is open.
        unsafe { raw::marmota_log_pages(self.db.as_ptr()) }
    }

    /// Moves as much of the log as possible into the file, without waiting for other connections.
    /// Returns false if nothing was done.
    pub(crate) fn checkpoint(&mut self) -> bool {
        // SAFETY: the connection is open, and no statement of it is being
        // stepped, since that would borrow it.
        unsafe { raw::marmota_checkpoint(self.db.as_ptr()) == code::OK }
    }

    /// Returns true if the file is read-only.
    pub(crate) fn is_readonly(&self) -> bool {
        // SAFETY: the connection is open and the name is terminated.
        unsafe { raw::marmota_sqlite3_db_readonly(self.db.as_ptr(), c"main".as_ptr()) == 1 }
    }

    /// Returns the collation of a column.
    pub(crate) fn collation(&self, table: &str, column: &str) -> Result<String, Failure> {
        let terminated = |name: &str| {
            CString::new(name).map_err(|_| {
                Failure::new(
                    code::MISUSE,
                    "a name contains a NUL \
                                                                       character",
                )
            })
        };
        let (table, column) = (terminated(table)?, terminated(column)?);
        let mut collation: *const c_char = ptr::null();
        // SAFETY: the connection is open, the names are terminated and outlive
        // the call; outputs that are null are not written.
        let code = unsafe {
            raw::marmota_sqlite3_table_column_metadata(
                self.db.as_ptr(),
                c"main".as_ptr(),
                table.as_ptr(),
                column.as_ptr(),
                ptr::null_mut(),
                &raw mut collation,
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        if code != code::OK || collation.is_null() {
            return Err(self.failure(code));
        }
        // SAFETY: a terminated string that lives until the next call on the connection, and is
        // copied here.
        Ok(unsafe { CStr::from_ptr(collation) }.to_string_lossy().into_owned())
    }

    #[cold]
    fn failure(&self, code: c_int) -> Failure {
        // SAFETY: the connection is open; the message is a terminated string that lives until the
        // next call on it, and is copied here.
        let message = unsafe { CStr::from_ptr(raw::marmota_sqlite3_errmsg(self.db.as_ptr())) };
        Failure::new(code, message.to_string_lossy())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        for prepared in &self.statements {
            // SAFETY: each statement belongs to this connection or is null, which is allowed.
            unsafe { raw::marmota_sqlite3_finalize(prepared.statement) };
        }
        // SAFETY: no statements are left, and nothing uses the connection after this.
        unsafe { raw::marmota_sqlite3_close_v2(self.db.as_ptr()) };
    }
}

/// Returns a file's name for SQLite. A relative one is prefixed with `./`, because `:memory:` and
/// the empty name have special meanings.
fn file_name(path: &Path) -> Option<CString> {
    let mut bytes = path.as_os_str().as_encoded_bytes().to_vec();
    if bytes.is_empty() {
        return None;
    }
    if path.is_relative() {
        bytes.splice(0..0, *b"./");
    }
    CString::new(bytes).ok()
}

/// The number of values that are bound in one call.
const CELLS: usize = 64;

/// One execution of a statement: bind every parameter in order, then step.
pub(crate) struct Run<'c, 'v> {
    connection: &'c mut Connection,
    statement: *mut raw::Stmt,
    /// The number of parameters.
    parameters: c_int,
    /// The number of values in [`Connection::cells`] that are not bound yet.
    waiting: usize,
    /// The number of parameters that are already bound.
    bound: c_int,
    /// The error of a bind; reported by the next step.
    fault: c_int,
    values: PhantomData<&'v [u8]>,
}

impl<'v> Run<'_, 'v> {
    /// Binds a value to the next parameter.
    #[inline]
    pub(crate) fn bind(&mut self, value: Bound<'v>) {
        self.bind_all(std::iter::once(value));
    }

    /// Binds values to the next parameters.
    #[inline]
    pub(crate) fn bind_all(&mut self, mut values: impl Iterator<Item = Bound<'v>>) {
        loop {
            let free = &mut self.connection.cells[self.waiting..];
            let mut taken = 0;
            for (cell, value) in free.iter_mut().zip(&mut values) {
                // Member by member: copying a whole cell waits for the bytes just written.
                cell.value = value.cell.value;
                cell.length = value.cell.length;
                cell.storage = value.cell.storage;
                taken += 1;
            }
            self.waiting += taken;
            if self.waiting < CELLS {
                return;
            }
            self.flush();
        }
    }

    /// Binds the buffered values.
    #[inline(never)]
    fn flush(&mut self) {
        let cells = &self.connection.cells[..self.waiting];
        // SAFETY: the statement is alive as long as `self`, and the function returns an error code
        // for parameters that do not exist. Each cell has the union member that its `storage`
        // denotes. Texts and bytes live for `'v`, and are read only by steps of this `Run`, which
        // is gone when `'v` ends: the next one binds all parameters before it steps.
        let code = unsafe {
            raw::marmota_bind(self.statement, self.bound, cells.as_ptr(), cells.len() as c_int)
        };
        self.bound += cells.len() as c_int;
        self.waiting = 0;
        if code != code::OK {
            self.fault = code;
        }
    }

    /// Advances to the next row. Returns false if no row is left.
    #[inline]
    pub(crate) fn step(&mut self) -> Result<bool, Failure> {
        if self.waiting > 0 {
            self.flush();
        }
        if self.bound != self.parameters {
            self.fault = code::MISUSE;
        }
        if self.fault != code::OK {
            return Err(Failure::new(self.fault, "the bound values do not match the statement"));
        }
        // SAFETY: the statement is alive, and so are its bound values: all of them were bound by
        // this `Run`.
        match unsafe { raw::marmota_sqlite3_step(self.statement) } {
            code::ROW => Ok(true),
            code::DONE => Ok(false),
            code => Err(self.connection.failure(code)),
        }
    }

    /// Returns at most `N` values of the current row; columns that do not exist are NULL. The
    /// values are stored in `cells`, which are reused for each row. (A returned row would be
    /// copied, and the copy waits for the bytes just written: a seventh of the time of a list in
    /// addition to SQLite's steps.)
    #[inline(always)]
    pub(crate) fn row<'r, const N: usize>(&'r self, cells: &'r mut Cells<N>) -> Row<'r, N> {
        // SAFETY: the statement is alive, and there are `N` cells, each of which is written. A cell
        // of text or bytes points to memory that lives until the next step: for as long as the
        // result borrows `self`, since stepping borrows it mutably.
        unsafe { raw::marmota_row(self.statement, cells.0.as_mut_ptr(), N as c_int) };
        Row { cells: &cells.0, run: PhantomData }
    }

    /// Returns the number of columns.
    pub(crate) fn column_count(&self) -> usize {
        // SAFETY: the statement is alive.
        let count = unsafe { raw::marmota_sqlite3_column_count(self.statement) };
        usize::try_from(count).unwrap_or(0)
    }

    /// Steps to the end. Returns the number of written rows.
    #[inline]
    pub(crate) fn finish(mut self) -> Result<u64, Failure> {
        self.run_out()?;
        Ok(self.connection.changes())
    }

    /// Steps to the end. (It does not consume the run like [`Run::finish`]: a move waits for the
    /// values bound just before.)
    #[inline]
    pub(crate) fn run_out(&mut self) -> Result<(), Failure> {
        while self.step()? {}
        Ok(())
    }
}

impl Drop for Run<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the statement is alive; bound values are not read.
        unsafe { raw::marmota_sqlite3_reset(self.statement) };
    }
}

impl Prepared {
    fn new(statement: *mut raw::Stmt) -> Self {
        // SAFETY: the statement was just prepared, or is null, which has no parameters.
        let parameters = unsafe { raw::marmota_sqlite3_bind_parameter_count(statement) };
        Self { statement, parameters }
    }
}

/// Returns a path for SQLite: a relative one is prefixed with `./`, because `:memory:` and the
/// empty name have special meanings.
fn attached_name(path: &Path) -> String {
    let name = path.to_string_lossy();
    if path.is_relative() { format!("./{name}") } else { name.into_owned() }
}
