//! Endpoints: a handler and what the server has to know about it before it runs.
//!
//! The future of an asynchronous handler lives in an allocation that its endpoint keeps for
//! the next request, so a response that is ready at the first poll allocates nothing.

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

/// A handler and what the server has to know about it before it runs.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) body_bytes_max: Option<usize>,
    /// Whether the handler takes bodies as they come.
    streamed: Option<Streamed>,
    /// Its futures may want a tokio runtime around them.
    pub(crate) asynchronous: bool,
    /// How long its futures may take.
    pub(crate) timeout_ms: Option<u64>,
    /// What decides on requests with a body by their head.
    pub(crate) check: Option<Arc<Check>>,
    pub(crate) is_layered: bool,
    /// The length from which its answers are compressed.
    pub(crate) compresses_from: Option<usize>,
}

/// Decides on a request by its head.
pub(crate) type Check = dyn Fn(&Request) -> Admission + Send + Sync;

/// Which bodies a handler takes as they come.
#[derive(Clone, Copy)]
struct Streamed {
    bytes_max: u64,
    wanted: fn(&Request) -> bool,
}

impl Endpoint {
    /// An endpoint of a handler that writes its answer itself.
    pub fn direct(
        handler: impl Fn(&Request, &mut ResponseWriter<'_>) -> Flow + Send + Sync + 'static,
    ) -> Self {
        Self::new(handler)
    }

    /// An endpoint of anything that is a [`Handler`].
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
        }
    }

    /// An endpoint of an asynchronous function. Its future need not be `Send`.
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

    /// Allows bodies of this many bytes here, whatever the server's limit is.
    #[must_use]
    pub fn body_bytes_max(mut self, bytes: usize) -> Self {
        self.body_bytes_max = Some(bytes);
        self
    }

    /// Answers 503 in the place of a handler that has not answered after this time, give or take
    /// the server's sweep, and drops its future. Not where it takes its body as it comes, whose
    /// time [`crate::Limits`] count; a direct handler cannot be interrupted.
    #[must_use]
    pub fn timeout_ms(mut self, timeout_ms: u64) -> Self {
        self.timeout_ms = Some(timeout_ms);
        self
    }

    /// Decides by the head alone on requests that have a body, before any of it is read and before
    /// `100 Continue` is sent: a client that may not do this cannot make the server hold what it
    /// sends. It runs once a request, inside of the layers; requests without a body do not pass it.
    /// The last one given counts.
    ///
    /// What it finds out it may leave with the request ([`Request::set_extension`]), and what takes
    /// time it may decide later ([`Admission::Later`]). A connection of HTTP/1.1 whose request was
    /// refused is closed unless all of the body has come already.
    ///
    /// ```
    /// use marmota_http::{Admission, Endpoint, Method, Request, Response, Router, Status};
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
    /// ```
    #[must_use]
    pub fn before_body(
        mut self,
        check: impl Fn(&Request) -> Admission + Send + Sync + 'static,
    ) -> Self {
        self.check = Some(Arc::new(check));
        self
    }

    /// Whether something may refuse a request by its head.
    pub(crate) fn decides_early(&self) -> bool {
        self.is_layered || self.check.is_some()
    }

    /// Puts a layer around the handler; the last is the outermost.
    #[must_use]
    pub fn layer(self, layer: impl Layer) -> Self {
        let layer: Arc<dyn Layer> = Arc::new(layer);
        self.layered(&layer)
    }

    /// The endpoint with its handler inside of the layer.
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

    /// Runs the handler as soon as the head has come and lets it take the body piece by piece
    /// ([`Request::reader`]), up to `bytes_max` bytes (413). What the handler does not read holds
    /// the client back; if it answers before it has read all, the connection is closed.
    ///
    /// ```
    /// use marmota_http::{BodyError, Endpoint, Method, Request, Router};
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
    /// ```
    #[must_use]
    pub fn streamed(self, bytes_max: u64) -> Self {
        self.streamed_when(bytes_max, |_| true)
    }

    /// As [`Endpoint::streamed`], for the requests of which `wanted` says so by their head; the
    /// bodies of others are whole.
    #[must_use]
    pub fn streamed_when(mut self, bytes_max: u64, wanted: fn(&Request) -> bool) -> Self {
        self.streamed = Some(Streamed { bytes_max, wanted });
        self
    }

    /// How long the body of this request may be, if the handler takes it as it comes.
    pub(crate) fn streams(&self, request: &Request) -> Option<u64> {
        let streamed = self.streamed?;
        (streamed.wanted)(request).then_some(streamed.bytes_max)
    }

    /// Has the server enter its tokio runtime for the futures of a direct handler.
    #[must_use]
    pub fn with_runtime(mut self) -> Self {
        self.asynchronous = true;
        self
    }
}

struct FutureHandler<F>(F);

impl<F, T> Handler for FutureHandler<F>
where
    F: Fn(Request) -> T + Send + Sync + 'static,
    T: Future + 'static,
    T::Output: IntoResponse,
{
    fn handle(&self, request: &Request, out: &mut ResponseWriter<'_>) -> Flow {
        let endpoint = out.endpoint;
        let mut run = out.local().take_run::<T>(endpoint);
        run.set(Some((self.0)(request.clone())));
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
                Flow::Later(Box::pin(Waiting(run)))
            }
        }
    }
}

fn poll<T: Future>(run: &mut Pin<Box<Option<T>>>, cx: &mut Context<'_>) -> Poll<T::Output> {
    match run.as_mut().as_pin_mut() {
        Some(future) => future.poll(cx),
        None => Poll::Pending,
    }
}

/// A future that was pending at its first poll, with its answer made a [`Response`].
struct Waiting<T>(Pin<Box<Option<T>>>);

impl<T> Future for Waiting<T>
where
    T: Future,
    T::Output: IntoResponse,
{
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response> {
        poll(&mut self.0, cx).map(IntoResponse::into_response)
    }
}
