//! Opens connections with the key of their file, if it has one, and reports mismatches.
//!
//! A raw key is requested for each connection and then dropped. A passphrase is requested once: the
//! key derived from it is kept as long as the engine lives, because each derivation deliberately
//! takes long. (SQLite's connections keep the key in memory in any case.)

use std::path::Path;

use marmota_model::{Error, Result};

use crate::fault;
use crate::ffi::{Connection, Failure};
use crate::file::database_name::database_name;
use crate::file::options::SqliteOptions;

#[cfg(feature = "encryption")]
pub(crate) use keyed::FileEncryption;
#[cfg(not(feature = "encryption"))]
pub(crate) use plain::FileEncryption;

/// Returns the error for a code while opening, with the name of the file.
pub(crate) fn error_at(failure: &Failure, place: &str) -> Error {
    let error = fault::of(failure);
    Error::new(error.kind(), format!("{place}: {}", error.message())).with_source(error)
}

#[cfg(not(feature = "encryption"))]
mod plain {
    use super::*;

    /// The variant without the feature `encryption`, which has no keys.
    #[derive(Debug)]
    pub(crate) struct FileEncryption;

    impl FileEncryption {
        pub(crate) fn new(_: &SqliteOptions) -> Self {
            Self
        }

        #[allow(clippy::unused_self, reason = "with keys it is used")]
        pub(crate) fn has_key(&self) -> bool {
            false
        }

        pub(crate) fn open(&self, path: &Path) -> Result<Connection> {
            Connection::open_file(path).map_err(|failure| self.at(&failure, path))
        }

        /// Attaches the file to a connection as another database.
        #[allow(clippy::unused_self, reason = "with keys it is used")]
        pub(crate) fn attach(
            &self,
            connection: &mut Connection,
            path: &Path,
            name: &str,
        ) -> Result<()> {
            connection.attach(path, name).map_err(|failure| fault::of(&failure))
        }

        #[allow(clippy::unused_self, reason = "with keys it is used")]
        pub(crate) fn lost_race(&self, _: &Error) -> bool {
            false
        }

        /// Returns the error for a code while opening, with the name of the file.
        #[allow(clippy::unused_self, reason = "with keys it is used")]
        pub(crate) fn at(&self, failure: &Failure, path: &Path) -> Error {
            error_at(failure, &database_name(path))
        }
    }
}

#[cfg(feature = "encryption")]
mod keyed {
    use std::fmt;
    use std::sync::atomic::{AtomicBool, Ordering};

    use marmota_model::ErrorKind;
    use marmota_store::key::{EncryptionKey, KeyBytes, KeySource, Secret};
    use parking_lot::Mutex;

    use super::*;
    use crate::ffi::cipher::{FileStart, Salt, derive, new_salt};
    use crate::ffi::code;

    /// Otherwise sorters and temporary tables would be written to files.
    const NOTHING_IN_FILES: &str = "PRAGMA temp_store=MEMORY";

    /// Opens the connections of one engine.
    pub(crate) struct FileEncryption {
        source: Option<KeySource>,
        /// The key derived from a passphrase, and the salt it was derived with.
        derived: Mutex<Option<(Salt, Box<KeyBytes>)>>,
        /// True if the last file opened was empty, so that it got a new salt.
        began: AtomicBool,
    }

    impl FileEncryption {
        pub(crate) fn new(options: &SqliteOptions) -> Self {
            Self {
                source: options.key.clone(),
                derived: Mutex::default(),
                began: AtomicBool::new(false),
            }
        }

        /// Returns true if its file is encrypted.
        pub(crate) fn has_key(&self) -> bool {
            self.source.is_some()
        }

        /// Returns true if the file should be opened again after this error: another process wrote
        /// its first page, with another salt, after it was found empty.
        pub(crate) fn lost_race(&self, error: &Error) -> bool {
            error.kind() == ErrorKind::Denied && self.began.load(Ordering::Relaxed)
        }

        /// Opens a connection. The first read verifies the key.
        pub(crate) fn open(&self, path: &Path) -> Result<Connection> {
            let at = |failure: Failure| self.at(&failure, path);
            let mut connection = Connection::open_file(path).map_err(at)?;
            if let Some((key, salt)) = self.key_of(&mut connection, path)? {
                connection.use_key(&key, &salt).map_err(at)?;
                connection.execute(NOTHING_IN_FILES).map_err(at)?;
            }
            Ok(connection)
        }

        /// Attaches this file to a connection of another file, as a database with this name.
        pub(crate) fn attach(
            &self,
            connection: &mut Connection,
            path: &Path,
            name: &str,
        ) -> Result<()> {
            let at = |failure: Failure| self.at(&failure, path);
            let key = self.key_of(&mut Connection::open_file(path).map_err(at)?, path)?;
            let Some((key, salt)) = key else {
                return connection.attach(path, name).map_err(at);
            };
            connection.attach_with_key(path, name, &key, &salt).map_err(at)?;
            connection.execute(NOTHING_IN_FILES).map_err(at)
        }

        /// Returns the key and the salt of a connection's file, or `None` if it has no key.
        fn key_of(
            &self,
            connection: &mut Connection,
            path: &Path,
        ) -> Result<Option<(Box<KeyBytes>, Salt)>> {
            let at = |failure: Failure| self.at(&failure, path);
            let start = connection.file_start().map_err(at)?;
            let Some(source) = &self.source else {
                return match start {
                    FileStart::Other(_) => Err(closed_file(path)),
                    FileStart::Empty | FileStart::Plain => Ok(None),
                };
            };
            self.began.store(start == FileStart::Empty, Ordering::Relaxed);
            let salt = match start {
                FileStart::Plain => return Err(plain_file(path)),
                FileStart::Other(salt) => salt,
                FileStart::Empty => new_salt().map_err(at)?,
            };
            let known = self.derived.lock();
            if let Some((_, key)) = known.as_ref().filter(|(known, _)| *known == salt) {
                return Ok(Some((key.clone(), salt)));
            }
            drop(known);
            let key = source.ask().map_err(|error| {
                let message = format!("{}: {}", database_name(path), error.message());
                Error::new(error.kind(), message).with_source(error)
            })?;
            Ok(Some(match key.secret() {
                Secret::Raw(key) => (Box::new(key.clone()), salt),
                Secret::Passphrase(passphrase) => {
                    let key = Box::new(derive(passphrase, &salt).map_err(at)?);
                    *self.derived.lock() = Some((salt, key.clone()));
                    (key, salt)
                }
            }))
        }

        /// Returns the error for a code while opening, with the name of the file.
        pub(crate) fn at(&self, failure: &Failure, path: &Path) -> Error {
            if self.source.is_some() && failure.code() & 0xff == code::NOTADB {
                return wrong_key(path);
            }
            error_at(failure, &database_name(path))
        }
    }

    impl fmt::Debug for FileEncryption {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("FileEncryption").field("source", &self.source).finish_non_exhaustive()
        }
    }

    /// Returns a key with the salt of a file, for `backup/rekey.rs`.
    pub(crate) fn bytes_of(key: &EncryptionKey, salt: &Salt) -> Result<KeyBytes, Failure> {
        match key.secret() {
            Secret::Raw(key) => Ok(key.clone()),
            Secret::Passphrase(passphrase) => derive(passphrase, salt),
        }
    }

    #[cold]
    fn wrong_key(path: &Path) -> Error {
        let message = format!(
            "{}: the key cannot decrypt the file: the key is wrong, the first page of the file is \
             damaged, or the file is not a database; use the right key, or restore a backup",
            database_name(path)
        );
        Error::new(ErrorKind::Denied, message)
    }

    #[cold]
    fn plain_file(path: &Path) -> Error {
        let message = format!(
            "{}: the file is not encrypted, but a key was given: encrypt the file with \
             `Sqlite::rekey`, or open it without a key",
            database_name(path)
        );
        Error::new(ErrorKind::Invalid, message)
    }

    #[cold]
    fn closed_file(path: &Path) -> Error {
        let message = format!(
            "{}: the file is encrypted, or is not a SQLite database: give the key \
             (`SqliteOptions::key`, `?key_env=NAME` or the environment variable MARMOTA_KEY), name \
             another file, or move this one away",
            database_name(path)
        );
        Error::new(ErrorKind::Engine, message)
    }
}

#[cfg(feature = "encryption")]
pub(crate) use keyed::bytes_of;
