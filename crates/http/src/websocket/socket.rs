//! The handler's side of a WebSocket: an inbox of received messages, and an outbox of frames that
//! are not sent yet.
//!
//! [`State`] is shared with the connection's protocol (`talk.rs`), on the same thread. The
//! connection's waker polls the handler whenever anything has changed, so no wakers are stored
//! here.

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

/// Messages that may wait for the handler before no more are received from the client.
const INBOX_MESSAGES_MAX: usize = 16;
/// Bytes that may wait for the handler before no more are received from the client.
const INBOX_BYTES_MAX: usize = 64 * 1024;
/// Bytes that may wait in the outbox before [`WebSocket::send`] waits.
const AHEAD_BYTES: usize = 32 * 1024;
/// A longer message is sent without being copied into the outbox.
const COPY_BYTES_MAX: usize = 16 * 1024;

/// A WebSocket in its handler; see [`Router::websocket`](crate::Router::websocket). It belongs to
/// one connection and one thread. To send from other threads, [`join`](WebSocket::join) a
/// [`Broadcast`].
///
/// ```
/// use marmota_http::{Router, WebSocket};
/// use marmota_http::websocket::Close;
///
/// async fn upper_case(socket: &WebSocket) -> Result<(), marmota_http::BoxError> {
///     while let Some(message) = socket.receive().await {
///         match message.text() {
///             Some("quit") => socket.close(Close::NORMAL, "bye"),
///             Some(text) => socket.send(text.to_uppercase()).await?,
///             None => socket.close(Close::POLICY, "send text"),
///         }
///     }
///     println!("closed: {:?}", socket.closed());
///     Ok(())
/// }
///
/// let router = Router::new().websocket("/", |socket| async move { upper_case(&socket).await });
/// ```
pub struct WebSocket {
    pub(super) state: Rc<RefCell<State>>,
}

/// The state that handler and protocol share.
#[derive(Default)]
pub(super) struct State {
    inbox: VecDeque<Message>,
    inbox_bytes: usize,
    /// Complete frames, except for `large`.
    outbox: Vec<u8>,
    /// The payload of the outbox's last frame, if that is a large one.
    large: Option<Body>,
    /// The Close that the handler wants to send.
    pub(super) closing: Option<Close>,
    /// How the client has ended the connection, after the messages in the inbox.
    pub(super) last: Option<Close>,
    /// How the connection has ended.
    pub(super) closed: Option<Close>,
    /// The broadcasts that the socket has joined.
    pub(super) rooms: Vec<Membership>,
    /// The window of the compression that was agreed on.
    pub(super) window_bits: Option<u8>,
    /// The subprotocol that was selected.
    pub(super) subprotocol: Option<String>,
}

impl State {
    pub(super) fn new(window_bits: Option<u8>, subprotocol: Option<String>) -> Self {
        Self { window_bits, subprotocol, ..Self::default() }
    }

    /// Returns true if more messages may be received.
    pub(super) fn has_room(&self) -> bool {
        self.inbox.len() < INBOX_MESSAGES_MAX && self.inbox_bytes < INBOX_BYTES_MAX
    }

    /// Returns true if no message waits for the handler.
    pub(super) fn is_empty(&self) -> bool {
        self.inbox.is_empty()
    }

    /// Appends a received message to the inbox.
    pub(super) fn receive(&mut self, message: Message) {
        self.inbox_bytes += message.as_bytes().len();
        self.inbox.push_back(message);
    }

    /// Appends the outbox to `out`, and a large payload to `tail`. Returns true if there was
    /// anything.
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
        // Idle sockets hold no memory: there may be ten thousand of them.
        self.outbox = Vec::new();
        some
    }

    /// Encodes a message into the outbox, compressed if that was agreed on and makes it shorter.
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

    /// Puts a frame with this payload into the outbox.
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
    /// Returns the next message once it has arrived; `None` when no more come: the client has
    /// closed or gone, or the server shuts down ([`WebSocket::closed`] has the reason).
    ///
    /// Pings are answered, and silent clients are pinged, without the handler. While it does not
    /// receive, at most 16 messages or 64 KiB wait, and then the client is not read from.
    ///
    /// ```
    /// use marmota_http::{BoxError, WebSocket};
    ///
    /// /// Answers with the number of bytes received so far.
    /// async fn count(socket: WebSocket) -> Result<(), BoxError> {
    ///     let mut bytes = 0;
    ///     while let Some(message) = socket.receive().await {
    ///         bytes += message.as_bytes().len();
    ///         socket.send(bytes.to_string()).await?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
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

    /// Sends a message once there is room for it: if the client does not read, the handler waits
    /// here. Returning does not mean that the client has received it.
    ///
    /// ```
    /// use marmota_http::{BoxError, Message, WebSocket};
    ///
    /// async fn greet(socket: WebSocket) -> Result<(), BoxError> {
    ///     socket.send("a text").await?;
    ///     socket.send(Message::Binary(vec![0; 1024])).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Gone`] if the WebSocket has ended. A handler that returns it does not count as failed.
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

    /// Sends all messages of a broadcast from now on to this client too, without the handler; until
    /// the WebSocket ends, or [`WebSocket::leave`]. Joining twice has no effect.
    ///
    /// ```
    /// use marmota_http::{BoxError, Broadcast, WebSocket};
    ///
    /// /// The client only listens; its own messages are ignored.
    /// async fn news(socket: WebSocket, news: Broadcast) -> Result<(), BoxError> {
    ///     socket.join(&news);
    ///     while socket.receive().await.is_some() {}
    ///     Ok(())
    /// }
    /// ```
    pub fn join(&self, broadcast: &Broadcast) {
        let mut state = self.state.borrow_mut();
        if !state.rooms.iter().any(|room| room.is_of(broadcast)) {
            let inflates = state.window_bits.is_some();
            state.rooms.push(broadcast.enter(inflates));
        }
    }

    /// Leaves a broadcast that the socket has joined.
    ///
    /// ```
    /// use marmota_http::{BoxError, Broadcast, WebSocket};
    ///
    /// async fn switch(socket: WebSocket, from: Broadcast, to: Broadcast) -> Result<(), BoxError> {
    ///     socket.join(&from);
    ///     if socket.receive().await.is_some() {
    ///         socket.leave(&from);
    ///         socket.join(&to);
    ///     }
    ///     while socket.receive().await.is_some() {}
    ///     Ok(())
    /// }
    /// ```
    pub fn leave(&self, broadcast: &Broadcast) {
        self.state.borrow_mut().rooms.retain(|room| !room.is_of(broadcast));
    }

    /// Ends the WebSocket with a code ([`Close`] has the usual ones) and a reason of up to 123
    /// bytes; a longer reason is truncated. Messages that were sent before are delivered first. The
    /// first call counts.
    ///
    /// A handler that returns closes its socket with 1000, and with 1011 if it returns an error.
    ///
    /// ```
    /// use marmota_http::websocket::Close;
    /// use marmota_http::{BoxError, WebSocket};
    ///
    /// async fn log_in(socket: WebSocket) -> Result<(), BoxError> {
    ///     match socket.receive().await {
    ///         Some(message) if message.text() == Some("secret") => socket.send("welcome").await?,
    ///         _ => socket.close(Close::POLICY, "log in first"),
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn close(&self, code: u16, reason: &str) {
        let mut end = reason.len().min(123);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        let close = Close { code, reason: reason[..end].to_owned() };
        self.state.borrow_mut().closing.get_or_insert(close);
    }

    /// Returns how the WebSocket has ended; `None` while it is open or messages wait in the inbox.
    ///
    /// ```
    /// use marmota_http::websocket::Close;
    /// use marmota_http::{BoxError, WebSocket};
    ///
    /// async fn watch(socket: WebSocket) -> Result<(), BoxError> {
    ///     while socket.receive().await.is_some() {}
    ///     match socket.closed() {
    ///         Some(close) if close.code == Close::GOING_AWAY => println!("left the page"),
    ///         close => println!("ended: {close:?}"),
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn closed(&self) -> Option<Close> {
        self.state.borrow().closed.clone()
    }

    /// Returns the subprotocol that was selected from
    /// [`WebSocketOptions::subprotocols`](crate::WebSocketOptions::subprotocols); `None` if the
    /// client offers none of them.
    ///
    /// ```
    /// use marmota_http::{BoxError, WebSocket};
    ///
    /// async fn chat(socket: WebSocket) -> Result<(), BoxError> {
    ///     let is_new = socket.subprotocol().as_deref() == Some("chat.v2");
    ///     socket.send(if is_new { "{\"version\":2}" } else { "version 1" }).await?;
    ///     Ok(())
    /// }
    /// ```
    pub fn subprotocol(&self) -> Option<String> {
        self.state.borrow().subprotocol.clone()
    }
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket").field("closed", &self.closed()).finish_non_exhaustive()
    }
}
