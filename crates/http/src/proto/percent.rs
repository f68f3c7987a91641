//! Percent-decoding of paths and queries. Text without `%` (and, in queries, `+`) is lent.

use std::borrow::Cow;

/// Decodes `%XX`; what is not followed by two hexadecimal digits stays as it is. Bytes that
/// make no UTF-8 become U+FFFD.
pub(crate) fn decode(text: &[u8], plus_is_space: bool) -> Cow<'_, str> {
    if !text.iter().any(|&byte| byte == b'%' || (plus_is_space && byte == b'+')) {
        return String::from_utf8_lossy(text);
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        decoded.push(match byte {
            b'+' if plus_is_space => b' ',
            b'%' => match pair(after) {
                Some(value) => {
                    rest = &after[2..];
                    value
                }
                None => byte,
            },
            _ => byte,
        });
    }
    Cow::Owned(match String::from_utf8(decoded) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

fn pair(text: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| (*byte as char).to_digit(16).map(|digit| digit as u8);
    Some(digit(text.first()?)? << 4 | digit(text.get(1)?)?)
}

/// The name-value pairs of a query: `a=1&b=x%20y&c`.
#[derive(Clone, Debug)]
pub struct QueryParams<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> QueryParams<'a> {
    /// The pairs of a raw query (what follows the `?`), or of a form body.
    ///
    /// ```
    /// use marmota_http::QueryParams;
    /// let pairs: Vec<_> = QueryParams::new("a=1&b=x+y%21&&c").collect();
    /// assert_eq!(pairs, [("a".into(), "1".into()), ("b".into(), "x y!".into()), ("c".into(), "".into())]);
    /// ```
    pub fn new(query: &'a str) -> Self {
        Self { rest: Some(query.as_bytes()) }
    }
}

impl<'a> Iterator for QueryParams<'a> {
    type Item = (Cow<'a, str>, Cow<'a, str>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self.rest?;
            let (pair, after) = match rest.iter().position(|&byte| byte == b'&') {
                Some(at) => (&rest[..at], Some(&rest[at + 1..])),
                None => (rest, None),
            };
            self.rest = after;
            if pair.is_empty() {
                continue;
            }
            let (name, value) = match pair.iter().position(|&byte| byte == b'=') {
                Some(at) => (&pair[..at], &pair[at + 1..]),
                None => (pair, &[][..]),
            };
            return Some((decode(name, true), decode(value, true)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_escapes_stay() {
        assert_eq!(decode(b"%41%4g%", false), "A%4g%");
        assert_eq!(decode(b"a+b%2B", false), "a+b+");
        assert_eq!(decode(b"%ff", false), "\u{fffd}");
        assert!(matches!(decode(b"plain", true), Cow::Borrowed("plain")));
    }
}
