//! The size of a new file's pages.
//!
//! SQLite's 4 KiB suit short rows: a commit writes whole pages. A scan of vectors reads all pages of
//! the table, one in each system call, and a page of 4 KiB is left half empty by many sizes of them.

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Kind, Result, Table};

use crate::executor::Executor;
use crate::executor::log_copy::LogCopy;
use crate::fault;
use crate::ffi::{Connection, Failure};
use crate::file::database_name::pragma_text;

/// The size of the pages of a file with vectors, in bytes.
const WITH_VECTORS: u32 = 8192;

/// Gives a file that is still empty larger pages if one of its tables has vectors. A file that is
/// encrypted, replicated or used by others keeps its pages.
pub(crate) fn fit_pages(
    executor: &mut Executor,
    tables: &[Arc<Table>],
    is_encrypted: bool,
) -> Result<()> {
    let has_vectors = tables
        .iter()
        .any(|table| table.fields().iter().any(|field| matches!(field.kind, Kind::Vector { .. })));
    let is_alone = matches!(executor.log_copy, LogCopy::None) && !is_encrypted;
    if !has_vectors || !is_alone || executor.file.is_none() {
        return Ok(());
    }
    let connection = &mut executor.connection;
    let failed = |failure: Failure| fault::of(&failure);
    if !is_empty(connection).map_err(failed)? {
        return Ok(());
    }
    // The size can only be changed without a log. Others that have the file open prevent that, and
    // a file that is no longer empty when they close it is left as it is.
    if let Ok("delete") = pragma_text(connection, "PRAGMA journal_mode=DELETE").as_deref()
        && let Ok(true) = is_empty(connection)
    {
        let _ = connection.execute(&format!("PRAGMA page_size={WITH_VECTORS}; VACUUM"));
    }
    match pragma_text(connection, "PRAGMA journal_mode=WAL").map_err(failed)?.as_str() {
        "wal" => Ok(()),
        mode => {
            let message = format!("the new database cannot have a write-ahead log, but `{mode}`");
            Err(Error::new(ErrorKind::Io, message))
        }
    }
}

fn is_empty(connection: &mut Connection) -> Result<bool, Failure> {
    let mut is_empty = true;
    connection.query("SELECT 1 FROM sqlite_schema LIMIT 1", |_| is_empty = false)?;
    Ok(is_empty)
}
