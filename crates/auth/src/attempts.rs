//! How many logins have failed, by name and by address: counted before they
//! are tried, so that many at once are not let through, and in a memory that
//! does not grow.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quick_cache::unsync::Cache;

/// Names, addresses and pairs of both that are remembered.
const REMEMBERED: usize = 50_000;
/// How many times as many attempts a name or an address alone has.
const ALONE: u32 = 10;

#[derive(Clone, PartialEq, Eq, Hash)]
enum Whose {
    Name(String),
    Address(IpAddr),
    Both(String, IpAddr),
}

#[derive(Clone, Copy)]
struct Count {
    failed: u32,
    since: Instant,
}

/// The attempts of a while.
pub(crate) struct Attempts {
    counts: Mutex<Cache<Whose, Count>>,
    max: u32,
    window: Duration,
}

impl Attempts {
    pub(crate) fn new(max: u32, window: Duration) -> Self {
        Self { counts: Mutex::new(Cache::new(REMEMBERED)), max, window }
    }

    /// Counts an attempt as failed, unless there were too many: then it gives
    /// the time to wait.
    pub(crate) fn begin(&self, name: &str, address: Option<IpAddr>) -> Result<(), Duration> {
        let (now, mut counts) = (Instant::now(), self.counts.lock());
        let whose = self.whose(name, address);
        let current = |count: Option<&Count>| {
            let current = count.filter(|count| now - count.since < self.window);
            current.copied().unwrap_or(Count { failed: 0, since: now })
        };
        for (whose, max) in &whose {
            let count = current(counts.peek(whose));
            if count.failed >= *max {
                return Err(self.window.saturating_sub(now - count.since));
            }
        }
        for (whose, _) in whose {
            let count = current(counts.peek(&whose));
            counts.insert(whose, Count { failed: count.failed + 1, ..count });
        }
        Ok(())
    }

    /// The attempt was none that failed.
    pub(crate) fn succeeded(&self, name: &str, address: Option<IpAddr>) {
        let mut counts = self.counts.lock();
        for (whose, _) in self.whose(name, address) {
            match (counts.peek(&whose).copied(), &whose) {
                // Whoever has the password has nothing more to guess.
                (_, Whose::Both(..)) => drop(counts.remove(&whose)),
                (Some(count), _) => {
                    counts.insert(whose, Count { failed: count.failed.saturating_sub(1), ..count });
                }
                (None, _) => {}
            }
        }
    }

    fn whose(&self, name: &str, address: Option<IpAddr>) -> Vec<(Whose, u32)> {
        let alone = self.max.saturating_mul(ALONE);
        let name: String = name.chars().take(100).collect();
        match address {
            Some(address) => vec![
                (Whose::Both(name.clone(), address), self.max),
                (Whose::Address(address), alone),
                (Whose::Name(name), alone),
            ],
            None => vec![(Whose::Name(name), self.max)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_failures_are_not_tried() {
        let attempts = Attempts::new(3, Duration::from_secs(3600));
        let address = |last| Some(IpAddr::from([10, 0, 0, last]));
        for _ in 0..3 {
            attempts.begin("ann", address(1)).unwrap();
        }
        assert!(attempts.begin("ann", address(1)).is_err());
        // Others are not kept from logging in.
        attempts.begin("ann", address(2)).unwrap();
        attempts.begin("bob", address(1)).unwrap();
        // Until their address is known for it.
        for number in 0..26 {
            attempts.begin(&format!("user {number}"), address(1)).unwrap();
        }
        assert!(attempts.begin("eve", address(1)).is_err());
        for number in 10..36 {
            attempts.begin("ann", address(number)).unwrap();
        }
        assert!(attempts.begin("ann", address(99)).is_err());
    }

    #[test]
    fn success_and_time_forgive() {
        let attempts = Attempts::new(2, Duration::from_millis(50));
        for _ in 0..10 {
            attempts.begin("ann", None).unwrap();
            attempts.succeeded("ann", None);
        }
        attempts.begin("ann", None).unwrap();
        attempts.begin("ann", None).unwrap();
        assert!(attempts.begin("ann", None).is_err());
        std::thread::sleep(Duration::from_millis(60));
        attempts.begin("ann", None).unwrap();
    }
}
