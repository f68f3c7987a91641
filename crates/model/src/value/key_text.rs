//! The text of several values, which is the value of a composite key.

use std::borrow::Cow;

use super::json::write_value;
use crate::ValueRef;

/// Returns the text of a composite key: their values in order, with `,` between them. `%`
/// and `,` inside of a value are percent-encoded.
///
/// ```
/// use marmota_model::{ValueRef, key_text};
/// assert_eq!(key_text(&[ValueRef::Int(1), ValueRef::Int(3402)]), "1,3402");
/// assert_eq!(key_text(&[ValueRef::Text("a,b"), ValueRef::Text("100%")]), "a%2Cb,100%25");
/// ```
#[must_use]
pub fn key_text(values: &[ValueRef<'_>]) -> String {
    let mut out = String::new();
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        push_part(&mut out, *value);
    }
    out
}

fn push_part(out: &mut String, value: ValueRef<'_>) {
    let mut json = Vec::new();
    let written = match value {
        ValueRef::Text(text) => Cow::Borrowed(text),
        value => {
            write_value(&mut json, value);
            String::from_utf8_lossy(&json)
        }
    };
    // Dates and UUIDs are texts in JSON.
    let is_quoted = !matches!(value, ValueRef::Text(_));
    let written = if is_quoted { written.trim_matches('"') } else { &written };
    for c in written.chars() {
        match c {
            '%' => out.push_str("%25"),
            ',' => out.push_str("%2C"),
            c => out.push(c),
        }
    }
}

/// Returns a part of a key's text without its encoding. `None` if the text has other codes than
/// those of [`key_text`].
pub(crate) fn decoded(part: &str) -> Option<Cow<'_, str>> {
    if !part.contains('%') {
        return Some(Cow::Borrowed(part));
    }
    let mut pieces = part.split('%');
    let mut out = pieces.next()?.to_owned();
    for piece in pieces {
        let (code, rest) = piece.split_at_checked(2)?;
        out.push(match code {
            "25" => '%',
            "2C" => ',',
            _ => return None,
        });
        out.push_str(rest);
    }
    Some(Cow::Owned(out))
}
