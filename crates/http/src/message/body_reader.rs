//! Reading a request's body piece by piece.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::body::body_buffer::{BodyBuffer, BodyError};
use crate::body::producer::{BoxError, Producer};
use crate::message::request::Request;

impl Request {
    /// Returns a reader of the body: in pieces on a route with
    /// [`Endpoint::streamed`](crate::Endpoint::streamed), otherwise the whole body at once. Several
    /// readers of a request share its body, so each byte is read once.
    ///
    /// ```
    /// use marmota_http::{BodyError, Request, Router, TestRequest};
    /// async fn lines(request: Request) -> Result<String, BodyError> {
    ///     let mut text = Vec::new();
    ///     let mut reader = request.reader();
    ///     while reader.read(&mut text).await? > 0 {}
    ///     Ok(text.split(|&byte| byte == b'\n').count().to_string())
    /// }
    /// let router = Router::new().post("/lines", lines);
    /// assert_eq!(router.call(TestRequest::post("/lines").body("a\nb"))?.text(), "2");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn reader(&self) -> BodyReader {
        match &self.0.body_buffer {
            Some(body_buffer) => BodyReader::of_buffer(Rc::clone(body_buffer)),
            None => BodyReader::of_whole(self.clone()),
        }
    }
}

/// A reader of a request's body, piece by piece; see [`Request::reader`].
///
/// The handler reads it, or passes it on as the body of its answer: it is a [`Producer`]. With the
/// feature `stream` it is a `futures_core::Stream` too.
///
/// ```
/// use marmota_http::{BodyStream, Endpoint, Method, Request, Response, Router, TestRequest};
/// /// Sends the body back while it arrives.
/// async fn echo(request: Request) -> Response {
///     Response::streamed("application/octet-stream", BodyStream::new(request.reader()))
/// }
/// let endpoint = Endpoint::future(echo).streamed(1 << 30);
/// let router = Router::new().on(Method::Post, "/echo", endpoint);
/// assert_eq!(router.call(TestRequest::post("/echo").body("abc"))?.text(), "abc");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Debug)]
pub struct BodyReader(Source);

/// The source of the bytes.
#[derive(Debug)]
enum Source {
    /// A body that arrives while it is read.
    BodyBuffer(Rc<BodyBuffer>),
    /// A body that is complete, until it is read.
    Whole(Option<Request>),
}

impl BodyReader {
    /// Returns a reader of a body that arrives while it is read.
    pub(crate) fn of_buffer(body_buffer: Rc<BodyBuffer>) -> Self {
        Self(Source::BodyBuffer(body_buffer))
    }

    /// Returns a reader of a request's complete body.
    pub(crate) fn of_whole(request: Request) -> Self {
        Self(Source::Whole(Some(request)))
    }

    /// Waits for bytes, appends those that have arrived to `out`, and returns their number; 0 at
    /// the end of the body. Clear `out` between calls to keep memory small.
    ///
    /// ```
    /// use marmota_http::{BodyError, Request};
    /// async fn first_bytes(request: Request) -> Result<String, BodyError> {
    ///     let mut bytes = Vec::new();
    ///     let count = request.reader().read(&mut bytes).await?;
    ///     Ok(format!("{count} bytes have arrived"))
    /// }
    /// # marmota_http::Router::new().post("/", first_bytes);
    /// ```
    ///
    /// # Errors
    /// [`BodyError`], and again in each later call.
    pub async fn read(&mut self, out: &mut Vec<u8>) -> Result<usize, BodyError> {
        std::future::poll_fn(|context| self.poll_read(context, out)).await
    }

    /// Reads like [`BodyReader::read`], for futures and producers that are written by hand.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use std::task::{Context, Poll};
    /// use marmota_http::{BodyReader, BoxError, Producer};
    ///
    /// /// Adds a line after a body.
    /// struct Signed(BodyReader, bool);
    ///
    /// impl Producer for Signed {
    ///     fn poll_piece(
    ///         &mut self,
    ///         context: &mut Context<'_>,
    ///         out: &mut Vec<u8>,
    ///     ) -> Poll<Result<ControlFlow<()>, BoxError>> {
    ///         self.0.poll_read(context, out).map(|read| match read? {
    ///             0 => {
    ///                 out.extend_from_slice(b"\nsigned");
    ///                 Ok(ControlFlow::Break(()))
    ///             }
    ///             _ => Ok(ControlFlow::Continue(())),
    ///         })
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`BodyReader::read`].
    pub fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<usize, BodyError>> {
        match &mut self.0 {
            Source::BodyBuffer(body_buffer) => body_buffer.poll(context, out),
            Source::Whole(request) => Poll::Ready(Ok(request.take().map_or(0, |request| {
                out.extend_from_slice(request.body());
                request.body().len()
            }))),
        }
    }
}

impl Producer for BodyReader {
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<ControlFlow<()>, BoxError>> {
        self.poll_read(context, out).map(|read| match read? {
            0 => Ok(ControlFlow::Break(())),
            _ => Ok(ControlFlow::Continue(())),
        })
    }
}

#[cfg(feature = "stream")]
impl futures_core::Stream for BodyReader {
    type Item = Result<Vec<u8>, BodyError>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Self::Item>> {
        let mut piece = Vec::new();
        self.poll_read(context, &mut piece).map(|read| match read {
            Ok(0) => None,
            Ok(_) => Some(Ok(piece)),
            Err(error) => Some(Err(error)),
        })
    }
}
