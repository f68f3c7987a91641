//! A connection of HTTP/1.1: it parses requests from the read buffer in order, and writes answers
//! into the output buffer. The thread lends it both buffers only while they are not empty.
//!
//! [`Connection::drive`] is called when something may have changed (bytes have arrived, the socket
//! has room, a handler was woken). It works until nothing more can be done: it sends waiting
//! output, answers every whole request in the buffer, sends all answers at once and reads again. It
//! never blocks or spins: whenever it returns, an event, a wake-up or a deadline will continue it.
//!
//! The folder has one file for each subject:
//!
//! - `state.rs`: the fields, and the [`Phase`]s that a connection passes through.
//! - `answer.rs`: running the handler, and writing its answer or that of the server.
//! - `early_decision.rs`, `whole_body.rs`, `upload.rs`, `uploading.rs`: requests with a body.
//! - `streamed_body.rs`, `streaming.rs`: answers that are produced while they are sent.
//! - `takeover.rs`, `taken_over.rs`: another protocol on the connection.
//! - `byte_transport.rs`: TLS and PROXY headers; `ring_io.rs`: reading and writing by io_uring.
//! - `lingering_close.rs`, `redirect_responder.rs`: two ways in which connections end.
//! - `slab.rs`: the connections of a thread.
//!
//! Two kinds of backends drive it. With a poller the connection reads and writes its socket itself
//! ([`Intake::Own`]). With io_uring the ring delivers bytes and sends output; small differences
//! apart, the same functions run.

mod answer;
mod byte_transport;
mod early_decision;
mod lingering_close;
pub(crate) mod redirect_responder;
mod ring_io;
pub(crate) mod slab;
mod state;
mod streamed_body;
mod streaming;
mod taken_over;
mod takeover;
mod upload;
mod uploading;
mod whole_body;

use std::io::IoSlice;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};

use rustix::buffer::spare_capacity;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, recv, send, sendmsg};

use state::{BodyProgress, Intake, Outgoing, Phase, READ_BYTES, Served, Timing, make_room, own};
pub(crate) use state::{Connection, Fate, RingRequest};

use crate::connection::redirect_responder::RedirectResponder;
use crate::message::response::Response;
use crate::message::thread_locals::ThreadLocals;
use crate::proto::head::{BodyLength, Span};
use crate::proto::paths::Found;
use crate::proto::status::Status;
use crate::reactor::event::Token;
use crate::reactor::memory_trimmer;
use crate::reactor::task;
use crate::routing::router::Routes;
use crate::socket::address::Peer;
use crate::socket::socket_codec::{ListenerOptions, SocketCodec};
use crate::socket::system::SEND_FLAGS;

/// Maximum reads in one call of `drive`, before other connections are served. A client that sends
/// without pause would otherwise have the thread for itself.
const READS_MAX: usize = 16;
impl Connection {
    /// Returns a connection that has just been accepted.
    ///
    /// `on_ring` selects the backend. `entry` has the settings of the listener: TLS, PROXY headers,
    /// or a redirect to HTTPS, which takes over the connection at once. The first deadline is that
    /// of the handshake, if there is one, and the idle timeout otherwise.
    pub(crate) fn new(
        socket: OwnedFd,
        peer: Peer,
        token: Token,
        on_ring: bool,
        entry: &ListenerOptions,
        routes: &Arc<Routes>,
        local: &mut ThreadLocals,
    ) -> Self {
        let opening_until_ms = local.now_ms + local.limits.handshake_timeout_ms;
        let mut this = Self {
            socket,
            routes: Arc::clone(routes),
            peer,
            link: SocketCodec::new(entry, peer, opening_until_ms),
            secured: None,
            token,
            phase: Phase::Head,
            request: None,
            found: Found::Nothing,
            next_at: 0,
            output: Vec::new(),
            sent: 0,
            tail: None,
            upload: None,
            readable: false,
            intake: if on_ring { Intake::Flowing } else { Intake::Own },
            outgoing: Outgoing::Nothing,
            handed_bytes: 0,
            hungry: true,
            half_closed: false,
            ended: false,
            requests: 0,
            timing: Timing::Idle,
            deadline_ms: local.now_ms + local.limits.idle_timeout_ms,
            body_received: 0,
            is_known: false,
        };
        if let Some(port) = entry.redirect {
            this.take_over(RedirectResponder::Redirect { port }.wait(), local);
            this.set_deadline(Timing::Idle, local.now_ms + local.limits.header_timeout_ms);
        }
        if this.link.is_some() {
            this.set_deadline(Timing::Opening, opening_until_ms);
        }
        this
    }

    /// Returns the memory of the connection in bytes, except that of other protocols and handlers.
    /// Used when it ends, to estimate how much memory the thread could return to the system.
    pub(crate) fn held_bytes(&self) -> usize {
        let received = self.request.as_ref().map_or(0, |request| request.0.buffer.capacity());
        size_of::<Self>() + received + self.unread_bytes()
    }

    /// Returns the number of bytes that wait for the client: capacities of buffers, because that is
    /// the memory that a client which does not read takes. Called by each sweep.
    pub(crate) fn unread_bytes(&self) -> usize {
        let tail = self.tail.as_ref().map_or(0, |(body, _)| body.held_bytes());
        let sealed = self.link.as_ref().map_or(0, |link| link.outgoing.capacity());
        let taken = match &self.phase {
            Phase::Taken(takeover) => takeover.unread().map_or(0, |(bytes, _)| bytes),
            Phase::Streaming(body_stream) => body_stream.held_bytes(),
            _ => 0,
        };
        self.output.capacity() + tail + sealed + taken + self.handed_bytes
    }

    /// Returns when the client last accepted some of the unread bytes, in ms on the thread's clock.
    ///
    /// The write deadline is extended at every progress, so the time is computed from it.
    pub(crate) fn progress_ms(&self, local: &ThreadLocals) -> u64 {
        match &self.phase {
            _ if self.timing == Timing::Write => {
                self.deadline_ms.saturating_sub(local.limits.write_timeout_ms)
            }
            Phase::Taken(takeover) => takeover.unread().map_or(local.now_ms, |(_, at_ms)| at_ms),
            _ => local.now_ms,
        }
    }

    /// Adds the unread bytes to the thread's account; called when a socket that accepted bytes
    /// before accepts no more.
    #[cold]
    fn note_blocked(&self, local: &mut ThreadLocals) {
        local.blocked_bytes += self.unread_bytes();
    }

    /// Returns the socket, for the reactor.
    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Notes that bytes may have arrived; `half_closed` means that no more will follow. Only pollers
    /// report this; the ring delivers the bytes themselves.
    ///
    /// If the poller does not report that the client has closed its side, it looks at the
    /// socket, unless it is read from next.
    pub(crate) fn note_readable(&mut self, half_closed: bool, local: &ThreadLocals) {
        self.readable = true;
        self.half_closed |= half_closed
            || (!local.reports_half_close
                && matches!(self.phase, Phase::Waiting { .. } | Phase::Streaming(_))
                && has_ended(&self.socket));
    }

    /// Polls the waiting handler, if there is one, and continues. Called when the connection's task
    /// was woken, and after a call of `drive` that has yielded.
    ///
    /// A decision and a handler are polled here, and nowhere else after their first poll; a
    /// producer and a protocol are polled by `drive`. A panic of a handler is caught and answered
    /// with 500.
    pub(crate) fn wake(&mut self, local: &mut ThreadLocals) -> Fate {
        if let Phase::Streaming(body_stream) = &mut self.phase {
            body_stream.note_woken();
        }
        if matches!(self.phase, Phase::Admitting { .. }) {
            match self.poll_decision(local) {
                Poll::Pending => return Fate::Keep,
                Poll::Ready(true) if self.gather(local) => self.run(local),
                Poll::Ready(_) => {}
            }
        }
        if let Phase::Waiting { answer, task, .. } = &mut self.phase {
            task.arm();
            let polled = catch_unwind(AssertUnwindSafe(|| {
                answer.as_mut().poll(&mut Context::from_waker(task.waker()))
            }));
            match polled {
                Ok(Poll::Pending) if self.upload.is_none() => return Fate::Keep,
                Ok(Poll::Pending) => {}
                Ok(Poll::Ready(response)) => self.answer_later(response, local),
                Err(panic) => self.answer_panic(Some(&*panic), local),
            }
        }
        self.drive(local)
    }

    /// Does everything that can be done now, in up to [`READS_MAX`] rounds. Then it yields to other
    /// connections, with its task queued.
    ///
    /// A round serves requests ([`Connection::serve`]), sends all output ([`Connection::flush`])
    /// and acts on the phase. It reads only if no answer waits to be sent: so a client that does
    /// not read its answers is not read from either, and TCP holds it back.
    ///
    /// While the ring sends the output, nothing is done. The operation's end calls `drive` again.
    pub(crate) fn drive(&mut self, local: &mut ThreadLocals) -> Fate {
        self.hungry = false;
        if self.outgoing != Outgoing::Nothing {
            if self.timing == Timing::None {
                self.set_deadline(Timing::Write, local.now_ms + local.limits.write_timeout_ms);
            }
            return Fate::Keep;
        }
        for _ in 0..READS_MAX {
            let served = self.serve(local);
            if let Served::Hungry = served {
                if !self.readable {
                    self.hungry = true;
                    return self.rest(local);
                }
                if self.read(local) == Fate::Drop {
                    return Fate::Drop;
                }
                continue;
            }
            match self.flush(local) {
                Poll::Pending => return Fate::Keep,
                Poll::Ready(Fate::Drop) => return Fate::Drop,
                Poll::Ready(Fate::Keep) => {}
            }
            if let Served::HeldBack = served {
                // The worker drives the connection again afterwards.
                self.timing = Timing::None;
                return Fate::Keep;
            }
            match self.phase {
                Phase::Closing { linger_bytes: 0 } => return Fate::Drop,
                Phase::Closing { linger_bytes } => self.start_lingering(linger_bytes, local),
                _ => {}
            }
            if self.upload.is_some() {
                match self.continue_upload(local) {
                    ControlFlow::Continue(true) => continue,
                    ControlFlow::Continue(false) => {}
                    ControlFlow::Break(fate) => return fate,
                }
            }
            match &mut self.phase {
                Phase::Waiting { deadline_ms, .. } => {
                    self.timing = Timing::None;
                    if *deadline_ms < u64::MAX && self.upload.is_none() {
                        let deadline_ms = *deadline_ms;
                        self.set_deadline(Timing::Handler, deadline_ms);
                    }
                    return Fate::Keep;
                }
                Phase::Admitting { .. } => {
                    self.timing = Timing::None;
                    return Fate::Keep;
                }
                Phase::Streaming(body_stream) if body_stream.is_stalled() => {
                    return self.wait_for_producer(local);
                }
                Phase::Taken(takeover) if takeover.is_sated() => {
                    return self.wait_for_protocol(local);
                }
                Phase::Lingering { .. } => return self.discard(local),
                _ => {}
            }
        }
        task::requeue(self.token);
        Fate::Keep
    }

    /// Answers the complete requests in the buffer. Stops at the limit for pipelined requests, when
    /// the output exceeds [`Limits::unsent_bytes_max`](crate::Limits::unsent_bytes_max), and when a
    /// request needs more time or bytes.
    fn serve(&mut self, local: &mut ThreadLocals) -> Served {
        if self.has_link_unsent() {
            return Served::Stop;
        }
        for _ in 0..local.limits.pipelined_max {
            let unsent = self.output.len() - self.sent;
            if self.tail.is_some() || unsent > local.limits.unsent_bytes_max {
                return Served::Stop;
            }
            let whole = match &mut self.phase {
                Phase::Head if local.held_back => return Served::HeldBack,
                Phase::Head => self.take_head(local),
                Phase::Body(_) => self.take_body(local),
                Phase::Streaming(_) => {
                    if self.stream(local) {
                        continue;
                    }
                    return Served::Stop;
                }
                Phase::Taken(_) => return self.run_protocol(local),
                _ => return Served::Stop,
            };
            if !whole {
                let idle =
                    matches!(self.phase, Phase::Head | Phase::Body(_)) && self.output.is_empty();
                return if idle { Served::Hungry } else { Served::Stop };
            }
            self.run(local);
        }
        Served::Stop
    }

    /// Parses the next head and finds its endpoint. Returns true if the request, with its whole
    /// body, is in the buffer.
    ///
    /// The parser continues at the position of its last call, so a head that arrives byte by byte
    /// is not scanned again. An invalid head is answered, and ends the connection; so does the
    /// preface of HTTP/2, unless that is supported.
    fn take_head(&mut self, local: &mut ThreadLocals) -> bool {
        let Some(request) = &mut self.request else { return false };
        if request.0.unread() == 0 {
            return false;
        }
        let exchange = own(request);
        let from = exchange.consumed;
        match exchange.head.parse(&exchange.buffer, from, &local.head_limits) {
            Ok(false) => {
                if self.timing != Timing::Head {
                    self.set_deadline(Timing::Head, local.now_ms + local.limits.header_timeout_ms);
                }
                return false;
            }
            Err(error) => {
                if !self.detect_http2(local) {
                    self.refuse(Response::problem(error.status(), error.text()), local);
                }
                return false;
            }
            Ok(true) => {}
        }
        self.requests = self.requests.saturating_add(1);
        self.is_known = true;
        exchange.forget();
        if let Some(routes) = self.routes.successor(local) {
            exchange.context = Arc::clone(&routes.context);
            self.routes = routes;
        }
        let head = &exchange.head;
        self.found = exchange.context.paths.find(
            head.method,
            &exchange.buffer,
            head.path,
            &mut exchange.params,
        );
        exchange.endpoint = match self.found {
            Found::Endpoint(index) => Some(index),
            _ => None,
        };
        exchange.body = Span::default();
        if head.body == BodyLength::None {
            self.next_at = head.end;
            return true;
        }
        self.start_body(local)
    }

    /// Reads once into the request's buffer. Always inlined, because the path of a plain request
    /// calls it only once.
    ///
    /// Room is made for the rest of a body of known length, or for [`READ_BYTES`]. A read that
    /// fills all room is followed by another one; otherwise an event reports
    /// the next bytes.
    #[inline(always)]
    fn read(&mut self, local: &mut ThreadLocals) -> Fate {
        if self.link.is_some() {
            return self.read_through(local);
        }
        if self.request.is_none() {
            self.request = Some(local.take_exchange(self.peer, &self.secured));
        }
        let Some(request) = &mut self.request else { return Fate::Drop };
        let exchange = own(request);
        let wanted = match &self.phase {
            Phase::Body(BodyProgress::Exact { end }) => end.saturating_sub(exchange.buffer.len()),
            Phase::Body(_) => READ_BYTES,
            _ => {
                exchange.compact();
                READ_BYTES
            }
        };
        make_room(&mut exchange.buffer, wanted);
        let room = exchange.buffer.capacity() - exchange.buffer.len();
        match recv(&self.socket, spare_capacity(&mut exchange.buffer), RecvFlags::empty()) {
            Ok((0, _)) => {
                self.ended = true;
                self.readable = false;
                self.half_closed = true;
            }
            Ok((count, _)) => {
                local.note_received(count);
                self.readable = count == room || self.half_closed || !local.reports_half_close;
            }
            Err(Errno::AGAIN) => self.readable = false,
            Err(Errno::INTR) => {}
            Err(_) => return Fate::Drop,
        }
        Fate::Keep
    }

    /// Returns empty buffers to the thread, because nothing more can be done until bytes arrive,
    /// and sets the deadline for them. An idle connection therefore takes only its own struct. Ends
    /// the connection if the client has ended it, or if the server shuts down and no request has
    /// begun.
    fn rest(&mut self, local: &mut ThreadLocals) -> Fate {
        if self.ended {
            return Fate::Drop;
        }
        if let Some(link) = &self.link
            && link.is_opening()
        {
            let deadline_ms = link.deadline_ms;
            self.set_deadline(Timing::Opening, deadline_ms);
            return if local.draining { Fate::Drop } else { Fate::Keep };
        }
        if matches!(self.phase, Phase::Taken(_)) {
            return self.wait_for_protocol(local);
        }
        if self.output.capacity() > 0 {
            local.give_output(std::mem::take(&mut self.output));
        }
        if matches!(self.phase, Phase::Head)
            && self.request.as_ref().is_none_or(|request| request.0.unread() == 0)
        {
            if let Some(request) = self.request.take() {
                local.give_exchange(request);
            }
            if local.draining {
                self.send_close_notify();
                return Fate::Drop;
            }
            self.set_deadline(Timing::Idle, local.now_ms + local.limits.idle_timeout_ms);
        }
        Fate::Keep
    }

    /// Sends the waiting output. Returns `Pending` when the socket accepts no more for now, or the
    /// ring sends.
    ///
    /// Output and a large body after it go out in one system call. The write deadline is extended
    /// only by bytes that the client accepts: a client that sends requests and reads nothing is
    /// ended.
    fn flush(&mut self, local: &mut ThreadLocals) -> Poll<Fate> {
        if self.link.is_some() {
            return self.flush_through(local);
        }
        let is_unsent = self.output.len() > self.sent;
        if self.intake != Intake::Own && self.tail.is_none() && is_unsent {
            self.hand_over(local);
            return Poll::Pending;
        }
        let mut progressed = false;
        loop {
            let unsent = &self.output[self.sent..];
            let sent = match &self.tail {
                None if unsent.is_empty() => break,
                None => send(&self.socket, unsent, SEND_FLAGS),
                Some((body, offset)) => {
                    let slices = [IoSlice::new(unsent), IoSlice::new(&body.as_bytes()[*offset..])];
                    sendmsg(&self.socket, &slices, &mut SendAncillaryBuffer::default(), SEND_FLAGS)
                }
            };
            match sent {
                Ok(count) => {
                    progressed = true;
                    local.note_sent(count);
                    self.note_sent(count);
                }
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {
                    if self.intake != Intake::Own {
                        self.outgoing = Outgoing::Full;
                    }
                    // A client that only sends must not extend its write deadline.
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
        self.output.clear();
        self.sent = 0;
        Poll::Ready(Fate::Keep)
    }

    /// Moves the positions in the output and in the body after it by the number of bytes that were
    /// sent.
    fn note_sent(&mut self, count: usize) {
        let from_output = count.min(self.output.len() - self.sent);
        self.sent += from_output;
        if let Some((body, offset)) = &mut self.tail {
            *offset += count - from_output;
            if *offset == body.len() && self.sent == self.output.len() {
                memory_trimmer::note_freed(body.held_bytes());
                self.tail = None;
            }
        }
    }

    /// Sets the only deadline of the connection, replacing the previous one.
    fn set_deadline(&mut self, timing: Timing, deadline_ms: u64) {
        self.timing = timing;
        self.deadline_ms = deadline_ms;
    }

    /// Acts on the deadline, if it has passed; called by the thread's sweep. The action depends on
    /// what the connection waits for: a late request is answered with 408, a late handler with 503,
    /// an idle connection is closed, an upload fails, a heartbeat is sent, a protocol gets a turn.
    pub(crate) fn sweep(&mut self, local: &mut ThreadLocals) -> Fate {
        if self.timing == Timing::None || local.now_ms < self.deadline_ms {
            return Fate::Keep;
        }
        match self.timing {
            Timing::Body if self.upload.is_some() => {
                self.fail_upload();
                Fate::Keep
            }
            Timing::Heartbeat => self.send_heartbeat(local),
            Timing::Protocol => self.drive(local),
            Timing::Handler => {
                let late =
                    Response::problem(Status::SERVICE_UNAVAILABLE, "the answer took too long");
                self.answer_later(late, local);
                self.drive(local)
            }
            Timing::Head | Timing::Body => {
                self.refuse(
                    Response::problem(
                        Status::REQUEST_TIMEOUT,
                        "the request was not received in \
                                                                time",
                    ),
                    local,
                );
                self.drive(local)
            }
            Timing::Idle => {
                self.send_close_notify();
                Fate::Drop
            }
            _ => Fate::Drop,
        }
    }

    /// Returns the number of requests that the connection is answering. A stream of events does not
    /// count, because it may have no end.
    pub(crate) fn requests_in_progress(&self) -> u32 {
        match &self.phase {
            Phase::Head | Phase::Closing { .. } | Phase::Lingering { .. } => 0,
            Phase::Taken(takeover) => takeover.requests_in_progress(),
            Phase::Streaming(body_stream) if body_stream.body.heartbeat().is_some() => 0,
            Phase::Admitting { .. }
            | Phase::Body(_)
            | Phase::Waiting { .. }
            | Phase::Streaming(_) => {
                let request = self.request.as_ref();
                u32::from(request.is_none_or(|request| self.routes.is_awaited(request)))
            }
        }
    }

    /// Handles a shutdown, or a change of the routes: answers the requests that have arrived. During
    /// a shutdown, it ends if none is in flight.
    pub(crate) fn drain(&mut self, local: &mut ThreadLocals) -> Fate {
        self.readable = self.intake == Intake::Own;
        self.drive(local)
    }
}

/// Returns true if the next read of a socket returns the end of the client's bytes, or an error.
#[cold]
fn has_ended(socket: &OwnedFd) -> bool {
    let mut byte = [0; 1];
    match recv(socket, &mut byte, RecvFlags::PEEK) {
        Ok((_, count)) => count == 0,
        Err(Errno::AGAIN | Errno::INTR) => false,
        Err(_) => true,
    }
}
