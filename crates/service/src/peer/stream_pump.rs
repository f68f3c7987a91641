//! Sends a stream on a connection. The stream is polled only while the receiver has granted credit.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_lite::stream::Stream;
use marmota_model::Result;

use super::handle::Peer;
use super::streams::{Opened, Room};
use crate::failure::Failure;
use crate::transfer::ChunkStream;

/// The maximum number of pieces sent per poll, so that others get their turn.
const ROUNDS_MAX: usize = 8;

/// The sender of one stream. If it is dropped before its end, the stream ends with an error.
pub(crate) struct StreamPump {
    peer: Peer,
    number: u64,
    /// The stream; `None` once it has ended.
    pieces: Option<ChunkStream>,
    piece: Vec<u8>,
    /// The number of bytes of the piece that were sent.
    sent: usize,
    /// The method, for errors and the log.
    called: Arc<str>,
}

impl StreamPump {
    pub(super) fn new(peer: Peer, number: u64, pieces: ChunkStream, called: Arc<str>) -> Self {
        Self { peer, number, pieces: Some(pieces), piece: Vec::new(), sent: 0, called }
    }

    /// Sends as much as possible; ready once the stream has ended.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        for _ in 0..ROUNDS_MAX {
            let Some(pieces) = &mut self.pieces else { return Poll::Ready(()) };
            let room = match self.peer.room(self.number, context.waker()) {
                Room::Bytes(room) => room,
                Room::None => return Poll::Pending,
                Room::Gone => {
                    self.pieces = None;
                    return Poll::Ready(());
                }
            };
            let left = &self.piece[self.sent..];
            if !left.is_empty() {
                let count = left.len().min(room);
                self.peer.send(self.number, &left[..count]);
                self.sent += count;
                continue;
            }
            match Pin::new(pieces).poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(piece))) => (self.piece, self.sent) = (piece, 0),
                Poll::Ready(end) => {
                    self.pieces = None;
                    let error = end.and_then(Result::err);
                    let failure = error.map(|error| Failure::of(&error, &self.called));
                    self.peer.finish(self.number, failure);
                    return Poll::Ready(());
                }
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Peer {
    /// Takes the streamed results that the connection must send.
    pub(crate) fn take_opened(&self) -> Vec<StreamPump> {
        let opened = std::mem::take(&mut self.0.lock().streams.opened);
        let pump = |Opened { number, pieces, called }| {
            StreamPump::new(self.clone(), number, pieces, called)
        };
        opened.into_iter().map(pump).collect()
    }
}

/// Returns the streamed result of a call whose own streams are still sent: they are polled with it.
pub(super) fn with_pumps(pumps: Vec<StreamPump>, coming: ChunkStream) -> ChunkStream {
    ChunkStream::new(WithPumps { pumps, coming })
}

struct WithPumps {
    pumps: Vec<StreamPump>,
    coming: ChunkStream,
}

impl Stream for WithPumps {
    type Item = Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.pumps.retain_mut(|pump| pump.poll(context).is_pending());
        Pin::new(&mut self.coming).poll_next(context)
    }
}

impl Drop for StreamPump {
    fn drop(&mut self) {
        self.peer.abandon(self.number);
    }
}
