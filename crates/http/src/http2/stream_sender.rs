//! Sending of a stream's bytes to its client, as far as the client's windows allow (RFC 9113, 5.2).

use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::{Reason, SendStream};

use super::clock::{Clock, StreamTimeouts};
use super::stream::Outcome;

/// Bytes of an answer produced before they are sent.
pub(super) const AHEAD_BYTES: usize = 32 * 1024;

/// A stream whose answer's head was sent.
pub(super) struct StreamSender {
    /// The sending half of the stream in `h2`.
    pub(super) stream: SendStream<Bytes>,
    /// The timer for a client that does not read.
    pub(super) clock: Rc<Clock>,
    timeouts: StreamTimeouts,
}

impl StreamSender {
    /// Returns a sender with the time limits of `timeouts`.
    pub(super) fn new(
        stream: SendStream<Bytes>,
        clock: Rc<Clock>,
        timeouts: StreamTimeouts,
    ) -> Self {
        Self { stream, clock, timeouts }
    }

    /// Sends as much as the client has room for; the rest stays in `piece`, which must not be
    /// empty. With `is_last` the stream ends after the piece.
    ///
    /// Returns the outcome of the stream if it has ended: after the last piece, on a reset, or
    /// because the client did not read in time.
    pub(super) fn send(
        &mut self,
        piece: &mut Bytes,
        is_last: bool,
        context: &mut Context<'_>,
    ) -> Poll<Option<Outcome>> {
        self.stream.reserve_capacity(piece.len().min(AHEAD_BYTES));
        let room = match self.stream.capacity() {
            0 => match self.stream.poll_capacity(context) {
                Poll::Ready(Some(Ok(room))) => room,
                Poll::Ready(_) => return Poll::Ready(Some(Outcome::Reset)),
                Poll::Pending if self.clock.is_over(self.timeouts.write_ms, context) => {
                    self.stream.send_reset(Reason::CANCEL);
                    return Poll::Ready(Some(Outcome::Done));
                }
                Poll::Pending => return Poll::Pending,
            },
            room => room,
        };
        if room == 0 {
            return Poll::Ready(None);
        }
        self.clock.stop();
        let bytes = piece.split_to(room.min(piece.len()));
        let ends = piece.is_empty() && is_last;
        Poll::Ready(match self.stream.send_data(bytes, ends) {
            Ok(()) if ends => Some(Outcome::Done),
            Ok(()) => None,
            Err(_) => Some(Outcome::Reset),
        })
    }
}
