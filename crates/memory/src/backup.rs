//! Backups of a memory engine, and the restore of its files from a backup.
//!
//! The rows are written to the copy under the locks of their tables, between two transactions: they
//! are a snapshot of one moment, and writers wait while they are written. Reads continue.

#[cfg(feature = "encryption")]
pub(crate) mod rekey;

use std::collections::BTreeMap;
use std::path::Path;

use marmota_model::{Error, ErrorKind, Result, Uuid};
use marmota_store::backup::Copied;

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
        let memory = Self::from_url(url)?;
        let Some((path, _)) = &memory.shared.file else {
            let message = "a backup can only be restored to a file: name one, as in \
                           memory:data/app.mem";
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        let is_there = path.exists() || journal::first_log(path)?.is_some();
        if is_there && !replaces {
            let message = format!(
                "{} exists: name another file, or replace the file with `--replace`",
                path.display()
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        marmota_store::private_file::have_folder(path, memory.shared.creates_folders)?;
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
