//! The handler's side of a WebSocket: what it has received and not taken yet, and what it has
//! said that is not on its way yet. All on the connection's own thread, whose one waker has the
//! handler polled whenever anything has changed.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::task::Poll;

use super::broadcast::{Broadcast, Membership};
#[cfg(feature = "compression")]
use super::deflate;
use super::frame::{Opcode, put_frame, put_header};
use super::message::{Close, Message};
use crate::body::Body;
use crate::body::body_sender::Gone;

/// Messages and bytes that wait for the handler before the client is held back.
const INBOX_MESSAGES_MAX: usize = 16;
const INBOX_BYTES_MAX: usize = 64 * 1024;
/// Bytes that the handler may be ahead of the client.
const AHEAD_BYTES: usize = 32 * 1024;
/// A longer message is sent from where it lies.
const COPY_BYTES_MAX: usize = 16 * 1024;

/// A WebSocket, as its handler has it. It is of one connection and one thread; to say something
/// from elsewhere, [`join`](WebSocket::join) a [`Broadcast`].
pub struct WebSocket {
    pub(super) state: Rc<RefCell<State>>,
}

#[derive(Default)]
pub(super) struct State {
    inbox: VecDeque<Message>,
    inbox_bytes: usize,
    /// Frames, whole.
    outbox: Vec<u8>,
    /// The payload of the outbox' last frame, where that is a large one.
    large: Option<Body>,
    /// What the Close that the handler wants says.
    pub(super) closing: Option<Close>,
    /// How the client has ended it, behind the messages that wait.
    pub(super) last: Option<Close>,
    /// How it has ended.
    pub(super) closed: Option<Close>,
    pub(super) rooms: Vec<Membership>,
    /// What was agreed on for compression.
    pub(super) window_bits: Option<u8>,
    pub(super) subprotocol: Option<String>,
}

impl State {
    pub(super) fn new(window_bits: Option<u8>, subprotocol: Option<String>) -> Self {
        Self { window_bits, subprotocol, ..Self::default() }
    }

    pub(super) fn has_room(&self) -> bool {
        self.inbox.len() < INBOX_MESSAGES_MAX && self.inbox_bytes < INBOX_BYTES_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.inbox.is_empty()
    }

    pub(super) fn receive(&mut self, message: Message) {
        self.inbox_bytes += message.as_bytes().len();
        self.inbox.push_back(message);
    }

    /// Moves what the handler has said behind what is to be sent. True if there was anything.
    pub(super) fn move_to(&mut self, out: &mut Vec<u8>, tail: &mut Option<(Body, usize)>) -> bool {
        let some = !self.outbox.is_empty();
        if some && out.is_empty() {
            std::mem::swap(out, &mut self.outbox);
        } else {
            out.append(&mut self.outbox);
        }
        if let Some(large) = self.large.take() {
            *tail = Some((large, 0));
        }
        // What lies here while a socket is idle, lies here ten thousand times.
        self.outbox = Vec::new();
        some
    }

    fn put(&mut self, message: Message) {
        let opcode = match message {
            Message::Text(_) => Opcode::Text,
            Message::Binary(_) => Opcode::Binary,
        };
        #[cfg(feature = "compression")]
        if let Some(bits) = self.window_bits
            && let Some(coded) = deflate::deflate(message.as_bytes(), bits)
        {
            return self.put_payload(opcode, true, coded);
        }
        self.put_payload(opcode, false, message.into_bytes());
    }

    fn put_payload(&mut self, opcode: Opcode, compressed: bool, payload: Vec<u8>) {
        if payload.len() < COPY_BYTES_MAX {
            put_frame(&mut self.outbox, opcode, compressed, &payload);
        } else {
            put_header(&mut self.outbox, opcode, compressed, payload.len());
            self.large = Some(payload.into());
        }
    }
}

impl WebSocket {
    /// The next message, once it has come; `None` when no more come: the client has closed or
    /// gone, or the server is going down ([`WebSocket::closed`] says which). Pings are answered,
    /// and a client that is silent is asked whether it is there, without the handler.
    pub async fn receive(&self) -> Option<Message> {
        std::future::poll_fn(|_| {
            let mut state = self.state.borrow_mut();
            match state.inbox.pop_front() {
                Some(message) => {
                    state.inbox_bytes -= message.as_bytes().len();
                    Poll::Ready(Some(message))
                }
                None if state.last.is_some() => {
                    state.closed = state.last.take();
                    Poll::Ready(None)
                }
                None if state.closed.is_some() || state.closing.is_some() => Poll::Ready(None),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Says something, once there is room for it: a client that does not take what was said
    /// before holds the handler here.
    ///
    /// # Errors
    /// [`Gone`] when the WebSocket has ended.
    pub async fn send(&self, message: impl Into<Message>) -> Result<(), Gone> {
        std::future::poll_fn(|_| {
            let state = self.state.borrow();
            match state.outbox.len() < AHEAD_BYTES && state.large.is_none() {
                _ if state.closed.is_some() || state.closing.is_some() => Poll::Ready(Err(Gone)),
                true => Poll::Ready(Ok(())),
                false => Poll::Pending,
            }
        })
        .await?;
        self.state.borrow_mut().put(message.into());
        Ok(())
    }

    /// Has all that is said there from now on sent to this client too, beside the handler; for as
    /// long as the WebSocket lasts, or until [`WebSocket::leave`].
    pub fn join(&self, broadcast: &Broadcast) {
        let mut state = self.state.borrow_mut();
        if !state.rooms.iter().any(|room| room.is_of(broadcast)) {
            let inflates = state.window_bits.is_some();
            state.rooms.push(broadcast.enter(inflates));
        }
    }

    /// Ends what [`WebSocket::join`] began.
    pub fn leave(&self, broadcast: &Broadcast) {
        self.state.borrow_mut().rooms.retain(|room| !room.is_of(broadcast));
    }

    /// Ends the WebSocket with a code ([`Close`] names the usual ones) and a reason of up to 123
    /// bytes; what was said before is sent first. A handler that returns has it closed with 1000,
    /// and with 1011 if it returns an error.
    pub fn close(&self, code: u16, reason: &str) {
        let mut end = reason.len().min(123);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        let close = Close { code, reason: reason[..end].to_owned() };
        self.state.borrow_mut().closing.get_or_insert(close);
    }

    /// Why no more comes, once that is so.
    pub fn closed(&self) -> Option<Close> {
        self.state.borrow().closed.clone()
    }

    /// The subprotocol that was agreed on.
    pub fn subprotocol(&self) -> Option<String> {
        self.state.borrow().subprotocol.clone()
    }
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket").field("closed", &self.closed()).finish_non_exhaustive()
    }
}
