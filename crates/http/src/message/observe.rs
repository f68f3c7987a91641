//! The interface between a server thread and an observer of its events (metrics, the access log).
//! [`crate::middleware`] implements it; a server without an observer has no cost by it.

use crate::message::request::Request;
use crate::socket::address::Peer;

/// An event of a connection, for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEvent {
    /// A connection was accepted.
    Opened,
    /// A connection was closed, for any reason.
    Closed,
    /// A connection was refused, because there are too many.
    Refused,
    /// An idle connection was closed to make room.
    Shed,
    /// A connection was closed because it sent too many control frames.
    #[cfg(feature = "http2")]
    Flooding,
    /// A connection was closed in the middle of a response.
    CutOff,
    /// The handshake of TLS, or the header of a proxy, has failed.
    HandshakeFailed,
    /// The socket of a connection has failed.
    SocketFailed,
}

/// The observer of one server thread. Its methods run on that thread, in the path of requests, so
/// they only count and collect.
pub(crate) trait Observe {
    /// Returns microseconds on a clock that never goes back.
    fn now_us(&self) -> u64;

    /// Records an event of a connection.
    fn note(&self, seen: ConnectionEvent);

    /// Records bytes that came from a socket.
    fn note_received(&self, bytes: usize);

    /// Records bytes that went to a socket.
    fn note_sent(&self, bytes: usize);

    /// Records a response: its head with the part of the body that follows it in `answer`, and the
    /// number of bytes of the body that are sent separately (`rest`), as far as it is known.
    /// `request` is `None` if its head was not understood.
    fn note_written(&mut self, request: Option<&Request>, peer: Peer, answer: &[u8], rest: u64);

    /// Passes on what was collected, once per turn.
    fn flush(&mut self);
}
