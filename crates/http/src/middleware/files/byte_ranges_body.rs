//! Several parts of a file as one answer (`multipart/byteranges`; RFC 9110, 14.6), read while they
//! are sent, like a file.
//!
//! The length of the body is known in advance, so the answer has a `Content-Length`.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;

use super::cached_file::Bytes;
use super::read_piece;
use crate::body::producer::BodyStream;

/// Returns the boundary between two parts. Its hash has a random key, so that no file contains it.
fn boundary() -> String {
    let chance = RandomState::new();
    format!("{:016x}{:016x}", chance.hash_one(1), chance.hash_one(2))
}

/// The next piece of the body: the lines between two parts, or a part from its first position to
/// before the second.
enum Piece {
    Text(String),
    File(u64, u64),
}

/// Returns the `Content-Type` of an answer with these parts of a file, and its body. `length` and
/// `media_type` are those of the whole file.
pub(super) fn answer(
    parts: &[(u64, u64)],
    length: u64,
    media_type: &str,
    bytes: Bytes,
) -> (String, BodyStream) {
    let boundary = boundary();
    let mut pieces = VecDeque::new();
    for (start, end) in parts {
        let last = end - 1;
        pieces.push_back(Piece::Text(format!(
            "\r\n--{boundary}\r\nContent-Type: {media_type}\r\n\
             Content-Range: bytes {start}-{last}/{length}\r\n\r\n"
        )));
        pieces.push_back(Piece::File(*start, *end));
    }
    pieces.push_back(Piece::Text(format!("\r\n--{boundary}--\r\n")));
    let body_bytes = pieces.iter().map(|piece| match piece {
        Piece::Text(text) => text.len() as u64,
        Piece::File(start, end) => end - start,
    });
    let body_bytes = body_bytes.sum();
    let stream = BodyStream::new(move |out: &mut Vec<u8>| {
        match pieces.pop_front() {
            None => return Ok(ControlFlow::Break(())),
            Some(Piece::Text(text)) => out.extend_from_slice(text.as_bytes()),
            Some(Piece::File(start, end)) => {
                let count = read_piece(&bytes, start, end, out)?;
                // A file truncated in the meantime ends the body early, which the connection
                // detects.
                if count == 0 {
                    return Ok(ControlFlow::Break(()));
                }
                if start + count < end {
                    pieces.push_front(Piece::File(start + count, end));
                }
            }
        }
        Ok(match pieces.is_empty() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    });
    (format!("multipart/byteranges; boundary={boundary}"), stream.with_length(body_bytes))
}
