//! Backups of a memory engine, and the restore of its files from a backup.
//!
//! The rows are written to the copy under the locks of their tables, between two transactions: they
//! are a snapshot of one moment, and writers wait while they are written. Reads continue.

#[cfg(feature = "encryption")]
pub(crate) mod rekey;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use marmota_model::{Error, ErrorKind, Result, Uuid};
use marmota_store::backup::Copied;
use marmota_store::private_file::{folder_of, have_folder};

use super::catalog::Catalog;
use super::data_file::FileFormat;
use super::data_file::contents::Loaded;
use super::data_file::replace::{failed, replace};
use super::engine::Memory;
use super::journal;
use super::shared::Shared;
use crate::data_file::snapshot::Snapshot;
use crate::encryption::file_encryption::FileEncryption;
use crate::journal::plain_file;
use crate::lock::transaction_gate::TransactionGate;

impl Shared {
    /// Writes all committed data to a new file and reads it back.
    pub(super) fn copy_to(
        &self,
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Copied> {
        self.check_open()?;
        // Rows that were read from JSON, and whose table no model has registered yet, are written
        // as they were read.
        let format = match &self.file {
            Some((_, format)) => *format,
            None => FileFormat::Binary,
        };
        self.load()?;
        let tables = self.between_transactions(|| self.save(path, format))?;
        let rows = tables.values().sum();
        progress(rows / 2, rows);
        let copy = plain_file::load(path, &self.encryption)?;
        if counted(&copy)? != tables {
            let message = format!("{}: the copy differs from the database", path.display());
            return Err(Error::new(ErrorKind::Engine, message));
        }
        progress(rows, rows);
        Ok(Copied {
            engine: "memory",
            engine_version: env!("CARGO_PKG_VERSION").to_owned(),
            schema_version: copy.schema,
            encrypted: self.encryption.has_key(),
            tables,
        })
    }
}

/// Returns the number of rows of each table of a file.
fn counted(loaded: &Loaded) -> Result<BTreeMap<String, u64>> {
    let sections = loaded.tables.iter();
    sections.map(|(name, section)| Ok((name.clone(), section.shape()?.rows))).collect()
}

impl Memory {
    /// Replaces the file that a URL names by a backup; an existing file is only replaced if
    /// `replaces` is true. If this is interrupted at any point, the file is either the old one or
    /// the new one, complete.
    ///
    /// The backup has to be compared to its manifest before: see
    /// [`marmota_store::backup::Manifest::verify`]. `tables` has the number of rows of each.
    ///
    /// # Errors
    /// - [`ErrorKind::Conflict`] if the file exists and `replaces` is false.
    /// - [`ErrorKind::Busy`] if another process has it open (a file without a log is not locked).
    /// - [`ErrorKind::Invalid`] for a URL without a file, or a file that is not a backup of this
    ///   engine.
    /// - [`ErrorKind::Denied`] if it is encrypted with another key.
    /// - [`ErrorKind::Io`] if the disk fails or is full.
    pub fn restore(
        url: &str,
        from: &Path,
        tables: &BTreeMap<String, u64>,
        replaces: bool,
    ) -> Result<()> {
        let memory = Self::replaceable(url, replaces)?;
        let path = memory.path()?;
        let encryption = &*memory.shared.encryption;
        let loaded = plain_file::load(from, encryption)?;
        if counted(&loaded)? != *tables {
            let message = format!("{}: its rows differ from its manifest", from.display());
            return Err(Error::new(ErrorKind::Engine, message));
        }
        if memory.shared.durability.is_some() {
            return replace_alone(&journal::ExclusiveFile::with(path)?, path, encryption, &loaded);
        }
        plain_file::check_without_log(path)?;
        let bytes = std::fs::read(from).map_err(|error| failed("read", from, error))?;
        // If there is a key, the bytes are encrypted with it already.
        replace(path, &FileEncryption::none(), |out| Ok(out.write_all(&bytes)))
    }

    /// Makes the file that a URL names of a snapshot and the logs after it, which `make` writes: the
    /// snapshot to the path that it gets, a log to
    /// [`log_path`](marmota_store::log_copy::log_path) of that path. Everything is read and checked
    /// before an existing file is replaced, as by [`Memory::restore`]. Returns the number of rows of
    /// each table.
    ///
    /// # Errors
    /// As [`Memory::restore`], and those of `make`; [`ErrorKind::Unsupported`] for a JSON file.
    pub fn install(
        url: &str,
        replaces: bool,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<BTreeMap<String, u64>> {
        let memory = Self::replaceable(url, replaces)?;
        let path = memory.path()?;
        if let Some((_, FileFormat::Json)) = &memory.shared.file {
            let message = format!(
                "{} is JSON, which has no log: name a file that does not end in `.json`",
                path.display()
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        // Locked first, so that a long copy is not made in vain.
        let alone = journal::ExclusiveFile::with(path)?;
        let folder = NewFolder::of(path)?;
        let new = folder.0.join("new");
        make(&new)?;
        let encryption = &*memory.shared.encryption;
        let loaded = journal::ExclusiveFile::with(&new)?.recover(encryption)?;
        let tables = counted(&loaded)?;
        replace_alone(&alone, path, encryption, &loaded)?;
        Ok(tables)
    }

    /// Returns the path of the file that a URL names.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL without a file, or of another engine.
    ///
    /// ```
    /// use marmota_memory::Memory;
    /// let path = Memory::file("memory:data/app.mem?durability=full")?;
    /// assert_eq!(path.to_str(), Some("data/app.mem"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn file(url: &str) -> Result<PathBuf> {
        Ok(Self::from_url(url)?.path()?.to_owned())
    }

    /// Makes the files of a replica, of a snapshot and the logs after it, which `make` writes as for
    /// [`Memory::install`]. They replace existing ones as they are, with the logs of the primary, which
    /// an engine with a [`CommitSink`](marmota_store::log_copy::CommitSink) of a replica continues. If
    /// this is interrupted, the files may be incomplete.
    ///
    /// # Errors
    /// As [`Memory::install`], and [`ErrorKind::Unsupported`] for a URL without a durability.
    pub fn install_replica(url: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let memory = Self::replaceable(url, true)?;
        let path = memory.path()?;
        if memory.shared.durability.is_none() {
            let message = format!(
                "a replica needs a log: write a durability, as in memory:{}?durability=full",
                path.display()
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let _alone = journal::ExclusiveFile::with(path)?;
        let folder = NewFolder::of(path)?;
        let new = folder.0.join("new");
        make(&new)?;
        journal::fetched(&new, path, &memory.shared.encryption)?;
        journal::move_files(&new, path)
    }

    /// Returns the path of the file that a URL names, after a check that no process has it open.
    /// Incomplete commits at the end of its log are cut off; `is_replica` means that a primary has them.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if a process has it open, [`ErrorKind::Invalid`] if the URL has no file or a
    /// file that is not a replica has a log, [`ErrorKind::NotFound`] if it does not exist; for a replica
    /// those of a start.
    pub fn settled_file(url: &str, is_replica: bool) -> Result<PathBuf> {
        let memory = Self::from_url(url)?;
        let path = memory.path()?;
        let alone = journal::ExclusiveFile::with(path)?;
        if !path.exists() {
            let message = format!("{}: there is no such file", path.display());
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        match is_replica {
            true => alone.cut_replica(&memory.shared.encryption)?,
            false => plain_file::check_without_log(path)?,
        }
        Ok(path.to_owned())
    }

    /// Returns the engine of a URL whose file may be replaced; its folder exists.
    fn replaceable(url: &str, replaces: bool) -> Result<Self> {
        let memory = Self::from_url(url)?;
        let path = memory.path()?;
        let is_there = path.exists() || journal::first_log(path)?.is_some();
        if is_there && !replaces {
            let message = format!(
                "{} exists: name another file, or replace the file with `--replace`",
                path.display()
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        have_folder(path, memory.shared.creates_folders)?;
        Ok(memory)
    }

    fn path(&self) -> Result<&Path> {
        self.shared.file.as_ref().map(|(path, _)| &**path).ok_or_else(|| {
            let message = "a memory engine without a file cannot be restored: name a file, as in \
                           memory:data/app.mem";
            Error::new(ErrorKind::Invalid, message)
        })
    }
}

/// A folder for the files of a new database, removed at the end.
struct NewFolder(PathBuf);

impl NewFolder {
    /// Creates the folder next to a file, of which the caller has exclusive access.
    fn of(path: &Path) -> Result<Self> {
        let name = path.file_name().unwrap_or_default();
        let folder = folder_of(path).join(format!(".{}.restore", name.display()));
        // One that a killed process has left.
        let _ = std::fs::remove_dir_all(&folder);
        let new = folder.join("new");
        have_folder(&new, true)?;
        Ok(Self(folder))
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes the loaded data the snapshot before a log that is still to begin: all existing logs are
/// older than it.
pub(super) fn replace_alone(
    alone: &journal::ExclusiveFile<'_>,
    path: &Path,
    encryption: &FileEncryption,
    loaded: &Loaded,
) -> Result<()> {
    let snapshot = Snapshot {
        schema: loaded.schema,
        lineage: Uuid::now_v7(),
        generation: alone.generation_after_all()?,
        catalog: &Catalog::default(),
        sections: &loaded.tables,
        gate: &TransactionGate::default(),
        settle: None,
    };
    replace(path, encryption, |mut out| snapshot.write(&mut out))?;
    alone.remove_logs_before(snapshot.generation);
    Ok(())
}
