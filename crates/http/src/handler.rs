//! Handlers: one trait, two ways to write one. A direct handler writes its answer into the
//! connection's buffer; an asynchronous one is a function from [`Request`] to a future of
//! something that is [`IntoResponse`].
//!
//! The future of an asynchronous handler lives in an allocation that its endpoint keeps for
//! the next request, so an answer that is ready at the first poll allocates nothing.

use std::any::Any;
use std::future::Future;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::admission::Admission;
use crate::layer::{AddedHeaders, Layer, Layered};
use crate::local::ThreadLocals;
use crate::request::Request;
use crate::response::{IntoResponse, Response};
use crate::router::Found;
use crate::status::Status;
use crate::task::{Task, Token};
use crate::writer::{Persistence, ResponseWriter, Tail};

/// An answer that comes later. It is polled on the connection's own thread only.
pub type LaterResponse = Pin<Box<dyn Future<Output = Response>>>;

/// How a handler leaves its answer.
pub enum Flow {
    /// It is written.
    Done,
    /// It will come; what was written so far is given up.
    Later(LaterResponse),
}

/// Something that answers requests. Implemented for functions
/// `Fn(&Request, &mut ResponseWriter) -> Flow`; for asynchronous ones see [`Endpoint::future`].
pub trait Handler: Send + Sync + 'static {
    /// Answers the request.
    fn handle(&self, request: &Request, out: &mut ResponseWriter<'_>) -> Flow;

    /// Looks at the head of a request whose body is not read yet: what layers do, before
    /// [`Endpoint::before_body`] and `handle`. `Break` answers in the handler's place.
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
        Layered::around(&layer, self)
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

/// What running a handler came to.
pub(crate) enum Ran {
    /// The answer is written, but for what follows it.
    Written(Option<Tail>),
    /// It will come; the task is whose waker it has been polled with, if it was.
    Later(LaterResponse, Option<Task>),
    /// The handler has panicked, or cut off what was not its own.
    Failed,
}

/// Has an endpoint's handler answer behind what is in `output`, for a client that wants the head
/// only, or is of HTTP/1.0 (`client`).
#[inline]
pub(crate) fn run(
    request: &Request,
    endpoint: usize,
    output: &mut Vec<u8>,
    local: &mut ThreadLocals,
    persistence: Persistence,
    client: (bool, bool),
    token: Token,
) -> Ran {
    let start = output.len();
    if let Some(observer) = &local.observer {
        request.0.begun_us.set(observer.now_us().max(1));
    }
    // The closure leaves nothing half done behind that is used again: after a panic the output
    // is cut back to its start.
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut out = ResponseWriter::new(output, local, persistence, client, token);
        out.endpoint = endpoint;
        if let Some(admitted) = request.0.admitted.get()
            && let Some(headers) = admitted.take_headers()
        {
            out.added = headers;
            out.is_admitted = true;
        }
        let flow = match request.0.routes.endpoint(endpoint) {
            Some(endpoint) => endpoint.handler.handle(request, &mut out),
            None => Flow::Done,
        };
        match flow {
            Flow::Done => out.finish_for(request).map_or(Ran::Failed, Ran::Written),
            Flow::Later(answer) => {
                out.reset();
                let added = std::mem::take(&mut out.added);
                Ran::Later(added.onto_later(answer), out.waiting.take())
            }
        }
    }));
    match ran {
        Ok(Ran::Failed) => log_panic(request, &"it cut bytes off that were not its own"),
        Ok(ran) => return ran,
        Err(panic) => log_panic(request, &*panic),
    }
    output.truncate(start);
    Ran::Failed
}

/// Logs that a request's handler has panicked, by the name of the request.
#[cold]
pub(crate) fn log_panic(request: &Request, panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(|text| &**text));
    let text = text.unwrap_or("it did not say why");
    let (method, path, id) = (request.method_name(), request.path(), request.id());
    log::error!("the handler of {method} {path} has panicked (request {id}): {text}");
}

/// The answer to a request that no endpoint takes.
pub(crate) fn unrouted(request: &Request, found: Found) -> Response {
    let allow = |mut answer: Response, allow: &str| {
        // Names of methods are fit for a header.
        let _ = answer.add_header("Allow".into(), allow.to_owned().into_bytes().into());
        answer
    };
    let routes = &request.0.routes;
    match found {
        Found::Options(node) => allow(Response::new(Status::NO_CONTENT), routes.allow(node)),
        Found::NotAllowed(node) => {
            let (method, allowed) = (request.method_name(), routes.allow(node));
            let detail = format!("{method} is not allowed here; allowed: {allowed}");
            allow(Response::problem(Status::METHOD_NOT_ALLOWED, &detail), allowed)
        }
        Found::NotImplemented => {
            let detail = format!("no method {} is known here", request.method_name());
            Response::problem(Status::NOT_IMPLEMENTED, &detail)
        }
        _ if request.target() == "*" => Response::new(Status::NO_CONTENT),
        _ => Response::problem(Status::NOT_FOUND, "no resource has this path"),
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
