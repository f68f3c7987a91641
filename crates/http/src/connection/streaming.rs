//! Sending of a response whose body is produced while it is sent: when its producer is polled, and
//! what happens at its end, at an error, and while it waits.
//!
//! A body that fails is cut off, so that the client detects it: chunks lack the last one, a length
//! is not reached, TLS has no closing message. An error after the head cannot be a status.

use std::task::Poll;
use std::time::Duration;

use crate::body::producer::{BodyStream, note_cut_off};
use crate::connection::state::{Connection, Fate, Outgoing, Phase, Timing};
use crate::connection::streamed_body::{AHEAD_BYTES, SIZE_ROOM, StreamedBody, end_chunk};
use crate::message::observe::ConnectionEvent;
use crate::message::protocol::LINGER_BYTES_MAX;
use crate::message::thread_locals::ThreadLocals;
use crate::message::writer::{Framing, Persistence};

/// How long a client that has closed its side is assumed to wait for a stalled body, in ms. A
/// client that is gone looks the same until something is sent to it.
const QUIET_MS: u64 = 1_000;

impl Connection {
    /// Begins a body after the head of its answer is written. A body without framing ends with the
    /// connection.
    pub(super) fn start_stream(
        &mut self,
        body: BodyStream,
        framing: Framing,
        persistence: Persistence,
        local: &mut ThreadLocals,
    ) {
        let task = local.take_task();
        task.aim(self.token);
        let persistence = match framing {
            Framing::Close => Persistence::Close,
            _ => persistence,
        };
        let keep_alive = self.request.as_ref().is_none_or(|request| request.0.head.keep_alive);
        let body_stream =
            StreamedBody { body, task, framing, persistence, keep_alive, stalled: false };
        self.phase = Phase::Streaming(Box::new(body_stream));
    }

    /// Produces more of the body once all earlier output is sent. Returns true at its end, also
    /// after an error.
    ///
    /// At the end the connection continues with the next request, or closes; it lingers if the
    /// client may have sent more.
    pub(super) fn stream(&mut self, local: &mut ThreadLocals) -> bool {
        let Phase::Streaming(body_stream) = &mut self.phase else { return false };
        if body_stream.stalled || self.sent > 0 || self.output.len() >= AHEAD_BYTES {
            return false;
        }
        if self.output.capacity() == 0 {
            self.output = local.take_output();
        }
        self.timing = Timing::None;
        match body_stream.make(&mut self.output) {
            Poll::Pending => false,
            Poll::Ready(Ok(())) => {
                let (persistence, keep_alive) = (body_stream.persistence, body_stream.keep_alive);
                let more = self.request.as_ref().is_some_and(|request| request.0.unread() > 0);
                self.phase = match persistence {
                    Persistence::Close if keep_alive || more => {
                        Phase::Closing { linger_bytes: LINGER_BYTES_MAX }
                    }
                    Persistence::Close => Phase::Closing { linger_bytes: 0 },
                    _ => Phase::Head,
                };
                self.end_upload();
                true
            }
            Poll::Ready(Err(error)) => {
                note_cut_off(self.peer, &error);
                if let Some(observer) = &local.observer {
                    observer.note(ConnectionEvent::CutOff);
                }
                self.cut_off();
                true
            }
        }
    }

    /// Cuts off an answer whose body cannot be completed, so that the client detects it: with TLS
    /// the closing message is not sent, and an HTTP/1.0 client gets a reset, since its body ends
    /// with the connection.
    fn cut_off(&mut self) {
        if let Some(link) = &mut self.link {
            link.cut_off();
        }
        if let Phase::Streaming(body_stream) = &self.phase
            && body_stream.framing == Framing::Close
        {
            // Only a reset shows this to a client of HTTP/1.0. If setting it fails, the client has
            // gone already.
            let _ = rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
        }
        self.phase = Phase::Closing { linger_bytes: 0 };
    }

    /// Returns unneeded buffers while the producer waits and all output is sent, and sets a
    /// deadline.
    ///
    /// A client that has closed its side may have gone; only sending shows it. It is given up after
    /// [`QUIET_MS`]. Otherwise the deadline is that of the next heartbeat, or none: events may be
    /// hours apart.
    pub(super) fn wait_for_producer(&mut self, local: &mut ThreadLocals) -> Fate {
        local.give_output(std::mem::take(&mut self.output));
        if self.upload.is_none()
            && self.request.as_ref().is_some_and(|request| request.0.unread() == 0)
            && let Some(request) = self.request.take()
        {
            local.give_exchange(request);
        }
        let heartbeat = match &self.phase {
            Phase::Streaming(body_stream) => body_stream.body.heartbeat(),
            _ => None,
        };
        match heartbeat {
            _ if self.half_closed || self.ended => {
                if self.timing != Timing::Quiet {
                    self.set_deadline(Timing::Quiet, local.now_ms + QUIET_MS);
                }
            }
            Some(heartbeat) => {
                if self.timing != Timing::Heartbeat {
                    self.set_deadline(Timing::Heartbeat, local.now_ms + heartbeat.after_ms);
                }
            }
            None => self.timing = Timing::None,
        }
        Fate::Keep
    }

    /// Sends the heartbeat of a stalled answer, so that proxies and clients do not time out.
    pub(super) fn send_heartbeat(&mut self, local: &mut ThreadLocals) -> Fate {
        self.timing = Timing::None;
        if let Phase::Streaming(body_stream) = &self.phase
            && let Some(heartbeat) = body_stream.body.heartbeat()
            && self.output.is_empty()
            && self.outgoing == Outgoing::Nothing
        {
            if self.output.capacity() == 0 {
                self.output = local.take_output();
            }
            let size_at = self.output.len();
            if body_stream.framing == Framing::Chunked {
                self.output.extend_from_slice(SIZE_ROOM);
            }
            let start = self.output.len();
            self.output.extend_from_slice(heartbeat.bytes);
            if body_stream.framing == Framing::Chunked {
                end_chunk(&mut self.output, size_at, start);
            }
        }
        self.drive(local)
    }
}
