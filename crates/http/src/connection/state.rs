//! What a connection is made of, and the phases it passes through.

use std::rc::Rc;
use std::sync::Arc;

use rustix::fd::OwnedFd;

use crate::body::Body;
use crate::connection::outflow::Outflow;
use crate::connection::takeover::Takeover;
use crate::connection::upload::Upload;
use crate::message::request::{Exchange, Request};
use crate::message::response::LaterResponse;
use crate::proto::chunked::Chunked;
use crate::proto::paths::Found;
use crate::reactor::task::{Task, Token};
use crate::routing::admission::LaterAdmission;
use crate::routing::router::Routes;
use crate::socket::address::Peer;
use crate::socket::link::{Link, Secured};

/// Room for a read; two pipelined batches of usual requests.
pub(super) const READ_BYTES: usize = 16 * 1024;
/// With less room than this the buffer grows before it is read into.
const READ_BYTES_MIN: usize = 2 * 1024;

/// Whether a connection lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Keep,
    Drop,
}

pub(super) enum Phase {
    /// Between requests or inside a head.
    Head,
    /// The head is there, and what decides on it has not decided yet.
    Admitting { decision: LaterAdmission, task: Task },
    /// Inside a body.
    Body(BodyProgress),
    /// The handler's answer will come.
    Waiting { answer: LaterResponse, task: Task, deadline_ms: u64 },
    /// The answer's body is being made, as far as the client takes it.
    Streaming(Box<Outflow>),
    /// Another protocol has the connection.
    Taken(Box<Takeover>),
    /// The last answer is written: send it, then close; lingering for so many bytes when input may
    /// be unread.
    Closing { linger_bytes: usize },
    /// Our side is shut down; throw away so much of what still comes.
    Lingering { left: usize },
}

pub(super) enum BodyProgress {
    Exact { end: usize },
    Chunked(Chunked),
}

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timing {
    None,
    /// Requests cannot come yet.
    Opening,
    Idle,
    Head,
    Body,
    Write,
    /// The client has said that it sends no more, and its streamed answer stands still.
    Quiet,
    /// The streamed answer stands still: say something meanwhile.
    Heartbeat,
    /// What another protocol has said.
    Protocol,
    /// The handler has so long to answer.
    Handler,
    Linger,
}

/// What answering the buffered requests came to.
pub(super) enum Served {
    /// All that was there is used up.
    Hungry,
    /// Answers are waiting to be sent, or a handler or the end of the connection to be.
    Stop,
}

/// By whom a connection's bytes are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intake {
    /// By the connection, when it is told that it can (epoll).
    Own,
    /// By the ring: bytes come as they are there.
    Flowing,
    /// By the ring, which was asked to bring no more for now.
    Stopping,
    /// By the ring, which brings nothing unless it is asked.
    Stopped,
}

/// What a connection wants of the ring.
#[derive(Debug)]
pub(crate) enum Wish {
    /// These bytes sent, from here on.
    Send(Vec<u8>, usize),
    /// To hear when the socket takes bytes.
    Room,
    /// No more bytes for now.
    Stop,
    /// Bytes again.
    Resume,
}

/// What is on its way to the client by the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    Nothing,
    /// The output is to be handed over.
    Ready,
    /// The ring has the output, by the operation of this number.
    Sending(u32),
    /// Room for a tail is to be asked for.
    Full,
    /// Room for a tail was asked for.
    Awaiting,
}

pub(crate) struct Connection {
    pub(super) socket: OwnedFd,
    pub(super) routes: Arc<Routes>,
    pub(super) peer: Peer,
    /// What lies between the socket and the buffers.
    pub(super) link: Option<Box<Link>>,
    pub(super) secured: Option<Rc<Secured>>,
    pub(super) token: Token,
    pub(super) phase: Phase,
    pub(super) request: Option<Request>,
    pub(super) found: Found,
    /// Where the next request starts in the buffer, once this one's body is whole.
    pub(super) next_at: usize,
    pub(super) output: Vec<u8>,
    pub(super) sent: usize,
    /// A large body that follows the output, and how much of it is sent.
    pub(super) tail: Option<(Body, usize)>,
    /// The body that the handler takes as it comes.
    pub(super) upload: Option<Box<Upload>>,
    pub(super) readable: bool,
    pub(super) intake: Intake,
    pub(super) outgoing: Outgoing,
    /// Bytes of output that the ring has.
    pub(super) handed_bytes: usize,
    /// All that has come is used up: more can be taken.
    pub(super) hungry: bool,
    /// The client has shut down its side: a read of nothing follows.
    pub(super) half_closed: bool,
    pub(super) ended: bool,
    pub(super) requests: u32,
    pub(super) timing: Timing,
    pub(super) deadline_ms: u64,
    /// Bytes of the body that is gathered, when its deadline was last put off.
    pub(super) body_received: usize,
    /// There is a request whose head was understood, and which is not answered.
    pub(super) is_known: bool,
}

/// The exchange to write to. When a handler has kept its request, that one keeps the buffer
/// and the connection goes on with a copy.
#[inline]
pub(super) fn own(request: &mut Request) -> &mut Exchange {
    Rc::make_mut(&mut request.0)
}

/// Grows a buffer for reading, by doubling: what a client announces is not believed before it
/// comes.
pub(super) fn make_room(buffer: &mut Vec<u8>, wanted: usize) {
    if buffer.capacity() - buffer.len() < wanted.clamp(1, READ_BYTES_MIN) {
        buffer.reserve(buffer.len().clamp(READ_BYTES, wanted.max(READ_BYTES)));
    }
}
