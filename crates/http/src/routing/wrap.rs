//! Asynchronous functions that wrap handlers: [`Router::wrap`](crate::Router::wrap). Such a function
//! runs before and after its handler, whose answer it gets as a value.
//!
//! A handler writes into a buffer. For a wrapped one this is a buffer of the thread, from which the
//! answer is made; an asynchronous handler passes its answer as it is. So a route without such a
//! function has no cost by them.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use crate::message::added_headers::AddedHeaders;
use crate::message::request::Request;
use crate::message::response::{IntoResponse, LaterResponse, Response};
use crate::message::thread_locals::ThreadLocals;
use crate::message::writer::ResponseWriter;
use crate::message::writer::written::Written;
use crate::proto::status::Status;
use crate::reactor::event::Token;
use crate::routing::endpoint::{Endpoint, answer_by};
use crate::routing::handler::{Flow, Handler};
use crate::routing::router::Router;
#[cfg(feature = "extract")]
use crate::routing::state_router::StateRouter;

/// The rest of the way of a request: the handler, within the functions that wrap it further inside.
/// [`Router::wrap`] passes it.
pub struct Next {
    /// The handler, or the next function.
    inner: Arc<dyn Handler>,
    /// The state of the thread for it.
    local: Rc<RefCell<ThreadLocals>>,
    /// The number of the endpoint.
    endpoint: usize,
    /// The connection to wake.
    token: Token,
}

impl Next {
    /// Calls the handler, and returns its answer. A body that is produced while it is sent is
    /// produced after the wrapping functions have returned.
    ///
    /// If the future is dropped, the handler's is too. A panic of the handler is not caught here: the
    /// wrapping functions end, and the server answers 500.
    ///
    /// ```
    /// use marmota_http::{Next, Request, Response, Router, TestRequest};
    ///
    /// async fn twice(request: Request, next: Next) -> String {
    ///     let answer = next.run(request).await;
    ///     let text = String::from_utf8_lossy(answer.body().as_bytes());
    ///     format!("{text} {text}")
    /// }
    ///
    /// let router = Router::new().get("/", |_| async { "knock" }).wrap(twice);
    /// assert_eq!(router.call(TestRequest::get("/"))?.text(), "knock knock");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub async fn run(self, request: Request) -> Response {
        match self.call(&request) {
            Ok(answer) => answer,
            // Its first poll had no waker of this future, so it is polled again at once.
            Err(later) => later.await,
        }
    }

    /// Calls the handler. `Err` is an answer that comes later.
    fn call(&self, request: &Request) -> Result<Response, LaterResponse> {
        let Ok(mut local) = self.local.try_borrow_mut() else {
            // Only code that polls this future from within another handler of the thread gets here.
            log::error!("a wrapped handler was called from within another handler");
            return Ok(Response::from_status(Status::INTERNAL_SERVER_ERROR));
        };
        let mut output = local.take_output();
        let mut value = None;
        let mut out = ResponseWriter::for_value(&mut output, &mut local, self.token, &mut value);
        out.endpoint = self.endpoint;
        let ended = match self.inner.handle(request, &mut out) {
            Flow::Done => Ok(out.finish()),
            Flow::Later(later) => Err(later),
        };
        let answer = match (ended, value) {
            (Err(later), _) => Err(later),
            (Ok(Ok(_)), Some(value)) => Ok(value),
            (Ok(tail), None) => Ok(match (tail, Written::of(&output)) {
                (Ok(tail), Some(written)) => written.into_response(tail),
                _ => overwritten(),
            }),
            (Ok(Err(())), Some(_)) => Ok(overwritten()),
        };
        local.give_output(output);
        answer
    }
}

/// Returns the answer in place of one whose head was overwritten by its handler.
#[cold]
fn overwritten() -> Response {
    log::error!("the writer removed bytes that it had not written");
    Response::from_status(Status::INTERNAL_SERVER_ERROR)
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").finish_non_exhaustive()
    }
}

/// A handler inside of a function.
struct Wrapped<F> {
    around: Arc<F>,
    inner: Arc<dyn Handler>,
}

impl<F, T> Handler for Wrapped<F>
where
    F: Fn(Request, Next) -> T + Send + Sync + 'static,
    T: Future + 'static,
    T::Output: IntoResponse,
{
    /// Runs the layers inside of the function before the function, as for requests with a body.
    fn handle(&self, request: &Request, out: &mut ResponseWriter<'_>) -> Flow {
        if !out.layers_done
            && let ControlFlow::Break(answer) = self.inner.enter(request, &mut out.added)
        {
            out.respond(answer);
            return Flow::Done;
        }
        let next = Next {
            inner: Arc::clone(&self.inner),
            local: out.local().inner(),
            endpoint: out.endpoint,
            token: out.token(),
        };
        answer_by((self.around)(request.clone(), next), out)
    }

    fn enter(&self, request: &Request, headers: &mut AddedHeaders) -> ControlFlow<Response> {
        self.inner.enter(request, headers)
    }
}

impl Endpoint {
    /// Wraps the handler in an asynchronous function, as [`Router::wrap`] does for all routes.
    ///
    /// ```
    /// use marmota_http::{Endpoint, Method, Next, Request, Response, Router, TestRequest};
    /// async fn uncached(request: Request, next: Next) -> Response {
    ///     let mut answer = next.run(request).await;
    ///     let _ = answer.set_header("Cache-Control", "no-store");
    ///     answer
    /// }
    /// let endpoint = Endpoint::future(|_: Request| async { "found" }).wrap(uncached);
    /// let router = Router::new().on(Method::Get, "/search", endpoint);
    /// let answer = router.call(TestRequest::get("/search"))?;
    /// assert_eq!(answer.header("Cache-Control"), Some("no-store"));
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn wrap<F, T>(self, around: F) -> Self
    where
        F: Fn(Request, Next) -> T + Send + Sync + 'static,
        T: Future + 'static,
        T::Output: IntoResponse,
    {
        self.wrapped(&Arc::new(around))
    }

    /// Returns the endpoint with its handler inside of a function.
    fn wrapped<F, T>(mut self, around: &Arc<F>) -> Self
    where
        F: Fn(Request, Next) -> T + Send + Sync + 'static,
        T: Future + 'static,
        T::Output: IntoResponse,
    {
        self.handler = Arc::new(Wrapped { around: Arc::clone(around), inner: self.handler });
        self.asynchronous = true;
        self
    }
}

impl Router {
    /// Wraps all routes added so far, and the fallback, in an asynchronous function. It may await
    /// before and after the handler, answer by itself, leave values with the request
    /// ([`Request::set_extension`]), and change the answer: its status, headers, and a body that is
    /// in memory. The function that is added last is the outermost. Requests without a route (404,
    /// 405) do not pass it.
    ///
    /// It runs when the handler would run: once a whole body has arrived, and after all layers and
    /// [`Endpoint::before_body`]. To refuse a request before its body is read, use one of these. A
    /// streamed body, a WebSocket and server-sent events pass it unchanged.
    ///
    /// ```
    /// use std::time::Instant;
    /// use marmota_http::{Next, Request, Response, Router, TestRequest};
    ///
    /// async fn timing(request: Request, next: Next) -> Response {
    ///     let begun = Instant::now();
    ///     let mut answer = next.run(request).await;
    ///     let time = format!("app;dur={}", begun.elapsed().as_millis());
    ///     let _ = answer.set_header("Server-Timing", time);
    ///     answer
    /// }
    ///
    /// let router = Router::new().get("/", |_| async { "in" }).wrap(timing);
    /// let answer = router.call(TestRequest::get("/"))?;
    /// assert!(answer.header("Server-Timing").is_some_and(|time| time.starts_with("app;dur=")));
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn wrap<F, T>(self, around: F) -> Self
    where
        F: Fn(Request, Next) -> T + Send + Sync + 'static,
        T: Future + 'static,
        T::Output: IntoResponse,
    {
        let around = Arc::new(around);
        self.map(|_, endpoint| endpoint.wrapped(&around))
    }
}

#[cfg(feature = "extract")]
impl<S> StateRouter<S> {
    /// Wraps all routes added so far in an asynchronous function, as [`Router::wrap`] does.
    ///
    /// ```
    /// use marmota_http::{Next, Request, Response, Router, Status, TestRequest};
    ///
    /// async fn closed(_: Request, _: Next) -> Response {
    ///     Response::problem(Status::SERVICE_UNAVAILABLE, "closed until Monday")
    /// }
    ///
    /// let router = Router::with_state(()).get("/", || async { "open" }).wrap(closed);
    /// assert_eq!(router.call(TestRequest::get("/"))?.status(), Status::SERVICE_UNAVAILABLE);
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn wrap<F, T>(mut self, around: F) -> Self
    where
        F: Fn(Request, Next) -> T + Send + Sync + 'static,
        T: Future + 'static,
        T::Output: IntoResponse,
    {
        self.router = self.router.wrap(around);
        self
    }
}
