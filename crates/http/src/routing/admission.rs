//! What a check of a request by its head alone decides, before any of its body is read.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::message::response::Response;

/// A decision on a request that comes later. It is polled on the connection's own thread only.
pub type LaterAdmission = Pin<Box<dyn Future<Output = Result<(), Response>>>>;

/// What [`crate::Endpoint::before_body`] decides on a request.
pub enum Admission {
    /// The body is read, then the handler runs.
    Granted,
    /// This is the answer; the body is not read.
    Refused(Response),
    /// The decision comes later; none of the body is read until then.
    Later(LaterAdmission),
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Granted => "Granted",
            Self::Refused(_) => "Refused",
            Self::Later(_) => "Later",
        })
    }
}
