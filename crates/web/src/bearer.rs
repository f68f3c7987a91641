//! Tokens in the header `Authorization: Bearer …` (RFC 6750).
//!
//! A request such as
//!
//! ```text
//! GET /api/person/1 HTTP/1.1
//! Authorization: Bearer 4f7c…
//! ```
//!
//! has the token `4f7c…`. The functions here only read and compare tokens; who the token belongs to
//! is found by `authenticate`.

use subtle::ConstantTimeEq as _;

/// Returns the token in the value of an `Authorization` header, without surrounding blanks; `None`
/// for another scheme, and for a value that is not UTF-8.
///
/// ```
/// use marmota_web::bearer_token;
///
/// assert_eq!(bearer_token(b"Bearer 4f7c"), Some("4f7c"));
/// assert_eq!(bearer_token(b"bearer 4f7c "), Some("4f7c"));
/// assert_eq!(bearer_token(b"Basic YTpi"), None);
/// ```
#[must_use]
pub fn bearer_token(value: &[u8]) -> Option<&str> {
    let (scheme, token) = std::str::from_utf8(value).ok()?.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Compares two tokens in constant time, so that the duration reveals nothing about the secret one.
/// Tokens of different lengths differ at once.
///
/// ```
/// use marmota_web::is_same_token;
///
/// assert!(is_same_token("4f7c", "4f7c"));
/// assert!(!is_same_token("4f7c", "4f7d"));
/// ```
#[must_use]
pub fn is_same_token(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}
