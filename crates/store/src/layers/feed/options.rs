//! What a change feed records, and for how long.

use std::time::Duration;

/// The settings of a change feed ([`StoreBuilder::changes`](crate::StoreBuilder::changes)).
///
/// Default: a day, and 256 MiB.
///
/// ```
/// use std::time::Duration;
/// use marmota_store::change::ChangeRetention;
///
/// let week = ChangeRetention::default().age_max(Duration::from_secs(7 * 24 * 3_600));
/// assert_eq!(week, ChangeRetention::default().age_max(Duration::from_secs(604_800)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeRetention {
    pub(crate) age_max: Duration,
    pub(crate) bytes_max: u64,
}

impl Default for ChangeRetention {
    fn default() -> Self {
        Self { age_max: Duration::from_secs(24 * 3_600), bytes_max: 256 << 20 }
    }
}

impl ChangeRetention {
    /// Returns a retention that keeps all commits.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self { age_max: Duration::MAX, bytes_max: u64::MAX }
    }

    /// Returns true if no commit is ever removed.
    pub(crate) fn is_unlimited(&self) -> bool {
        *self == Self::unlimited()
    }

    /// Sets the age after which a commit is removed from the feed. A reader that is later than that
    /// gets a [`FeedEvent::Gap`](crate::change::FeedEvent).
    #[must_use]
    pub const fn age_max(mut self, age: Duration) -> Self {
        self.age_max = age;
        self
    }

    /// Sets the number of bytes of encoded changes that the feed has. If they are exceeded, the
    /// oldest commits are removed.
    #[must_use]
    pub const fn bytes_max(mut self, bytes: u64) -> Self {
        self.bytes_max = bytes;
        self
    }
}
