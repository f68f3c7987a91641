//! The buffer of a request's body between its connection and its handler, on routes with
//! [`crate::Endpoint::streamed`].
//!
//! The connection fills it as bytes arrive, and stops reading its socket when the buffer is full:
//! bytes that the handler does not read hold the client back. The handler reads it through a
//! [`crate::BodyReader`]. Both run on the same thread, so no lock is needed.

use std::cell::RefCell;
use std::fmt;
use std::task::{Context, Poll, Waker};

use crate::proto::chunked::ChunkedError;
use crate::proto::status::Status;

/// The bytes of a body that may wait for the handler before the client is held back.
pub(crate) const WINDOW_BYTES: usize = 64 * 1024;

/// The reason why a request's body is incomplete. As the answer of a handler it is a problem
/// document with the status in parentheses; the connection is closed after it.
///
/// ```
/// use marmota_http::{BodyError, Endpoint, Method, Request, Router, TestRequest};
///
/// async fn count(request: Request) -> Result<String, BodyError> {
///     let (mut reader, mut bytes) = (request.reader(), Vec::new());
///     while reader.read(&mut bytes).await? > 0 {}
///     Ok(bytes.len().to_string())
/// }
///
/// let endpoint = Endpoint::future(count).streamed(1_000);
/// let router = Router::new().on(Method::Post, "/count", endpoint);
/// let answer = router.call(TestRequest::post("/count").body(vec![0; 2_000]))?;
/// assert_eq!(answer.status(), BodyError::TooLarge.status());
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyError {
    /// The body is longer than the route allows (413).
    TooLarge,
    /// The body arrived too slowly for [`Limits`](crate::Limits) (408).
    TimedOut,
    /// The client ended the connection before the end of the body (400).
    CutOff,
    /// The coding of the body is malformed (400); the text states how.
    Malformed(&'static str),
    /// The server holds as many bytes of bodies as
    /// [`Limits::held_body_bytes_max`](crate::Limits::held_body_bytes_max) allows (503, with
    /// `Retry-After`).
    NoRoom,
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the body is too large",
            Self::TimedOut => "the request was not received in time",
            Self::CutOff => "the connection was closed before the end of the body",
            Self::Malformed(how) => how,
            Self::NoRoom => "the server's memory for request bodies is full; try again later",
        })
    }
}

impl std::error::Error for BodyError {}

impl BodyError {
    /// Returns the status of the answer.
    ///
    /// ```
    /// use marmota_http::{BodyError, Status};
    /// assert_eq!(BodyError::TimedOut.status(), Status::REQUEST_TIMEOUT);
    /// assert_eq!(BodyError::CutOff.status(), Status::BAD_REQUEST);
    /// ```
    pub fn status(self) -> Status {
        match self {
            Self::TooLarge => Status::CONTENT_TOO_LARGE,
            Self::TimedOut => Status::REQUEST_TIMEOUT,
            Self::CutOff | Self::Malformed(_) => Status::BAD_REQUEST,
            Self::NoRoom => Status::SERVICE_UNAVAILABLE,
        }
    }
}

impl From<ChunkedError> for BodyError {
    fn from(error: ChunkedError) -> Self {
        Self::Malformed(match error {
            ChunkedError::TooLarge => return Self::TooLarge,
            ChunkedError::Size => "a chunk size is malformed",
            ChunkedError::Line => "the chunked coding is malformed",
            ChunkedError::Overhead => "the trailers or chunk extensions are too large",
        })
    }
}

/// A buffer that a connection fills with a body and a handler reads.
#[derive(Debug, Default)]
pub(crate) struct BodyBuffer(RefCell<State>);

/// The bytes and the end of a body.
#[derive(Debug, Default)]
struct State {
    /// The bytes that the handler has not read.
    bytes: Vec<u8>,
    /// The end, after the bytes; `None` while more can arrive.
    end: Option<Result<(), BodyError>>,
    /// The handler has requested bytes at least once. Until then no `100 Continue` is sent.
    wanted: bool,
    /// The waker of a handler that waits for more.
    waker: Option<Waker>,
}

impl BodyBuffer {
    /// Appends bytes by `put`, which gets the buffer and the number of bytes for which there is
    /// room, and returns true if the body ends with them. Wakes the handler if anything has
    /// changed.
    pub(crate) fn fill(&self, put: impl FnOnce(&mut Vec<u8>, usize) -> Result<bool, BodyError>) {
        let mut state = self.0.borrow_mut();
        let before = state.bytes.len();
        let end = match put(&mut state.bytes, WINDOW_BYTES.saturating_sub(before)) {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        if end.is_none() && state.bytes.len() == before {
            return;
        }
        if state.end.is_none() {
            state.end = end;
        }
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ends the body early, unless it has ended already.
    pub(crate) fn fail(&self, error: BodyError) {
        self.fill(|_, _| Err(error));
    }

    /// Returns true if more bytes can arrive and be stored.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.0.borrow();
        state.end.is_none() && state.bytes.len() < WINDOW_BYTES
    }

    /// Returns true if the handler has requested bytes at least once.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.borrow().wanted
    }

    /// Returns true if the handler waits for bytes.
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.borrow().waker.is_some()
    }

    /// Appends all bytes that have arrived to `out` and returns their number; 0 at the end of the
    /// body. Waits if there are none. An empty `out` is exchanged with the buffer, so that nothing
    /// is copied.
    pub(crate) fn poll(
        &self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<usize, BodyError>> {
        let mut state = self.0.borrow_mut();
        state.wanted = true;
        let count = state.bytes.len();
        if count > 0 {
            if out.is_empty() {
                std::mem::swap(out, &mut state.bytes);
            } else {
                out.append(&mut state.bytes);
            }
            return Poll::Ready(Ok(count));
        }
        match state.end {
            Some(end) => Poll::Ready(end.map(|()| 0)),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
