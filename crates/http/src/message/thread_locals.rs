//! The state that the connections of one server thread share: the clock, the lines with which each
//! answer starts, and reserves of buffers, request handles, allocations of futures, and a task.
//!
//! Reserves make a request free of allocations in the common case. Their sizes are limited, so that
//! a burst does not keep its memory. No lock is needed, because all belongs to one thread.
//!
//! | reserve | taken | returned |
//! |---|---|---|
//! | request handles | by a connection whose next request arrives | when it is idle or ends |
//! | outputs | by a connection with an answer | when the answer is sent |
//! | allocations of futures | by an asynchronous handler | when its future was ready at the first poll |
//! | a task | for the first poll of a future | when no clone of its waker exists |
//!
//! Connections, the writer and HTTP/2 get it as an argument. In-process calls make one per request.

use std::any::Any;
use std::cell::RefCell;
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

/// The maximum size of a buffer in reserve, so that a burst does not stay in memory.
const RESERVE_BYTES_MAX: usize = 64 * 1024;
/// The maximum number of large buffers in reserve on a thread.
const RESERVE_MAX: usize = 64;
/// The maximum number of small buffers in reserve: with io_uring as many are in use at once as
/// connections are answered in a turn.
const SMALL_RESERVE_MAX: usize = 512;
/// The maximum size of a small buffer.
const SMALL_BYTES: usize = 4 * 1024;
/// The size of a new buffer. Most answers fit, and with many connections answered in a turn each
/// costs this much.
const FIRST_BYTES: usize = 1024;
/// The number of media types whose head is kept prepared; a server uses a few.
const TYPED_MAX: usize = 4;
/// The interval at which the time of day is read; `Date` may lag by this much.
const DATE_MS: u64 = 100;
/// The status line with which [`ThreadLocals::head_ok`] starts.
const STATUS_OK: &[u8] = b"HTTP/1.1 200 OK\r\n";

/// The shared state of one server thread.
pub(crate) struct ThreadLocals {
    /// The limits of the server.
    pub(crate) limits: Limits,
    /// Those of them that the parser of heads needs.
    pub(crate) head_limits: HeadLimits,
    /// The data that all requests share.
    context: Arc<Context>,
    /// The routes that replaced those of the start, in the type of a higher folder.
    replacement: Option<Arc<dyn Any + Send + Sync>>,
    /// Requests wait at their start, because the routes are about to be replaced.
    pub(crate) held_back: bool,
    /// The number of times that the routes were about to be replaced. A protocol that took over its
    /// connection at another number belongs to routes that are going away.
    pub(crate) epoch: u32,
    /// The reactor reports when a client has closed its side, so that a short read is the last one
    /// until the next event.
    pub(crate) reports_half_close: bool,
    /// The inbox for wake-ups from other threads.
    pub(crate) inbox: Arc<Inbox>,
    /// Milliseconds on a clock that never goes back, read once per turn.
    pub(crate) now_ms: u64,
    /// A shutdown was requested: requests in progress are answered, idle connections are closed.
    pub(crate) draining: bool,
    /// The count of freed memory.
    pub(crate) trimmer: MemoryTrimmer,
    /// The server's budget for bodies that are gathered.
    pub(crate) bodies: Arc<Budget>,
    /// Bytes of answers for which there was no room in their sockets since the last sweep.
    pub(crate) blocked_bytes: usize,
    /// The observer; `None` without metrics and access log.
    pub(crate) observer: Option<Box<dyn Observe>>,
    /// The `Server` header; empty without a name.
    server_line: Vec<u8>,
    /// The prepared start of a 200, made once per second.
    head_ok: Vec<u8>,
    /// [`ThreadLocals::head_ok`] with the `Content-Type` of the media types used last, for this
    /// second.
    typed: [(String, Vec<u8>); TYPED_MAX],
    /// The index in `typed` that is replaced next.
    next_typed: usize,
    /// The second since 1970 for which the lines were made.
    second: u64,
    /// The start of the clock.
    started: Instant,
    /// The time at which the time of day is read again.
    next_date_ms: u64,
    /// Request handles in reserve.
    exchanges: Vec<Rc<Exchange>>,
    /// Buffers for answers in reserve.
    outputs: Vec<Vec<u8>>,
    /// The allocation of the last future, by endpoint.
    runs: Vec<Option<Box<dyn Any>>>,
    /// The buffer for bytes of a socket while they are decrypted.
    pub(crate) sealed: Vec<u8>,
    /// A task in reserve.
    spare: Option<Task>,
    /// The state for handlers whose answers are returned as values, once there was one.
    inner: Option<Rc<RefCell<Self>>>,
}

impl ThreadLocals {
    /// Creates the state of a thread that serves `endpoints` endpoints. An empty `server_name`
    /// sends no `Server` header.
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
            replacement: None,
            held_back: false,
            epoch: 0,
            reports_half_close: true,
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
            inner: None,
        };
        local.tick();
        local
    }

    /// Returns the data that requests share from now on.
    #[inline]
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Returns the routes that replaced those of the start, if they were replaced.
    pub(crate) fn replacement(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.replacement.clone()
    }

    /// Replaces the routes, which have `endpoints` endpoints. Reserves that belong to the previous
    /// ones are dropped.
    pub(crate) fn replace_routes(
        &mut self,
        context: Arc<Context>,
        endpoints: usize,
        routes: Arc<dyn Any + Send + Sync>,
    ) {
        self.context = context;
        self.replacement = Some(routes);
        self.exchanges = Vec::new();
        self.runs = (0..endpoints).map(|_| None).collect();
        self.inner = None;
    }

    /// Returns the state for handlers whose answers are not sent but returned as values. Their
    /// answers have neither `Server` nor `Date`.
    pub(crate) fn inner(&mut self) -> Rc<RefCell<Self>> {
        let (context, inbox) = (&self.context, &self.inbox);
        let inner = self.inner.get_or_insert_with(|| {
            let (context, inbox) = (Arc::clone(context), Arc::clone(inbox));
            let (limits, bodies) = (self.limits.clone(), Arc::clone(&self.bodies));
            let mut inner = Self::new(limits, context, self.runs.len(), inbox, bodies, "");
            // Its clock does not run, so the lines stay.
            inner.head_ok = STATUS_OK.to_vec();
            Rc::new(RefCell::new(inner))
        });
        Rc::clone(inner)
    }

    /// Reads the clock, once per turn. It uses the standard library on purpose: rustix' own look-up
    /// of the vDSO does not work under valgrind, which counts instructions.
    pub(crate) fn tick(&mut self) {
        self.now_ms = self.started.elapsed().as_millis() as u64;
        if self.now_ms >= self.next_date_ms {
            self.next_date_ms = self.now_ms + DATE_MS;
            self.tick_date();
        }
    }

    /// Renews the prepared lines when a new second has begun.
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

    /// Returns the prepared start of a 200 with this media type; `None` if it is not valid in a
    /// header.
    #[inline]
    pub(crate) fn head_typed(&mut self, media_type: &str) -> Option<&[u8]> {
        let at = match self.typed.iter().position(|(known, _)| known == media_type) {
            Some(at) => at,
            None => self.prepare_typed(media_type)?,
        };
        Some(&self.typed[at].1)
    }

    /// Prepares the start of a 200 with a new media type, in place of the oldest one.
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

    /// Returns the prepared start of a 200: status line, `Server`, `Date`.
    pub(crate) fn head_ok(&self) -> &[u8] {
        &self.head_ok
    }

    /// Returns the same lines without the status line.
    pub(crate) fn head_common(&self) -> &[u8] {
        &self.head_ok[STATUS_OK.len()..]
    }

    /// Reports bytes from a socket to the observer.
    #[inline]
    pub(crate) fn note_received(&self, bytes: usize) {
        if let Some(observer) = &self.observer {
            observer.note_received(bytes);
        }
    }

    /// Reports bytes to a socket to the observer.
    #[inline]
    pub(crate) fn note_sent(&self, bytes: usize) {
        if let Some(observer) = &self.observer {
            observer.note_sent(bytes);
        }
    }

    /// Returns a request handle with an empty buffer, for a connection.
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

    /// Keeps a request handle for another connection, unless a handler still has it, its buffer is
    /// large, or the routes were replaced: its paths would lead to other endpoints.
    #[inline]
    pub(crate) fn give_exchange(&mut self, request: Request) {
        let mut exchange = request.0;
        let Some(inner) = Rc::get_mut(&mut exchange) else { return };
        if self.exchanges.len() < RESERVE_MAX
            && inner.buffer.capacity() <= RESERVE_BYTES_MAX
            && Arc::ptr_eq(&inner.context, &self.context)
        {
            inner.buffer.clear();
            inner.consumed = 0;
            inner.secured = None;
            inner.lease = None;
            self.exchanges.push(exchange);
        } else {
            self.trimmer.note_freed(inner.buffer.capacity());
        }
    }

    /// Returns an empty buffer for answers.
    #[inline]
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        self.outputs.pop().unwrap_or_else(|| Vec::with_capacity(FIRST_BYTES))
    }

    /// Keeps a buffer for other answers, unless it is large or there are enough.
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

    /// Frees the buffers in reserve, after a burst.
    pub(crate) fn clear_reserves(&mut self) {
        self.exchanges = Vec::new();
        self.outputs = Vec::new();
    }

    /// Returns the allocation in which the endpoint's last future was stored, or a new one.
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

    /// Returns a task whose waker has no clones.
    pub(crate) fn take_task(&mut self) -> Task {
        match self.spare.take() {
            Some(task) if task.is_free() => task,
            _ => Task::new(&self.inbox),
        }
    }

    /// Keeps a task for the next request, unless a clone of its waker exists.
    pub(crate) fn give_task(&mut self, task: Task) {
        if task.is_free() {
            self.spare = Some(task);
        }
    }
}
