//! The properties of a caller's statement: whether the text has one or several, whether it writes,
//! and its columns.

use std::ffi::{CStr, c_char, c_int};

use super::raw;
use super::{Connection, Failure, Prepared, StatementId, code};

/// A column of a statement's rows.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) name: String,
    /// The database, table and column of its values, if they come from one column.
    pub(crate) origin: Option<[String; 3]>,
}

/// The reason why a text is not a single statement.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// SQLite reports a syntax error, with its byte offset if known.
    Wrong(Failure, Option<usize>),
    /// The text has no statement.
    Empty,
    /// A second statement starts at this byte.
    Several(usize),
}

impl Connection {
    /// Prepares a text with exactly one statement. (It must not contain NUL, at which SQLite would
    /// stop.)
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
                        // SAFETY: the statement was just prepared, and nothing else has a pointer
                        // to it.
                        unsafe { raw::marmota_sqlite3_finalize(rest) };
                    }
                    self.finalize(id);
                    return Err(Unfit::Several(at));
                }
            }
        }
        Ok(id)
    }

    /// Returns the offset of the error in the text of the last call.
    fn error_offset(&self) -> Option<usize> {
        // SAFETY: the connection is open.
        let offset = unsafe { raw::marmota_sqlite3_error_offset(self.db.as_ptr()) };
        usize::try_from(offset).ok()
    }

    /// Returns true if a statement does not itself change a database.
    pub(crate) fn only_reads(&self, id: StatementId) -> bool {
        // SAFETY: the statement is this connection's, or null, which is allowed.
        unsafe { raw::marmota_sqlite3_stmt_readonly(self.statement_of(id)) != 0 }
    }

    /// Returns the databases that a statement writes to, one bit each: the main one, the temporary
    /// one, then the attached ones.
    pub(crate) fn databases_written(&self, id: StatementId) -> u32 {
        // SAFETY: the statement is this connection's, and not null.
        unsafe { raw::marmota_written(self.statement_of(id)) }
    }

    /// Returns true if a statement writes to the table of the main database with this root page,
    /// including writes by triggers and references.
    pub(crate) fn writes_to(&self, id: StatementId, root: u32) -> bool {
        // SAFETY: as for `databases_written`.
        unsafe { raw::marmota_writes_root(self.statement_of(id), root) != 0 }
    }

    /// Returns the number of a statement's parameters.
    pub(crate) fn parameters(&self, id: StatementId) -> usize {
        usize::try_from(self.statements[id.0 as usize].parameters).unwrap_or(0)
    }

    /// Returns the number of columns of its rows, which may change if tables change.
    pub(crate) fn column_count(&self, id: StatementId) -> usize {
        // SAFETY: as for `only_reads`.
        let count = unsafe { raw::marmota_sqlite3_column_count(self.statement_of(id)) };
        usize::try_from(count).unwrap_or(0)
    }

    /// Returns the columns of its rows.
    pub(crate) fn describe(&self, id: StatementId) -> Vec<Described> {
        type Text = unsafe extern "C" fn(*mut raw::Stmt, c_int) -> *const c_char;
        let statement = self.statement_of(id);
        let text = |of: Text, at: usize| {
            // SAFETY: the statement belongs to this connection; the functions return null for an
            // index that does not exist.
            let text = unsafe { of(statement, at as c_int) };
            // SAFETY: if it is not null it is a terminated string that lives until the statement is
            // finalized or recompiled; it is copied.
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

/// Returns true for a text that SQLite would not read to its end.
pub(crate) fn has_nul(sql: &str) -> bool {
    sql.as_bytes().contains(&0)
}

/// Returns true for the code of a syntax error.
pub(crate) fn is_misunderstood(failure: &Failure) -> bool {
    failure.code() & 0xff == code::ERROR
}
