//! The decision on a request by its head, before any of its body is read: the result of
//! [`crate::Endpoint::before_body`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::message::response::Response;

/// A decision that comes later: the future of a check that waits, for example for a database. It is
/// polled on the connection's own thread only.
///
/// ```
/// use marmota_http::{Admission, LaterAdmission, Request, Response, Status};
/// async fn is_known(_key: String) -> bool {
///     true
/// }
/// fn check(request: &Request) -> Admission {
///     let key = request.header_text("x-key").unwrap_or_default().to_owned();
///     let decision: LaterAdmission = Box::pin(async move {
///         match is_known(key).await {
///             true => Ok(()),
///             false => Err(Response::from_status(Status::UNAUTHORIZED)),
///         }
///     });
///     Admission::Later(decision)
/// }
/// # marmota_http::Endpoint::direct(|_, _| marmota_http::Flow::Done).before_body(check);
/// ```
pub type LaterAdmission = Pin<Box<dyn Future<Output = Result<(), Response>>>>;

/// The decision of [`Endpoint::before_body`](crate::Endpoint::before_body) on a request.
///
/// ```
/// use marmota_http::{Admission, Endpoint, Method, Request, Response, Router, Status, TestRequest};
/// fn small(request: &Request) -> Admission {
///     match request.header_text("content-length").and_then(|length| length.parse::<u64>().ok()) {
///         Some(0..1_000) => Admission::Granted,
///         _ => Admission::Refused(Response::from_status(Status::CONTENT_TOO_LARGE)),
///     }
/// }
/// async fn store(request: Request) -> String {
///     format!("{} bytes", request.body().len())
/// }
/// let endpoint = Endpoint::future(store).before_body(small);
/// let router = Router::new().on(Method::Put, "/store", endpoint);
/// assert_eq!(router.call(TestRequest::put("/store").body("abc"))?.text(), "3 bytes");
/// let refused = router.call(TestRequest::put("/store").body(vec![0; 1_000]))?;
/// assert_eq!(refused.status(), Status::CONTENT_TOO_LARGE);
/// # Ok::<(), marmota_http::CallError>(())
/// ```
pub enum Admission {
    /// The body is read, then the handler runs.
    Granted,
    /// The answer. The body is not read.
    Refused(Response),
    /// The decision comes later. None of the body is read until then.
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
