//! Answering a request that stands in the buffer: by its handler, now or later, or in the name
//! of one that is not there; and what follows for the connection.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

use super::{Connection, Phase, Timing, own};
use crate::handler::{Flow, LaterResponse};
use crate::head::Version;
use crate::local::Local;
use crate::method::Method;
use crate::request::Request;
use crate::response::Response;
use crate::router::Found;
use crate::status::Status;
use crate::task::Task;
use crate::writer::{Persistence, ResponseWriter, Tail};

/// What running a handler came to.
enum Outcome {
    Written(Result<Option<Tail>, ()>),
    Later(LaterResponse, Option<Task>),
}

impl Connection {
    /// Has the request that stands in the buffer answered.
    pub(super) fn run(&mut self, local: &mut Local) {
        let Found::Endpoint(endpoint) = self.found else {
            return self.answer_unrouted(local, false);
        };
        let Some(request) = &self.request else { return };
        if self.output.capacity() == 0 {
            self.output = local.take_output();
        }
        let persistence = self.persistence(request, local);
        let client = client_of(request);
        let start = self.output.len();
        let output = &mut self.output;
        let token = self.token;
        // The closure leaves nothing half done behind that is used again: after a panic the
        // output is cut back to its start and the connection closed.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut out = ResponseWriter::new(output, local, persistence, client, token);
            out.endpoint = endpoint;
            let flow = match request.0.routes.endpoint(endpoint) {
                Some(endpoint) => endpoint.handler.handle(request, &mut out),
                None => Flow::Done,
            };
            match flow {
                Flow::Done => Outcome::Written(out.finish()),
                Flow::Later(answer) => {
                    out.reset();
                    Outcome::Later(answer, out.waiting.take())
                }
            }
        }));
        match outcome {
            Ok(Outcome::Written(Ok(tail))) => self.finish_request(tail, persistence, local),
            Ok(Outcome::Later(answer, Some(task))) => self.phase = Phase::Waiting { answer, task },
            Ok(Outcome::Later(answer, None)) => self.first_poll(answer, local),
            Ok(Outcome::Written(Err(()))) | Err(_) => {
                self.output.truncate(start);
                self.answer_panic(local);
            }
        }
    }

    fn first_poll(&mut self, mut answer: LaterResponse, local: &mut Local) {
        let task = local.take_task();
        task.aim(self.token);
        task.arm();
        let polled = catch_unwind(AssertUnwindSafe(|| {
            answer.as_mut().poll(&mut Context::from_waker(task.waker()))
        }));
        match polled {
            Ok(Poll::Pending) => self.phase = Phase::Waiting { answer, task },
            Ok(Poll::Ready(response)) => {
                drop(answer);
                local.give_task(task);
                self.answer_later(response, local);
            }
            Err(_) => self.answer_panic(local),
        }
    }

    /// Writes an answer that came after its handler had returned.
    pub(super) fn answer_later(&mut self, response: Response, local: &mut Local) {
        self.phase = Phase::Head;
        let Some(request) = &self.request else { return };
        let persistence = self.persistence(request, local);
        self.write(response, persistence, local);
    }

    pub(super) fn answer_panic(&mut self, local: &mut Local) {
        self.phase = Phase::Head;
        self.write(Response::from_status(Status::INTERNAL_SERVER_ERROR), Persistence::Close, local);
    }

    /// Answers a request that no endpoint takes.
    pub(super) fn answer_unrouted(&mut self, local: &mut Local, close: bool) {
        let Some(request) = &self.request else { return };
        let allow = |status, node| {
            let allow = request.0.routes.allow(node).to_owned();
            Response::from_status(status)
                .with_header("Allow", allow)
                .unwrap_or(Response::from_status(status))
        };
        let response = match self.found {
            Found::Options(node) => allow(Status::NO_CONTENT, node),
            Found::NotAllowed(node) => allow(Status::METHOD_NOT_ALLOWED, node),
            Found::NotImplemented => Response::from_status(Status::NOT_IMPLEMENTED),
            _ if request.target() == "*" => Response::new(Status::NO_CONTENT),
            _ => Response::from_status(Status::NOT_FOUND),
        };
        let implemented = self.found != Found::NotImplemented;
        let persistence = match self.persistence(request, local) {
            goes_on if implemented && !close => goes_on,
            _ => Persistence::Close,
        };
        self.write(response, persistence, local);
        if close && let Phase::Closing { linger } = &mut self.phase {
            *linger = true;
        }
    }

    /// Answers what is not a request, or not one that is read to its end, and closes.
    #[cold]
    pub(super) fn refuse(&mut self, response: Response, local: &mut Local) {
        self.write(response, Persistence::Close, local);
        self.phase = Phase::Closing { linger: true };
    }

    fn write(&mut self, response: Response, persistence: Persistence, local: &mut Local) {
        if self.output.capacity() == 0 {
            self.output = local.take_output();
        }
        let client = self.request.as_ref().map_or((false, false), client_of);
        let mut out = ResponseWriter::new(&mut self.output, local, persistence, client, self.token);
        out.respond(response);
        let tail = out.finish().unwrap_or_default();
        self.finish_request(tail, persistence, local);
    }

    /// The answer is written: the request's bytes are used up.
    #[inline]
    fn finish_request(&mut self, tail: Option<Tail>, persistence: Persistence, local: &mut Local) {
        self.timing = Timing::None;
        match tail {
            None => {}
            Some(Tail::Body(body)) => self.tail = Some((body, 0)),
            Some(Tail::Stream(stream)) => {
                let (body, framing) = *stream;
                self.start_stream(body, framing, persistence, local);
                if self.upload.is_none() {
                    self.use_up_request();
                }
                return;
            }
        }
        if persistence == Persistence::Close {
            // A client that did not ask for the end may have sent more, which would make the
            // close a reset; one that did ask has not.
            let linger = self.request.as_ref().is_none_or(|request| {
                request.0.head.keep_alive || request.0.buffer.len() > self.next_at
            });
            self.phase = Phase::Closing { linger };
        }
        if self.upload.is_some() {
            self.end_upload();
        }
        self.use_up_request();
    }

    #[inline]
    fn use_up_request(&mut self) {
        if let Some(request) = &mut self.request {
            let next_at = self.next_at;
            let exchange = own(request);
            exchange.consumed = next_at.min(exchange.buffer.len());
        }
    }

    #[inline]
    fn persistence(&self, request: &Request, local: &Local) -> Persistence {
        let head = &request.0.head;
        let worn_out =
            local.limits.requests_per_connection_max.is_some_and(|max| self.requests >= max);
        match head.version {
            _ if !head.keep_alive || worn_out || local.draining || self.is_uploading() => {
                Persistence::Close
            }
            Version::Http11 => Persistence::Implied,
            Version::Http10 => Persistence::Said,
        }
    }
}

#[cold]
pub(super) fn refusal(status: Status, text: &'static str) -> Response {
    Response::text(text).with_status(status)
}

/// Whether the client wants the head only, and whether it is of HTTP/1.0.
#[inline]
fn client_of(request: &Request) -> (bool, bool) {
    let head = &request.0.head;
    (head.method == Method::Head, head.version == Version::Http10)
}
