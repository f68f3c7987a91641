//! The buffer in which a connection stores a request's body as it arrives, and from which the
//! handler reads it. Unread bytes hold the client back.

use std::cell::RefCell;
use std::fmt;
use std::task::{Context, Poll, Waker};

use crate::proto::chunked::ChunkedError;
use crate::proto::status::Status;

/// Bytes of a body that may wait for the handler before the client is held back.
pub(crate) const WINDOW_BYTES: usize = 64 * 1024;

/// The reason why a body is incomplete. It is an answer too; the connection is closed after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyError {
    /// It is longer than the route allows (413).
    TooLarge,
    /// It arrived too slowly for [`crate::Limits`] (408).
    TimedOut,
    /// The client ended the connection within the body (400).
    CutOff,
    /// Its coding is malformed in this way (400).
    Malformed(&'static str),
    /// The server holds as many bytes of bodies as [`crate::Limits::held_body_bytes_max`] allows
    /// (503).
    NoRoom,
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the body is too large",
            Self::TimedOut => "the request did not come in time",
            Self::CutOff => "the connection ended inside of the body",
            Self::Malformed(how) => how,
            Self::NoRoom => {
                "the server holds as many bytes of request bodies as it may; try again later"
            }
        })
    }
}

impl std::error::Error for BodyError {}

impl BodyError {
    /// Returns the status of the answer.
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

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    end: Option<Result<(), BodyError>>,
    /// The handler has requested bytes at least once.
    wanted: bool,
    /// Set if the handler waits for more.
    waker: Option<Waker>,
}

impl BodyBuffer {
    /// Appends bytes by `put`, which gets the number of bytes for which there is room, and returns
    /// true if the body ends with them.
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

    pub(crate) fn has_room(&self) -> bool {
        let state = self.0.borrow();
        state.end.is_none() && state.bytes.len() < WINDOW_BYTES
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.0.borrow().wanted
    }

    /// Returns true if the handler waits for bytes.
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.borrow().waker.is_some()
    }

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
