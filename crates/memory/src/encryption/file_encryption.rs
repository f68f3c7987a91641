//! The keys of the memory engine's files, and the errors when a file and a key do not match. The
//! encryption itself is in `cipher.rs`.
//!
//! A sealed file begins with its head in plain text: the salt and the segment from which its key is
//! derived, and the tag of an empty message sealed with that key, which distinguishes a wrong key
//! from damage.
//!
//! ```text
//! seal    salt (16 bytes), segment (32 bytes), tag (16 bytes)
//! ```
//! The salt belongs to a passphrase and is the same in all files of a database. The segment is
//! random and unique: each file has a separate key, derived from both, so that numbers can be
//! counted from 0 in each.

use std::path::Path;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::key::KeySource;

#[cfg(feature = "encryption")]
pub(crate) use crate::encryption::cipher::Cipher;
#[cfg(feature = "encryption")]
pub(crate) use keyed::FileEncryption;
#[cfg(not(feature = "encryption"))]
pub(crate) use plain::{Cipher, FileEncryption};

impl FileEncryption {
    /// Refuses a file that is not encrypted if there is a key.
    pub(crate) fn check_plain(&self, path: &Path) -> Result<()> {
        if !self.has_key() {
            return Ok(());
        }
        let message = format!(
            "{}: the file is not encrypted, but a key was given: encrypt the file with \
             `Memory::rekey`, or open it without a key",
            path.display()
        );
        Err(Error::new(ErrorKind::Invalid, message))
    }

    /// Refuses JSON if there is a key.
    pub(crate) fn check_json(&self, path: &Path) -> Result<()> {
        if !self.has_key() {
            return Ok(());
        }
        let message = format!(
            "{} is JSON, which cannot be encrypted, but a key was given: use a binary file, or \
             leave the key out",
            path.display()
        );
        Err(Error::new(ErrorKind::Invalid, message))
    }
}

#[cfg(not(feature = "encryption"))]
mod plain {
    use super::*;
    use crate::encryption::seal::{SEAL_BYTES, TAG_BYTES, Use};

    /// The encryption of a build without the feature `encryption`, which has no keys.
    pub(crate) struct FileEncryption;

    /// The cipher of such a build, which cannot exist.
    pub(crate) enum Cipher {}

    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "with keys it is used")]
    #[allow(clippy::needless_pass_by_value, reason = "with keys it is kept")]
    impl FileEncryption {
        pub(crate) const fn none() -> Self {
            Self
        }

        /// Refuses a key: if it was ignored, the file would be readable to all.
        pub(crate) fn from(source: Option<KeySource>) -> Result<Self> {
            match source {
                None => Ok(Self),
                Some(_) => {
                    let message = "a key was given (MARMOTA_KEY, or `key_env`), but this build \
                                   does not support encryption: build with the feature \
                                   `encryption`, or leave the key out";
                    Err(Error::new(ErrorKind::Unsupported, message))
                }
            }
        }

        pub(crate) const fn has_key(&self) -> bool {
            false
        }

        pub(crate) fn begin(&self, _: Use) -> Result<Option<Cipher>> {
            Ok(None)
        }

        pub(crate) fn open(&self, path: &Path, _: Use, _: &[u8]) -> Result<Cipher> {
            let message = format!(
                "{} is encrypted, but this build does not support encryption: build with the \
                 feature `encryption`",
                path.display()
            );
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }

    impl Cipher {
        pub(crate) fn seal_head(&self, _: &[u8]) -> [u8; SEAL_BYTES] {
            match *self {}
        }

        pub(crate) fn seal(&self, _: u64, _: &[u8], _: &mut [u8]) -> [u8; TAG_BYTES] {
            match *self {}
        }

        pub(crate) fn unseal(&self, _: u64, _: &[u8], _: &mut [u8]) -> Option<usize> {
            match *self {}
        }
    }
}

#[cfg(feature = "encryption")]
mod keyed {
    use parking_lot::Mutex;
    use zeroize::Zeroizing;

    use super::*;
    use crate::encryption::cipher::{SALT_BYTES, derive, random};
    use crate::encryption::seal::{SEAL_BYTES, TAG_BYTES, Use};
    use marmota_store::key::{KeyBytes, Secret};

    type Salt = [u8; SALT_BYTES];

    /// The source of the key for the files of one engine. A raw key is requested for each file and
    /// not kept; a passphrase is requested once, because deriving a key from it is slow on purpose.
    pub(crate) struct FileEncryption {
        source: Option<KeySource>,
        /// The key derived from a passphrase, and its salt.
        derived: Mutex<Option<(Salt, Box<KeyBytes>)>>,
    }

    impl FileEncryption {
        /// Creates the encryption for files that are not encrypted.
        pub(crate) const fn none() -> Self {
            Self { source: None, derived: Mutex::new(None) }
        }

        /// # Errors
        /// None; a build without encryption refuses a key.
        pub(crate) fn from(source: Option<KeySource>) -> Result<Self> {
            Ok(Self { source, ..Self::none() })
        }

        pub(crate) const fn has_key(&self) -> bool {
            self.source.is_some()
        }

        /// Returns the cipher for a new file, if there is a key.
        pub(crate) fn begin(&self, for_use: Use) -> Result<Option<Cipher>> {
            let Some(source) = &self.source else { return Ok(None) };
            let known = self.derived.lock().as_ref().map(|(salt, _)| *salt);
            let salt = known.map_or_else(random, Ok)?;
            let master = self.master(source, salt)?;
            Ok(Some(Cipher::new(&master, for_use, salt, random()?)))
        }

        /// Returns the cipher to read a file whose head ends in a seal.
        ///
        /// # Errors
        /// [`ErrorKind::Denied`] without its key.
        pub(crate) fn open(&self, path: &Path, for_use: Use, head: &[u8]) -> Result<Cipher> {
            let Some(source) = &self.source else { return Err(locked(path)) };
            let Some((before, seal)) = head.split_last_chunk::<SEAL_BYTES>() else {
                return Err(wrong_key(path));
            };
            let (salt, rest) = seal.split_at(SALT_BYTES);
            let (segment, _) = rest.split_at(SEAL_BYTES - SALT_BYTES - TAG_BYTES);
            let salt = salt.try_into().unwrap_or_default();
            let master = self.master(source, salt).map_err(|error| {
                let message = format!("{}: {}", path.display(), error.message());
                Error::new(error.kind(), message).with_source(error)
            })?;
            let cipher =
                Cipher::new(&master, for_use, salt, segment.try_into().unwrap_or_default());
            match cipher.seal_head(before) == *seal {
                true => Ok(cipher),
                false => Err(wrong_key(path)),
            }
        }

        fn master(&self, source: &KeySource, salt: Salt) -> Result<KeyBytes> {
            let mut derived = self.derived.lock();
            if let Some((_, key)) = derived.as_ref().filter(|(known, _)| *known == salt) {
                return Ok(KeyBytes::clone(key));
            }
            match source.ask()?.secret() {
                Secret::Raw(key) => Ok(key.clone()),
                Secret::Passphrase(passphrase) => {
                    let key = derive(passphrase, &salt)?;
                    *derived = Some((salt, Box::new(Zeroizing::clone(&key))));
                    Ok(key)
                }
            }
        }
    }

    #[cold]
    fn wrong_key(path: &Path) -> Error {
        let message = format!(
            "{}: the key cannot decrypt the file: the key is wrong, or the header of the file is \
             damaged; use the right key, or restore a backup",
            path.display()
        );
        Error::new(ErrorKind::Denied, message)
    }

    #[cold]
    fn locked(path: &Path) -> Error {
        let message = format!(
            "{}: the file is encrypted: give the key (`Memory::key`, `?key_env=NAME` or the \
             environment variable MARMOTA_KEY)",
            path.display()
        );
        Error::new(ErrorKind::Denied, message)
    }
}
