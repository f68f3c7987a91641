//! Backup of a database in use, and restore from a backup.
//!
//! Pages are copied inside a read transaction of a separate connection, so that they are a
//! consistent snapshot while others continue to write to the log. The price is that the log cannot
//! restart until the copy is done. `VACUUM INTO` would do the same by rebuilding every table and
//! index (see `examples/backup.rs`), and does not report its progress.

#[cfg(feature = "encryption")]
pub(crate) mod rekey;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::backup::Copied;
use marmota_store::private_file::{self, have_folder, sync_folder_of};

use crate::engine::Sqlite;
use crate::fault;
use crate::ffi::{Connection, Failure};
use crate::file::database_name::{database_name, pragma_text};
use crate::file::encryption::{FileEncryption, error_at};
use crate::file::exclusive_file::{
    Content, check, content, lock_exclusively, temporary, with_suffix,
};
use crate::file::options::{Location, SqliteOptions, parse};
use crate::file::replication_lock;
use crate::session::shared::Shared;

/// 1 MiB of pages of the default size; `progress` is called after each step.
const PAGES_A_STEP: u32 = 256;
/// The suffix of the database while it is copied to its place.
const NEW: &str = ".restored";
/// The suffix of the old database until the new one is in its place.
const OLD: &str = ".before-restore";

impl Shared {
    /// Copies the database to a new file and verifies the copy.
    pub(crate) fn copy_to(
        &self,
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Copied> {
        let mut to = self.open_copy(path)?;
        let content = if self.one_connection {
            self.with_writer(|source| copy(source, &mut to, path, progress))??
        } else {
            let mut source = self.open_source()?;
            copy(&mut source, &mut to, path, progress)?
        };
        let at = |failure: Failure| error_at(&failure, &database_name(path));
        // The header was copied from a file in WAL mode.
        to.execute("PRAGMA journal_mode=DELETE").map_err(at)?;
        if check(&mut to, path)? != content {
            let message = format!("{}: the copy differs from the database", database_name(path));
            return Err(Error::new(ErrorKind::Engine, message));
        }
        check_references(&mut to, path)?;
        let mut schema_version = 0;
        to.query("PRAGMA user_version", |row| schema_version = row.at(0).int()).map_err(at)?;
        Ok(Copied {
            engine: "sqlite",
            engine_version: Sqlite::sqlite_version().to_owned(),
            schema_version: u32::try_from(schema_version).unwrap_or(0),
            encrypted: self.is_encrypted(),
            tables: content.rows.into_iter().collect(),
        })
    }
}

/// Copies inside a transaction. Returns the content of the source.
fn copy(
    source: &mut Connection,
    to: &mut Connection,
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Content> {
    let failed = |failure: Failure| fault::of(&failure);
    // The first read takes the snapshot, not BEGIN.
    source.execute("BEGIN; SELECT count(*) FROM sqlite_schema").map_err(failed)?;
    let copied = to
        .copy_from(source, PAGES_A_STEP, progress)
        .map_err(|failure| error_at(&failure, &database_name(path)))
        .and_then(|()| content(source).map_err(failed));
    let ended = source.execute("ROLLBACK").map_err(failed);
    copied.and_then(|content| ended.map(|()| content))
}

fn check_references(connection: &mut Connection, path: &Path) -> Result<()> {
    let mut torn = None;
    connection
        .query("SELECT \"table\" FROM pragma_foreign_key_check LIMIT 1", |row| {
            torn = Some(String::from_utf8_lossy(row.at(0).bytes()).into_owned());
        })
        .map_err(|failure| error_at(&failure, &database_name(path)))?;
    match torn {
        None => Ok(()),
        Some(table) => {
            let message = format!(
                "{}: rows of `{table}` refer to rows that do not exist, in the backup and in the \
                 database: correct them in the database",
                database_name(path)
            );
            Err(Error::new(ErrorKind::Engine, message))
        }
    }
}

impl Sqlite {
    /// Restores a backup to the database of a URL. An existing database is replaced only if
    /// `replaces` is true, and is kept until the new one is in its place. If this is interrupted at
    /// any point, the database is either the old one or the new one, complete.
    ///
    /// The backup must have been compared with its manifest: see
    /// [`marmota_store::backup::Manifest::verify`]. `tables` has the number of rows of each table.
    ///
    /// # Errors
    /// - [`ErrorKind::Conflict`] if the database exists and `replaces` is false.
    /// - [`ErrorKind::Busy`] if the database is open elsewhere.
    /// - [`ErrorKind::Invalid`] for a URL without a file.
    /// - [`ErrorKind::Denied`] if the key is not the backup's, [`ErrorKind::Engine`] if the backup
    ///   is damaged.
    /// - [`ErrorKind::Io`] if the disk fails or is full.
    pub fn restore(
        url: &str,
        from: &Path,
        tables: &BTreeMap<String, u64>,
        replaces: bool,
    ) -> Result<()> {
        let (location, mut options) = parse(url)?;
        options.take_key_from_environment(&location)?;
        Self::restore_to(&location, &options, from, tables, replaces)
    }

    /// Parses the URL of a database, as [`Sqlite::from_url`] does. The key of an encrypted file
    /// comes from the environment.
    ///
    /// # Errors
    /// As [`Sqlite::from_url`], without those of the file.
    pub fn parse_url(url: &str) -> Result<(Location, SqliteOptions)> {
        let (location, mut options) = parse(url)?;
        options.take_key_from_environment(&location)?;
        Ok((location, options))
    }

    /// Moves what is left of the log to the file, of a database that is not open. It is for work on
    /// the file itself. `then` is the end of the error message: what to do after closing the
    /// database elsewhere.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if the database is open elsewhere, [`ErrorKind::NotFound`] if there is no
    /// file, [`ErrorKind::Invalid`] for a database in memory; those of [`Sqlite::open`].
    pub fn settle(location: &Location, options: &SqliteOptions, then: &str) -> Result<()> {
        let Location::File(path) = location else {
            return Err(Error::new(ErrorKind::Invalid, "a database in memory has no file"));
        };
        if !path.exists() {
            let message = format!("{} does not exist", database_name(path));
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        let lock = replication_lock::take(path)?;
        let encryption = FileEncryption::new(options);
        let mut connection = encryption.open(path)?;
        pragma_text(&mut connection, "PRAGMA encoding")
            .map_err(|failure| encryption.at(&failure, path))?;
        lock_exclusively(&mut connection, path, then)?;
        drop((connection, lock));
        Ok(())
    }

    /// Like [`Sqlite::restore`], for a location instead of a URL.
    ///
    /// # Errors
    /// As [`Sqlite::restore`].
    pub fn restore_to(
        location: &Location,
        options: &SqliteOptions,
        from: &Path,
        tables: &BTreeMap<String, u64>,
        replaces: bool,
    ) -> Result<()> {
        let copy = |new: &Path| {
            copy_file(from, new).map_err(|error| {
                let message = format!("{} cannot be copied: {error}", from.display());
                Error::new(ErrorKind::Io, message).with_source(error)
            })
        };
        let found = Self::install(location, options, replaces, copy, |found| {
            if found == tables {
                return Ok(());
            }
            let message = format!("{}: its rows differ from its manifest", from.display());
            Err(Error::new(ErrorKind::Engine, message))
        });
        found.map(drop)
    }

    /// Installs a file that `make` writes as the database of a location, after a check of all of
    /// it (`PRAGMA integrity_check`). An existing database is replaced as by [`Sqlite::restore`].
    /// `accept` is called with the number of rows of each table before the file is in its place.
    /// Returns these numbers.
    ///
    /// # Errors
    /// As [`Sqlite::restore`], and those of `make` and `accept`.
    pub fn install(
        location: &Location,
        options: &SqliteOptions,
        replaces: bool,
        make: impl FnOnce(&Path) -> Result<()>,
        accept: impl FnOnce(&BTreeMap<String, u64>) -> Result<()>,
    ) -> Result<BTreeMap<String, u64>> {
        let Location::File(path) = location else {
            let message = "a backup can only be restored to a file: name one, as in \
                           sqlite:data/app.db";
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        if path.exists() && !replaces {
            let message = format!(
                "{} exists: name another file, or replace the file with `--replace`",
                database_name(path)
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let encryption = FileEncryption::new(options);
        // Locked first, so that a long copy is not made in vain.
        let held = hold(&encryption, path)?;
        let disk = |error: std::io::Error| {
            let message = format!(
                "{}: the backup was not restored ({error}): check the disk",
                database_name(path)
            );
            Error::new(ErrorKind::Io, message).with_source(error)
        };
        have_folder(path, options.create_folders)?;
        let new = temporary(path, NEW).map_err(disk)?;
        make(new.path())?;
        let mut connection = encryption.open(new.path())?;
        // This is the first read, which detects a wrong key.
        pragma_text(&mut connection, "PRAGMA encoding")
            .map_err(|failure| encryption.at(&failure, new.path()))?;
        // A copy of a file in use is in WAL mode, which would leave a log next to it.
        connection
            .execute("PRAGMA journal_mode=DELETE")
            .map_err(|failure| encryption.at(&failure, new.path()))?;
        let found = check(&mut connection, new.path())?.rows.into_iter().collect();
        drop(connection);
        accept(&found)?;
        put_in_place(new.path(), path).map_err(disk)?;
        drop(held);
        Ok(found)
    }
}

/// Copies a file with access for its owner only, regardless of the mode of the original.
fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    let (mut from, mut to) = (File::open(from)?, private_file::create(to)?);
    std::io::copy(&mut from, &mut to)?;
    to.sync_all()
}

/// Locks the database that is to be replaced. A damaged one cannot be locked.
fn hold(encryption: &FileEncryption, path: &Path) -> Result<Option<Connection>> {
    if !path.exists() {
        return Ok(None);
    }
    let mut old = match encryption.open(path) {
        Err(error) if error.kind() == ErrorKind::Engine => return Ok(None),
        opened => opened?,
    };
    match pragma_text(&mut old, "PRAGMA encoding") {
        Ok(_) => {}
        Err(failure) => {
            let error = encryption.at(&failure, path);
            return if error.kind() == ErrorKind::Engine { Ok(None) } else { Err(error) };
        }
    }
    match lock_exclusively(&mut old, path, "restore the backup") {
        Err(error) if error.kind() == ErrorKind::Engine => Ok(None),
        done => done.map(|()| Some(old)),
    }
}

/// Moves the new database into place. Until that is done, the old database keeps a second name.
/// Logs that a damaged database has left are renamed as well, so that they are not applied to the
/// new one.
fn put_in_place(new: &Path, path: &Path) -> std::io::Result<()> {
    let aside = temporary(path, OLD)?;
    let mut logs = Vec::new();
    for log in ["-wal", "-shm", "-journal"].map(|suffix| with_suffix(path, suffix)) {
        if log.exists() {
            let aside = temporary(&log, OLD)?;
            std::fs::rename(&log, aside.path())?;
            logs.push(aside);
        }
    }
    if path.exists() {
        std::fs::hard_link(path, aside.path())?;
        std::fs::set_permissions(new, std::fs::metadata(path)?.permissions())?;
    }
    std::fs::rename(new, path)?;
    sync_folder_of(path)?;
    drop((aside, logs));
    sync_folder_of(path)
}
