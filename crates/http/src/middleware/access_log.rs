//! A line for each request, in the combined log format or as JSON.
//!
//! A server thread formats the lines of one turn into a buffer ([`LogLines`]), and passes it to a
//! [`BackgroundWriter`]. So a slow disk delays no request; lines that it cannot take are omitted
//! and counted. All text of clients is escaped: nothing in it can end a field or a line.

use std::fmt::Write as _;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::message::request::Request;
use crate::middleware::background_writer::BackgroundWriter;
use crate::socket::address::Peer;

/// A longer `User-Agent` or `Referer` is truncated.
const FIELD_BYTES_MAX: usize = 512;

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Combined,
    Json,
}

/// A log with a line for each request; see [`crate::Server::access_log`]. Refused requests and
/// requests without a route have a line too. Clones write to the same sink.
///
/// When the server has ended and the last clone is dropped, the remaining lines are written, for up
/// to a second.
///
/// ```no_run
/// use marmota_http::{AccessLog, Router, Server};
/// let file = std::fs::File::options().append(true).create(true).open("access.log")?;
/// let log = AccessLog::combined(file)?;
/// Server::bind("127.0.0.1:8080")?.access_log(&log).run(Router::new())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AccessLog {
    format: Format,
    writer: BackgroundWriter,
    /// The sink of [`AccessLog::and_json`].
    also: Option<BackgroundWriter>,
}

impl AccessLog {
    /// Writes lines in the combined log format of Apache and nginx: client, time in UTC, request
    /// line, status, bytes of the body, `Referer`, `User-Agent`. A missing value is `-`. The client
    /// is that of [`Request::client_ip`], so it respects trusted proxies.
    ///
    /// ```text
    /// 192.0.2.1 - - [10/Oct/2000:13:55:36 +0000] "GET /a?b=1 HTTP/1.1" 200 5 "-" "curl/8.5.0"
    /// ```
    ///
    /// ```
    /// use marmota_http::{AccessLog, Router, Server};
    ///
    /// let log = AccessLog::combined(std::io::stdout())?;
    /// let running = Server::bind("127.0.0.1:0")?.access_log(&log).start(Router::new())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The system's, if it cannot start a thread.
    pub fn combined(sink: impl Write + Send + 'static) -> std::io::Result<Self> {
        Self::new(Format::Combined, sink)
    }

    /// Writes a JSON object for each line, with these members: `time` (seconds since 1970, with
    /// milliseconds), `status`, `bytes` of the body, `duration_us` (microseconds from the last byte
    /// of the request to its answer), `peer`, `method`, `target`, `id` ([`Request::id`]),
    /// `user_agent`.
    ///
    /// ```
    /// use marmota_http::{AccessLog, Router, Server};
    ///
    /// let log = AccessLog::json(std::io::stderr())?;
    /// let running = Server::bind("127.0.0.1:0")?.access_log(&log).start(Router::new())?;
    /// running.shutdown()?;
    /// assert_eq!(log.lost(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`AccessLog::combined`].
    pub fn json(sink: impl Write + Send + 'static) -> std::io::Result<Self> {
        Self::new(Format::Json, sink)
    }

    /// Starts the thread that writes to the sink.
    fn new(format: Format, sink: impl Write + Send + 'static) -> std::io::Result<Self> {
        let writer = BackgroundWriter::new("marmota-access-log", Reporting(sink))?;
        Ok(Self { format, writer, also: None })
    }

    /// Writes the lines of [`AccessLog::json`] to a second sink as well, on another thread.
    ///
    /// ```
    /// use marmota_http::AccessLog;
    /// let log = AccessLog::combined(std::io::stdout())?.and_json(std::io::sink())?;
    /// assert_eq!(log.lost(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`AccessLog::combined`].
    pub fn and_json(mut self, sink: impl Write + Send + 'static) -> std::io::Result<Self> {
        self.also = Some(BackgroundWriter::new("marmota-json-log", sink)?);
        Ok(self)
    }

    /// Returns the number of pieces, of some lines each, that were omitted because the sink was too
    /// slow or failed.
    pub fn lost(&self) -> u64 {
        self.writer.lost()
    }

    /// Returns the buffer for the lines of one server thread.
    pub(crate) fn thread(&self) -> LogLines {
        LogLines { log: self.clone(), lines: String::new(), also: String::new() }
    }
}

/// A sink whose errors are logged. The access log itself only counts them.
struct Reporting<W>(W);

impl<W: Write> Write for Reporting<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes).inspect_err(|error| {
            log::error!("the access log cannot be written: {error}");
        })
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// An answer, for its line.
pub(crate) struct Answered<'a> {
    /// `None` if the received bytes are not a request.
    pub(crate) request: Option<&'a Request>,
    pub(crate) peer: Peer,
    pub(crate) status: u16,
    /// Bytes of the body; 0 for a body that is produced while it is sent.
    pub(crate) bytes: u64,
    /// Microseconds from the last byte of the request to its answer.
    pub(crate) took_us: u64,
}

/// The lines of one thread's turn.
pub(crate) struct LogLines {
    log: AccessLog,
    lines: String,
    /// The lines for the second sink.
    also: String,
}

impl LogLines {
    /// Adds a line.
    pub(crate) fn note(&mut self, answered: &Answered<'_>) {
        match self.log.format {
            Format::Combined => combined(&mut self.lines, answered, SystemTime::now()),
            Format::Json => json(&mut self.lines, answered, SystemTime::now()),
        }
        if self.log.also.is_some() {
            json(&mut self.also, answered, SystemTime::now());
        }
    }

    /// Passes the turn's lines to the writer.
    pub(crate) fn flush(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let lines = std::mem::take(&mut self.lines).into_bytes();
        self.log.writer.push(lines);
        if let Some(also) = &self.log.also {
            also.push(std::mem::take(&mut self.also).into_bytes());
        }
    }
}

/// Returns a header of the request, truncated to [`FIELD_BYTES_MAX`].
fn header<'a>(request: Option<&'a Request>, name: &str) -> Option<&'a str> {
    let text = request?.header_text(name)?;
    let mut end = text.len().min(FIELD_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Some(&text[..end])
}

/// Writes the client's address: the one that a trusted proxy reports, or that of the connection.
fn name(out: &mut String, request: Option<&Request>, peer: Peer) {
    let _ = match request.map_or(peer.ip(), Request::client_ip) {
        Some(address) => write!(out, "{address}"),
        None => write!(out, "{peer}"),
    };
}

/// Writes a line in the combined log format.
fn combined(out: &mut String, answered: &Answered<'_>, now: SystemTime) {
    let Answered { request, peer, status, bytes, .. } = *answered;
    name(out, request, peer);
    let _ = write!(out, " - - [{}] \"", clf_time(now));
    match request {
        Some(request) => {
            let version = match request.version() {
                crate::proto::head::Version::Http10 => "HTTP/1.0",
                crate::proto::head::Version::Http11 => "HTTP/1.1",
                crate::proto::head::Version::Http2 => "HTTP/2.0",
            };
            out.push_str(request.method_name());
            out.push(' ');
            quoted(out, request.target());
            let _ = write!(out, " {version}");
        }
        None => out.push('-'),
    }
    let _ = write!(out, "\" {status} {bytes} \"");
    quoted(out, header(request, "referer").unwrap_or("-"));
    out.push_str("\" \"");
    quoted(out, header(request, "user-agent").unwrap_or("-"));
    out.push_str("\"\n");
}

/// Writes a line of JSON.
fn json(out: &mut String, answered: &Answered<'_>, now: SystemTime) {
    let Answered { request, peer, status, bytes, took_us } = *answered;
    let time = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let _ = write!(
        out,
        "{{\"time\":{}.{:03},\"status\":{status},\"bytes\":{bytes},\"duration_us\":{took_us},\"peer\":\"",
        time.as_secs(),
        time.subsec_millis()
    );
    name(out, request, peer);
    out.push('"');
    if let Some(request) = request {
        for (name, value) in [
            ("method", Some(request.method_name())),
            ("target", Some(request.target())),
            ("id", Some(request.id())),
            ("user_agent", header(Some(request), "user-agent")),
        ] {
            if let Some(value) = value {
                let _ = write!(out, ",\"{name}\":\"");
                json_text(out, value);
                out.push('"');
            }
        }
    }
    out.push_str("}\n");
}

/// Writes text within quotes, escaped as Apache does it: nothing in it can end a field or a line.
fn quoted(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
}

/// Writes text within a JSON string (RFC 8259, 7).
fn json_text(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
}

/// Returns the time in the common log format, `10/Oct/2000:13:55:36 +0000`, made from `Tue, 10 Oct
/// 2000 13:55:36 GMT`.
fn clf_time(now: SystemTime) -> String {
    // A clock before 1970 has no such words.
    let date = httpdate::fmt_http_date(now.max(UNIX_EPOCH + Duration::from_secs(1)));
    let mut words = date.split(' ').skip(1);
    let mut word = || words.next().unwrap_or_default();
    let (day, month, year, time) = (word(), word(), word(), word());
    format!("{day}/{month}/{year}:{time} +0000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_cannot_be_broken_out_of() {
        let mut line = String::new();
        quoted(&mut line, "a\"b\\c\u{1}\u{7f}é");
        assert_eq!(line, "a\\\"b\\\\c\\x01\\x7fé");
        line.clear();
        json_text(&mut line, "a\"b\\\u{1}é");
        assert_eq!(line, "a\\\"b\\\\\\u0001é");
        let time = UNIX_EPOCH + Duration::from_secs(971_186_136);
        assert_eq!(clf_time(time), "10/Oct/2000:13:55:36 +0000");
        let answered =
            Answered { request: None, peer: Peer::Unix, status: 400, bytes: 7, took_us: 5 };
        line.clear();
        combined(&mut line, &answered, time);
        assert_eq!(line, "unix: - - [10/Oct/2000:13:55:36 +0000] \"-\" 400 7 \"-\" \"-\"\n");
    }
}
