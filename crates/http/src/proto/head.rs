//! A request's head as ranges in the buffer where it lies: functions on bytes, no socket, no
//! copies. [`Head::parse`] is given everything that has arrived and either fills the head,
//! wants more, or says with a [`HeadError`] why no more will help.
//!
//! Strict by RFC 9112: a bare CR or LF, folded lines, white space before a colon, control
//! characters, more than one length and everything else that two readers could understand
//! differently is refused, because such differences are what request smuggling is made of.
//! It decides framing (length, chunked) and persistence, not routing.
//!
//! Why by hand: the few headers that a server needs itself are recognised on the way, so no
//! second pass over them follows. `benches/head.rs` holds it against httparse and such a pass:
//! 0.97 of the instructions and 0.6 of the time, without run-time detection of instruction sets.

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

/// A range of bytes in the buffer that was parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        // Buffers are bounded far below 4 GiB by the limits, so the cast keeps its value.
        Self { start: start as u32, end: end as u32 }
    }

    /// The bytes of this range; empty when the buffer is not the one that was parsed.
    pub fn of(self, buffer: &[u8]) -> &[u8] {
        buffer.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// One header line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderSpan {
    /// The name, as it was sent.
    pub name: Span,
    /// The value without surrounding white space.
    pub value: Span,
}

/// The version of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: closes after the answer unless asked to keep the connection.
    Http10,
    /// HTTP/1.1 (and later minor versions).
    #[default]
    Http11,
    /// HTTP/2, which has no head of this kind: it was written as one of HTTP/1.1.
    Http2,
}

/// How the length of the body is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyLength {
    /// No body follows.
    #[default]
    None,
    /// `Content-Length`, more than 0.
    Exact(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

/// What a head may cost.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Bytes from the method to the empty line.
    pub bytes_max: usize,
    /// Header lines.
    pub headers_max: usize,
    /// Bytes of the target.
    pub target_bytes_max: usize,
}

/// A parsed head. Keep one and parse into it again: the list of headers is reused.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// The method.
    pub method: Method,
    /// The method as it stands on the wire.
    pub method_span: Span,
    /// The version.
    pub version: Version,
    /// The whole target.
    pub target: Span,
    /// The target's path; empty stands for `/` (absolute form) or `*`.
    pub path: Span,
    /// What follows the `?`, when there is one.
    pub query: Option<Span>,
    /// The header lines in order.
    pub headers: Vec<HeaderSpan>,
    /// Where the head ends and the body starts; 0 unless the last parse was successful.
    pub end: usize,
    /// How the body's length is given.
    pub body: BodyLength,
    /// Whether the client wants to keep the connection.
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expect_continue: bool,
    /// Where the header lines start.
    lines: usize,
    seen: FramingHeaders,
}

/// Headers that matter for framing, noted while the lines go by.
#[derive(Clone, Copy, Debug, Default)]
struct FramingHeaders {
    host: bool,
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    expect: bool,
}

impl Head {
    /// Parses the head that starts at `from`. `Ok(false)` means that more bytes are needed.
    ///
    /// A head that starts where the last one parsed into `self` has ended is taken for the next
    /// of a pipeline: the bytes before it must not have changed since. Clients repeat their
    /// header lines there to the byte, and comparing them is several times quicker than parsing
    /// them again.
    ///
    /// # Errors
    /// The [`HeadError`] of the first thing that no further byte could mend.
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

    /// Moves the header ranges to a repetition of the same lines.
    #[inline]
    fn shift(&mut self, bytes: usize) {
        let bytes = bytes as u32;
        for HeaderSpan { name, value } in &mut self.headers {
            for end in [&mut name.start, &mut name.end, &mut value.start, &mut value.end] {
                *end += bytes;
            }
        }
    }

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

    /// Reads the target from `at` up to its space, and where path and query lie in it.
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

    /// Notes a header that decides about framing or persistence; most names leave by length.
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

    #[cold]
    fn note_options(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',') {
            let option = option.trim_ascii();
            self.seen.close |= option.eq_ignore_ascii_case(b"close");
            self.seen.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

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

    /// Draws the conclusions from the headers, when all are known.
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
