//! Parts of texts for error messages, and quoted texts.

use super::json::write_value;
use crate::ValueRef;

const EXCERPT_CHARS_MAX: usize = 100;

/// Returns at most 100 characters of `text`, for an error message.
///
/// ```
/// use marmota_model::text::excerpt;
/// assert_eq!(excerpt("short"), "short");
/// assert_eq!(excerpt(&"é".repeat(500)), format!("{}…", "é".repeat(100)));
/// ```
#[must_use]
pub fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Returns a value as JSON text, cut to 100 characters, for an error message.
///
/// ```
/// use marmota_model::ValueRef;
/// use marmota_model::text::excerpt_of;
/// assert_eq!(excerpt_of(ValueRef::Text("x")), "\"x\"");
/// assert_eq!(excerpt_of(ValueRef::Null), "null");
/// ```
#[must_use]
pub fn excerpt_of(value: ValueRef<'_>) -> String {
    let mut out = Vec::new();
    write_value(&mut out, value);
    excerpt(&String::from_utf8_lossy(&out))
}

/// Parses a text in single or double quotes from the start of `text`. Returns its content and its
/// number of bytes. A quote inside it is doubled or escaped with a backslash. `None` if the closing
/// quote is missing.
pub(crate) fn unquote(text: &str) -> Option<(String, usize)> {
    let mut chars = text.char_indices().peekable();
    let (_, quote) = chars.next()?;
    let mut read = String::new();
    while let Some((at, c)) = chars.next() {
        let twice = c == quote && chars.peek().is_some_and(|(_, next)| *next == quote);
        if c == '\\' || twice {
            read.push(chars.next()?.1);
        } else if c == quote {
            return Some((read, at + 1));
        } else {
            read.push(c);
        }
    }
    None
}
