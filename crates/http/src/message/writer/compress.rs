//! The compression of an answer that was written: its head is parsed again, and written anew for
//! the coded body. So answers of all kinds of handlers are compressed alike.
//!
//! It runs when a handler has ended its answer, on a route with
//! [`Compression`](crate::Compression). The steps:
//!
//! 1. Short answers are left alone, which most are, before anything is parsed.
//! 2. The head is read for the headers that forbid or prevent a coding.
//! 3. `Accept-Encoding` selects the coding. Without one, only `Vary` is added.
//! 4. A body of up to 32 KiB is coded here; a longer one becomes a stream that is coded in pieces.
//! 5. The head is written again: with `Content-Encoding`, a weak ETag, and without the old length.
//!
//! If there is no memory for an encoder, the answer is sent as it was.

use std::fmt::Write as _;

use memchr::memmem;

use super::{Framing, Tail};
use crate::body::Body;
use crate::body::coding::{self, Coding};
use crate::message::request::Request;
use crate::message::response::Payload;
use crate::proto::head::Version;
use crate::proto::method::Method;

/// The header that informs caches about the negotiation.
const VARY: &[u8] = b"Vary: Accept-Encoding\r\n";

/// The media types of texts that do not begin with `text/`.
const TEXTS: [&str; 9] = [
    "application/json",
    "application/javascript",
    "application/x-javascript",
    "application/xml",
    "application/x-ndjson",
    "application/ndjson",
    "application/x-www-form-urlencoded",
    "application/wasm",
    "application/manifest+json",
];

/// Compresses the answer that is in `out` from `start` on and is followed by `tail`, if the client
/// accepts a coding and the answer may be coded. Returns the tail of the new answer.
///
/// An answer is not coded if it is shorter than `bytes_min`, has a coding, a range or a cookie,
/// forbids it (`no-store`, `no-transform`), is not a text, or has a heartbeat.
pub(super) fn compress(
    request: &Request,
    bytes_min: usize,
    out: &mut Vec<u8>,
    start: usize,
    tail: Option<Tail>,
) -> Option<Tail> {
    let is_head = request.method() == Method::Head;
    let is_304 = out.get(start + 9..start + 12) == Some(b"304");
    if tail.is_none() && !is_head && !is_304 && out.len() - start < bytes_min {
        return tail;
    }
    let Some(head_end) = memmem::find(&out[start..], b"\r\n\r\n").map(|at| start + at + 2) else {
        return tail;
    };
    let head = Head::of(&out[start..head_end]);
    let body_length = match &tail {
        None if is_head => head.length,
        None => Some((out.len() - head_end - 2) as u64),
        Some(Tail::Body(body)) => Some(body.len() as u64),
        // Bytes of a heartbeat would damage the coded ones.
        Some(Tail::Stream(stream)) if stream.0.heartbeat().is_some() => return tail,
        Some(Tail::Stream(stream)) => stream.0.length(),
        Some(Tail::UpgradedProtocol(_)) => return tail,
    };
    let is_short = !is_304 && body_length.is_some_and(|length| length < bytes_min as u64);
    if is_short || !head.may_be_coded(is_304) {
        return tail;
    }
    let accepted = request.header_text("accept-encoding").unwrap_or_default();
    let Some(coding) = Coding::accepted(accepted) else {
        if !head.varies {
            out.splice(head_end..head_end, VARY.iter().copied());
        }
        return tail;
    };
    // A client of HTTP/1.0 needs the length.
    let is_old = request.0.head.version == Version::Http10;
    if is_old && (tail.is_some() || out.len() - head_end > coding::WHOLE_BYTES_MAX) {
        return tail;
    }
    let lines = head.lines_for_coded(&out[start..head_end]);
    let (coded, is_coded) = match tail {
        _ if is_304 || is_head => (None, !is_304),
        None => code_whole(Body::from(out[head_end + 2..].to_vec()), coding),
        Some(Tail::Body(body)) => code_whole(body, coding),
        Some(Tail::Stream(stream)) => match coding::streamed(stream.0, coding) {
            Ok(body) => (Some(Payload::Stream(body)), true),
            Err(body) => return Some(Tail::Stream(Box::new((body, stream.1)))),
        },
        Some(Tail::UpgradedProtocol(_)) => (None, false),
    };
    if !is_coded && let Some(Payload::Whole(body)) = coded {
        return keep(out, head_end, body);
    }
    out.truncate(start);
    out.extend_from_slice(&lines);
    if is_coded {
        put(out, format_args!("Content-Encoding: {}\r\n", coding.name()));
    }
    match coded {
        None => {
            out.extend_from_slice(b"\r\n");
            None
        }
        Some(Payload::Whole(body)) => {
            put(out, format_args!("Content-Length: {}\r\n\r\n", body.len()));
            out.extend_from_slice(body.as_bytes());
            None
        }
        Some(Payload::Stream(body)) => {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            Some(Tail::Stream(Box::new((body, Framing::Chunked))))
        }
        Some(Payload::UpgradedProtocol(_)) => None,
    }
}

/// Codes a complete body. Returns the payload, and whether it was coded.
fn code_whole(body: Body, coding: Coding) -> (Option<Payload>, bool) {
    match coding::whole(body, coding) {
        Ok(coded) => (Some(coded.into()), true),
        Err(body) => (Some(Payload::Whole(body)), false),
    }
}

/// Returns the tail of an answer that is sent as it was, because there was no memory for an
/// encoder.
#[cold]
fn keep(out: &[u8], head_end: usize, body: Body) -> Option<Tail> {
    (out.len() == head_end + 2).then_some(Tail::Body(body))
}

/// Appends a line.
fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let mut line = String::new();
    // Writing to a string does not fail.
    let _ = line.write_fmt(text);
    out.extend_from_slice(line.as_bytes());
}

/// The properties of an answer's head on which compression depends.
#[derive(Default)]
struct Head {
    /// The value of `Content-Length`.
    length: Option<u64>,
    /// The media type is a text, which becomes shorter.
    is_text: bool,
    /// The answer must not be coded, for any body.
    is_fixed: bool,
    /// `Vary` has `Accept-Encoding` or `*`.
    varies: bool,
}

impl Head {
    /// Parses the lines of a head.
    fn of(lines: &[u8]) -> Self {
        let is_part = lines.get(9..12) == Some(b"206");
        let mut head = Self { is_fixed: is_part, ..Self::default() };
        for (name, value) in headers(lines) {
            let has = |word| has_word(value, word);
            match () {
                () if is(name, "content-length") => head.length = number(value),
                () if is(name, "content-type") => head.is_text = is_text(value),
                () if is(name, "cache-control") => {
                    head.is_fixed |= has("no-store") || has("no-transform");
                }
                () if is(name, "vary") => head.varies |= has("accept-encoding") || has("*"),
                () if is(name, "set-cookie")
                    || is(name, "content-encoding")
                    || is(name, "content-range") =>
                {
                    head.is_fixed = true;
                }
                () => {}
            }
        }
        head
    }

    /// Returns true if the answer may be coded. A 304 has no media type, and gets the headers of
    /// the 200 that it stands for.
    fn may_be_coded(&self, is_304: bool) -> bool {
        !self.is_fixed && (self.is_text || is_304)
    }

    /// Returns the lines for the coded body, without its length and coding.
    fn lines_for_coded(&self, lines: &[u8]) -> Vec<u8> {
        let mut new = Vec::with_capacity(lines.len() + VARY.len());
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
            let has_name = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
            if has_name("etag") {
                let tag = line[name.len() + 1..].trim_ascii();
                new.extend_from_slice(b"ETag: ");
                new.extend_from_slice(&coding::weak_tag(tag));
                new.extend_from_slice(b"\r\n");
            } else if !["content-length", "transfer-encoding", "accept-ranges"]
                .iter()
                .any(|name| has_name(name))
            {
                new.extend_from_slice(line);
            }
        }
        if !self.varies {
            new.extend_from_slice(VARY);
        }
        new
    }
}

/// Compares without case.
fn is(name: &[u8], wanted: &str) -> bool {
    name.eq_ignore_ascii_case(wanted.as_bytes())
}

/// Returns true if a list of words has this one.
fn has_word(list: &[u8], word: &str) -> bool {
    list.split(|&byte| byte == b',').any(|part| is(part.trim_ascii(), word))
}

fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value.trim_ascii()).ok()?.parse().ok()
}

/// Returns the headers of a head's lines. Every answer passes here, so only the values that matter are
/// looked at further.
fn headers(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let ends = memchr::memchr_iter(b'\n', lines);
    let starts = memchr::memchr_iter(b'\n', lines).map(|end| end + 1);
    starts.zip(ends.skip(1)).filter_map(|(start, end)| {
        let line = &lines[start..end];
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], &line[colon + 1..]))
    })
}

/// Returns true if bodies of this media type become shorter. Server-sent events are not coded,
/// because each must be sent at once.
fn is_text(media_type: &[u8]) -> bool {
    let name = media_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    let begins = |with: &str| name.get(..with.len()).is_some_and(|part| is(part, with));
    let ends = |with: &str| {
        let start = name.len().checked_sub(with.len());
        start.is_some_and(|start| is(&name[start..], with))
    };
    TEXTS.iter().any(|text| is(name, text))
        || begins("text/") && !is(name, "text/event-stream")
        || ends("+json")
        || ends("+xml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_of_texts_are_known() {
        for text in ["text/html; charset=utf-8", "Application/JSON", "image/svg+xml"] {
            assert!(is_text(text.as_bytes()), "{text}");
        }
        for other in ["image/png", "application/octet-stream", "text/event-stream", ""] {
            assert!(!is_text(other.as_bytes()), "{other}");
        }
    }
}
