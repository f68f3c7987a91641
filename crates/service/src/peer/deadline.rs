//! Deadlines that may be unlimited.

use std::time::{Duration, Instant};

/// A timeout that is never reached.
const ENDLESS: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Returns the instant after this duration, which may be unlimited.
pub(super) fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or_else(|| now + ENDLESS)
}
