//! The parser of a request's head (RFC 9112, 2 to 5): ranges in the buffer where the head lies.
//! Functions on bytes, no socket, no copies.
//!
//! [`Head::parse`] gets all bytes that have arrived. It fills the head, requests more bytes, or
//! reports with a [`HeadError`] why no further byte can help. The connection calls it again with
//! the same buffer when more has arrived; it then starts from the beginning, because almost all
//! heads arrive in one piece.
//!
//! It is strict: a bare CR or LF, folded lines, white space before a colon, control characters,
//! more than one length and everything else that two readers could understand differently is
//! refused. Request smuggling is made of such differences. The parser decides framing (the length
//! of the body) and persistence, not routing.
//!
//! The parser is written for this crate because it recognises the few headers that the server needs
//! while it reads the lines, so that no second pass over them follows. `benches/head.rs` compares
//! it with httparse and such a pass: 0.97 of the instructions and 0.6 of the time, without
//! detection of instruction sets at run time.
//!
//! ```
//! use marmota_http::head::{BodyLength, Head, HeadError, HeadLimits};
//!
//! let limits = HeadLimits { bytes_max: 1024, headers_max: 10, target_bytes_max: 100 };
//! let mut head = Head::default();
//! let text = b"POST /tasks?list=7 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
//! assert_eq!(head.parse(text, 0, &limits), Ok(true));
//! assert_eq!(head.method_span.of(text), b"POST");
//! assert_eq!(head.query.map(|span| span.of(text)), Some(&b"list=7"[..]));
//! assert_eq!(head.body, BodyLength::Exact(3));
//! assert_eq!(&text[head.end..], b"abc");
//!
//! let smuggled =
//!     b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
//! assert_eq!(head.parse(smuggled, 0, &limits), Err(HeadError::TransferEncoding));
//! ```

mod error;
mod scan;
#[cfg(test)]
mod tests;

pub use error::HeadError;
pub(crate) use scan::{is_token, is_value};

use crate::proto::method::Method;
use error::Stop;
use scan::{
    TARGET, decimal, end_of_head, is_host, is_name, line_end, method_end, other_form, token_end,
    value_end,
};

/// A range of bytes in the buffer that was parsed. It stays valid when the buffer moves in memory,
/// which a slice would not.
///
/// ```
/// use marmota_http::head::Span;
/// let span = Span { start: 4, end: 8 };
/// assert_eq!(span.of(b"GET /a/b HTTP/1.1"), b"/a/b");
/// assert_eq!(span.of(b"GET"), b"", "not the buffer that was parsed");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The index of the first byte.
    pub start: u32,
    /// The index after the last byte.
    pub end: u32,
}

impl Span {
    /// Returns the range from `start` to before `end`.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        // Buffers are bounded far below 4 GiB by the limits, so the cast keeps its value.
        Self { start: start as u32, end: end as u32 }
    }

    /// Returns the bytes of this range in `buffer`; empty if the buffer is shorter.
    ///
    /// ```
    /// use marmota_http::head::Span;
    /// assert_eq!(Span { start: 0, end: 3 }.of(b"GET /"), b"GET");
    /// ```
    pub fn of(self, buffer: &[u8]) -> &[u8] {
        buffer.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// The ranges of one header line.
///
/// ```
/// use marmota_http::head::{Head, HeadLimits};
/// let limits = HeadLimits { bytes_max: 1024, headers_max: 10, target_bytes_max: 100 };
/// let text = b"GET / HTTP/1.1\r\nHost:  a \r\n\r\n";
/// let mut head = Head::default();
/// assert_eq!(head.parse(text, 0, &limits), Ok(true));
/// assert_eq!(head.headers[0].name.of(text), b"Host");
/// assert_eq!(head.headers[0].value.of(text), b"a");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderSpan {
    /// The name, as it was sent.
    pub name: Span,
    /// The value, without the white space around it.
    pub value: Span,
}

/// The version of HTTP that a client uses.
///
/// ```
/// use marmota_http::{Request, Router, TestRequest, Version};
/// async fn version(request: Request) -> &'static str {
///     match request.version() {
///         Version::Http10 => "1.0",
///         Version::Http11 => "1.1",
///         Version::Http2 => "2",
///     }
/// }
/// let router = Router::new().get("/", version);
/// assert_eq!(router.call(TestRequest::get("/"))?.text(), "1.1");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: the connection is closed after the answer unless the client requests to keep it.
    Http10,
    /// HTTP/1.1, and later minor versions.
    #[default]
    Http11,
    /// HTTP/2 (RFC 9113). Its frames are translated to a head of HTTP/1.1 before they get here.
    Http2,
}

/// How the end of a request's body is determined (RFC 9112, 6.3).
///
/// ```
/// use marmota_http::head::{BodyLength, Head, HeadLimits};
/// let limits = HeadLimits { bytes_max: 1024, headers_max: 10, target_bytes_max: 100 };
/// let text = b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
/// let mut head = Head::default();
/// assert_eq!(head.parse(text, 0, &limits), Ok(true));
/// assert_eq!(head.body, BodyLength::Chunked);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyLength {
    /// No body follows. A `Content-Length` of 0 is the same.
    #[default]
    None,
    /// `Content-Length`: this many bytes, at least one.
    Exact(u64),
    /// `Transfer-Encoding: chunked`: see [`chunked`](crate::chunked).
    Chunked,
}

/// The limits on a head. The server takes them from [`Limits`](crate::Limits), which has defaults.
///
/// ```
/// use marmota_http::head::{Head, HeadError, HeadLimits};
/// let limits = HeadLimits { bytes_max: 1024, headers_max: 1, target_bytes_max: 100 };
/// let text = b"GET / HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n";
/// assert_eq!(Head::default().parse(text, 0, &limits), Err(HeadError::TooLarge));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// The maximum number of bytes from the method to the empty line.
    pub bytes_max: usize,
    /// The maximum number of header lines.
    pub headers_max: usize,
    /// The maximum number of bytes of the target.
    pub target_bytes_max: usize,
}

/// A parsed head: the ranges of its parts, and the conclusions from its headers.
///
/// Parse all requests of a connection into one `Head`, because its list of headers is reused.
///
/// ```
/// use marmota_http::head::{Head, HeadLimits};
/// let limits = HeadLimits { bytes_max: 1024, headers_max: 10, target_bytes_max: 100 };
/// // Two requests in one buffer (a pipeline).
/// let text = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.0\r\nHost: x\r\n\r\n";
/// let mut head = Head::default();
/// assert_eq!(head.parse(text, 0, &limits), Ok(true));
/// assert!(head.keep_alive && head.path.of(text) == b"/a");
/// let next = head.end;
/// assert_eq!(head.parse(text, next, &limits), Ok(true));
/// assert!(!head.keep_alive && head.path.of(text) == b"/b");
/// let names: Vec<&[u8]> = head.headers.iter().map(|header| header.name.of(text)).collect();
/// assert_eq!(names, [b"Host"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// The method.
    pub method: Method,
    /// The method's name, as it was sent.
    pub method_span: Span,
    /// The version.
    pub version: Version,
    /// The whole target, as it was sent.
    pub target: Span,
    /// The path of the target. An empty one stands for `/` (in the absolute form, `http://host`) or
    /// for `*`.
    pub path: Span,
    /// The part of the target after the first `?`.
    pub query: Option<Span>,
    /// The header lines, in order.
    pub headers: Vec<HeaderSpan>,
    /// The index at which the head ends and the body starts; 0 unless the last parse was
    /// successful.
    pub end: usize,
    /// How the body's end is determined.
    pub body: BodyLength,
    /// True if the client wants to keep the connection after the answer.
    pub keep_alive: bool,
    /// True if the client waits for `100 Continue` before it sends the body (RFC 9110, 10.1.1).
    pub expect_continue: bool,
    /// The index at which the header lines start, for the comparison with the next head.
    lines: usize,
    /// The headers that decide framing and persistence.
    seen: FramingHeaders,
}

/// The headers that decide framing and persistence, recorded while the lines are read.
#[derive(Clone, Copy, Debug, Default)]
struct FramingHeaders {
    /// `Host` was found.
    host: bool,
    /// The value of `Content-Length`.
    length: Option<u64>,
    /// `Transfer-Encoding: chunked` was found.
    chunked: bool,
    /// `Connection` has the option `close`.
    close: bool,
    /// `Connection` has the option `keep-alive`.
    keep_alive: bool,
    /// `Expect: 100-continue` was found.
    expect: bool,
}

impl Head {
    /// Parses the head that starts at `from` in `buffer`. Returns true if it is complete, and false
    /// if more bytes are needed; the fields are then not valid.
    ///
    /// A head that starts where the last one parsed into `self` has ended is taken for the next one
    /// of a pipeline. The bytes before it must not have changed since. Clients repeat their header
    /// lines there to the byte, and to compare them is several times faster than to parse them
    /// again.
    ///
    /// ```
    /// use marmota_http::head::{Head, HeadLimits};
    /// let limits = HeadLimits { bytes_max: 1024, headers_max: 10, target_bytes_max: 100 };
    /// let text = b"GET /a?b=1 HTTP/1.1\r\nHost: x\r\n\r\n";
    /// let mut head = Head::default();
    /// assert_eq!(head.parse(text, 0, &limits), Ok(true));
    /// assert_eq!(head.path.of(text), b"/a");
    /// assert_eq!(head.parse(&text[..20], 0, &limits), Ok(false));
    /// ```
    ///
    /// # Errors
    /// The [`HeadError`] of the first fault that no further byte can repair. A head that is longer
    /// than `limits.bytes_max` is [`HeadError::TooLarge`], even if it is not complete.
    pub fn parse(
        &mut self,
        buffer: &[u8],
        from: usize,
        limits: &HeadLimits,
    ) -> Result<bool, HeadError> {
        let end = buffer.len().min(from + limits.bytes_max);
        match self.parse_within(&buffer[..end], from, limits) {
            Ok(()) => Ok(true),
            Err(Stop::Incomplete) if end - from < limits.bytes_max => Ok(false),
            Err(Stop::Incomplete) => Err(HeadError::TooLarge),
            Err(Stop::Refused(error)) => Err(error),
        }
    }

    /// Parses within `buffer`, which is cut at the limit of bytes. `self.end` is 0 until all has
    /// succeeded, so that a failed parse is never taken for the previous head of a pipeline.
    fn parse_within(
        &mut self,
        buffer: &[u8],
        from: usize,
        limits: &HeadLimits,
    ) -> Result<(), Stop> {
        let before = self.lines..std::mem::take(&mut self.end);
        let at = self.request_line(buffer, from, limits)?;
        let end = match buffer.get(before.clone()) {
            Some(lines)
                if before.end == from && !lines.is_empty() && buffer[at..].starts_with(lines) =>
            {
                self.shift(at - before.start);
                at + lines.len()
            }
            _ => {
                self.headers.clear();
                self.seen = FramingHeaders::default();
                self.header_lines(buffer, at, limits.headers_max)?
            }
        };
        self.lines = at;
        self.settle()?;
        self.end = end;
        Ok(())
    }

    /// Moves the ranges of the headers by this many bytes, to a repetition of the same lines.
    #[inline]
    fn shift(&mut self, bytes: usize) {
        let bytes = bytes as u32;
        for HeaderSpan { name, value } in &mut self.headers {
            for end in [&mut name.start, &mut name.end, &mut value.start, &mut value.end] {
                *end += bytes;
            }
        }
    }

    /// Reads method, target and version. Returns the index of the first header line.
    #[inline]
    fn request_line(
        &mut self,
        buffer: &[u8],
        from: usize,
        limits: &HeadLimits,
    ) -> Result<usize, Stop> {
        let mut at = from;
        // RFC 9112 2.2: an empty line before the request line is passed over.
        if buffer.get(at) == Some(&b'\r') {
            at = line_end(buffer, at)?;
        }
        let method_end = match buffer.get(at..at + 4) {
            Some(b"GET ") => at + 3,
            _ => method_end(buffer, at)?,
        };
        self.method_span = Span::new(at, method_end);
        self.method = Method::from_name(&buffer[at..method_end]);
        let target_end = self.target(buffer, method_end + 1, limits.target_bytes_max)?;
        self.version_line(buffer, target_end + 1)
    }

    /// Reads the target from `at` to its space, and finds its path and query. Returns the index of
    /// the space.
    #[inline]
    fn target(&mut self, buffer: &[u8], at: usize, bytes_max: usize) -> Result<usize, Stop> {
        let mut question = None;
        let mut end = at;
        loop {
            let rest = buffer.get(end..).unwrap_or_default();
            end += rest.iter().position(|&byte| !TARGET[byte as usize]).unwrap_or(rest.len());
            match buffer.get(end) {
                Some(b' ') => break,
                Some(b'?') => {
                    question = question.or(Some(end));
                    end += 1;
                }
                // The length decides first, so that a part of a request is refused as all of it is.
                _ if end - at > bytes_max => return Err(HeadError::TargetTooLong.into()),
                Some(_) => return Err(HeadError::Target.into()),
                None => return Err(Stop::Incomplete),
            }
        }
        if end - at > bytes_max {
            return Err(HeadError::TargetTooLong.into());
        }
        self.target = Span::new(at, end);
        self.query = question.map(|mark| Span::new(mark + 1, end));
        let path_end = question.unwrap_or(end);
        self.path = if buffer[at] == b'/' {
            Span::new(at, path_end)
        } else {
            other_form(self.method, buffer, at, end, path_end)?
        };
        Ok(end)
    }

    /// Reads the version and the end of the request line. Returns the index after it.
    #[inline]
    fn version_line(&mut self, buffer: &[u8], at: usize) -> Result<usize, Stop> {
        if buffer.get(at..at + 10) == Some(b"HTTP/1.1\r\n") {
            self.version = Version::Http11;
            return Ok(at + 10);
        }
        for (offset, expected) in b"HTTP/".iter().enumerate() {
            match buffer.get(at + offset) {
                Some(byte) if byte == expected => {}
                Some(_) => return Err(HeadError::VersionMalformed.into()),
                None => return Err(Stop::Incomplete),
            }
        }
        let Some(&[major, dot, minor]) = buffer.get(at + 5..at + 8) else {
            return Err(Stop::Incomplete);
        };
        if !major.is_ascii_digit() || dot != b'.' || !minor.is_ascii_digit() {
            return Err(HeadError::VersionMalformed.into());
        }
        if major != b'1' {
            return Err(HeadError::VersionUnsupported.into());
        }
        self.version = if minor == b'0' { Version::Http10 } else { Version::Http11 };
        match buffer.get(at + 8) {
            Some(b'\r' | b'\n') => line_end(buffer, at + 8),
            Some(_) => Err(HeadError::VersionMalformed.into()),
            None => Err(Stop::Incomplete),
        }
    }

    /// Reads the header lines up to the empty line. Returns the index after it.
    #[inline]
    fn header_lines(
        &mut self,
        buffer: &[u8],
        mut at: usize,
        headers_max: usize,
    ) -> Result<usize, Stop> {
        loop {
            let name_end = token_end(buffer, at);
            if buffer.get(name_end) != Some(&b':') || name_end == at {
                return end_of_head(buffer, at, name_end);
            }
            let mut value_start = name_end + 1;
            while matches!(buffer.get(value_start), Some(b' ' | b'\t')) {
                value_start += 1;
            }
            let line_stop = value_end(buffer, value_start)?;
            if self.headers.len() == headers_max {
                return Err(HeadError::TooLarge.into());
            }
            let mut value_stop = line_stop;
            while value_stop > value_start && matches!(buffer[value_stop - 1], b' ' | b'\t') {
                value_stop -= 1;
            }
            self.headers.push(HeaderSpan {
                name: Span::new(at, name_end),
                value: Span::new(value_start, value_stop),
            });
            self.note(&buffer[at..name_end], &buffer[value_start..value_stop])?;
            at = line_stop + 2;
        }
    }

    /// Records a header that decides framing or persistence. Most names are dismissed by their
    /// length.
    #[inline]
    fn note(&mut self, name: &[u8], value: &[u8]) -> Result<(), HeadError> {
        match name.len() {
            4 if is_name(name, b"host") => {
                if self.seen.host || !is_host(value) {
                    return Err(HeadError::Host);
                }
                self.seen.host = true;
            }
            6 if is_name(name, b"expect") => {
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(HeadError::Expectation);
                }
                self.seen.expect = true;
            }
            10 if is_name(name, b"connection") => {
                if is_name(value, b"keep-alive") {
                    self.seen.keep_alive = true;
                } else {
                    self.note_options(value);
                }
            }
            14 if is_name(name, b"content-length") => {
                let length = decimal(value).ok_or(HeadError::ContentLength)?;
                if self.seen.length.replace(length).is_some() {
                    return Err(HeadError::ContentLength);
                }
            }
            17 if is_name(name, b"transfer-encoding") => self.note_coding(value)?,
            _ => {}
        }
        Ok(())
    }

    /// Records the options of a `Connection` header that is a list.
    #[cold]
    fn note_options(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',') {
            let option = option.trim_ascii();
            self.seen.close |= option.eq_ignore_ascii_case(b"close");
            self.seen.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// Records a `Transfer-Encoding`. Only `chunked` alone is accepted: a list that ends in it is
    /// valid but not implemented (501), all else is malformed (400; RFC 9112, 6.1).
    #[cold]
    fn note_coding(&mut self, value: &[u8]) -> Result<(), HeadError> {
        if self.seen.chunked {
            return Err(HeadError::TransferEncoding);
        }
        let mut codings = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        let last_is_chunked =
            codings.next_back().is_some_and(|last| last.eq_ignore_ascii_case(b"chunked"));
        match codings.next() {
            None if last_is_chunked => {
                self.seen.chunked = true;
                Ok(())
            }
            Some(first)
                if last_is_chunked
                    && !first.is_empty()
                    && !first.eq_ignore_ascii_case(b"chunked") =>
            {
                Err(HeadError::TransferCoding)
            }
            None if is_token(value) => Err(HeadError::TransferCoding),
            _ => Err(HeadError::TransferEncoding),
        }
    }

    /// Draws the conclusions from the headers once all are known: framing, and whether the
    /// connection is kept.
    #[inline]
    fn settle(&mut self) -> Result<(), HeadError> {
        let seen = self.seen;
        let http11 = self.version == Version::Http11;
        if http11 && !seen.host {
            return Err(HeadError::Host);
        }
        if seen.chunked && (seen.length.is_some() || !http11) {
            return Err(HeadError::TransferEncoding);
        }
        self.body = match seen.length {
            _ if seen.chunked => BodyLength::Chunked,
            Some(length) if length > 0 => BodyLength::Exact(length),
            _ => BodyLength::None,
        };
        self.keep_alive = !seen.close && (http11 || seen.keep_alive);
        self.expect_continue = seen.expect && http11;
        Ok(())
    }
}
