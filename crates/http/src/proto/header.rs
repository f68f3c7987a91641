//! The check of headers that handlers and layers add to an answer.
//!
//! An answer whose header contained a CR or LF could be split into two by the client (response
//! splitting). So each name and value passes [`check_header`] before it is stored.

use std::fmt;

use crate::proto::head::{is_token, is_value};

/// A header that cannot be sent: an invalid name or value, or a header that only the server writes.
///
/// As an answer of a handler it is a 500, because the program is at fault and not the client. Its
/// text names the header and the reason.
///
/// ```
/// use marmota_http::Response;
/// let error = Response::text("a").with_header("X-Name", "a\r\nX-Admin: 1").unwrap_err();
/// assert_eq!(error.to_string(), "header \"X-Name\": the value has a control character");
/// let error = Response::text("a").with_header("Connection", "close").unwrap_err();
/// assert!(error.to_string().contains("the server writes this header itself"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderError {
    /// The name of the header, as it was given.
    pub(crate) name: String,
    /// The reason, for people.
    pub(crate) reason: &'static str,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "header {:?}: {}", self.name, self.reason)
    }
}

impl std::error::Error for HeaderError {}

/// Checks that a header cannot break the framing of an answer: the name is a token (RFC 9110,
/// 5.6.2), the value has no control characters but tabs (5.5), and it is not one of the headers
/// that the server writes.
///
/// # Errors
/// [`HeaderError`] with the reason.
pub(crate) fn check_header(name: &str, value: &[u8]) -> Result<(), HeaderError> {
    let reason = if !is_token(name.as_bytes()) {
        "the name is not a token"
    } else if !is_value(value) {
        "the value has a control character"
    } else if is_framing(name) {
        "the server writes this header itself"
    } else {
        return Ok(());
    };
    Err(HeaderError { name: name.to_owned(), reason })
}

/// Returns true for a header that decides where an answer ends. The length is compared first,
/// because almost all names differ in it.
fn is_framing(name: &str) -> bool {
    match name.len() {
        10 => name.eq_ignore_ascii_case("connection"),
        14 => name.eq_ignore_ascii_case("content-length"),
        17 => name.eq_ignore_ascii_case("transfer-encoding"),
        _ => false,
    }
}
