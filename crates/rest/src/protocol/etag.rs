//! Entity tags: a row's version if its table has one, else a hash of the response body; and
//! conditional requests (RFC 9110).
//!
//! ```text
//! GET /api/person/1 HTTP/1.1
//! If-None-Match: "v4"
//!
//! HTTP/1.1 304 Not Modified
//! ETag: "v4"
//!
//! PATCH /api/person/1 HTTP/1.1
//! If-Match: "v3"
//!
//! HTTP/1.1 412 Precondition Failed
//! Content-Type: application/problem+json
//! ```

use marmota_http::{Request, Status};
use marmota_model::{Error, ErrorKind, Table};
use marmota_web::{ApiError, ApiResult};
use xxhash_rust::xxh3::xxh3_64;

/// A strong entity tag (RFC 9110, 8.8.3). The letter distinguishes the two kinds, so that a hash is
/// never taken for a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Etag {
    /// `"v3"`: the version of a row. It can be compared in `If-Match`.
    Version(i64),
    /// `"h0123456789abcdef"`: a hash (XXH3) of the body. It can only avoid a transfer, with
    /// `If-None-Match`.
    Hash(u64),
}

impl Etag {
    /// Returns the tag of these bytes.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self::Hash(xxh3_64(bytes))
    }

    /// Returns the tag in header syntax.
    pub(crate) fn text(self) -> EtagText {
        let mut text = EtagText { bytes: [0; 24], length: 0 };
        match self {
            Self::Version(version) => {
                text.push(b"\"v");
                text.push(itoa::Buffer::new().format(version).as_bytes());
            }
            Self::Hash(hash) => {
                text.push(b"\"h");
                for nibble in (0..16).rev() {
                    let digit = b"0123456789abcdef"[(hash >> (nibble * 4) & 15) as usize];
                    text.push(&[digit]);
                }
            }
        }
        text.push(b"\"");
        text
    }

    /// Parses a tag in header syntax, without `W/`. Returns `None` for a tag that this API does not
    /// create; it matches no row.
    fn from_text(text: &str) -> Option<Self> {
        let inner = text.strip_prefix('"')?.strip_suffix('"')?;
        match inner.split_at_checked(1)? {
            ("v", version) => version.parse().ok().map(Self::Version),
            ("h", hash) => u64::from_str_radix(hash, 16).ok().map(Self::Hash),
            _ => None,
        }
    }
}

/// A tag's text, on the stack; the longest is `"v-9223372036854775808"`.
pub(crate) struct EtagText {
    bytes: [u8; 24],
    length: usize,
}

impl EtagText {
    /// Appends bytes. The longest tag has 23, so the array is large enough for every tag.
    fn push(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        self.bytes[self.length..end].copy_from_slice(bytes);
        self.length = end;
    }

    /// Returns the tag with its quotes.
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

/// Returns true if `If-None-Match` matches this tag, by weak comparison as RFC 9110 requires: the
/// answer is 304. The header is `*` or a list of tags.
pub(crate) fn none_match(request: &Request, etag: Etag) -> bool {
    let Some(header) = request.header_text("if-none-match") else { return false };
    header.trim() == "*"
        || header.split(',').any(|tag| {
            let tag = tag.trim();
            Etag::from_text(tag.strip_prefix("W/").unwrap_or(tag)) == Some(etag)
        })
}

/// Returns true for `If-None-Match: *`: write only if the row does not exist. Only a PUT that can
/// create rows supports it; an existing row is answered with 412.
pub(crate) fn must_be_new(request: &Request) -> bool {
    request.header("if-none-match").is_some_and(|header| header.trim_ascii() == b"*")
}

/// The condition of `If-Match` on the row to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// The row must exist.
    pub(crate) must_exist: bool,
    /// The row must have this version.
    pub(crate) version: Option<i64>,
}

/// Parses `If-Match`, for a write.
///
/// | header | condition |
/// |---|---|
/// | missing | none |
/// | `*` | the row exists |
/// | `"v3"`, `W/"v3"` | the row exists and has version 3 |
///
/// The store checks the version in the transaction of the write, so no other write can happen
/// between the check and the write.
///
/// # Errors
/// 412 for a tag that cannot be a row's, or a table without versions, where no tag can be compared;
/// 400 for several tags, or for a condition that writes do not support (`If-None-Match`).
pub(crate) fn condition(request: &Request, table: &Table) -> ApiResult<Condition> {
    if request.header("if-none-match").is_some() {
        return Err(ApiError::bad_request(
            "`If-None-Match` is only for reads and, as `*`, for a PUT that inserts a row with the \
             client's key; use `If-Match` for other writes",
        ));
    }
    let Some(header) = request.header("if-match") else { return Ok(Condition::default()) };
    let text = String::from_utf8_lossy(header);
    let text = text.trim();
    if text == "*" {
        return Ok(Condition { must_exist: true, version: None });
    }
    if text.contains(',') {
        return Err(ApiError::bad_request(
            "`If-Match` must have one tag here, the ETag of the row's \
                                          GET",
        ));
    }
    if table.version().is_none() {
        let message = format!(
            "rows of `{}` have no version to compare with `If-Match`; leave the header out, or add \
             a version field to the model",
            table.name()
        );
        return Err(stale(message));
    }
    // The tag of a compressed response is weak: its bytes differ, but the row's version is the
    // same.
    match Etag::from_text(text.strip_prefix("W/").unwrap_or(text)) {
        Some(Etag::Version(version)) => Ok(Condition { must_exist: true, version: Some(version) }),
        _ => Err(stale(format!(
            "`If-Match: {}` is not a version of a `{}`; send the ETag of the row's GET, such as \
             \"v3\"",
            marmota_model::text::excerpt(text),
            table.name()
        ))),
    }
}

/// Returns a 412 error. The kind is that of a write with an outdated version, so that clients
/// handle both alike.
pub(crate) fn stale(message: String) -> ApiError {
    ApiError::from(Error::new(ErrorKind::Stale, message)).with_status(Status::PRECONDITION_FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_back() {
        for tag in [
            Etag::Version(1),
            Etag::Version(i64::MAX),
            Etag::Version(i64::MIN),
            Etag::Hash(0),
            Etag::Hash(u64::MAX),
        ] {
            assert_eq!(Etag::from_text(tag.text().as_str()), Some(tag));
        }
        for text in ["", "\"", "\"\"", "v1", "\"v\"", "\"vx\"", "\"é\"", "\"h\""] {
            assert_eq!(Etag::from_text(text), None, "{text}");
        }
    }
}
