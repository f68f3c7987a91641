//! Percent-decoding of paths and queries. Text without `%` (and, in queries, `+`) is lent.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode;

/// Decodes `%XX`; what is not followed by two hexadecimal digits stays as it is. Bytes that
/// make no UTF-8 become U+FFFD.
#[inline]
pub(crate) fn decode(text: &[u8]) -> Cow<'_, str> {
    percent_decode(text).decode_utf8_lossy()
}

/// The name-value pairs of a query: `a=1&b=x%20y&c`.
#[derive(Clone)]
pub struct QueryParams<'a>(form_urlencoded::Parse<'a>);

impl<'a> QueryParams<'a> {
    /// The pairs of a raw query (what follows the `?`), or of a form body.
    ///
    /// ```
    /// use marmota_http::QueryParams;
    /// let pairs: Vec<_> = QueryParams::new("a=1&b=x+y%21&&c").collect();
    /// assert_eq!(pairs, [("a".into(), "1".into()), ("b".into(), "x y!".into()), ("c".into(), "".into())]);
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
