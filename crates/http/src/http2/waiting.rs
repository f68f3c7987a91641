//! Futures of requests that wait: for an early decision, for their body, or for their handler.
//!
//! They run on the connection's own thread. Each ends early when the client resets the stream, and
//! is dropped when the client disconnects: then the handler's future is dropped too, at its next
//! `await`. A panic of a handler is caught here, so that other streams continue.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use h2::RecvStream;

use super::clock::{Clock, Patience, StreamTimeouts};
use super::stream::{Outcome, PendingStream};
use super::upload::{self, CountGuard};
use crate::body::body_buffer::BodyError;
use crate::body::budget::{ConnectionBudget, Lease};
use crate::message::response::{LaterResponse, Response};
use crate::proto::paths::Found;
use crate::proto::status::Status;
use crate::routing::admission::LaterAdmission;
use crate::routing::dispatch;

/// Waits for the early decision on a request: its layers and its endpoint's check, which may read a
/// database. `_held` keeps the connection's window wide enough for the unread body.
pub(super) async fn admit(
    mut pending: PendingStream,
    found: Found,
    body: RecvStream,
    mut decision: LaterAdmission,
    _held: CountGuard,
) -> Outcome {
    let decided = poll_fn(|context| {
        if pending.respond.poll_reset(context).is_ready() {
            return Poll::Ready(None);
        }
        let polled = catch_unwind(AssertUnwindSafe(|| decision.as_mut().poll(context)));
        match polled {
            Ok(decided) => decided.map(|decided| Some(Ok(decided))),
            Err(panic) => Poll::Ready(Some(Err(panic))),
        }
    });
    match decided.await {
        None => Outcome::Reset,
        Some(Ok(Ok(()))) => Outcome::Admitted(pending, found, body),
        Some(Ok(Err(answer))) => {
            let answer = dispatch::refused(&pending.request, answer);
            Outcome::Answer(pending, answer)
        }
        Some(Err(panic)) => {
            dispatch::log_panic(&pending.request, &*panic);
            Outcome::Panicked(pending)
        }
    }
}

/// The memory that a body may take of its server and its connection.
pub(super) struct BodyRoom {
    /// The part of the server's budget.
    pub(super) lease: Lease,
    /// The budget of the connection, which is `connection_bytes_max`.
    pub(super) gathering: Rc<ConnectionBudget>,
    pub(super) connection_bytes_max: usize,
    /// The limit of the route.
    pub(super) bytes_max: usize,
    /// The length that the client declares.
    pub(super) length: Option<usize>,
}

/// Gathers a whole body, after the head in the request's buffer.
///
/// It first waits until the connection has room for the declared length, or for the maximum without
/// one: a body that has begun can so always be completed, and bodies that wait take no memory
/// beyond their windows. Then each piece is charged to the server's budget as it arrives; without
/// budget the request is refused (503).
pub(super) async fn collect(
    mut pending: PendingStream,
    found: Found,
    mut body: RecvStream,
    room: BodyRoom,
    clock: Rc<Clock>,
    timeouts: StreamTimeouts,
    held: CountGuard,
) -> Outcome {
    let BodyRoom { mut lease, gathering, connection_bytes_max, bytes_max, length } = room;
    if length.is_some_and(|length| length > bytes_max) {
        return Outcome::Refused(pending, BodyError::TooLarge);
    }
    let bytes = length.unwrap_or(bytes_max);
    {
        let mut claim = pin!(gathering.reserve(bytes, connection_bytes_max));
        let claimed = poll_fn(|context| match pending.respond.poll_reset(context) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => claim.as_mut().poll(context).map(Some),
        });
        match claimed.await {
            None => return Outcome::Reset,
            Some(claim) => lease.reservation = Some(claim),
        }
    }
    drop(held);
    Rc::make_mut(&mut pending.request.0).lease = Some(Box::new(lease));
    let mut patience = Patience::new(clock, timeouts);
    let start = pending.request.0.buffer.len();
    loop {
        let polled = poll_fn(|context| match body.poll_data(context) {
            Poll::Pending if patience.is_over(context) => Poll::Ready(Err(BodyError::TimedOut)),
            Poll::Pending => Poll::Pending,
            Poll::Ready(data) => Poll::Ready(Ok(data)),
        });
        let exchange = match polled.await {
            Ok(Some(Ok(data))) => {
                let _ = body.flow_control().release_capacity(data.len());
                let exchange = Rc::make_mut(&mut pending.request.0);
                exchange.buffer.extend_from_slice(&data);
                if let Some(lease) = &mut exchange.lease {
                    if !lease.grow_to(exchange.buffer.len() - start) {
                        return Outcome::Refused(pending, BodyError::NoRoom);
                    }
                    patience.note_held(data.len(), lease.is_tight());
                }
                exchange
            }
            Ok(Some(Err(_))) => return Outcome::Reset,
            Ok(None) => {
                let exchange = Rc::make_mut(&mut pending.request.0);
                let bytes = exchange.buffer.len() - start;
                if let Some(claim) =
                    exchange.lease.as_mut().and_then(|lease| lease.reservation.as_mut())
                {
                    claim.shrink_to(bytes);
                }
                return Outcome::Whole(pending, found);
            }
            Err(error) => return Outcome::Refused(pending, error),
        };
        let end = exchange.buffer.len();
        if end - start > bytes_max {
            return Outcome::Refused(pending, BodyError::TooLarge);
        }
        exchange.body = crate::proto::head::Span::new(start, end);
        exchange.consumed = end;
    }
}

/// Waits for a handler as long as its endpoint allows, and feeds it the body if it reads one.
///
/// The body is fed before and after the handler's poll: before, so that it finds what has arrived;
/// after, because it may have made room.
pub(super) async fn wait(
    pending: PendingStream,
    mut answer: LaterResponse,
    timeout_ms: Option<(Rc<Clock>, u64)>,
) -> Outcome {
    let mut pending = Some(pending);
    poll_fn(move |context| {
        let Some(stream) = &mut pending else { return Poll::Pending };
        if stream.respond.poll_reset(context).is_ready() {
            return Poll::Ready(Outcome::Reset);
        }
        upload::feed(&mut stream.upload, context);
        let polled = catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context)));
        match (polled, pending.take()) {
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
                pending = stream;
                if let Some(stream) = &mut pending {
                    upload::feed(&mut stream.upload, context);
                }
                Poll::Pending
            }
        }
    })
    .await
}

/// Returns true if the handler's time limit has passed.
fn is_over(timeout_ms: Option<&(Rc<Clock>, u64)>, context: &Context<'_>) -> bool {
    timeout_ms.is_some_and(|(clock, after_ms)| clock.is_over(*after_ms, context))
}
