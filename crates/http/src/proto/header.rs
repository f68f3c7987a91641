//! Headers that may be sent.

use std::fmt;

use crate::proto::head::{is_token, is_value};

/// A header that cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderError {
    pub(crate) name: String,
    pub(crate) reason: &'static str,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "header {:?}: {}", self.name, self.reason)
    }
}

impl std::error::Error for HeaderError {}

/// Refuses what would break the framing of an answer.
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

fn is_framing(name: &str) -> bool {
    match name.len() {
        10 => name.eq_ignore_ascii_case("connection"),
        14 => name.eq_ignore_ascii_case("content-length"),
        17 => name.eq_ignore_ascii_case("transfer-encoding"),
        _ => false,
    }
}
