//! The clock for expiry: nanoseconds since the program's start, which never go back. It is not the
//! wall clock, so setting the date does not expire entries. On Linux it stops while the machine
//! sleeps.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// A deadline that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The source of time of a map.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicU64>>);

impl Clock {
    /// The system's monotonic clock.
    #[must_use]
    pub fn monotonic() -> Self {
        Self(None)
    }

    pub(crate) fn now_ns(&self) -> u64 {
        match &self.0 {
            None => nanoseconds(START.elapsed()),
            Some(manual) => manual.load(Ordering::Acquire),
        }
    }

    /// Returns the time that is `time` from now.
    pub(crate) fn deadline_ns(&self, time: Duration) -> u64 {
        self.now_ns().saturating_add(nanoseconds(time)).min(NEVER - 1)
    }
}

/// Saturates after 584 years.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A clock that only advances by [`ManualClock::advance`], for tests of expiry.
///
/// ```
/// use std::time::Duration;
/// use marmota_collections::{ManualClock, Map};
///
/// let clock = ManualClock::new();
/// let mut map = Map::new().with_clock(clock.clock()).with_ttl(Duration::from_secs(60));
/// map.insert("session", 7);
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(map.get("session"), None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Creates a clock at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the handle through which maps read this clock.
    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock(Some(Arc::clone(&self.0)))
    }

    /// Advances the clock.
    pub fn advance(&self, time: Duration) {
        self.0.fetch_add(nanoseconds(time), Ordering::AcqRel);
    }
}
