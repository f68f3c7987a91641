//! A stream that another protocol has taken over (RFC 8441): a WebSocket uses two buffers, as on a
//! separate connection. END_STREAM is the end of what a side sends, and a reset of the stream is a
//! reset of that connection.
//!
//! Received bytes occupy the client's window until the protocol has used them. The protocol is
//! called for more only when all its output has found room in the other window.
//!
//! A protocol needs the thread's data, which only the connection has. So the future of a tunnel
//! does nothing itself: when it is woken, it queues the tunnel for a turn ([`represent`]).

use std::cell::RefCell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use h2::RecvStream;

use super::stream::Outcome;
use super::stream_sender::StreamSender;
use crate::body::Body;
use crate::message::protocol::{LINGER_BYTES_MAX, LINGER_MS, Protocol, ProtocolStep, Turn};
use crate::message::thread_locals::ThreadLocals;

/// Turns of a protocol before other streams get theirs.
const ROUNDS_MAX: usize = 16;

/// Tunnels that wait for a turn, each with the waker of the future that represents it. The
/// connection empties the list in each of its turns.
pub(super) type Turns = Rc<RefCell<Vec<(Rc<RefCell<Tunnel>>, Waker)>>>;

/// A stream with the protocol that has taken it over.
pub(super) struct Tunnel {
    /// `None` once it has ended.
    protocol: Option<Box<dyn Protocol>>,
    /// [`ThreadLocals::epoch`] at the takeover.
    epoch: u32,
    /// What the protocol has answered to the latest call.
    step: ProtocolStep,
    /// The receiving half of the stream in `h2`.
    body: RecvStream,
    /// Received bytes that are not used yet: at most the stream's window.
    input: Vec<u8>,
    /// The client sends no more bytes.
    ended: bool,
    sender: StreamSender,
    /// Output of the protocol, before `tail`.
    output: Vec<u8>,
    tail: Option<(Body, usize)>,
    /// The part of the output that is being sent.
    piece: Bytes,
    /// The client has sent bytes.
    received: bool,
    /// The connection has ended: output is discarded, and the protocol is only called so that its
    /// handler can end.
    lost: bool,
    /// The server has ended its side.
    end_sent: bool,
    /// Bytes that were discarded since then.
    discarded: usize,
    /// The outcome, until the future that represents the tunnel has returned it.
    over: Option<Outcome>,
}

/// Represents a tunnel among the streams' futures. When it is woken, the tunnel gets a turn from
/// the connection, which alone has what a protocol needs.
pub(super) async fn represent(tunnel: Rc<RefCell<Tunnel>>, turns: Turns) -> Outcome {
    poll_fn(|context| {
        if let Some(outcome) = tunnel.borrow_mut().over.take() {
            return Poll::Ready(outcome);
        }
        turns.borrow_mut().push((Rc::clone(&tunnel), context.waker().clone()));
        Poll::Pending
    })
    .await
}

impl Tunnel {
    /// Returns a tunnel before the first call of its protocol.
    pub(super) fn new(
        protocol: Box<dyn Protocol>,
        body: RecvStream,
        sender: StreamSender,
        epoch: u32,
    ) -> Self {
        Self {
            protocol: Some(protocol),
            epoch,
            step: ProtocolStep::More,
            body,
            input: Vec::new(),
            ended: false,
            sender,
            output: Vec::new(),
            tail: None,
            piece: Bytes::new(),
            received: false,
            lost: false,
            end_sent: false,
            discarded: 0,
            over: None,
        }
    }

    /// Does everything that can be done now, in up to [`ROUNDS_MAX`] rounds; then it yields to
    /// other streams.
    pub(super) fn advance(&mut self, waker: &Waker, local: &mut ThreadLocals) {
        if self.over.is_some() {
            return;
        }
        for _ in 0..ROUNDS_MAX {
            match self.round(&mut Context::from_waker(waker), local) {
                Poll::Pending => return,
                Poll::Ready(None) => {}
                Poll::Ready(Some(outcome)) => {
                    self.protocol = None;
                    self.over = Some(outcome);
                    break;
                }
            }
        }
        waker.wake_by_ref();
    }

    /// Sends the output, reads, and calls the protocol once. Returns `Pending` if it has to wait,
    /// and the outcome at the end.
    fn round(
        &mut self,
        context: &mut Context<'_>,
        local: &mut ThreadLocals,
    ) -> Poll<Option<Outcome>> {
        match self.sender.stream.poll_reset(context) {
            Poll::Ready(Ok(_)) => return self.end(!self.received),
            Poll::Ready(Err(_)) => self.lost = true,
            Poll::Pending => {}
        }
        while self.take_piece() {
            if ready!(self.sender.send(&mut self.piece, false, context)).is_some() {
                return self.end(false);
            }
        }
        if self.protocol.is_none() {
            return self.linger(context);
        }
        let was_hungry = !matches!(self.step, ProtocolStep::Wait { hungry: false, .. });
        if was_hungry {
            self.fill(context);
        }
        self.run_protocol(context, local);
        match self.step {
            ProtocolStep::Close { linger } => {
                self.protocol = None;
                self.ended |= !linger;
                Poll::Ready(None)
            }
            ProtocolStep::Wait { hungry, deadline_ms }
                if self.output.is_empty() && self.tail.is_none() && (was_hungry || !hungry) =>
            {
                if self.input.is_empty() {
                    // Idle sockets hold no memory.
                    self.input = Vec::new();
                }
                self.sender.clock.set(deadline_ms, context.waker());
                Poll::Pending
            }
            _ => Poll::Ready(None),
        }
    }

    /// Returns the outcome of the tunnel.
    fn end(&self, was_reset: bool) -> Poll<Option<Outcome>> {
        Poll::Ready(Some(Outcome::TunnelOver { was_reset }))
    }

    /// Prepares the next piece to send: output, then the large body after it. Returns false if
    /// nothing is left to send, or nothing reaches the client.
    fn take_piece(&mut self) -> bool {
        if self.lost {
            self.piece.clear();
            self.output.clear();
            self.tail = None;
            return false;
        }
        if self.piece.is_empty() && !self.output.is_empty() {
            self.piece = Bytes::from(std::mem::take(&mut self.output));
        }
        if self.piece.is_empty()
            && let Some((body, sent)) = self.tail.take()
        {
            self.piece = body.into_bytes();
            self.piece.advance(sent);
        }
        !self.piece.is_empty()
    }

    /// Takes the received bytes out of `h2`. They stay in the client's window until they are used.
    fn fill(&mut self, context: &mut Context<'_>) {
        while !self.ended {
            match self.body.poll_data(context) {
                Poll::Ready(Some(Ok(bytes))) => {
                    self.received = true;
                    self.input.extend_from_slice(&bytes);
                }
                Poll::Ready(Some(Err(_))) | Poll::Ready(None) => self.ended = true,
                Poll::Pending => return,
            }
        }
    }

    /// Calls the protocol with the received bytes. Those that it uses are released to the client's
    /// window. A panic ends the tunnel, and no other stream.
    fn run_protocol(&mut self, context: &Context<'_>, local: &mut ThreadLocals) {
        let Some(protocol) = &mut self.protocol else { return };
        self.sender.clock.stop();
        let mut turn = Turn {
            input: &self.input,
            used: 0,
            ended: self.ended,
            output: &mut self.output,
            tail: &mut self.tail,
            context: Context::from_waker(context.waker()),
            is_superseded: self.epoch != local.epoch,
            local,
        };
        let asked = catch_unwind(AssertUnwindSafe(|| protocol.advance(&mut turn)));
        let used = turn.used.min(self.input.len());
        self.input.drain(..used);
        self.release(used);
        self.step = asked.unwrap_or(ProtocolStep::Close { linger: false });
    }

    /// Gives the client's window back the bytes that were used.
    fn release(&mut self, bytes: usize) {
        if bytes > 0 {
            // Fails only if no more bytes arrive.
            let _ = self.body.flow_control().release_capacity(bytes);
        }
    }

    /// Ends our side, and discards input until the client ends its own, for a limited time.
    /// Otherwise the client might read the reset that ends the stream before the last output.
    fn linger(&mut self, context: &mut Context<'_>) -> Poll<Option<Outcome>> {
        if !std::mem::replace(&mut self.end_sent, true) {
            self.sender.clock.stop();
            // If the stream was reset in the meantime, nothing is left to do.
            let _ = self.sender.stream.send_data(Bytes::new(), true);
            self.release(self.input.len());
            self.input = Vec::new();
        }
        while !self.ended && !self.lost && self.discarded <= LINGER_BYTES_MAX {
            match self.body.poll_data(context) {
                Poll::Ready(Some(Ok(bytes))) => {
                    self.discarded += bytes.len();
                    self.release(bytes.len());
                }
                Poll::Ready(_) => break,
                Poll::Pending if self.sender.clock.is_over(LINGER_MS, context) => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        self.end(false)
    }
}
