//! Request bodies that their handlers read as they arrive.
//!
//! Bytes are released to the client's window when they are passed to the handler's buffer, so the
//! window and that buffer bound the memory. [`CountGuard`] widens the connection's window while
//! such a body is open.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::RecvStream;

use super::clock::Patience;
use crate::body::body_buffer::{BodyBuffer, BodyError};
use crate::message::request::Request;

/// An item that is counted as long as it exists: the count widens the connection's window.
pub(super) struct CountGuard(Rc<Cell<u32>>);

impl CountGuard {
    /// Counts an item.
    pub(super) fn new(count: &Rc<Cell<u32>>) -> Self {
        count.set(count.get() + 1);
        Self(Rc::clone(count))
    }
}

impl Drop for CountGuard {
    /// Uncounts the item.
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A body that its handler reads as it arrives.
pub(super) struct Upload {
    /// The buffer that the handler reads from.
    inlet: Rc<BodyBuffer>,
    body: RecvStream,
    /// Received bytes for which the buffer had no room.
    piece: Bytes,
    /// Bytes that the route still allows.
    left: u64,
    patience: Patience,
    _count: CountGuard,
}

impl Drop for Upload {
    fn drop(&mut self) {
        // A reader that outlives the answer must not wait forever.
        self.inlet.fail(BodyError::CutOff);
    }
}

impl Upload {
    /// Gives the request a buffer for its body, which may have `bytes_max` bytes. The body is
    /// received while the returned upload exists; dropping it fails a reader that still waits.
    pub(super) fn new(
        body: RecvStream,
        bytes_max: u64,
        patience: Patience,
        count: CountGuard,
        request: &mut Request,
    ) -> Self {
        let inlet = Rc::new(BodyBuffer::default());
        Rc::make_mut(&mut request.0).body_buffer = Some(Rc::clone(&inlet));
        Self { inlet, body, piece: Bytes::new(), left: bytes_max, patience, _count: count }
    }

    /// Passes received bytes to the handler, as far as there is room, and releases them to the
    /// client's window. Ends the buffer at the end of the body, and fails it on a reset, at the
    /// limit of the route, and when the client does not send in time while the handler waits.
    fn feed(&mut self, context: &mut Context<'_>) {
        while self.inlet.has_room() {
            if self.piece.is_empty() {
                match self.body.poll_data(context) {
                    Poll::Ready(Some(Ok(piece))) => {
                        self.patience.note(piece.len());
                        self.piece = piece;
                    }
                    Poll::Ready(Some(Err(_))) => return self.inlet.fail(BodyError::CutOff),
                    Poll::Ready(None) => return self.inlet.fill(|_, _| Ok(true)),
                    Poll::Pending => {
                        if self.inlet.is_awaited() && self.patience.is_over(context) {
                            self.inlet.fail(BodyError::TimedOut);
                        }
                        return;
                    }
                }
            }
            let Self { inlet, body, piece, left, .. } = self;
            inlet.fill(|out, room| {
                let bytes = piece.split_to(room.min(piece.len()));
                if bytes.len() as u64 > *left {
                    return Err(BodyError::TooLarge);
                }
                *left -= bytes.len() as u64;
                out.extend_from_slice(&bytes);
                // Fails only if no more bytes arrive.
                let _ = body.flow_control().release_capacity(bytes.len());
                Ok(piece.is_empty() && body.is_end_stream())
            });
        }
    }
}

/// Passes received bytes to the handler, if there is an upload.
pub(super) fn feed(upload: &mut Option<Upload>, context: &mut Context<'_>) {
    if let Some(upload) = upload {
        upload.feed(context);
    }
}
