//! Bodies that are produced piece by piece as the client takes them, and their producers.
//!
//! A connection polls the producer of an answer when its earlier output is sent, so what a slow
//! client does not read is not produced. Nothing here owns a socket or requires tokio; how the end
//! of a body is shown to the client (chunks, a length) is decided in [`crate::message::writer`].

use crate::reactor::log_limit::LogLimit;
use crate::socket::address::Peer;
use std::error::Error;
use std::fmt;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

/// The polls of a producer before other connections get their turn.
const POLLS_MAX: usize = 64;

/// Any error that ends a streamed body early. Texts are errors too, by `into()`.
///
/// ```
/// use marmota_http::BoxError;
/// let error: BoxError = "the disk is not readable".into();
/// assert_eq!(error.to_string(), "the disk is not readable");
/// ```
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A producer of a body, piece by piece. It is polled on the connection's own thread, and only when
/// its earlier output is sent, so what a slow client does not read is not produced. It is dropped
/// as soon as the client has disconnected.
///
/// A function `FnMut(&mut Vec<u8>) -> Result<ControlFlow<()>, BoxError>` is a producer that never
/// waits:
/// ```
/// use std::ops::ControlFlow;
/// use marmota_http::{BodyStream, Response};
/// let mut number = 0;
/// let numbers = BodyStream::new(move |out: &mut Vec<u8>| {
///     number += 1;
///     out.extend_from_slice(format!("{number}\n").as_bytes());
///     Ok(if number < 1_000_000 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
/// });
/// let answer = Response::streamed("text/plain", numbers);
/// ```
///
/// A producer that waits passes the context to its source, or keeps its waker:
/// ```
/// use std::ops::ControlFlow;
/// use std::task::{Context, Poll};
/// use marmota_http::{
///     BodyReader, BodyStream, BoxError, Endpoint, Method, Producer, Request, Response, Router,
///     TestRequest,
/// };
///
/// /// The request's body in upper case, while it arrives.
/// struct Upper(BodyReader);
///
/// impl Producer for Upper {
///     fn poll_piece(
///         &mut self,
///         context: &mut Context<'_>,
///         out: &mut Vec<u8>,
///     ) -> Poll<Result<ControlFlow<()>, BoxError>> {
///         let start = out.len();
///         self.0.poll_read(context, out).map(|read| match read? {
///             0 => Ok(ControlFlow::Break(())),
///             _ => {
///                 out[start..].make_ascii_uppercase();
///                 Ok(ControlFlow::Continue(()))
///             }
///         })
///     }
/// }
///
/// async fn upper(request: Request) -> Response {
///     Response::streamed("text/plain", BodyStream::new(Upper(request.reader())))
/// }
/// let endpoint = Endpoint::future(upper).streamed(1 << 30);
/// let router = Router::new().on(Method::Post, "/upper", endpoint);
/// assert_eq!(router.call(TestRequest::post("/upper").body("abc"))?.text(), "ABC");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
pub trait Producer: 'static {
    /// Appends the next piece to `out`, **append only**: it may contain earlier ones. `Continue`
    /// means that more may follow, `Break` that this was the last. About 16 KiB is a good size for
    /// a piece. Bytes appended before `Pending` are sent too.
    ///
    /// # Errors
    /// The body cannot be completed. The connection is closed in a way that shows the client that
    /// the body is incomplete, and the error is logged.
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<ControlFlow<()>, BoxError>>;
}

impl<F> Producer for F
where
    F: FnMut(&mut Vec<u8>) -> Result<ControlFlow<()>, BoxError> + 'static,
{
    fn poll_piece(
        &mut self,
        _: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<ControlFlow<()>, BoxError>> {
        Poll::Ready(self(out))
    }
}

/// A body that is produced while it is sent: by a [`Producer`], a
/// [`BodySender`](crate::BodySender), an asynchronous function ([`BodyStream::write`]) or a stream
/// of the ecosystem.
///
/// If its length is not set by [`BodyStream::with_length`], it is sent in chunks (RFC 9112, 7.1),
/// and to clients of HTTP/1.0 until the connection closes.
///
/// ```
/// use std::ops::ControlFlow;
/// use marmota_http::{BodyStream, Request, Response, Router, TestRequest};
/// async fn zeros(_: Request) -> Response {
///     let mut left = 3;
///     let body = BodyStream::new(move |out: &mut Vec<u8>| {
///         out.extend_from_slice(&[b'0'; 4]);
///         left -= 1;
///         Ok(if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
///     });
///     Response::streamed("text/plain", body)
/// }
/// let router = Router::new().get("/zeros", zeros);
/// assert_eq!(router.call(TestRequest::get("/zeros"))?.text(), "000000000000");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
pub struct BodyStream {
    /// The source of the bytes.
    producer: Box<dyn Producer>,
    /// The length, if it is known before.
    length: Option<u64>,
    /// The bytes for times of silence.
    heartbeat: Option<Heartbeat>,
    /// Bytes of memory that the producer holds until it has ended.
    held_bytes: usize,
}

/// The bytes that are sent when a body has stalled for this time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heartbeat {
    /// The time without any bytes, in milliseconds.
    pub(crate) after_ms: u64,
    /// The bytes.
    pub(crate) bytes: &'static [u8],
}

/// The result of polling a producer.
pub(crate) enum Progress {
    /// More may follow at once.
    More,
    /// It waits, and wakes the task that polled it.
    Stalled,
    /// The body is complete.
    Ended,
    /// The body cannot be completed.
    Failed(BoxError),
}

impl BodyStream {
    /// Returns the body of a producer.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use marmota_http::BodyStream;
    /// let body = BodyStream::new(|out: &mut Vec<u8>| {
    ///     out.extend_from_slice(b"all at once");
    ///     Ok(ControlFlow::Break(()))
    /// });
    /// assert_eq!(body.length(), None);
    /// ```
    pub fn new(producer: impl Producer) -> Self {
        Self { producer: Box::new(producer), length: None, heartbeat: None, held_bytes: 0 }
    }

    /// Counts bytes that the producer holds as unread by the client.
    #[cfg(feature = "compression")]
    pub(crate) fn holding(mut self, bytes: usize) -> Self {
        self.held_bytes = bytes;
        self
    }

    /// Returns the bytes of memory that the producer holds until it has ended.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Sets the length, for `Content-Length`. If the producer makes more or fewer bytes, the
    /// connection is closed, as after an error. Default: no length, and chunks.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use marmota_http::BodyStream;
    /// let body = BodyStream::new(|out: &mut Vec<u8>| {
    ///     out.extend_from_slice(b"four");
    ///     Ok(ControlFlow::Break(()))
    /// });
    /// assert_eq!(body.with_length(4).length(), Some(4));
    /// ```
    #[must_use]
    pub fn with_length(mut self, bytes: u64) -> Self {
        self.length = Some(bytes);
        self
    }

    /// Sends bytes that mean nothing to the client whenever nothing else was sent for `after_ms`,
    /// plus or minus the interval of the server's sweep (at most a second). Then proxies leave the
    /// connection open, and a client that has disconnected is detected. Only for bodies without a
    /// set length, between whose pieces such bytes are allowed. Default: none.
    ///
    /// ```
    /// use marmota_http::{BodyStream, Response};
    /// // A blank line between lines of NDJSON means nothing.
    /// let (sender, body) = BodyStream::channel(64 * 1024);
    /// let body = body.with_heartbeat(15_000, b"\n");
    /// let answer = Response::streamed("application/x-ndjson", body);
    /// # drop(sender);
    /// ```
    #[must_use]
    pub fn with_heartbeat(mut self, after_ms: u64, bytes: &'static [u8]) -> Self {
        self.heartbeat = Some(Heartbeat { after_ms, bytes });
        self
    }

    /// Returns the heartbeat of a body without a set length.
    pub(crate) fn heartbeat(&self) -> Option<Heartbeat> {
        self.heartbeat.filter(|_| self.length.is_none())
    }

    /// Returns the length, if it was set by [`BodyStream::with_length`].
    ///
    /// ```
    /// use marmota_http::BodyStream;
    /// let (_sender, body) = BodyStream::channel(1024);
    /// assert_eq!(body.length(), None);
    /// ```
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Polls the producer once.
    #[cfg(feature = "compression")]
    pub(crate) fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<ControlFlow<()>, BoxError>> {
        self.producer.poll_piece(context, out)
    }

    /// Polls the producer until it has appended `bytes` to `out`, or has to wait.
    pub(crate) fn poll_ahead(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
        bytes: usize,
    ) -> Progress {
        let start = out.len();
        for _ in 0..POLLS_MAX {
            // A producer that has panicked is not polled again.
            let polled = catch_unwind(AssertUnwindSafe(|| self.producer.poll_piece(context, out)));
            match polled.unwrap_or_else(|_| Poll::Ready(Err("the producer panicked".into()))) {
                Poll::Ready(Err(error)) => return Progress::Failed(error),
                _ if out.len() < start => {
                    return Progress::Failed(
                        "the writer removed bytes that it had not written".into(),
                    );
                }
                Poll::Pending => return Progress::Stalled,
                Poll::Ready(Ok(ControlFlow::Continue(()))) => {}
                Poll::Ready(Ok(ControlFlow::Break(()))) => return Progress::Ended,
            }
            if out.len() - start >= bytes {
                break;
            }
        }
        Progress::More
    }

    /// Returns a body of the items of a stream (`futures_core::Stream`), one after the other. An
    /// item that is an error cuts the body off and is logged.
    ///
    /// ```
    /// use marmota_http::{BodyReader, BodyStream, Request, Response};
    /// /// Sends the request's body back, while it arrives. `BodyReader` is a stream.
    /// async fn echo(request: Request) -> Response {
    ///     let stream: BodyReader = request.reader();
    ///     Response::streamed("application/octet-stream", BodyStream::from_stream(stream))
    /// }
    /// # marmota_http::Router::new().post("/", echo);
    /// ```
    #[cfg(feature = "stream")]
    pub fn from_stream<S, T, E>(stream: S) -> Self
    where
        S: futures_core::Stream<Item = Result<T, E>> + 'static,
        T: AsRef<[u8]>,
        E: Into<BoxError>,
    {
        Self::new(Items(Box::pin(stream)))
    }
}

impl fmt::Debug for BodyStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyStream").field("length", &self.length).finish_non_exhaustive()
    }
}

/// The producer of a stream's items.
#[cfg(feature = "stream")]
struct Items<S>(std::pin::Pin<Box<S>>);

#[cfg(feature = "stream")]
impl<S, T, E> Producer for Items<S>
where
    S: futures_core::Stream<Item = Result<T, E>> + 'static,
    T: AsRef<[u8]>,
    E: Into<BoxError>,
{
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<ControlFlow<()>, BoxError>> {
        self.0.as_mut().poll_next(context).map(|item| match item {
            None => Ok(ControlFlow::Break(())),
            Some(Ok(piece)) => {
                out.extend_from_slice(piece.as_ref());
                Ok(ControlFlow::Continue(()))
            }
            Some(Err(error)) => Err(error.into()),
        })
    }
}

/// Logs that the body of an answer has failed, at most once per second.
pub(crate) fn note_cut_off(peer: Peer, error: &BoxError) {
    static LIMIT: LogLimit = LogLimit::new();
    if let Some(left_out) = LIMIT.next() {
        log::warn!(
            "the answer to {peer} was cut off: {error} ({left_out} more since the last line)"
        );
    }
}
