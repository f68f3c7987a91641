//! Another protocol at work on a connection that it has taken over.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Context;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::body::Body;
use crate::message::local::ThreadLocals;
use crate::message::protocol::{Protocol, Step, Turn};
use crate::reactor::task::Task;

/// Bytes that may wait for the client before the protocol is asked for more.
pub(super) const AHEAD_BYTES: usize = 32 * 1024;

/// Files that a protocol may pass at once.
const PASSED_MAX: usize = 4;

/// A protocol at work.
pub(super) struct Takeover {
    pub(super) protocol: Box<dyn Protocol>,
    pub(super) task: Task,
    pub(super) step: Step,
    /// It has had its turn with what came last.
    pub(super) has_heard: bool,
    /// Files that are to go beside the next byte.
    pub(super) passed: Vec<OwnedFd>,
}

impl Takeover {
    pub(super) fn has_to_pass(&self) -> bool {
        !self.passed.is_empty()
    }

    /// Sends bytes with the files that are to go beside them.
    pub(super) fn pass(&mut self, socket: &OwnedFd, unsent: &[u8]) -> Result<usize, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED_MAX))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        let files: Vec<BorrowedFd<'_>> =
            self.passed.iter().take(PASSED_MAX).map(|file| file.as_fd()).collect();
        beside.push(SendAncillaryMessage::ScmRights(&files));
        let sent = sendmsg(socket, &[IoSlice::new(unsent)], &mut beside, SendFlags::NOSIGNAL)?;
        self.passed.clear();
        Ok(sent)
    }

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
            passed: &mut self.passed,
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
