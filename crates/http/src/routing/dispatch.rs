//! The answer to one request: the check before its body is read (first the layers around its
//! endpoint, then the endpoint's own check), its handler, or the answer to a request without an
//! endpoint.
//!
//! HTTP/1.1, HTTP/2 and in-process calls all use these functions. A panic of a handler, a layer or
//! a check is caught here: the request is answered 500, and the thread continues.

use std::any::Any;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use crate::message::added_headers::AddedHeaders;
use crate::message::request::Request;
use crate::message::response::{LaterResponse, Response, later_with_added, with_added};
use crate::message::thread_locals::ThreadLocals;
use crate::message::writer::{ReplyTo, ResponseWriter, Tail};
use crate::proto::paths::Found;
use crate::proto::status::Status;
use crate::reactor::task::Task;
use crate::routing::admission::Admission;
use crate::routing::handler::Flow;
use crate::routing::router::Routes;

/// Runs the layers and the check of a request's endpoint, by the head alone. The headers that
/// layers add are kept with the request for its answer, and the layers do not run again in [`run`].
///
/// It is called for requests with a body. Others skip it: their layers run around the handler,
/// which saves the allocation of [`BeforeBody`](crate::message::before_body::BeforeBody).
pub(crate) fn decide(routes: &Routes, request: &Request) -> Admission {
    let exchange = &request.0;
    let endpoint = exchange.endpoint.and_then(|index| routes.endpoint(index));
    let Some(endpoint) = endpoint.filter(|endpoint| endpoint.decides_early()) else {
        return Admission::Granted;
    };
    let mut headers = AddedHeaders::default();
    let decided = catch_unwind(AssertUnwindSafe(|| {
        match (endpoint.handler.enter(request, &mut headers), &endpoint.check) {
            (ControlFlow::Break(answer), _) => Admission::Refused(answer),
            (ControlFlow::Continue(()), None) => Admission::Granted,
            (ControlFlow::Continue(()), Some(check)) => check(request),
        }
    }));
    let decided = decided.unwrap_or_else(|panic| {
        log_panic(request, &*panic);
        Admission::Refused(Response::from_status(Status::INTERNAL_SERVER_ERROR))
    });
    let before_body = exchange.before_body.get_or_init(Rc::default);
    *before_body.headers.borrow_mut() = Some(headers);
    match decided {
        Admission::Refused(answer) => Admission::Refused(refused(request, answer)),
        decided => decided,
    }
}

/// Returns the answer that refuses a request, with the headers that its layers add.
pub(crate) fn refused(request: &Request, answer: Response) -> Response {
    match request.0.before_body.get().and_then(|before_body| before_body.take_headers()) {
        Some(headers) => with_added(answer, headers),
        None => answer,
    }
}

/// The result of running a handler.
pub(crate) enum RunResult {
    /// The answer is written to the output, except for its tail.
    Written(Option<Tail>),
    /// The answer comes later. The task is the one whose waker was passed in the first poll, if the
    /// future was polled.
    Later(LaterResponse, Option<Task>),
    /// The handler has panicked, or has cut the output to less than it was given.
    Failed,
}

/// Runs an endpoint's handler, which writes its answer after the present end of `output`. `to`
/// describes the client: whether it wants only the head, and its version.
///
/// Bytes before that end belong to answers of earlier requests. A handler gets the buffer itself,
/// so a handler that cuts those bytes off is treated like one that has panicked, and after a panic
/// the output is cut back to where this answer started.
#[inline]
pub(crate) fn run(
    routes: &Routes,
    request: &Request,
    endpoint: usize,
    output: &mut Vec<u8>,
    local: &mut ThreadLocals,
    to: ReplyTo,
) -> RunResult {
    let start = output.len();
    if let Some(observer) = &local.observer {
        request.0.begun_us.set(observer.now_us().max(1));
    }
    // Nothing that a panic leaves incomplete is used again: the output is cut back to its start.
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut out = ResponseWriter::new(output, local, to);
        out.endpoint = endpoint;
        if let Some(before_body) = request.0.before_body.get()
            && let Some(headers) = before_body.take_headers()
        {
            out.added = headers;
            out.layers_done = true;
        }
        let flow = match routes.endpoint(endpoint) {
            Some(endpoint) => endpoint.handler.handle(request, &mut out),
            None => Flow::Done,
        };
        match flow {
            Flow::Done => out.finish_for(request).map_or(RunResult::Failed, RunResult::Written),
            Flow::Later(answer) => {
                out.reset();
                let added = std::mem::take(&mut out.added);
                RunResult::Later(later_with_added(answer, added), out.waiting.take())
            }
        }
    }));
    match ran {
        Ok(RunResult::Failed) => log_panic(
            request,
            &"the writer removed bytes that it had not \
                                                      written",
        ),
        Ok(ran) => return ran,
        Err(panic) => log_panic(request, &*panic),
    }
    output.truncate(start);
    RunResult::Failed
}

/// Returns the answer to a request without an endpoint: 404, 405 with `Allow`, 501, or the 204 that
/// OPTIONS gets with `Allow` (RFC 9110, 9.3.7). The errors are problem documents.
pub(crate) fn unrouted(request: &Request, found: Found) -> Response {
    let allow = |mut answer: Response, allow: &str| {
        // Names of methods are fit for a header.
        let _ = answer.add_header("Allow".into(), allow.to_owned().into_bytes().into());
        answer
    };
    let paths = &request.0.context.paths;
    match found {
        Found::Options(node) => allow(Response::new(Status::NO_CONTENT), paths.allow(node)),
        Found::NotAllowed(node) => {
            let (method, allowed) = (request.method_name(), paths.allow(node));
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

/// Logs that a request's handler has panicked, with the request's method, path and id.
#[cold]
pub(crate) fn log_panic(request: &Request, panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(|text| &**text));
    let text = text.unwrap_or("no message");
    let (method, path, id) = (request.method_name(), request.path(), request.id());
    log::error!("the handler of {method} {path} panicked (request {id}): {text}");
}
