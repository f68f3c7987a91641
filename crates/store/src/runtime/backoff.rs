//! Pauses between attempts that grow from one to the next.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Pauses between attempts: each is twice as long as the last, up to a maximum.
///
/// Each pause is shortened by a random part of up to a half, so that clients
/// that lost the same server do not return to it at the same moment.
///
/// ```
/// use marmota_store::backoff::Backoff;
/// use std::time::Duration;
/// let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(30));
/// assert!((5..=10).contains(&backoff.pause().as_millis()));
/// assert!((10..=20).contains(&backoff.pause().as_millis()));
/// assert!((15..=30).contains(&backoff.pause().as_millis()));
/// backoff.reset();
/// assert!((5..=10).contains(&backoff.pause().as_millis()));
/// ```
#[derive(Clone, Debug)]
pub struct Backoff {
    initial: Duration,
    maximum: Duration,
    next: Duration,
}

impl Backoff {
    /// Creates pauses that begin with `initial` and grow to `maximum`.
    #[must_use]
    pub const fn new(initial: Duration, maximum: Duration) -> Self {
        Self { initial, maximum, next: initial }
    }

    /// Returns how long to wait before the next attempt.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next.min(self.maximum);
        self.next = pause.saturating_mul(2);
        // Each `RandomState` has new keys; the number need not be secret.
        let random = RandomState::new().build_hasher().finish() as u32;
        pause - pause.mul_f64(f64::from(random) / f64::from(u32::MAX) / 2.0)
    }

    /// Begins with the initial pause again, after an attempt that succeeded.
    pub const fn reset(&mut self) {
        self.next = self.initial;
    }
}
