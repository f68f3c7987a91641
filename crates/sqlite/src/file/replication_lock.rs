//! The lock of the process that replicates a database: a locked file next to it.
//!
//! Only that process may move the log to the file. The lock ends with the process.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use marmota_model::{Error, ErrorKind, Result};

use crate::file::database_name::database_name;
use crate::file::exclusive_file::with_suffix;

/// The suffix of the locked file. It stays when the lock is released.
const SUFFIX: &str = "-replicating";

/// Takes the lock, which is held as long as the file is open.
///
/// # Errors
/// [`ErrorKind::Busy`] if another engine has it.
pub(crate) fn take(path: &Path) -> Result<File> {
    let lock = with_suffix(path, SUFFIX);
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&lock);
    let locked = opened.and_then(|file| match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    });
    match locked {
        Ok(Some(file)) => Ok(file),
        Ok(None) => Err(Error::new(ErrorKind::Busy, refusal(path))),
        Err(error) => {
            let message = format!("{} cannot be locked: {error}", lock.display());
            Err(Error::new(ErrorKind::Io, message).with_source(error))
        }
    }
}

/// Returns the error message for writes if another engine replicates the database.
pub(crate) fn taken_elsewhere(path: &Path) -> Option<Box<str>> {
    let file = File::open(with_suffix(path, SUFFIX)).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(refusal(path).into()),
        _ => None,
    }
}

fn refusal(path: &Path) -> String {
    format!(
        "{} is replicated by another process, which alone may write to it: write through its \
         server, or stop it first",
        database_name(path)
    )
}
