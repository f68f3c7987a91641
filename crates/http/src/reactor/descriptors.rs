//! The process' limit on open descriptors, and the part of it that is reserved for handlers.
//!
//! The system assigns the lowest free number. So a connection's number is a lower bound of the
//! number of open descriptors, of connections and everything else, and nothing has to be counted.

use std::fs;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The percentages of the limit from which it is near, and below which it is far again. The gap
/// avoids a message for each client that comes and goes there.
const NEAR_PERCENT: u64 = 90;
const FAR_PERCENT: u64 = 80;
/// The reserve is at most the limit divided by this.
const RESERVED_PART: u64 = 16;
/// The interval of the check whether the limit is far again.
const CHECK_INTERVAL_MS: u64 = 1_000;

/// The last message: none, the limit is near, connections are refused.
const FAR: u8 = 0;
const NEAR: u8 = 1;
const FULL: u8 = 2;

/// Raises the process' limit on open descriptors as far as permitted (the soft limit of
/// RLIMIT_NOFILE to the hard one), and returns the limit in force, or `None` if it is unlimited.
/// Each connection uses one descriptor; the usual soft limit of 1,024 exists for programs that use
/// `select`. A server calls this when it starts; a client with thousands of connections may call it
/// too.
pub fn raise_descriptors_max() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, the old limit applies, and running out of descriptors is handled.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    limit_now()
}

fn limit_now() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Returns the numbers of open and of allowed descriptors; `None` if not provided.
pub(crate) fn open_and_limit() -> (Option<u64>, Option<u64>) {
    (open_now(), limit_now())
}

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
    limit: u64,
    near: u64,
    /// Connections whose descriptor has this number or a higher one are refused.
    full: u64,
    reported: AtomicU8,
    next_check_ms: AtomicU64,
}

impl Default for Descriptors {
    fn default() -> Self {
        Self::new(None, 0)
    }
}

impl Descriptors {
    pub(crate) fn new(limit: Option<u64>, reserved: usize) -> Self {
        let limit = limit.unwrap_or(u64::MAX);
        let full = limit - (reserved as u64).min(limit / RESERVED_PART);
        let near = percent(limit, NEAR_PERCENT).min(full);
        Self { limit, near, full, reported: AtomicU8::new(FAR), next_check_ms: AtomicU64::new(0) }
    }

    /// Returns true if a connection that was just accepted may stay.
    pub(crate) fn accepts(&self, socket: BorrowedFd<'_>) -> bool {
        let number = u64::try_from(socket.as_raw_fd()).unwrap_or_default();
        if number >= self.near {
            self.report(if number < self.full { NEAR } else { FULL }, number + 1);
        }
        number < self.full
    }

    /// Notes that no connection can be accepted at all.
    #[cold]
    pub(crate) fn report_exhausted(&self) {
        self.report(FULL, self.limit);
    }

    #[cold]
    fn report(&self, state: u8, open: u64) {
        if self.reported.fetch_max(state, Ordering::Relaxed) >= state {
            return;
        }
        let Self { limit, full, .. } = *self;
        let advice = "raise the process' limit (ulimit -n, LimitNOFILE= of systemd), or serve the \
                       port by several processes";
        if state == NEAR {
            log::warn!(
                "{open} of the {limit} descriptors that this process may have are open; from \
                 {full} on new connections are refused: {advice}"
            );
        } else {
            log::warn!(
                "{open} of the {limit} descriptors that this process may have are open: new \
                 connections are refused with 503, open ones continue; {advice}"
            );
        }
    }

    /// Checks from time to time, after the limit was near, whether it is far again.
    pub(crate) fn recheck(&self, now_ms: u64) {
        if self.reported.load(Ordering::Relaxed) == FAR
            || now_ms < self.next_check_ms.load(Ordering::Relaxed)
        {
            return;
        }
        self.next_check_ms.store(now_ms.saturating_add(CHECK_INTERVAL_MS), Ordering::Relaxed);
        if open_now().is_some_and(|open| open < percent(self.limit, FAR_PERCENT)) {
            self.reported.store(FAR, Ordering::Relaxed);
            log::info!("the limit on descriptors is not near any more");
        }
    }
}

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
