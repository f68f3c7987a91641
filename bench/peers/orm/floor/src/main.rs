//! The floor: the workload as direct calls of SQLite's C API.
//!
//! Texts are bound without a copy, SQLite assigns the ids, and rows are read into the same struct
//! as in the other contenders. It omits what a layer does: type checks, helpful errors, and UTF-8
//! checks (this program wrote the rows itself).

mod sqlite;

use std::ffi::c_int;
use std::process::ExitCode;
use std::ptr;

use bench_orm_workload::{AsPerson, CREATE_TABLE, Contender, Person, Place, Result, Sum, run};
use sqlite::{
    DONE, Db, ROW, Stmt, sqlite3_bind_int64, sqlite3_bind_text, sqlite3_close, sqlite3_column_blob,
    sqlite3_column_bytes, sqlite3_column_int64, sqlite3_finalize, sqlite3_last_insert_rowid,
    sqlite3_reset, sqlite3_step,
};

const INSERT: &str = "INSERT INTO person (first_name, last_name, balance, met_at, modified_at, created_at) VALUES (?,?,?,?,?,?)";
const NEXT_ROW: &str = ",(?,?,?,?,?,?)";
const COLUMNS: &str =
    "SELECT id, first_name, last_name, balance, met_at, modified_at, created_at FROM person";

fn main() -> ExitCode {
    run::<Floor>()
}

struct Floor {
    db: *mut Db,
    begin: *mut Stmt,
    commit: *mut Stmt,
    insert: *mut Stmt,
    /// The statement for this many rows, prepared at its first use.
    batch: (usize, *mut Stmt),
    by_id: *mut Stmt,
    all: *mut Stmt,
}

impl Contender for Floor {
    const NAME: &'static str = "floor";
    const STATEMENT_ROWS: &'static [usize] = &[100, 250, 500];
    type New = Person;
    type Row = Person;

    fn new(person: &Person) -> Person {
        person.clone()
    }

    fn open(place: &Place) -> Result<Self> {
        // SAFETY: `Drop` finalizes every statement and closes the connection last.
        unsafe {
            let db = sqlite::open(place.path())?;
            for pragma in place.setting.pragmas() {
                sqlite::execute(db, pragma)?;
            }
            sqlite::execute(db, CREATE_TABLE)?;
            Ok(Self {
                db,
                begin: sqlite::prepare(db, "BEGIN IMMEDIATE")?,
                commit: sqlite::prepare(db, "COMMIT")?,
                insert: sqlite::prepare(db, INSERT)?,
                batch: (0, ptr::null_mut()),
                by_id: sqlite::prepare(db, &format!("{COLUMNS} WHERE id = ?"))?,
                all: sqlite::prepare(db, COLUMNS)?,
            })
        }
    }

    fn begin(&mut self) -> Result<()> {
        // SAFETY: the statement lives as long as `self`.
        unsafe { self.finish(self.begin) }
    }

    fn commit(&mut self) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.finish(self.commit) }
    }

    fn insert_each(&mut self, people: &[Person]) -> Result<i64> {
        for person in people {
            // SAFETY: `person` outlives the step that reads the bound values; the next call binds
            // all values again.
            unsafe {
                bind(self.insert, 0, person);
                self.finish(self.insert)?;
            }
        }
        // SAFETY: the connection is open as long as `self`.
        Ok(unsafe { sqlite3_last_insert_rowid(self.db) })
    }

    fn insert_batch(&mut self, people: &[Person], statement_rows: usize) -> Result<()> {
        for chunk in people.chunks(statement_rows) {
            if chunk.len() == 1 {
                self.insert_each(chunk)?;
                continue;
            }
            // SAFETY: as for one row.
            unsafe {
                let stmt = self.batch_statement(chunk.len())?;
                let mut index = 0;
                for person in chunk {
                    bind(stmt, index, person);
                    index += 6;
                }
                self.finish(stmt)?;
            }
        }
        Ok(())
    }

    fn read_each(&mut self, ids: &[i64], sum: &mut Sum) -> Result<()> {
        for &id in ids {
            // SAFETY: columns are read only while the statement stands on a row.
            let person = unsafe {
                sqlite3_bind_int64(self.by_id, 1, id);
                if sqlite3_step(self.by_id) != ROW {
                    return Err(format!("no row has the id {id}").into());
                }
                let person = read(self.by_id);
                sqlite3_reset(self.by_id);
                person
            };
            sum.add_person(std::hint::black_box(&person).as_person());
        }
        Ok(())
    }

    fn list(&mut self) -> Result<Vec<Person>> {
        let mut people = Vec::new();
        // SAFETY: as above.
        unsafe {
            let mut code = sqlite3_step(self.all);
            while code == ROW {
                people.push(read(self.all));
                code = sqlite3_step(self.all);
            }
            self.end(self.all, code)?;
        }
        Ok(people)
    }

    fn scan(&mut self, sum: &mut Sum) -> Result<()> {
        let all = self.all;
        // SAFETY: as above. The pointers of the texts are read, as a caller that forwards them would do.
        unsafe {
            let mut code = sqlite3_step(all);
            while code == ROW {
                std::hint::black_box(sqlite3_column_blob(all, 1));
                std::hint::black_box(sqlite3_column_blob(all, 2));
                sum.add(
                    sqlite3_column_int64(all, 0),
                    sqlite3_column_bytes(all, 1) as usize,
                    sqlite3_column_bytes(all, 2) as usize,
                    sqlite3_column_int64(all, 3),
                    sqlite3_column_int64(all, 4),
                    sqlite3_column_int64(all, 5),
                    sqlite3_column_int64(all, 6),
                );
                code = sqlite3_step(all);
            }
            self.end(all, code)
        }
    }
}

impl Floor {
    /// Steps a statement that returns no rows, and resets it.
    ///
    /// # Safety
    /// `stmt` belongs to this connection, and its bound values are alive.
    #[inline]
    unsafe fn finish(&self, stmt: *mut Stmt) -> Result<()> {
        // SAFETY: by contract.
        unsafe {
            let code = sqlite3_step(stmt);
            self.end(stmt, code)
        }
    }

    /// Resets a statement after its last step.
    ///
    /// # Safety
    /// `stmt` belongs to this connection.
    #[inline]
    unsafe fn end(&self, stmt: *mut Stmt, code: c_int) -> Result<()> {
        // SAFETY: by contract.
        unsafe {
            sqlite3_reset(stmt);
            if code == DONE { Ok(()) } else { Err(sqlite::failed(self.db, code)) }
        }
    }

    /// # Safety
    /// The connection is open.
    unsafe fn batch_statement(&mut self, rows: usize) -> Result<*mut Stmt> {
        if self.batch.0 != rows {
            let sql = INSERT.to_owned() + &NEXT_ROW.repeat(rows - 1);
            // SAFETY: the old statement is this connection's, or null, which is allowed.
            unsafe {
                sqlite3_finalize(self.batch.1);
                self.batch = (0, ptr::null_mut());
                self.batch = (rows, sqlite::prepare(self.db, &sql)?);
            }
        }
        Ok(self.batch.1)
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        // SAFETY: nothing uses the statements or the connection after this.
        unsafe {
            for stmt in [self.begin, self.commit, self.insert, self.batch.1, self.by_id, self.all] {
                sqlite3_finalize(stmt);
            }
            sqlite3_close(self.db);
        }
    }
}

/// Binds the six values of a person after the first `index` ones, without copying the texts.
///
/// # Safety
/// `person` must live until the statement was stepped.
#[inline]
unsafe fn bind(stmt: *mut Stmt, index: c_int, person: &Person) {
    // SAFETY: by contract; lengths fit in c_int.
    unsafe {
        text(stmt, index + 1, &person.first_name);
        text(stmt, index + 2, &person.last_name);
        sqlite3_bind_int64(stmt, index + 3, person.balance);
        sqlite3_bind_int64(stmt, index + 4, person.met_at);
        sqlite3_bind_int64(stmt, index + 5, person.modified_at);
        sqlite3_bind_int64(stmt, index + 6, person.created_at);
    }
}

/// # Safety
/// As for [`bind`].
#[inline]
unsafe fn text(stmt: *mut Stmt, index: c_int, text: &str) {
    // SAFETY: a null destructor is SQLITE_STATIC: SQLite reads the bytes in place while it steps.
    unsafe {
        sqlite3_bind_text(stmt, index, text.as_ptr().cast(), text.len() as c_int, ptr::null())
    };
}

/// # Safety
/// The statement is on a row of [`COLUMNS`].
#[inline]
unsafe fn read(stmt: *mut Stmt) -> Person {
    // SAFETY: by contract.
    unsafe {
        Person {
            id: sqlite3_column_int64(stmt, 0),
            first_name: string(stmt, 1),
            last_name: string(stmt, 2),
            balance: sqlite3_column_int64(stmt, 3),
            met_at: sqlite3_column_int64(stmt, 4),
            modified_at: sqlite3_column_int64(stmt, 5),
            created_at: sqlite3_column_int64(stmt, 6),
        }
    }
}

/// # Safety
/// As for [`read`], and the column is a text that this program wrote.
#[inline]
unsafe fn string(stmt: *mut Stmt, column: c_int) -> String {
    // SAFETY: the text is not null, its length is read after its pointer, and it was valid UTF-8 when written.
    unsafe {
        let bytes = sqlite3_column_blob(stmt, column);
        let length = sqlite3_column_bytes(stmt, column) as usize;
        String::from_utf8_unchecked(std::slice::from_raw_parts(bytes, length).to_vec())
    }
}
