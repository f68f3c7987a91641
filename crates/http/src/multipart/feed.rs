//! The bytes of a request's body on their way to the parser.
//!
//! The parser reads a stream that can move between threads, and it reads all that is ready before
//! it parses. A request's body belongs to one thread, and all of a whole body is ready. So the
//! parser gets a stream of its own, [`Pieces`], that has at most one piece: [`Feed`] puts the next
//! one there when the parser has used the previous one and waits for more. This bounds the memory
//! of the parser for bodies of any length.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;

use crate::body::inlet::BodyError;
use crate::message::body_reader::BodyReader;
use crate::multipart::error::MultipartError;

/// The reader of the body, and the sending end of [`Pieces`].
#[derive(Debug)]
pub(super) struct Feed {
    reader: BodyReader,
    /// Bytes that were read from the body and are not fed yet.
    received: Bytes,
    queue: Arc<Mutex<Queue>>,
}

/// The stream that the parser reads: empty, or with one piece.
#[derive(Debug)]
pub(super) struct Pieces(Arc<Mutex<Queue>>);

/// The state of the stream. The lock is never contended: both ends are used by the same poll.
#[derive(Debug, Default)]
struct Queue {
    pieces: VecDeque<Bytes>,
    /// The body is complete: the stream ends after its pieces.
    ended: bool,
}

impl Feed {
    /// Returns a feed of this body, and the stream for the parser.
    pub(super) fn new(reader: BodyReader) -> (Self, Pieces) {
        let queue = Arc::new(Mutex::new(Queue::default()));
        let pieces = Pieces(Arc::clone(&queue));
        (Self { reader, received: Bytes::new(), queue }, pieces)
    }

    /// Gives the parser the next piece, of at most `bytes_max` bytes, and returns its length; 0 at
    /// the end of the body. Waits until bytes have arrived.
    ///
    /// Called when the parser returned `Pending`: this registers the waker for it.
    pub(super) fn poll_feed(
        &mut self,
        context: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<Result<usize, MultipartError>> {
        if self.received.is_empty() {
            let mut bytes = Vec::new();
            ready!(self.reader.poll_read(context, &mut bytes))?;
            self.received = Bytes::from(bytes);
        }
        let piece = self.received.split_to(self.received.len().min(bytes_max));
        let count = piece.len();
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if count > 0 {
            queue.pieces.push_back(piece);
        } else if std::mem::replace(&mut queue.ended, true) {
            // The parser knows the end already, and waits for bytes that do not come.
            return Poll::Ready(Err(MultipartError::Malformed("it ends inside of a part")));
        }
        Poll::Ready(Ok(count))
    }

    /// Reads the rest of the body and discards it.
    ///
    /// # Errors
    /// [`BodyError`] if the body is incomplete.
    pub(super) async fn skip_rest(&mut self) -> Result<(), BodyError> {
        let mut discarded = Vec::new();
        self.received.clear();
        while self.reader.read(&mut discarded).await? > 0 {
            discarded.clear();
        }
        Ok(())
    }
}

impl Stream for Pieces {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match queue.pieces.pop_front() {
            Some(piece) => Poll::Ready(Some(Ok(piece))),
            None if queue.ended => Poll::Ready(None),
            // No waker is stored: `Feed` is polled next, by the same task.
            None => Poll::Pending,
        }
    }
}
