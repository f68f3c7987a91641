//! A request of HTTP/2 that cannot be answered at once: its body is arriving, its handler waits, or
//! its answer is produced while it is sent. Each is a future on the connection's own thread,
//! dropped when the client resets the stream or disconnects.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};

use super::outlet::Outlet;
use crate::body::body_buffer::{BodyBuffer, BodyError};
use crate::body::budget::{ConnectionBudget, Lease};
use crate::body::producer::note_cut_off;
use crate::body::producer::{BodyStream, Progress};
use crate::message::limits::{Limits, Pace};
use crate::message::request::Request;
use crate::message::response::LaterResponse;
use crate::message::response::Response;
use crate::proto::paths::Found;
use crate::proto::status::Status;
use crate::reactor::memory_trimmer;
use crate::routing::admission::LaterAdmission;
use crate::routing::dispatch;
use crate::socket::address::Peer;

/// Bytes of an answer produced before they are sent.
pub(super) const AHEAD_BYTES: usize = 32 * 1024;

/// A stream whose answer has not begun.
pub(super) struct Begun {
    pub(super) respond: SendResponse<Bytes>,
    pub(super) request: Request,
    pub(super) upload: Option<Upload>,
    /// The client's data, if a WebSocket takes over the stream.
    pub(super) tunnel: Option<RecvStream>,
}

/// The result of a stream's future.
pub(super) enum Outcome {
    /// The body is complete.
    Whole(Begun, Found),
    /// The body may be received.
    Admitted(Begun, Found, RecvStream),
    Refused(Begun, BodyError),
    Answer(Begun, Response),
    /// The handler has panicked.
    Panicked(Begun),
    Done,
    /// The client has reset the stream.
    GivenUp,
    /// A stream of another protocol has ended; `given_up` if it was reset before the client sent
    /// data.
    TunnelOver {
        given_up: bool,
    },
}

/// The time limits for clients that neither send nor read.
#[derive(Clone, Copy)]
pub(super) struct Rest {
    pace: Pace,
    tight: Pace,
    pub(super) write_ms: u64,
}

impl Rest {
    pub(super) fn of(limits: &Limits) -> Self {
        Self {
            pace: Pace::of(limits, false),
            tight: Pace::of(limits, true),
            write_ms: limits.write_timeout_ms,
        }
    }
}

/// A stream's timer, which the connection checks.
pub(super) struct Clock {
    now_ms: Rc<Cell<u64>>,
    deadline_ms: Cell<u64>,
    waker: RefCell<Option<Waker>>,
}

impl Clock {
    pub(super) fn new(now_ms: &Rc<Cell<u64>>) -> Self {
        let (deadline_ms, waker) = (Cell::new(u64::MAX), RefCell::default());
        Self { now_ms: Rc::clone(now_ms), deadline_ms, waker }
    }

    pub(super) fn deadline_ms(&self) -> u64 {
        self.deadline_ms.get()
    }

    /// Wakes the future whose time is up.
    pub(super) fn ring(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Returns true once `after_ms` have passed since the first of these calls; `stop` resets it.
    pub(super) fn is_over(&self, after_ms: u64, context: &Context<'_>) -> bool {
        if self.deadline_ms.get() == u64::MAX {
            self.deadline_ms.set(self.now_ms.get().saturating_add(after_ms));
        }
        if self.now_ms.get() >= self.deadline_ms.get() {
            return true;
        }
        *self.waker.borrow_mut() = Some(context.waker().clone());
        false
    }

    /// Has the future polled at this time; replaces an earlier deadline.
    pub(super) fn set(&self, deadline_ms: u64, waker: &Waker) {
        self.deadline_ms.set(deadline_ms);
        *self.waker.borrow_mut() = Some(waker.clone());
    }

    /// Stops the timer, and returns the remaining time, or `None` if it was not running.
    pub(super) fn stop(&self) -> Option<u64> {
        match self.deadline_ms.replace(u64::MAX) {
            u64::MAX => None,
            deadline_ms => Some(deadline_ms.saturating_sub(self.now_ms.get())),
        }
    }
}

/// How long a body's client may still keep the server waiting.
pub(super) struct Patience {
    clock: Rc<Clock>,
    rest: Rest,
    left_ms: u64,
}

impl Patience {
    pub(super) fn new(clock: Rc<Clock>, rest: Rest) -> Self {
        Self { clock, left_ms: rest.pace.rest_ms, rest }
    }

    fn is_over(&self, context: &Context<'_>) -> bool {
        self.clock.is_over(self.left_ms, context)
    }

    fn note(&mut self, bytes: usize) {
        let left_ms = self.clock.stop().unwrap_or(self.left_ms);
        self.left_ms = self.rest.pace.after(left_ms, bytes);
    }

    /// Like [`Patience::note`], at a faster pace if the bodies' budget is `tight`.
    fn note_held(&mut self, bytes: usize, tight: bool) {
        let left_ms = self.clock.stop().unwrap_or(self.left_ms);
        let pace = if tight { self.rest.tight } else { self.rest.pace };
        self.left_ms = pace.after(left_ms, bytes);
    }
}

/// Waits for the early decision on a request.
pub(super) async fn admit(
    mut begun: Begun,
    found: Found,
    body: RecvStream,
    mut decision: LaterAdmission,
    _held: Counted,
) -> Outcome {
    let decided = poll_fn(|context| {
        if begun.respond.poll_reset(context).is_ready() {
            return Poll::Ready(None);
        }
        let polled = catch_unwind(AssertUnwindSafe(|| decision.as_mut().poll(context)));
        match polled {
            Ok(decided) => decided.map(|decided| Some(Ok(decided))),
            Err(panic) => Poll::Ready(Some(Err(panic))),
        }
    });
    match decided.await {
        None => Outcome::GivenUp,
        Some(Ok(Ok(()))) => Outcome::Admitted(begun, found, body),
        Some(Ok(Err(answer))) => {
            let answer = dispatch::refused(&begun.request, answer);
            Outcome::Answer(begun, answer)
        }
        Some(Err(panic)) => {
            dispatch::log_panic(&begun.request, &*panic);
            Outcome::Panicked(begun)
        }
    }
}

/// The memory that a body may take of its server and its connection.
pub(super) struct Room {
    pub(super) lease: Lease,
    pub(super) gathering: Rc<ConnectionBudget>,
    pub(super) connection_bytes_max: usize,
    pub(super) bytes_max: usize,
    /// The length that the client declares.
    pub(super) length: Option<usize>,
}

/// Gathers a whole body, after the head in the request's buffer.
pub(super) async fn collect(
    mut begun: Begun,
    found: Found,
    mut body: RecvStream,
    room: Room,
    clock: Rc<Clock>,
    rest: Rest,
    held: Counted,
) -> Outcome {
    let Room { mut lease, gathering, connection_bytes_max, bytes_max, length } = room;
    if length.is_some_and(|length| length > bytes_max) {
        return Outcome::Refused(begun, BodyError::TooLarge);
    }
    let bytes = length.unwrap_or(bytes_max);
    {
        let mut reservation = pin!(gathering.reserve(bytes, connection_bytes_max));
        let claimed = poll_fn(|context| match begun.respond.poll_reset(context) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => reservation.as_mut().poll(context).map(Some),
        });
        match claimed.await {
            None => return Outcome::GivenUp,
            Some(reservation) => lease.reservation = Some(reservation),
        }
    }
    drop(held);
    Rc::make_mut(&mut begun.request.0).lease = Some(Box::new(lease));
    let mut patience = Patience::new(clock, rest);
    let start = begun.request.0.buffer.len();
    loop {
        let polled = poll_fn(|context| match body.poll_data(context) {
            Poll::Pending if patience.is_over(context) => Poll::Ready(Err(BodyError::TimedOut)),
            Poll::Pending => Poll::Pending,
            Poll::Ready(data) => Poll::Ready(Ok(data)),
        });
        let exchange = match polled.await {
            Ok(Some(Ok(data))) => {
                let _ = body.flow_control().release_capacity(data.len());
                let exchange = Rc::make_mut(&mut begun.request.0);
                exchange.buffer.extend_from_slice(&data);
                if let Some(lease) = &mut exchange.lease {
                    if !lease.grow_to(exchange.buffer.len() - start) {
                        return Outcome::Refused(begun, BodyError::NoRoom);
                    }
                    patience.note_held(data.len(), lease.is_tight());
                }
                exchange
            }
            Ok(Some(Err(_))) => return Outcome::GivenUp,
            Ok(None) => {
                let exchange = Rc::make_mut(&mut begun.request.0);
                let bytes = exchange.buffer.len() - start;
                if let Some(reservation) =
                    exchange.lease.as_mut().and_then(|lease| lease.reservation.as_mut())
                {
                    reservation.shrink_to(bytes);
                }
                return Outcome::Whole(begun, found);
            }
            Err(error) => return Outcome::Refused(begun, error),
        };
        let end = exchange.buffer.len();
        if end - start > bytes_max {
            return Outcome::Refused(begun, BodyError::TooLarge);
        }
        exchange.body = crate::proto::head::Span::new(start, end);
        exchange.consumed = end;
    }
}

/// Waits for a handler as long as its endpoint allows, and feeds it the body if it reads one.
pub(super) async fn wait(
    begun: Begun,
    mut answer: LaterResponse,
    timeout_ms: Option<(Rc<Clock>, u64)>,
) -> Outcome {
    let mut begun = Some(begun);
    poll_fn(move |context| {
        let Some(stream) = &mut begun else { return Poll::Pending };
        if stream.respond.poll_reset(context).is_ready() {
            return Poll::Ready(Outcome::GivenUp);
        }
        feed(&mut stream.upload, context);
        let polled = catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context)));
        match (polled, begun.take()) {
            (Ok(Poll::Ready(response)), Some(stream)) => {
                Poll::Ready(Outcome::Answer(stream, response))
            }
            (Err(panic), Some(stream)) => {
                dispatch::log_panic(&stream.request, &*panic);
                Poll::Ready(Outcome::Panicked(stream))
            }
            (_, Some(stream)) if is_over(timeout_ms.as_ref(), context) => {
                let response =
                    Response::problem(Status::SERVICE_UNAVAILABLE, "the answer took too long");
                Poll::Ready(Outcome::Answer(stream, response))
            }
            (_, stream) => {
                begun = stream;
                if let Some(stream) = &mut begun {
                    feed(&mut stream.upload, context);
                }
                Poll::Pending
            }
        }
    })
    .await
}

fn is_over(timeout_ms: Option<&(Rc<Clock>, u64)>, context: &Context<'_>) -> bool {
    timeout_ms.is_some_and(|(clock, after_ms)| clock.is_over(*after_ms, context))
}

fn feed(upload: &mut Option<Upload>, context: &mut Context<'_>) {
    if let Some(upload) = upload {
        upload.feed(context);
    }
}

/// An item that is counted as long as it exists.
pub(super) struct Counted(Rc<Cell<u32>>);

impl Counted {
    pub(super) fn new(count: &Rc<Cell<u32>>) -> Self {
        count.set(count.get() + 1);
        Self(Rc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A body that its handler reads as it arrives.
pub(super) struct Upload {
    body_buffer: Rc<BodyBuffer>,
    body: RecvStream,
    piece: Bytes,
    left: u64,
    patience: Patience,
    _count: Counted,
}

impl Drop for Upload {
    fn drop(&mut self) {
        // A reader that outlives the answer must not wait forever.
        self.body_buffer.fail(BodyError::CutOff);
    }
}

impl Upload {
    pub(super) fn new(
        body: RecvStream,
        bytes_max: u64,
        patience: Patience,
        count: Counted,
        request: &mut Request,
    ) -> Self {
        let body_buffer = Rc::new(BodyBuffer::default());
        Rc::make_mut(&mut request.0).body_buffer = Some(Rc::clone(&body_buffer));
        Self { body_buffer, body, piece: Bytes::new(), left: bytes_max, patience, _count: count }
    }

    /// Passes received bytes to the handler, as far as there is room.
    fn feed(&mut self, context: &mut Context<'_>) {
        while self.body_buffer.has_room() {
            if self.piece.is_empty() {
                match self.body.poll_data(context) {
                    Poll::Ready(Some(Ok(piece))) => {
                        self.patience.note(piece.len());
                        self.piece = piece;
                    }
                    Poll::Ready(Some(Err(_))) => return self.body_buffer.fail(BodyError::CutOff),
                    Poll::Ready(None) => return self.body_buffer.fill(|_, _| Ok(true)),
                    Poll::Pending => {
                        if self.body_buffer.is_awaited() && self.patience.is_over(context) {
                            self.body_buffer.fail(BodyError::TimedOut);
                        }
                        return;
                    }
                }
            }
            let Self { body_buffer, body, piece, left, .. } = self;
            body_buffer.fill(|out, room| {
                let bytes = piece.split_to(room.min(piece.len()));
                if bytes.len() as u64 > *left {
                    return Err(BodyError::TooLarge);
                }
                *left -= bytes.len() as u64;
                out.extend_from_slice(&bytes);
                // Fails only if no more bytes arrive.
                let _ = body.flow_control().release_capacity(bytes.len());
                Ok(piece.is_empty() && body.is_end_stream())
            });
        }
    }
}

/// An answer's body that is being sent.
pub(super) struct Sending {
    outlet: Outlet,
    piece: Bytes,
    source: Option<BodyStream>,
    /// Bytes that the source still has to produce, if its length is known.
    left: Option<u64>,
    upload: Option<Upload>,
    held: Held,
}

/// The memory that the answers of a connection hold for its client.
#[derive(Debug, Default)]
pub(super) struct Unread {
    pub(super) bytes: Cell<usize>,
    /// Answers that wait for the client.
    pub(super) answers: Cell<u32>,
    /// When the client last took some of them, in ms.
    pub(super) progress_ms: Cell<u64>,
}

/// The memory that one answer holds.
pub(super) struct Held {
    unread: Rc<Unread>,
    bytes: usize,
}

impl Held {
    pub(super) fn new(unread: &Rc<Unread>, bytes: usize, now_ms: u64) -> Self {
        if unread.answers.replace(unread.answers.get() + 1) == 0 {
            unread.progress_ms.set(now_ms);
        }
        unread.bytes.set(unread.bytes.get() + bytes);
        Self { unread: Rc::clone(unread), bytes }
    }

    /// Notes that the client has taken some bytes.
    fn note_progress(&self, clock: &Clock) {
        self.unread.progress_ms.set(clock.now_ms.get());
    }

    /// Sets the number of bytes that the answer holds.
    fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        self.unread.bytes.set(self.unread.bytes.get() - before + bytes);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        memory_trimmer::note_freed(self.bytes);
        self.set(0);
        self.unread.answers.set(self.unread.answers.get() - 1);
    }
}

impl Sending {
    pub(super) fn new(
        outlet: Outlet,
        piece: Bytes,
        source: Option<BodyStream>,
        upload: Option<Upload>,
        held: Held,
    ) -> Self {
        let left = source.as_ref().and_then(BodyStream::length);
        Self { outlet, piece, source, left, upload, held }
    }

    pub(super) async fn run(mut self, peer: Peer) -> Outcome {
        poll_fn(|context| self.poll(context, peer)).await
    }

    fn poll(&mut self, context: &mut Context<'_>, peer: Peer) -> Poll<Outcome> {
        if self.outlet.sender.poll_reset(context).is_ready() {
            return Poll::Ready(Outcome::GivenUp);
        }
        feed(&mut self.upload, context);
        let mut is_stalled = false;
        loop {
            while !self.piece.is_empty() {
                let is_last = self.source.is_none();
                let sent = std::task::ready!(self.outlet.send(&mut self.piece, is_last, context));
                self.held.note_progress(&self.outlet.clock);
                if let Some(outcome) = sent {
                    return Poll::Ready(outcome);
                }
            }
            let Some(source) = &mut self.source else {
                // Everything was sent with its end, or only the end is left.
                let _ = self.outlet.sender.send_data(Bytes::new(), true);
                return Poll::Ready(Outcome::Done);
            };
            if is_stalled {
                // The producer wakes this stream; others have their turn until then.
                return Poll::Pending;
            }
            let heartbeat = source.heartbeat();
            let mut made = Vec::new();
            let ahead = source.poll_ahead(context, &mut made, AHEAD_BYTES);
            feed(&mut self.upload, context);
            is_stalled = matches!(ahead, Progress::Stalled) && heartbeat.is_none();
            let is_short = self.left.is_some_and(|left| left != made.len() as u64);
            let is_long = self.left.is_some_and(|left| left < made.len() as u64);
            let failed = match ahead {
                Progress::Failed(error) => Some(error),
                _ if is_long => Some("it is longer than its declared length".into()),
                Progress::Ended if is_short => {
                    Some("it is shorter than its declared length".into())
                }
                Progress::Ended => {
                    self.source = None;
                    None
                }
                Progress::Stalled if made.is_empty() => {
                    let Some(heartbeat) = heartbeat else { return Poll::Pending };
                    if !self.outlet.clock.is_over(heartbeat.after_ms, context) {
                        return Poll::Pending;
                    }
                    self.outlet.clock.stop();
                    made.extend_from_slice(heartbeat.bytes);
                    None
                }
                Progress::Stalled | Progress::More => None,
            };
            if let Some(error) = failed {
                note_cut_off(peer, &error);
                self.outlet.sender.send_reset(Reason::INTERNAL_ERROR);
                return Poll::Ready(Outcome::Done);
            }
            if !made.is_empty() {
                self.outlet.clock.stop();
            }
            self.left = self.left.map(|left| left - made.len() as u64);
            let source_bytes = self.source.as_ref().map_or(0, BodyStream::held_bytes);
            self.held.set(made.capacity() + source_bytes);
            self.piece = Bytes::from(made);
        }
    }
}
