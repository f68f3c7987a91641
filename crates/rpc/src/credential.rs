//! Credentials of clients.

use std::fmt;

use marmota_http::Request;

/// What authenticates a client: the bytes of a token, empty for an anonymous client.
///
/// HTTP carries it as `Authorization: Bearer`, if its bytes are visible ASCII characters (RFC
/// 6750). Its `Debug` output does not show it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credential(Vec<u8>);

impl Credential {
    /// Creates a credential.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Returns the credential of a request: the token after `Bearer`.
    #[must_use]
    pub fn of_request(request: &Request) -> Self {
        let bearer = request.header_text("authorization").and_then(|text| {
            let (scheme, token) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        Self::new(bearer.unwrap_or_default())
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the token for the header, if it can be sent there.
    pub(crate) fn header(&self) -> Option<&[u8]> {
        let is_token = !self.0.is_empty() && self.0.iter().all(u8::is_ascii_graphic);
        is_token.then_some(&self.0)
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({} bytes)", self.0.len())
    }
}
