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
use memchr::memmem;

use crate::body::body_buffer::BodyError;
use crate::message::body_reader::BodyReader;
use crate::multipart::error::MultipartError;
use crate::multipart::limits::HEAD_BYTES_MAX;

/// The reader of the body, and the sending end of [`Pieces`].
#[derive(Debug)]
pub(super) struct Feed {
    reader: BodyReader,
    /// Set until the first boundary has arrived.
    start: Option<Start>,
    /// Bytes that were read from the body and are not fed yet.
    received: Bytes,
    queue: Arc<Mutex<Queue>>,
}

/// The beginning of the body, up to the first boundary.
///
/// The parser accepts this boundary anywhere. RFC 2046, 5.1.1, requires it at the beginning of a
/// line: another recipient, such as a firewall, would not see a form where the parser sees one.
#[derive(Debug)]
struct Start {
    /// Two dashes and the boundary.
    delimiter: Vec<u8>,
    bytes: Vec<u8>,
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
    pub(super) fn new(reader: BodyReader, boundary: &str) -> (Self, Pieces) {
        let queue = Arc::new(Mutex::new(Queue::default()));
        let pieces = Pieces(Arc::clone(&queue));
        let start = Start { delimiter: format!("--{boundary}").into_bytes(), bytes: Vec::new() };
        (Self { reader, start: Some(start), received: Bytes::new(), queue }, pieces)
    }

    /// Waits for the first boundary, and checks that it begins a line and is not far from the
    /// beginning. A body that ends before is left to the parser.
    fn poll_start(&mut self, context: &mut Context<'_>) -> Poll<Result<(), MultipartError>> {
        let Some(Start { delimiter, bytes }) = &mut self.start else { return Poll::Ready(Ok(())) };
        let refused = |reason| Poll::Ready(Err(MultipartError::Malformed(reason)));
        loop {
            match memmem::find(bytes, delimiter) {
                Some(at) if at > HEAD_BYTES_MAX => return refused("a part is missing"),
                Some(at) if at > 0 && !bytes[..at].ends_with(b"\r\n") => {
                    return refused("the first boundary is not at the start of a line");
                }
                Some(_) => break,
                None if bytes.len() > HEAD_BYTES_MAX + delimiter.len() => {
                    return refused("a part is missing");
                }
                None => {}
            }
            if ready!(self.reader.poll_read(context, bytes))? == 0 {
                break;
            }
        }
        self.received = Bytes::from(std::mem::take(bytes));
        self.start = None;
        Poll::Ready(Ok(()))
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
        ready!(self.poll_start(context))?;
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
            return Poll::Ready(Err(MultipartError::Malformed("the form ends inside a part")));
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
