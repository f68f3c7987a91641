//! The state of a connection's streams in both directions: flow control and buffers.
//!
//! A sender sends only bytes that were granted: the receiver grants a window, and renews it as it
//! reads. So a receiver buffers at most one window, and a slow one delays its sender, not the connection.
//! When a receiver cancels, the number of bytes in flight is known exactly.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::deadline::after;
use super::frame::{FRAME_BYTES_MAX, Frame};
use crate::failure::Failure;
use crate::transfer::ChunkStream;

/// The number of bytes that a sender may be ahead of its receiver.
pub(super) const WINDOW_BYTES: usize = 64 * 1024;
/// The maximum credit of a receiver. A larger one cannot come from a correct peer.
pub(super) const CREDIT_MAX: u64 = 16 << 20;

/// The open streams of a connection.
#[derive(Default)]
pub(super) struct Streams {
    pub(super) incoming: HashMap<u64, Arc<Mutex<Inflow>>>,
    pub(super) outgoing: HashMap<u64, Outflow>,
    pub(super) last: u64,
    /// Bytes that may still arrive for canceled streams.
    pub(super) stray: usize,
    /// Streamed results that the connection has not begun to send.
    pub(super) opened: Vec<Opened>,
}

/// A received stream.
pub(super) struct Inflow {
    pub(super) number: u64,
    pub(super) pieces: VecDeque<Vec<u8>>,
    /// The number of bytes that the sender may send.
    pub(super) granted: usize,
    /// The number of bytes that were read and not granted again.
    pub(super) taken: usize,
    pub(super) end: Option<Result<()>>,
    pub(super) waker: Option<Waker>,
    /// When the waiting reader times out.
    pub(super) until: Option<Instant>,
    pub(super) reconnect_timeout: Duration,
}

/// A sent stream.
pub(super) struct Outflow {
    /// The number of bytes that may be sent.
    pub(super) credit: u64,
    /// The call of which the stream is a parameter.
    pub(super) call: Option<u64>,
    pub(super) waker: Option<Waker>,
    /// When the stream times out because the receiver has granted nothing.
    pub(super) until: Option<Instant>,
    pub(super) reconnect_timeout: Duration,
}

/// A streamed result that is to be sent.
pub(super) struct Opened {
    pub(super) number: u64,
    pub(super) pieces: ChunkStream,
    /// The method that returned it.
    pub(super) called: Arc<str>,
}

/// The credit of a sender.
#[derive(Debug)]
pub(super) enum Room {
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
            let message =
                format!("stream {number} exists already; use a new number for each stream");
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
    pub(super) fn forget(&mut self, inflow: &Arc<Mutex<Inflow>>) -> Option<Vec<u8>> {
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
        let mut cut = Cut { opened: std::mem::take(&mut self.opened), wakers: Vec::new() };
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
            wakers.extend(inflow.finish(Err(stalled("nothing was received", reconnect_timeout))));
        }
        self.outgoing.retain(|number, one| {
            let is_late = is_late(one.until);
            if is_late {
                let error = stalled("nothing was read", one.reconnect_timeout);
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
    opened: Vec<Opened>,
    wakers: Vec<Waker>,
}

impl Cut {
    pub(super) fn wake(self) {
        self.wakers.into_iter().for_each(Waker::wake);
        drop(self.opened);
    }
}

impl Inflow {
    /// Sets the end, unless it is already set.
    pub(super) fn finish(&mut self, end: Result<()>) -> Option<Waker> {
        self.end.get_or_insert(end);
        self.until = None;
        self.waker.take()
    }

    /// Adds received bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] if they were not granted.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<Option<Waker>> {
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

#[cold]
pub(super) fn too_many(streams_max: usize) -> Error {
    let message = format!(
        "{streams_max} streams are open on this connection, the limit (`streams_max`); read or \
         drop some, or open another connection"
    );
    Error::new(ErrorKind::Busy, message)
}

#[cold]
pub(super) fn broken() -> Error {
    Error::new(ErrorKind::Lost, "the connection was lost in the middle of the stream")
}

#[cold]
fn stalled(what: &str, reconnect_timeout: Duration) -> Error {
    let message = format!("{what} for {reconnect_timeout:?} in the middle of the stream");
    Error::new(ErrorKind::Timeout, message)
}

#[cold]
pub(super) fn beyond(number: u64) -> Error {
    let message = format!("more was received for stream {number} than was granted");
    Error::new(ErrorKind::Protocol, message)
}
