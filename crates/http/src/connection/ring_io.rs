//! The io_uring side of a connection. The ring reads and writes by itself; the connection takes
//! received bytes and returns its requests to the ring.
//!
//! Receiving is one operation that delivers bytes until it is stopped (multishot). The ring
//! delivers bytes until more than [`WAITING_BYTES_MAX`] wait after a request that is not answered
//! yet. Then the connection stops it, and resumes it when enough of them are used. [`Intake`] is
//! the state of this.
//!
//! For sending, the connection gives its output buffer to the ring ([`RingRequest::Send`]) and gets
//! it back when the operation is complete. It waits in the meantime, so there is one send operation
//! at a time. [`Outgoing`] is the state of this. A large body after the output is sent by the
//! connection itself, from the memory where it is.

use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::connection::state::{
    Connection, Fate, Intake, Outgoing, Phase, RingRequest, Timing, make_room, own,
};
use crate::message::thread_locals::ThreadLocals;
use crate::reactor::event::Operations;

/// Maximum number of bytes that wait after an unanswered request before the ring is stopped.
const WAITING_BYTES_MAX: usize = 64 * 1024;

/// With more bytes of output than this, the ring may have to wait for room in the socket, so they
/// count as unread.
const BLOCKING_BYTES_MIN: usize = 16 * 1024;

impl Connection {
    /// Takes bytes that the ring received: for discarding, for the link, for the protocol that has
    /// taken over, or for the request's buffer. Without `more` the ring has stopped receiving.
    #[inline]
    pub(crate) fn take(&mut self, bytes: &[u8], more: bool, local: &mut ThreadLocals) {
        local.note_received(bytes.len());
        if !more {
            self.intake = Intake::Stopped;
        }
        if let Phase::Lingering { left } = &mut self.phase {
            *left = left.saturating_sub(bytes.len());
            return;
        }
        if self.link.is_some() {
            return self.take_copied(bytes, local);
        }
        let used = match self.phase {
            Phase::Taken(_) => self.pass_to_protocol(bytes, local),
            _ => 0,
        };
        if used < bytes.len() {
            self.put(&bytes[used..], local);
        }
    }

    /// Appends bytes to those that are not used yet. If the connection has no buffer, it takes one
    /// from the thread.
    ///
    /// Between requests, used bytes are removed first. During an upload that happens when half of
    /// the buffer is used, because moving the rest for every piece would cost more than the memory
    /// is worth.
    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8], local: &mut ThreadLocals) {
        let (peer, secured) = (self.peer, &self.secured);
        let request = self.request.get_or_insert_with(|| local.take_exchange(peer, secured));
        let exchange = own(request);
        // During an upload, compacts the buffer when half of it is consumed, not for every piece.
        if matches!(self.phase, Phase::Head | Phase::Taken(_))
            || (self.upload.is_some() && exchange.consumed >= exchange.unread())
        {
            exchange.compact();
        }
        make_room(&mut exchange.buffer, bytes.len());
        exchange.buffer.extend_from_slice(bytes);
    }

    /// Notes that the ring receives no more bytes: they have ended, the ring was stopped or had no
    /// buffer left, or there is an error, which ends the connection.
    pub(crate) fn note_dry(&mut self, error: Option<Errno>) -> Fate {
        self.intake = Intake::Stopped;
        match error {
            None => self.ended = true,
            // The ring was stopped, or had no piece left; it will be resumed.
            Some(Errno::CANCELED | Errno::NOBUFS | Errno::INTR | Errno::AGAIN) => {}
            Some(_) => return Fate::Drop,
        }
        Fate::Keep
    }

    /// Notes that the socket has room for a large body.
    pub(crate) fn note_room(&mut self) {
        self.outgoing = Outgoing::Nothing;
    }

    /// Takes back output of which the ring has sent this many bytes from `from` on. The rest is
    /// sent again.
    #[inline]
    pub(crate) fn take_back(
        &mut self,
        mut output: Vec<u8>,
        from: usize,
        sent: Result<usize, Errno>,
        local: &mut ThreadLocals,
    ) -> Fate {
        self.outgoing = Outgoing::Nothing;
        self.handed_bytes = 0;
        let sent = match sent {
            Ok(sent) => {
                local.note_sent(sent);
                from + sent
            }
            Err(Errno::AGAIN | Errno::INTR) => from,
            Err(_) => return Fate::Drop,
        };
        if sent >= output.len() {
            local.give_output(output);
        } else if let Some(link) = &mut self.link {
            output.append(&mut link.outgoing);
            (link.outgoing, link.sent) = (output, sent);
        } else {
            // A waiting handler may have answered in the meantime.
            output.append(&mut self.output);
            self.output = output;
            self.sent = sent;
        }
        Fate::Keep
    }

    /// Returns the next request to the ring; called until it returns `None`.
    ///
    /// At most one send operation and one receive operation are active at a time. A receive is
    /// stopped when too many bytes wait, and resumed when they are used, or when the connection
    /// lingers: discarded bytes need no room.
    #[inline]
    pub(crate) fn next_ring_request(&mut self) -> Option<RingRequest> {
        match self.outgoing {
            Outgoing::Ready => {
                if let Some(link) = &mut self.link {
                    let from = std::mem::take(&mut link.sent);
                    self.handed_bytes = link.outgoing.capacity();
                    return Some(RingRequest::Send(std::mem::take(&mut link.outgoing), from));
                }
                self.handed_bytes = self.output.capacity();
                let from = std::mem::take(&mut self.sent);
                return Some(RingRequest::Send(std::mem::take(&mut self.output), from));
            }
            Outgoing::Full => {
                self.outgoing = Outgoing::Awaiting;
                return Some(RingRequest::Room);
            }
            _ => {}
        }
        let lingers = matches!(self.phase, Phase::Lingering { .. });
        match self.intake {
            Intake::Flowing if !self.hungry && !lingers && self.is_full() => {
                self.intake = Intake::Stopping;
                Some(RingRequest::Stop)
            }
            Intake::Stopped if !self.ended && (self.hungry || lingers || !self.is_full()) => {
                self.intake = Intake::Flowing;
                Some(RingRequest::Resume)
            }
            _ => None,
        }
    }

    /// Returns true if so many bytes wait that no more are wanted. The current request may be
    /// longer: while it is incomplete the connection is `hungry`, and the ring is not stopped.
    fn is_full(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.0.unread() > WAITING_BYTES_MAX)
    }

    /// Notes that the ring sends, with the operation of this number.
    pub(crate) fn note_sending(&mut self, number: u32) {
        self.outgoing = Outgoing::Sending(number);
    }

    /// Returns the socket and the operations that the ring executes on it. The ring cancels them,
    /// and closes the socket when the last one has ended: its number must not be reused before.
    pub(crate) fn into_operations(self) -> (OwnedFd, Operations) {
        let operations = Operations {
            receives: matches!(self.intake, Intake::Flowing | Intake::Stopping),
            awaits_room: self.outgoing == Outgoing::Awaiting,
            sends: match self.outgoing {
                Outgoing::Sending(number) => Some(number),
                _ => None,
            },
        };
        (self.socket, operations)
    }

    /// Marks the output as ready for the ring, and returns unneeded buffers. The output stays in
    /// the connection until the worker collects it with [`Connection::next_ring_request`].
    pub(super) fn hand_over(&mut self, local: &mut ThreadLocals) {
        if self.output.len() > BLOCKING_BYTES_MIN || self.tail.is_some() {
            self.note_blocked(local);
        }
        self.outgoing = Outgoing::Ready;
        self.set_deadline(Timing::Write, local.now_ms + local.limits.write_timeout_ms);
        if matches!(self.phase, Phase::Head | Phase::Taken(_))
            && self.request.as_ref().is_some_and(|request| request.0.unread() == 0)
            && let Some(request) = self.request.take()
        {
            local.give_exchange(request);
        }
    }
}
