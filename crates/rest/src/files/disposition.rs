//! `Content-Disposition`: the name of a file in requests and responses (RFC 6266, RFC 8187), and
//! which types a browser may show.

use marmota_http::Request;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The characters of an extended value that are not encoded (`attr-char`, RFC 8187, 3.2.1).
const ATTR_CHAR: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// Returns the header of a response: `inline` for types without scripts, else `attachment`.
pub(crate) fn of_response(name: &str, media_type: &str, download: bool) -> String {
    let kind = if !download && is_shown(media_type) { "inline" } else { "attachment" };
    let is_plain =
        |letter: char| matches!(letter, ' '..='~') && !matches!(letter, '"' | '\\' | '%');
    let plain: String =
        name.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
    match plain == name {
        true => format!("{kind}; filename=\"{plain}\""),
        false => {
            let encoded = utf8_percent_encode(name, ATTR_CHAR);
            format!("{kind}; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
        }
    }
}

/// Returns true for types that a browser can show without executing a part of the file.
pub(crate) fn is_shown(media_type: &str) -> bool {
    match media_type.split_once('/') {
        Some(("image", kind)) => matches!(kind, "png" | "jpeg" | "gif" | "webp" | "avif" | "bmp"),
        Some(("audio" | "video", _)) => true,
        Some(("text", kind)) => kind == "plain",
        Some(("application", kind)) => kind == "pdf",
        _ => false,
    }
}

/// Returns the name in the header of a request; empty if it has none.
pub(crate) fn of_request(request: &Request) -> String {
    request.header_text("content-disposition").map(name_in).unwrap_or_default()
}

/// Returns the name in a header. `filename*` is preferred, as RFC 6266, 4.3, requires.
fn name_in(header: &str) -> String {
    let (mut plain, mut extended) = (None, None);
    for (name, value) in parameters(header) {
        if name.eq_ignore_ascii_case("filename*") {
            let text = value.get(..7).filter(|charset| charset.eq_ignore_ascii_case("utf-8''"));
            let decoded = text.map(|_| percent_decode_str(&value[7..]).decode_utf8());
            extended = decoded.and_then(Result::ok).map(std::borrow::Cow::into_owned);
        } else if name.eq_ignore_ascii_case("filename") {
            plain = Some(value);
        }
    }
    extended.or(plain).unwrap_or_default()
}

/// Returns the parameters of a header, after its first part. Values in quotes may have semicolons
/// and escapes.
fn parameters(header: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let (mut part, mut in_quotes, mut escaped) = (String::new(), false, false);
    let mut parts = Vec::new();
    for letter in header.chars() {
        match letter {
            _ if escaped => {
                part.push(letter);
                escaped = false;
            }
            '\\' if in_quotes => escaped = true,
            '"' => in_quotes = !in_quotes,
            ';' if !in_quotes => parts.push(std::mem::take(&mut part)),
            _ => part.push(letter),
        }
    }
    parts.push(part);
    for part in parts.iter().skip(1) {
        if let Some((name, value)) = part.split_once('=') {
            found.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded() {
        for (name, header) in [
            ("a b.txt", "inline; filename=\"a b.txt\""),
            ("a\"b.txt", "inline; filename=\"a_b.txt\"; filename*=UTF-8''a%22b.txt"),
            ("é\r\n.txt", "inline; filename=\"___.txt\"; filename*=UTF-8''%C3%A9%0D%0A.txt"),
        ] {
            assert_eq!(of_response(name, "text/plain", false), header);
            assert_eq!(name_in(header), name);
        }
        assert!(of_response("a", "text/html", false).starts_with("attachment"));
        assert!(of_response("a", "image/svg+xml", false).starts_with("attachment"));
        assert!(of_response("a", "image/png", true).starts_with("attachment"));
    }

    #[test]
    fn names_are_read() {
        for (header, name) in [
            ("attachment; filename=a.txt", "a.txt"),
            ("attachment; filename=\"a;b\\\"c.txt\"", "a;b\"c.txt"),
            ("attachment; filename=\"e.txt\"; filename*=utf-8''%C3%A9.txt", "é.txt"),
            ("attachment; filename*=latin1''x; filename=y", "y"),
            ("attachment; filename*=é", ""),
            ("attachment", ""),
            ("", ""),
        ] {
            assert_eq!(name_in(header), name, "{header}");
        }
    }
}
