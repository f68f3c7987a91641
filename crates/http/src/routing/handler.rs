//! The trait of handlers, and the two ways to write one. A direct handler writes its response into
//! the connection's buffer; an asynchronous one is a function from [`Request`] to a future of a
//! value that is a response ([`crate::Endpoint::future`]).

use std::ops::ControlFlow;

use crate::message::added_headers::AddedHeaders;
use crate::message::request::Request;
use crate::message::response::{LaterResponse, Response};
use crate::message::writer::ResponseWriter;

/// The way in which a handler gives its answer.
///
/// ```
/// use marmota_http::{Flow, Method, Response, Router, TestRequest};
/// let router = Router::new()
///     .direct(Method::Get, "/now", |_, out| {
///         out.send("text/plain", b"now");
///         Flow::Done
///     })
///     .direct(Method::Get, "/later", |request, _| {
///         let path = request.path().to_owned();
///         Flow::Later(Box::pin(async move { Response::text(path) }))
///     });
/// assert_eq!(router.call(TestRequest::get("/now"))?.text(), "now");
/// assert_eq!(router.call(TestRequest::get("/later"))?.text(), "/later");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
pub enum Flow {
    /// The answer is written.
    Done,
    /// The answer comes later. Anything written so far is discarded.
    Later(LaterResponse),
}

/// A handler of requests, which all threads of a server share. It is implemented for functions
/// `Fn(&Request, &mut ResponseWriter) -> Flow`; for asynchronous ones see
/// [`Endpoint::future`](crate::Endpoint::future).
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use marmota_http::{
///     Endpoint, Flow, Handler, Method, Request, ResponseWriter, Router, TestRequest,
/// };
///
/// /// Counts its requests.
/// #[derive(Default)]
/// struct Counter(AtomicU64);
///
/// impl Handler for Counter {
///     fn handle(&self, _: &Request, out: &mut ResponseWriter<'_>) -> Flow {
///         let count = self.0.fetch_add(1, Ordering::Relaxed) + 1;
///         out.send("text/plain", count.to_string().as_bytes());
///         Flow::Done
///     }
/// }
///
/// let router = Router::new().on(Method::Get, "/count", Endpoint::new(Counter::default()));
/// assert_eq!(router.call(TestRequest::get("/count"))?.text(), "1");
/// assert_eq!(router.call(TestRequest::get("/count"))?.text(), "2");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
pub trait Handler: Send + Sync + 'static {
    /// Answers the request. It runs on the connection's thread and must not block: other
    /// connections of the thread wait meanwhile.
    fn handle(&self, request: &Request, out: &mut ResponseWriter<'_>) -> Flow;

    /// Decides by the head of a request whose body is not read yet, before
    /// [`Endpoint::before_body`](crate::Endpoint::before_body) and `handle`: the part of layers.
    /// `Break` answers instead of the handler. Default: `Continue`.
    fn enter(&self, _: &Request, _: &mut AddedHeaders) -> ControlFlow<Response> {
        ControlFlow::Continue(())
    }
}

impl<F> Handler for F
where
    F: Fn(&Request, &mut ResponseWriter<'_>) -> Flow + Send + Sync + 'static,
{
    fn handle(&self, request: &Request, out: &mut ResponseWriter<'_>) -> Flow {
        self(request, out)
    }
}
