//! The process' limit on open descriptors, and the part of it that is reserved for handlers.
//!
//! The system assigns the lowest free number. So a connection's number is a lower bound of the
//! number of open descriptors, of connections and everything else, and nothing has to be counted. A
//! server that runs out of descriptors would fail in handlers that open files or databases; so it
//! refuses connections earlier ([`crate::Limits::descriptors_reserved`]), and logs the reason.

use std::fs;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The percentage of the limit from which it is near.
const NEAR_PERCENT: u64 = 90;
/// The percentage of the limit below which it is far again. The gap avoids a message for each
/// client that connects and disconnects at the limit.
const FAR_PERCENT: u64 = 80;
/// The reserve is at most the limit divided by this.
const RESERVED_PART: u64 = 16;
/// The interval at which a limit that was near is checked again.
const CHECK_INTERVAL_MS: u64 = 1_000;

/// The last message: none, or that the limit is far again.
const FAR: u8 = 0;
/// The last message: the limit is near.
const NEAR: u8 = 1;
/// The last message: connections are refused.
const FULL: u8 = 2;

/// Raises the process' limit on open descriptors as far as permitted (the soft limit of
/// RLIMIT_NOFILE to the hard one). Returns the limit in force, or `None` if it is unlimited.
///
/// Each connection uses one descriptor. The usual soft limit of 1,024 exists for programs that use
/// `select(2)`. A server calls this when it starts; call it in a client with thousands of
/// connections.
///
/// ```
/// let limit = marmota_http::raise_descriptors_max();
/// assert!(limit.is_none_or(|limit| limit > 0));
/// assert_eq!(marmota_http::raise_descriptors_max(), limit, "a second call changes nothing");
/// ```
pub fn raise_descriptors_max() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, the old limit applies, and running out of descriptors is handled.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    limit_now()
}

/// Returns the soft limit; `None` if it is unlimited.
fn limit_now() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Returns the numbers of open and of allowed descriptors, for metrics; `None` if the system does
/// not provide them.
pub(crate) fn open_and_limit() -> (Option<u64>, Option<u64>) {
    (open_now(), limit_now())
}

/// Counts the open descriptors of the process by `/proc`.
fn open_now() -> Option<u64> {
    const OWN: &str = "/proc/self/fd";
    match fs::metadata(OWN).ok()?.len() {
        // Before Linux 6.2 they must be counted; one is open for counting.
        0 => Some((fs::read_dir(OWN).ok()?.count() as u64).saturating_sub(1)),
        open => Some(open),
    }
}

/// The state of the descriptor limit, shared by all threads of a server.
#[derive(Debug)]
pub(crate) struct Descriptors {
    /// The process' limit when the server started; `u64::MAX` without one.
    limit: u64,
    /// The number from which the limit is near.
    near: u64,
    /// Connections whose descriptor has this number or a higher one are refused.
    full: u64,
    /// The last message: `FAR`, `NEAR` or `FULL`. So each thread logs a change at most once.
    reported: AtomicU8,
    /// The time of the next check whether the limit is far again, on the clock of the threads.
    next_check_ms: AtomicU64,
}

impl Default for Descriptors {
    fn default() -> Self {
        Self::new(None, 0)
    }
}

impl Descriptors {
    /// Returns the state for this limit, of which `reserved` descriptors are for handlers, at most
    /// a sixteenth.
    pub(crate) fn new(limit: Option<u64>, reserved: usize) -> Self {
        let limit = limit.unwrap_or(u64::MAX);
        let full = limit - (reserved as u64).min(limit / RESERVED_PART);
        let near = percent(limit, NEAR_PERCENT).min(full);
        Self { limit, near, full, reported: AtomicU8::new(FAR), next_check_ms: AtomicU64::new(0) }
    }

    /// Returns true if a connection that was just accepted may stay. Logs a warning near the limit.
    pub(crate) fn accepts(&self, socket: BorrowedFd<'_>) -> bool {
        let number = u64::try_from(socket.as_raw_fd()).unwrap_or_default();
        if number >= self.near {
            self.report(if number < self.full { NEAR } else { FULL }, number + 1);
        }
        number < self.full
    }

    /// Logs that no descriptor is left to accept a connection with.
    #[cold]
    pub(crate) fn report_exhausted(&self) {
        self.report(FULL, self.limit);
    }

    /// Logs a warning, unless it or a more severe one was the last.
    #[cold]
    fn report(&self, state: u8, open: u64) {
        if self.reported.fetch_max(state, Ordering::Relaxed) >= state {
            return;
        }
        let Self { limit, full, .. } = *self;
        let advice = "raise the limit of the process (ulimit -n, or LimitNOFILE= in systemd), or \
                       serve the port with several processes";
        if state == NEAR {
            log::warn!(
                "{open} of {limit} file descriptors of this process are open; from {full} on, new \
                 connections are refused: {advice}"
            );
        } else {
            log::warn!(
                "{open} of {limit} file descriptors of this process are open: new connections are \
                 refused with 503, and open ones continue; {advice}"
            );
        }
    }

    /// Checks after each interval, if the limit was near, whether it is far again.
    pub(crate) fn recheck(&self, now_ms: u64) {
        if self.reported.load(Ordering::Relaxed) == FAR
            || now_ms < self.next_check_ms.load(Ordering::Relaxed)
        {
            return;
        }
        self.next_check_ms.store(now_ms.saturating_add(CHECK_INTERVAL_MS), Ordering::Relaxed);
        if open_now().is_some_and(|open| open < percent(self.limit, FAR_PERCENT)) {
            self.reported.store(FAR, Ordering::Relaxed);
            log::info!("enough file descriptors are free again: new connections are accepted");
        }
    }
}

/// Returns this percentage of the limit, without overflow.
fn percent(limit: u64, percent: u64) -> u64 {
    // Divides first: without a limit it is `u64::MAX`.
    limit / 100 * percent + limit % 100 * percent / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_limit_is_kept() {
        for (limit, reserved, full) in
            [(Some(20_000), 256, 19_744), (Some(1_024), 256, 960), (None, 256, u64::MAX - 256)]
        {
            assert_eq!(Descriptors::new(limit, reserved).full, full, "{limit:?}");
        }
        assert_eq!(percent(20_000, 90), 18_000);
        assert_eq!(percent(48, 90), 43);
    }

    #[test]
    fn what_is_open_is_counted() {
        let (open, limit) = open_and_limit();
        assert!(open.unwrap() > 2 && limit.is_none_or(|limit| open.unwrap() <= limit));
    }
}
