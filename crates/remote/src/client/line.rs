//! A connection with what waits on it in either direction.

use std::io;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, Table};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::wire::{Source, Wire};
use crate::codec::contract::{Guarantees, Welcome};
use crate::codec::frame::Frame;

/// Bytes of an answer at most: what servers may be set to.
const PACKET_BYTES_MAX: usize = (1 << 30) + (1 << 20);
/// Buffers larger than this are not kept.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// See the module.
pub(crate) struct Line {
    wire: Box<dyn Wire>,
    /// What could not be sent yet.
    outbox: Vec<u8>,
    /// How much of the outbox is sent.
    sent: usize,
    /// The wire holds something that it could not send.
    is_held: bool,
    inbox: Vec<u8>,
    /// How much of the inbox is done with.
    done: usize,
    pub(super) tables: Arc<[Arc<Table>]>,
    pub(super) welcome: Welcome,
    pub(super) used: Instant,
}

/// The body of a packet: what stands from `from` on.
pub(super) struct PacketBody {
    bytes: Vec<u8>,
    from: usize,
}

impl PacketBody {
    /// A copy of one that is small.
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

    /// Sends a packet, or as much of it as can be, and keeps the rest.
    pub(super) fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        self.used = Instant::now();
        let sent = if self.outbox.is_empty() { self.wire.send(packet)? } else { 0 };
        self.outbox.extend_from_slice(&packet[sent..]);
        self.is_held = !self.wire.flush()?;
        Ok(())
    }

    /// Sends what is left; true if that was all.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        if !self.has_to_send() {
            return Ok(true);
        }
        send_front(&mut *self.wire, &mut self.outbox, &mut self.sent)?;
        self.is_held = !self.wire.flush()?;
        Ok(!self.has_to_send())
    }

    /// Takes what has come; false if nothing has.
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
            // What told of room may have been taken as news of something to read.
            self.flush()?;
        }
        Ok(has_come)
    }

    /// The next packet that is whole.
    pub(super) fn next(&mut self) -> Result<Option<(u32, &[u8])>> {
        let Some(frame) = Frame::first(&self.inbox[self.done..], PACKET_BYTES_MAX)? else {
            return Ok(None);
        };
        self.done += frame.bytes();
        Ok(Some((frame.number, frame.body)))
    }

    /// Takes the body of the packet that came last, of so many bytes; only what
    /// came after it is copied.
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

    /// True if a thread that sleeps on the source is to be woken for room to send.
    pub(super) fn waits_for_room(&self) -> bool {
        self.has_to_send()
    }

    /// Blocks until a packet comes, on a line that has no operations.
    pub(super) fn wait_for_first(&mut self, within: Duration) -> Result<Vec<u8>> {
        self.wait_for(within, |_, body| Some(body.to_vec()))
    }

    /// Blocks until `wanted` takes a packet.
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
        // Interrupted or failed, it is looked at again.
        let _ = poll(&mut on, Timespec::try_from(at_most).ok().as_ref());
    }
}

/// Sends what stands in an outbox behind `sent`, as far as it can be; empties it
/// once all is. It is not moved to the front for each piece that leaves.
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
        // Each byte is moved once at most, on average.
        outbox.drain(..std::mem::take(sent));
    }
    Ok(())
}
