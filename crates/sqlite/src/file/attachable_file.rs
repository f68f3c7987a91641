//! The file of an engine, for connections of other engines of the store.

use std::sync::Arc;

use marmota_model::Result;

use crate::commit::group_commit::closed;
use crate::ffi::Connection;
use crate::file::encryption::FileEncryption;
use crate::file::options::Location;

/// A database that other engines attach.
#[derive(Debug)]
pub(crate) struct AttachableFile {
    pub(crate) location: Location,
    pub(crate) is_exclusive: bool,
    pub(crate) encryption: Arc<FileEncryption>,
}

impl AttachableFile {
    /// Returns the reason why a connection of another engine cannot see the database, with a
    /// solution, or `None` if it can.
    pub(crate) fn unseen(&self, only_reads: bool) -> Option<&'static str> {
        match self.location {
            Location::Memory => Some(
                "the database is in SQLite's memory, which only one connection can read; keep the \
                 table in a file, in the memory engine, or in the first database",
            ),
            Location::File(_) if self.is_exclusive => Some(
                "the file is opened with `exclusive`, so other connections cannot read it; open \
                 the database without `exclusive`, or keep the table in the first database",
            ),
            Location::File(_) if !only_reads => Some(
                "a statement can use another file only if it reads, runs outside of transactions, \
                 and the first database is a file without `exclusive`",
            ),
            Location::File(_) => None,
        }
    }

    /// Attaches the file to a connection of another engine.
    pub(crate) fn attach_to(&self, connection: &mut Connection, name: &str) -> Result<()> {
        let Location::File(path) = &self.location else { return Err(closed()) };
        self.encryption.attach(connection, path, name)
    }
}
