//! A connection with its send and receive buffers.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::engine::{Watch, Watched};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::packet::{self, Packet, PacketBody};
use crate::transport::{Source, Transport};

/// The maximum number of bytes that wait to be sent, of packets that are queued.
const OUTBOX_BYTES_MAX: usize = 64 << 20;
/// The maximum size of a received packet, unless it is set.
const PACKET_BYTES_MAX: usize = 64 << 20;
/// Larger buffers are not kept.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A connection with its send and receive buffers.
///
/// No method blocks, except [`Connection::wait_for`]. A packet is either sent as far as possible
/// at once ([`Connection::send`]), or with others by the next flush ([`Connection::queue`]).
pub struct Connection {
    transport: Box<dyn Transport>,
    /// Bytes that could not be sent yet.
    outbox: Vec<u8>,
    /// The number of bytes of the outbox that were sent.
    sent: usize,
    /// True if the transport holds bytes that it could not send.
    is_held: bool,
    inbox: Vec<u8>,
    /// The number of bytes of the inbox that were processed.
    done: usize,
    packet_bytes_max: usize,
    /// Wakes the task that polls for packets.
    watch: Arc<Watch>,
    watched: Option<Watched>,
}

impl Connection {
    /// Creates a connection on a transport that has received these bytes.
    #[must_use]
    pub fn new(transport: Box<dyn Transport>, received: Vec<u8>) -> Self {
        Self {
            transport,
            outbox: Vec::new(),
            sent: 0,
            is_held: false,
            inbox: received,
            done: 0,
            packet_bytes_max: PACKET_BYTES_MAX,
            watch: Arc::default(),
            watched: None,
        }
    }

    /// Sets the maximum size of a received packet in bytes. Default: 64 MiB. A larger one ends the
    /// connection.
    pub const fn set_packet_bytes_max(&mut self, bytes: usize) {
        self.packet_bytes_max = bytes;
    }

    /// Sends the bytes of a packet, or as many of them as possible, and queues the rest.
    ///
    /// # Errors
    /// An error if the connection has ended.
    pub fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        let sent = if self.outbox.is_empty() { self.transport.send(packet)? } else { 0 };
        self.outbox.extend_from_slice(&packet[sent..]);
        self.is_held = !self.transport.flush()?;
        Ok(())
    }

    /// Queues a packet with this body for the next flush.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if the server does not read earlier packets: more than 64 MiB wait.
    pub fn queue(&mut self, body: &[u8]) -> Result<()> {
        if self.outbox.len() - self.sent + body.len() > OUTBOX_BYTES_MAX {
            return Err(Error::new(ErrorKind::Busy, "the server does not read the sent data"));
        }
        packet::put(&mut self.outbox, body);
        Ok(())
    }

    /// Sends queued bytes; returns true if all were sent.
    ///
    /// # Errors
    /// An error if the connection has ended.
    pub fn flush(&mut self) -> io::Result<bool> {
        if !self.has_to_send() {
            return Ok(true);
        }
        self.send_outbox()?;
        self.is_held = !self.transport.flush()?;
        Ok(!self.has_to_send())
    }

    /// Sends the outbox as far as possible. The rest is not moved to the front after each send.
    fn send_outbox(&mut self) -> io::Result<()> {
        let Self { transport, outbox, sent, .. } = self;
        while *sent < outbox.len() {
            match transport.send(&outbox[*sent..])? {
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

    /// Reads available bytes; returns false if there are none.
    ///
    /// # Errors
    /// An error if the connection has ended.
    pub fn receive(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        if self.done == self.inbox.len() {
            self.inbox.clear();
            if self.inbox.capacity() > KEPT_BYTES_MAX {
                self.inbox = Vec::new();
            }
        } else {
            self.inbox.drain(..self.done);
        }
        self.done = 0;
        let has_received = self.transport.receive(&mut self.inbox, context)? > 0;
        if !has_received {
            // The wakeup may have been for room to send.
            self.flush()?;
        }
        Ok(has_received)
    }

    /// Returns the next complete packet.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] if it is larger than allowed.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>> {
        let packet = packet::first(&self.inbox[self.done..], self.packet_bytes_max)?;
        if let Some(packet) = &packet {
            self.done += packet.bytes();
        }
        Ok(packet)
    }

    /// Takes the body of the last packet, of this length; only the bytes after it are copied.
    #[must_use]
    pub fn take_last(&mut self, length: usize) -> PacketBody {
        let rest = self.inbox.split_off(self.done);
        let bytes = std::mem::replace(&mut self.inbox, rest);
        let start = std::mem::take(&mut self.done) - length;
        PacketBody::new(bytes, start)
    }

    /// Returns the source to sleep on, if the transport has one.
    #[must_use]
    pub fn source(&self) -> Option<&Source> {
        self.transport.source()
    }

    fn has_to_send(&self) -> bool {
        !self.outbox.is_empty() || self.is_held
    }

    /// Returns true if a thread that sleeps on the source must also wake for room to send.
    #[must_use]
    pub fn waits_for_room(&self) -> bool {
        self.has_to_send()
    }

    /// Sends queued bytes and returns the body of the next packet; wakes the context when there may
    /// be more to do, and at the time `at`.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if the connection has ended, [`ErrorKind::Protocol`] for an invalid
    /// packet.
    pub fn poll_packet(
        &mut self,
        context: &mut Context<'_>,
        at: Option<Instant>,
    ) -> Poll<Result<Vec<u8>>> {
        self.watch.look();
        if let Err(error) = self.flush() {
            return Poll::Ready(Err(lost(error)));
        }
        loop {
            if let Some(packet) = self.next_packet()? {
                return Poll::Ready(Ok(packet.body.to_vec()));
            }
            match self.receive(context) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Poll::Ready(Err(lost(error))),
            }
        }
        if let Some(source) = self.transport.source() {
            let is_new = self.watch.keep(source, &mut self.watched);
            if is_new || self.watched.is_none() {
                // Data may have arrived before, or there is no watcher: poll again.
                context.waker().wake_by_ref();
            }
        }
        self.watch.wake(context.waker());
        if let Some(at) = at {
            self.watch.wake_at(at);
        }
        Poll::Pending
    }

    /// Blocks until `wanted` accepts a packet.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if none has come within this time, or an error if the connection has
    /// ended.
    pub fn wait_for<T>(
        &mut self,
        within: Duration,
        mut wanted: impl FnMut(Packet<'_>) -> Option<T>,
    ) -> Result<T> {
        let until = Instant::now() + within;
        loop {
            while let Some(packet) = self.next_packet()? {
                if let Some(taken) = wanted(packet) {
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
        let Some(source) = self.transport.source() else {
            std::thread::sleep(at_most.min(Duration::from_millis(1)));
            return;
        };
        let room = if self.waits_for_room() { PollFlags::OUT } else { PollFlags::empty() };
        let mut on = [PollFd::new(source, PollFlags::IN | room)];
        // After an interrupt or error the caller checks again.
        let _ = poll(&mut on, Timespec::try_from(at_most).ok().as_ref());
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unsent, received) = (self.outbox.len() - self.sent, self.inbox.len() - self.done);
        write!(f, "Connection({unsent} bytes to send, {received} received)")
    }
}

#[cold]
fn lost(error: io::Error) -> Error {
    let message = "the connection was closed; running operations may have been executed";
    Error::new(ErrorKind::Lost, message).with_source(error)
}
