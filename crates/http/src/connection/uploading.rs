//! Passing of a body to a handler that reads it piece by piece. The connection decodes received
//! bytes into the handler's [`BodyBuffer`] as far as there is room, and reads more only when the
//! handler waits for more.
//!
//! The time limit counts only while the handler waits for bytes, and is extended by the bytes that
//! arrive ([`Limits::body_rate_min`](crate::Limits::body_rate_min)): a slow handler does not make
//! its client time out.

use std::ops::ControlFlow;
use std::rc::Rc;

use crate::body::body_buffer::{BodyBuffer, BodyError};
use crate::connection::state::{Connection, Fate, Phase, Timing, own};
use crate::connection::upload::{Undecoded, Upload};
use crate::message::protocol::LINGER_BYTES_MAX;
use crate::message::response::IntoResponse;
use crate::message::thread_locals::ThreadLocals;
use crate::proto::chunked::Chunked;
use crate::proto::head::BodyLength;

/// What is needed to continue an upload.
enum Need {
    /// Bytes: the handler waits for them.
    Bytes,
    /// The output must be sent.
    Sending,
    /// Nothing can be done until the handler reads.
    Nothing,
}

impl Connection {
    /// Returns true if a body is being received and is not complete. Then the answer closes the
    /// connection: the rest of the body would have to be read before the next request.
    #[inline]
    pub(super) fn is_uploading(&self) -> bool {
        self.upload.as_ref().is_some_and(|upload| !upload.complete)
    }

    /// Begins to receive the body of the parsed request, which may have `bytes_max` bytes. Returns
    /// true if its handler can run.
    ///
    /// From here on, received bytes pass through the connection's buffer into the handler's, and
    /// the head stays at the front of the connection's. A declared length beyond `bytes_max` is
    /// refused at once (413); a chunked body that becomes longer fails in the handler.
    pub(super) fn start_upload(&mut self, bytes_max: u64, local: &mut ThreadLocals) -> bool {
        let Some(request) = &mut self.request else { return false };
        let exchange = own(request);
        let rest = match exchange.head.body {
            BodyLength::Exact(length) if length > bytes_max => {
                self.refuse(BodyError::TooLarge.into_response(), local);
                return false;
            }
            BodyLength::Exact(length) => Undecoded::Exact(length),
            _ => {
                let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
                Undecoded::Chunked(Chunked::new(bytes_max, local.limits.head_bytes_max))
            }
        };
        let body_buffer = Rc::new(BodyBuffer::default());
        exchange.body_buffer = Some(Rc::clone(&body_buffer));
        exchange.consumed = exchange.head.end;
        self.upload = Some(Box::new(Upload {
            body_buffer,
            rest,
            complete: false,
            waits: exchange.head.expect_continue && exchange.unread() == 0,
            patience_ms: local.limits.body_timeout_ms,
        }));
        self.feed(local);
        true
    }

    /// Serves the handler that reads the body. Returns `Continue(true)` if there is more to do at
    /// once, and `Break` if nothing can be done until the next event.
    #[inline(never)]
    pub(super) fn continue_upload(&mut self, local: &mut ThreadLocals) -> ControlFlow<Fate, bool> {
        match self.feed(local) {
            Need::Sending => ControlFlow::Continue(true),
            Need::Bytes if self.readable => match self.read(local) {
                Fate::Drop => ControlFlow::Break(Fate::Drop),
                Fate::Keep => ControlFlow::Continue(true),
            },
            Need::Bytes => {
                self.hungry = true;
                match &self.phase {
                    Phase::Streaming(body_stream) if !body_stream.is_stalled() => {
                        ControlFlow::Continue(true)
                    }
                    _ => ControlFlow::Break(Fate::Keep),
                }
            }
            Need::Nothing => ControlFlow::Continue(false),
        }
    }

    /// Passes received bytes to the handler, sends `100 Continue` when it first waits for bytes,
    /// and returns what is needed to continue.
    fn feed(&mut self, local: &mut ThreadLocals) -> Need {
        let (Some(upload), Some(request)) = (&mut self.upload, &mut self.request) else {
            return Need::Nothing;
        };
        if request.0.unread() > 0 && upload.body_buffer.has_room() {
            let exchange = own(request);
            let used = upload.decode(&exchange.buffer[exchange.consumed..]);
            exchange.consumed += used;
            if self.timing == Timing::Body {
                upload.patience_ms = self.deadline_ms.saturating_sub(local.now_ms);
                self.timing = Timing::None;
            }
            let earned_ms = used as u64 * 1_000 / local.limits.body_rate_min.max(1);
            upload.patience_ms =
                upload.patience_ms.saturating_add(earned_ms).min(local.limits.body_timeout_ms);
        }
        if upload.waits && upload.body_buffer.is_wanted() {
            upload.waits = false;
            if matches!(self.phase, Phase::Waiting { .. }) {
                if self.output.capacity() == 0 {
                    self.output = local.take_output();
                }
                self.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                return Need::Sending;
            }
        }
        if !upload.body_buffer.has_room() || !upload.body_buffer.is_awaited() {
            return Need::Nothing;
        }
        if self.ended {
            upload.body_buffer.fail(BodyError::CutOff);
            return Need::Nothing;
        }
        if self.timing != Timing::Body {
            let deadline_ms = local.now_ms + upload.patience_ms;
            self.set_deadline(Timing::Body, deadline_ms);
        }
        Need::Bytes
    }

    /// Fails the upload: the body did not arrive in time. The handler gets [`BodyError::TimedOut`],
    /// and may still answer.
    pub(super) fn fail_upload(&mut self) {
        self.timing = Timing::None;
        if let Some(upload) = &self.upload {
            upload.body_buffer.fail(BodyError::TimedOut);
        }
    }

    /// Ends the upload after the answer. If the body is incomplete, no request can follow, and the
    /// connection closes.
    pub(super) fn end_upload(&mut self) {
        let Some(upload) = self.upload.take() else { return };
        if !upload.complete {
            self.phase = Phase::Closing { linger_bytes: LINGER_BYTES_MAX };
        }
        if let Some(request) = &mut self.request {
            let exchange = own(request);
            exchange.body_buffer = None;
            // The bytes before the next head are not those that this one was parsed from.
            exchange.head.end = 0;
            self.next_at = exchange.consumed;
        }
    }
}
