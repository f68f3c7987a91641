//! `/api/-/log`: the last lines of the access log and of the log, and slow requests, in a ring of
//! bounded size.
//!
//! ```text
//! GET /api/-/log          {"lines":[…],"slow_requests":[…],"slow_operations":[…],"slow_from_ms":100}
//! GET /api/-/log/live     event: line
//!                         id: 17
//!                         data: {"kind":"access","number":17,"request":{"method":"GET",…}}
//! ```
//!
//! The access log and the log write to it on threads of their own, so a request does not wait for it.
//! A stream ends after a minute: the browser connects again, which authenticates the caller again.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use marmota_auth::Auth;
use marmota_http::{BodyStream, BoxError, Event, Method, Producer, Request, Response};
use marmota_model::{Error, ErrorKind, Timestamp};
use marmota_rest::{ApiResult, admin_endpoint};
use marmota_store::Store;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::AdminRoute;

/// The number of slow requests that are kept.
const SLOW_MAX: usize = 100;
/// The maximum size of a line, and of the target in a line of the access log, in bytes.
const LINE_BYTES_MAX: usize = 2_048;
/// The number of streams at a time.
const STREAMS_MAX: usize = 20;
/// The time after which a stream ends.
const STREAM_TIME: Duration = Duration::from_secs(60);
const MAY: &str = "see the log";

/// The last lines of the access log and of the log. Clones refer to the same lines.
///
/// ```
/// use std::io::Write;
/// use marmota::operations::RecentLog;
///
/// let log = RecentLog::new(500, None);
/// log.writer().write_all(b"the disk is almost full\n")?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct RecentLog(Arc<Mutex<Ring>>);

/// The lines, and who waits for more.
struct Ring {
    lines_max: usize,
    lines: VecDeque<LogLine>,
    /// The number of the next line.
    next: u64,
    slow_from: Option<Duration>,
    slow: VecDeque<SlowRequest>,
    waiting: Vec<Waker>,
    streams: usize,
}

/// A line of the ring.
#[derive(Clone, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum LogLine {
    Access { number: u64, request: AccessLine },
    Log { number: u64, text: String },
}

impl LogLine {
    const fn number(&self) -> u64 {
        match self {
            Self::Access { number, .. } | Self::Log { number, .. } => *number,
        }
    }
}

/// A line of [`marmota_http::AccessLog::json`].
#[derive(Clone, Deserialize, Serialize)]
struct AccessLine {
    time: f64,
    status: u16,
    bytes: u64,
    duration_us: u64,
    peer: String,
    #[serde(default)]
    method: String,
    #[serde(default)]
    target: String,
    #[serde(default)]
    id: String,
}

/// A request that took long. It has no values: the query of its URL is left out.
#[derive(Clone, Serialize)]
struct SlowRequest {
    at: String,
    method: String,
    path: String,
    status: u16,
    seconds: f64,
    id: String,
}

impl RecentLog {
    /// Keeps this number of lines, and the last 100 requests that took at least `slow_from`.
    ///
    /// ```
    /// use std::time::Duration;
    /// let log = marmota::operations::RecentLog::new(1000, Some(Duration::from_millis(200)));
    /// # let _ = log;
    /// ```
    #[must_use]
    pub fn new(lines_max: usize, slow_from: Option<Duration>) -> Self {
        Self(Arc::new(Mutex::new(Ring {
            lines_max: lines_max.max(1),
            lines: VecDeque::new(),
            next: 1,
            slow_from,
            slow: VecDeque::new(),
            waiting: Vec::new(),
            streams: 0,
        })))
    }

    /// Returns a sink for [`marmota_http::AccessLog::json`].
    ///
    /// ```
    /// use marmota::http::AccessLog;
    /// use marmota::operations::RecentLog;
    /// let recent = RecentLog::new(1000, Some(std::time::Duration::from_millis(200)));
    /// let log = AccessLog::combined(std::io::stdout())?.and_json(recent.access_sink())?;
    /// # let _ = log;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn access_sink(&self) -> impl Write + Send + use<> {
        RecentSink { log: self.clone(), is_access: true }
    }

    /// Returns a writer for lines of text, such as those of a log.
    #[must_use]
    pub fn writer(&self) -> impl Write + Send + use<> {
        RecentSink { log: self.clone(), is_access: false }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds lines, and wakes the streams once.
    fn add(&self, bytes: &[u8], is_access: bool) {
        let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let waiting = {
            let mut ring = self.ring();
            for line in lines {
                match is_access {
                    true => ring.add_access(line),
                    false => ring.add_text(&String::from_utf8_lossy(line)),
                }
            }
            std::mem::take(&mut ring.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(super) fn routes(&self, auth: Option<&Auth>, store: &Store) -> [AdminRoute; 2] {
        let (all, live, store) = (self.clone(), self.clone(), store.clone());
        let all = admin_endpoint(auth, MAY, move |_, _| {
            let body = all.document(&store).to_string().into_bytes();
            async move { Ok(Response::json_bytes(body)) }
        });
        let live = admin_endpoint(auth, MAY, move |request, _| {
            let answer = live.stream(&request);
            async move { answer }
        });
        let what = "Returns the last lines of the log, slow requests and slow operations";
        [
            AdminRoute::new(Method::Get, "/log", what, all),
            AdminRoute::new(Method::Get, "/log/live", "Sends lines of the log as events", live)
                .answer("text/event-stream"),
        ]
    }

    fn document(&self, store: &Store) -> Value {
        let slow_operations = store.activity().map(|activity| activity.slow);
        let ring = self.ring();
        json!({
            "lines_max": ring.lines_max,
            "lines": ring.lines,
            "slow_from_ms": ring.slow_from.map(|time| time.as_millis() as u64),
            "slow_requests": ring.slow,
            "slow_operations": slow_operations.unwrap_or_default(),
        })
    }

    /// Returns the events after that of `Last-Event-ID`, or new ones.
    fn stream(&self, request: &Request) -> ApiResult<Response> {
        let last = request.last_event_id().and_then(|id| id.parse().ok());
        let mut ring = self.ring();
        if ring.streams >= STREAMS_MAX {
            let message = format!("{STREAMS_MAX} others follow the log already; try again later");
            return Err(Error::new(ErrorKind::Busy, message).into());
        }
        ring.streams += 1;
        let last = last.unwrap_or(ring.next - 1);
        drop(ring);
        let stream = LogStream { log: self.clone(), last, begun: Instant::now() };
        Ok(Response::event_stream(BodyStream::new(stream)))
    }
}

impl std::fmt::Debug for RecentLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecentLog").field("lines", &self.ring().lines.len()).finish_non_exhaustive()
    }
}

impl Ring {
    fn add_text(&mut self, line: &str) {
        let (number, text) = (self.next, shortened(line).to_owned());
        self.push(LogLine::Log { number, text });
    }

    fn add_access(&mut self, line: &[u8]) {
        let Ok(mut request) = serde_json::from_slice::<AccessLine>(line) else { return };
        if self.slow_from.is_some_and(|from| Duration::from_micros(request.duration_us) >= from) {
            if self.slow.len() == SLOW_MAX {
                self.slow.pop_front();
            }
            let path = request.target.split('?').next().unwrap_or_default();
            let micros = (request.time * 1e6) as i64;
            self.slow.push_back(SlowRequest {
                at: Timestamp::from_micros(micros).unwrap_or_default().to_string(),
                method: request.method.clone(),
                path: shortened(path).to_owned(),
                status: request.status,
                seconds: request.duration_us as f64 / 1e6,
                id: shortened(&request.id).to_owned(),
            });
        }
        for text in [&mut request.target, &mut request.method, &mut request.id] {
            if text.len() > LINE_BYTES_MAX {
                *text = shortened(text).to_owned();
            }
        }
        self.push(LogLine::Access { number: self.next, request });
    }

    fn push(&mut self, line: LogLine) {
        self.next += 1;
        if self.lines.len() == self.lines_max {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }
}

/// Returns the beginning of a text that is too long.
fn shortened(text: &str) -> &str {
    let mut end = text.len().min(LINE_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A sink whose lines are kept.
struct RecentSink {
    log: RecentLog,
    is_access: bool,
}

impl Write for RecentSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.log.add(bytes, self.is_access);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The new lines, for one client.
struct LogStream {
    log: RecentLog,
    /// The number of the last line that was sent.
    last: u64,
    begun: Instant,
}

impl Drop for LogStream {
    fn drop(&mut self) {
        self.log.ring().streams -= 1;
    }
}

impl Producer for LogStream {
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<ControlFlow<()>, BoxError>> {
        if self.begun.elapsed() >= STREAM_TIME {
            return Poll::Ready(Ok(ControlFlow::Break(())));
        }
        let mut ring = self.log.ring();
        let old = ring.lines.partition_point(|line| line.number() <= self.last);
        let mut last = self.last;
        for line in ring.lines.iter().skip(old) {
            let data = serde_json::to_string(line)?;
            last = line.number();
            out.extend(
                Event::new(data).name("line").id(&last.to_string()).to_string().into_bytes(),
            );
            if out.len() > 64 * 1024 {
                break;
            }
        }
        if last == self.last {
            ring.waiting.retain(|waker| !waker.will_wake(context.waker()));
            ring.waiting.push(context.waker().clone());
            return Poll::Pending;
        }
        drop(ring);
        self.last = last;
        Poll::Ready(Ok(ControlFlow::Continue(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_bounded_and_slow_requests_have_no_values() {
        let log = RecentLog::new(3, Some(Duration::from_millis(5)));
        for number in 0..9 {
            log.writer().write_all(format!("line {number}\n").as_bytes()).unwrap();
        }
        let long = "é".repeat(LINE_BYTES_MAX);
        log.writer().write_all(long.as_bytes()).unwrap();
        let access = r#"{"time":1783156500.123,"status":200,"bytes":5,"duration_us":7000,"peer":"::1","method":"GET","target":"/api/person?filter=name='Ada'","id":"x"}"#;
        log.access_sink().write_all(format!("{access}\nno json\n").as_bytes()).unwrap();
        let store = Store::builder(marmota_memory::Memory::new()).open().unwrap();
        let document = log.document(&store);
        let lines = document["lines"].as_array().unwrap();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0]["text"], "line 8");
        assert!(lines[1]["text"].as_str().unwrap().len() <= LINE_BYTES_MAX);
        assert_eq!(lines[2]["request"]["status"], 200);
        let slow = &document["slow_requests"][0];
        assert_eq!((&slow["path"], &slow["seconds"]), (&json!("/api/person"), &json!(0.007)));
        assert!(!document["slow_requests"].to_string().contains("Ada"));
    }
}
