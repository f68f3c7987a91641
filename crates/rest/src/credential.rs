//! Tokens in the header `Authorization: Bearer …` (RFC 6750).

use subtle::ConstantTimeEq as _;

/// Returns the token of a header's value; `None` for another scheme.
pub(crate) fn of_header(value: &[u8]) -> Option<&str> {
    let (scheme, token) = std::str::from_utf8(value).ok()?.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Compares tokens in constant time, so that the duration reveals nothing about the token.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}
