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

use crate::method::Method;
use crate::status::Status;

#[cfg(test)]
mod tests;

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

/// Why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeadError {
    /// The method is no token.
    Method,
    /// The target is not one of the four forms, or has a byte that must be percent-encoded.
    Target,
    /// The target is too long.
    TargetTooLong,
    /// No `HTTP/d.d` where the version belongs.
    VersionMalformed,
    /// A version other than 1.x.
    VersionUnsupported,
    /// A CR without LF, or an LF without CR.
    LineEnd,
    /// A line that starts with white space.
    Folded,
    /// A header name that is empty or no token.
    HeaderName,
    /// A control character in a value.
    HeaderValue,
    /// No `Host`, two of them, or one that is none.
    Host,
    /// A `Content-Length` that is no number, or more than one.
    ContentLength,
    /// `Transfer-Encoding` beside `Content-Length`, twice, in HTTP/1.0, or not ending in chunked.
    TransferEncoding,
    /// A transfer coding other than chunked.
    TransferCoding,
    /// An `Expect` other than `100-continue`.
    Expectation,
    /// The head is too long or has too many headers.
    TooLarge,
}

impl HeadError {
    /// The status that answers this error.
    pub fn status(self) -> Status {
        match self {
            Self::TargetTooLong => Status::URI_TOO_LONG,
            Self::VersionUnsupported => Status::VERSION_NOT_SUPPORTED,
            Self::TransferCoding => Status::NOT_IMPLEMENTED,
            Self::Expectation => Status::EXPECTATION_FAILED,
            Self::TooLarge => Status::HEADERS_TOO_LARGE,
            _ => Status::BAD_REQUEST,
        }
    }

    /// What was wrong, for the client.
    pub fn text(self) -> &'static str {
        match self {
            Self::Method => "the method is not a token",
            Self::Target => {
                "the request target is malformed: percent-encode what is not visible ASCII"
            }
            Self::TargetTooLong => "the request target is too long",
            Self::VersionMalformed => "the request line has no HTTP version",
            Self::VersionUnsupported => "only HTTP/1.0 and HTTP/1.1 are spoken here",
            Self::LineEnd => "lines end in CR LF, never in one of them",
            Self::Folded => "folded header lines are obsolete",
            Self::HeaderName => "a header name is malformed",
            Self::HeaderValue => "a header value has a control character",
            Self::Host => "exactly one valid Host header is required",
            Self::ContentLength => "Content-Length must be one decimal number",
            Self::TransferEncoding => "Transfer-Encoding is malformed or contradicts the length",
            Self::TransferCoding => "the only transfer coding understood is chunked",
            Self::Expectation => "the only expectation understood is 100-continue",
            Self::TooLarge => "the request head is too large",
        }
    }
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
    seen: Seen,
}

/// Headers that matter for framing, noted while the lines go by.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    host: bool,
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    expect: bool,
}

/// Why parsing stopped before the end.
enum Stop {
    Incomplete,
    Refused(HeadError),
}

impl From<HeadError> for Stop {
    fn from(error: HeadError) -> Self {
        Self::Refused(error)
    }
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
                self.seen = Seen::default();
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
                Some(_) => return Err(HeadError::Target.into()),
                None if end - at > bytes_max => return Err(HeadError::TargetTooLong.into()),
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

/// Checks the end of the head at `at`, or says what is wrong with the line that starts there.
fn end_of_head(buffer: &[u8], at: usize, name_end: usize) -> Result<usize, Stop> {
    match buffer.get(at) {
        Some(b'\r' | b'\n') => line_end(buffer, at),
        Some(b' ' | b'\t') => Err(HeadError::Folded.into()),
        Some(_) if name_end < buffer.len() => Err(HeadError::HeaderName.into()),
        _ => Err(Stop::Incomplete),
    }
}

/// The position after the CR LF at `at`.
fn line_end(buffer: &[u8], at: usize) -> Result<usize, Stop> {
    match (buffer.get(at), buffer.get(at + 1)) {
        (Some(b'\r'), Some(b'\n')) => Ok(at + 2),
        (Some(b'\r'), None) => Err(Stop::Incomplete),
        _ => Err(HeadError::LineEnd.into()),
    }
}

fn method_end(buffer: &[u8], at: usize) -> Result<usize, Stop> {
    /// Longer than any registered method, and short enough to refuse garbage early.
    const METHOD_BYTES_MAX: usize = 32;
    let end = token_end(buffer, at);
    match buffer.get(end) {
        _ if end - at > METHOD_BYTES_MAX => Err(HeadError::Method.into()),
        Some(b' ') if end > at => Ok(end),
        Some(_) => Err(HeadError::Method.into()),
        None => Err(Stop::Incomplete),
    }
}

/// The path of a target that does not start with a slash.
#[cold]
fn other_form(
    method: Method,
    buffer: &[u8],
    at: usize,
    end: usize,
    path_end: usize,
) -> Result<Span, HeadError> {
    let target = &buffer[at..end];
    if target == b"*" && method == Method::Options {
        return Ok(Span::new(at, at));
    }
    if method == Method::Connect && !target.is_empty() && is_host(target) {
        return Ok(Span::new(at, at));
    }
    let scheme = [&b"http://"[..], b"https://"]
        .into_iter()
        .find(|scheme| {
            target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        })
        .ok_or(HeadError::Target)?;
    let authority = at + scheme.len();
    let authority_end = buffer[authority..path_end]
        .iter()
        .position(|&byte| byte == b'/')
        .map_or(path_end, |n| authority + n);
    if authority_end == authority || !is_host(&buffer[authority..authority_end]) {
        return Err(HeadError::Target);
    }
    Ok(Span::new(authority_end, path_end))
}

/// Whether `text` is this name in upper or lower case. Setting bit 5 makes letters small and
/// leaves `-` as it is; no other byte that a token or a value can have becomes one of these.
/// Without early exit the loop is a few vector instructions.
#[inline]
fn is_name<const N: usize>(text: &[u8], small: &[u8; N]) -> bool {
    let Ok(text) = <&[u8; N]>::try_from(text) else { return false };
    let mut difference = 0;
    for (byte, small) in text.iter().zip(small) {
        difference |= (byte | 0x20) ^ small;
    }
    difference == 0
}

/// Whether all bytes may stand in a host with port.
#[inline]
fn is_host(text: &[u8]) -> bool {
    text.iter().fold(true, |all, &byte| all & HOST[byte as usize])
}

/// A number of digits only, as `Content-Length` has it.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Whether the bytes make a token, as names of headers and methods must.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && token_end(bytes, 0) == bytes.len()
}

/// The end of the token at `at`. Names are nearly always letters and `-`, which are told apart
/// eight at a time; only where that run ends does the table decide.
#[inline]
fn token_end(buffer: &[u8], at: usize) -> usize {
    let mut rest = buffer.get(at..).unwrap_or_default();
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        let others = not_letter_or_dash(u64::from_le_bytes(*word));
        if others != 0 {
            rest = &rest[(others.trailing_zeros() / 8) as usize..];
            break;
        }
        rest = after;
    }
    let length = rest.iter().position(|&byte| !TOKEN[byte as usize]).unwrap_or(rest.len());
    buffer.len() - rest.len() + length
}

/// The top bit of each byte that is neither an ASCII letter nor `-`. The sums stay inside
/// their bytes because only seven bits of each are added.
#[inline]
fn not_letter_or_dash(word: u64) -> u64 {
    const fn all(byte: u8) -> u64 {
        u64::from_le_bytes([byte; 8])
    }
    let small = (word | all(0x20)) & all(0x7f);
    let letter = (small + all(0x80 - b'a')) & !(small + all(0x7f - b'z'));
    let other_than_dash = ((word ^ all(b'-')) & all(0x7f)) + all(0x7f);
    (!letter & other_than_dash | word) & all(0x80)
}

/// The position of the CR LF that ends the value at `at`.
#[inline]
fn value_end(buffer: &[u8], at: usize) -> Result<usize, Stop> {
    let mut end = control(buffer, at);
    loop {
        match buffer.get(end) {
            Some(b'\r') => break,
            Some(b'\t') => end = control(buffer, end + 1),
            Some(b'\n') => return Err(HeadError::LineEnd.into()),
            Some(_) => return Err(HeadError::HeaderValue.into()),
            None => return Err(Stop::Incomplete),
        }
    }
    match buffer.get(end + 1) {
        Some(b'\n') => Ok(end),
        Some(_) => Err(HeadError::LineEnd.into()),
        None => Err(Stop::Incomplete),
    }
}

/// The first control character from `at` on, or the buffer's end.
///
/// Long values go 32 bytes at a time in a loop that the compiler turns into vector
/// instructions, short ones and the end of long ones eight: a byte below 0x20 borrows into its
/// top bit, and so does 0x7f after the exclusive or. A borrow can make a false hit only above a
/// true one, so the lowest hit is always true.
#[inline]
fn control(buffer: &[u8], at: usize) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const TOPS: u64 = ONES << 7;
    let mut rest = buffer.get(at..).unwrap_or_default();
    while let Some((block, after)) = rest.split_first_chunk::<32>() {
        if block.iter().fold(false, |any, &byte| any | (byte < 0x20) | (byte == 0x7f)) {
            break;
        }
        rest = after;
    }
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        let below = word.wrapping_sub(ONES * 0x20) & !word;
        let delete = word ^ (ONES * 0x7f);
        let delete = delete.wrapping_sub(ONES) & !delete;
        let hits = (below | delete) & TOPS;
        if hits != 0 {
            return buffer.len() - rest.len() + (hits.trailing_zeros() / 8) as usize;
        }
        rest = after;
    }
    let end = rest.iter().position(|&byte| byte < 0x20 || byte == 0x7f).unwrap_or(rest.len());
    buffer.len() - rest.len() + end
}

/// Whether a value may stand in a header.
pub(crate) fn is_value(value: &[u8]) -> bool {
    let end = control(value, 0);
    end == value.len()
        || value[end..].iter().all(|&byte| (byte >= 0x20 || byte == b'\t') && byte != 0x7f)
}

/// Bytes of a token (RFC 9110 5.6.2).
static TOKEN: [bool; 256] = table(b"!#$%&'*+-.^_`|~");
/// Bytes of a host with port (RFC 3986 3.2), brackets for IPv6 included.
static HOST: [bool; 256] = table(b"-._~!$&'()*+,;=:[]%");
/// Bytes of a target. Some, like `{` and `"`, ought to be percent-encoded, but every browser
/// and curl send them, and they mean one thing only. `?` is left out for its own case.
static TARGET: [bool; 256] = table(b"-._~!$&'()*+,;=:@/%[]{}|\\^`\"<>");

const fn table(others: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut index = 0;
    while index < others.len() {
        table[others[index] as usize] = true;
        index += 1;
    }
    table
}
