//! The account of answers that wait for their client, of one connection. The connection compares it
//! with its limits, and reports it to the server's budget for unread answers.

use std::cell::Cell;
use std::rc::Rc;

use super::clock::Clock;
use crate::reactor::memory_trimmer;

/// The memory that the answers of a connection hold for its client, as the sum of all
/// [`UnreadAnswer`].
#[derive(Debug, Default)]
pub(super) struct UnreadAnswers {
    pub(super) bytes: Cell<usize>,
    /// Answers that wait for the client.
    pub(super) answers: Cell<u32>,
    /// When the client last took some of them, in ms.
    pub(super) progress_ms: Cell<u64>,
}

/// The memory that one answer holds. Dropping it removes the answer from the account.
pub(super) struct UnreadAnswer {
    unread: Rc<UnreadAnswers>,
    bytes: usize,
}

impl UnreadAnswer {
    /// Adds an answer with this number of bytes to the account.
    pub(super) fn new(unread: &Rc<UnreadAnswers>, bytes: usize, now_ms: u64) -> Self {
        if unread.answers.replace(unread.answers.get() + 1) == 0 {
            unread.progress_ms.set(now_ms);
        }
        unread.bytes.set(unread.bytes.get() + bytes);
        Self { unread: Rc::clone(unread), bytes }
    }

    /// Notes that the client has taken some bytes.
    pub(super) fn note_progress(&self, clock: &Clock) {
        self.unread.progress_ms.set(clock.now_ms());
    }

    /// Sets the number of bytes that the answer holds.
    pub(super) fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        self.unread.bytes.set(self.unread.bytes.get() - before + bytes);
    }
}

impl Drop for UnreadAnswer {
    fn drop(&mut self) {
        memory_trimmer::note_freed(self.bytes);
        self.set(0);
        self.unread.answers.set(self.unread.answers.get() - 1);
    }
}
