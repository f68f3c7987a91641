//! Writing an answer straight into the connection's output buffer, behind those of the
//! requests before it. The status line, `Server` and `Date` are one copy of prepared bytes;
//! `Content-Length` is filled in when the length of the body is known.

#[cfg(feature = "compression")]
mod compress;

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
use crate::reactor::task::{Task, Token};

/// A body of at least this many bytes is sent from where it is instead of being copied behind
/// its head: beyond it the copy costs more than the second slice in the system call.
const COPY_BYTES_MAX: usize = 16 * 1024;
/// Room for the digits of a length that is not known yet.
const LENGTH_DIGITS: usize = 10;
/// The last line of a head whose length is not known yet, and where its digits belong.
const OPEN_LENGTH: &[u8; 30] = b"Content-Length:           \r\n\r\n";
const LENGTH_AT: usize = 16;
/// A body up to this length is moved over the digits left free; a longer one keeps spaces there.
const MOVE_BYTES_MAX: usize = 4 * 1024;

/// What the answer says about the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// HTTP/1.1 goes on, which needs no word.
    Implied,
    /// HTTP/1.0 goes on, which must be said.
    KeepAlive,
    /// Closed after this answer.
    Close,
}

/// To whom a response goes, which decides its form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyTo {
    pub(crate) persistence: Persistence,
    /// The client wants the head only.
    pub(crate) head_only: bool,
    /// The client is of HTTP/1.0: it knows no chunks.
    pub(crate) is_http10: bool,
    /// The connection to wake when a handler that waits can go on.
    pub(crate) token: Token,
}

/// What follows an answer that is written.
pub(crate) enum Tail {
    /// A large body, sent from where it is.
    Body(Body),
    /// A body that is still to be made. In a box, so that answers without one move no bytes for it.
    Stream(Box<(BodyStream, Framing)>),
    /// What speaks on this connection from here on.
    UpgradedProtocol(UpgradedProtocol),
}

impl Tail {
    /// The length of the body in bytes; 0 for one that has no known length.
    pub(crate) fn body_bytes(&self) -> u64 {
        match self {
            Self::Body(body) => body.len() as u64,
            Self::Stream(stream) => stream.0.length().unwrap_or(0),
            Self::UpgradedProtocol(_) => 0,
        }
    }
}

/// How the client knows where a streamed body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Chunked,
    /// By `Content-Length`, of which so much is left.
    Length(u64),
    /// By the end of the connection (HTTP/1.0).
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing written; this status will be.
    Fresh(Status),
    /// The head is open for more headers.
    Head,
    /// The body is being written.
    Body { length_at: usize, body_start: usize },
    /// All is written.
    Whole,
}

/// Writes one answer. Set the status, add headers, then write the body; or hand over a whole
/// [`Response`]. An answer that was begun may be [`reset`](Self::reset) and begun again.
pub struct ResponseWriter<'a> {
    out: &'a mut Vec<u8>,
    local: &'a mut ThreadLocals,
    start: usize,
    stage: Stage,
    to: ReplyTo,
    /// The status has no body by definition.
    bodiless: bool,
    tail: Option<Tail>,
    pub(crate) endpoint: usize,
    /// What layers add to the answer, whatever it is.
    pub(crate) added: AddedHeaders,
    /// Layers have seen the request already, before its body came.
    pub(crate) layers_done: bool,
    /// The task of a future that was polled already and is pending.
    pub(crate) waiting: Option<Task>,
}

impl<'a> ResponseWriter<'a> {
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
        }
    }

    /// Sets the status; 200 when it is never set. Headers and a body already written are given
    /// up, as by [`reset`](Self::reset).
    pub fn status(&mut self, status: Status) -> &mut Self {
        self.reset();
        self.stage = Stage::Fresh(status);
        self
    }

    /// Adds a header.
    ///
    /// # Errors
    /// As [`Response::with_header`], and when the body is already begun.
    pub fn header(&mut self, name: &str, value: &str) -> Result<&mut Self, HeaderError> {
        check_header(name, value.as_bytes())?;
        self.put_header(name, value.as_bytes());
        Ok(self)
    }

    /// Adds `Content-Type`. A media type that cannot stand in a header is left out.
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

    /// Ends the head and gives the buffer in which the body is to be written: **append only**,
    /// earlier answers lie before it. A buffer found shorter than it was given is answered
    /// with 500.
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

    /// Bytes of body written by way of [`body_mut`](Self::body_mut) so far.
    pub fn body_len(&self) -> usize {
        match self.stage {
            Stage::Body { body_start, .. } => self.out.len().saturating_sub(body_start),
            _ => 0,
        }
    }

    /// Writes a whole body of this media type: the quick way when the bytes are at hand.
    pub fn send(&mut self, media_type: &str, body: &[u8]) {
        self.content_type(media_type);
        self.open_head();
        self.end_with_length(body.len());
        if !self.to.head_only && !self.bodiless {
            self.out.extend_from_slice(body);
        }
        self.stage = Stage::Whole;
    }

    /// Writes a whole answer in the place of what was begun.
    pub fn respond(&mut self, response: Response) {
        self.status(response.status());
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

    /// Adds lines of the head that are known to be fit for one, each with its end.
    #[inline]
    pub(crate) fn lines(&mut self, lines: &[u8]) -> &mut Self {
        self.open_head();
        self.out.extend_from_slice(lines);
        self
    }

    /// Ends the answer with a whole body.
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

    /// Ends the head and has the body made while it is sent.
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

    /// Ends the head of an answer behind which another protocol goes on.
    fn hand_over(&mut self, successor: UpgradedProtocol) {
        self.out.extend_from_slice(b"Connection: Upgrade\r\n\r\n");
        self.stage = Stage::Whole;
        self.tail = Some(Tail::UpgradedProtocol(successor));
    }

    /// Gives up everything written for this answer; the status is 200 again.
    pub fn reset(&mut self) {
        self.out.truncate(self.start);
        self.tail = None;
        self.stage = Stage::Fresh(Status::OK);
    }

    /// Whether anything was written.
    pub fn is_begun(&self) -> bool {
        !matches!(self.stage, Stage::Fresh(_))
    }

    fn put_header(&mut self, name: &str, value: &[u8]) {
        self.open_head();
        if matches!(self.stage, Stage::Head) {
            self.out.extend_from_slice(name.as_bytes());
            self.out.extend_from_slice(b": ");
            self.out.extend_from_slice(value);
            self.out.extend_from_slice(b"\r\n");
        }
    }

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

    fn put_persistence(&mut self) {
        match self.to.persistence {
            Persistence::Implied => {}
            Persistence::KeepAlive => self.out.extend_from_slice(b"Connection: keep-alive\r\n"),
            Persistence::Close => self.out.extend_from_slice(b"Connection: close\r\n"),
        }
    }

    /// Completes the answer to a request, compressed if its endpoint has that. `Err` as `finish`.
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

    /// Completes the answer. `Err` when the handler cut bytes off that were not its own.
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

    /// Ends an answer of a status without body whose handler opened a body all the same.
    fn drop_length(&mut self, length_at: usize) {
        self.out.truncate(length_at - LENGTH_AT);
        self.out.extend_from_slice(b"\r\n");
    }

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

    /// The status of an answer whose head is written, else the one that it will have.
    #[cfg(feature = "tracing")]
    pub(crate) fn written_status(&self) -> u16 {
        match self.stage {
            Stage::Fresh(status) => status.code(),
            _ => {
                let digits = self.out.get(self.start + 9..self.start + 12);
                let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
                digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
            }
        }
    }

    pub(crate) fn local(&mut self) -> &mut ThreadLocals {
        self.local
    }

    /// A task aimed at this connection, for a first poll.
    pub(crate) fn task(&mut self) -> Task {
        let task = self.local.take_task();
        task.aim(self.to.token);
        task.arm();
        task
    }
}

/// The decimal digits of a number, right-aligned, and how many they are.
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

fn decimal(out: &mut Vec<u8>, number: usize) {
    let (digits, count) = digits(number);
    out.extend_from_slice(&digits[digits.len() - count..]);
}
