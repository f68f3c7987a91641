//! A request's body that its handler takes piece by piece.

use std::rc::Rc;

use crate::body::inlet::{BodyBuffer, BodyError};
use crate::proto::chunked::Chunked;

/// A body that is being taken.
pub(super) struct Upload {
    pub(super) inlet: Rc<BodyBuffer>,
    pub(super) rest: Rest,
    /// The last byte of the body has come and is decoded.
    pub(super) complete: bool,
    /// The client waits to be told that the body is wanted.
    pub(super) waits: bool,
    /// How long the handler may yet wait for bytes: time in which it does not read is not the
    /// client's.
    pub(super) patience_ms: u64,
}

/// What is still to come.
pub(super) enum Rest {
    Exact(u64),
    Chunked(Chunked),
}

impl Drop for Upload {
    fn drop(&mut self) {
        // A reader that is kept beyond the answer is not to wait for ever.
        self.inlet.fail(BodyError::CutOff);
    }
}

impl Upload {
    /// Decodes from the front of `coded` what there is room for, and says how many bytes are
    /// used up.
    pub(super) fn decode(&mut self, coded: &[u8]) -> usize {
        let Self { inlet, rest, complete, .. } = self;
        let mut used = 0;
        inlet.fill(|out, room| {
            *complete = match rest {
                Rest::Exact(left) => {
                    used = coded.len().min(room).min(usize::try_from(*left).unwrap_or(usize::MAX));
                    out.extend_from_slice(&coded[..used]);
                    *left -= used as u64;
                    *left == 0
                }
                Rest::Chunked(chunked) => {
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
