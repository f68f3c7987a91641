//! Errors of requests that are answered in process.
//!
//! These are errors of a test, not answers: a failure that a client would see as a status is a
//! [`TestResponse`](crate::TestResponse).

use std::fmt;
use std::io;

use crate::body::producer::BoxError;
use crate::routing::router::RouteError;

/// The reason why [`Router::call`](crate::Router::call) has no answer.
///
/// ```
/// use marmota_http::{CallError, Router, TestRequest};
///
/// let router = Router::new().get("/a/{b", |_| async { "the brace is not closed" });
/// assert!(matches!(router.call(TestRequest::get("/")), Err(CallError::Route(_))));
///
/// let split = TestRequest::get("/").header("X-Name", "a\r\nX-Other: b");
/// assert!(matches!(Router::new().call(split), Ok(_) | Err(CallError::Request(_))));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError {
    /// A route is not valid: a server with these routes would not start.
    Route(RouteError),
    /// The request is not valid HTTP; the text is the reason.
    Request(String),
    /// The streamed body of the answer has failed. A client would see a connection that closes
    /// before the end of the body.
    Body(BoxError),
    /// The system refused a descriptor or a thread.
    System(io::Error),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Route(error) => error.fmt(f),
            Self::Request(reason) => write!(f, "the request is not valid: {reason}"),
            Self::Body(error) => write!(f, "the body of the answer failed: {error}"),
            Self::System(error) => write!(
                f,
                "the system refused a file descriptor or thread: \
                                              {error}"
            ),
        }
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Route(error) => Some(error),
            Self::Request(_) => None,
            Self::Body(error) => Some(&**error),
            Self::System(error) => Some(error),
        }
    }
}

impl From<RouteError> for CallError {
    fn from(error: RouteError) -> Self {
        Self::Route(error)
    }
}

impl From<io::Error> for CallError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}
