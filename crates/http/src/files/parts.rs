//! Several parts of a file as one answer (`multipart/byteranges`; RFC 9110, 14.6), read while it is
//! sent as a file is.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;

use super::held::Bytes;
use super::read_piece;
use crate::body::producer::BodyStream;

/// What stands between two parts; the hash is keyed by chance, so that no file has it.
fn boundary() -> String {
    let chance = RandomState::new();
    format!("{:016x}{:016x}", chance.hash_one(1), chance.hash_one(2))
}

/// What follows next in the body.
enum Piece {
    Text(String),
    File(u64, u64),
}

/// The `Content-Type` of an answer with these parts of a file, and its body.
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
                // A file cut short meanwhile ends the body too soon, which the connection notices.
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
