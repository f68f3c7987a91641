//! The handling of failed syncs: the engine accepts no more writes, and the outcome of the waiting
//! commit is unknown.
//!
//! Linux marks the pages of a failed fsync clean, so a second fsync succeeds although they never
//! reached the disk. Then no later commit can be trusted, because a log is read up to its first
//! gap. Reads continue: they see what was committed before. When a file is opened again, its log is
//! rewritten first ([`write_log_anew`]), so that the pages are dirty again.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::private_file::sync_folder_of;

use crate::ffi::{Connection, Failure, code};
use crate::file::database_name::database_name;
use crate::file::exclusive_file::with_suffix;

/// The number of bytes of a log that are copied at once.
const CHUNK_BYTES: usize = 256 << 10;
/// SQLite's sizes of the log's header and of the header of each page in it.
const LOG_HEADER_BYTES: u64 = 32;
const FRAME_HEADER_BYTES: u64 = 24;

/// The reason why an engine accepts no more writes.
#[derive(Debug)]
pub(crate) struct Stopped(Box<str>);

impl Stopped {
    /// Creates the reason from this thread's last failed sync, and logs it.
    #[cold]
    pub(crate) fn by_failed_sync(path: Option<&Path>) -> Self {
        let place = path.map_or_else(|| "the database".to_owned(), database_name);
        let error = io::Error::from_raw_os_error(crate::ffi::thread_sync_errno());
        let message = format!(
            "{place} accepts no more writes, because fsync failed ({error}): recent writes may be \
             lost; check the disk, then restart the program"
        );
        log::error!("{message}");
        Self(message.into())
    }

    /// Returns the error for a later write, of which nothing was written.
    #[cold]
    pub(crate) fn error(&self) -> Error {
        Error::new(ErrorKind::Io, &*self.0)
    }
}

/// Returns the error for a commit that may or may not be on the disk.
#[cold]
pub(crate) fn unknown(words: &str) -> Error {
    let message = format!(
        "the disk failed at the commit ({words}): the write may or may not have been committed; \
         read the row before you retry"
    );
    Error::new(ErrorKind::Lost, message)
}

/// Returns true if a COMMIT that failed with this code may be on the disk all the same: its pages
/// were in the log before it failed.
pub(crate) fn leaves_unknown(code: std::ffi::c_int) -> bool {
    match code & 0xff {
        code::IOERR => {
            !matches!(code, code::IOERR_READ | code::IOERR_SHORT_READ | code::IOERR_WRITE)
        }
        code::NOMEM | code::INTERNAL => true,
        _ => false,
    }
}

/// Rewrites the log of a file with the same bytes, and syncs it: an earlier sync may have failed,
/// after which its pages count as clean. If another process is writing, the log is left to that
/// process.
pub(crate) fn write_log_anew(connection: &mut Connection, path: &Path, busy_ms: u32) -> Result<()> {
    let log = with_suffix(path, "-wal");
    if std::fs::metadata(&log).map_or(0, |file| file.len()) <= LOG_HEADER_BYTES {
        return Ok(());
    }
    let at = |failure: Failure| crate::file::encryption::error_at(&failure, &database_name(path));
    connection.busy_timeout_ms(0);
    // While this connection may write, no other process extends or restarts the log.
    let begun = connection.execute("BEGIN IMMEDIATE");
    connection.busy_timeout_ms(busy_ms);
    match begun {
        Err(failure) if failure.code() & 0xff == code::BUSY => return Ok(()),
        begun => begun.map_err(at)?,
    }
    let done = page_bytes(connection).map_err(at).and_then(|page_bytes| {
        let frames = u64::from(connection.log_pages());
        let bytes = LOG_HEADER_BYTES + frames * (FRAME_HEADER_BYTES + page_bytes);
        if frames == 0 { Ok(()) } else { rewrite(&log, bytes).map_err(|error| failed(path, error)) }
    });
    connection.execute("ROLLBACK").map_err(at)?;
    done
}

fn page_bytes(connection: &mut Connection) -> std::result::Result<u64, Failure> {
    let mut bytes = 0;
    connection.query("PRAGMA page_size", |row| bytes = row.at(0).int().cast_unsigned())?;
    Ok(bytes)
}

fn failed(path: &Path, error: io::Error) -> Error {
    let message = format!(
        "{}: the log cannot be written to the disk ({error}): check the disk",
        database_name(path)
    );
    Error::new(ErrorKind::Io, message).with_source(error)
}

fn rewrite(log: &Path, bytes: u64) -> io::Result<()> {
    // Closing it drops no locks: SQLite has none on its log.
    let file = OpenOptions::new().read(true).write(true).open(log)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    while offset < bytes {
        let length = chunk.len().min(usize::try_from(bytes - offset).unwrap_or(usize::MAX));
        let chunk = &mut chunk[..length];
        file.read_exact_at(chunk, offset)?;
        simulated(log, &Step::Write { offset, bytes: chunk })?;
        file.write_all_at(chunk, offset)?;
        offset += length as u64;
    }
    simulated(log, &Step::Sync)?;
    file.sync_data()?;
    simulated(log, &Step::Synced)?;
    simulated(log, &Step::SyncFolder)?;
    sync_folder_of(log)
}

#[cfg(feature = "simulated-disk")]
use crate::ffi::disk::VfsCall as Step;

/// The operations reported to the simulated disk.
#[cfg(not(feature = "simulated-disk"))]
#[allow(dead_code, reason = "only the simulated disk reads it")]
enum Step<'a> {
    Write { offset: u64, bytes: &'a [u8] },
    Sync,
    Synced,
    SyncFolder,
}

#[cfg(feature = "simulated-disk")]
fn simulated(path: &Path, step: &Step<'_>) -> io::Result<()> {
    if crate::file::disk::intercept(path, step) {
        Ok(())
    } else {
        Err(io::Error::other("it fails"))
    }
}

#[cfg(not(feature = "simulated-disk"))]
#[allow(clippy::unnecessary_wraps, reason = "the simulated disk fails")]
fn simulated(_: &Path, _: &Step<'_>) -> io::Result<()> {
    Ok(())
}
