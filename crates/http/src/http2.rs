//! HTTP/2 on a connection (RFC 9113). Frames, header compression and flow control are done by the
//! crate `h2`, which reads and writes memory instead of a socket ([`memory_socket`]). Requests and
//! answers are converted to and from HTTP/1.1 ([`message`]), so that handlers see no difference,
//! and there is one parser and one router.
//!
//! [`Http2`] is the [`Protocol`] that takes over a connection. A stream that can be answered at
//! once never becomes a future: its request is parsed, its handler runs and its answer is passed to
//! `h2` in one call. Otherwise it continues as a future in `streams`: while it waits for an early
//! decision, a body or a handler ([`waiting`]), or while its answer is sent ([`sending`]). A future
//! returns an [`Outcome`], with which the connection continues: only the connection has the
//! thread's data that a handler needs. A WebSocket uses its stream like a connection ([`tunnel`]).
//!
//! Three accounts bound the memory that a client can use: answers that it does not read
//! ([`unread`]), bodies that are gathered ([`ConnectionBudget`]), and frames that carry neither
//! ([`control`]).

mod clock;
mod control;
mod memory_socket;
mod message;
mod sending;
mod stream;
mod stream_sender;
mod tunnel;
mod unread;
mod upload;
mod waiting;

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, Stream};
use h2::server::{Builder, Connection, Handshake, SendResponse};
use h2::{Reason, RecvStream};

use clock::{Clock, Patience, StreamTimeouts};
use control::ControlFrames;
use memory_socket::MemorySocket;
use sending::Sending;
use stream::{Outcome, PendingStream};
use stream_sender::StreamSender;
use tunnel::{Tunnel, Turns};
use unread::{UnreadAnswer, UnreadAnswers};
use upload::{CountGuard, Upload};
use waiting::BodyRoom;

use crate::body::budget::{ConnectionBudget, Lease};
use crate::message::limits::Limits;
use crate::message::observe::ConnectionEvent;
use crate::message::protocol::{Protocol, ProtocolStep, Turn};
use crate::message::request::Request;
use crate::message::response::Response;
use crate::message::thread_locals::ThreadLocals;
use crate::message::writer::{Persistence, ReplyTo, ResponseWriter, Tail};
use crate::proto::method::Method;
use crate::proto::paths::Found;
use crate::proto::status::Status;
use crate::reactor::event::Token;
use crate::routing::admission::Admission;
use crate::routing::dispatch::{self, RunResult};
use crate::routing::router::Routes;
use crate::socket::address::Peer;
use crate::socket::socket_codec::TlsInfo;

/// The connection preface, which a client of HTTP/2 sends first.
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes that may wait for `h2` before no more are taken from the socket: it stops reading while it
/// cannot answer.
const INPUT_BYTES_MAX: usize = 64 * 1024;
/// Bytes of answers that `h2` accepts for a stream.
const STREAM_BYTES_MAX: usize = 64 * 1024;
/// The connection's window: bytes of bodies that may be in flight beyond those that their handlers
/// have read.
const WINDOW_BYTES: u32 = 256 * 1024;
/// Bytes by which each WebSocket, and each body that its handler reads as it arrives, widens the
/// connection's window. So the part of the window that an unread one keeps (a stream's window, by
/// default that of RFC 9113, 6.9.2) is not missing for the others.
const HELD_BYTES: u32 = 65_535;
/// The maximum size of a window (RFC 9113, 6.9.1).
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;
/// Reset streams for which frames may still arrive.
const RESET_MAX: usize = 32;
/// Bytes that a client may have sent before it learns that the connection ends. The windows limit
/// bodies, so more than this is a flood.
const LINGER_BYTES_MAX: usize = 1024 * 1024;
/// Answers of any length that may wait for the client's windows before no further request is
/// accepted: as many as browsers open connections of HTTP/1.1.
const ANSWERS_WAITING: u32 = 6;
/// Bytes that may wait for the socket before no further request is accepted in this turn.
const AHEAD_BYTES: usize = 32 * 1024;
/// Streams that the client reset while their handlers were running. Beyond this number there must
/// be as many others: a client that alternates requests and resets is disconnected.
const RESETS_MAX: u32 = 64;

/// The state of the connection.
enum State {
    /// The preface and the settings are being exchanged.
    Opening(Handshake<MemorySocket, Bytes>),
    /// Streams are accepted.
    Open(Connection<MemorySocket, Bytes>),
    /// The client has gone, and the handlers of WebSockets have some time to end.
    Gone,
}

/// An HTTP/2 connection.
pub(crate) struct Http2 {
    state: State,
    /// The other end of the socket that `h2` uses.
    socket: MemorySocket,
    /// The futures of streams that could not be answered at once.
    streams: FuturesUnordered<Pin<Box<dyn Future<Output = Outcome>>>>,
    /// The timers of these futures.
    clocks: Vec<Rc<Clock>>,
    /// The time of the latest turn, for the timers.
    now_ms: Rc<Cell<u64>>,
    /// Streams that other protocols have taken over.
    tunnels: u32,
    /// The tunnels that wait for a turn.
    turns: Turns,
    /// Bodies that their handlers read as they arrive, and those that wait to be received.
    uploads: Rc<Cell<u32>>,
    /// Frames that are neither requests nor bodies.
    control: ControlFrames,
    /// The memory of answers that wait for the client.
    unread: Rc<UnreadAnswers>,
    /// Bytes of answers that `h2` has and could not write yet.
    handed_bytes: usize,
    /// The memory of bodies that are gathered whole.
    gathering: Rc<ConnectionBudget>,
    /// The number of tunnels and uploads by which the connection's window is widened.
    widened: u32,
    /// The streams were notified of the shutdown.
    drained: bool,
    /// The routes of new streams.
    routes: Arc<Routes>,
    /// Requests whose answers are not complete.
    in_progress: Rc<Cell<u32>>,
    /// [`ThreadLocals::epoch`] of the latest turn.
    epoch: u32,
    peer: Peer,
    secured: Option<Rc<TlsInfo>>,
    token: Token,
    /// Requests so far.
    requests: u32,
    /// Streams so far that the client has reset before they were answered.
    resets: u32,
    /// When something was last done for the client, in ms.
    active_ms: u64,
    /// The client was notified to send no more requests here (GOAWAY).
    goaway_sent: bool,
    /// The client is a flood and gets ENHANCE_YOUR_CALM.
    is_flood: bool,
}

impl Http2 {
    /// Returns a connection that waits for the preface, with the limits of the server as its
    /// settings.
    pub(crate) fn new(
        routes: &Arc<Routes>,
        peer: Peer,
        secured: Option<Rc<TlsInfo>>,
        token: Token,
        local: &ThreadLocals,
    ) -> Self {
        let socket = MemorySocket::default();
        let limits = &local.limits;
        let handshake = Builder::new()
            .max_concurrent_streams(limits.streams_max)
            .max_header_list_size(u32::try_from(limits.head_bytes_max).unwrap_or(u32::MAX))
            .initial_connection_window_size(WINDOW_BYTES)
            .max_send_buffer_size(STREAM_BYTES_MAX)
            .max_concurrent_reset_streams(RESET_MAX)
            .max_pending_accept_reset_streams(RESET_MAX)
            .max_local_error_reset_streams(Some(RESET_MAX))
            .enable_connect_protocol()
            .handshake(socket.clone());
        Self {
            state: State::Opening(handshake),
            socket,
            streams: FuturesUnordered::new(),
            clocks: Vec::new(),
            now_ms: Rc::new(Cell::new(local.now_ms)),
            tunnels: 0,
            turns: Turns::default(),
            uploads: Rc::default(),
            control: ControlFrames::new(limits.control_frames_per_second_max, local.now_ms),
            unread: Rc::default(),
            handed_bytes: 0,
            gathering: Rc::default(),
            widened: 0,
            drained: false,
            routes: Arc::clone(routes),
            in_progress: Rc::default(),
            epoch: local.epoch,
            peer,
            secured,
            token,
            requests: 0,
            resets: 0,
            active_ms: local.now_ms,
            goaway_sent: false,
            is_flood: false,
        }
    }

    /// Does everything that can be done now: continues with the streams' outcomes, gives tunnels
    /// their turns, and lets `h2` read, accept streams and write. Returns true when the connection
    /// is over.
    ///
    /// The order matters. Futures run first, because `h2` then writes their output in the same
    /// call. `poll_accept` also drives all streams that are accepted already; when too many answers
    /// wait, `poll_closed` does that without accepting more.
    fn advance(&mut self, turn: &mut Turn<'_>) -> bool {
        // The state of `h2` changes only in calls from here, so it need not wake a task.
        let quiet = &mut Context::from_waker(Waker::noop());
        loop {
            let context = &mut turn.context;
            while let Poll::Ready(Some(outcome)) = Pin::new(&mut self.streams).poll_next(context) {
                self.active_ms = turn.local.now_ms;
                self.handle_outcome(outcome, turn.local);
            }
            // Such a turn wakes other futures, and its own; their output is written below.
            for (tunnel, waker) in self.turns.take() {
                tunnel.borrow_mut().advance(&waker, turn.local);
            }
            let held = self.tunnels.saturating_add(self.uploads.get());
            let is_full = turn.local.held_back || self.is_full(&turn.local.limits);
            let connection = match &mut self.state {
                State::Open(connection) => {
                    if std::mem::replace(&mut self.widened, held) != held {
                        let bytes = WINDOW_BYTES.saturating_add(held.saturating_mul(HELD_BYTES));
                        connection.set_target_window_size(bytes.min(WINDOW_BYTES_MAX));
                    }
                    connection
                }
                State::Opening(handshake) => match Pin::new(handshake).poll(quiet) {
                    Poll::Ready(Ok(mut connection)) => {
                        if self.is_flood {
                            connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                        }
                        self.state = State::Open(connection);
                        continue;
                    }
                    Poll::Ready(Err(_)) => return true,
                    Poll::Pending => return false,
                },
                State::Gone => return self.tunnels == 0,
            };
            // Called after the streams, because it writes their output.
            let next = match is_full {
                false => connection.poll_accept(quiet),
                // Streams in progress continue; new requests wait.
                true => connection.poll_closed(quiet).map(|ended| ended.err().map(Err)),
            };
            match next {
                Poll::Ready(Some(Ok((head, respond)))) => {
                    self.active_ms = turn.local.now_ms;
                    self.accept(head, respond, turn.local);
                }
                Poll::Ready(ended) => {
                    if let Some(Err(error)) = ended {
                        log::debug!("HTTP/2 with {}: {error}", self.peer);
                    }
                    if self.tunnels == 0 || !turn.ended {
                        return true;
                    }
                    // The handlers of WebSockets are notified of it as on separate connections.
                    self.state = State::Gone;
                }
                Poll::Pending => return false,
            }
        }
    }

    /// Returns true if the client must read some of the waiting answers before more are produced.
    fn is_full(&self, limits: &Limits) -> bool {
        let (bytes, answers) = (self.unread.bytes.get(), self.unread.answers.get());
        self.handed_bytes > limits.unsent_bytes_max
            || (answers > ANSWERS_WAITING && bytes > limits.unsent_bytes_max)
    }

    /// Accepts a stream: parses its head, and runs its handler or waits for its body. An invalid
    /// head is answered with 400, as on HTTP/1.1, and not with a reset: the client sees the reason.
    fn accept(
        &mut self,
        head: http::Request<RecvStream>,
        respond: SendResponse<Bytes>,
        local: &mut ThreadLocals,
    ) {
        self.requests = self.requests.saturating_add(1);
        let worn_out =
            local.limits.requests_per_connection_max.is_some_and(|max| self.requests >= max);
        if worn_out {
            self.send_goaway();
        }
        let (head, body) = head.into_parts();
        if let Some(routes) = self.routes.successor(local) {
            self.routes = routes;
        }
        let mut request = local.take_exchange(self.peer, &self.secured);
        let opening = message::opening(&head);
        let bodiless = opening.is_some() || body.is_end_stream();
        let read = message::read(&head, bodiless, &mut request, &local.head_limits);
        let routes = Arc::clone(&self.routes);
        let is_awaited = routes.is_awaited(&request);
        let counted = is_awaited.then(|| CountGuard::new(&self.in_progress));
        let mut pending =
            PendingStream { respond, request, upload: None, tunnel: None, routes, counted };
        let found = match read {
            Ok(found) => found,
            Err(error) => {
                return self.write(pending, Response::problem(error.status(), error.text()), local);
            }
        };
        match opening {
            Some(Ok(())) => pending.tunnel = Some(body),
            Some(Err(text)) => {
                return self.write(
                    pending,
                    Response::problem(Status::NOT_IMPLEMENTED, text),
                    local,
                );
            }
            None if !body.is_end_stream() => return self.take_body(pending, found, body, local),
            None => {}
        }
        self.run(pending, found, local);
    }

    /// Starts a stream whose request has a body, with the early decision on it.
    fn take_body(
        &mut self,
        pending: PendingStream,
        found: Found,
        body: RecvStream,
        local: &mut ThreadLocals,
    ) {
        match dispatch::decide(&pending.routes, &pending.request) {
            Admission::Granted => self.gather(pending, found, body, local),
            Admission::Refused(answer) => self.write(pending, answer, local),
            Admission::Later(decision) => {
                let held = CountGuard::new(&self.uploads);
                self.streams.push(Box::pin(waiting::admit(pending, found, body, decision, held)));
            }
        }
    }

    /// Receives the body of a stream whose request may have one: for a handler that reads it as it
    /// arrives, or all of it before the handler runs.
    fn gather(
        &mut self,
        mut pending: PendingStream,
        found: Found,
        body: RecvStream,
        local: &mut ThreadLocals,
    ) {
        let request = &pending.request;
        let endpoint = request.0.endpoint.and_then(|index| pending.routes.endpoint(index));
        if let Some(bytes_max) = endpoint.and_then(|endpoint| endpoint.streams(request)) {
            let patience = Patience::new(self.clock(), StreamTimeouts::of(&local.limits));
            let count = CountGuard::new(&self.uploads);
            pending.upload =
                Some(Upload::new(body, bytes_max, patience, count, &mut pending.request));
            return self.run(pending, found, local);
        }
        let bytes_max = endpoint
            .and_then(|endpoint| endpoint.body_bytes_max)
            .unwrap_or(local.limits.body_bytes_max);
        let length = request.header_text("content-length").and_then(|text| text.parse().ok());
        let room = BodyRoom {
            lease: Lease::new(&local.bodies),
            gathering: Rc::clone(&self.gathering),
            connection_bytes_max: local.limits.connection_body_bytes_max,
            bytes_max,
            length,
        };
        let (clock, timeouts) = (self.clock(), StreamTimeouts::of(&local.limits));
        let held = CountGuard::new(&self.uploads);
        let collected = waiting::collect(pending, found, body, room, clock, timeouts, held);
        self.streams.push(Box::pin(collected));
    }

    /// Continues with the outcome of a stream's future.
    fn handle_outcome(&mut self, outcome: Outcome, local: &mut ThreadLocals) {
        match outcome {
            Outcome::Whole(pending, found) => self.run(pending, found, local),
            Outcome::Admitted(pending, found, body) => self.gather(pending, found, body, local),
            Outcome::Answer(pending, response) => self.write(pending, response, local),
            Outcome::Refused(pending, error) => {
                self.write(
                    pending,
                    crate::message::response::IntoResponse::into_response(error),
                    local,
                );
            }
            Outcome::Panicked(pending) => self.write(pending, failure(), local),
            Outcome::Done => {}
            Outcome::Reset => self.note_reset(local),
            Outcome::TunnelOver { was_reset } => {
                self.tunnels -= 1;
                if was_reset {
                    self.note_reset(local);
                }
            }
        }
    }

    /// Counts a stream that the client has reset. A client that opens and resets streams in a loop
    /// (CVE-2023-44487, "rapid reset") is disconnected.
    fn note_reset(&mut self, local: &ThreadLocals) {
        self.resets += 1;
        if self.resets > RESETS_MAX.max(self.requests / 2) {
            self.end_flood(local);
        }
    }

    /// Ends the connection of a flood, with ENHANCE_YOUR_CALM.
    #[cold]
    fn end_flood(&mut self, local: &ThreadLocals) {
        if let State::Open(connection) = &mut self.state {
            connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        }
        if !std::mem::replace(&mut self.is_flood, true)
            && let Some(observer) = &local.observer
        {
            observer.note(ConnectionEvent::Flooding);
        }
    }

    /// Runs the handler, whose answer is sent at once, or waits.
    fn run(&mut self, pending: PendingStream, found: Found, local: &mut ThreadLocals) {
        let Found::Endpoint(endpoint) = found else {
            let response = dispatch::unrouted(&pending.request, found);
            return self.write(pending, response, local);
        };
        let mut text = local.take_output();
        let to = self.reply_to(&pending.request);
        match dispatch::run(&pending.routes, &pending.request, endpoint, &mut text, local, to) {
            RunResult::Written(tail) => self.send(pending, &text, tail, local),
            RunResult::Later(answer, _) => {
                let timeout_ms = timeout_ms(&pending).map(|timeout_ms| (self.clock(), timeout_ms));
                self.streams.push(Box::pin(waiting::wait(pending, answer, timeout_ms)));
            }
            RunResult::Failed => self.write(pending, failure(), local),
        }
        local.give_output(text);
    }

    /// Writes and sends an answer of the server, or of a handler that has waited.
    fn write(&mut self, pending: PendingStream, response: Response, local: &mut ThreadLocals) {
        let mut text = local.take_output();
        let mut out = ResponseWriter::new(&mut text, local, self.reply_to(&pending.request));
        out.respond(response);
        let tail = out.finish_for(&pending.request).unwrap_or_default();
        self.send(pending, &text, tail, local);
        local.give_output(text);
    }

    /// Returns the properties of the request that the writer of its answer needs.
    fn reply_to(&self, request: &Request) -> ReplyTo {
        ReplyTo {
            persistence: Persistence::Implied,
            head_only: request.method() == Method::Head,
            is_http10: false,
            token: self.token,
        }
    }

    /// Converts an answer of HTTP/1.1, and sends it with the body that follows its head.
    ///
    /// A small body goes to `h2` at once, if the client's windows have room for it. Others become
    /// futures ([`Sending`]). An answer that hands the connection to a WebSocket opens a tunnel;
    /// other protocols cannot be reached over HTTP/2, and the stream is reset with
    /// HTTP_1_1_REQUIRED.
    fn send(
        &mut self,
        mut pending: PendingStream,
        text: &[u8],
        tail: Option<Tail>,
        local: &mut ThreadLocals,
    ) {
        if pending.tunnel.is_some() && message::is_success(text) {
            // As the answer to a CONNECT, it would mean that the tunnel is open.
            pending.tunnel = None;
            let text = "a WebSocket cannot be opened with this method: send a GET";
            return self.write(pending, Response::problem(Status::BAD_REQUEST, text), local);
        }
        let PendingStream { mut respond, request, upload, tunnel, counted, .. } = pending;
        if let Some(observer) = &mut local.observer {
            let rest = tail.as_ref().map_or(0, Tail::body_bytes);
            observer.note_written(Some(&request), request.peer(), text, rest);
        }
        let is_streamed = matches!(tail, Some(Tail::Stream(_)));
        let Some((mut head, mut body)) = message::answer(text) else {
            return respond.send_reset(Reason::INTERNAL_ERROR);
        };
        let mut held_bytes = body.len();
        let source = match tail {
            None => None,
            Some(Tail::Body(whole)) => {
                held_bytes = whole.held_bytes();
                body = whole.into_bytes();
                None
            }
            Some(Tail::Stream(stream)) => {
                held_bytes += stream.0.held_bytes();
                Some(stream.0)
            }
            Some(Tail::UpgradedProtocol(successor))
                if let Some(body) = tunnel
                    && message::opens(text) =>
            {
                *head.status_mut() = http::StatusCode::OK;
                let Ok(stream) = respond.send_response(head, false) else { return };
                local.give_exchange(request);
                let sender =
                    StreamSender::new(stream, self.clock(), StreamTimeouts::of(&local.limits));
                return self.open_tunnel(Tunnel::new(successor.0, body, sender, local.epoch));
            }
            // The protocol that the handler switches to needs a separate connection.
            Some(_) => return respond.send_reset(Reason::HTTP_1_1_REQUIRED),
        };
        let ends = body.is_empty() && !is_streamed;
        let Ok(mut stream) = respond.send_response(head, ends) else { return };
        if upload.is_none() {
            local.give_exchange(request);
        }
        if ends {
            return;
        }
        if source.is_none() && body.len() <= STREAM_BYTES_MAX {
            stream.reserve_capacity(body.len());
            if stream.capacity() >= body.len() {
                self.handed_bytes += body.len();
                // If the stream was reset in the meantime, nothing is left to do.
                let _ = stream.send_data(body, true);
                return;
            }
        }
        local.blocked_bytes += held_bytes;
        let held = UnreadAnswer::new(&self.unread, held_bytes, local.now_ms);
        let sender = StreamSender::new(stream, self.clock(), StreamTimeouts::of(&local.limits));
        let sending = Sending::new(sender, body, source, upload, held, counted);
        self.streams.push(Box::pin(sending.run(self.peer)));
    }

    /// Hands a stream to another protocol.
    fn open_tunnel(&mut self, tunnel: Tunnel) {
        self.tunnels += 1;
        let tunnel = Rc::new(RefCell::new(tunnel));
        self.streams.push(Box::pin(tunnel::represent(tunnel, Rc::clone(&self.turns))));
    }

    /// Returns a new timer, which the connection checks.
    fn clock(&mut self) -> Rc<Clock> {
        let clock = Rc::new(Clock::new(&self.now_ms));
        self.clocks.push(Rc::clone(&clock));
        clock
    }

    /// Notifies the client to send no more requests here (RFC 9113, 6.8); earlier requests are
    /// answered.
    fn send_goaway(&mut self) {
        if let State::Open(connection) = &mut self.state
            && !std::mem::replace(&mut self.goaway_sent, true)
        {
            match self.streams.is_empty() && !connection.has_streams() {
                true => connection.abrupt_shutdown(Reason::NO_ERROR),
                false => connection.graceful_shutdown(),
            }
        }
    }

    /// Wakes the streams whose deadline has passed, and returns the next deadline. Without streams,
    /// that is the idle timeout, or the one for the preface.
    fn deadline_ms(&mut self, limits: &Limits) -> u64 {
        let now_ms = self.now_ms.get();
        self.clocks.retain(|clock| Rc::strong_count(clock) > 1);
        let mut next_ms = u64::MAX;
        for clock in &self.clocks {
            let deadline_ms = clock.deadline_ms();
            if deadline_ms <= now_ms {
                clock.ring();
            } else {
                next_ms = next_ms.min(deadline_ms);
            }
        }
        if self.streams.is_empty() {
            let patience_ms = match self.state {
                State::Opening(_) => limits.header_timeout_ms,
                State::Open(_) | State::Gone => limits.idle_timeout_ms,
            };
            next_ms = next_ms.min(self.active_ms + patience_ms);
        }
        next_ms
    }
}

impl Protocol for Http2 {
    fn linger_bytes_max(&self) -> usize {
        LINGER_BYTES_MAX
    }

    fn requests_in_progress(&self) -> u32 {
        self.in_progress.get()
    }

    /// Returns the bytes of answers that wait for the client, and when it last read some.
    fn unread(&self) -> Option<(usize, u64)> {
        let bytes = self.unread.bytes.get() + self.handed_bytes;
        (bytes > 0).then(|| (bytes, self.unread.progress_ms.get()))
    }

    /// Passes received bytes to `h2`, advances the streams, and takes the output.
    ///
    /// Input is not taken while `h2` has enough: the socket's buffer fills, and TCP holds the
    /// client back. Output beyond [`AHEAD_BYTES`] makes the connection send before it continues.
    fn advance(&mut self, turn: &mut Turn<'_>) -> ProtocolStep {
        let now_ms = turn.local.now_ms;
        self.now_ms.set(now_ms);
        if matches!(self.state, State::Gone) {
            turn.used = turn.input.len();
        } else if self.socket.waiting() < INPUT_BYTES_MAX {
            turn.used = turn.input.len();
            self.socket.put(turn.input, turn.ended);
            if !self.control.admit(turn.input, now_ms) {
                self.end_flood(turn.local);
            }
        }
        if turn.local.draining {
            self.send_goaway();
            if !std::mem::replace(&mut self.drained, true) {
                self.clocks.iter().for_each(|clock| clock.ring());
            }
        }
        if std::mem::replace(&mut self.epoch, turn.local.epoch) != turn.local.epoch {
            // Tunnels of routes that are replaced end.
            self.clocks.iter().for_each(|clock| clock.ring());
        }
        let before_ms = self.deadline_ms(&turn.local.limits);
        if self.streams.is_empty() && before_ms <= now_ms {
            if self.goaway_sent || matches!(self.state, State::Opening(_)) {
                return ProtocolStep::Close { linger: false };
            }
            // Requests in progress still get their answers.
            self.active_ms = now_ms;
            self.send_goaway();
        }
        loop {
            let over = self.advance(turn);
            let was_full = self.is_full(&turn.local.limits);
            let before = turn.output.len();
            let blocked = self.socket.take_output(turn.output);
            let written = turn.output.len() - before;
            self.control.note_sent(written);
            self.handed_bytes = if blocked { self.handed_bytes.saturating_sub(written) } else { 0 };
            if over {
                return ProtocolStep::Close { linger: !self.goaway_sent };
            }
            if blocked || (was_full && turn.output.len() >= AHEAD_BYTES) {
                return ProtocolStep::More;
            }
            if !was_full || self.is_full(&turn.local.limits) {
                break;
            }
            // There is room for requests that arrived in the meantime.
        }
        let deadline_ms = self.deadline_ms(&turn.local.limits);
        let is_gone = matches!(self.state, State::Gone);
        let hungry = !is_gone && self.socket.waiting() < INPUT_BYTES_MAX;
        ProtocolStep::Wait { hungry, deadline_ms }
    }
}

/// Returns the time limit of a handler. If it reads its body as it arrives, the client's limits
/// apply instead.
fn timeout_ms(pending: &PendingStream) -> Option<u64> {
    let endpoint = pending.routes.endpoint(pending.request.0.endpoint?)?;
    endpoint.timeout_ms.filter(|_| pending.upload.is_none())
}

/// Returns the answer in place of a handler that has panicked.
fn failure() -> Response {
    Response::from_status(Status::INTERNAL_SERVER_ERROR)
}
