//! Opening the connection that writes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Durability;
use marmota_store::private_file::have_folder;

use crate::ffi::{Connection, Failure, code};
use crate::file::database_name::{database_name, location_name, pragma_text};
use crate::file::encryption::{FileEncryption, error_at};
use crate::file::failed_sync::write_log_anew;
use crate::file::lock_owner;
use crate::file::options::{Location, SqliteOptions};

/// The pause before a locked file is opened again.
const OPEN_AGAIN: Duration = Duration::from_millis(5);
/// The log is truncated to this size after a checkpoint.
const LOG_BYTES_MAX: u64 = 64 << 20;

/// Opens the writing connection and checks that it can write.
pub(crate) fn connect(
    location: &Location,
    options: &SqliteOptions,
    encryption: &FileEncryption,
) -> Result<Connection> {
    match location {
        Location::Memory => connect_to_memory(options),
        Location::File(path) => {
            have_folder(path, options.create_folders)?;
            let is_new = !path.exists();
            let connected = match connect_in_time(path, options, encryption) {
                Err(error) if encryption.lost_race(&error) => {
                    connect_in_time(path, options, encryption)
                }
                done => done,
            };
            if is_new && connected.is_ok() {
                log::info!("created {}", database_name(path));
            }
            connected
        }
    }
}

fn connect_to_memory(options: &SqliteOptions) -> Result<Connection> {
    options.refuse_key_of_memory()?;
    let at = |failure: Failure| error_at(&failure, &location_name(&Location::Memory));
    let mut connection = Connection::open_memory().map_err(at)?;
    connection.busy_timeout_ms(options.busy_timeout_ms);
    connection.execute("PRAGMA trusted_schema=OFF").map_err(at)?;
    Ok(connection)
}

/// Opens a file that others may have locked. SQLite itself waits for locks, except for the one that
/// starts a write-ahead log.
fn connect_in_time(
    path: &Path,
    options: &SqliteOptions,
    encryption: &FileEncryption,
) -> Result<Connection> {
    let timeout = Duration::from_millis(options.busy_timeout_ms.into());
    let started = Instant::now();
    loop {
        match connect_to_file(path, options, encryption) {
            Err(error) if error.kind() == ErrorKind::Busy => {
                if started.elapsed() >= timeout {
                    return Err(lock_owner::busy(path, started.elapsed()).with_source(error));
                }
                std::thread::sleep(OPEN_AGAIN);
            }
            done => return done,
        }
    }
}

/// Returns the file and the timeout that a executor uses in errors about locks.
pub(crate) fn file_of(location: &Location, options: &SqliteOptions) -> Option<(PathBuf, Duration)> {
    match location {
        Location::File(path) => {
            Some((path.clone(), Duration::from_millis(options.busy_timeout_ms.into())))
        }
        Location::Memory => None,
    }
}

fn connect_to_file(
    path: &Path,
    options: &SqliteOptions,
    encryption: &FileEncryption,
) -> Result<Connection> {
    let place = database_name(path);
    let at = |failure: Failure| encryption.at(&failure, path);
    let mut connection = encryption.open(path)?;
    connection.busy_timeout_ms(options.busy_timeout_ms);
    if options.exclusive {
        // Before the first read of the file, which some PRAGMAs do: from then on, its log and so
        // the file would be shared.
        connection.execute("PRAGMA locking_mode=EXCLUSIVE").map_err(at)?;
    }
    connection.execute("PRAGMA trusted_schema=OFF").map_err(at)?;
    connection.execute(&cache_sql(options)).map_err(at)?;
    // The first read of the file, which detects files that are not databases.
    let encoding = pragma_text(&mut connection, "PRAGMA encoding").map_err(at)?;
    if encoding != "UTF-8" {
        let message = format!(
            "{place}: the database is encoded in {encoding}; copy it to a new database in UTF-8 \
             (`sqlite3 old.db .dump | sqlite3 new.db`)"
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    if connection.is_readonly() {
        let failure = Failure::new(code::READONLY, "attempt to open for writing");
        return Err(error_at(&failure, &place));
    }
    let mode = pragma_text(&mut connection, "PRAGMA journal_mode=WAL").map_err(at)?;
    if mode != "wal" {
        let message = format!(
            "{place}: the folder does not support a write-ahead log (the journal mode stays \
             `{mode}`); use a local disk, or the option `exclusive`"
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    write_log_anew(&mut connection, path, options.busy_timeout_ms)?;
    let synchronous = match options.durability {
        Durability::Full => "FULL",
        Durability::Relaxed => "NORMAL",
        Durability::None => "OFF",
    };
    connection
        .execute(&format!(
            "PRAGMA synchronous={synchronous}; PRAGMA fullfsync=ON; \
             PRAGMA journal_size_limit={LOG_BYTES_MAX}; PRAGMA wal_autocheckpoint=0"
        ))
        .map_err(at)?;
    Ok(connection)
}

/// Returns the statement that sets the size of a connection's cache.
pub(crate) fn cache_sql(options: &SqliteOptions) -> String {
    // A negative number is in KiB instead of pages.
    format!("PRAGMA cache_size=-{}", (options.cache_bytes_max >> 10).clamp(16, i32::MAX as u64))
}
