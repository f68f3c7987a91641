//! The sending of an answer's body that does not fit into the client's windows, or is produced
//! while it is sent: a future, which ends with the body or when the client resets the stream.
//!
//! A producer is polled only when all its earlier bytes were passed to `h2`, which accepts only
//! what the windows allow. So a client that does not read costs one piece.

use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::Reason;

use super::stream::Outcome;
use super::stream_sender::{AHEAD_BYTES, StreamSender};
use super::unread::UnreadAnswer;
use super::upload::{self, CountGuard, Upload};
use crate::body::producer::{BodyStream, Progress, note_cut_off};
use crate::socket::address::Peer;

/// An answer's body that is being sent.
pub(super) struct Sending {
    sender: StreamSender,
    /// Bytes that are not sent yet.
    piece: Bytes,
    /// The producer of further bytes; `None` at the end.
    source: Option<BodyStream>,
    /// Bytes that the source still has to produce, if its length is known. Producing more or fewer
    /// resets the stream.
    left: Option<u64>,
    /// The request's body, if the answer's producer reads it.
    upload: Option<Upload>,
    /// The memory of this answer, in the connection's account.
    held: UnreadAnswer,
    /// Counts the request as one in progress, unless its answer has no end.
    _counted: Option<CountGuard>,
}

impl Sending {
    /// Returns the future's state. The body is `piece`, or what `source` produces.
    pub(super) fn new(
        sender: StreamSender,
        piece: Bytes,
        source: Option<BodyStream>,
        upload: Option<Upload>,
        held: UnreadAnswer,
        counted: Option<CountGuard>,
    ) -> Self {
        let left = source.as_ref().and_then(BodyStream::length);
        // A body with heartbeats consists of events, and may never end.
        let is_endless = source.as_ref().is_some_and(|source| source.heartbeat().is_some());
        let _counted = counted.filter(|_| !is_endless);
        Self { sender, piece, source, left, upload, held, _counted }
    }

    /// Sends the body. `peer` is for the log.
    pub(super) async fn run(mut self, peer: Peer) -> Outcome {
        poll_fn(|context| self.poll(context, peer)).await
    }

    /// Sends and produces as much as possible, until the windows are full or the producer waits.
    ///
    /// If the producer fails, the stream is reset (INTERNAL_ERROR): the client detects that the
    /// body is incomplete. A heartbeat is sent when the producer waits for long.
    fn poll(&mut self, context: &mut Context<'_>, peer: Peer) -> Poll<Outcome> {
        if self.sender.stream.poll_reset(context).is_ready() {
            return Poll::Ready(Outcome::Reset);
        }
        upload::feed(&mut self.upload, context);
        let mut is_stalled = false;
        loop {
            while !self.piece.is_empty() {
                let is_last = self.source.is_none();
                let sent = std::task::ready!(self.sender.send(&mut self.piece, is_last, context));
                self.held.note_progress(&self.sender.clock);
                if let Some(outcome) = sent {
                    return Poll::Ready(outcome);
                }
            }
            let Some(source) = &mut self.source else {
                // Everything was sent with its end, or only the end is left.
                let _ = self.sender.stream.send_data(Bytes::new(), true);
                return Poll::Ready(Outcome::Done);
            };
            if is_stalled {
                // The producer wakes this stream; others have their turn until then.
                return Poll::Pending;
            }
            let heartbeat = source.heartbeat();
            let mut made = Vec::new();
            let ahead = source.poll_ahead(context, &mut made, AHEAD_BYTES);
            upload::feed(&mut self.upload, context);
            is_stalled = matches!(ahead, Progress::Stalled) && heartbeat.is_none();
            let is_short = self.left.is_some_and(|left| left != made.len() as u64);
            let is_long = self.left.is_some_and(|left| left < made.len() as u64);
            let failed = match ahead {
                Progress::Failed(error) => Some(error),
                _ if is_long => Some("the body is longer than its declared length".into()),
                Progress::Ended if is_short => {
                    Some("the body is shorter than its declared length".into())
                }
                Progress::Ended => {
                    self.source = None;
                    None
                }
                Progress::Stalled if made.is_empty() => {
                    let Some(heartbeat) = heartbeat else { return Poll::Pending };
                    if !self.sender.clock.is_over(heartbeat.after_ms, context) {
                        return Poll::Pending;
                    }
                    self.sender.clock.stop();
                    made.extend_from_slice(heartbeat.bytes);
                    None
                }
                Progress::Stalled | Progress::More => None,
            };
            if let Some(error) = failed {
                note_cut_off(peer, &error);
                self.sender.stream.send_reset(Reason::INTERNAL_ERROR);
                return Poll::Ready(Outcome::Done);
            }
            if !made.is_empty() {
                self.sender.clock.stop();
            }
            self.left = self.left.map(|left| left - made.len() as u64);
            let source_bytes = self.source.as_ref().map_or(0, BodyStream::held_bytes);
            self.held.set(made.capacity() + source_bytes);
            self.piece = Bytes::from(made);
        }
    }
}
