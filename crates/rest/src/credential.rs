//! Tokens in the header `Authorization: Bearer …` (RFC 6750).

use subtle::ConstantTimeEq as _;

/// The token of a header's value; none if it is of another scheme.
pub(crate) fn of_header(value: &[u8]) -> Option<&str> {
    let (scheme, token) = std::str::from_utf8(value).ok()?.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// True of the same token. How long it takes says nothing of how much of it is right.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}
