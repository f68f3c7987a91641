//! A request's body that its handler reads piece by piece: the decoder between the connection's
//! buffer and the handler's [`BodyBuffer`].

use std::rc::Rc;

use crate::body::body_buffer::{BodyBuffer, BodyError};
use crate::proto::chunked::Chunked;

/// A body that is being received.
pub(super) struct Upload {
    /// The buffer that the handler reads from. It has a limit, which holds the client back.
    pub(super) body_buffer: Rc<BodyBuffer>,
    /// The decoder, or the number of bytes to come.
    pub(super) rest: Undecoded,
    /// The last byte of the body has arrived and is decoded.
    pub(super) complete: bool,
    /// The client waits for `100 Continue`.
    pub(super) waits: bool,
    /// How long the handler may still wait for bytes, in ms. Time in which it does not read is not
    /// counted.
    pub(super) patience_ms: u64,
}

/// The part of the body that is not decoded yet.
pub(super) enum Undecoded {
    /// Bytes that follow, by `Content-Length`.
    Exact(u64),
    Chunked(Chunked),
}

impl Drop for Upload {
    fn drop(&mut self) {
        // A reader that outlives the answer must not wait forever.
        self.body_buffer.fail(BodyError::CutOff);
    }
}

impl Upload {
    /// Decodes the front of `coded` as far as there is room, and returns the number of bytes used
    /// up.
    pub(super) fn decode(&mut self, coded: &[u8]) -> usize {
        let Self { body_buffer, rest, complete, .. } = self;
        let mut used = 0;
        body_buffer.fill(|out, room| {
            *complete = match rest {
                Undecoded::Exact(left) => {
                    used = coded.len().min(room).min(usize::try_from(*left).unwrap_or(usize::MAX));
                    out.extend_from_slice(&coded[..used]);
                    *left -= used as u64;
                    *left == 0
                }
                Undecoded::Chunked(chunked) => {
                    let (count, ended) = chunked.decode_to(coded, out, room)?;
                    used = count;
                    ended
                }
            };
            Ok(*complete)
        });
        used
    }
}
