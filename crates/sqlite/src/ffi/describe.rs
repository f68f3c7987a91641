//! What a statement of the caller's is: one or several, whether it writes,
//! and what its columns are.

use std::ffi::{CStr, c_char, c_int};

use super::raw;
use super::{Connection, Failure, Prepared, StatementId, code};

/// A column of a statement's rows.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) name: String,
    /// The database, table and column that it is read from, if it is from one.
    pub(crate) origin: Option<[String; 3]>,
}

/// Why a text is no statement to be run.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// SQLite does not understand it, from this byte on if it says so.
    Wrong(Failure, Option<usize>),
    /// There is nothing in it.
    Empty,
    /// There is another statement behind the first, at this byte.
    Several(usize),
}

impl Connection {
    /// Prepares a text of one statement. (There must be no NUL in it, where
    /// SQLite would end.)
    pub(crate) fn prepare_one(&mut self, sql: &str) -> Result<StatementId, Unfit> {
        let (statement, taken) = self
            .compile(sql, raw::PREPARE_PERSISTENT)
            .map_err(|failure| Unfit::Wrong(failure, self.error_offset()))?;
        if statement.is_null() {
            return Err(Unfit::Empty);
        }
        let id = self.keep(Prepared::new(statement));
        let mut at = taken;
        while at < sql.len() {
            match self.compile(&sql[at..], 0) {
                // White space and comments.
                Ok((rest, taken)) if rest.is_null() && taken > 0 => at += taken,
                Ok((rest, _)) if rest.is_null() => break,
                other => {
                    if let Ok((rest, _)) = other {
                        // SAFETY: the statement was prepared just now, and
                        // nobody else knows it.
                        unsafe { raw::marmota_sqlite3_finalize(rest) };
                    }
                    self.finalize(id);
                    return Err(Unfit::Several(at));
                }
            }
        }
        Ok(id)
    }

    /// Where in the text the last call has met what it did not understand.
    fn error_offset(&self) -> Option<usize> {
        // SAFETY: the connection is open.
        let offset = unsafe { raw::marmota_sqlite3_error_offset(self.db.as_ptr()) };
        usize::try_from(offset).ok()
    }

    /// True if a statement changes no database by itself.
    pub(crate) fn only_reads(&self, id: StatementId) -> bool {
        // SAFETY: the statement is this connection's, or null, which is allowed.
        unsafe { raw::marmota_sqlite3_stmt_readonly(self.statement_of(id)) != 0 }
    }

    /// The databases that a statement writes to, one bit each: the first is
    /// the main one, the second what is temporary, then those attached.
    pub(crate) fn databases_written(&self, id: StatementId) -> u32 {
        // SAFETY: the statement is this connection's, and not null.
        unsafe { raw::marmota_written(self.statement_of(id)) }
    }

    /// True if a statement writes to the table of the main database that begins
    /// at this page, also by a trigger or for a reference.
    pub(crate) fn writes_to(&self, id: StatementId, root: u32) -> bool {
        // SAFETY: as for `databases_written`.
        unsafe { raw::marmota_writes_root(self.statement_of(id), root) != 0 }
    }

    /// How many values a statement wants.
    pub(crate) fn parameters(&self, id: StatementId) -> usize {
        usize::try_from(self.statements[id.0 as usize].parameters).unwrap_or(0)
    }

    /// How many columns its rows have; more or fewer once tables have changed.
    pub(crate) fn column_count(&self, id: StatementId) -> usize {
        // SAFETY: as for `only_reads`.
        let count = unsafe { raw::marmota_sqlite3_column_count(self.statement_of(id)) };
        usize::try_from(count).unwrap_or(0)
    }

    /// The columns of its rows.
    pub(crate) fn describe(&self, id: StatementId) -> Vec<Described> {
        type Text = unsafe extern "C" fn(*mut raw::Stmt, c_int) -> *const c_char;
        let statement = self.statement_of(id);
        let text = |of: Text, at: usize| {
            // SAFETY: the statement is this connection's; the functions
            // answer null for a place that is not there.
            let text = unsafe { of(statement, at as c_int) };
            // SAFETY: if it is not null it is a terminated string that lives
            // until the statement is finalized or prepared anew; it is copied.
            (!text.is_null())
                .then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        let described = |at: usize| {
            let database = text(raw::marmota_sqlite3_column_database_name, at);
            let table = text(raw::marmota_sqlite3_column_table_name, at);
            let column = text(raw::marmota_sqlite3_column_origin_name, at);
            let origin = match (database, table, column) {
                (Some(database), Some(table), Some(column)) => Some([database, table, column]),
                _ => None,
            };
            Described {
                name: text(raw::marmota_sqlite3_column_name, at).unwrap_or_default(),
                origin,
            }
        };
        (0..self.column_count(id)).map(described).collect()
    }

    fn statement_of(&self, id: StatementId) -> *mut raw::Stmt {
        let statement = self.statements[id.0 as usize].statement;
        assert!(!statement.is_null(), "a statement is used after it was freed");
        statement
    }
}

/// True for a text that SQLite would not read to its end.
pub(crate) fn has_nul(sql: &str) -> bool {
    sql.as_bytes().contains(&0)
}

/// True if a code is that of a text that SQLite does not understand.
pub(crate) fn is_misunderstood(failure: &Failure) -> bool {
    failure.code() & 0xff == code::ERROR
}
