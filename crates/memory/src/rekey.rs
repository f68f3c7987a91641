//! Another key for a memory engine's file and its log, a first one, or none
//! any more.
//!
//! All that the file and its logs say is written to a snapshot under the other
//! key, which takes the file's place in one step and goes on in a log that is
//! still to begin. The logs are older than that from then on: one that a kill
//! leaves there is never read.

use std::path::Path;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::key::{Key, KeySource};

use super::backup::replace_alone;
use super::engine::Memory;
use super::file::Section;
use super::journal::{Alone, first_log};
use super::vault::Vault;

impl Memory {
    /// Writes a file, and what its log has, anew under another key: `None` as
    /// the old one if it is not encrypted yet, `None` as the new one if it
    /// shall no longer be. Nobody may have it open meanwhile, and the disk
    /// needs room for a second copy. Whenever this is interrupted, the file is
    /// the old one or the new one, whole.
    ///
    /// What the files held before may still stand in blocks of the disk that
    /// are free now: to be sure that a plain text is gone, encrypt from the
    /// start, or wipe the disk.
    ///
    /// # Errors
    /// - [`ErrorKind::NotFound`] if there is no such file.
    /// - [`ErrorKind::Busy`] if another process has it open (a file without a
    ///   log is held by nobody).
    /// - [`ErrorKind::Denied`] if the old key is not its key, and
    ///   [`ErrorKind::Invalid`] if it has none, is JSON or is damaged.
    /// - [`ErrorKind::Io`] if the disk fails or is full.
    ///
    /// ```
    /// use marmota_store::engine::Engine;
    /// use marmota_store::key::Key;
    /// use marmota_memory::Memory;
    /// # let folder = std::env::temp_dir().join(format!("marmota-memkey-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let path = folder.join("app.mem");
    /// let url = format!("memory:{}?durability=full", path.display());
    /// let engine = Memory::from_url(&url)?;
    /// engine.prepare(&[], 1)?;
    /// engine.close()?;
    /// let key = Key::passphrase("correct horse battery staple".to_owned())?;
    /// Memory::rekey(&path, None, Some(&key))?;
    /// assert!(Memory::from_url(&url)?.prepare(&[], 1).is_err());
    /// let engine = Memory::from_url(&url)?.key(move || Ok(key.clone()))?;
    /// engine.prepare(&[], 1)?;
    /// # drop(engine);
    /// # std::fs::remove_dir_all(folder).ok();
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn rekey(path: &Path, old: Option<&Key>, new: Option<&Key>) -> Result<()> {
        if !path.is_file() && first_log(path)?.is_none() {
            let message = format!("{}: there is no such file", path.display());
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        let vault = |key: Option<&Key>| Vault::from(key.map(KeySource::of));
        let (old, new) = (vault(old)?, vault(new)?);
        let alone = Alone::with(path)?;
        let loaded = alone.recover(&old)?;
        if loaded.tables.values().any(|section| matches!(section, Section::Json(_))) {
            new.check_json(path)?;
        }
        replace_alone(&alone, path, &new, &loaded)
    }
}
