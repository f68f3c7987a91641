//! A task that fetches documents for a read.

use tokio::task::JoinHandle;

/// A task that fetches documents for a read.
pub(super) struct Fetching {
    pub(super) task: JoinHandle<()>,
    /// True in a transaction, which would end if a command were interrupted.
    pub(super) is_inside: bool,
}

impl Fetching {
    /// Stops the fetch. In a transaction, it stops at the next message.
    pub(super) fn end(self) {
        if !self.is_inside {
            self.task.abort();
        }
    }
}
