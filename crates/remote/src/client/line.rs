//! A connection with its send and receive buffers.

use std::io;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, Table};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::wire::{Source, Wire};
use crate::codec::contract::{Guarantees, Welcome};
use crate::codec::frame::Frame;

/// The maximum size of an answer: the largest limit a server can be set to.
const PACKET_BYTES_MAX: usize = (1 << 30) + (1 << 20);
/// Larger buffers are not kept.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A connection with its send and receive buffers.
pub(crate) struct Line {
    wire: Box<dyn Wire>,
    /// Bytes that could not be sent yet.
    outbox: Vec<u8>,
    /// The number of bytes of the outbox that were sent.
    sent: usize,
    /// True if the wire holds bytes that it could not send.
    is_held: bool,
    inbox: Vec<u8>,
    /// The number of bytes of the inbox that were processed.
    done: usize,
    pub(super) tables: Arc<[Arc<Table>]>,
    pub(super) welcome: Welcome,
    pub(super) used: Instant,
}

/// The body of a packet: the bytes after `from`.
pub(super) struct PacketBody {
    bytes: Vec<u8>,
    from: usize,
}

impl PacketBody {
    /// Copies a small body.
    pub(super) fn copy(body: &[u8]) -> Self {
        Self { bytes: body.to_vec(), from: 0 }
    }
}

impl std::ops::Deref for PacketBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.from..]
    }
}

impl Line {
    pub(super) fn new(wire: Box<dyn Wire>, inbox: Vec<u8>, tables: Arc<[Arc<Table>]>) -> Self {
        let guarantees = Guarantees::default();
        let welcome = Welcome { guarantees, packet_bytes_max: 1 << 20, operations_max: 1 };
        let (outbox, used) = (Vec::new(), Instant::now());
        Self { wire, outbox, sent: 0, is_held: false, inbox, done: 0, tables, welcome, used }
    }

    /// Sends a packet, or as much of it as possible, and queues the rest.
    pub(super) fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        self.used = Instant::now();
        let sent = if self.outbox.is_empty() { self.wire.send(packet)? } else { 0 };
        self.outbox.extend_from_slice(&packet[sent..]);
        self.is_held = !self.wire.flush()?;
        Ok(())
    }

    /// Sends queued bytes; returns true if all were sent.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        if !self.has_to_send() {
            return Ok(true);
        }
        send_front(&mut *self.wire, &mut self.outbox, &mut self.sent)?;
        self.is_held = !self.wire.flush()?;
        Ok(!self.has_to_send())
    }

    /// Reads available bytes; returns false if there are none.
    pub(super) fn receive(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        if self.done == self.inbox.len() {
            self.inbox.clear();
            if self.inbox.capacity() > KEPT_BYTES_MAX {
                self.inbox = Vec::new();
            }
        } else {
            self.inbox.drain(..self.done);
        }
        self.done = 0;
        let has_come = self.wire.receive(&mut self.inbox, context)? > 0;
        if !has_come {
            // The wakeup may have been for room to send.
            self.flush()?;
        }
        Ok(has_come)
    }

    /// Returns the next complete packet.
    pub(super) fn next(&mut self) -> Result<Option<(u32, &[u8])>> {
        let Some(frame) = Frame::first(&self.inbox[self.done..], PACKET_BYTES_MAX)? else {
            return Ok(None);
        };
        self.done += frame.bytes();
        Ok(Some((frame.number, frame.body)))
    }

    /// Takes the body of the last packet, of this length; only the bytes after it are copied.
    pub(super) fn take_last(&mut self, length: usize) -> PacketBody {
        let rest = self.inbox.split_off(self.done);
        let bytes = std::mem::replace(&mut self.inbox, rest);
        let from = std::mem::take(&mut self.done) - length;
        PacketBody { bytes, from }
    }

    pub(super) fn source(&self) -> Option<&Source> {
        self.wire.source()
    }

    fn has_to_send(&self) -> bool {
        !self.outbox.is_empty() || self.is_held
    }

    /// Returns true if a thread that sleeps on the source must also wake for room to send.
    pub(super) fn waits_for_room(&self) -> bool {
        self.has_to_send()
    }

    /// Blocks until a packet arrives, on a connection without operations.
    pub(super) fn wait_for_first(&mut self, within: Duration) -> Result<Vec<u8>> {
        self.wait_for(within, |_, body| Some(body.to_vec()))
    }

    /// Blocks until `wanted` accepts a packet.
    pub(super) fn wait_for<T>(
        &mut self,
        within: Duration,
        mut wanted: impl FnMut(u32, &[u8]) -> Option<T>,
    ) -> Result<T> {
        let until = Instant::now() + within;
        loop {
            while let Some((number, body)) = self.next()? {
                if let Some(taken) = wanted(number, body) {
                    return Ok(taken);
                }
            }
            self.flush()?;
            if self.receive(&mut Context::from_waker(Waker::noop()))? {
                continue;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let message = "the server did not answer in time";
                return Err(Error::new(ErrorKind::Timeout, message));
            }
            self.sleep(left);
        }
    }

    fn sleep(&self, at_most: Duration) {
        let Some(source) = self.wire.source() else {
            std::thread::sleep(at_most.min(Duration::from_millis(1)));
            return;
        };
        let room = if self.waits_for_room() { PollFlags::OUT } else { PollFlags::empty() };
        let mut on = [PollFd::new(source, PollFlags::IN | room)];
        // After an interrupt or error the caller checks again.
        let _ = poll(&mut on, Timespec::try_from(at_most).ok().as_ref());
    }
}

/// Sends the bytes of an outbox after `sent`, as far as possible; clears the outbox once all are
/// sent. The rest is not moved to the front after each send.
pub(super) fn send_front(
    wire: &mut dyn Wire,
    outbox: &mut Vec<u8>,
    sent: &mut usize,
) -> io::Result<()> {
    while *sent < outbox.len() {
        match wire.send(&outbox[*sent..])? {
            0 => break,
            count => *sent += count,
        }
    }
    if *sent == outbox.len() {
        outbox.clear();
        *sent = 0;
        if outbox.capacity() > KEPT_BYTES_MAX {
            *outbox = Vec::new();
        }
    } else if *sent > KEPT_BYTES_MAX && *sent > outbox.len() / 2 {
        // On average each byte is moved at most once.
        outbox.drain(..std::mem::take(sent));
    }
    Ok(())
}
