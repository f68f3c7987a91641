//! Endpoints: a handler with the settings of its route, which the server needs before it runs the
//! handler.
//!
//! The future of an asynchronous handler is stored in an allocation that its endpoint keeps for the
//! next request. So a response that is ready at the first poll needs no allocation.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::message::request::Request;
use crate::message::response::{IntoResponse, Response};
use crate::message::writer::ResponseWriter;
use crate::routing::admission::Admission;
use crate::routing::handler::{Flow, Handler};
use crate::routing::layer::{Layer, Layered};

/// A handler with the settings of its route. The methods of [`Router`](crate::Router) such as `get`
/// make one with the defaults; use [`Router::on`](crate::Router::on) for other settings.
///
/// ```
/// use marmota_http::{Endpoint, Method, Request, Router, Status, TestRequest};
/// async fn store(request: Request) -> String {
///     format!("{} bytes", request.body().len())
/// }
/// let endpoint = Endpoint::future(store).body_bytes_max(1_000).timeout_ms(5_000);
/// let router = Router::new().on(Method::Put, "/files/{name}", endpoint);
/// assert_eq!(router.call(TestRequest::put("/files/a").body("abc"))?.text(), "3 bytes");
/// let refused = router.call(TestRequest::put("/files/a").body(vec![0; 1_001]))?;
/// assert_eq!(refused.status(), Status::CONTENT_TOO_LARGE);
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone)]
pub struct Endpoint {
    /// The handler, within its layers.
    pub(crate) handler: Arc<dyn Handler>,
    /// The limit on bodies; `None` is the server's.
    pub(crate) body_bytes_max: Option<usize>,
    /// The bodies that the handler reads as they arrive.
    streamed: Option<Streamed>,
    /// Its futures may need a tokio runtime.
    pub(crate) asynchronous: bool,
    /// The time for its futures.
    pub(crate) timeout_ms: Option<u64>,
    /// The check of requests with a body, by their head.
    pub(crate) check: Option<Arc<Check>>,
    /// At least one layer is around the handler.
    pub(crate) is_layered: bool,
    /// The length in bytes from which its answers are compressed.
    pub(crate) compresses_from: Option<usize>,
    /// Its requests may be answered after the routes were replaced.
    pub(crate) outlives_routes: bool,
    /// Describes the route for OpenAPI.
    #[cfg(feature = "schemars")]
    pub(crate) describe: Option<Arc<crate::extract::describe::Describe>>,
}

/// A decision on a request by its head.
pub(crate) type Check = dyn Fn(&Request) -> Admission + Send + Sync;

/// The bodies that a handler reads as they arrive.
#[derive(Clone)]
struct Streamed {
    /// The limit on such a body.
    bytes_max: u64,
    /// Selects the requests, by their head.
    wanted: Arc<dyn Fn(&Request) -> bool + Send + Sync>,
}

impl Endpoint {
    /// Returns the endpoint of a synchronous function that writes its answer into the connection's
    /// buffer: the fastest kind of handler. It must not block.
    ///
    /// ```
    /// use marmota_http::{Endpoint, Flow, Method, Router, TestRequest};
    /// let endpoint = Endpoint::direct(|request, out| {
    ///     out.send("text/plain", request.path().as_bytes());
    ///     Flow::Done
    /// });
    /// let router = Router::new().on(Method::Get, "/path", endpoint);
    /// assert_eq!(router.call(TestRequest::get("/path"))?.text(), "/path");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn direct(
        handler: impl Fn(&Request, &mut ResponseWriter<'_>) -> Flow + Send + Sync + 'static,
    ) -> Self {
        Self::new(handler)
    }

    /// Returns the endpoint of any [`Handler`]. Defaults: the server's limit on bodies, no timeout,
    /// no check, no layers, and whole bodies.
    ///
    /// ```
    /// use marmota_http::{Endpoint, Flow, Handler, Request, ResponseWriter};
    /// struct Fixed(&'static str);
    /// impl Handler for Fixed {
    ///     fn handle(&self, _: &Request, out: &mut ResponseWriter<'_>) -> Flow {
    ///         out.send("text/plain", self.0.as_bytes());
    ///         Flow::Done
    ///     }
    /// }
    /// let endpoint = Endpoint::new(Fixed("hello"));
    /// ```
    pub fn new(handler: impl Handler) -> Self {
        Self {
            handler: Arc::new(handler),
            body_bytes_max: None,
            streamed: None,
            asynchronous: false,
            timeout_ms: None,
            check: None,
            is_layered: false,
            compresses_from: None,
            outlives_routes: false,
            #[cfg(feature = "schemars")]
            describe: None,
        }
    }

    /// Returns the endpoint of an asynchronous function. Its future runs on the connection's thread
    /// and need not be `Send`. With the feature `tokio` (a default) it may use tokio's timers,
    /// sockets and tasks.
    ///
    /// ```
    /// use marmota_http::{Endpoint, Method, Request, Router, Status, TestRequest};
    /// async fn greet(request: Request) -> Result<String, Status> {
    ///     let name = request.param("name").ok_or(Status::NOT_FOUND)?;
    ///     Ok(format!("Hello, {name}!"))
    /// }
    /// let router = Router::new().on(Method::Get, "/hello/{name}", Endpoint::future(greet));
    /// assert_eq!(router.call(TestRequest::get("/hello/Ada"))?.text(), "Hello, Ada!");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn future<F, T>(handler: F) -> Self
    where
        F: Fn(Request) -> T + Send + Sync + 'static,
        T: Future + 'static,
        T::Output: IntoResponse,
    {
        let mut endpoint = Self::new(FutureHandler(handler));
        endpoint.asynchronous = true;
        endpoint
    }

    /// Sets the maximum length of whole bodies, in bytes (413). Default:
    /// [`Limits::body_bytes_max`](crate::Limits::body_bytes_max) of the server.
    ///
    /// ```
    /// use marmota_http::{Endpoint, Request};
    /// let endpoint = Endpoint::future(|_: Request| async { "stored" }).body_bytes_max(16 << 20);
    /// ```
    #[must_use]
    pub fn body_bytes_max(mut self, bytes: usize) -> Self {
        self.body_bytes_max = Some(bytes);
        self
    }

    /// Answers 503 if the handler has not answered after this time, and drops its future. The time
    /// is exact to the interval of the server's sweep (at most a second). Default: no timeout.
    ///
    /// It has no effect on a handler that reads its body as it arrives, whose time
    /// [`Limits`](crate::Limits) count; and a direct handler cannot be interrupted.
    ///
    /// ```
    /// use marmota_http::{Endpoint, Request};
    /// let endpoint = Endpoint::future(|_: Request| async { "found" }).timeout_ms(5_000);
    /// ```
    #[must_use]
    pub fn timeout_ms(mut self, timeout_ms: u64) -> Self {
        self.timeout_ms = Some(timeout_ms);
        self
    }

    /// Decides by the head alone on requests that have a body, before any of it is read and before
    /// `100 Continue` is sent: an unauthorized client cannot make the server hold its bytes. The
    /// check runs once per request, inside of the layers. Requests without a body do not pass it. A
    /// second call replaces the check.
    ///
    /// The check may leave its result with the request ([`Request::set_extension`]), and may decide
    /// later ([`Admission::Later`]). A connection of HTTP/1.1 whose request was refused is closed,
    /// unless all of the body has arrived already.
    ///
    /// ```
    /// use marmota_http::{
    ///     Admission, Endpoint, Method, Request, Response, Router, Status, TestRequest,
    /// };
    ///
    /// struct Caller(String);
    ///
    /// fn authenticate(request: &Request) -> Admission {
    ///     match request.header_text("x-key") {
    ///         Some("k7") => {
    ///             let _ = request.set_extension(Caller("ann".to_owned()));
    ///             Admission::Granted
    ///         }
    ///         _ => Admission::Refused(Response::from_status(Status::UNAUTHORIZED)),
    ///     }
    /// }
    ///
    /// async fn store(request: Request) -> String {
    ///     let caller = request.extension::<Caller>().map_or("unknown", |caller| &caller.0);
    ///     format!("{} bytes of {caller}", request.body().len())
    /// }
    ///
    /// let router = Router::new()
    ///     .on(Method::Put, "/store", Endpoint::future(store).before_body(authenticate));
    /// let request = TestRequest::put("/store").body("abc");
    /// assert_eq!(router.call(request.clone().header("X-Key", "k7"))?.text(), "3 bytes of ann");
    /// assert_eq!(router.call(request)?.status(), Status::UNAUTHORIZED);
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn before_body(
        mut self,
        check: impl Fn(&Request) -> Admission + Send + Sync + 'static,
    ) -> Self {
        self.check = Some(Arc::new(check));
        self
    }

    /// Returns true if a layer or a check may refuse a request by its head.
    pub(crate) fn decides_early(&self) -> bool {
        self.is_layered || self.check.is_some()
    }

    /// Wraps the handler in a layer; the last layer is the outermost.
    ///
    /// ```
    /// use marmota_http::{Endpoint, Method, RateLimit, Request, Router};
    /// let endpoint = Endpoint::future(|_: Request| async { "found" })
    ///     .layer(RateLimit::per_address(5.0, 20));
    /// let router = Router::new().on(Method::Get, "/search", endpoint);
    /// ```
    #[must_use]
    pub fn layer(self, layer: impl Layer) -> Self {
        let layer: Arc<dyn Layer> = Arc::new(layer);
        self.layered(&layer)
    }

    /// Returns the endpoint with its handler inside of the layer.
    pub(super) fn layered(mut self, layer: &Arc<dyn Layer>) -> Self {
        if let Some(bytes) = layer.compresses_from() {
            // It has nothing to do before the answer is written.
            self.compresses_from = Some(bytes);
            return self;
        }
        self.handler = Arc::new(Layered { layer: Arc::clone(layer), inner: self.handler });
        self.is_layered = true;
        self
    }

    /// Runs the handler as soon as the head has arrived, and lets it read the body piece by piece
    /// ([`Request::reader`]), up to `bytes_max` bytes (413). Bytes that the handler does not read
    /// hold the client back. If it answers before it has read all, the connection is closed.
    /// Default: the handler runs once the body is complete ([`Request::body`]).
    ///
    /// ```
    /// use marmota_http::{BodyError, Endpoint, Method, Request, Router, TestRequest};
    /// async fn measure(request: Request) -> Result<String, BodyError> {
    ///     let (mut reader, mut piece, mut bytes) = (request.reader(), Vec::new(), 0);
    ///     loop {
    ///         piece.clear();
    ///         match reader.read(&mut piece).await? {
    ///             0 => return Ok(format!("{bytes} bytes\n")),
    ///             count => bytes += count,
    ///         }
    ///     }
    /// }
    /// let router = Router::new()
    ///     .on(Method::Post, "/measure", Endpoint::future(measure).streamed(u64::MAX));
    /// let answer = router.call(TestRequest::post("/measure").body(vec![0; 100_000]))?;
    /// assert_eq!(answer.text(), "100000 bytes\n");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn streamed(self, bytes_max: u64) -> Self {
        self.streamed_when(bytes_max, |_| true)
    }

    /// Like [`Endpoint::streamed`], for requests that `wanted` selects by their head. The bodies of
    /// others are whole.
    ///
    /// ```
    /// use marmota_http::{Endpoint, Request};
    /// let endpoint = Endpoint::future(|_: Request| async { "imported" })
    ///     .streamed_when(1 << 30, |request| request.header("content-type") == Some(b"text/csv"));
    /// ```
    #[must_use]
    pub fn streamed_when(
        mut self,
        bytes_max: u64,
        wanted: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.streamed = Some(Streamed { bytes_max, wanted: Arc::new(wanted) });
        self
    }

    /// Lets requests of this endpoint be answered after the routes of their server were replaced, by
    /// the handler in progress. It is for the handler that replaces them, which would otherwise wait
    /// for its own end; see [`RouteChanges`](crate::RouteChanges). Default: routes are replaced once
    /// the request is answered.
    ///
    /// ```
    /// use marmota_http::{Endpoint, Request};
    /// let endpoint = Endpoint::future(|_: Request| async { "replaced" }).outlives_routes();
    /// ```
    #[must_use]
    pub const fn outlives_routes(mut self) -> Self {
        self.outlives_routes = true;
        self
    }

    /// Returns the maximum length of this request's body, if the handler reads it as it arrives.
    pub(crate) fn streams(&self, request: &Request) -> Option<u64> {
        let streamed = self.streamed.as_ref()?;
        (streamed.wanted)(request).then_some(streamed.bytes_max)
    }

    /// Enters the server's tokio runtime for the futures of a direct handler ([`Flow::Later`]).
    /// Endpoints of [`Endpoint::future`] always have it. Without the feature `tokio` it has no
    /// effect.
    ///
    /// ```
    /// use marmota_http::{Endpoint, Flow, Response};
    /// let endpoint = Endpoint::direct(|_, _| {
    ///     Flow::Later(Box::pin(async { Response::text("later") }))
    /// })
    /// .with_runtime();
    /// ```
    #[must_use]
    pub fn with_runtime(mut self) -> Self {
        self.asynchronous = true;
        self
    }
}

/// The handler of an asynchronous function. It polls the future once while the request is handled;
/// only a future that is pending then leaves its thread-local allocation.
struct FutureHandler<F>(F);

impl<F, T> Handler for FutureHandler<F>
where
    F: Fn(Request) -> T + Send + Sync + 'static,
    T: Future + 'static,
    T::Output: IntoResponse,
{
    fn handle(&self, request: &Request, out: &mut ResponseWriter<'_>) -> Flow {
        answer_by((self.0)(request.clone()), out)
    }
}

/// Answers by a future, which is polled once here.
pub(super) fn answer_by<T>(future: T, out: &mut ResponseWriter<'_>) -> Flow
where
    T: Future + 'static,
    T::Output: IntoResponse,
{
    let endpoint = out.endpoint;
    let mut run = out.local().take_run::<T>(endpoint);
    run.set(Some(future));
    let task = out.task();
    match poll(&mut run, &mut Context::from_waker(task.waker())) {
        Poll::Ready(answer) => {
            run.set(None);
            out.local().give_run(endpoint, run);
            out.local().give_task(task);
            out.respond(answer.into_response());
            Flow::Done
        }
        Poll::Pending => {
            out.waiting = Some(task);
            Flow::Later(Box::pin(PendingHandler(run)))
        }
    }
}

/// Polls the future in an allocation of
/// [`ThreadLocals`](crate::message::thread_locals::ThreadLocals).
fn poll<T: Future>(run: &mut Pin<Box<Option<T>>>, cx: &mut Context<'_>) -> Poll<T::Output> {
    match run.as_mut().as_pin_mut() {
        Some(future) => future.poll(cx),
        None => Poll::Pending,
    }
}

/// A future that was pending at its first poll, with its answer made a [`Response`].
struct PendingHandler<T>(Pin<Box<Option<T>>>);

impl<T> Future for PendingHandler<T>
where
    T: Future,
    T::Output: IntoResponse,
{
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response> {
        poll(&mut self.0, cx).map(IntoResponse::into_response)
    }
}
