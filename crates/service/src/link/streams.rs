//! The streams of a link in both directions: flow control and buffers.
//!
//! A sender sends only bytes that were granted: the receiver grants a window, and renews it as it
//! reads. So a receiver buffers at most one window, and a slow one delays its sender, not the link.
//! When a receiver cancels, the number of bytes in flight is known exactly.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_lite::stream::Stream;
use marmota_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::{Link, Presence, State, after};
use crate::failure::Failure;
use crate::frame::{FRAME_BYTES_MAX, Frame};
use crate::pieces::Pieces;
use crate::pump::Pump;

/// The number of bytes that a sender may be ahead of its receiver.
pub(crate) const WINDOW_BYTES: usize = 64 * 1024;
/// The maximum credit of a receiver. A larger one cannot come from a correct peer.
const CREDIT_MAX: u64 = 16 << 20;

/// The open streams of a link.
#[derive(Default)]
pub(super) struct Streams {
    incoming: HashMap<u64, Arc<Mutex<Inflow>>>,
    outgoing: HashMap<u64, Outflow>,
    last: u64,
    /// Bytes that may still arrive for canceled streams.
    stray: usize,
    /// Streamed results that the carrier sends.
    opened: Vec<Pump>,
}

/// A received stream.
pub(crate) struct Inflow {
    number: u64,
    pieces: VecDeque<Vec<u8>>,
    /// The number of bytes that the sender may send.
    granted: usize,
    /// The number of bytes that were read and not granted again.
    taken: usize,
    end: Option<Result<()>>,
    waker: Option<Waker>,
    /// When the waiting reader times out.
    until: Option<Instant>,
    reconnect_timeout: Duration,
}

/// A sent stream.
struct Outflow {
    /// The number of bytes that may be sent.
    credit: u64,
    /// The call of which the stream is a parameter.
    call: Option<u64>,
    waker: Option<Waker>,
    /// When the stream times out because the receiver has granted nothing.
    until: Option<Instant>,
    reconnect_timeout: Duration,
}

/// The credit of a sender.
#[derive(Debug)]
pub(crate) enum Room {
    /// This number of bytes.
    Bytes(usize),
    None,
    /// The receiver has canceled the stream.
    Gone,
}

/// The maximum number of streams, and how long one may stall.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) streams_max: usize,
    pub(crate) reconnect_timeout: Duration,
}

impl Streams {
    /// Registers the peer's stream with that number.
    pub(super) fn expect(
        &mut self,
        number: u64,
        bounds: Bounds,
    ) -> Result<(Arc<Mutex<Inflow>>, Vec<u8>)> {
        if self.incoming.len() >= bounds.streams_max {
            return Err(too_many(bounds.streams_max));
        }
        let Entry::Vacant(place) = self.incoming.entry(number) else {
            let message = format!("stream {number} is taken already; number each anew");
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        let inflow = Inflow {
            number,
            pieces: VecDeque::new(),
            granted: WINDOW_BYTES,
            taken: 0,
            end: None,
            waker: None,
            until: None,
            reconnect_timeout: bounds.reconnect_timeout,
        };
        let inflow = Arc::clone(place.insert(Arc::new(Mutex::new(inflow))));
        Ok((inflow, Frame::Credit(number, WINDOW_BYTES as u32).write()))
    }

    /// Assigns a number to a stream that will be sent.
    pub(super) fn number(&mut self, call: Option<u64>, reconnect_timeout: Duration) -> u64 {
        self.last += 1;
        let until = call.is_none().then(|| after(reconnect_timeout));
        let outflow = Outflow { credit: 0, call, waker: None, until, reconnect_timeout };
        self.outgoing.insert(self.last, outflow);
        self.last
    }

    /// Removes a received stream; returns the message to send about it.
    fn forget(&mut self, inflow: &Arc<Mutex<Inflow>>) -> Option<Vec<u8>> {
        let number = inflow.lock().number;
        // The number may belong to a stream of a newer connection.
        self.incoming.get(&number).filter(|known| Arc::ptr_eq(known, inflow))?;
        self.incoming.remove(&number);
        let inflow = inflow.lock();
        if inflow.end.is_some() {
            return None;
        }
        self.stray = self.stray.saturating_add(inflow.granted);
        Some(Frame::Cancel(number).write())
    }

    /// Ends all streams of a connection, except those of calls that wait for the next one.
    pub(super) fn cut(&mut self, waits: impl Fn(u64) -> bool) -> Cut {
        self.stray = 0;
        let mut cut = Cut { pumps: std::mem::take(&mut self.opened), wakers: Vec::new() };
        for (_, inflow) in self.incoming.drain() {
            cut.wakers.extend(inflow.lock().finish(Err(broken())));
        }
        self.outgoing.retain(|_, one| {
            let stays = one.call.is_some_and(&waits);
            if !stays {
                cut.wakers.extend(one.waker.take());
            }
            stays
        });
        cut
    }

    pub(super) fn is_empty(&self) -> bool {
        self.incoming.is_empty() && self.outgoing.is_empty()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let comes = self.incoming.values().filter_map(|one| one.lock().until);
        comes.chain(self.outgoing.values().filter_map(|one| one.until)).min()
    }

    /// Ends the streams that have stalled; returns the messages to send about them.
    pub(super) fn expire(&mut self, now: Instant) -> (Vec<Vec<u8>>, Vec<Waker>) {
        let (mut frames, mut wakers) = (Vec::new(), Vec::new());
        let is_late = |until: Option<Instant>| until.is_some_and(|until| until <= now);
        let late: Vec<_> =
            self.incoming.values().filter(|one| is_late(one.lock().until)).cloned().collect();
        for inflow in late {
            frames.extend(self.forget(&inflow));
            let mut inflow = inflow.lock();
            let reconnect_timeout = inflow.reconnect_timeout;
            wakers.extend(inflow.finish(Err(stalled("nothing has come", reconnect_timeout))));
        }
        self.outgoing.retain(|number, one| {
            let is_late = is_late(one.until);
            if is_late {
                let error = stalled("nothing was taken", one.reconnect_timeout);
                frames.push(Frame::Fail(*number, Failure::of(&error, "a stream")).write());
                wakers.extend(one.waker.take());
            }
            !is_late
        });
        (frames, wakers)
    }
}

/// Work to do after the lock is released.
#[must_use]
pub(super) struct Cut {
    pumps: Vec<Pump>,
    wakers: Vec<Waker>,
}

impl Cut {
    pub(super) fn tell(self) {
        self.wakers.into_iter().for_each(Waker::wake);
        drop(self.pumps);
    }
}

impl Inflow {
    /// Sets the end, unless it is already set.
    fn finish(&mut self, end: Result<()>) -> Option<Waker> {
        self.end.get_or_insert(end);
        self.until = None;
        self.waker.take()
    }
}

impl State {
    pub(super) fn say(&mut self, message: Vec<u8>) {
        if matches!(self.presence, Presence::Here) {
            self.outbox.push(Arc::new(message));
            self.wake_carrier();
        }
    }
}

impl Link {
    /// Takes the peer's stream with that number, which a call refers to.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if there are too many streams, [`ErrorKind::Invalid`] if it was already
    /// taken.
    pub(crate) fn take_stream(&self, number: u64, bounds: Bounds) -> Result<Pieces> {
        let mut state = self.0.lock();
        if !matches!(state.presence, Presence::Here) {
            return Err(broken());
        }
        let (inflow, credit) = state.streams.expect(number, bounds)?;
        state.say(credit);
        drop(state);
        Ok(self.coming(inflow))
    }

    /// Returns the pieces of a received stream.
    pub(super) fn coming(&self, inflow: Arc<Mutex<Inflow>>) -> Pieces {
        Pieces::new(Coming { link: self.clone(), inflow })
    }

    /// Registers a streamed result, which the carrier sends; returns its number.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if there are too many streams.
    pub(crate) fn open(&self, pieces: Pieces, called: &str, bounds: Bounds) -> Result<u64> {
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
        let pump = Pump::new(self.clone(), number, pieces, called.into());
        state.streams.opened.push(pump);
        state.wake_carrier();
        Ok(number)
    }

    /// Takes the streamed results that the carrier must send.
    pub(crate) fn take_opened(&self) -> Vec<Pump> {
        std::mem::take(&mut self.0.lock().streams.opened)
    }

    /// Returns true while streams are open.
    pub(crate) fn has_streams(&self) -> bool {
        !self.0.lock().streams.is_empty()
    }

    /// Returns the credit of a stream; the waker is woken when it grows.
    pub(crate) fn room(&self, number: u64, waker: &Waker) -> Room {
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
    pub(crate) fn send(&self, number: u64, bytes: &[u8]) {
        let mut state = self.0.lock();
        let Some(outflow) = state.streams.outgoing.get_mut(&number) else { return };
        outflow.credit = outflow.credit.saturating_sub(bytes.len() as u64);
        outflow.until = None;
        let call = outflow.call;
        state.say(Frame::Data(number, bytes).write());
        // The call's deadline starts anew with each progress.
        if let Some(waiting) = call.and_then(|call| state.waiting.get_mut(&call)) {
            waiting.until = after(waiting.deadline);
        }
    }

    /// Ends a stream.
    pub(crate) fn finish(&self, number: u64, failure: Option<Failure>) {
        let mut state = self.0.lock();
        if state.streams.outgoing.remove(&number).is_some() {
            let frame = match failure {
                Some(failure) => Frame::Fail(number, failure),
                None => Frame::End(number),
            };
            state.say(frame.write());
        }
    }

    /// Ends a stream that its sender has dropped.
    pub(crate) fn abandon(&self, number: u64) {
        if self.0.lock().streams.outgoing.contains_key(&number) {
            let message = "the stream's sender has given it up before its end";
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
            state.say(Frame::Credit(inflow.number, bytes).write());
        }
    }

    /// Cancels a received stream.
    pub(super) fn forget_stream(&self, inflow: &Arc<Mutex<Inflow>>) {
        let mut state = self.0.lock();
        if let Some(frame) = state.streams.forget(inflow) {
            state.say(frame);
        }
    }
}

impl Inflow {
    fn put(&mut self, bytes: &[u8]) -> Result<Option<Waker>> {
        if self.end.is_some() || bytes.len() > self.granted {
            return Err(beyond(self.number));
        }
        self.granted -= bytes.len();
        self.until = None;
        match self.pieces.back_mut() {
            // Merging small pieces limits the memory of a window.
            Some(last) if last.len() + bytes.len() <= FRAME_BYTES_MAX => {
                last.extend_from_slice(bytes);
            }
            _ if bytes.is_empty() => {}
            _ => self.pieces.push_back(bytes.to_vec()),
        }
        Ok(self.waker.take())
    }
}

/// The receiver of a stream.
struct Coming {
    link: Link,
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
                self.link.grant(&self.inflow);
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
            // The carrier must learn the new deadline.
            self.link.0.lock().wake_carrier();
        }
        Poll::Pending
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.link.forget_stream(&self.inflow);
    }
}

#[cold]
fn too_many(streams_max: usize) -> Error {
    let message = format!(
        "{streams_max} streams are open on this connection, the most there may be \
         (`streams_max`); take or drop some, or connect once more"
    );
    Error::new(ErrorKind::Busy, message)
}

#[cold]
fn broken() -> Error {
    Error::new(ErrorKind::Lost, "the connection broke in the middle of the stream")
}

#[cold]
fn stalled(what: &str, reconnect_timeout: Duration) -> Error {
    let message = format!("{what} for {reconnect_timeout:?} in the middle of the stream");
    Error::new(ErrorKind::Timeout, message)
}

#[cold]
fn beyond(number: u64) -> Error {
    let message = format!("more has come for stream {number} than was granted");
    Error::new(ErrorKind::Protocol, message)
}

#[cfg(test)]
mod tests;
