//! SQLite's C interface in safe types: the only module of this crate with
//! `unsafe` code.
//!
//! A [`Connection`] owns its statements and is used by one thread at a time.
//! A [`Run`] borrows it for one execution of a statement, so that no two
//! statements step at once. Texts and bytes are bound in place: their
//! lifetime is a parameter of the `Run`. What a row holds is read in place:
//! it is borrowed from the `Run` until the next step. When a `Run` is
//! dropped, however its use ended, the statement is reset, so that it does not
//! hold a snapshot open. It may still point to what was bound then; so a `Run`
//! does not step before it has bound every parameter anew.

mod backup;
#[cfg(feature = "encryption")]
pub(crate) mod cipher;
mod describe;
#[cfg(feature = "simulated-disk")]
pub(crate) mod disk;
mod json;
pub(crate) mod lent;
mod raw;
mod value;
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

/// A result code of SQLite, extended, with its words.
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

/// The extended codes that this crate tells apart.
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

/// The version that was compiled in.
pub(crate) fn version() -> &'static str {
    // SAFETY: the function answers a pointer to a constant, terminated string.
    unsafe { CStr::from_ptr(raw::marmota_sqlite3_libversion()) }.to_str().unwrap_or_default()
}

/// How many system calls of this thread, in this library, have waited for the
/// disk, and how many of those failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Syncs(u64);

impl Syncs {
    /// Those until now.
    #[inline]
    pub(crate) fn of_thread() -> Self {
        // SAFETY: reads a number of this thread's.
        Self(unsafe { raw::marmota_syncs() })
    }

    /// Those since an earlier time.
    #[inline]
    pub(crate) fn since(earlier: Self) -> Self {
        Self(Self::of_thread().0.wrapping_sub(earlier.0))
    }

    /// How many there were.
    pub(crate) const fn count(self) -> u64 {
        self.0 & (u64::MAX >> 16)
    }

    /// True if any of them failed.
    pub(crate) const fn failed(self) -> bool {
        self.0 >> 48 != 0
    }
}

/// The system's error of the last of this thread's waits for the disk that failed.
#[cold]
pub(crate) fn thread_sync_errno() -> c_int {
    // SAFETY: reads a number of this thread's.
    unsafe { raw::marmota_sync_errno() }
}

/// Starts SQLite once in a process (it is built without doing that itself).
fn initialize() -> Result<(), Failure> {
    static CODE: OnceLock<c_int> = OnceLock::new();
    // SAFETY: takes nothing, and is made to be called from any thread.
    match *CODE.get_or_init(|| unsafe { raw::marmota_sqlite3_initialize() }) {
        code::OK => Ok(()),
        code => Err(Failure::new(code, "SQLite does not initialize")),
    }
}

/// An open database and the statements prepared on it.
#[derive(Debug)]
pub(crate) struct Connection {
    db: NonNull<raw::Db>,
    statements: Vec<Prepared>,
    free: Vec<u32>,
    /// Values of the current [`Run`] that wait to be bound.
    cells: Box<[Cell; CELLS]>,
    /// What it shows of other databases. Kept until the connection is closed,
    /// which knows where it lies.
    stage: Option<Arc<lent::Stage>>,
    /// What its progress handler looks at. Kept until the connection is closed.
    watch: Option<Arc<watch::Watch>>,
}

/// A place of [`Connection::statements`].
#[derive(Debug)]
struct Prepared {
    /// Null if the place is free.
    statement: *mut raw::Stmt,
    /// How many values it wants.
    parameters: c_int,
}

/// The most columns of a row that [`Connection::query`] lends.
pub(crate) const QUERY_COLUMNS: usize = 8;

/// Names a statement of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatementId(u32);

// SAFETY: a connection opened with SQLITE_OPEN_NOMUTEX in a library built with
// SQLITE_THREADSAFE=2 may be used by any thread, by one at a time. It is
// neither `Sync` nor `Clone`, and everything that reaches its pointers borrows
// it, so that one thread at a time has them. So does its stage, but for the
// loans of a statement, which end on the thread that runs it.
unsafe impl Send for Connection {}

impl Connection {
    /// Opens the file at `path`, made if it is missing.
    pub(crate) fn open_file(path: &Path) -> Result<Self, Failure> {
        let name = file_name(path)
            .ok_or_else(|| Failure::new(code::CANTOPEN, "the path cannot be a file's"))?;
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
            return Err(Failure::new(code::NOMEM, "no memory for a connection"));
        };
        // From here on, dropping it closes it, also after a failure.
        let mut connection = Self {
            db,
            statements: Vec::new(),
            free: Vec::new(),
            cells: Box::new([Cell::NULL; CELLS]),
            stage: None,
            watch: None,
        };
        if code != code::OK {
            return Err(connection.failure(code));
        }
        let on: c_int = 1;
        // SAFETY: the connection is open, and this option takes an int and a
        // pointer to an int, which may be null. Without it a text pattern
        // bound to LIKE would have its statement prepared anew each time.
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

    /// How long to wait for a file that another process writes.
    pub(crate) fn busy_timeout_ms(&mut self, timeout_ms: u32) {
        let timeout = c_int::try_from(timeout_ms).unwrap_or(c_int::MAX);
        // SAFETY: the connection is open.
        unsafe { raw::marmota_sqlite3_busy_timeout(self.db.as_ptr(), timeout) };
    }

    /// Prepares a statement that will be used often.
    pub(crate) fn prepare(&mut self, sql: &str) -> Result<StatementId, Failure> {
        let (statement, _) = self.compile(sql, raw::PREPARE_PERSISTENT)?;
        if statement.is_null() {
            return Err(Failure::new(code::MISUSE, "no statement in the text"));
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
            // SAFETY: the statement is this connection's and not finalized; it
            // is forgotten here.
            unsafe { raw::marmota_sqlite3_finalize(prepared.statement) };
            prepared.statement = ptr::null_mut();
            self.free.push(id.0);
        }
    }

    /// Compiles the first statement of `sql`; also gives how many bytes it
    /// took. The statement is null if there is only white space.
    fn compile(&mut self, sql: &str, flags: u32) -> Result<(*mut raw::Stmt, usize), Failure> {
        let bytes = c_int::try_from(sql.len())
            .map_err(|_| Failure::new(code::TOOBIG, "the statement is too long"))?;
        let mut statement = ptr::null_mut();
        let mut tail: *const c_char = ptr::null();
        let start: *const c_char = sql.as_ptr().cast();
        // SAFETY: the length is passed, so that `sql` needs no terminator; both
        // outputs are written before they are read.
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

    /// Has the connection see another file as the database `name`.
    pub(crate) fn attach(&mut self, path: &Path, name: &str) -> Result<(), Failure> {
        // Without it the file would be taken for one with this one's key.
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

    /// Runs the statements of `sql`, lending each row: up to
    /// [`QUERY_COLUMNS`] of its columns. Parameters are NULL.
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

    /// Begins an execution of a statement.
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

    /// How many rows the last statement wrote.
    pub(crate) fn changes(&self) -> u64 {
        // SAFETY: the connection is open.
        let changes = unsafe { raw::marmota_sqlite3_changes64(self.db.as_ptr()) };
        u64::try_from(changes).unwrap_or(0)
    }

    /// The integer key of the last row inserted.
    pub(crate) fn last_insert_rowid(&self) -> i64 {
        // SAFETY: the connection is open.
        unsafe { raw::marmota_sqlite3_last_insert_rowid(self.db.as_ptr()) }
    }

    /// True inside a transaction. An error may have ended it.
    pub(crate) fn in_transaction(&self) -> bool {
        // SAFETY: the connection is open.
        unsafe { raw::marmota_sqlite3_get_autocommit(self.db.as_ptr()) == 0 }
    }

    /// Says what the commits from here on wait for, the open transaction's
    /// included.
    pub(crate) fn set_synchronous(&mut self, durability: Durability) {
        let level = match durability {
            Durability::Full => 3,
            Durability::Relaxed => 2,
            // The order of the log and the file is kept all the same.
            Durability::None => 2,
        };
        // SAFETY: the connection is open, and this is one of SQLite's levels.
        unsafe { raw::marmota_synchronous(self.db.as_ptr(), level) };
    }

    /// Waits until what was committed is on the disk.
    pub(crate) fn sync_log(&mut self) -> Result<(), Failure> {
        // SAFETY: the connection is open, and no statement of it is being
        // stepped, since that would borrow it.
        match unsafe { raw::marmota_sync_log(self.db.as_ptr()) } {
            code::OK => Ok(()),
            code => Err(Failure::new(code, "the log cannot be taken to the disk")),
        }
    }

    /// The extended code of the last call that failed.
    #[cold]
    pub(crate) fn last_code(&self) -> c_int {
        // SAFETY: the connection is open.
        unsafe { raw::marmota_sqlite3_extended_errcode(self.db.as_ptr()) }
    }

    /// Leaves the log as it is when this connection, the last one, is closed.
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

    /// How many pages the write-ahead log has.
    #[inline]
    pub(crate) fn log_pages(&self) -> u32 {
        // SAFETY: the connection is open.
        unsafe { raw::marmota_log_pages(self.db.as_ptr()) }
    }

    /// Takes what it can of the log to the file, without waiting for anybody;
    /// false if it came to nothing.
    pub(crate) fn checkpoint(&mut self) -> bool {
        // SAFETY: the connection is open, and no statement of it is being
        // stepped, since that would borrow it.
        unsafe { raw::marmota_checkpoint(self.db.as_ptr()) == code::OK }
    }

    /// True if the file can only be read.
    pub(crate) fn is_readonly(&self) -> bool {
        // SAFETY: the connection is open and the name is terminated.
        unsafe { raw::marmota_sqlite3_db_readonly(self.db.as_ptr(), c"main".as_ptr()) == 1 }
    }

    /// How the texts of a column compare.
    pub(crate) fn collation(&self, table: &str, column: &str) -> Result<String, Failure> {
        let terminated = |name: &str| {
            CString::new(name).map_err(|_| Failure::new(code::MISUSE, "a name has a NUL in it"))
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
        // SAFETY: a terminated string that lives until the next call on the
        // connection, and is copied here.
        Ok(unsafe { CStr::from_ptr(collation) }.to_string_lossy().into_owned())
    }

    #[cold]
    fn failure(&self, code: c_int) -> Failure {
        // SAFETY: the connection is open; the message is a terminated string
        // that lives until the next call on it, and is copied here.
        let message = unsafe { CStr::from_ptr(raw::marmota_sqlite3_errmsg(self.db.as_ptr())) };
        Failure::new(code, message.to_string_lossy())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        for prepared in &self.statements {
            // SAFETY: each statement is this connection's, or null, which is allowed.
            unsafe { raw::marmota_sqlite3_finalize(prepared.statement) };
        }
        // SAFETY: no statement is left and nothing uses the connection after this.
        unsafe { raw::marmota_sqlite3_close_v2(self.db.as_ptr()) };
    }
}

/// A file's name as SQLite takes it. A relative one gets `./`, because
/// `:memory:` and the empty name mean something else.
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

/// How many values are bound in one call.
const CELLS: usize = 64;

/// One execution of a statement: bind every parameter in order, then step.
pub(crate) struct Run<'c, 'v> {
    connection: &'c mut Connection,
    statement: *mut raw::Stmt,
    /// How many values it wants.
    parameters: c_int,
    /// How many of [`Connection::cells`] wait to be bound.
    waiting: usize,
    /// How many parameters were bound before those.
    bound: c_int,
    /// What went wrong in a bind; told at the step.
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
                // Member by member: a cell that is copied whole waits for the
                // bytes just written.
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

    /// Binds the values that are waiting.
    #[inline(never)]
    fn flush(&mut self) {
        let cells = &self.connection.cells[..self.waiting];
        // SAFETY: the statement is alive as long as `self`, and the function
        // answers parameters that it has not with a code. Each cell holds what
        // its `storage` says. Texts and bytes are of `'v`, and read only by
        // steps of this `Run`, which is gone when `'v` ends: the next one
        // binds all parameters before it steps.
        let code = unsafe {
            raw::marmota_bind(self.statement, self.bound, cells.as_ptr(), cells.len() as c_int)
        };
        self.bound += cells.len() as c_int;
        self.waiting = 0;
        if code != code::OK {
            self.fault = code;
        }
    }

    /// Goes on to the next row; false if there is none.
    #[inline]
    pub(crate) fn step(&mut self) -> Result<bool, Failure> {
        if self.waiting > 0 {
            self.flush();
        }
        if self.bound != self.parameters {
            self.fault = code::MISUSE;
        }
        if self.fault != code::OK {
            return Err(Failure::new(self.fault, "the values bound do not suit the statement"));
        }
        // SAFETY: the statement is alive, and so is what is bound to it: all of
        // it was bound by this `Run`.
        match unsafe { raw::marmota_sqlite3_step(self.statement) } {
            code::ROW => Ok(true),
            code::DONE => Ok(false),
            code => Err(self.connection.failure(code)),
        }
    }

    /// The values of the row that the statement stands on, `N` at most; those
    /// it has not are NULL. They are put into `cells`, which do for row after
    /// row. (A row that is returned is copied, and the copy waits for the bytes
    /// just written: a seventh of what a list takes beside SQLite's steps.)
    #[inline(always)]
    pub(crate) fn row<'r, const N: usize>(&'r self, cells: &'r mut Cells<N>) -> Row<'r, N> {
        // SAFETY: the statement is alive, and there are `N` cells, each of
        // which is written. A cell of text or bytes points to memory that lives
        // until the next step: for as long as the result borrows `self`, since
        // stepping borrows it mutably.
        unsafe { raw::marmota_row(self.statement, cells.0.as_mut_ptr(), N as c_int) };
        Row { cells: &cells.0, run: PhantomData }
    }

    /// How many columns the rows have.
    pub(crate) fn column_count(&self) -> usize {
        // SAFETY: the statement is alive.
        let count = unsafe { raw::marmota_sqlite3_column_count(self.statement) };
        usize::try_from(count).unwrap_or(0)
    }

    /// Steps to the end and gives how many rows were written.
    #[inline]
    pub(crate) fn finish(mut self) -> Result<u64, Failure> {
        self.run_out()?;
        Ok(self.connection.changes())
    }

    /// Steps to the end. (It does not take the run, as [`Run::finish`] does:
    /// moved, that waits for what was bound just now.)
    #[inline]
    pub(crate) fn run_out(&mut self) -> Result<(), Failure> {
        while self.step()? {}
        Ok(())
    }
}

impl Drop for Run<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the statement is alive; what is bound is not read.
        unsafe { raw::marmota_sqlite3_reset(self.statement) };
    }
}

impl Prepared {
    fn new(statement: *mut raw::Stmt) -> Self {
        // SAFETY: the statement was prepared just now, or is null, which has none.
        let parameters = unsafe { raw::marmota_sqlite3_bind_parameter_count(statement) };
        Self { statement, parameters }
    }
}

/// A path as SQLite takes it: a relative one gets `./`, because `:memory:` and
/// the empty name mean something else.
fn attached_name(path: &Path) -> String {
    let name = path.to_string_lossy();
    if path.is_relative() { format!("./{name}") } else { name.into_owned() }
}
