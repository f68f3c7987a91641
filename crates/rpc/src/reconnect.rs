//! When a client tries to connect again.

use std::time::{Duration, Instant};

use marmota_store::backoff::Backoff;

/// The schedule of attempts to connect to a server that is gone: pauses that grow from one attempt
/// to the next, and a time limit.
///
/// ```
/// use std::time::{Duration, Instant};
/// use marmota_rpc::Reconnect;
/// let pauses = Duration::from_millis(10)..=Duration::from_secs(2);
/// let mut reconnect = Reconnect::new(pauses, Some(Duration::from_secs(60)));
/// reconnect.begin(Instant::now());
/// assert!(!reconnect.is_over());
/// let next = reconnect.pause();
/// assert_eq!(reconnect.next_attempt(), next);
/// ```
#[derive(Clone, Debug)]
pub struct Reconnect {
    backoff: Backoff,
    timeout: Option<Duration>,
    since: Instant,
    next: Instant,
}

impl Reconnect {
    /// Creates a schedule with the shortest and the longest pause, and the time limit if there is
    /// one.
    #[must_use]
    pub fn new(pauses: std::ops::RangeInclusive<Duration>, timeout: Option<Duration>) -> Self {
        let now = Instant::now();
        let backoff = Backoff::new(*pauses.start(), *pauses.end());
        Self { backoff, timeout, since: now, next: now }
    }

    /// Starts the time limit. The pauses continue to grow until [`Reconnect::reset`].
    pub const fn begin(&mut self, since: Instant) {
        self.since = since;
    }

    /// Returns true once the time limit is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.timeout.is_some_and(|timeout| self.since.elapsed() >= timeout)
    }

    /// Starts the next pause; returns its end.
    pub fn pause(&mut self) -> Instant {
        self.next = Instant::now() + self.backoff.pause();
        self.next
    }

    /// Returns the end of the last pause.
    #[must_use]
    pub const fn next_attempt(&self) -> Instant {
        self.next
    }

    /// Begins with the shortest pause again, after a connection that worked.
    pub const fn reset(&mut self) {
        self.backoff.reset();
    }
}
