//! Answers to a buffered request: by its handler, at once or later, or by the server if no endpoint
//! matches; and the state of the connection afterwards.
//!
//! All answers end in [`Connection::finish_request`], which decides whether the connection
//! continues. An answer is written to the end of the output, after those of earlier pipelined
//! requests; nothing is sent here.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

use crate::connection::state::{Connection, Phase, Timing, own};
use crate::message::protocol::LINGER_BYTES_MAX;
use crate::message::request::Request;
use crate::message::response::LaterResponse;
use crate::message::response::Response;
use crate::message::thread_locals::ThreadLocals;
use crate::message::writer::{Persistence, ReplyTo, ResponseWriter, Tail};
use crate::proto::head::{BodyLength, Version};
use crate::proto::method::Method;
use crate::proto::paths::Found;
use crate::proto::status::Status;
use crate::reactor::event::Token;
use crate::reactor::task::Task;
use crate::routing::dispatch::{self, RunResult};

impl Connection {
    /// Runs the handler of the buffered request, whose whole body is in the buffer unless the
    /// handler reads it as it arrives.
    ///
    /// An answer that is written at once goes to the output, without an allocation. A handler that
    /// answers later returns a future. It is polled once here, since most are ready at once, and
    /// then belongs to [`Phase::Waiting`].
    pub(super) fn run(&mut self, local: &mut ThreadLocals) {
        let Found::Endpoint(endpoint) = self.found else {
            return self.answer_unrouted(local, false);
        };
        let Some(request) = &self.request else { return };
        if self.output.capacity() == 0 {
            self.output = local.take_output();
        }
        let persistence = self.persistence(request, local);
        let start = self.output.len();
        let to = reply_to(Some(request), persistence, self.token);
        match dispatch::run(&self.routes, request, endpoint, &mut self.output, local, to) {
            RunResult::Written(tail) => {
                self.record(start, tail.as_ref(), local);
                self.finish_request(tail, persistence, local);
            }
            RunResult::Later(answer, Some(task)) => self.wait(answer, task, local),
            RunResult::Later(answer, None) => self.first_poll(answer, local),
            RunResult::Failed => self.answer_panic(None, local),
        }
    }

    /// Polls an answer for the first time, with a task of the thread. The task of a handler that is
    /// ready at once goes back to the thread.
    fn first_poll(&mut self, mut answer: LaterResponse, local: &mut ThreadLocals) {
        let task = local.take_task();
        task.aim(self.token);
        task.arm();
        let polled = catch_unwind(AssertUnwindSafe(|| {
            answer.as_mut().poll(&mut Context::from_waker(task.waker()))
        }));
        match polled {
            Ok(Poll::Pending) => self.wait(answer, task, local),
            Ok(Poll::Ready(response)) => {
                drop(answer);
                local.give_task(task);
                self.answer_later(response, local);
            }
            Err(panic) => self.answer_panic(Some(&*panic), local),
        }
    }

    /// Waits for a handler for as long as its endpoint allows.
    fn wait(&mut self, answer: LaterResponse, task: Task, local: &ThreadLocals) {
        let endpoint = self.request.as_ref().and_then(|request| {
            let exchange = &request.0;
            self.routes.endpoint(exchange.endpoint?)
        });
        let deadline_ms = endpoint
            .and_then(|endpoint| endpoint.timeout_ms)
            .map_or(u64::MAX, |timeout_ms| local.now_ms.saturating_add(timeout_ms));
        self.phase = Phase::Waiting { answer, task, deadline_ms };
    }

    /// Writes an answer that became ready after its handler had returned, and ends the wait.
    pub(super) fn answer_later(&mut self, response: Response, local: &mut ThreadLocals) {
        self.phase = Phase::Head;
        let Some(request) = &self.request else { return };
        let persistence = self.persistence(request, local);
        self.write(response, persistence, local);
    }

    /// Answers 500 in place of a handler that has panicked, and closes the connection: the handler
    /// may have left the request's body unread. `panic` is `None` if it is logged already.
    pub(super) fn answer_panic(
        &mut self,
        panic: Option<&(dyn Any + Send)>,
        local: &mut ThreadLocals,
    ) {
        self.phase = Phase::Head;
        if let (Some(panic), Some(request)) = (panic, &self.request) {
            dispatch::log_panic(request, panic);
        }
        self.write(Response::from_status(Status::INTERNAL_SERVER_ERROR), Persistence::Close, local);
    }

    /// Answers a request that matches no endpoint (404, 405, 501). With `close`, the client may
    /// send a body that is not read, so the connection ends after the answer.
    pub(super) fn answer_unrouted(&mut self, local: &mut ThreadLocals, close: bool) {
        let Some(request) = &self.request else { return };
        let response = dispatch::unrouted(request, self.found);
        let implemented = self.found != Found::NotImplemented;
        let persistence = match self.persistence(request, local) {
            goes_on if implemented && !close => goes_on,
            _ => Persistence::Close,
        };
        self.write(response, persistence, local);
        if close && let Phase::Closing { linger_bytes } = &mut self.phase {
            *linger_bytes = LINGER_BYTES_MAX;
        }
    }

    /// Answers an invalid request, or one that is not read to its end, and closes the connection.
    /// Input is discarded for a while first, or the client might get a reset instead of the answer.
    #[cold]
    pub(super) fn refuse(&mut self, response: Response, local: &mut ThreadLocals) {
        self.write(response, Persistence::Close, local);
        self.phase = Phase::Closing { linger_bytes: LINGER_BYTES_MAX };
    }

    /// Answers a request whose body was not read. The connection stays open if the length of the
    /// body is known and all of it has arrived; it is skipped then.
    #[cold]
    pub(super) fn refuse_unread(&mut self, response: Response, local: &mut ThreadLocals) {
        let Some(request) = &self.request else { return };
        let (head, come) = (&request.0.head, request.0.buffer.len() as u64);
        match head.body {
            BodyLength::Exact(length) if come >= head.end as u64 + length => {
                self.next_at = head.end + length as usize;
                let persistence = self.persistence(request, local);
                self.write(response, persistence, local);
            }
            _ => self.refuse(response, local),
        }
    }

    /// Writes an answer of the server, or of a handler that has waited.
    fn write(&mut self, response: Response, persistence: Persistence, local: &mut ThreadLocals) {
        if self.output.capacity() == 0 {
            self.output = local.take_output();
        }
        let start = self.output.len();
        let to = reply_to(self.request.as_ref(), persistence, self.token);
        let mut out = ResponseWriter::new(&mut self.output, local, to);
        out.respond(response);
        let finished = match &self.request {
            Some(request) => out.finish_for(request),
            None => out.finish(),
        };
        let tail = finished.unwrap_or_default();
        self.record(start, tail.as_ref(), local);
        self.finish_request(tail, persistence, local);
    }

    /// Finishes a request whose answer is written: keeps the part of the answer that is not in the
    /// output, and discards the bytes of the request.
    ///
    /// The next phase is `Streaming` for a body that is produced while it is sent, `Taken` for
    /// another protocol, `Closing` if the connection does not stay open, and `Head` otherwise.
    #[inline]
    fn finish_request(
        &mut self,
        tail: Option<Tail>,
        persistence: Persistence,
        local: &mut ThreadLocals,
    ) {
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
            Some(Tail::UpgradedProtocol(successor)) => {
                self.use_up_request();
                return self.take_over(successor.0, local);
            }
        }
        if persistence == Persistence::Close {
            // A client that did not request the close may have sent more, which would turn the
            // close into a reset; one that requested it has not.
            let linger = self.request.as_ref().is_none_or(|request| {
                request.0.head.keep_alive || request.0.buffer.len() > self.next_at
            });
            self.phase = Phase::Closing { linger_bytes: if linger { LINGER_BYTES_MAX } else { 0 } };
        }
        if self.upload.is_some() {
            self.end_upload();
        }
        self.use_up_request();
    }

    /// Reports the answer that begins at `start` in the output to the server's observer. `tail` is
    /// the part of it that is not in the output.
    #[inline]
    pub(super) fn record(&mut self, start: usize, tail: Option<&Tail>, local: &mut ThreadLocals) {
        if let Some(observer) = &mut local.observer {
            let request = self.request.as_ref().filter(|_| self.is_known);
            let answer = self.output.get(start..).unwrap_or_default();
            let rest = tail.map_or(0, Tail::body_bytes);
            observer.note_written(request, self.peer, answer, rest);
        }
    }

    /// Marks the bytes of the request as consumed. They stay in the buffer until it is compacted.
    #[inline]
    fn use_up_request(&mut self) {
        self.is_known = false;
        if let Some(request) = &mut self.request {
            let next_at = self.next_at;
            let exchange = own(request);
            exchange.consumed = next_at.min(exchange.buffer.len());
        }
    }

    /// Returns whether the connection stays open after the answer, and whether the answer must
    /// state it: HTTP/1.0 needs `Connection: keep-alive`. It is closed on the client's request,
    /// after the maximum number of requests, during a shutdown, and if the body is incomplete.
    #[inline]
    fn persistence(&self, request: &Request, local: &ThreadLocals) -> Persistence {
        let head = &request.0.head;
        let worn_out =
            local.limits.requests_per_connection_max.is_some_and(|max| self.requests >= max);
        match head.version {
            _ if !head.keep_alive || worn_out || local.draining || self.is_uploading() => {
                Persistence::Close
            }
            Version::Http11 | Version::Http2 => Persistence::Implied,
            Version::Http10 => Persistence::KeepAlive,
        }
    }
}

/// Returns the properties of the request that the writer of its answer needs.
#[inline]
fn reply_to(request: Option<&Request>, persistence: Persistence, token: Token) -> ReplyTo {
    let head = request.map(|request| &request.0.head);
    ReplyTo {
        persistence,
        head_only: head.is_some_and(|head| head.method == Method::Head),
        is_http10: head.is_some_and(|head| head.version == Version::Http10),
        token,
    }
}
