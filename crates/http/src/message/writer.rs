//! The writer of an answer: it writes into the output buffer of a connection, after the answers to
//! earlier requests. The status line, `Server` and `Date` are one copy of prepared bytes;
//! `Content-Length` is filled in when the length of the body is known.
//!
//! A body that is large or produced later is not written here: it becomes the [`Tail`] of the
//! answer, which the connection sends. The writer also hides the differences between clients: HEAD,
//! HTTP/1.0, and connections that are closed after the answer ([`ReplyTo`]). HTTP/2 translates its
//! output.

#[cfg(feature = "compression")]
mod compress;
mod reply;
pub(crate) mod written;

use crate::body::Body;
use crate::body::producer::BodyStream;
use crate::message::added_headers::AddedHeaders;
use crate::message::protocol::UpgradedProtocol;
use crate::message::request::Request;
use crate::message::response::{Payload, Response};
use crate::message::thread_locals::ThreadLocals;
use crate::proto::head::is_value;
use crate::proto::header::{HeaderError, check_header};
use crate::proto::status::Status;
use crate::reactor::event::Token;
use crate::reactor::task::Task;
pub(crate) use reply::{Framing, Persistence, ReplyTo, Tail};

/// The length from which a body is sent from where it is instead of being copied after its head:
/// from there on the copy costs more than the second slice in the system call.
const COPY_BYTES_MAX: usize = 16 * 1024;
/// The room for the digits of a length that is not known yet.
const LENGTH_DIGITS: usize = 10;
/// The last line of a head whose length is not known yet.
const OPEN_LENGTH: &[u8; 30] = b"Content-Length:           \r\n\r\n";
/// The index of the digits in it.
const LENGTH_AT: usize = 16;
/// The length up to which a body is moved over the digits that are left free; before a longer one
/// the spaces stay, which the grammar permits.
const MOVE_BYTES_MAX: usize = 4 * 1024;

/// The state of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing is written; the answer will have this status.
    Fresh(Status),
    /// The head is open for more headers.
    Head,
    /// The body is being written, after a head whose length has to be filled in.
    Body { length_at: usize, body_start: usize },
    /// The answer is complete.
    Whole,
}

/// A writer of one answer, for direct handlers ([`Endpoint::direct`](crate::Endpoint::direct)). Set
/// the status, add headers, then write the body; or pass a whole [`Response`]. An answer that was
/// begun may be [`reset`](Self::reset) and begun again.
///
/// ```
/// use marmota_http::{Flow, Method, Response, Router, Status, TestRequest};
/// let router = Router::new().direct(Method::Get, "/half/{n:int}", |request, out| {
///     let number = request.param_int_at(0).unwrap_or(0);
///     if number % 2 != 0 {
///         out.respond(Response::problem(Status::NOT_FOUND, "the number is odd"));
///         return Flow::Done;
///     }
///     let body = out.content_type("text/plain").body_mut();
///     body.extend_from_slice((number / 2).to_string().as_bytes());
///     Flow::Done
/// });
/// assert_eq!(router.call(TestRequest::get("/half/8"))?.text(), "4");
/// assert_eq!(router.call(TestRequest::get("/half/7"))?.status(), Status::NOT_FOUND);
/// # Ok::<(), marmota_http::CallError>(())
/// ```
pub struct ResponseWriter<'a> {
    /// The output of the connection. Bytes before `start` belong to earlier answers.
    out: &'a mut Vec<u8>,
    /// The state of the thread.
    local: &'a mut ThreadLocals,
    /// The index at which this answer starts.
    start: usize,
    /// The state.
    stage: Stage,
    /// The client.
    to: ReplyTo,
    /// The status has no body by definition.
    bodiless: bool,
    /// The part that the connection sends afterwards.
    tail: Option<Tail>,
    /// The number of the endpoint, for its allocation of futures.
    pub(crate) endpoint: usize,
    /// The headers that layers add to any answer.
    pub(crate) added: AddedHeaders,
    /// The layers have run already, before the body arrived.
    pub(crate) layers_done: bool,
    /// The task of a future that was polled already and is pending.
    pub(crate) waiting: Option<Task>,
    /// The place of an answer that is not sent but returned as a value, if it is passed as one.
    value: Option<&'a mut Option<Response>>,
}

impl<'a> ResponseWriter<'a> {
    /// Begins an answer at the end of `out`.
    pub(crate) fn new(out: &'a mut Vec<u8>, local: &'a mut ThreadLocals, to: ReplyTo) -> Self {
        let start = out.len();
        Self {
            out,
            local,
            start,
            stage: Stage::Fresh(Status::OK),
            to,
            bodiless: false,
            tail: None,
            endpoint: usize::MAX,
            added: AddedHeaders::default(),
            layers_done: false,
            waiting: None,
            value: None,
        }
    }

    /// Begins an answer that is not sent but returned as a value: `value` gets it if it is passed to
    /// [`respond`](Self::respond); else `out` has it
    /// ([`Written`](crate::message::writer::written::Written)). The layers have run already. `token`
    /// is that of the connection.
    pub(crate) fn for_value(
        out: &'a mut Vec<u8>,
        local: &'a mut ThreadLocals,
        token: Token,
        value: &'a mut Option<Response>,
    ) -> Self {
        let persistence = Persistence::Implied;
        let to = ReplyTo { persistence, head_only: false, is_http10: false, token };
        let mut writer = Self::new(out, local, to);
        writer.layers_done = true;
        writer.value = Some(value);
        writer
    }

    /// Returns the name of the connection, for wake-ups.
    pub(crate) fn token(&self) -> Token {
        self.to.token
    }

    /// Sets the status. Headers and a body that were already written are discarded, as by
    /// [`reset`](Self::reset). Default: 200.
    ///
    /// ```
    /// use marmota_http::{Flow, Method, Router, Status, TestRequest};
    /// let router = Router::new().direct(Method::Post, "/", |_, out| {
    ///     out.status(Status::CREATED).send("text/plain", b"made");
    ///     Flow::Done
    /// });
    /// assert_eq!(router.call(TestRequest::post("/"))?.status(), Status::CREATED);
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn status(&mut self, status: Status) -> &mut Self {
        self.reset();
        self.stage = Stage::Fresh(status);
        self
    }

    /// Adds a header. It has no effect once the body was begun.
    ///
    /// ```
    /// use marmota_http::{Flow, Method, Router, TestRequest};
    /// let router = Router::new().direct(Method::Get, "/", |_, out| {
    ///     // A constant header is always valid.
    ///     if let Ok(out) = out.header("Cache-Control", "max-age=60") {
    ///         out.send("text/plain", b"cached");
    ///     }
    ///     Flow::Done
    /// });
    /// assert_eq!(router.call(TestRequest::get("/"))?.header("cache-control"), Some("max-age=60"));
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Response::with_header`].
    pub fn header(&mut self, name: &str, value: &str) -> Result<&mut Self, HeaderError> {
        check_header(name, value.as_bytes())?;
        self.put_header(name, value.as_bytes());
        Ok(self)
    }

    /// Adds `Content-Type`. A media type that is not valid in a header is left out. It is fastest
    /// as the first call, because the start of the answer is then one prepared block.
    ///
    /// ```
    /// use marmota_http::{Flow, Method, Router, TestRequest};
    /// let router = Router::new().direct(Method::Get, "/", |_, out| {
    ///     out.content_type("text/csv").body_mut().extend_from_slice(b"a,b\n");
    ///     Flow::Done
    /// });
    /// assert_eq!(router.call(TestRequest::get("/"))?.header("content-type"), Some("text/csv"));
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[inline]
    pub fn content_type(&mut self, media_type: &str) -> &mut Self {
        if self.stage == Stage::Fresh(Status::OK)
            && self.added.is_empty()
            && let Some(head) = self.local.head_typed(media_type)
        {
            self.out.extend_from_slice(head);
            self.stage = Stage::Head;
        } else if is_value(media_type.as_bytes()) {
            self.put_header("Content-Type", media_type.as_bytes());
        }
        self
    }

    /// Ends the head, and returns the buffer into which the body is written: **append only**,
    /// because earlier answers are before it. If the buffer becomes shorter than it was, the
    /// request is answered 500.
    ///
    /// ```
    /// use marmota_http::{Flow, Method, Router, TestRequest};
    /// let router = Router::new().direct(Method::Get, "/numbers", |_, out| {
    ///     let body = out.content_type("text/plain").body_mut();
    ///     for number in 0..3 {
    ///         body.extend_from_slice(number.to_string().as_bytes());
    ///     }
    ///     Flow::Done
    /// });
    /// assert_eq!(router.call(TestRequest::get("/numbers"))?.text(), "012");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn body_mut(&mut self) -> &mut Vec<u8> {
        if !matches!(self.stage, Stage::Body { .. } | Stage::Whole) {
            self.open_head();
            self.put_persistence();
            self.out.extend_from_slice(OPEN_LENGTH);
            let body_start = self.out.len();
            self.stage = Stage::Body { length_at: body_start - 4 - LENGTH_DIGITS, body_start };
        }
        self.out
    }

    /// Returns the number of bytes written to [`body_mut`](Self::body_mut) so far.
    ///
    /// ```
    /// use marmota_http::{Flow, Method, Router, TestRequest};
    /// let router = Router::new().direct(Method::Get, "/", |_, out| {
    ///     while out.body_len() < 5 {
    ///         out.body_mut().extend_from_slice(b"ab");
    ///     }
    ///     Flow::Done
    /// });
    /// assert_eq!(router.call(TestRequest::get("/"))?.text(), "ababab");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn body_len(&self) -> usize {
        match self.stage {
            Stage::Body { body_start, .. } => self.out.len().saturating_sub(body_start),
            _ => 0,
        }
    }

    /// Writes a complete body of this media type, and ends the answer. It is the shortest way if
    /// the bytes are at hand.
    ///
    /// ```
    /// use marmota_http::{Flow, Method, Router, TestRequest};
    /// let router = Router::new().direct(Method::Get, "/", |_, out| {
    ///     out.send("text/plain", b"hello");
    ///     Flow::Done
    /// });
    /// assert_eq!(router.call(TestRequest::get("/"))?.text(), "hello");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn send(&mut self, media_type: &str, body: &[u8]) {
        self.content_type(media_type);
        self.open_head();
        self.end_with_length(body.len());
        if !self.to.head_only && !self.bodiless {
            self.out.extend_from_slice(body);
        }
        self.stage = Stage::Whole;
    }

    /// Writes a whole answer, and discards anything that was written before.
    ///
    /// ```
    /// use marmota_http::{Flow, Method, Response, Router, TestRequest};
    /// let router = Router::new().direct(Method::Get, "/", |_, out| {
    ///     out.body_mut().extend_from_slice(b"a part");
    ///     out.respond(Response::text("the whole"));
    ///     Flow::Done
    /// });
    /// assert_eq!(router.call(TestRequest::get("/"))?.text(), "the whole");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn respond(&mut self, response: Response) {
        self.status(response.status());
        if let Some(value) = &mut self.value {
            **value = Some(response);
            self.stage = Stage::Whole;
            return;
        }
        if !response.content_type().is_empty() {
            self.content_type(response.content_type());
        }
        self.open_head();
        for (name, value) in response.headers() {
            self.put_header(name, value);
        }
        let body = match response.into_payload() {
            Payload::Whole(body) => body,
            Payload::Stream(body) => return self.stream(body),
            Payload::UpgradedProtocol(successor) => return self.hand_over(successor),
        };
        self.whole(body);
    }

    /// Adds lines of the head that are known to be valid, each with its line end.
    #[inline]
    pub(crate) fn lines(&mut self, lines: &[u8]) -> &mut Self {
        self.open_head();
        self.out.extend_from_slice(lines);
        self
    }

    /// Ends the answer with a complete body, which is copied if it is short.
    #[inline]
    pub(crate) fn whole(&mut self, body: Body) {
        self.open_head();
        self.end_with_length(body.len());
        self.stage = Stage::Whole;
        if self.to.head_only || self.bodiless {
            return;
        }
        if body.len() < COPY_BYTES_MAX {
            self.out.extend_from_slice(body.as_bytes());
        } else {
            self.tail = Some(Tail::Body(body));
        }
    }

    /// Ends the head, and has the body produced while it is sent. It has no effect once a body was
    /// begun.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use marmota_http::{BodyStream, Flow, Method, Router, TestRequest};
    /// let router = Router::new().direct(Method::Get, "/", |_, out| {
    ///     out.content_type("text/plain").stream(BodyStream::new(|out: &mut Vec<u8>| {
    ///         out.extend_from_slice(b"later");
    ///         Ok(ControlFlow::Break(()))
    ///     }));
    ///     Flow::Done
    /// });
    /// assert_eq!(router.call(TestRequest::get("/"))?.text(), "later");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn stream(&mut self, body: BodyStream) {
        self.open_head();
        if self.stage != Stage::Head {
            return;
        }
        self.stage = Stage::Whole;
        let framing = match body.length() {
            _ if self.bodiless => return self.end_with_length(0),
            Some(length) => Framing::Length(length),
            None if self.to.is_http10 => Framing::Close,
            None => Framing::Chunked,
        };
        if framing == Framing::Close && !self.to.head_only {
            self.to.persistence = Persistence::Close;
        }
        self.put_persistence();
        match framing {
            Framing::Chunked => self.out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            Framing::Length(length) => {
                self.out.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
            }
            Framing::Close => {}
        }
        self.out.extend_from_slice(b"\r\n");
        if !self.to.head_only {
            self.tail = Some(Tail::Stream(Box::new((body, framing))));
        }
    }

    /// Ends the head of an answer after which another protocol continues.
    fn hand_over(&mut self, successor: UpgradedProtocol) {
        self.out.extend_from_slice(b"Connection: Upgrade\r\n\r\n");
        self.stage = Stage::Whole;
        self.tail = Some(Tail::UpgradedProtocol(successor));
    }

    /// Discards everything written for this answer. The status is 200 again.
    ///
    /// ```
    /// use marmota_http::{Flow, Method, Router, TestRequest};
    /// let router = Router::new().direct(Method::Get, "/", |_, out| {
    ///     out.body_mut().extend_from_slice(b"wrong");
    ///     out.reset();
    ///     out.send("text/plain", b"right");
    ///     Flow::Done
    /// });
    /// assert_eq!(router.call(TestRequest::get("/"))?.text(), "right");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn reset(&mut self) {
        self.out.truncate(self.start);
        self.tail = None;
        self.stage = Stage::Fresh(Status::OK);
        if let Some(value) = &mut self.value {
            **value = None;
        }
    }

    /// Returns true if anything was written for this answer.
    ///
    /// ```
    /// use marmota_http::{Flow, Method, Router, TestRequest};
    /// let router = Router::new().direct(Method::Get, "/", |_, out| {
    ///     assert!(!out.is_begun());
    ///     out.content_type("text/plain");
    ///     assert!(out.is_begun());
    ///     Flow::Done
    /// });
    /// assert_eq!(router.call(TestRequest::get("/"))?.status().code(), 200);
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn is_begun(&self) -> bool {
        !matches!(self.stage, Stage::Fresh(_))
    }

    /// Writes a header, unless the head has ended.
    fn put_header(&mut self, name: &str, value: &[u8]) {
        self.open_head();
        if matches!(self.stage, Stage::Head) {
            self.out.extend_from_slice(name.as_bytes());
            self.out.extend_from_slice(b": ");
            self.out.extend_from_slice(value);
            self.out.extend_from_slice(b"\r\n");
        }
    }

    /// Writes the start of the head, once: the status line, `Server`, `Date`, and the headers of
    /// layers.
    fn open_head(&mut self) {
        let Stage::Fresh(status) = self.stage else { return };
        self.bodiless = status.bodiless();
        if status == Status::OK {
            self.out.extend_from_slice(self.local.head_ok());
        } else {
            self.out.extend_from_slice(b"HTTP/1.1 ");
            decimal(self.out, usize::from(status.code()));
            self.out.push(b' ');
            self.out.extend_from_slice(status.reason().as_bytes());
            self.out.extend_from_slice(b"\r\n");
            self.out.extend_from_slice(self.local.head_common());
        }
        self.stage = Stage::Head;
        for (name, value) in self.added.iter() {
            self.out.extend_from_slice(name.as_bytes());
            self.out.extend_from_slice(b": ");
            self.out.extend_from_slice(value);
            self.out.extend_from_slice(b"\r\n");
        }
    }

    /// Ends the head of an answer whose body has this length.
    #[inline]
    fn end_with_length(&mut self, length: usize) {
        self.put_persistence();
        if self.bodiless {
            self.out.extend_from_slice(b"\r\n");
            return;
        }
        // One copy of a line made on the stack is cheaper than one for each of its parts.
        let mut line = *OPEN_LENGTH;
        let end = LENGTH_AT
            + length.checked_ilog10().map_or(1, |log| log as usize + 1).min(LENGTH_DIGITS);
        let mut left = length;
        for digit in line[LENGTH_AT..end].iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
        }
        line[end..end + 4].copy_from_slice(b"\r\n\r\n");
        self.out.extend_from_slice(&line[..end + 4]);
    }

    /// Writes the `Connection` header, if one is needed.
    fn put_persistence(&mut self) {
        match self.to.persistence {
            Persistence::Implied => {}
            Persistence::KeepAlive => self.out.extend_from_slice(b"Connection: keep-alive\r\n"),
            Persistence::Close => self.out.extend_from_slice(b"Connection: close\r\n"),
        }
    }

    /// Completes the answer to this request, and compresses it if its endpoint has a
    /// [`Compression`](crate::Compression). `Err` as [`ResponseWriter::finish`].
    pub(crate) fn finish_for(&mut self, request: &Request) -> Result<Option<Tail>, ()> {
        let tail = self.finish()?;
        #[cfg(feature = "compression")]
        {
            let exchange = &request.0;
            let compresses_from = &exchange.context.compresses_from;
            let endpoint = exchange.endpoint.and_then(|index| compresses_from.get(index));
            if let Some(bytes_min) = endpoint.copied().flatten() {
                return Ok(compress::compress(request, bytes_min, self.out, self.start, tail));
            }
        }
        #[cfg(not(feature = "compression"))]
        let _ = request;
        Ok(tail)
    }

    /// Completes the answer, and returns its tail. `Err` if the handler has made the output shorter
    /// than it was.
    pub(crate) fn finish(&mut self) -> Result<Option<Tail>, ()> {
        match self.stage {
            Stage::Whole => {}
            Stage::Body { length_at, body_start } => {
                if self.out.len() < body_start {
                    return Err(());
                }
                if self.bodiless {
                    self.drop_length(length_at);
                } else {
                    self.fill_length(length_at, body_start);
                }
            }
            Stage::Fresh(_) | Stage::Head => {
                self.open_head();
                self.end_with_length(0);
            }
        }
        self.stage = Stage::Whole;
        Ok(self.tail.take())
    }

    /// Ends an answer with a status without a body, although its handler has begun a body.
    fn drop_length(&mut self, length_at: usize) {
        self.out.truncate(length_at - LENGTH_AT);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Fills in the length of the body that was written.
    fn fill_length(&mut self, length_at: usize, body_start: usize) {
        let length = self.out.len() - body_start;
        let (digits, count) = digits(length);
        let digits = &digits[digits.len() - count..];
        let body_end = if self.to.head_only { body_start } else { self.out.len() };
        if body_end - body_start <= MOVE_BYTES_MAX {
            self.out[length_at..length_at + count].copy_from_slice(digits);
            let free = LENGTH_DIGITS - count;
            self.out.copy_within(length_at + LENGTH_DIGITS..body_end, length_at + count);
            self.out.truncate(body_end - free);
        } else {
            let end = length_at + LENGTH_DIGITS;
            self.out[end - count..end].copy_from_slice(digits);
        }
    }

    /// Returns the status of an answer whose head is written, otherwise the one that it will have.
    #[cfg(feature = "tracing")]
    pub(crate) fn written_status(&self) -> u16 {
        match (self.stage, self.value.as_deref()) {
            (Stage::Fresh(status), _) => status.code(),
            (_, Some(Some(value))) => value.status().code(),
            _ => {
                let digits = self.out.get(self.start + 9..self.start + 12);
                let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
                digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
            }
        }
    }

    /// Returns the state of the thread.
    pub(crate) fn local(&mut self) -> &mut ThreadLocals {
        self.local
    }

    /// Returns a task that wakes this connection, for the first poll of a future.
    pub(crate) fn task(&mut self) -> Task {
        let task = self.local.take_task();
        task.aim(self.to.token);
        task.arm();
        task
    }
}

/// Returns the decimal digits of a number, right-aligned, and their count.
fn digits(mut number: usize) -> ([u8; LENGTH_DIGITS], usize) {
    let mut digits = [0; LENGTH_DIGITS];
    let mut count = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        count += 1;
        if number == 0 {
            break;
        }
    }
    (digits, count)
}

/// Appends a number in decimal digits, without the formatting machinery.
fn decimal(out: &mut Vec<u8>, number: usize) {
    let (digits, count) = digits(number);
    out.extend_from_slice(&digits[digits.len() - count..]);
}
