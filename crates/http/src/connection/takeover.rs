//! Another protocol at work on a connection that it has taken over.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Context;

use crate::body::Body;
use crate::message::local::ThreadLocals;
use crate::message::protocol::{Protocol, Step, Turn};
use crate::reactor::task::Task;

/// Bytes that may wait for the client before the protocol is asked for more.
pub(super) const AHEAD_BYTES: usize = 32 * 1024;

/// A protocol at work.
pub(super) struct Takeover {
    pub(super) protocol: Box<dyn Protocol>,
    pub(super) task: Task,
    pub(super) step: Step,
    /// It has had its turn with what came last.
    pub(super) has_heard: bool,
}

impl Takeover {
    /// Gives the protocol its turn, and says how many of the bytes it used.
    pub(super) fn go_on(
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
            local,
        };
        let asked = catch_unwind(AssertUnwindSafe(|| self.protocol.go_on(&mut turn)));
        let used = turn.used.min(input.len());
        // What it has written so far may be half of something.
        self.step = asked.unwrap_or(Step::Close { linger: false });
        used
    }

    /// See [`Protocol::unread`].
    pub(super) fn unread(&self) -> Option<(usize, u64)> {
        self.protocol.unread()
    }

    /// Whether it has nothing to do and wants no bytes either.
    pub(super) fn is_sated(&self) -> bool {
        matches!(self.step, Step::Wait { hungry: false, .. })
    }
}
