//! A WebSocket as the protocol of a connection: it decodes frames into the inbox, polls the
//! handler, sends frames from the outbox and from broadcasts, answers pings, and watches silence.
//!
//! The closing handshake (RFC 6455, 7) has three parts, which may come in any order:
//! `close_received`, `close_sent`, and the end of the handler. The connection closes when the
//! client's Close was received (or the client has gone) and the handler has ended, or after
//! [`CLOSE_MS`].

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use super::decoder::{Decoder, Incoming};
use super::frame::{CONTROL_BYTES_MAX, FrameError, Opcode, put_frame};
use super::message::Close;
use super::socket::State;
use crate::body::Body;
use crate::body::body_sender::Gone;
use crate::body::producer::BoxError;
use crate::message::observe::ConnectionEvent;
use crate::message::protocol::{Protocol, ProtocolStep, Turn};
use crate::reactor::log_limit::LogLimit;

/// The future of the handler.
pub(super) type Run = Pin<Box<dyn Future<Output = Result<(), BoxError>>>>;

/// How long the client may take to answer a Close, and the handler to end after its client has
/// gone, in ms.
const CLOSE_MS: u64 = 5_000;
/// Bytes that wait for the client before no more are written, and no more are received either.
const AHEAD_BYTES: usize = 32 * 1024;
/// A longer frame of a broadcast is sent without being copied into the output.
const COPY_BYTES_MAX: usize = 16 * 1024;
/// Maximum polls of the handler before other connections are served.
const ROUNDS_MAX: usize = 16;

/// The protocol of a WebSocket with a handler.
pub(super) struct WebSocketProtocol {
    /// The messages that are incomplete.
    decoder: Decoder,
    /// Shared with the handler's [`WebSocket`](crate::WebSocket). Never borrowed while the handler
    /// is polled.
    state: Rc<RefCell<State>>,
    /// `None` once the handler has ended. It is dropped then, and with it what it owns.
    run: Option<Run>,
    ping_after_ms: u64,
    pong_timeout_ms: u64,
    /// When bytes of the client last arrived, in ms; 0 before the first turn.
    received_ms: u64,
    /// A Ping was sent since then.
    ping_sent: bool,
    /// When the connection is ended, even if the handler has not ended; set when it begins to
    /// close.
    handler_deadline_ms: Option<u64>,
    /// The server has sent its last frame.
    close_sent: bool,
    /// The client has sent its last frame, or has gone.
    close_received: bool,
}

impl WebSocketProtocol {
    /// Returns the protocol before the first poll of its handler `run`. The last argument has the
    /// times of [`WebSocketOptions`](crate::WebSocketOptions).
    pub(super) fn new(
        decoder: Decoder,
        state: Rc<RefCell<State>>,
        run: Run,
        (ping_after_ms, pong_timeout_ms): (u64, u64),
    ) -> Self {
        Self {
            decoder,
            state,
            run: Some(run),
            ping_after_ms,
            pong_timeout_ms,
            received_ms: 0,
            ping_sent: false,
            handler_deadline_ms: None,
            close_sent: false,
            close_received: false,
        }
    }

    /// Decodes what has arrived, as far as there is room for it: in the inbox for messages, in the
    /// output for pongs. Bytes that are not decoded stay in the connection's buffer, which then
    /// holds the client back.
    fn receive_frames(&mut self, turn: &mut Turn<'_>) {
        let before = turn.used;
        while !self.close_received && turn.output.len() < AHEAD_BYTES && self.has_room() {
            let (used, incoming) = match self.decoder.decode(&turn.input[turn.used..]) {
                Ok(taken) => taken,
                Err(fault) => {
                    self.give_up(fault, turn);
                    break;
                }
            };
            turn.used += used;
            let Some(incoming) = incoming else { break };
            match incoming {
                // Too late: the handler has closed.
                Incoming::Message(_) if self.close_sent => {}
                Incoming::Message(message) => self.state.borrow_mut().receive(message),
                Incoming::Ping(_) if self.close_sent => {}
                Incoming::Ping(bytes) => put_frame(turn.output, Opcode::Pong, false, &bytes),
                Incoming::Pong => {}
                Incoming::Close(said) => {
                    self.close_received = true;
                    let close = match said {
                        Some((code, reason)) => Close { code, reason },
                        None => Close { code: Close::NO_CODE, reason: String::new() },
                    };
                    self.end(close, turn);
                }
            }
        }
        // A client whose messages wait for the handler is not read from, so it is not silent.
        if turn.used > before || !self.has_room() {
            self.received_ms = turn.local.now_ms;
            self.ping_sent = false;
        }
    }

    /// Returns true if more messages may be received. After the end they are discarded, so there is
    /// room.
    fn has_room(&self) -> bool {
        self.close_sent || self.state.borrow().has_room()
    }

    /// Ends the connection after an error of the decoder.
    fn give_up(&mut self, fault: FrameError, turn: &mut Turn<'_>) {
        let close = Close { code: fault.code, reason: fault.reason.to_owned() };
        turn.used = turn.input.len();
        self.close_received = true;
        self.end(close, turn);
    }

    /// Sends a Close, unless one was sent; the code for a client that has gone cannot be sent.
    fn send_close(&mut self, close: &Close, turn: &mut Turn<'_>) {
        if std::mem::replace(&mut self.close_sent, true) || close.code == Close::GONE {
            return;
        }
        let mut payload = Vec::new();
        if close.code != Close::NO_CODE {
            payload.extend_from_slice(&close.code.to_be_bytes());
            payload.extend_from_slice(close.reason.as_bytes());
            payload.truncate(CONTROL_BYTES_MAX);
        }
        put_frame(turn.output, Opcode::Close, false, &payload);
    }

    /// Notes that no more messages come. The handler learns it after the messages in its inbox, and
    /// then has [`CLOSE_MS`] to end.
    fn end(&mut self, close: Close, turn: &Turn<'_>) {
        let mut state = self.state.borrow_mut();
        if state.closed.is_none() && state.last.is_none() {
            match self.close_sent || state.is_empty() || self.run.is_none() {
                true => state.closed = Some(close),
                false => state.last = Some(close),
            }
        }
        state.rooms.clear();
        self.handler_deadline_ms.get_or_insert(turn.local.now_ms + CLOSE_MS);
    }

    /// Polls the handler. If it has ended, its result is the Close to send.
    fn run(&mut self, turn: &mut Turn<'_>) {
        let Some(run) = &mut self.run else { return };
        let Poll::Ready(ended) = run.as_mut().poll(&mut turn.context) else { return };
        self.run = None;
        let code = match ended {
            Ok(()) => Close::NORMAL,
            Err(error) if error.is::<Gone>() => Close::NORMAL,
            Err(error) => {
                static LIMIT: LogLimit = LogLimit::new();
                if let Some(left_out) = LIMIT.next() {
                    log::warn!(
                        "the handler of a WebSocket failed: {error} ({left_out} more since the \
                         last line)"
                    );
                }
                if let Some(observer) = &turn.local.observer {
                    observer.note(ConnectionEvent::SocketFailed);
                }
                Close::ERROR
            }
        };
        let close = Close { code, reason: String::new() };
        self.state.borrow_mut().closing.get_or_insert(close);
    }

    /// Moves frames to the output: the handler's, those of broadcasts, then a Close. Returns true
    /// if there were any.
    ///
    /// A large payload is passed as the connection's tail, and nothing is written after it until it
    /// is sent. A Close is the last frame: the handler's, the answer to the client's, or that of a
    /// broadcast for a slow client.
    fn send_frames(&mut self, turn: &mut Turn<'_>) -> bool {
        if self.close_sent || turn.tail.is_some() || turn.output.len() >= AHEAD_BYTES {
            return false;
        }
        let some = self.state.borrow_mut().move_to(turn.output, turn.tail);
        if turn.tail.is_some() {
            return some;
        }
        if let Err(close) = self.send_broadcasts(turn) {
            self.send_close(&close, turn);
            self.end(close, turn);
            return true;
        }
        let closing = {
            let mut state = self.state.borrow_mut();
            let answered = state.closed.clone().filter(|_| self.close_received);
            answered.or_else(|| state.closing.take())
        };
        if let Some(close) = closing {
            if turn.tail.is_some() || turn.output.len() >= AHEAD_BYTES {
                // Messages of broadcasts come first.
                self.state.borrow_mut().closing = Some(close);
                return some;
            }
            self.send_close(&close, turn);
            self.end(close, turn);
            return true;
        }
        some
    }

    /// Sends the unread messages of the broadcasts that the socket has joined.
    ///
    /// # Errors
    /// The Close for a client that is too slow.
    fn send_broadcasts(&mut self, turn: &mut Turn<'_>) -> Result<(), Close> {
        let mut state = self.state.borrow_mut();
        let State { rooms, window_bits, .. } = &mut *state;
        for room in rooms {
            while turn.output.len() < AHEAD_BYTES && turn.tail.is_none() {
                let said = room.next(turn.context.waker()).map_err(|()| Close {
                    code: Close::POLICY,
                    reason: "too slow for the messages of this endpoint".to_owned(),
                })?;
                let Some(said) = said else { break };
                let frame = said.frame(*window_bits);
                if frame.len() < COPY_BYTES_MAX {
                    turn.output.extend_from_slice(frame);
                } else {
                    *turn.tail = Some((Body::from(frame.clone()), 0));
                }
            }
        }
        Ok(())
    }

    /// Sends a Ping to a silent client, and ends the connection of one that does not answer.
    /// Returns false if the deadline of the closing has passed.
    fn check_silence(&mut self, turn: &mut Turn<'_>) -> bool {
        let now_ms = turn.local.now_ms;
        if self.handler_deadline_ms.is_some_and(|handler_deadline_ms| now_ms >= handler_deadline_ms)
        {
            return false;
        }
        if self.close_sent {
            return true;
        }
        let silent_ms = now_ms - self.received_ms;
        if silent_ms >= self.ping_after_ms.saturating_add(self.pong_timeout_ms) {
            self.close_received = true;
            self.end(gone(), turn);
        } else if silent_ms >= self.ping_after_ms && !self.ping_sent {
            self.ping_sent = true;
            put_frame(turn.output, Opcode::Ping, false, b"");
        }
        true
    }

    /// Returns when [`WebSocketProtocol::check_silence`] has something to do.
    fn deadline_ms(&self) -> u64 {
        let patience_ms = match self.ping_sent {
            true => self.ping_after_ms.saturating_add(self.pong_timeout_ms),
            false => self.ping_after_ms,
        };
        self.handler_deadline_ms.unwrap_or_else(|| self.received_ms.saturating_add(patience_ms))
    }
}

impl Protocol for WebSocketProtocol {
    /// Receives, polls the handler and sends, in up to [`ROUNDS_MAX`] rounds while there is
    /// progress. A handler that sends many messages in a row gets a round for each full output.
    fn advance(&mut self, turn: &mut Turn<'_>) -> ProtocolStep {
        if self.received_ms == 0 {
            self.received_ms = turn.local.now_ms;
        }
        if turn.is_draining() && !self.close_sent {
            let reason = match turn.local.draining {
                true => "the server is shutting down",
                false => "the routes of the server are replaced: connect again",
            };
            let close = Close { code: Close::GOING_AWAY, reason: reason.into() };
            self.send_close(&close, turn);
            self.end(close, turn);
        }
        let mut busy = true;
        for round in 0..ROUNDS_MAX {
            self.receive_frames(turn);
            if round == 0 && !self.check_silence(turn) {
                return ProtocolStep::Close { linger: !turn.ended };
            }
            let was_full = !self.has_room();
            if turn.ended && !self.close_received && self.has_room() {
                self.close_received = true;
                self.end(gone(), turn);
            }
            self.run(turn);
            let full = turn.tail.is_some() || turn.output.len() >= AHEAD_BYTES;
            busy = self.send_frames(turn) || full || (was_full && self.has_room());
            if !busy || full {
                break;
            }
        }
        if self.close_received && self.run.is_none() {
            return ProtocolStep::Close { linger: !turn.ended };
        }
        if busy {
            return ProtocolStep::More;
        }
        let hungry = !self.close_received && self.has_room();
        ProtocolStep::Wait { hungry, deadline_ms: self.deadline_ms() }
    }
}

/// Returns the reason for a client that has gone without a Close.
fn gone() -> Close {
    Close { code: Close::GONE, reason: String::new() }
}
