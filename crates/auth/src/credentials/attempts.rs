//! Counts of failed logins, by account and by address. An attempt is counted before it is checked,
//! so that concurrent attempts cannot exceed the limit. Memory is bounded.
//!
//! No limit lets one client lock another out:
//! - **Account and address block** (an address of IPv4, a /64 of IPv6): 10 failures in a window.
//! - **Address block**: 100 failures over all accounts. A block from which the account has
//!   logged in before is exempt.
//! - **Account**: after 100 failures from anywhere, blocks from which it has not logged in before
//!   have 2 failures each instead of 10. The account itself is never locked.
//!
//! The counts are in this process only: several processes on one database have separate limits. If
//! all 50,000 places are taken, an old count is forgotten.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use marmota_model::Timestamp;
use parking_lot::Mutex;
use quick_cache::unsync::Cache;

/// The maximum number of remembered accounts, blocks and pairs of both.
const REMEMBERED: usize = 50_000;
/// The factor by which the limit of an account or a block alone is greater.
const ALONE: u32 = 10;
/// The limit for a block that is unknown for the account, while the account is attacked.
const UNKNOWN_MAX: u32 = 2;

/// The addresses that one client may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Block {
    /// Callers without an address: local, through a Unix socket.
    Local,
    /// One address of IPv4, also if it was mapped to IPv6 (RFC 4291, 2.5.5.2).
    V4(Ipv4Addr),
    /// A /64 network, of which a client can use every address (RFC 4291, 2.5.4).
    V6([u8; 8]),
}

impl Block {
    /// Returns the block of an address; `None` for a caller without one.
    fn of(address: Option<IpAddr>) -> Self {
        match address {
            None => Self::Local,
            Some(IpAddr::V4(address)) => Self::V4(address),
            Some(IpAddr::V6(address)) => match address.to_ipv4_mapped() {
                Some(address) => Self::V4(address),
                None => {
                    let [a, b, c, d, e, f, g, h, ..] = address.octets();
                    Self::V6([a, b, c, d, e, f, g, h])
                }
            },
        }
    }
}

/// The subject of a count.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Counted {
    Account(String),
    Block(Block),
    Pair(String, Block),
}

/// The failures of a subject in the current window.
#[derive(Clone, Copy)]
struct Count {
    /// The number of failures, including attempts in progress.
    failed: u32,
    /// The begin of the window, in microseconds.
    since: i64,
    /// For a pair: true if the account has logged in from there.
    is_known: bool,
}

/// The attempts in a time window.
pub(crate) struct Attempts {
    counts: Mutex<Cache<Counted, Count>>,
    /// The limit for an account and block together.
    max: u32,
    /// The length of the window in microseconds.
    window_us: i64,
}

impl Attempts {
    /// Creates empty counts; see [`crate::Settings::attempts`].
    pub(crate) fn new(max: u32, window: Duration) -> Self {
        let window_us = i64::try_from(window.as_micros()).unwrap_or(i64::MAX);
        Self { counts: Mutex::new(Cache::new(REMEMBERED)), max, window_us }
    }

    /// Counts an attempt as failed. If there were too many, returns the time to wait instead.
    ///
    /// An attempt that succeeds is subtracted again by [`Attempts::succeeded`].
    pub(crate) fn begin(
        &self,
        account: &str,
        address: Option<IpAddr>,
        now: Timestamp,
    ) -> Result<(), Duration> {
        let (now, mut counts) = (now.micros(), self.counts.lock());
        let [pair, block, account] = counted(account, address);
        let current = |counts: &Cache<Counted, Count>, of: &Counted| match counts.peek(of) {
            Some(count) if now.saturating_sub(count.since) < self.window_us => *count,
            Some(count) => Count { failed: 0, since: now, ..*count },
            None => Count { failed: 0, since: now, is_known: false },
        };
        let alone = self.max.saturating_mul(ALONE);
        let of_pair = current(&counts, &pair);
        let (of_block, of_account) = (current(&counts, &block), current(&counts, &account));
        let is_attacked = of_account.failed >= alone;
        let pair_max = match is_attacked && !of_pair.is_known {
            true => self.max.min(UNKNOWN_MAX),
            false => self.max,
        };
        let limits = [(of_pair, pair_max), (of_block, alone)];
        let limits = if of_pair.is_known { &limits[..1] } else { &limits[..] };
        if let Some((count, _)) = limits.iter().find(|(count, max)| count.failed >= *max) {
            let left = self.window_us.saturating_sub(now.saturating_sub(count.since));
            return Err(Duration::from_micros(u64::try_from(left).unwrap_or(0)));
        }
        for (of, count) in [(pair, of_pair), (block, of_block), (account, of_account)] {
            counts.insert(of, Count { failed: count.failed.saturating_add(1), ..count });
        }
        Ok(())
    }

    /// Records that the attempt succeeded.
    ///
    /// The block is remembered for the account: it is exempt from the limits of others.
    pub(crate) fn succeeded(&self, account: &str, address: Option<IpAddr>, now: Timestamp) {
        let mut counts = self.counts.lock();
        let [pair, block, account] = counted(account, address);
        // The account's password is known there, so its count is reset.
        counts.insert(pair, Count { failed: 0, since: now.micros(), is_known: true });
        for of in [block, account] {
            if let Some(count) = counts.peek(&of).copied() {
                counts.insert(of, Count { failed: count.failed.saturating_sub(1), ..count });
            }
        }
    }
}

/// Returns the three subjects of an attempt. Only the first 100 characters of a name count, which
/// no account exceeds.
fn counted(account: &str, address: Option<IpAddr>) -> [Counted; 3] {
    let account: String = account.chars().take(100).collect();
    let block = Block::of(address);
    [Counted::Pair(account.clone(), block), Counted::Block(block), Counted::Account(account)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000).unwrap()
    }

    fn v4(third: u8, last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, third, last]))
    }

    fn attempts(max: u32) -> Attempts {
        Attempts::new(max, Duration::from_secs(3600))
    }

    #[test]
    fn too_many_failures_are_not_tried() {
        let attempts = attempts(3);
        for _ in 0..3 {
            attempts.begin("ann", v4(0, 1), at(0)).unwrap();
        }
        assert_eq!(attempts.begin("ann", v4(0, 1), at(600)), Err(Duration::from_secs(3000)));
        attempts.begin("ann", v4(0, 2), at(0)).unwrap();
        attempts.begin("bob", v4(0, 1), at(0)).unwrap();
        // Until the address is known for the account.
        for number in 0..26 {
            attempts.begin(&format!("user {number}"), v4(0, 1), at(0)).unwrap();
        }
        assert!(attempts.begin("eve", v4(0, 1), at(0)).is_err());
    }

    #[test]
    fn an_account_cannot_be_locked_by_others() {
        let attempts = attempts(10);
        attempts.begin("ann", v4(0, 1), at(0)).unwrap();
        attempts.succeeded("ann", v4(0, 1), at(0));
        for address in 0..10 {
            for _ in 0..10 {
                attempts.begin("ann", v4(1, address), at(1)).unwrap();
            }
            assert!(attempts.begin("ann", v4(1, address), at(1)).is_err());
        }
        // Unknown addresses have fewer attempts from now on, known ones the same number.
        for _ in 0..UNKNOWN_MAX {
            attempts.begin("ann", v4(2, 1), at(2)).unwrap();
        }
        assert!(attempts.begin("ann", v4(2, 1), at(2)).is_err());
        for _ in 0..10 {
            attempts.begin("ann", v4(0, 1), at(2)).unwrap();
        }
        assert!(attempts.begin("ann", v4(0, 1), at(2)).is_err());
    }

    #[test]
    fn a_neighbour_at_the_same_address_locks_nobody_out_who_is_known_there() {
        let attempts = attempts(10);
        attempts.begin("ann", v4(0, 1), at(0)).unwrap();
        attempts.succeeded("ann", v4(0, 1), at(0));
        while attempts.begin("x", v4(0, 1), at(1)).is_ok() {}
        for number in 0..100 {
            let _ = attempts.begin(&format!("user {number}"), v4(0, 1), at(1));
        }
        assert!(attempts.begin("eve", v4(0, 1), at(1)).is_err());
        attempts.begin("ann", v4(0, 1), at(1)).unwrap();
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let attempts = attempts(3);
        let v6 = |last: u16| Some(IpAddr::from([0x2001, 0xdb8, 1, 2, last, last, 0, last]));
        for last in 0..3 {
            attempts.begin("ann", v6(last), at(0)).unwrap();
        }
        assert!(attempts.begin("ann", v6(77), at(0)).is_err());
        attempts
            .begin("ann", Some(IpAddr::from([0x2001, 0xdb8, 1, 3, 0, 0, 0, 1])), at(0))
            .unwrap();
        let mapped = Some("::ffff:10.0.0.1".parse().unwrap());
        for _ in 0..3 {
            attempts.begin("bob", mapped, at(0)).unwrap();
        }
        assert!(attempts.begin("bob", v4(0, 1), at(0)).is_err());
    }

    #[test]
    fn success_and_time_forgive() {
        let attempts = attempts(2);
        for _ in 0..10 {
            attempts.begin("ann", None, at(0)).unwrap();
            attempts.succeeded("ann", None, at(0));
        }
        attempts.begin("ann", None, at(0)).unwrap();
        attempts.begin("ann", None, at(0)).unwrap();
        assert!(attempts.begin("ann", None, at(3599)).is_err());
        attempts.begin("ann", None, at(3600)).unwrap();
    }
}
