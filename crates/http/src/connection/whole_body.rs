//! A request's body that is gathered before its handler runs, after its head in the buffer.
//!
//! The server's budget for bodies
//! ([`Limits::held_body_bytes_max`](crate::Limits::held_body_bytes_max)) is charged for bytes that
//! have arrived, not for announced ones. The deadline is extended by arriving bytes, so a large
//! body on a slow line is received, and a client that trickles bytes is not.

use super::{BodyProgress, Connection, Phase, Timing, own};
use crate::body::body_buffer::BodyError;
use crate::body::budget::Lease;
use crate::message::limits::Pace;
use crate::message::response::{IntoResponse, Response};
use crate::message::thread_locals::ThreadLocals;
use crate::proto::chunked::{Chunked, ChunkedError};
use crate::proto::head::{BodyLength, HeadError, Span};

impl Connection {
    /// Decides whether the body is wanted, by the endpoint and its early decision. Returns true if
    /// the whole request is in the buffer.
    pub(super) fn start_body(&mut self, local: &mut ThreadLocals) -> bool {
        let Some(request) = &mut self.request else { return false };
        let exchange = &request.0;
        let endpoint = exchange.endpoint.and_then(|index| self.routes.endpoint(index));
        match endpoint {
            None if exchange.head.expect_continue => {
                // No handler wants the body. The client may or may not send it, so no request can
                // follow.
                self.answer_unrouted(local, true);
                false
            }
            Some(endpoint) if endpoint.decides_early() => self.admit(local) && self.gather(local),
            _ => self.gather(local),
        }
    }

    /// Begins to receive the body of a request that may have one, and sends `100 Continue` if the
    /// client waits for it (RFC 9110, 10.1.1). Returns true if the handler can run: the body is
    /// complete, or the handler reads it as it arrives.
    ///
    /// A declared length beyond the limit is refused at once (413), before any of the body is read.
    pub(super) fn gather(&mut self, local: &mut ThreadLocals) -> bool {
        let Some(request) = &mut self.request else { return false };
        let head = &request.0.head;
        let endpoint = request.0.endpoint.and_then(|index| self.routes.endpoint(index));
        let body_max = endpoint
            .and_then(|endpoint| endpoint.body_bytes_max)
            .unwrap_or(local.limits.body_bytes_max);
        if let Some(bytes_max) = endpoint.and_then(|endpoint| endpoint.streams(request)) {
            return self.start_upload(bytes_max, local);
        }
        let progress = match head.body {
            BodyLength::Exact(length) if length > body_max as u64 => {
                self.refuse(BodyError::TooLarge.into_response(), local);
                return false;
            }
            BodyLength::Exact(length) => BodyProgress::Exact { end: head.end + length as usize },
            _ => BodyProgress::Chunked(Chunked::new(body_max, local.limits.head_bytes_max)),
        };
        if head.expect_continue && request.0.buffer.len() == head.end {
            if self.output.capacity() == 0 {
                self.output = local.take_output();
            }
            self.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.next_at = head.end;
        self.phase = Phase::Body(progress);
        (self.body_received, self.timing) = (0, Timing::None);
        self.take_body(local)
    }

    /// Takes the received part of the body. Returns true if the body is complete.
    ///
    /// Chunks are decoded in place: decoded bytes move to the front, so the buffer has the head,
    /// the decoded body, and the undecoded rest.
    pub(super) fn take_body(&mut self, local: &mut ThreadLocals) -> bool {
        let (Some(request), Phase::Body(progress)) = (&mut self.request, &mut self.phase) else {
            return false;
        };
        let exchange = own(request);
        let start = exchange.head.end;
        let received = exchange.buffer.len() - start;
        let end = match progress {
            BodyProgress::Exact { end } if exchange.buffer.len() >= *end => {
                self.next_at = *end;
                Some(*end)
            }
            BodyProgress::Exact { .. } => None,
            BodyProgress::Chunked(chunked) => {
                match chunked.decode(&mut exchange.buffer, start, &mut self.next_at) {
                    Ok(true) => Some(start + chunked.decoded()),
                    Ok(false) => {
                        exchange.buffer.truncate(start + chunked.decoded());
                        self.next_at = exchange.buffer.len();
                        None
                    }
                    Err(error) => {
                        self.refuse(chunked_refusal(error), local);
                        return false;
                    }
                }
            }
        };
        match end {
            Some(end) => {
                exchange.body = Span::new(start, end);
                self.phase = Phase::Head;
                true
            }
            None => {
                self.continue_gathering(received, local);
                false
            }
        }
    }

    /// Reserves budget for the received part of a body, and extends its deadline. Without budget
    /// the request is refused (503).
    fn continue_gathering(&mut self, received: usize, local: &mut ThreadLocals) {
        let Some(request) = &mut self.request else { return };
        let budget = &local.bodies;
        let lease = own(request).lease.get_or_insert_with(|| Box::new(Lease::new(budget)));
        if !lease.grow_to(received) {
            // The budget is released at once, not after the answer is sent.
            own(request).lease = None;
            return self.refuse(BodyError::NoRoom.into_response(), local);
        }
        let pace = Pace::of(&local.limits, lease.is_tight());
        let left_ms = match self.timing {
            Timing::Body => self.deadline_ms.saturating_sub(local.now_ms),
            _ => pace.rest_ms,
        };
        let more = received.saturating_sub(std::mem::replace(&mut self.body_received, received));
        let left_ms = pace.after(left_ms, more);
        self.set_deadline(Timing::Body, local.now_ms + left_ms);
    }
}

/// Returns the answer to a malformed or too large chunked body.
#[cold]
fn chunked_refusal(error: ChunkedError) -> Response {
    match error {
        ChunkedError::Overhead => Response::problem(
            HeadError::TooLarge.status(),
            "the trailers or chunk extensions are too large",
        ),
        error => BodyError::from(error).into_response(),
    }
}
