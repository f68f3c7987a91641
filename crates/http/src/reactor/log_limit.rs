//! A limit for log lines that clients can cause: one line per second of each kind, with the number
//! of omitted lines, so that no client fills the log.
//!
//! Each place that logs has a static [`LogLimit`]; threads share it without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Minimum time between two lines of one kind.
const EVERY: Duration = Duration::from_secs(1);

/// The limit of one kind of line.
pub(crate) struct LogLimit {
    /// Milliseconds since the first line of any kind, plus 1; 0 before the first of this kind.
    last_ms: AtomicU64,
    /// Lines omitted since the last one that was written.
    left_out: AtomicU64,
}

impl LogLimit {
    /// Returns a limit that allows the next line at once.
    pub(crate) const fn new() -> Self {
        Self { last_ms: AtomicU64::new(0), left_out: AtomicU64::new(0) }
    }

    /// Returns the number of omitted lines if a line may be written now, else `None`.
    #[cold]
    pub(crate) fn next(&self) -> Option<u64> {
        static BEGUN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        let elapsed = BEGUN.get_or_init(Instant::now).elapsed();
        self.at(elapsed.as_millis() as u64 + 1)
    }

    /// Decides at this time, in ms; of several threads at the same time, one gets the line.
    fn at(&self, now_ms: u64) -> Option<u64> {
        let last_ms = self.last_ms.load(Ordering::Relaxed);
        let is_due = last_ms == 0 || now_ms >= last_ms + EVERY.as_millis() as u64;
        let order = Ordering::Relaxed;
        if is_due && self.last_ms.compare_exchange(last_ms, now_ms, order, order).is_ok() {
            return Some(self.left_out.swap(0, Ordering::Relaxed));
        }
        self.left_out.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_says_how_many_were_left_out() {
        let limit = LogLimit::new();
        let lines: Vec<_> = [1, 2, 900, 1_001, 1_500, 5_000].map(|at_ms| limit.at(at_ms)).into();
        assert_eq!(lines, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
