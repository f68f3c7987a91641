//! The pauses before a transaction that conflicted with others runs again.

use std::time::Duration;

use crate::runtime::backoff::Backoff;

/// The maximum number of times that a transaction runs again.
const REPEATS_MAX: u32 = 100;

/// The first pause between the runs of a transaction, and the longest.
const PAUSE: Duration = Duration::from_micros(400);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// The pauses between the runs of a transaction.
pub(super) struct Pauses {
    count: u32,
    backoff: Backoff,
}

impl Pauses {
    pub(super) const fn begin() -> Self {
        Self { count: 0, backoff: Backoff::new(PAUSE, PAUSE_MAX) }
    }

    /// Sleeps and returns true; returns false when the maximum is reached.
    pub(super) fn pause(&mut self) -> bool {
        self.count += 1;
        if self.count > REPEATS_MAX {
            return false;
        }
        std::thread::sleep(self.backoff.pause());
        true
    }
}
