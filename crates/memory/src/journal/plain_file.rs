//! Files that have no log.

use std::path::Path;

use marmota_model::{Error, ErrorKind, Result};

use crate::data_file;
use crate::data_file::contents::Loaded;
use crate::encryption::file_encryption::FileEncryption;
use crate::journal;

/// Reads a file without a log.
///
/// # Errors
/// [`ErrorKind::Io`] if it cannot be read, [`ErrorKind::Invalid`] if it is damaged or not a file of
/// this engine, or if a log has later data, [`ErrorKind::Denied`] without its key; all messages
/// have its path.
pub(crate) fn load(path: &Path, encryption: &FileEncryption) -> Result<Loaded> {
    check_without_log(path)?;
    let read = data_file::read(path, encryption)?;
    Ok(Loaded { path: path.to_owned(), schema: read.schema, tables: read.tables })
}

/// Refuses a file that has a log.
pub(crate) fn check_without_log(path: &Path) -> Result<()> {
    if let Some(log) = journal::first_log(path)? {
        let message = format!(
            "{} is not complete: later writes are in its log {}; open the file with \
             ?durability=full, relaxed or none",
            path.display(),
            log.display()
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(())
}
