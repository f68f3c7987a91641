//! A protocol that has taken over a connection, with its task: [`Takeover::call`] gives it a
//! [`Turn`]. A protocol that panics ends its connection, and no other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Context;

use crate::body::Body;
use crate::message::protocol::{Protocol, ProtocolStep, Turn};
use crate::message::thread_locals::ThreadLocals;
use crate::reactor::task::Task;

/// Bytes that may wait for the client before the protocol is called again.
pub(super) const AHEAD_BYTES: usize = 32 * 1024;

/// A protocol with its task and its last step.
pub(super) struct Takeover {
    /// HTTP/2, a WebSocket, or a protocol of the program.
    pub(super) protocol: Box<dyn Protocol>,
    /// The waker with which the protocol has itself called again.
    pub(super) task: Task,
    /// What the protocol has answered to the latest call.
    pub(super) step: ProtocolStep,
    /// The protocol was already called with the latest bytes.
    pub(super) was_called: bool,
    /// [`ThreadLocals::epoch`] at the takeover.
    pub(super) epoch: u32,
}

impl Takeover {
    /// Calls the protocol, and returns how many bytes of `input` it used. `ended` means that no
    /// bytes follow.
    pub(super) fn call(
        &mut self,
        input: &[u8],
        ended: bool,
        output: &mut Vec<u8>,
        tail: &mut Option<(Body, usize)>,
        local: &mut ThreadLocals,
    ) -> usize {
        self.task.arm();
        let mut turn = Turn {
            input,
            used: 0,
            ended,
            output,
            tail,
            context: Context::from_waker(self.task.waker()),
            is_superseded: self.epoch != local.epoch,
            local,
        };
        let asked = catch_unwind(AssertUnwindSafe(|| self.protocol.advance(&mut turn)));
        let used = turn.used.min(input.len());
        // The output so far may end within a message.
        self.step = asked.unwrap_or(ProtocolStep::Close { linger: false });
        used
    }

    /// Returns [`Protocol::unread`].
    pub(super) fn unread(&self) -> Option<(usize, u64)> {
        self.protocol.unread()
    }

    /// Returns [`Protocol::requests_in_progress`].
    pub(super) fn requests_in_progress(&self) -> u32 {
        self.protocol.requests_in_progress()
    }

    /// Returns true if the protocol waits and wants no bytes.
    pub(super) fn is_sated(&self) -> bool {
        matches!(self.step, ProtocolStep::Wait { hungry: false, .. })
    }
}
