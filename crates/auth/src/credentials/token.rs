//! Secrets of 256 random bits, of which only hashes are stored.
//!
//! A token is a prefix of three bytes and 32 random bytes as base64url without padding (RFC 4648,
//! 5), 46 characters in all. Its hash is SHA-256 (FIPS 180-4), stored in the same encoding.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use marmota_model::{Error, ErrorKind, Result};
use sha2::{Digest, Sha256};

/// The maximum length of a token in bytes.
pub(crate) const TOKEN_BYTES_MAX: usize = 1024;

/// The hash of a token. Since tokens are random, it needs no salt and need not be slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TokenHash(pub(crate) [u8; 32]);

impl TokenHash {
    /// Hashes a token, with its prefix.
    pub(crate) fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Returns the text that is stored.
    pub(crate) fn text(self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// Parses the result of [`TokenHash::text`].
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok().map(Self)
    }
}

/// Returns random bytes.
///
/// # Errors
/// [`ErrorKind::Io`] if the system has none.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::new(ErrorKind::Io, "the system returned no random bytes")
            .with_source(error.to_string())
    })?;
    Ok(bytes)
}

/// Creates a token that starts with `prefix`, which identifies its type.
///
/// # Errors
/// As [`random`].
pub(crate) fn new(prefix: &str) -> Result<String> {
    Ok(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(random::<32>()?)))
}
