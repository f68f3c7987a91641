//! Changes, adds or removes the key of a file.
//!
//! A copy is created next to the file, rewritten with the new key, verified in full and moved to
//! the file's place in one step. If this is interrupted at any point, the file is either the old
//! one or the new one, complete.

use std::fs::File;
use std::path::Path;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::key::{EncryptionKey, KeySource};
use marmota_store::private_file::sync_folder_of;

use crate::engine::Sqlite;
use crate::ffi::cipher::new_salt;
use crate::ffi::{Connection, Failure};
use crate::file::database_name::{database_name, pragma_text};
use crate::file::encryption::{FileEncryption, bytes_of};
use crate::file::exclusive_file::{check, lock_exclusively, temporary};
use crate::file::options::SqliteOptions;

/// The suffix of the copy.
const COPY: &str = ".rekey";

impl Sqlite {
    /// Rewrites a file with another key. `old` is `None` if the file is not encrypted yet; `new` is
    /// `None` to remove the encryption. The file must not be open elsewhere meanwhile, and the disk
    /// needs room for a second copy.
    ///
    /// The file is replaced in one step, after the copy was read back and verified in full; an
    /// error before that leaves it unchanged. The previous content may remain in free blocks of the
    /// disk: to be sure that plain text is gone, encrypt from the start, or wipe the disk.
    ///
    /// # Errors
    /// - [`ErrorKind::NotFound`] if the file does not exist.
    /// - [`ErrorKind::Busy`] if it is open elsewhere.
    /// - [`ErrorKind::Denied`] if the old key is wrong, and [`ErrorKind::Invalid`] if the file has
    ///   no key.
    /// - [`ErrorKind::Engine`] if it is damaged, [`ErrorKind::Io`] if the disk fails or is full.
    ///
    /// ```
    /// use marmota_sqlite::{EncryptionKey, Sqlite};
    /// # let folder = std::env::temp_dir().join(format!("marmota-rekey-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let path = folder.join("app.db");
    /// Sqlite::from_url(&format!("sqlite:{}", path.display()))?;
    /// let key = EncryptionKey::passphrase("correct horse battery staple".to_owned())?;
    /// Sqlite::rekey(&path, None, Some(&key))?;
    /// assert!(Sqlite::from_url(&format!("sqlite:{}", path.display())).is_err());
    /// # std::fs::remove_dir_all(folder).ok();
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn rekey(
        path: &Path,
        old: Option<&EncryptionKey>,
        new: Option<&EncryptionKey>,
    ) -> Result<()> {
        if !path.is_file() {
            let message = format!("{}: there is no such file", database_name(path));
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        let mut before = open(path, old)?;
        lock_exclusively(&mut before, path, "change its key")?;
        let content = check(&mut before, path)?;
        let copy = temporary(path, COPY).map_err(|error| disk(path, error))?;
        let at = |failure: Failure| {
            crate::file::encryption::error_at(&failure, &database_name(copy.path()))
        };
        before.execute(&format!("VACUUM INTO {}", quoted(copy.path())?)).map_err(at)?;
        write_anew(copy.path(), old, new)?;
        let mut after = open(copy.path(), new)?;
        if check(&mut after, copy.path())? != content {
            let message = format!(
                "{}: the copy with the new key differs from the database; the file was not changed",
                database_name(path)
            );
            return Err(Error::new(ErrorKind::Bug, message));
        }
        drop(after);
        // `before` still locks the file that is replaced.
        put_in_place(copy.path(), path)
    }
}

fn open(path: &Path, key: Option<&EncryptionKey>) -> Result<Connection> {
    let options = SqliteOptions { key: key.map(KeySource::of), ..SqliteOptions::default() };
    let encryption = FileEncryption::new(&options);
    let mut connection = encryption.open(path)?;
    connection
        .execute("PRAGMA trusted_schema=OFF")
        .map_err(|failure| encryption.at(&failure, path))?;
    // The first read of the file, which detects a wrong key.
    pragma_text(&mut connection, "PRAGMA encoding")
        .map_err(|failure| encryption.at(&failure, path))?;
    Ok(connection)
}

/// Changes the key of the copy, which is not used elsewhere yet.
fn write_anew(copy: &Path, old: Option<&EncryptionKey>, new: Option<&EncryptionKey>) -> Result<()> {
    let at = |failure: Failure| crate::file::encryption::error_at(&failure, &database_name(copy));
    let mut connection = open(copy, old)?;
    connection.execute("PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF").map_err(at)?;
    match new {
        None => connection.change_key(None).map_err(at),
        Some(key) => {
            let salt = new_salt().map_err(at)?;
            let bytes = bytes_of(key, &salt).map_err(at)?;
            connection.change_key(Some((&bytes, &salt))).map_err(at)
        }
    }
}

fn put_in_place(copy: &Path, path: &Path) -> Result<()> {
    let on_disk = || -> std::io::Result<()> {
        let rights = std::fs::metadata(path)?.permissions();
        std::fs::set_permissions(copy, rights)?;
        File::open(copy)?.sync_all()?;
        std::fs::rename(copy, path)?;
        sync_folder_of(path)
    };
    on_disk().map_err(|error| disk(path, error))
}

fn disk(path: &Path, error: std::io::Error) -> Error {
    let message =
        format!("{}: the key was not changed ({error}): check the disk", database_name(path));
    Error::new(ErrorKind::Io, message).with_source(error)
}

/// Returns a path as an SQL text.
fn quoted(path: &Path) -> Result<String> {
    let text = path.to_str().ok_or_else(|| {
        let message = format!("{}: the path must be UTF-8 to change the key", database_name(path));
        Error::new(ErrorKind::Unsupported, message)
    })?;
    Ok(format!("'{}'", text.replace('\'', "''")))
}
