//! A stream of HTTP/2 whose answer has not begun, and the outcomes of its futures. The connection
//! moves a [`PendingStream`] into a future, and gets it back in the [`Outcome`].

use std::sync::Arc;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;

use super::upload::{CountGuard, Upload};
use crate::body::body_buffer::BodyError;
use crate::message::request::Request;
use crate::message::response::Response;
use crate::proto::paths::Found;
use crate::routing::router::Routes;

/// A stream whose answer has not begun.
pub(super) struct PendingStream {
    /// The sending half of the stream in `h2`.
    pub(super) respond: SendResponse<Bytes>,
    /// The parsed head, and the body if it is gathered.
    pub(super) request: Request,
    /// The body, if the handler reads it as it arrives.
    pub(super) upload: Option<Upload>,
    /// The client's data, if a WebSocket takes over the stream.
    pub(super) tunnel: Option<RecvStream>,
    /// The routes that the request was found in.
    pub(super) routes: Arc<Routes>,
    /// Counts the request as one in progress.
    pub(super) counted: Option<CountGuard>,
}

/// The result of a stream's future.
pub(super) enum Outcome {
    /// The body is complete.
    Whole(PendingStream, Found),
    /// The body may be received.
    Admitted(PendingStream, Found, RecvStream),
    /// The body cannot be received.
    Refused(PendingStream, BodyError),
    /// The answer is ready.
    Answer(PendingStream, Response),
    /// The handler has panicked.
    Panicked(PendingStream),
    /// The answer is sent, or cannot be sent.
    Done,
    /// The client has reset the stream.
    Reset,
    /// A stream of another protocol has ended; `was_reset` if it was reset before the client sent
    /// data.
    TunnelOver { was_reset: bool },
}
