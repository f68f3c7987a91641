//! Transfer of bytes for a connection with a [`SocketCodec`] (TLS, or a PROXY header) between its socket
//! and its buffers. Bytes from the socket pass through the link into the request's buffer; output
//! passes through it into the link's own buffer.
//!
//! The functions mirror [`Connection::read`] and [`Connection::flush`], and are kept apart from
//! them: connections without a link do not pay for it. They are not inlined for the same reason.
//!
//! A link that has done its work is dropped: after a PROXY header without TLS the connection is a
//! plain one.

#[cfg(feature = "tls")]
use std::rc::Rc;
use std::task::Poll;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, send};

#[cfg(feature = "tls")]
use crate::connection::redirect_responder::RedirectResponder;
use crate::connection::state::{Connection, Fate, Phase, READ_BYTES, Timing, own};
use crate::connection::state::{Intake, Outgoing};
use crate::message::observe::ConnectionEvent;
use crate::message::protocol::LINGER_BYTES_MAX;
use crate::message::thread_locals::ThreadLocals;
use crate::socket::socket_codec::{CodecEvent, SocketCodec};
use crate::socket::system::SEND_FLAGS;

/// Bytes of an answer that are encrypted at once: four records. More would be encrypted for clients
/// that may not read it.
const SEALED_BYTES: usize = 64 * 1024;

impl Connection {
    /// Reads once, like [`Connection::read`]: into a buffer of the thread, which the link decrypts
    /// in place and passes on. The thread has one such buffer, so connections with TLS hold no
    /// ciphertext while they are idle.
    #[inline(never)]
    pub(super) fn read_through(&mut self, local: &mut ThreadLocals) -> Fate {
        let mut sealed = std::mem::take(&mut local.sealed);
        sealed.reserve(READ_BYTES);
        let room = sealed.capacity();
        let received = recv(&self.socket, spare_capacity(&mut sealed), RecvFlags::empty());
        let fate = match received {
            Ok((0, _)) => {
                self.ended = true;
                self.readable = false;
                self.half_closed = true;
                Fate::Keep
            }
            Ok((count, _)) => {
                local.note_received(count);
                self.readable = count == room || self.half_closed || !local.reports_half_close;
                self.take_through(&mut sealed, local);
                Fate::Keep
            }
            Err(Errno::AGAIN) => {
                self.readable = false;
                Fate::Keep
            }
            Err(Errno::INTR) => Fate::Keep,
            Err(_) => Fate::Drop,
        };
        sealed.clear();
        local.sealed = sealed;
        fate
    }

    /// Like [`Connection::take_through`], for bytes that must not be overwritten.
    #[inline(never)]
    pub(super) fn take_copied(&mut self, bytes: &[u8], local: &mut ThreadLocals) {
        let mut sealed = std::mem::take(&mut local.sealed);
        sealed.extend_from_slice(bytes);
        self.take_through(&mut sealed, local);
        sealed.clear();
        local.sealed = sealed;
    }

    /// Passes bytes of the socket through the link, which overwrites them, and acts on what the
    /// link reports: the end of its work, the end of the connection, an error, or plain HTTP on a
    /// port with TLS.
    fn take_through(&mut self, bytes: &mut [u8], local: &mut ThreadLocals) {
        let Some(mut link) = self.link.take() else { return };
        let news = link.decode(bytes, &mut |plain| self.put(plain, local));
        self.note_link(&mut link, local);
        match news {
            CodecEvent::Nothing => self.link = Some(link),
            CodecEvent::Clear => {}
            #[cfg(feature = "tls")]
            CodecEvent::Unencrypted => self.take_over(RedirectResponder::Encrypt.wait(), local),
            #[cfg(feature = "tls")]
            CodecEvent::Ended => {
                self.ended = true;
                self.link = Some(link);
            }
            CodecEvent::Broken => {
                if let Some(observer) = &local.observer {
                    observer.note(ConnectionEvent::HandshakeFailed);
                }
                self.phase = Phase::Closing { linger_bytes: LINGER_BYTES_MAX };
                self.upload = None;
                self.link = Some(link);
            }
        }
    }

    /// Stores the client's address and the TLS session, once the link knows them. Starts HTTP/2 if
    /// ALPN has selected it.
    fn note_link(&mut self, link: &mut SocketCodec, local: &mut ThreadLocals) {
        if let Some(peer) = link.proxied_peer.take() {
            self.peer = peer;
            if let Some(request) = &mut self.request {
                own(request).peer = peer;
            }
        }
        if self.secured.is_some() || link.is_opening() {
            return;
        }
        #[cfg(feature = "tls")]
        {
            self.secured = link.secured();
            if let (Some(request), Some(secured)) = (&mut self.request, &self.secured) {
                own(request).secured = Some(Rc::clone(secured));
            }
        }
        #[cfg(all(feature = "http2", feature = "tls"))]
        if link.negotiated_http2() {
            self.start_http2(local);
        }
        let _ = local;
    }

    /// Sends the waiting output, like [`Connection::flush`]: encrypts up to [`SEALED_BYTES`] of it,
    /// sends them, and repeats. At the end of the connection it sends the link's closing message
    /// too.
    #[inline(never)]
    pub(super) fn flush_through(&mut self, local: &mut ThreadLocals) -> Poll<Fate> {
        let mut progressed = false;
        loop {
            let Some(link) = &mut self.link else { return Poll::Ready(Fate::Keep) };
            if !link.has_unsent() {
                link.outgoing.clear();
                link.sent = 0;
                if self.sent < self.output.len() || self.tail.is_some() {
                    if !self.seal(local) {
                        return Poll::Ready(Fate::Drop);
                    }
                } else if !matches!(self.phase, Phase::Closing { .. }) || !link.close() {
                    break;
                }
                continue;
            }
            if self.intake != Intake::Own {
                self.hand_over(local);
                return Poll::Pending;
            }
            match send(&self.socket, &link.outgoing[link.sent..], SEND_FLAGS) {
                Ok(count) => {
                    progressed = true;
                    local.note_sent(count);
                    link.sent += count;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if self.timing != Timing::Write {
                        self.note_blocked(local);
                    }
                    if progressed || self.timing != Timing::Write {
                        let deadline_ms = local.now_ms + local.limits.write_timeout_ms;
                        self.set_deadline(Timing::Write, deadline_ms);
                    }
                    return Poll::Pending;
                }
                Err(_) => return Poll::Ready(Fate::Drop),
            }
        }
        if let Some(link) = &mut self.link {
            local.give_output(std::mem::take(&mut link.outgoing));
        }
        self.output.clear();
        self.sent = 0;
        Poll::Ready(Fate::Keep)
    }

    /// Encrypts the next waiting bytes into the link's buffer: the output, then the large body
    /// after it. Returns false on failure, which ends the connection.
    fn seal(&mut self, local: &mut ThreadLocals) -> bool {
        let Some(link) = &mut self.link else { return false };
        if link.outgoing.capacity() == 0 {
            link.outgoing = local.take_output();
        }
        let unsent = &self.output[self.sent..];
        let mut count = unsent.len().min(SEALED_BYTES);
        let mut sealed = link.encode(&unsent[..count]);
        if sealed
            && count == unsent.len()
            && let Some((body, offset)) = &self.tail
        {
            let rest = &body.as_bytes()[*offset..];
            let more = rest.len().min(SEALED_BYTES - count.min(SEALED_BYTES - 1));
            sealed = link.encode(&rest[..more]);
            count += more;
        }
        self.note_sent(count);
        sealed
    }

    /// Returns true if the link has bytes to send.
    #[inline]
    pub(super) fn has_link_unsent(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.has_unsent())
    }

    /// Ends a connection between requests: sends the link's closing message (`close_notify`, RFC
    /// 8446, 6.1), if it can be sent at once.
    pub(super) fn send_close_notify(&mut self) {
        if let Some(link) = &mut self.link
            && self.outgoing == Outgoing::Nothing
            && !link.has_unsent()
            && link.close()
        {
            // The connection ends, whether or not the message arrives.
            let _ = send(&self.socket, &link.outgoing, SEND_FLAGS);
        }
    }
}
