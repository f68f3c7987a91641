//! An answer's body that is made while it is sent. It is asked for its next piece only when
//! what it made before has left for the kernel, so a slow client holds one buffer of it.

use std::task::{Context, Poll};

use crate::body::producer::{Ahead, BodyStream, BoxError};
use crate::message::writer::{Framing, Persistence};
use crate::reactor::task::Task;

/// Bytes made before they are sent, more or less: a producer may overshoot by a piece.
pub(super) const AHEAD_BYTES: usize = 32 * 1024;

/// Room for a chunk's size before it is known: eight digits and their line end.
pub(super) const SIZE_ROOM: &[u8; 10] = b"00000000\r\n";
/// A chunk up to this length is moved over the digits left free; a longer one keeps zeros there.
const MOVE_BYTES_MAX: usize = 4 * 1024;

/// A body under way.
pub(super) struct Outflow {
    pub(super) body: BodyStream,
    pub(super) task: Task,
    pub(super) framing: Framing,
    pub(super) persistence: Persistence,
    /// The client did not ask for the end of the connection.
    pub(super) keep_alive: bool,
    /// The producer waits, and has not woken the connection since.
    pub(super) stalled: bool,
}

impl Outflow {
    pub(super) fn note_woken(&mut self) {
        self.stalled = false;
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Bytes of memory that the body holds until it has ended.
    pub(super) fn held_bytes(&self) -> usize {
        self.body.held_bytes()
    }

    /// Appends the next bytes of the body, framed, to `out`. `Pending` when there may be more.
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
                return Poll::Ready(Err("it is longer than its declared length".into()));
            }
            Framing::Length(left) => {
                *left -= count as u64;
                if *left > 0 && matches!(made, Poll::Ready(Ok(()))) {
                    return Poll::Ready(Err("it is shorter than its declared length".into()));
                }
            }
            Framing::Close => {}
        }
        made
    }

    fn poll(&mut self, out: &mut Vec<u8>) -> Poll<Result<(), BoxError>> {
        self.task.arm();
        let mut context = Context::from_waker(self.task.waker());
        match self.body.poll_ahead(&mut context, out, AHEAD_BYTES) {
            Ahead::More => Poll::Pending,
            Ahead::Stalled => {
                self.stalled = true;
                Poll::Pending
            }
            Ahead::Ended => Poll::Ready(Ok(())),
            Ahead::Failed(error) => Poll::Ready(Err(error)),
        }
    }
}

/// Writes the size of the chunk that lies behind `start` into its room at `size_at`.
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
