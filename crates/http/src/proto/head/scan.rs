//! Scanning of a head: where its parts end, and which bytes they may have. The functions know only
//! bytes; `head.rs` decides what the parts mean.
//!
//! Most time of a small request is spent here. So the loops look at 8 or 32 bytes at a time, and
//! rare cases are `#[cold]` functions. No function panics on any input: all indexes come from `get`
//! or from a length that was checked.

use super::Span;
use super::error::{HeadError, Stop};
use crate::proto::method::Method;

/// Reads the empty line that ends the head at `at`, and returns the index after it. If the line at
/// `at` is neither a header nor empty, the error names its fault. `name_end` is the end of the
/// token at `at`.
pub(super) fn end_of_head(buffer: &[u8], at: usize, name_end: usize) -> Result<usize, Stop> {
    match buffer.get(at) {
        Some(b'\r' | b'\n') => line_end(buffer, at),
        Some(b' ' | b'\t') => Err(HeadError::Folded.into()),
        Some(_) if name_end < buffer.len() => Err(HeadError::HeaderName.into()),
        _ => Err(Stop::Incomplete),
    }
}

/// Returns the index after the CR LF at `at`.
pub(super) fn line_end(buffer: &[u8], at: usize) -> Result<usize, Stop> {
    match (buffer.get(at), buffer.get(at + 1)) {
        (Some(b'\r'), Some(b'\n')) => Ok(at + 2),
        (Some(b'\r'), None) => Err(Stop::Incomplete),
        _ => Err(HeadError::LineEnd.into()),
    }
}

/// Returns the end of the method at `at`, which must be followed by a space.
pub(super) fn method_end(buffer: &[u8], at: usize) -> Result<usize, Stop> {
    /// Longer than any registered method, and short enough to refuse garbage early.
    const METHOD_BYTES_MAX: usize = 32;
    let end = token_end(buffer, at);
    match buffer.get(end) {
        _ if end - at > METHOD_BYTES_MAX => Err(HeadError::Method.into()),
        Some(b' ') if end > at => Ok(end),
        Some(_) => Err(HeadError::Method.into()),
        None => Err(Stop::Incomplete),
    }
}

/// Returns the path of a target that does not start with a slash (RFC 9112, 3.2.2 to 3.2.4): `*` of
/// OPTIONS and the authority of CONNECT have an empty one, an absolute URL has that of the URL.
#[cold]
pub(super) fn other_form(
    method: Method,
    buffer: &[u8],
    at: usize,
    end: usize,
    path_end: usize,
) -> Result<Span, HeadError> {
    let target = &buffer[at..end];
    if target == b"*" && method == Method::Options {
        return Ok(Span::new(at, at));
    }
    if method == Method::Connect && !target.is_empty() && is_host(target) {
        return Ok(Span::new(at, at));
    }
    let scheme = [&b"http://"[..], b"https://"]
        .into_iter()
        .find(|scheme| {
            target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        })
        .ok_or(HeadError::Target)?;
    let authority = at + scheme.len();
    let authority_end = buffer[authority..path_end]
        .iter()
        .position(|&byte| byte == b'/')
        .map_or(path_end, |n| authority + n);
    if authority_end == authority || !is_host(&buffer[authority..authority_end]) {
        return Err(HeadError::Target);
    }
    Ok(Span::new(authority_end, path_end))
}

/// Returns true if `text` is this name, in upper or lower case. Setting bit 5 makes letters small
/// and leaves `-` as it is; no other byte that a token or a value can have becomes one of these.
/// Without an early exit the loop is a few vector instructions.
#[inline]
pub(super) fn is_name<const N: usize>(text: &[u8], small: &[u8; N]) -> bool {
    let Ok(text) = <&[u8; N]>::try_from(text) else { return false };
    let mut difference = 0;
    for (byte, small) in text.iter().zip(small) {
        difference |= (byte | 0x20) ^ small;
    }
    difference == 0
}

/// Returns true if `text` is a host, with or without a port (RFC 3986, 3.2.2). Almost all are a
/// name or an IPv4 address, which this function decides alone.
#[inline]
pub(super) fn is_host(text: &[u8]) -> bool {
    let name = text.iter().take_while(|&&byte| NAME[byte as usize]).count();
    match text.get(name) {
        None => true,
        Some(b':') if name > 0 => text[name + 1..].iter().all(u8::is_ascii_digit),
        Some(_) => is_rare_host(text),
    }
}

/// Decides like [`is_host`] about a text with brackets (IPv6) or escapes.
#[cold]
fn is_rare_host(text: &[u8]) -> bool {
    let Some(inner) = text.strip_prefix(b"[") else {
        let (name, port) = match text.iter().position(|&byte| byte == b':') {
            Some(colon) => (&text[..colon], &text[colon + 1..]),
            None => (text, &[][..]),
        };
        return !name.is_empty() && is_escaped_name(name) && port.iter().all(u8::is_ascii_digit);
    };
    let Some(end) = inner.iter().position(|&byte| byte == b']') else { return false };
    let port = match &inner[end + 1..] {
        [] => &[],
        [b':', port @ ..] => port,
        _ => return false,
    };
    let is_address = match inner[..end].strip_prefix(b"v") {
        // IPvFuture: `v1.x`.
        Some(future) => split_at_dot(future).is_some_and(|(version, rest)| {
            let is_version = !version.is_empty() && version.iter().all(u8::is_ascii_hexdigit);
            let fits = |&byte: &u8| NAME[byte as usize] || byte == b':';
            is_version && !rest.is_empty() && rest.iter().all(fits)
        }),
        None => std::str::from_utf8(&inner[..end])
            .is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok()),
    };
    is_address && port.iter().all(u8::is_ascii_digit)
}

/// Splits a text at its first dot.
fn split_at_dot(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let dot = text.iter().position(|&byte| byte == b'.')?;
    Some((&text[..dot], &text[dot + 1..]))
}

/// Returns true if a host's name has only bytes that are allowed there, and two hexadecimal digits
/// after each `%`.
fn is_escaped_name(mut name: &[u8]) -> bool {
    loop {
        name = match name {
            [] => return true,
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                rest
            }
            [byte, rest @ ..] if NAME[*byte as usize] => rest,
            _ => return false,
        };
    }
}

/// Parses a number that has only digits, as `Content-Length` must (RFC 9110, 8.6): no sign, no
/// blanks, no list.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Returns true if the bytes are a token (RFC 9110, 5.6.2), as names of headers and methods must
/// be.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && token_end(bytes, 0) == bytes.len()
}

/// Returns the end of the token at `at`. Names are nearly always letters and `-`, which are
/// recognised eight at a time; the table decides only where that run ends.
#[inline]
pub(super) fn token_end(buffer: &[u8], at: usize) -> usize {
    let mut rest = buffer.get(at..).unwrap_or_default();
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        let others = not_letter_or_dash(u64::from_le_bytes(*word));
        if others != 0 {
            rest = &rest[(others.trailing_zeros() / 8) as usize..];
            break;
        }
        rest = after;
    }
    let length = rest.iter().position(|&byte| !TOKEN[byte as usize]).unwrap_or(rest.len());
    buffer.len() - rest.len() + length
}

/// Sets the top bit of each byte that is neither an ASCII letter nor `-`. The sums stay within
/// their bytes because only seven bits of each are added.
#[inline]
pub(super) fn not_letter_or_dash(word: u64) -> u64 {
    const fn all(byte: u8) -> u64 {
        u64::from_le_bytes([byte; 8])
    }
    let small = (word | all(0x20)) & all(0x7f);
    let letter = (small + all(0x80 - b'a')) & !(small + all(0x7f - b'z'));
    let other_than_dash = ((word ^ all(b'-')) & all(0x7f)) + all(0x7f);
    (!letter & other_than_dash | word) & all(0x80)
}

/// Returns the index of the CR LF that ends the value at `at`. Tabs are allowed within a value.
#[inline]
pub(super) fn value_end(buffer: &[u8], at: usize) -> Result<usize, Stop> {
    let mut end = control(buffer, at);
    loop {
        match buffer.get(end) {
            Some(b'\r') => break,
            Some(b'\t') => end = control(buffer, end + 1),
            Some(b'\n') => return Err(HeadError::LineEnd.into()),
            Some(_) => return Err(HeadError::HeaderValue.into()),
            None => return Err(Stop::Incomplete),
        }
    }
    match buffer.get(end + 1) {
        Some(b'\n') => Ok(end),
        Some(_) => Err(HeadError::LineEnd.into()),
        None => Err(Stop::Incomplete),
    }
}

/// Returns the index of the first control character from `at` on, or the buffer's length.
///
/// Long values are checked 32 bytes at a time in a loop that the compiler turns into vector
/// instructions; short ones, and the end of long ones, eight at a time. A byte below 0x20 borrows
/// into its top bit, and so does 0x7f after the exclusive or. A borrow can make a false hit only
/// above a true one, so the lowest hit is always true.
#[inline]
pub(super) fn control(buffer: &[u8], at: usize) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const TOPS: u64 = ONES << 7;
    let mut rest = buffer.get(at..).unwrap_or_default();
    while let Some((block, after)) = rest.split_first_chunk::<32>() {
        if block.iter().fold(false, |any, &byte| any | (byte < 0x20) | (byte == 0x7f)) {
            break;
        }
        rest = after;
    }
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        let below = word.wrapping_sub(ONES * 0x20) & !word;
        let delete = word ^ (ONES * 0x7f);
        let delete = delete.wrapping_sub(ONES) & !delete;
        let hits = (below | delete) & TOPS;
        if hits != 0 {
            return buffer.len() - rest.len() + (hits.trailing_zeros() / 8) as usize;
        }
        rest = after;
    }
    let end = rest.iter().position(|&byte| byte < 0x20 || byte == 0x7f).unwrap_or(rest.len());
    buffer.len() - rest.len() + end
}

/// Returns true if a value can be sent in a header (RFC 9110, 5.5): no control characters but tabs.
pub(crate) fn is_value(value: &[u8]) -> bool {
    let end = control(value, 0);
    end == value.len()
        || value[end..].iter().all(|&byte| (byte >= 0x20 || byte == b'\t') && byte != 0x7f)
}

/// The bytes of a token (RFC 9110, 5.6.2).
static TOKEN: [bool; 256] = table(b"!#$%&'*+-.^_`|~");
/// The bytes of a host's name that need no escape (RFC 3986, 3.2.2).
static NAME: [bool; 256] = table(b"-._~!$&'()*+,;=");
/// The bytes of a target. Some of them, like `{` and `"`, ought to be percent-encoded, but all
/// browsers and curl send them, and they have only one meaning. `?` is left out because it begins
/// the query.
pub(super) static TARGET: [bool; 256] = table(b"-._~!$&'()*+,;=:@/%[]{}|\\^`\"<>");

/// Makes a table of the ASCII letters and digits and the `others`.
const fn table(others: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut index = 0;
    while index < others.len() {
        table[others[index] as usize] = true;
        index += 1;
    }
    table
}
