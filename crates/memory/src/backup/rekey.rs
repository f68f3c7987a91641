//! Changes, adds or removes the key of a memory engine's file and its log.
//!
//! All data of the file and its logs is written to a snapshot with the new key, which replaces the
//! file in one step and continues in a log that is still to begin. All existing logs are older from
//! then on: one that remains after a crash is never read.

use std::path::Path;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::key::{EncryptionKey, KeySource};

use crate::backup::replace_alone;
use crate::data_file::contents::Section;
use crate::encryption::file_encryption::FileEncryption;
use crate::engine::Memory;
use crate::journal::{ExclusiveFile, first_log};

impl Memory {
    /// Rewrites a file, including the data of its log, with another key. `old` is `None` if the
    /// file is not encrypted yet, `new` is `None` to remove the encryption. No process may have the
    /// file open, and the disk needs room for a second copy. If this is interrupted at any point,
    /// the file is either the old one or the new one, complete.
    ///
    /// The previous data may remain in free blocks of the disk: to be sure that plain text is gone,
    /// encrypt from the start, or wipe the disk.
    ///
    /// # Errors
    /// - [`ErrorKind::NotFound`] if the file does not exist.
    /// - [`ErrorKind::Busy`] if another process has it open (a file without a log is not locked).
    /// - [`ErrorKind::Denied`] if the old key is wrong, and [`ErrorKind::Invalid`] if the file has
    ///   no key, is JSON or is damaged.
    /// - [`ErrorKind::Io`] if the disk fails or is full.
    ///
    /// ```
    /// use marmota_store::engine::Engine;
    /// use marmota_store::key::EncryptionKey;
    /// use marmota_memory::Memory;
    /// # let folder = std::env::temp_dir().join(format!("marmota-memkey-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let path = folder.join("app.mem");
    /// let url = format!("memory:{}?durability=full", path.display());
    /// let engine = Memory::from_url(&url)?;
    /// engine.prepare(&[], 1)?;
    /// engine.close()?;
    /// let key = EncryptionKey::passphrase("correct horse battery staple".to_owned())?;
    /// Memory::rekey(&path, None, Some(&key))?;
    /// assert!(Memory::from_url(&url)?.prepare(&[], 1).is_err());
    /// let engine = Memory::from_url(&url)?.key(move || Ok(key.clone()))?;
    /// engine.prepare(&[], 1)?;
    /// # drop(engine);
    /// # std::fs::remove_dir_all(folder).ok();
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn rekey(
        path: &Path,
        old: Option<&EncryptionKey>,
        new: Option<&EncryptionKey>,
    ) -> Result<()> {
        if !path.is_file() && first_log(path)?.is_none() {
            let message = format!("{}: there is no such file", path.display());
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        let encryption = |key: Option<&EncryptionKey>| FileEncryption::from(key.map(KeySource::of));
        let (old, new) = (encryption(old)?, encryption(new)?);
        let alone = ExclusiveFile::with(path)?;
        let loaded = alone.recover(&old)?;
        if loaded.tables.values().any(|section| matches!(section, Section::Json(_))) {
            new.check_json(path)?;
        }
        replace_alone(&alone, path, &new, &loaded)
    }
}
