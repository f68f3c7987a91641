//! Streams of a connection: taking the peer's, sending, and the messages about them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_lite::stream::Stream;
use marmota_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::deadline::after;
use super::frame::{FRAME_BYTES_MAX, Frame};
use super::handle::{Peer, Presence};
use super::streams::{
    Bounds, CREDIT_MAX, Inflow, Opened, Room, WINDOW_BYTES, beyond, broken, too_many,
};
use crate::failure::Failure;
use crate::transfer::ChunkStream;

impl Peer {
    /// Takes the peer's stream with that number, which a call refers to.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if there are too many streams, [`ErrorKind::Invalid`] if it was already
    /// taken.
    pub(crate) fn take_stream(&self, number: u64, bounds: Bounds) -> Result<ChunkStream> {
        let mut state = self.0.lock();
        if !matches!(state.presence, Presence::Here) {
            return Err(broken());
        }
        let (inflow, credit) = state.streams.expect(number, bounds)?;
        state.send(credit);
        drop(state);
        Ok(self.coming(inflow))
    }

    /// Returns the pieces of a received stream.
    pub(super) fn coming(&self, inflow: Arc<Mutex<Inflow>>) -> ChunkStream {
        ChunkStream::new(Coming { peer: self.clone(), inflow })
    }

    /// Registers a streamed result, which the connection sends; returns its number.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if there are too many streams.
    pub(crate) fn open(&self, pieces: ChunkStream, called: &str, bounds: Bounds) -> Result<u64> {
        let mut state = self.0.lock();
        let results = state.streams.outgoing.values().filter(|one| one.call.is_none()).count();
        if results >= bounds.streams_max {
            drop(state);
            return Err(too_many(bounds.streams_max));
        }
        if !matches!(state.presence, Presence::Here) {
            drop(state);
            return Err(broken());
        }
        let number = state.streams.number(None, bounds.reconnect_timeout);
        state.streams.opened.push(Opened { number, pieces, called: called.into() });
        state.wake_runner();
        Ok(number)
    }

    /// Returns true while streams are open.
    pub(crate) fn has_streams(&self) -> bool {
        !self.0.lock().streams.is_empty()
    }

    /// Returns the credit of a stream; the waker is woken when it grows.
    pub(super) fn room(&self, number: u64, waker: &Waker) -> Room {
        let mut state = self.0.lock();
        let Some(outflow) = state.streams.outgoing.get_mut(&number) else { return Room::Gone };
        if !outflow.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            outflow.waker = Some(waker.clone());
        }
        match outflow.credit {
            0 => {
                if outflow.call.is_none() && outflow.until.is_none() {
                    outflow.until = Some(after(outflow.reconnect_timeout));
                }
                Room::None
            }
            credit => {
                Room::Bytes(usize::try_from(credit).unwrap_or(usize::MAX).min(FRAME_BYTES_MAX))
            }
        }
    }

    /// Sends bytes within the credit.
    pub(super) fn send(&self, number: u64, bytes: &[u8]) {
        let mut state = self.0.lock();
        let Some(outflow) = state.streams.outgoing.get_mut(&number) else { return };
        outflow.credit = outflow.credit.saturating_sub(bytes.len() as u64);
        outflow.until = None;
        let call = outflow.call;
        state.send(Frame::Data(number, bytes).write());
        // The call's deadline starts anew with each progress.
        if let Some(waiting) = call.and_then(|call| state.waiting.get_mut(&call)) {
            waiting.until = after(waiting.deadline);
        }
    }

    /// Ends a stream.
    pub(super) fn finish(&self, number: u64, failure: Option<Failure>) {
        let mut state = self.0.lock();
        if state.streams.outgoing.remove(&number).is_some() {
            let frame = match failure {
                Some(failure) => Frame::Fail(number, failure),
                None => Frame::End(number),
            };
            state.send(frame.write());
        }
    }

    /// Ends a stream that its sender has dropped.
    pub(super) fn abandon(&self, number: u64) {
        if self.0.lock().streams.outgoing.contains_key(&number) {
            let message = "the sender canceled the stream before its end";
            let error = Error::new(ErrorKind::Lost, message);
            self.finish(number, Some(Failure::of(&error, "a stream")));
        }
    }

    /// Processes a message about a stream.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] if the peer violates the protocol; the connection must be closed.
    pub(crate) fn take_frame(&self, message: &[u8]) -> Result<()> {
        let frame = Frame::read(message)?;
        let mut state = self.0.lock();
        let streams = &mut state.streams;
        let waker = match frame {
            Frame::Data(number, bytes) => match streams.incoming.get(&number) {
                Some(inflow) => inflow.lock().put(bytes)?,
                None => {
                    let left = streams.stray.checked_sub(bytes.len());
                    streams.stray = left.ok_or_else(|| beyond(number))?;
                    None
                }
            },
            Frame::End(number) => {
                streams.incoming.get(&number).and_then(|inflow| inflow.lock().finish(Ok(())))
            }
            Frame::Fail(number, failure) => {
                let inflow = streams.incoming.get(&number);
                inflow.and_then(|inflow| inflow.lock().finish(Err(failure.into_error())))
            }
            Frame::Credit(number, bytes) => match streams.outgoing.get_mut(&number) {
                Some(outflow) => {
                    outflow.credit += u64::from(bytes);
                    if outflow.credit > CREDIT_MAX {
                        let message = format!("{} bytes are granted to a stream", outflow.credit);
                        return Err(Error::new(ErrorKind::Protocol, message));
                    }
                    outflow.until = None;
                    outflow.waker.take()
                }
                None => None,
            },
            Frame::Cancel(number) => {
                streams.outgoing.remove(&number).and_then(|outflow| outflow.waker)
            }
        };
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Grants again the bytes that were read.
    fn grant(&self, inflow: &Mutex<Inflow>) {
        let mut state = self.0.lock();
        let mut inflow = inflow.lock();
        // The connection of an ended stream may have ended too.
        if inflow.end.is_none() {
            let taken = std::mem::take(&mut inflow.taken);
            inflow.granted += taken;
            let bytes = u32::try_from(taken).unwrap_or(u32::MAX);
            state.send(Frame::Credit(inflow.number, bytes).write());
        }
    }

    /// Cancels a received stream.
    pub(super) fn forget_stream(&self, inflow: &Arc<Mutex<Inflow>>) {
        let mut state = self.0.lock();
        if let Some(frame) = state.streams.forget(inflow) {
            state.send(frame);
        }
    }
}

/// The receiver of a stream.
struct Coming {
    peer: Peer,
    inflow: Arc<Mutex<Inflow>>,
}

impl Stream for Coming {
    type Item = Result<Vec<u8>>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut inflow = self.inflow.lock();
        if let Some(piece) = inflow.pieces.pop_front() {
            inflow.taken += piece.len();
            let is_due = inflow.taken >= WINDOW_BYTES / 2;
            drop(inflow);
            if is_due {
                self.peer.grant(&self.inflow);
            }
            return Poll::Ready(Some(Ok(piece)));
        }
        if let Some(end) = &mut inflow.end {
            return Poll::Ready(std::mem::replace(end, Ok(())).err().map(Err));
        }
        inflow.waker = Some(context.waker().clone());
        if inflow.until.is_none() {
            inflow.until = Some(after(inflow.reconnect_timeout));
            drop(inflow);
            // The task that runs the connection must learn the new deadline.
            self.peer.0.lock().wake_runner();
        }
        Poll::Pending
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.peer.forget_stream(&self.inflow);
    }
}

#[cfg(test)]
mod tests;
