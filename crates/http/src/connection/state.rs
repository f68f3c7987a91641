//! The fields of a connection, and its phases. A request passes through [`Phase::Head`], `Body` if
//! it has one, `Waiting` if its handler waits, and `Streaming` if its answer does; then `Head`
//! follows, or `Closing` and `Lingering`.

use std::rc::Rc;
use std::sync::Arc;

use rustix::fd::OwnedFd;

use crate::body::Body;
use crate::connection::streamed_body::StreamedBody;
use crate::connection::takeover::Takeover;
use crate::connection::upload::Upload;
use crate::message::request::{Exchange, Request};
use crate::message::response::LaterResponse;
use crate::proto::chunked::Chunked;
use crate::proto::paths::Found;
use crate::reactor::event::Token;
use crate::reactor::task::Task;
use crate::routing::admission::LaterAdmission;
use crate::routing::router::Routes;
use crate::socket::address::Peer;
use crate::socket::socket_codec::{SocketCodec, TlsInfo};

/// Space for a read: two pipelined batches of usual requests.
pub(super) const READ_BYTES: usize = 16 * 1024;
/// A buffer with less space than this grows before it is read into.
const READ_BYTES_MIN: usize = 2 * 1024;

/// Whether a connection continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Keep,
    Drop,
}

/// The phase of a connection.
pub(super) enum Phase {
    /// Between requests or inside a head.
    Head,
    /// The head is parsed, and the early decision on it is pending.
    Admitting { decision: LaterAdmission, task: Task },
    /// Inside a body.
    Body(BodyProgress),
    /// The handler's answer is pending.
    Waiting { answer: LaterResponse, task: Task, deadline_ms: u64 },
    /// The answer's body is produced as fast as the client takes it.
    Streaming(Box<StreamedBody>),
    /// Another protocol has the connection.
    Taken(Box<Takeover>),
    /// The last answer is written: send it, then close. If input may be unread, linger for up to
    /// this many bytes.
    Closing { linger_bytes: usize },
    /// The write side is shut down; discard up to this many bytes of input.
    Lingering { left: usize },
}

/// The progress of a body that is gathered: where it ends in the buffer, or its decoder.
pub(super) enum BodyProgress {
    Exact { end: usize },
    Chunked(Chunked),
}

/// The purpose of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timing {
    None,
    /// Requests cannot arrive yet.
    Opening,
    Idle,
    Head,
    Body,
    Write,
    /// The client has closed its side, and its streamed answer stalls.
    Quiet,
    /// The streamed answer stalls: send a heartbeat.
    Heartbeat,
    /// The deadline that another protocol has set.
    Protocol,
    /// The time limit of the handler.
    Handler,
    Linger,
}

/// The result of answering the buffered requests.
pub(super) enum Served {
    /// All input is used up.
    Hungry,
    /// Answers wait to be sent, a handler runs, or the connection ends.
    Stop,
    /// The next request waits until the routes are replaced.
    HeldBack,
}

/// The reader and writer of a connection's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intake {
    /// The connection, when epoll reports that it is ready.
    Own,
    /// The ring, which delivers bytes as they arrive.
    Flowing,
    /// The ring, which is requested to stop for now.
    Stopping,
    /// The ring, which delivers nothing until it is resumed.
    Stopped,
}

/// A connection's request to the ring.
#[derive(Debug)]
pub(crate) enum RingRequest {
    /// Send these bytes from this offset on.
    Send(Vec<u8>, usize),
    /// Report when the socket accepts bytes.
    Room,
    /// Receive no more bytes for now.
    Stop,
    /// Receive bytes again.
    Resume,
}

/// The state of the output that the ring sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    Nothing,
    /// The output is ready for the ring.
    Ready,
    /// The ring sends the output, with the operation of this number.
    Sending(u32),
    /// The socket has no room for a tail; the ring does not wait for it yet.
    Full,
    /// The ring waits for room for a tail.
    Awaiting,
}

/// A connection of HTTP/1.1, or of the protocol that has taken it over. It belongs to one thread.
pub(crate) struct Connection {
    pub(super) socket: OwnedFd,
    /// The routes in which the latest request was found.
    pub(super) routes: Arc<Routes>,
    /// The client's address: of the socket, or by a PROXY header.
    pub(super) peer: Peer,
    /// The link between the socket and the buffers, if any.
    pub(super) link: Option<Box<SocketCodec>>,
    /// The properties of the TLS session, once the handshake is complete.
    pub(super) secured: Option<Rc<TlsInfo>>,
    /// The connection's name in events and wake-ups.
    pub(super) token: Token,
    pub(super) phase: Phase,
    /// The current request with the read buffer; `None` while the connection is idle.
    pub(super) request: Option<Request>,
    /// What answers the current request: an endpoint, or the reason why there is no endpoint.
    pub(super) found: Found,
    /// The start of the next request in the buffer, once the body of this one is complete.
    pub(super) next_at: usize,
    /// Answers, or other output, of which `sent` bytes are sent.
    pub(super) output: Vec<u8>,
    /// Bytes of the output that are sent.
    pub(super) sent: usize,
    /// A large body that follows the output, and how much of it is sent.
    pub(super) tail: Option<(Body, usize)>,
    /// The request's body that the handler reads as it arrives.
    pub(super) upload: Option<Box<Upload>>,
    /// epoll has reported bytes that are not read yet.
    pub(super) readable: bool,
    /// Who reads the socket, and whether the ring receives.
    pub(super) intake: Intake,
    /// Whether the ring sends.
    pub(super) outgoing: Outgoing,
    /// Bytes of output that the ring holds.
    pub(super) handed_bytes: usize,
    /// All received bytes are used up: more can be taken.
    pub(super) hungry: bool,
    /// The client has shut down its side: a read of zero bytes follows.
    pub(super) half_closed: bool,
    /// The client sends no more bytes.
    pub(super) ended: bool,
    /// Requests so far, for
    /// [`Limits::requests_per_connection_max`](crate::Limits::requests_per_connection_max).
    pub(super) requests: u32,
    /// What the deadline is for.
    pub(super) timing: Timing,
    /// When the connection has to be acted on, in ms on the thread's clock; checked by sweeps, so
    /// up to a second late.
    pub(super) deadline_ms: u64,
    /// Bytes of the gathered body when its deadline was last extended.
    pub(super) body_received: usize,
    /// A request's head is parsed, and the request is not answered yet.
    pub(super) is_known: bool,
}

/// Returns the exchange for writing. If a handler has kept its request, the handler keeps the
/// buffer and the connection continues with a copy.
#[inline]
pub(super) fn own(request: &mut Request) -> &mut Exchange {
    Rc::make_mut(&mut request.0)
}

/// Grows a buffer for reading, by doubling. An announced length is not reserved at once: the buffer
/// grows as bytes arrive.
pub(super) fn make_room(buffer: &mut Vec<u8>, wanted: usize) {
    if buffer.capacity() - buffer.len() < wanted.clamp(1, READ_BYTES_MIN) {
        buffer.reserve(buffer.len().clamp(READ_BYTES, wanted.max(READ_BYTES)));
    }
}
