//! The memory that clients make a server hold: request bodies that are gathered before their
//! handlers run, and answers that are not read.
//!
//! Each of the two has one budget for the whole server, shared by all threads, because a limit per
//! connection does not limit the memory of ten thousand connections. The limits are
//! [`crate::Limits::held_body_bytes_max`] and [`crate::Limits::unread_bytes_max`].

#[cfg(feature = "http2")]
mod connection_budget;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::reactor::memory_trimmer;
#[cfg(feature = "http2")]
pub(crate) use connection_budget::{ConnectionBudget, Reservation};

/// The bytes that are held for clients, and their maximum. The counter is a relaxed atomic: a limit
/// needs no order with other memory.
#[derive(Debug)]
pub(crate) struct Budget {
    /// The bytes held by all threads.
    held: AtomicUsize,
    /// The maximum of `held`.
    max: usize,
}

impl Budget {
    /// Returns an empty budget of `max` bytes.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { held: AtomicUsize::new(0), max })
    }

    /// Replaces `before` bytes, which a thread reported earlier, by `now`. This is for answers,
    /// whose bytes exist before they can be refused, so the maximum may be exceeded.
    pub(crate) fn report(&self, before: usize, now: usize) {
        match now.checked_sub(before) {
            Some(more) => self.held.fetch_add(more, Ordering::Relaxed),
            None => self.held.fetch_sub(before - now, Ordering::Relaxed),
        };
    }

    /// Returns the bytes held.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns the maximum.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Returns true if more than half of the budget is used: slow clients must then be faster.
    pub(crate) fn is_tight(&self) -> bool {
        self.held() > self.max / 2
    }

    /// Adds bytes if there is room for all of them.
    fn take(&self, bytes: usize) -> bool {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= self.max;
        if !fits {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }
}

/// The share of a request's body in the budgets, which is returned when this is dropped: after the
/// answer to the request was written.
#[derive(Debug)]
pub(crate) struct Lease {
    /// The budget of the server.
    budget: Arc<Budget>,
    /// The bytes taken from it.
    bytes: usize,
    /// The share in the budget of its HTTP/2 connection.
    #[cfg(feature = "http2")]
    pub(crate) reservation: Option<Reservation>,
}

impl Lease {
    /// Returns a share of no bytes.
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self {
            budget: Arc::clone(budget),
            bytes: 0,
            #[cfg(feature = "http2")]
            reservation: None,
        }
    }

    /// Increases the lease to this many bytes in total. Returns false if the budget has no room.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.bytes || self.budget.take(bytes - self.bytes);
        if fits {
            self.bytes = self.bytes.max(bytes);
        }
        fits
    }

    /// Returns true if more than half of the server's budget is used.
    pub(crate) fn is_tight(&self) -> bool {
        self.budget.is_tight()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.budget.report(self.bytes, 0);
        memory_trimmer::note_freed(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_takes_what_there_is_and_gives_it_back() {
        let budget = Budget::new(100);
        let (mut first, mut second) = (Lease::new(&budget), Lease::new(&budget));
        assert!(first.grow_to(40) && !first.is_tight());
        assert!(second.grow_to(60) && second.is_tight());
        assert!(!first.grow_to(41) && first.grow_to(40));
        drop(second);
        assert_eq!(budget.held(), 40);
        assert!(first.grow_to(100));
        drop(first);
        assert_eq!(budget.held(), 0);
    }
}
