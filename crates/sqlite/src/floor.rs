//! One statement by hand, for measurements (feature `simulated-disk`): what a
//! program in C would do, on the same build of SQLite.

use std::path::Path;

use marmota_model::Result;

use crate::fault;
use crate::ffi::{Bound, Connection, StatementId};

/// A statement of one integer, each time in a transaction of its own that
/// waits for the disk.
#[derive(Debug)]
pub struct Inserts {
    connection: Connection,
    statement: StatementId,
}

impl Inserts {
    /// Opens a file with a write-ahead log and prepares the statement.
    ///
    /// # Errors
    /// SQLite's.
    pub fn open(path: &Path, sql: &str) -> Result<Self> {
        let opened = Connection::open_file(path).and_then(|mut connection| {
            connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")?;
            let statement = connection.prepare(sql)?;
            Ok(Self { connection, statement })
        });
        opened.map_err(|failure| fault::of(&failure))
    }

    /// Runs it.
    ///
    /// # Errors
    /// SQLite's.
    pub fn insert(&mut self, number: i64) -> Result<()> {
        let mut run = self.connection.start(self.statement);
        run.bind(Bound::int(number));
        run.finish().map(drop).map_err(|failure| fault::of(&failure))
    }
}
