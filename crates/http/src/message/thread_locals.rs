//! What the connections of one server thread share: the clock, the lines every answer starts
//! with, buffers in reserve, allocations of handler futures in reserve, the spare task.

use std::any::Any;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::body::budget::Budget;
use crate::message::limits::Limits;
use crate::message::observe::Observe;
use crate::message::request::{Context, Exchange, Request};
use crate::proto::head::{HeadLimits, is_value};
use crate::reactor::memory_trimmer::MemoryTrimmer;
use crate::reactor::task::{Inbox, Task};
use crate::socket::address::Peer;
use crate::socket::socket_codec::TlsInfo;

/// A buffer in reserve is never larger than this, so that a burst does not stay in memory.
const RESERVE_BYTES_MAX: usize = 64 * 1024;
/// Buffers in reserve on a thread.
const RESERVE_MAX: usize = 64;
/// Small ones: the ring has as many at once as connections are answered in a turn.
const SMALL_RESERVE_MAX: usize = 512;
const SMALL_BYTES: usize = 4 * 1024;
/// A new one: most answers fit, and with many connections answered in a turn it is what each costs.
const FIRST_BYTES: usize = 1024;
/// Media types whose head is kept ready; a server uses a few.
const TYPED_MAX: usize = 4;
/// How often the time of day is looked at; `Date` may lag by this much.
const DATE_MS: u64 = 100;
/// The status line with which [`ThreadLocals::head_ok`] starts.
const STATUS_OK: &[u8] = b"HTTP/1.1 200 OK\r\n";

/// The shared state of one server thread.
pub(crate) struct ThreadLocals {
    pub(crate) limits: Limits,
    pub(crate) head_limits: HeadLimits,
    context: Arc<Context>,
    pub(crate) inbox: Arc<Inbox>,
    /// Milliseconds on a clock that never goes back, read once a turn.
    pub(crate) now_ms: u64,
    /// Shutdown was asked for: answer what is in flight, close what is idle.
    pub(crate) draining: bool,
    pub(crate) trimmer: MemoryTrimmer,
    /// The server's budget for bodies that are gathered.
    pub(crate) bodies: Arc<Budget>,
    /// Bytes of answers for which there was no room in their sockets since the last sweep.
    pub(crate) blocked_bytes: usize,
    /// None on a server that nobody observes.
    pub(crate) observer: Option<Box<dyn Observe>>,
    server_line: Vec<u8>,
    head_ok: Vec<u8>,
    /// [`ThreadLocals::head_ok`] with `Content-Type` for the media types last used, this second's.
    typed: [(String, Vec<u8>); TYPED_MAX],
    next_typed: usize,
    second: u64,
    started: Instant,
    next_date_ms: u64,
    exchanges: Vec<Rc<Exchange>>,
    outputs: Vec<Vec<u8>>,
    runs: Vec<Option<Box<dyn Any>>>,
    /// Where what a socket gives lies while it is decrypted.
    pub(crate) sealed: Vec<u8>,
    spare: Option<Task>,
}

impl ThreadLocals {
    pub(crate) fn new(
        limits: Limits,
        context: Arc<Context>,
        endpoints: usize,
        inbox: Arc<Inbox>,
        bodies: Arc<Budget>,
        server_name: &str,
    ) -> Self {
        let head_limits = HeadLimits {
            bytes_max: limits.head_bytes_max,
            headers_max: limits.headers_max,
            target_bytes_max: limits.target_bytes_max,
        };
        let server_line = if server_name.is_empty() {
            Vec::new()
        } else {
            format!("Server: {server_name}\r\n").into_bytes()
        };
        let runs = (0..endpoints).map(|_| None).collect();
        let mut local = Self {
            limits,
            head_limits,
            context,
            inbox,
            now_ms: 0,
            draining: false,
            trimmer: MemoryTrimmer::default(),
            bodies,
            blocked_bytes: 0,
            observer: None,
            server_line,
            head_ok: Vec::new(),
            typed: Default::default(),
            next_typed: 0,
            second: u64::MAX,
            started: Instant::now(),
            next_date_ms: 0,
            exchanges: Vec::new(),
            outputs: Vec::new(),
            runs,
            sealed: Vec::new(),
            spare: None,
        };
        local.tick();
        local
    }

    /// Reads the clock, once a turn. The standard library's is taken on purpose: rustix' own
    /// vDSO look-up does not survive valgrind, by which instructions are counted.
    pub(crate) fn tick(&mut self) {
        self.now_ms = self.started.elapsed().as_millis() as u64;
        if self.now_ms >= self.next_date_ms {
            self.next_date_ms = self.now_ms + DATE_MS;
            self.tick_date();
        }
    }

    fn tick_date(&mut self) {
        let now = SystemTime::now();
        let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if second == self.second {
            return;
        }
        self.second = second;
        self.head_ok.clear();
        self.head_ok.extend_from_slice(STATUS_OK);
        self.head_ok.extend_from_slice(&self.server_line);
        self.head_ok.extend_from_slice(b"Date: ");
        self.head_ok.extend_from_slice(httpdate::fmt_http_date(now).as_bytes());
        self.head_ok.extend_from_slice(b"\r\n");
        self.typed = Default::default();
    }

    /// The start of a 200 with this media type, which must be fit for a header.
    #[inline]
    pub(crate) fn head_typed(&mut self, media_type: &str) -> Option<&[u8]> {
        let at = match self.typed.iter().position(|(known, _)| known == media_type) {
            Some(at) => at,
            None => self.prepare_typed(media_type)?,
        };
        Some(&self.typed[at].1)
    }

    #[cold]
    fn prepare_typed(&mut self, media_type: &str) -> Option<usize> {
        if media_type.is_empty() || !is_value(media_type.as_bytes()) {
            return None;
        }
        let at = self.next_typed;
        self.next_typed = (at + 1) % TYPED_MAX;
        let head = [&self.head_ok, &b"Content-Type: "[..], media_type.as_bytes(), b"\r\n"].concat();
        self.typed[at] = (media_type.to_owned(), head);
        Some(at)
    }

    /// The start of a 200: status line, `Server`, `Date`.
    pub(crate) fn head_ok(&self) -> &[u8] {
        &self.head_ok
    }

    /// The same without the status line.
    pub(crate) fn head_common(&self) -> &[u8] {
        &self.head_ok[STATUS_OK.len()..]
    }

    #[inline]
    pub(crate) fn note_received(&self, bytes: usize) {
        if let Some(observer) = &self.observer {
            observer.note_received(bytes);
        }
    }

    #[inline]
    pub(crate) fn note_sent(&self, bytes: usize) {
        if let Some(observer) = &self.observer {
            observer.note_sent(bytes);
        }
    }

    /// A request handle with an empty buffer.
    #[inline]
    pub(crate) fn take_exchange(&mut self, peer: Peer, secured: &Option<Rc<TlsInfo>>) -> Request {
        if let Some(mut exchange) = self.exchanges.pop()
            && let Some(inner) = Rc::get_mut(&mut exchange)
        {
            inner.peer = peer;
            inner.forget();
            inner.secured.clone_from(secured);
            return Request(exchange);
        }
        let mut exchange = Exchange::new(Arc::clone(&self.context), peer);
        exchange.secured.clone_from(secured);
        Request(Rc::new(exchange))
    }

    /// Keeps a request handle for another connection, if nobody else holds it.
    #[inline]
    pub(crate) fn give_exchange(&mut self, request: Request) {
        let mut exchange = request.0;
        let Some(inner) = Rc::get_mut(&mut exchange) else { return };
        if self.exchanges.len() < RESERVE_MAX && inner.buffer.capacity() <= RESERVE_BYTES_MAX {
            inner.buffer.clear();
            inner.consumed = 0;
            inner.secured = None;
            inner.lease = None;
            self.exchanges.push(exchange);
        } else {
            self.trimmer.note_freed(inner.buffer.capacity());
        }
    }

    #[inline]
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        self.outputs.pop().unwrap_or_else(|| Vec::with_capacity(FIRST_BYTES))
    }

    #[inline]
    pub(crate) fn give_output(&mut self, mut output: Vec<u8>) {
        let small = output.capacity() <= SMALL_BYTES;
        let reserve_max = if small { SMALL_RESERVE_MAX } else { RESERVE_MAX };
        if self.outputs.len() < reserve_max && output.capacity() <= RESERVE_BYTES_MAX {
            output.clear();
            self.outputs.push(output);
        } else {
            self.trimmer.note_freed(output.capacity());
        }
    }

    /// Gives up the buffers in reserve.
    pub(crate) fn clear_reserves(&mut self) {
        self.exchanges = Vec::new();
        self.outputs = Vec::new();
    }

    /// The allocation in which the endpoint's last future ran.
    pub(crate) fn take_run<F: 'static>(&mut self, endpoint: usize) -> Pin<Box<Option<F>>> {
        self.runs
            .get_mut(endpoint)
            .and_then(Option::as_mut)
            .and_then(|kept| kept.downcast_mut::<Option<Pin<Box<Option<F>>>>>())
            .and_then(Option::take)
            .unwrap_or_else(|| Box::pin(None))
    }

    /// Keeps the allocation for the endpoint's next future.
    pub(crate) fn give_run<F: 'static>(&mut self, endpoint: usize, run: Pin<Box<Option<F>>>) {
        let Some(slot) = self.runs.get_mut(endpoint) else { return };
        match slot.as_mut().and_then(|kept| kept.downcast_mut::<Option<Pin<Box<Option<F>>>>>()) {
            Some(kept) => *kept = Some(run),
            None => *slot = Some(Box::new(Some(run))),
        }
    }

    /// A task whose waker nobody holds.
    pub(crate) fn take_task(&mut self) -> Task {
        match self.spare.take() {
            Some(task) if task.is_free() => task,
            _ => Task::new(&self.inbox),
        }
    }

    pub(crate) fn give_task(&mut self, task: Task) {
        if task.is_free() {
            self.spare = Some(task);
        }
    }
}
