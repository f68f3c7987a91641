//! Memory that clients make a server hold: request bodies that are gathered, and answers that are
//! not read. Each has one budget for the whole server, shared by all its threads, because a limit
//! per connection does not limit the memory of ten thousand connections.

#[cfg(feature = "http2")]
mod connection_budget;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::reactor::memory_trimmer;
#[cfg(feature = "http2")]
pub(crate) use connection_budget::{ConnectionBudget, Reservation};

/// The bytes that are held for clients, and their maximum.
#[derive(Debug)]
pub(crate) struct Budget {
    held: AtomicUsize,
    max: usize,
}

impl Budget {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { held: AtomicUsize::new(0), max })
    }

    /// Replaces `before` bytes, which a thread reported earlier, by `now`.
    pub(crate) fn report(&self, before: usize, now: usize) {
        match now.checked_sub(before) {
            Some(more) => self.held.fetch_add(more, Ordering::Relaxed),
            None => self.held.fetch_sub(before - now, Ordering::Relaxed),
        };
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Returns true if more than half of it is used: slow clients must then be faster.
    pub(crate) fn is_tight(&self) -> bool {
        self.held() > self.max / 2
    }

    fn take(&self, bytes: usize) -> bool {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= self.max;
        if !fits {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }
}

/// The share of a request's body in the budgets, returned when this is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    budget: Arc<Budget>,
    bytes: usize,
    /// The share in the connection's budget.
    #[cfg(feature = "http2")]
    pub(crate) reservation: Option<Reservation>,
}

impl Lease {
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
