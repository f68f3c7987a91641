//! A response body that is produced while it is sent, with its framing. Its next piece is requested
//! only when the previous ones have been passed to the kernel, so a slow client costs one buffer.
//!
//! The framing is that of HTTP/1.1: chunks (RFC 9112, 7.1), a declared length, which is checked, or
//! the end of the connection for clients of HTTP/1.0. When bytes are produced and sent is decided
//! in `streaming.rs`.

use std::task::{Context, Poll};

use crate::body::producer::{BodyStream, BoxError, Progress};
use crate::message::writer::{Framing, Persistence};
use crate::reactor::task::Task;

/// Bytes produced before they are sent, approximately: a producer may exceed this by one piece.
pub(super) const AHEAD_BYTES: usize = 32 * 1024;

/// Space for a chunk's size before it is known: eight digits and their line end.
pub(super) const SIZE_ROOM: &[u8; 10] = b"00000000\r\n";
/// A chunk up to this length is moved over the unused digits; a longer one keeps zeros there.
const MOVE_BYTES_MAX: usize = 4 * 1024;

/// A response body in progress.
pub(super) struct StreamedBody {
    /// The producer.
    pub(super) body: BodyStream,
    /// The producer's waker.
    pub(super) task: Task,
    /// How the client finds the end of the body.
    pub(super) framing: Framing,
    /// Whether the connection stays open after the body.
    pub(super) persistence: Persistence,
    /// The client did not request the end of the connection.
    pub(super) keep_alive: bool,
    /// The producer waits, and has not woken the connection since.
    pub(super) stalled: bool,
}

impl StreamedBody {
    /// Notes that the producer has woken the connection.
    pub(super) fn note_woken(&mut self) {
        self.stalled = false;
    }

    /// Returns true if the producer waits.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Returns the bytes of memory that the body holds until it ends.
    pub(super) fn held_bytes(&self) -> usize {
        self.body.held_bytes()
    }

    /// Appends the next bytes of the body, framed, to `out`. Returns `Pending` if more may follow,
    /// and `Ready` at the end.
    ///
    /// # Errors
    /// The producer's error, or a body that is longer or shorter than its declared length.
    pub(super) fn make(&mut self, out: &mut Vec<u8>) -> Poll<Result<(), BoxError>> {
        let size_at = out.len();
        if self.framing == Framing::Chunked {
            out.extend_from_slice(SIZE_ROOM);
        }
        let start = out.len();
        let made = self.poll(out);
        if out.len() < start {
            return made;
        }
        let count = out.len() - start;
        match &mut self.framing {
            Framing::Chunked => {
                end_chunk(out, size_at, start);
                if let Poll::Ready(Ok(())) = made {
                    out.extend_from_slice(b"0\r\n\r\n");
                }
            }
            Framing::Length(left) if count as u64 > *left => {
                out.truncate(start + *left as usize);
                return Poll::Ready(Err("the body is longer than its declared length".into()));
            }
            Framing::Length(left) => {
                *left -= count as u64;
                if *left > 0 && matches!(made, Poll::Ready(Ok(()))) {
                    return Poll::Ready(Err("the body is shorter than its declared length".into()));
                }
            }
            Framing::Close => {}
        }
        made
    }

    /// Polls the producer until about [`AHEAD_BYTES`] are there.
    fn poll(&mut self, out: &mut Vec<u8>) -> Poll<Result<(), BoxError>> {
        self.task.arm();
        let mut context = Context::from_waker(self.task.waker());
        match self.body.poll_ahead(&mut context, out, AHEAD_BYTES) {
            Progress::More => Poll::Pending,
            Progress::Stalled => {
                self.stalled = true;
                Poll::Pending
            }
            Progress::Ended => Poll::Ready(Ok(())),
            Progress::Failed(error) => Poll::Ready(Err(error)),
        }
    }
}

/// Ends the chunk that begins at `start`, and writes its size into the space at `size_at`. A chunk
/// without data is removed, because a size of 0 would end the body.
pub(super) fn end_chunk(out: &mut Vec<u8>, size_at: usize, start: usize) {
    let count = out.len() - start;
    if count == 0 {
        return out.truncate(size_at);
    }
    let line = format!("{count:08x}");
    let zeros = line.bytes().take_while(|&digit| digit == b'0').count();
    out[size_at..size_at + line.len()].copy_from_slice(line.as_bytes());
    if count <= MOVE_BYTES_MAX {
        out.drain(size_at..size_at + zeros);
    }
    out.extend_from_slice(b"\r\n");
}
