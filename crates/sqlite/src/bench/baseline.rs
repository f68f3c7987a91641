//! A baseline for benchmarks (feature `bench`): the statements that a program in C would execute,
//! on the same build of SQLite, without models. Values are bound and read one row per call, like in
//! the engine, which is faster than SQLite's own calls: the baseline is rather too high than too
//! low.

use std::path::Path;

use marmota_model::Result;

use crate::fault;
use crate::ffi::{Bound, Cells, Connection, QUERY_COLUMNS, Row, StatementId, Syncs};

/// A connection for raw statements.
#[derive(Debug)]
pub struct Baseline {
    connection: Connection,
}

/// A statement of a [`Baseline`].
#[derive(Clone, Copy, Debug)]
pub struct Statement(StatementId);

/// A value to bind.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "each says what it is")]
pub enum Cell<'v> {
    Int(i64),
    Text(&'v str),
}

/// A row of at most eight columns.
#[allow(missing_debug_implementations, reason = "it is only lent")]
pub struct BaselineRow<'r>(Row<'r, QUERY_COLUMNS>);

impl BaselineRow<'_> {
    /// Returns an integer.
    #[inline]
    #[must_use]
    pub fn int(&self, column: usize) -> i64 {
        self.0.at(column).int()
    }

    /// Returns the bytes of a text, without validation.
    #[inline]
    #[must_use]
    pub fn bytes(&self, column: usize) -> &[u8] {
        self.0.at(column).bytes()
    }
}

impl Baseline {
    /// Opens a file or a database in memory, and runs statements on it.
    ///
    /// # Errors
    /// The error of SQLite, as for the other calls.
    pub fn open(path: Option<&Path>, sql: &str) -> Result<Self> {
        let opened = match path {
            Some(path) => Connection::open_file(path),
            None => Connection::open_memory(),
        };
        let prepared = opened.and_then(|mut connection| {
            connection.execute(sql)?;
            Ok(Self { connection })
        });
        prepared.map_err(|failure| fault::of(&failure))
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// The error of SQLite.
    pub fn prepare(&mut self, sql: &str) -> Result<Statement> {
        self.connection.prepare(sql).map(Statement).map_err(|failure| fault::of(&failure))
    }

    /// Runs a statement without result rows.
    ///
    /// # Errors
    /// The error of SQLite.
    #[inline]
    pub fn run<'v>(
        &mut self,
        statement: Statement,
        values: impl IntoIterator<Item = Cell<'v>>,
    ) -> Result<()> {
        self.read(statement, values, |_| {})
    }

    /// Runs a statement and passes its rows to `take`.
    ///
    /// # Errors
    /// The error of SQLite.
    #[inline]
    pub fn read<'v>(
        &mut self,
        statement: Statement,
        values: impl IntoIterator<Item = Cell<'v>>,
        mut take: impl FnMut(&BaselineRow<'_>),
    ) -> Result<()> {
        let mut run = self.connection.start(statement.0);
        run.bind_all(values.into_iter().map(|value| match value {
            Cell::Int(number) => Bound::int(number),
            Cell::Text(text) => Bound::text(text),
        }));
        let mut cells = Cells::new();
        loop {
            match run.step() {
                Ok(true) => take(&BaselineRow(run.row(&mut cells))),
                Ok(false) => return Ok(()),
                Err(failure) => return Err(fault::of(&failure)),
            }
        }
    }

    /// Returns the key of the last inserted row.
    #[must_use]
    pub fn last_key(&self) -> i64 {
        self.connection.last_insert_rowid()
    }

    /// Returns the number of system calls of this thread that waited for the disk.
    #[must_use]
    pub fn thread_syncs() -> u64 {
        Syncs::of_thread().count()
    }
}
