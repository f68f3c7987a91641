//! Answers to requests in the caller's thread, without a socket: [`Router::call`], for the tests of
//! applications.
//!
//! A [`TestRequest`] is written as the head of an HTTP/1.1 request, which the same functions parse,
//! route and answer as on a connection: `head.parse`, `paths.find`, `dispatch::decide` for a
//! request with a body, `dispatch::run`. The writer's output is parsed into a [`TestResponse`].
//! Layers, limits and checks are therefore those of a server. Missing are the parts of a
//! connection: timeouts (except a handler's), keep-alive, pipelining and upgrades.
//!
//! A call owns everything that a server's thread shares between requests ([`ThreadLocals`]): calls
//! of several threads do not meet.

pub(crate) mod error;
pub(crate) mod request;
pub(crate) mod response;

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::body::body_buffer::{BodyBuffer, BodyError};
use crate::body::body_sender::Unpark;
use crate::body::budget::Budget;
use crate::body::producer::{BodyStream, Progress};
use crate::in_process::error::CallError;
use crate::in_process::request::TestRequest;
use crate::in_process::response::TestResponse;
use crate::message::limits::Limits;
use crate::message::request::{Exchange, Request};
use crate::message::response::{IntoResponse, LaterResponse, Response};
use crate::message::sites::Sites;
use crate::message::thread_locals::ThreadLocals;
use crate::message::writer::{Framing, Persistence, ReplyTo, ResponseWriter, Tail};
use crate::proto::head::Span;
use crate::proto::method::Method;
use crate::proto::paths::Found;
use crate::proto::status::Status;
use crate::reactor::bell::Bell;
use crate::reactor::task::Inbox;
use crate::routing::admission::Admission;
use crate::routing::dispatch::{self, RunResult};
use crate::routing::router::{Router, Routes};
#[cfg(feature = "extract")]
use crate::routing::state_router::StateRouter;
use crate::socket::proxies::Proxies;

/// Bytes of a streamed answer that are requested from its producer at a time.
const PIECE_BYTES: usize = 64 * 1024;

impl Router {
    /// Answers a request in this thread, without a server and a socket, for tests.
    ///
    /// The request passes the layers, limits and checks of its route, with the default [`Limits`].
    /// Returns the whole answer: it waits for a handler that answers later, and reads a streamed
    /// body to its end. The answer to a handler that panics is 500. A handler that exceeds
    /// [`Endpoint::timeout_ms`](crate::Endpoint::timeout_ms) is answered by 503, as on a server.
    ///
    /// A body without an end, such as server-sent events of a running program, blocks forever. A
    /// WebSocket is not opened (101 without a body). Use a [`Server`](crate::Server) on port 0 for
    /// these.
    ///
    /// ```
    /// use marmota_http::{Request, Router, Status, TestRequest};
    ///
    /// async fn double(request: Request) -> Result<String, Status> {
    ///     let number = request.param_int("number").ok_or(Status::NOT_FOUND)?;
    ///     Ok((number * 2).to_string())
    /// }
    ///
    /// let router = Router::new().get("/double/{number:int}", double);
    /// let answer = router.call(TestRequest::get("/double/21"))?;
    /// assert_eq!((answer.status(), answer.text()), (Status::OK, "42"));
    /// assert_eq!(router.call(TestRequest::get("/double/x"))?.status(), Status::NOT_FOUND);
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    ///
    /// # Errors
    /// - [`CallError::Route`] if a route of the router is not valid.
    /// - [`CallError::Request`] if the request is not valid HTTP.
    /// - [`CallError::Body`] if a streamed body has failed.
    /// - [`CallError::System`] if the system refuses a descriptor or a thread.
    pub fn call(&self, request: TestRequest) -> Result<TestResponse, CallError> {
        let routes = self.routes(Proxies::default(), Sites::default())?;
        within_runtime(&routes, || InProcessCall::new(&routes)?.answer(request))
    }
}

#[cfg(feature = "extract")]
impl<S: Clone + Send + Sync + 'static> StateRouter<S> {
    /// Answers a request in this thread, as [`Router::call`] does.
    ///
    /// ```
    /// use marmota_http::extract::{Path, State};
    /// use marmota_http::{Router, TestRequest};
    ///
    /// async fn greet(State(word): State<&'static str>, Path(name): Path<String>) -> String {
    ///     format!("{word}, {name}!")
    /// }
    ///
    /// let router = Router::with_state("Hello").get("/greet/{name}", greet);
    /// assert_eq!(router.call(TestRequest::get("/greet/Ada"))?.text(), "Hello, Ada!");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Router::call`].
    pub fn call(&self, request: TestRequest) -> Result<TestResponse, CallError> {
        self.router.call(request)
    }
}

/// Calls `answer` with a tokio runtime entered, as on a server's threads, if a route has an
/// asynchronous handler.
///
/// All calls share one runtime: that of the caller may be one that cannot run tasks while this
/// thread waits, and one for each call would start a thread for each.
#[cfg(feature = "tokio")]
fn within_runtime<T>(
    routes: &Routes,
    answer: impl FnOnce() -> Result<T, CallError>,
) -> Result<T, CallError> {
    use std::sync::{Mutex, PoisonError};
    static RUNTIME: Mutex<Option<tokio::runtime::Runtime>> = Mutex::new(None);

    if !routes.endpoints().any(|endpoint| endpoint.asynchronous) {
        return answer();
    }
    let mut slot = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if slot.is_none() {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        *slot = Some(builder.worker_threads(1).enable_all().build()?);
    }
    let handle = slot.as_ref().map(|runtime| runtime.handle().clone());
    drop(slot);
    let _entered = handle.as_ref().map(tokio::runtime::Handle::enter);
    answer()
}

/// Calls `answer`: without the feature `tokio` handlers have no runtime.
#[cfg(not(feature = "tokio"))]
fn within_runtime<T>(
    _: &Routes,
    answer: impl FnOnce() -> Result<T, CallError>,
) -> Result<T, CallError> {
    answer()
}

/// One request, with the data that a server's thread has for it.
struct InProcessCall<'r> {
    routes: &'r Routes,
    local: ThreadLocals,
    /// The head of the answer, and its body unless that is large or streamed.
    output: Vec<u8>,
    /// The body of a request whose handler reads it as it arrives.
    upload: Option<Upload>,
}

/// The rest of a request's body, which arrives when the handler waits for it. Without this a
/// handler would never wait for bytes, and a test could not show what happens then.
struct Upload {
    inlet: Rc<BodyBuffer>,
    rest: Vec<u8>,
    /// Bytes that are delivered at a time.
    piece_bytes: usize,
}

impl Upload {
    /// Delivers the next piece to the handler's buffer. Returns false if the body is complete.
    fn deliver(&mut self) -> bool {
        let Self { inlet, rest, piece_bytes } = self;
        if rest.is_empty() {
            return false;
        }
        inlet.fill(|bytes, _| {
            bytes.extend(rest.drain(..rest.len().min(*piece_bytes)));
            Ok(rest.is_empty())
        });
        true
    }
}

impl<'r> InProcessCall<'r> {
    /// Returns a call with the default limits, and budgets of its own.
    fn new(routes: &'r Routes) -> Result<Self, CallError> {
        let limits = Limits::default();
        let bodies = Budget::new(limits.held_body_bytes_max);
        let (context, endpoints) = (Arc::clone(&routes.context), routes.endpoints().count());
        let inbox = Inbox::new(Bell::Silent);
        let local = ThreadLocals::new(limits, context, endpoints, inbox, bodies, "");
        Ok(Self { routes, local, output: Vec::new(), upload: None })
    }

    /// Parses, routes and answers the request, and reads the answer's body.
    fn answer(mut self, request: TestRequest) -> Result<TestResponse, CallError> {
        let head = request.head()?;
        let TestRequest { peer, body, piece_bytes, .. } = request;
        let mut exchange = Exchange::new(Arc::clone(&self.routes.context), peer);
        exchange.buffer = head;
        let length = exchange.buffer.len();
        match exchange.head.parse(&exchange.buffer, 0, &self.local.head_limits) {
            Ok(true) if exchange.head.end == length => {}
            Ok(_) => return Err(CallError::Request("a header has a line break".to_owned())),
            Err(error) => return Err(CallError::Request(error.text().to_owned())),
        }
        let (method, path) = (exchange.head.method, exchange.head.path);
        let paths = &self.routes.context.paths;
        let found = paths.find(method, &exchange.buffer, path, &mut exchange.params);
        if let Found::Endpoint(index) = found {
            exchange.endpoint = Some(index);
        }
        let mut request = Request(Rc::new(exchange));
        let tail = match self.admit(&mut request, body, piece_bytes) {
            Some(refusal) => self.write(&request, refusal),
            None => self.run(&request, found),
        };
        let mut response = TestResponse::parse(&self.output)?;
        match tail {
            None | Some(Tail::UpgradedProtocol(_)) => {}
            Some(Tail::Body(body)) => response.body.extend_from_slice(body.as_bytes()),
            Some(Tail::Stream(stream)) => {
                let (body, framing) = *stream;
                read_stream(body, framing, &mut response.body, self.upload.as_mut())?;
            }
        }
        Ok(response)
    }

    /// Decides on a request with a body by its head, and gives it the body: in the buffer after the
    /// head, or in pieces to a handler that reads it as it arrives. Returns an answer if the
    /// request is refused.
    fn admit(
        &mut self,
        request: &mut Request,
        body: Vec<u8>,
        piece_bytes: usize,
    ) -> Option<Response> {
        if body.is_empty() {
            return None;
        }
        let endpoint = request.0.endpoint.and_then(|index| self.routes.endpoint(index))?;
        match dispatch::decide(self.routes, request) {
            Admission::Granted => {}
            Admission::Refused(answer) => return Some(answer),
            Admission::Later(decision) => match wait(decision, None, None) {
                Waited::Ready(Ok(())) => {}
                Waited::Ready(Err(answer)) => return Some(dispatch::refused(request, answer)),
                other => return Some(self.failed(request, other)),
            },
        }
        let streams = endpoint.streams(request);
        let whole_max = endpoint.body_bytes_max.unwrap_or(self.local.limits.body_bytes_max);
        if body.len() as u64 > streams.unwrap_or(whole_max as u64) {
            return Some(BodyError::TooLarge.into_response());
        }
        let exchange = Rc::make_mut(&mut request.0);
        if streams.is_some() {
            let inlet = Rc::new(BodyBuffer::default());
            exchange.body_buffer = Some(Rc::clone(&inlet));
            let mut upload = Upload { inlet, rest: body, piece_bytes };
            upload.deliver();
            self.upload = Some(upload);
        } else {
            let start = exchange.buffer.len();
            exchange.buffer.extend_from_slice(&body);
            exchange.body = Span::new(start, exchange.buffer.len());
        }
        None
    }

    /// Runs the handler, and waits for it if it answers later. Returns the part of the body that is
    /// not in the output.
    fn run(&mut self, request: &Request, found: Found) -> Option<Tail> {
        let Found::Endpoint(index) = found else {
            return self.write(request, dispatch::unrouted(request, found));
        };
        let to = reply_to(request);
        let output = &mut self.output;
        match dispatch::run(self.routes, request, index, output, &mut self.local, to) {
            RunResult::Written(tail) => tail,
            RunResult::Failed => self.write(request, internal_error()),
            RunResult::Later(answer, _) => {
                let answer = self.wait(request, index, answer);
                self.write(request, answer)
            }
        }
    }

    /// Waits for a handler, as long as its endpoint allows.
    fn wait(&mut self, request: &Request, index: usize, answer: LaterResponse) -> Response {
        let timeout_ms = self.routes.endpoint(index).and_then(|endpoint| endpoint.timeout_ms);
        match wait(answer, timeout_ms.map(Duration::from_millis), self.upload.as_mut()) {
            Waited::Ready(response) => response,
            other => self.failed(request, other),
        }
    }

    /// Returns the answer in place of a handler that has panicked (500) or is late (503).
    fn failed<T>(&self, request: &Request, waited: Waited<T>) -> Response {
        if let Waited::Panicked(panic) = waited {
            dispatch::log_panic(request, &*panic);
            return internal_error();
        }
        Response::problem(Status::SERVICE_UNAVAILABLE, "the answer took too long")
    }

    /// Writes an answer in place of all that the output has.
    fn write(&mut self, request: &Request, response: Response) -> Option<Tail> {
        self.output.clear();
        let mut out = ResponseWriter::new(&mut self.output, &mut self.local, reply_to(request));
        out.respond(response);
        out.finish_for(request).unwrap_or_default()
    }
}

/// Returns the answer in place of a handler that has panicked.
fn internal_error() -> Response {
    Response::from_status(Status::INTERNAL_SERVER_ERROR)
}

/// Returns the writer's settings: an answer of HTTP/1.1 on a connection that stays open.
fn reply_to(request: &Request) -> ReplyTo {
    let head_only = request.0.head.method == Method::Head;
    ReplyTo { persistence: Persistence::Implied, head_only, is_http10: false, token: 0 }
}

/// The result of waiting for a future.
enum Waited<T> {
    /// The future has returned this value.
    Ready(T),
    /// The future has panicked, with this payload.
    Panicked(Box<dyn std::any::Any + Send>),
    /// The time limit has passed first.
    TimedOut,
}

/// Runs a future in this thread. When it waits, it gets the next piece of the upload; at the end of
/// the upload the thread sleeps until the future is woken.
fn wait<T>(
    future: impl Future<Output = T>,
    timeout: Option<Duration>,
    mut upload: Option<&mut Upload>,
) -> Waited<T> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context))) {
            Ok(Poll::Ready(value)) => return Waited::Ready(value),
            Err(panic) => return Waited::Panicked(panic),
            Ok(Poll::Pending) => {}
        }
        if let Some(upload) = &mut upload
            && upload.inlet.is_awaited()
            && upload.deliver()
        {
            continue;
        }
        match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
            None => std::thread::park(),
            Some(left) if left.is_zero() => return Waited::TimedOut,
            Some(left) => std::thread::park_timeout(left),
        }
    }
}

/// Reads a streamed body to its end.
fn read_stream(
    mut body: BodyStream,
    framing: Framing,
    out: &mut Vec<u8>,
    upload: Option<&mut Upload>,
) -> Result<(), CallError> {
    let ended = wait(
        poll_fn(|context| {
            loop {
                match body.poll_ahead(context, out, PIECE_BYTES) {
                    Progress::More => {}
                    Progress::Stalled => return Poll::Pending,
                    Progress::Ended => return Poll::Ready(ControlFlow::Continue(())),
                    Progress::Failed(error) => return Poll::Ready(ControlFlow::Break(error)),
                }
            }
        }),
        None,
        upload,
    );
    match (ended, framing) {
        (Waited::Ready(ControlFlow::Break(error)), _) => Err(CallError::Body(error)),
        (Waited::Ready(_), Framing::Length(length)) if length != out.len() as u64 => {
            let bytes = out.len();
            Err(CallError::Body(format!("{bytes} of {length} bytes").into()))
        }
        _ => Ok(()),
    }
}
