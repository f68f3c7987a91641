//! The media type of a file: what its first bytes show, what the client declared, and which types
//! the field accepts.

/// The bytes at the start of a file that determine its type.
pub(crate) const HEAD_BYTES: usize = 8 * 1024;

/// The type of bytes without a known one.
pub(crate) const UNKNOWN: &str = "application/octet-stream";

/// Returns the type of a file with these first bytes; `declared` is the client's `Content-Type`.
///
/// The bytes decide if they have a known signature. A container may be declared more precisely: a
/// ZIP archive as the format that is built on it. A declared type that has a signature, but not in
/// these bytes, is ignored.
pub(crate) fn of(head: &[u8], declared: &str) -> String {
    let declared = essence(declared);
    let found = infer::get(head).map(|found| found.mime_type());
    let refines = |container: &str| match container {
        "application/zip" => {
            declared.starts_with("application/vnd.")
                || declared.ends_with("+zip")
                || declared == "application/java-archive"
        }
        "text/xml" => declared.ends_with("+xml") || declared == "application/xml",
        "video/mp4" => declared == "audio/mp4",
        "video/webm" => declared == "audio/webm",
        _ => false,
    };
    match found {
        Some(found) if refines(found) => declared,
        Some("text/xml") if has_svg(head) => "image/svg+xml".to_owned(),
        Some(found) => found.to_owned(),
        None if has_svg(head) => "image/svg+xml".to_owned(),
        None if declared.is_empty() && is_text(head) => "text/plain".to_owned(),
        None if declared.is_empty() || has_signature(&declared) => UNKNOWN.to_owned(),
        None => declared,
    }
}

/// Returns a media type without its parameters, in lower case; empty if it is malformed.
fn essence(declared: &str) -> String {
    let essence = declared.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_valid = marmota_model::File::is_media_type(&essence);
    if is_valid { essence } else { String::new() }
}

/// Returns true for types whose files always begin with a signature that `infer` knows.
fn has_signature(declared: &str) -> bool {
    matches!(
        declared,
        "image/png"
            | "image/jpeg"
            | "image/gif"
            | "image/webp"
            | "image/bmp"
            | "image/tiff"
            | "image/avif"
            | "image/heic"
            | "application/pdf"
            | "application/zip"
            | "application/gzip"
            | "video/mp4"
            | "video/webm"
            | "audio/ogg"
            | "audio/flac"
    )
}

/// Returns true if the first bytes are UTF-8 without control characters of binary formats.
fn is_text(head: &[u8]) -> bool {
    let is_utf8 = match std::str::from_utf8(head) {
        Ok(_) => true,
        // The last character may continue after these bytes.
        Err(error) => error.error_len().is_none(),
    };
    let is_plain = |byte: &u8| *byte >= 0x20 || matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b);
    is_utf8 && !head.is_empty() && head.iter().all(is_plain)
}

/// Returns true if the first bytes have an SVG element, whose scripts a browser would execute.
fn has_svg(head: &[u8]) -> bool {
    let start = head.trim_ascii_start();
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    start.first() == Some(&b'<') && head.windows(4).any(|bytes| bytes.eq_ignore_ascii_case(b"<svg"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_decide() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
        for (head, declared, found) in [
            (&png[..], "", "image/png"),
            (png, "text/plain", "image/png"),
            (png, "image/jpeg", "image/png"),
            (b"hello", "text/plain; charset=utf-8", "text/plain"),
            (b"hello", "Text/CSV", "text/csv"),
            (b"hello", "", "text/plain"),
            ("h\u{e9}llo".as_bytes(), "", "text/plain"),
            (b"h\xe9llo", "", UNKNOWN),
            (b"a\0b", "", UNKNOWN),
            (b"a\0b", "text/csv", "text/csv"),
            (b"hello", "image/png", UNKNOWN),
            (b"hello", "a\r\nb/c", "text/plain"),
            (b"<!DOCTYPE html><html>", "text/plain", "text/html"),
            (b"<?xml version=\"1.0\"?><svg onload=\"x\">", "image/png", "image/svg+xml"),
            (b"<svg onload=\"x\">", "text/plain", "image/svg+xml"),
            (b"%PDF-1.7", "", "application/pdf"),
            (b"PK\x03\x04rest", "application/epub+zip", "application/epub+zip"),
            (b"PK\x03\x04rest", "text/html", "application/zip"),
            (b"", "application/pdf", UNKNOWN),
        ] {
            assert_eq!(of(head, declared), found, "{declared}");
        }
    }
}
