//! Keys of encrypted files, and their sources. Each engine implements the encryption, for which it
//! needs its feature `encryption`.
//!
//! A key is never printed: neither by its `Debug`, nor in errors, nor in SQL. Its memory is wiped
//! when it is dropped.

use std::fmt;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result};
use zeroize::{Zeroize, Zeroizing};

/// The length of a key in bytes.
pub const KEY_BYTES: usize = 32;

/// A key, wiped when it is dropped.
pub type KeyBytes = Zeroizing<[u8; KEY_BYTES]>;

/// The environment variable with the key, if a URL names no other.
const KEY_ENV: &str = "MARMOTA_KEY";

/// The maximum length of a passphrase in bytes. A longer text is probably a mistake, such as a
/// file's content.
const PASSPHRASE_BYTES_MAX: usize = 1024;

/// A key that encrypts a file: 32 random bytes, or a passphrase.
///
/// ```
/// use marmota_store::key::EncryptionKey;
/// let key = EncryptionKey::parse(&"0f".repeat(32))?;
/// assert_eq!(format!("{key:?}"), "EncryptionKey(..)");
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone)]
pub struct EncryptionKey(Secret);

/// The content of a key, for an engine that encrypts with it.
#[derive(Clone)]
pub enum Secret {
    /// The key itself.
    Raw(KeyBytes),
    /// The passphrase from which the key is derived.
    Passphrase(Zeroizing<String>),
}

impl EncryptionKey {
    /// Creates a key of 32 random bytes: from a secret store, or made by `openssl rand -hex 32`.
    /// Connections open without delay with it.
    #[must_use]
    pub fn raw(mut bytes: [u8; KEY_BYTES]) -> Self {
        let key = KeyBytes::new(bytes);
        bytes.zeroize();
        Self(Secret::Raw(key))
    }

    /// Creates a key from a passphrase of 1 to 1024 bytes. The key is derived from it by Argon2id
    /// (some 20 ms and 19 MiB, once for an engine), with a salt that is stored in the file.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a passphrase of another length.
    pub fn passphrase(text: String) -> Result<Self> {
        let text = Zeroizing::new(text);
        match text.len() {
            1..=PASSPHRASE_BYTES_MAX => Ok(Self(Secret::Passphrase(text))),
            bytes => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "the passphrase has {bytes} bytes; 1 to {PASSPHRASE_BYTES_MAX} are allowed"
                ),
            )),
        }
    }

    /// Parses the text of an environment variable: 64 hex digits are the bytes of
    /// [`EncryptionKey::raw`], anything else is a passphrase.
    ///
    /// # Errors
    /// As [`EncryptionKey::passphrase`].
    pub fn parse(text: &str) -> Result<Self> {
        match from_hex(text.as_bytes()) {
            Some(bytes) => Ok(Self(Secret::Raw(bytes))),
            None => Self::passphrase(text.to_owned()),
        }
    }

    /// Returns the content, for an engine that encrypts with it.
    #[must_use]
    pub const fn secret(&self) -> &Secret {
        &self.0
    }
}

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EncryptionKey(..)")
    }
}

fn from_hex(digits: &[u8]) -> Option<KeyBytes> {
    if digits.len() != 2 * KEY_BYTES {
        return None;
    }
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let mut bytes = KeyBytes::default();
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
    }
    Some(bytes)
}

/// The source of a key: a function of the program, or the environment.
///
/// ```
/// use marmota_store::key::{EncryptionKey, KeySource};
/// let source = KeySource::new(|| EncryptionKey::passphrase("correct horse".to_owned()));
/// assert_eq!(format!("{source:?}"), "KeySource(..)");
/// ```
#[derive(Clone)]
pub struct KeySource(Arc<dyn Fn() -> Result<EncryptionKey> + Send + Sync>);

impl KeySource {
    /// Takes the key from a function: it is called for each connection if it returns raw keys, and
    /// once for an engine if it returns a passphrase.
    pub fn new(ask: impl Fn() -> Result<EncryptionKey> + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// Takes the key from an environment variable, as [`EncryptionKey::parse`] reads it.
    #[must_use]
    pub fn env(name: &str) -> Self {
        let name = name.to_owned();
        Self::new(move || match std::env::var(&name).map(Zeroizing::new) {
            Ok(text) => EncryptionKey::parse(&text).map_err(|error| {
                let message = format!("the environment variable {name}: {}", error.message());
                Error::new(error.kind(), message)
            }),
            // The value of the variable is not shown, not even in part.
            Err(_) => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "the environment variable {name} has no valid key: set it to 64 hex digits \
                     (`openssl rand -hex 32`) or a passphrase"
                ),
            )),
        })
    }

    /// Takes the key from the variable that the option `key_env` of a URL names. An invalid name is
    /// not repeated in the error: it may be the key itself.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid name of a variable.
    pub fn named(name: &str) -> Result<Self> {
        let is_name = (1..=50).contains(&name.len())
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name {
            let message = "the option `key_env` is the name of an environment variable (letters, \
                           digits and `_`, 50 at most), never the key itself";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(Self::env(name))
    }

    /// Takes the key from the variable `MARMOTA_KEY`, if it is set.
    #[must_use]
    pub fn usual() -> Option<Self> {
        std::env::var_os(KEY_ENV).map(|_| Self::env(KEY_ENV))
    }

    /// Uses this key.
    #[must_use]
    pub fn of(key: &EncryptionKey) -> Self {
        let key = key.clone();
        Self::new(move || Ok(key.clone()))
    }

    /// Returns the key.
    ///
    /// # Errors
    /// The function's error; [`ErrorKind::Invalid`] if the variable has no key.
    pub fn ask(&self) -> Result<EncryptionKey> {
        (self.0)()
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySource(..)")
    }
}

/// Two sources are equal if they have the same function, not the same key.
impl PartialEq for KeySource {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for KeySource {}

/// Refuses a URL that contains a secret, without repeating it.
///
/// # Errors
/// [`ErrorKind::Invalid`]; the message names the right place for the key.
pub fn refuse_secrets(url: &str) -> Result<()> {
    const SECRETS: [&str; 8] =
        ["key", "hexkey", "textkey", "password", "passphrase", "passwd", "pass", "secret"];
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let names = query.split('&').filter_map(|option| option.split('=').next());
    let mut secrets = names.filter(|name| SECRETS.iter().any(|it| name.eq_ignore_ascii_case(it)));
    match secrets.next() {
        None => Ok(()),
        Some(name) => Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "the URL has the option `{name}`, but URLs are written to logs: set the key in the \
                 environment variable MARMOTA_KEY (or in another one, named with `key_env=NAME`), \
                 or return it from a callback (`key`)"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(key: &EncryptionKey) -> Option<[u8; KEY_BYTES]> {
        match key.secret() {
            Secret::Raw(bytes) => Some(**bytes),
            Secret::Passphrase(_) => None,
        }
    }

    #[test]
    fn hex_digits_are_a_raw_key() {
        let text = "00ff7F".repeat(10) + "a9B0";
        let bytes = raw(&EncryptionKey::parse(&text).unwrap()).unwrap();
        assert_eq!(&bytes[..4], [0x00, 0xff, 0x7f, 0x00]);
        assert_eq!(&bytes[30..], [0xa9, 0xb0]);
        for passphrase in ["x", "ab", &"g0".repeat(32), &"0".repeat(63), &"é".repeat(32)] {
            assert!(raw(&EncryptionKey::parse(passphrase).unwrap()).is_none(), "{passphrase}");
        }
    }

    #[test]
    fn lengths_are_bounded() {
        for text in [String::new(), "x".repeat(PASSPHRASE_BYTES_MAX + 1)] {
            let error = EncryptionKey::parse(&text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(!error.to_string().contains("xx"));
        }
    }

    #[test]
    fn a_missing_variable_is_named() {
        let error = KeySource::env("MARMOTA_NO_SUCH_KEY").ask().unwrap_err();
        assert!(error.to_string().contains("MARMOTA_NO_SUCH_KEY"), "{error}");
    }
}
