//! How a server thread tells what it does to whoever observes it (metrics, the access log).

use crate::message::request::Request;
use crate::socket::address::Peer;

/// What happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEvent {
    Opened,
    Closed,
    /// Refused because there are too many.
    Refused,
    /// Closed while it was idle, to make room.
    Shed,
    /// Closed because it sent too many control frames.
    #[cfg(feature = "http2")]
    Flooding,
    /// Closed in the middle of a response.
    CutOff,
    HandshakeFailed,
    SocketFailed,
}

/// The observer of one server thread.
pub(crate) trait Observe {
    /// Microseconds on a clock that never goes back.
    fn now_us(&self) -> u64;

    fn note(&self, seen: ConnectionEvent);

    /// Notes bytes that came from a socket.
    fn note_received(&self, bytes: usize);

    /// Notes bytes that left for a socket.
    fn note_sent(&self, bytes: usize);

    /// Notes a response: its head with what of its body lies behind it, and how many bytes of the
    /// body are sent apart from that, as far as they are known.
    fn note_written(&mut self, request: Option<&Request>, peer: Peer, answer: &[u8], rest: u64);

    /// Hands over what is held back, once a turn.
    fn flush(&mut self);
}
