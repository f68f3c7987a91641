//! A request's body that is taken whole before its handler runs, behind its head in the buffer.

use super::answer::refusal;
use super::{BodyProgress, Connection, Phase, Timing, own};
use crate::chunked::{Chunked, ChunkedError};
use crate::head::{BodyLength, HeadError, Span};
use crate::inlet::BodyError;
use crate::local::Local;
use crate::response::{IntoResponse, Response};
use crate::status::Status;

impl Connection {
    /// Decides whether the body is wanted, and asks for it when the client waits for that.
    pub(super) fn start_body(&mut self, local: &mut Local) -> bool {
        let Some(request) = &mut self.request else { return false };
        let (head, routes) = (&request.0.head, &request.0.routes);
        let endpoint = request.0.endpoint.and_then(|index| routes.endpoint(index));
        let body_max = endpoint
            .and_then(|endpoint| endpoint.body_bytes_max)
            .unwrap_or(local.limits.body_bytes_max);
        if head.expect_continue && endpoint.is_none() {
            // Nobody wants the body; since the client may or may not send it, no request can
            // follow.
            self.answer_unrouted(local, true);
            return false;
        }
        if let Some(bytes_max) = endpoint.and_then(|endpoint| endpoint.streams(request)) {
            return self.start_upload(bytes_max, local);
        }
        let progress = match head.body {
            BodyLength::Exact(length) if length > body_max as u64 => {
                self.refuse(refusal(Status::CONTENT_TOO_LARGE, "the body is too large"), local);
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
        self.body_since_ms = local.now_ms;
        self.take_body(local)
    }

    /// Takes what has come of the body. True when it is whole.
    pub(super) fn take_body(&mut self, local: &mut Local) -> bool {
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
                let earned_ms = received as u64 * 1_000 / local.limits.body_rate_min.max(1);
                self.set_deadline(
                    Timing::Body,
                    self.body_since_ms + local.limits.body_timeout_ms + earned_ms,
                );
                false
            }
        }
    }
}

#[cold]
fn chunked_refusal(error: ChunkedError) -> Response {
    match error {
        ChunkedError::Overhead => {
            refusal(HeadError::TooLarge.status(), "the trailers or chunk extensions are too large")
        }
        error => coding_error(error).into_response(),
    }
}

#[cold]
pub(super) fn coding_error(error: ChunkedError) -> BodyError {
    BodyError::Malformed(match error {
        ChunkedError::TooLarge => return BodyError::TooLarge,
        ChunkedError::Size => "a chunk size is malformed",
        ChunkedError::Line => "the chunked coding is malformed",
        ChunkedError::Overhead => "the trailers or chunk extensions are too large",
    })
}
