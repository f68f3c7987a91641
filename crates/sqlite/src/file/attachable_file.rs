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
                "it is in SQLite's memory, which its own connection alone reads; keep the table \
                 in a file, in the memory engine, or in the first database",
            ),
            Location::File(_) if self.is_exclusive => Some(
                "its file is exclusive, so that no other connection reads it; open it without \
                 `exclusive`, or keep the table in the first database",
            ),
            Location::File(_) if !only_reads => Some(
                "another file is seen by statements that read, outside of transactions, and where \
                 the first database is a file that is not exclusive",
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
