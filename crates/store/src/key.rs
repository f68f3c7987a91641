//! Keys of encrypted files, and where they come from. What is done with them
//! is each engine's, which needs its feature `encryption` for that.
//!
//! A key never appears in what is printed: neither its own `Debug`, nor
//! errors, nor SQL. The memory it lay in is wiped when it is dropped.

use std::fmt;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result};
use zeroize::{Zeroize, Zeroizing};

/// How long a key is.
pub const KEY_BYTES: usize = 32;

/// A key, wiped when it is dropped.
pub type KeyBytes = Zeroizing<[u8; KEY_BYTES]>;

/// The variable that a key is taken from, where a URL names no other.
const KEY_ENV: &str = "MARMOTA_KEY";

/// Longer ones are taken for a mistake, such as a file's content.
const PASSPHRASE_BYTES_MAX: usize = 1024;

/// What encrypts a file: 32 random bytes, or a passphrase.
///
/// ```
/// use marmota_store::key::Key;
/// let key = Key::parse(&"0f".repeat(32))?;
/// assert_eq!(format!("{key:?}"), "Key(..)");
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone)]
pub struct Key(Secret);

/// What a key is made of, for an engine that encrypts with it.
#[derive(Clone)]
pub enum Secret {
    /// The key itself.
    Raw(KeyBytes),
    /// What a key is to be derived from.
    Passphrase(Zeroizing<String>),
}

impl Key {
    /// 32 bytes that nobody can guess: from a secret store, or made by
    /// `openssl rand -hex 32`. Connections open at once with it.
    #[must_use]
    pub fn raw(mut bytes: [u8; KEY_BYTES]) -> Self {
        let key = KeyBytes::new(bytes);
        bytes.zeroize();
        Self(Secret::Raw(key))
    }

    /// A passphrase of 1 to 1024 bytes. A key is derived from it by Argon2id
    /// (some 20 ms and 19 MiB, once for an engine), with a salt that lies in
    /// the file.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for one of another length.
    pub fn passphrase(text: String) -> Result<Self> {
        let text = Zeroizing::new(text);
        match text.len() {
            1..=PASSPHRASE_BYTES_MAX => Ok(Self(Secret::Passphrase(text))),
            bytes => Err(Error::new(
                ErrorKind::Invalid,
                format!("a passphrase has 1 to {PASSPHRASE_BYTES_MAX} bytes, this one has {bytes}"),
            )),
        }
    }

    /// A text as it stands in an environment variable: 64 hex digits are the
    /// bytes of [`Key::raw`], anything else is a passphrase.
    ///
    /// # Errors
    /// As [`Key::passphrase`].
    pub fn parse(text: &str) -> Result<Self> {
        match from_hex(text.as_bytes()) {
            Some(bytes) => Ok(Self(Secret::Raw(bytes))),
            None => Self::passphrase(text.to_owned()),
        }
    }

    /// What an engine encrypts with.
    #[must_use]
    pub const fn secret(&self) -> &Secret {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
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

/// Where a key is asked for: a function of the program's, or the environment.
///
/// ```
/// use marmota_store::key::{Key, KeySource};
/// let source = KeySource::new(|| Key::passphrase("correct horse".to_owned()));
/// assert_eq!(format!("{source:?}"), "KeySource(..)");
/// ```
#[derive(Clone)]
pub struct KeySource(Arc<dyn Fn() -> Result<Key> + Send + Sync>);

impl KeySource {
    /// Asks a function: for each connection if it gives raw keys, once for an
    /// engine if it gives a passphrase.
    pub fn new(ask: impl Fn() -> Result<Key> + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// Takes the key from an environment variable, as [`Key::parse`] reads it.
    #[must_use]
    pub fn env(name: &str) -> Self {
        let name = name.to_owned();
        Self::new(move || match std::env::var(&name).map(Zeroizing::new) {
            Ok(text) => Key::parse(&text).map_err(|error| {
                let message = format!("the environment variable {name}: {}", error.message());
                Error::new(error.kind(), message)
            }),
            // What it holds is not shown, not even in part.
            Err(_) => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "the environment variable {name} has no key: set it to 64 hex digits \
                     (`openssl rand -hex 32`) or a passphrase"
                ),
            )),
        })
    }

    /// The variable that the option `key_env` of a URL names. What is no name
    /// is not repeated: it may be the key itself.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for what is no name of a variable.
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

    /// The variable `MARMOTA_KEY`, if it is set.
    #[must_use]
    pub fn usual() -> Option<Self> {
        std::env::var_os(KEY_ENV).map(|_| Self::env(KEY_ENV))
    }

    /// A key that is at hand.
    #[must_use]
    pub fn of(key: &Key) -> Self {
        let key = key.clone();
        Self::new(move || Ok(key.clone()))
    }

    /// Asks for the key.
    ///
    /// # Errors
    /// What the function fails with; [`ErrorKind::Invalid`] if the variable
    /// has none.
    pub fn ask(&self) -> Result<Key> {
        (self.0)()
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySource(..)")
    }
}

/// The same function, not the same key.
impl PartialEq for KeySource {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for KeySource {}

/// Refuses a URL that holds a secret, without repeating it.
///
/// # Errors
/// [`ErrorKind::Invalid`], with where to put the key instead.
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
                "the URL has the option `{name}`, but URLs end up in logs: put the key into the \
                 environment variable MARMOTA_KEY (or another one, named by `key_env=NAME`), or \
                 give it by a callback (`key`)"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(key: &Key) -> Option<[u8; KEY_BYTES]> {
        match key.secret() {
            Secret::Raw(bytes) => Some(**bytes),
            Secret::Passphrase(_) => None,
        }
    }

    #[test]
    fn hex_digits_are_a_raw_key() {
        let text = "00ff7F".repeat(10) + "a9B0";
        let bytes = raw(&Key::parse(&text).unwrap()).unwrap();
        assert_eq!(&bytes[..4], [0x00, 0xff, 0x7f, 0x00]);
        assert_eq!(&bytes[30..], [0xa9, 0xb0]);
        for passphrase in ["x", "ab", &"g0".repeat(32), &"0".repeat(63), &"é".repeat(32)] {
            assert!(raw(&Key::parse(passphrase).unwrap()).is_none(), "{passphrase}");
        }
    }

    #[test]
    fn lengths_are_bounded() {
        for text in [String::new(), "x".repeat(PASSPHRASE_BYTES_MAX + 1)] {
            let error = Key::parse(&text).unwrap_err();
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
