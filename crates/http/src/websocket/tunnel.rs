//! Another protocol within a WebSocket: the payloads of binary messages are its input, and its
//! output is sent in binary messages. Where a message begins or ends has no meaning.
//!
//! The inner protocol gets the same [`Turn`] as on a connection, with the tunnel's buffers in place
//! of the connection's. Remote stores use this to pass through proxies that only know HTTP.

use super::WebSocketOptions;
use super::decoder::{Decoder, Incoming};
use super::frame::{Opcode, put_frame};
use super::message::{Close, Message};
use crate::message::protocol::{Protocol, ProtocolStep, Turn};

/// Maximum bytes of a sent message: what clients accept by default.
const PIECE_BYTES_MAX: usize = 1 << 20;
/// Received bytes that are passed to the protocol at once.
const GIVEN_BYTES: usize = 64 * 1024;
/// Bytes that wait for the client before no more are read.
const AHEAD_BYTES: usize = 32 * 1024;
/// Buffers larger than this are not kept.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// The protocol of a WebSocket that carries another protocol.
pub(super) struct Tunnel {
    /// The protocol whose bytes are carried.
    inner: Box<dyn Protocol>,
    decoder: Decoder,
    /// Received bytes that the protocol has not used yet.
    input: Vec<u8>,
    /// The output of one call of the protocol, before it is put into messages.
    output: Vec<u8>,
    ping_after_ms: u64,
    pong_timeout_ms: u64,
    /// When bytes of the client last arrived, in ms; 0 before the first turn.
    received_ms: u64,
    ping_sent: bool,
    /// The client has sent its last frame.
    close_received: bool,
    /// The protocol wants more bytes.
    hungry: bool,
}

impl Tunnel {
    /// Returns a tunnel before the first call of its protocol.
    pub(super) fn new(inner: Box<dyn Protocol>, options: &WebSocketOptions) -> Self {
        Self {
            inner,
            decoder: Decoder::new(options.message_bytes_max, false),
            input: Vec::new(),
            output: Vec::new(),
            ping_after_ms: options.ping_after_ms,
            pong_timeout_ms: options.pong_timeout_ms,
            received_ms: 0,
            ping_sent: false,
            close_received: false,
            hungry: true,
        }
    }

    /// Decodes what has arrived, as far as the protocol wants it.
    ///
    /// # Errors
    /// The code and reason with which the connection ends.
    fn receive_frames(&mut self, turn: &mut Turn<'_>) -> Result<(), (u16, &'static str)> {
        let before = turn.used;
        let come = self.input.len();
        while self.hungry
            && !self.close_received
            && self.input.len() - come < GIVEN_BYTES
            && turn.output.len() < AHEAD_BYTES
        {
            let decoded = self.decoder.decode(&turn.input[turn.used..]);
            let (used, incoming) = decoded.map_err(|fault| (fault.code, fault.reason))?;
            turn.used += used;
            match incoming {
                None => break,
                Some(Incoming::Message(Message::Binary(bytes))) => {
                    self.input.extend_from_slice(&bytes);
                }
                Some(Incoming::Message(Message::Text(_))) => {
                    return Err((1003, "only binary messages are allowed here"));
                }
                Some(Incoming::Ping(bytes)) => {
                    put_frame(turn.output, Opcode::Pong, false, &bytes);
                }
                Some(Incoming::Pong) => {}
                Some(Incoming::Close(_)) => self.close_received = true,
            }
        }
        // A client that is not read from is not silent.
        if turn.used > before || !self.hungry {
            self.received_ms = turn.local.now_ms;
            self.ping_sent = false;
        }
        Ok(())
    }

    /// Calls the protocol, and sends its output. Returns its step, and whether it takes more bytes
    /// at once.
    fn run(&mut self, turn: &mut Turn<'_>) -> (ProtocolStep, bool) {
        let ended = self.close_received || turn.ended;
        let mut within = turn.within(&self.input, ended, &mut self.output);
        let step = self.inner.advance(&mut within);
        let used = within.used;
        self.input.drain(..used);
        for piece in self.output.chunks(PIECE_BYTES_MAX) {
            put_frame(turn.output, Opcode::Binary, false, piece);
        }
        self.output.clear();
        for buffer in [&mut self.input, &mut self.output] {
            if buffer.capacity() > KEPT_BYTES_MAX && buffer.len() < KEPT_BYTES_MAX / 2 {
                buffer.shrink_to(KEPT_BYTES_MAX / 2);
            }
        }
        let was_hungry = self.hungry;
        self.hungry = matches!(step, ProtocolStep::Wait { hungry: true, .. });
        (step, self.hungry && (used > 0 || !was_hungry))
    }

    /// Sends a Ping to a silent client. Returns false if it has not answered one in time.
    fn check_silence(&mut self, turn: &mut Turn<'_>) -> bool {
        let silent_ms = turn.local.now_ms - self.received_ms;
        if silent_ms >= self.ping_after_ms.saturating_add(self.pong_timeout_ms) {
            return false;
        }
        if silent_ms >= self.ping_after_ms && !self.ping_sent {
            self.ping_sent = true;
            put_frame(turn.output, Opcode::Ping, false, b"");
        }
        true
    }

    /// Returns when [`Tunnel::check_silence`] has something to do.
    fn deadline_ms(&self) -> u64 {
        let patience_ms = match self.ping_sent {
            true => self.ping_after_ms.saturating_add(self.pong_timeout_ms),
            false => self.ping_after_ms,
        };
        self.received_ms.saturating_add(patience_ms)
    }
}

impl Protocol for Tunnel {
    /// Receives, calls the protocol and sends, as long as bytes are left that it wants.
    ///
    /// The deadline is the earlier one of the protocol's and that of the ping. When the protocol
    /// ends, or the client closes, a Close is sent: 1001 during a shutdown, else 1000.
    fn advance(&mut self, turn: &mut Turn<'_>) -> ProtocolStep {
        if self.received_ms == 0 {
            self.received_ms = turn.local.now_ms;
        }
        loop {
            let before = turn.used;
            if let Err((code, reason)) = self.receive_frames(turn) {
                turn.used = turn.input.len();
                put_close(turn.output, code, reason);
                return ProtocolStep::Close { linger: true };
            }
            if !self.check_silence(turn) {
                return ProtocolStep::Close { linger: false };
            }
            let (step, takes_more) = self.run(turn);
            let (deadline_ms, linger) = match step {
                ProtocolStep::More => return ProtocolStep::More,
                ProtocolStep::Wait { deadline_ms, .. } => (deadline_ms, false),
                ProtocolStep::Close { linger } => (0, linger),
            };
            if self.close_received || matches!(step, ProtocolStep::Close { .. }) {
                let code = if turn.is_draining() { Close::GOING_AWAY } else { Close::NORMAL };
                put_close(turn.output, code, "");
                return ProtocolStep::Close { linger };
            }
            if turn.output.len() >= AHEAD_BYTES {
                return ProtocolStep::More;
            }
            let is_left = self.hungry && turn.used < turn.input.len();
            if !(is_left && (takes_more || turn.used > before)) {
                let deadline_ms = deadline_ms.min(self.deadline_ms());
                return ProtocolStep::Wait { hungry: self.hungry, deadline_ms };
            }
        }
    }
}

/// Appends a Close with this code and reason.
fn put_close(out: &mut Vec<u8>, code: u16, reason: &str) {
    let payload = [&code.to_be_bytes()[..], reason.as_bytes()].concat();
    put_frame(out, Opcode::Close, false, &payload);
}
