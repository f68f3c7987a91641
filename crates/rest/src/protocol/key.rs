//! Keys in paths: parsing path segments, and writing them for `Location`.
//!
//! ```text
//! /api/person/7                                     an automatic key: an integer
//! /api/note/0190f8a4-6e3c-7d10-8c52-3f0a9b1e2d47    a UUID
//! /api/city/Saint%2DMalo%2FParam%C3%A9              a text, percent-encoded (RFC 3986)
//! /api/playlist_track/1,3402                        a composite key, whose text is encoded like others
//! ```
//!
//! A text key may contain a slash: the path is split into segments before they are decoded. A key
//! that is not valid is 400, not 404, because no row can have it.

use marmota_http::Request;
use marmota_model::rule::violation;
use marmota_model::{Error, KeyKind, Table, Uuid, Value, ValueRef};
use marmota_web::{ApiError, ApiResult};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::protocol::refusal::of_url;

/// The characters that are not encoded in a path segment (RFC 3986): the unreserved ones, and the
/// comma, which is between the values of a composite key.
const SEGMENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b',');

/// Returns the key in the request's path, of the kind of the table's key.
///
/// # Errors
/// 400 with the field and the value if it is not a valid key of the table.
pub(crate) fn of_path(request: &Request, table: &Table) -> ApiResult<Value> {
    let text = request.param("id").unwrap_or_default();
    let is_text = table.key_kind() != KeyKind::Text || is_utf8(request, &text);
    table.parse_key(&text).filter(|_| is_text).ok_or_else(|| wrong(table, &text))
}

/// Returns the 400 error for a key, with the kind that is required.
#[cold]
fn wrong(table: &Table, text: &str) -> ApiError {
    let what = match table.key_kind() {
        KeyKind::Auto => "an integer",
        KeyKind::Uuid => "a UUID",
        KeyKind::Text => "UTF-8",
    };
    let field = &table.fields()[table.key()];
    let message = format!("the key in the path of a `{}` must be {what}", table.name());
    of_url(Error::invalid(vec![violation(field, ValueRef::Text(text), "type", message)]))
}

/// Returns false if the decoder replaced invalid UTF-8 by U+FFFD: the key would differ from the
/// requested one. The path is decoded again only if the key contains this character, which a valid
/// key may, too.
fn is_utf8(request: &Request, text: &str) -> bool {
    !text.contains('\u{fffd}') || percent_decode_str(request.path()).decode_utf8().is_ok()
}

/// Appends the key as a path segment, so that [`of_path`] returns the same key for it.
pub(crate) fn push_segment(path: &mut String, key: ValueRef<'_>) {
    match key {
        ValueRef::Int(number) => path.push_str(itoa::Buffer::new().format(number)),
        ValueRef::Uuid(uuid) => {
            path.push_str(uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()));
        }
        ValueRef::Text(text) => path.extend(utf8_percent_encode(text, SEGMENT)),
        // Other values are not keys.
        _ => {}
    }
}
