//! A copy of a database that is in use, and a database from a copy.
//!
//! Pages are copied inside a read transaction of a connection of its own, so
//! that they are of one moment while others go on writing to the log; the
//! price is that the log cannot begin anew until the copy is done. `VACUUM INTO`
//! would do the same by building every table and index again (see
//! `examples/backup.rs`), and says nothing of how far it is.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::backup::Copied;
use marmota_store::private_file::{self, have_folder};

use crate::alone::{Beside, Content, check, content, have_alone, sync_folder_of, with_suffix};
use crate::engine::{Shared, Sqlite, place_of, text_of};
use crate::fault;
use crate::ffi::{Connection, Failure};
use crate::options::{Location, Options, parse};
use crate::vault::{Vault, at_place};

/// 1 MiB of pages of the usual size, and `progress` hears of each.
const PAGES_A_STEP: u32 = 256;
/// What the database is called while it is copied to its place.
const NEW: &str = ".restored";
/// What the old database is called until the new one is in its place.
const OLD: &str = ".before-restore";

impl Shared {
    /// Copies the database to a new file and checks the copy.
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
        let at = |failure: Failure| at_place(&failure, &place_of(path));
        // The header was copied with the mode of a file that has a log.
        to.execute("PRAGMA journal_mode=DELETE").map_err(at)?;
        if check(&mut to, path)? != content {
            let message = format!("{}: it does not hold what was copied", place_of(path));
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

/// Copies inside a transaction, and says what there was in it.
fn copy(
    source: &mut Connection,
    to: &mut Connection,
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Content> {
    let failed = |failure: Failure| fault::of(&failure);
    // A snapshot is taken by the first read, not by BEGIN.
    source.execute("BEGIN; SELECT count(*) FROM sqlite_schema").map_err(failed)?;
    let copied = to
        .copy_from(source, PAGES_A_STEP, progress)
        .map_err(|failure| at_place(&failure, &place_of(path)))
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
        .map_err(|failure| at_place(&failure, &place_of(path)))?;
    match torn {
        None => Ok(()),
        Some(table) => {
            let message = format!(
                "{}: rows of `{table}` refer to rows that are not there, as they do in the \
                 database: correct them there",
                place_of(path)
            );
            Err(Error::new(ErrorKind::Engine, message))
        }
    }
}

impl Sqlite {
    /// Puts a backup in the place of the database that a URL names; what is
    /// there is replaced only if `replaces` says so, and is kept until the new
    /// one is in its place. Whenever this is interrupted, the database is the
    /// old one or the new one, whole.
    ///
    /// The backup was compared with its manifest before: see
    /// [`marmota_store::backup::Manifest::verify`]. `tables` has the rows of each.
    ///
    /// # Errors
    /// - [`ErrorKind::Conflict`] if there is a database and it is not to be
    ///   replaced.
    /// - [`ErrorKind::Busy`] if anybody has that open.
    /// - [`ErrorKind::Invalid`] for a URL that names no file.
    /// - [`ErrorKind::Denied`] if the key is not the backup's,
    ///   [`ErrorKind::Engine`] if the backup is damaged.
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

    /// [`Sqlite::restore`] to a place that no URL names.
    ///
    /// # Errors
    /// As [`Sqlite::restore`].
    pub fn restore_to(
        location: &Location,
        options: &Options,
        from: &Path,
        tables: &BTreeMap<String, u64>,
        replaces: bool,
    ) -> Result<()> {
        let Location::File(path) = location else {
            let message = "a backup is restored to a file: name one, as in sqlite:data/app.db";
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        if path.exists() && !replaces {
            let message = format!(
                "{} is there: name another file, or have it replaced (`--replace`)",
                place_of(path)
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let vault = Vault::new(options);
        // Taken first, so that a long copy is not made in vain.
        let held = hold(&vault, path)?;
        let disk = |error: std::io::Error| {
            let message =
                format!("{}: it was not restored ({error}): check the disk", place_of(path));
            Error::new(ErrorKind::Io, message).with_source(error)
        };
        have_folder(path, options.create_folders)?;
        let new = Beside::of(path, NEW).map_err(disk)?;
        copy_file(from, &new.0).map_err(disk)?;
        let mut connection = vault.open(&new.0)?;
        // The first that reads it: here a wrong key is seen.
        text_of(&mut connection, "PRAGMA encoding")
            .map_err(|failure| vault.at(&failure, &new.0))?;
        let held_by_it = check(&mut connection, &new.0)?.rows.into_iter().collect();
        drop(connection);
        if *tables != held_by_it {
            let message = format!("{}: it does not hold what its manifest says", from.display());
            return Err(Error::new(ErrorKind::Engine, message));
        }
        put_in_place(&new.0, path).map_err(disk)?;
        drop(held);
        Ok(())
    }
}

/// Copies a file for its owner alone, whatever mode it has.
fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    let (mut from, mut to) = (File::open(from)?, private_file::create(to)?);
    std::io::copy(&mut from, &mut to)?;
    to.sync_all()
}

/// Keeps others out of the database that is to be replaced. One that is
/// damaged cannot be locked.
fn hold(vault: &Vault, path: &Path) -> Result<Option<Connection>> {
    if !path.exists() {
        return Ok(None);
    }
    let mut old = match vault.open(path) {
        Err(error) if error.kind() == ErrorKind::Engine => return Ok(None),
        opened => opened?,
    };
    match text_of(&mut old, "PRAGMA encoding") {
        Ok(_) => {}
        Err(failure) => {
            let error = vault.at(&failure, path);
            return if error.kind() == ErrorKind::Engine { Ok(None) } else { Err(error) };
        }
    }
    match have_alone(&mut old, path, "restore the backup") {
        Err(error) if error.kind() == ErrorKind::Engine => Ok(None),
        done => done.map(|()| Some(old)),
    }
}

/// The old database keeps a second name until the new one is in its place,
/// and so do logs that a damaged one has left: they must not be taken for the
/// new one's.
fn put_in_place(new: &Path, path: &Path) -> std::io::Result<()> {
    let aside = Beside::of(path, OLD)?;
    let mut logs = Vec::new();
    for log in ["-wal", "-shm", "-journal"].map(|suffix| with_suffix(path, suffix)) {
        if log.exists() {
            let aside = Beside::of(&log, OLD)?;
            std::fs::rename(&log, &aside.0)?;
            logs.push(aside);
        }
    }
    if path.exists() {
        std::fs::hard_link(path, &aside.0)?;
        std::fs::set_permissions(new, std::fs::metadata(path)?.permissions())?;
    }
    std::fs::rename(new, path)?;
    sync_folder_of(path)?;
    drop((aside, logs));
    sync_folder_of(path)
}
