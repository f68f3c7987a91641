//! Statements by hand, for measurements (feature `bench`): what a program in C
//! would do, on the same build of SQLite, with nothing of models around it.
//! Values move a row a call, as the engine moves them, which is faster than
//! SQLite's own calls: the floor lies rather high than low.

use std::path::Path;

use marmota_model::Result;

use crate::fault;
use crate::ffi::{Bound, Cells, Connection, QUERY_COLUMNS, Row, StatementId, Syncs};

/// A connection with statements that were written by hand.
#[derive(Debug)]
pub struct ByHand {
    connection: Connection,
}

/// A statement of a [`ByHand`].
#[derive(Clone, Copy, Debug)]
pub struct Statement(StatementId);

/// A value to be bound.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "each says what it is")]
pub enum Cell<'v> {
    Int(i64),
    Text(&'v str),
}

/// A row of eight columns at most.
#[allow(missing_debug_implementations, reason = "it is only lent")]
pub struct RowByHand<'r>(Row<'r, QUERY_COLUMNS>);

impl RowByHand<'_> {
    /// An integer.
    #[inline]
    #[must_use]
    pub fn int(&self, column: usize) -> i64 {
        self.0.at(column).int()
    }

    /// The bytes of a text, which nobody has looked at.
    #[inline]
    #[must_use]
    pub fn bytes(&self, column: usize) -> &[u8] {
        self.0.at(column).bytes()
    }
}

impl ByHand {
    /// Opens a file, or a database in memory, and runs statements on it.
    ///
    /// # Errors
    /// SQLite's, as for the other calls.
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
    /// SQLite's.
    pub fn prepare(&mut self, sql: &str) -> Result<Statement> {
        self.connection.prepare(sql).map(Statement).map_err(|failure| fault::of(&failure))
    }

    /// Runs a statement that gives no rows.
    ///
    /// # Errors
    /// SQLite's.
    #[inline]
    pub fn run<'v>(
        &mut self,
        statement: Statement,
        values: impl IntoIterator<Item = Cell<'v>>,
    ) -> Result<()> {
        self.read(statement, values, |_| {})
    }

    /// Runs a statement and lends its rows.
    ///
    /// # Errors
    /// SQLite's.
    #[inline]
    pub fn read<'v>(
        &mut self,
        statement: Statement,
        values: impl IntoIterator<Item = Cell<'v>>,
        mut take: impl FnMut(&RowByHand<'_>),
    ) -> Result<()> {
        let mut run = self.connection.start(statement.0);
        run.bind_all(values.into_iter().map(|value| match value {
            Cell::Int(number) => Bound::int(number),
            Cell::Text(text) => Bound::text(text),
        }));
        let mut cells = Cells::new();
        loop {
            match run.step() {
                Ok(true) => take(&RowByHand(run.row(&mut cells))),
                Ok(false) => return Ok(()),
                Err(failure) => return Err(fault::of(&failure)),
            }
        }
    }

    /// The key of the last row inserted.
    #[must_use]
    pub fn last_key(&self) -> i64 {
        self.connection.last_insert_rowid()
    }

    /// How many system calls of this thread have waited for the disk.
    #[must_use]
    pub fn thread_syncs() -> u64 {
        Syncs::of_thread().count()
    }
}
