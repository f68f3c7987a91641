//! The form of a response for its client ([`ReplyTo`]), and the part of it that is sent after the
//! bytes that were written ([`Tail`]).

use crate::body::Body;
use crate::body::producer::BodyStream;
use crate::message::protocol::UpgradedProtocol;
use crate::reactor::event::Token;

/// The `Connection` header of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// None: HTTP/1.1 keeps the connection without it.
    Implied,
    /// `keep-alive`, which a client of HTTP/1.0 needs.
    KeepAlive,
    /// `close`: the connection is closed after this answer.
    Close,
}

/// The client of a response, which decides its form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyTo {
    /// Whether the connection is kept.
    pub(crate) persistence: Persistence,
    /// The client wants only the head.
    pub(crate) head_only: bool,
    /// The client uses HTTP/1.0, which has no chunks.
    pub(crate) is_http10: bool,
    /// The connection to wake when a handler that waits can continue.
    pub(crate) token: Token,
}

/// The part of an answer that follows the written bytes.
pub(crate) enum Tail {
    /// A large body, sent from where it is.
    Body(Body),
    /// A body that is still to be produced. In a box, so that answers without one move fewer bytes.
    Stream(Box<(BodyStream, Framing)>),
    /// The protocol that continues on this connection.
    UpgradedProtocol(UpgradedProtocol),
}

impl Tail {
    /// Returns the length of the body in bytes; 0 if it is not known.
    pub(crate) fn body_bytes(&self) -> u64 {
        match self {
            Self::Body(body) => body.len() as u64,
            Self::Stream(stream) => stream.0.length().unwrap_or(0),
            Self::UpgradedProtocol(_) => 0,
        }
    }
}

/// The way in which the client detects the end of a streamed body (RFC 9112, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By the last chunk.
    Chunked,
    /// By `Content-Length`, of which this many bytes are left.
    Length(u64),
    /// By the end of the connection (HTTP/1.0).
    Close,
}
