//! The early decision on a request with a body: the layers and the check of its endpoint decide by
//! the head, before the body is read. So a client without rights cannot make the server receive a
//! large body.
//!
//! The decision may be a future. It is kept in [`Phase::Admitting`], and polled when its task is
//! woken.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

use crate::connection::state::{Connection, Phase};
use crate::message::response::Response;
use crate::message::thread_locals::ThreadLocals;
use crate::proto::status::Status;
use crate::routing::admission::Admission;
use crate::routing::dispatch;

impl Connection {
    /// Starts the decision on the request. Returns true if its body may be read now; a refusal is
    /// answered here, and a decision that waits becomes the phase of the connection.
    pub(super) fn admit(&mut self, local: &mut ThreadLocals) -> bool {
        let Some(request) = &self.request else { return false };
        match dispatch::decide(&self.routes, request) {
            Admission::Granted => true,
            Admission::Refused(answer) => {
                self.refuse_unread(answer, local);
                false
            }
            Admission::Later(decision) => {
                let task = local.take_task();
                task.aim(self.token);
                self.phase = Phase::Admitting { decision, task };
                self.poll_decision(local) == Poll::Ready(true)
            }
        }
    }

    /// Polls a pending decision. Returns `Ready(true)` if the request is accepted, and
    /// `Ready(false)` after a refusal, which is then answered. A panic is answered with 500.
    pub(super) fn poll_decision(&mut self, local: &mut ThreadLocals) -> Poll<bool> {
        let Phase::Admitting { decision, task } = &mut self.phase else {
            return Poll::Ready(false);
        };
        task.arm();
        let polled = catch_unwind(AssertUnwindSafe(|| {
            decision.as_mut().poll(&mut Context::from_waker(task.waker()))
        }));
        let answer = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(Ok(()))) => None,
            Ok(Poll::Ready(Err(answer))) => Some(answer),
            Err(panic) => {
                if let Some(request) = &self.request {
                    dispatch::log_panic(request, &*panic);
                }
                Some(Response::from_status(Status::INTERNAL_SERVER_ERROR))
            }
        };
        self.phase = Phase::Head;
        let (Some(answer), Some(request)) = (answer, &self.request) else {
            return Poll::Ready(true);
        };
        let answer = dispatch::refused(request, answer);
        self.refuse_unread(answer, local);
        Poll::Ready(false)
    }
}
