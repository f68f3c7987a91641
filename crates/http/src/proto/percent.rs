//! Percent-decoding of paths and queries (RFC 3986, 2.1), and the pairs of a query.
//!
//! Text without `%` (and, in queries, without `+`) is borrowed from the request; other text is
//! copied once. Malformed escapes are not errors: a path that was sent to a server must lead to an
//! answer in any case.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode;

/// Decodes each `%XX`. A `%` without two hexadecimal digits stays as it is. Bytes that are not
/// UTF-8 become U+FFFD. A `+` is not decoded: it means a blank only in queries.
#[inline]
pub(crate) fn decode(text: &[u8]) -> Cow<'_, str> {
    percent_decode(text).decode_utf8_lossy()
}

/// The name-value pairs of a query, decoded, in order: `a=1&b=x%20y&c`. An iterator of pairs of
/// [`Cow`].
///
/// It follows the rules of `application/x-www-form-urlencoded` in the URL Standard of WHATWG: `+`
/// is a blank, a name without `=` has an empty value, and empty parts (`a=1&&b=2`) are skipped. For
/// a handler, [`Request::query_params`](crate::Request::query_params) is shorter.
///
/// ```
/// use marmota_http::QueryParams;
/// let tags: Vec<_> = QueryParams::new("tag=a&page=2&tag=b%26c")
///     .filter(|(name, _)| name == "tag")
///     .map(|(_, value)| value.into_owned())
///     .collect();
/// assert_eq!(tags, ["a", "b&c"]);
/// ```
#[derive(Clone)]
pub struct QueryParams<'a>(form_urlencoded::Parse<'a>);

impl<'a> QueryParams<'a> {
    /// Returns the pairs of a query without its `?`, or of a form body.
    ///
    /// ```
    /// use marmota_http::QueryParams;
    /// let pairs: Vec<_> = QueryParams::new("a=1&b=x+y%21&&c").collect();
    /// let expected = [("a", "1"), ("b", "x y!"), ("c", "")];
    /// assert_eq!(pairs, expected.map(|(name, value)| (name.into(), value.into())));
    /// ```
    pub fn new(query: &'a str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()))
    }
}

impl fmt::Debug for QueryParams<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

impl<'a> Iterator for QueryParams<'a> {
    type Item = (Cow<'a, str>, Cow<'a, str>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_escapes_stay() {
        assert_eq!(decode(b"%41%4g%"), "A%4g%");
        assert_eq!(decode(b"a+b%2B"), "a+b+");
        assert_eq!(decode(b"%ff"), "\u{fffd}");
        let mut pairs = QueryParams::new("plain=%4g&%ff=a+b%2B");
        assert_eq!(pairs.next(), Some(("plain".into(), "%4g".into())));
        assert_eq!(pairs.next(), Some(("\u{fffd}".into(), "a b+".into())));
        assert!(matches!(decode(b"plain"), Cow::Borrowed("plain")));
        assert!(matches!(QueryParams::new("a=b").next(), Some((Cow::Borrowed("a"), _))));
    }
}
