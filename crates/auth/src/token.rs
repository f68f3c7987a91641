//! Secrets of 256 random bits, of which hashes are kept.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use marmota_model::{Error, ErrorKind, Result};
use sha2::{Digest, Sha256};

/// Bytes of what somebody sends as a token at most.
pub(crate) const TOKEN_BYTES_MAX: usize = 1024;

/// The hash that a token is known by. A token is random: it needs no salt, and
/// no slowness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TokenHash(pub(crate) [u8; 32]);

impl TokenHash {
    pub(crate) fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// As it is kept.
    pub(crate) fn text(self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// What [`TokenHash::text`] gave.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok().map(Self)
    }
}

/// Random bytes.
///
/// # Errors
/// [`ErrorKind::Io`] if the system has none.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::new(ErrorKind::Io, "the system gives no random bytes").with_source(error.to_string())
    })?;
    Ok(bytes)
}

/// A new token that begins with `prefix`, which says what it is for.
///
/// # Errors
/// As [`random`].
pub(crate) fn new(prefix: &str) -> Result<String> {
    Ok(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(random::<32>()?)))
}
