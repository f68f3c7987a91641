//! A queue of operations that wait for the same resource, such as a lock.
//!
//! The queue does not know the resource. An operation that does not get it enters the queue, tries
//! once more, and returns to its caller. The operation that releases the resource wakes the first
//! in the queue, which tries again; if another was faster, it keeps its place. An operation that
//! leaves the queue after it was woken (it has timed out, was dropped, or has had its turn) wakes
//! the next. So a wake-up is never lost while an operation waits.
//!
//! An operation with a deadline is woken at it, by an alarm that the queue has
//! for all of its operations.
//!
//! `tests/wait` checks this in all interleavings.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Instant;

use super::sync::{AtomicUsize, Mutex, Ordering, fence};

/// A waiter that a queue can wake.
pub trait Wakeable {
    /// Wakes it; returns false if that has no effect, so that the next one is woken instead.
    fn wake(self) -> bool;
}

impl Wakeable for Waker {
    fn wake(self) -> bool {
        Self::wake(self);
        true
    }
}

/// A place in a [`WaitQueue`]. Its owner releases it with [`WaitQueue::leave`].
///
/// It is a number, not a reference: a place that is dropped without [`WaitQueue::leave`] stays in
/// the queue, and a wake-up for it is lost. [`super::OwnedPlace`] leaves by itself.
#[derive(Debug, Default)]
pub struct QueuePlace(Option<u64>);

impl QueuePlace {
    /// No place yet.
    pub(super) const NONE: Self = Self(None);

    /// Returns true if it is not a place in a queue.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

/// Operations that wait for the same resource, in order of arrival.
///
/// Invariant: `sleeping` is the number of entries with a waiter. Only code with the lock changes
/// it.
///
/// ```
/// use std::task::Waker;
/// use marmota_store::wait::{QueuePlace, WaitQueue};
///
/// let queue = WaitQueue::default();
/// let (mut first, mut second) = (QueuePlace::default(), QueuePlace::default());
/// queue.wait(&mut first, Waker::noop());
/// queue.wait(&mut second, Waker::noop());
/// assert!(queue.is_first(&first));
/// queue.wake_next(); // wakes the first, which keeps its place until it leaves
/// assert_eq!((queue.len(), queue.sleeping()), (2, 1));
/// queue.leave(&mut first); // it was woken, so the next one is woken in its place
/// assert_eq!((queue.len(), queue.sleeping()), (1, 0));
/// ```
#[derive(Debug)]
pub struct WaitQueue<W = Waker> {
    inside: Mutex<Inside<W>>,
    /// The number of waiters that can be woken, so that the lock is not taken in vain.
    sleeping: AtomicUsize,
}

/// The part under the lock.
#[derive(Debug)]
struct Inside<W> {
    /// In the order of their numbers.
    entries: VecDeque<Entry<W>>,
    /// The number of the last entry.
    last: u64,
    /// When [`WaitQueue::ring`] is called next.
    alarm: Option<Instant>,
}

/// A waiter in the queue.
#[derive(Debug)]
struct Entry<W> {
    /// Its number, which is that in its [`QueuePlace`].
    number: u64,
    /// `None` once it was woken; then it tries again.
    waiter: Option<W>,
    /// False for a waiter that is removed once it was woken.
    has_place: bool,
    /// When it is woken at the latest.
    until: Option<Instant>,
}

impl<W> Default for WaitQueue<W> {
    fn default() -> Self {
        let inside = Inside { entries: VecDeque::new(), last: 0, alarm: None };
        Self { inside: Mutex::new(inside), sleeping: AtomicUsize::new(0) }
    }
}

impl WaitQueue {
    /// [`Self::enter`] for a waker.
    pub fn wait(&self, place: &mut QueuePlace, waker: &Waker) {
        self.enter(place, waker.clone());
    }
}

impl<W: Wakeable> WaitQueue<W> {
    /// Enters `waiter`, which is woken in its turn; it takes the last place or keeps the one it
    /// has. The caller has to try again afterwards, because the resource may have been released
    /// before.
    pub fn enter(&self, place: &mut QueuePlace, waiter: W) {
        self.change(|inside| inside.enter(place, waiter, None));
    }

    /// [`Self::enter`] with a deadline: [`Self::ring`] wakes `waiter` then.
    /// Returns when to call that; none if it is called by then anyway.
    pub fn enter_until(
        &self,
        place: &mut QueuePlace,
        waiter: W,
        until: Instant,
    ) -> Option<Instant> {
        let mut alarm = None;
        self.change(|inside| {
            if inside.alarm.is_none_or(|known| until < known) {
                alarm = Some(until);
                inside.alarm = alarm;
            }
            inside.enter(place, waiter, Some(until))
        });
        alarm
    }

    /// [`Self::enter`] for a waiter that is woken once and keeps no place.
    pub fn enter_once(&self, waiter: W) {
        self.change(|inside| {
            inside.push(waiter, false, None);
            1
        });
    }

    /// Applies `change`, which returns how many more waiters can be woken.
    fn change(&self, change: impl FnOnce(&mut Inside<W>) -> usize) {
        let mut inside = self.inside.lock();
        let added = change(&mut inside);
        self.sleeping.fetch_add(added, Ordering::Relaxed);
        drop(inside);
        // Pairs with the fence in `has_sleepers`: either the releaser sees the count, or the
        // caller's next attempt sees the release.
        fence(Ordering::SeqCst);
    }

    /// Releases a place. If its operation was woken already, the next one is woken: the wake-up may
    /// have been for another turn than the one that the operation had.
    pub fn leave(&self, place: &mut QueuePlace) {
        let Some(number) = place.0.take() else { return };
        let mut inside = self.inside.lock();
        let Some(at) = inside.find(number) else { return };
        let was_woken = match inside.entries.remove(at) {
            Some(Entry { waiter: None, .. }) => true,
            _ => {
                self.sleeping.fetch_sub(1, Ordering::Relaxed);
                false
            }
        };
        drop(inside);
        if was_woken {
            self.wake_next();
        }
    }

    /// Returns true if `place` is the first in the queue.
    pub fn is_first(&self, place: &QueuePlace) -> bool {
        let inside = self.inside.lock();
        inside.entries.front().is_some_and(|first| Some(first.number) == place.0)
    }

    /// Returns the number of operations with a place.
    pub fn len(&self) -> usize {
        self.inside.lock().entries.iter().filter(|entry| entry.has_place).count()
    }

    /// Returns true if no operation is in the queue.
    pub fn is_empty(&self) -> bool {
        self.inside.lock().entries.is_empty()
    }

    /// Returns the number of waiters that can be woken.
    #[inline]
    pub fn sleeping(&self) -> usize {
        self.sleeping.load(Ordering::Relaxed)
    }

    /// Returns true if a waiter can be woken. Call it after the release of the resource.
    #[inline]
    pub fn has_sleepers(&self) -> bool {
        fence(Ordering::SeqCst);
        self.sleeping() > 0
    }

    /// Wakes the first waiter that was not woken yet. Call it after the release of the resource.
    #[inline]
    pub fn wake_next(&self) {
        if self.has_sleepers() {
            self.wake_first();
        }
    }

    /// Wakes waiters until one of them reports that it was woken.
    #[cold]
    fn wake_first(&self) {
        while let Some(waiter) = self.take_first() {
            if waiter.wake() {
                return;
            }
        }
    }

    /// Takes the first waiter that was not woken; it is woken without the lock.
    fn take_first(&self) -> Option<W> {
        let mut inside = self.inside.lock();
        let at = inside.entries.iter().position(|entry| entry.waiter.is_some())?;
        let waiter = match inside.entries[at].has_place {
            true => inside.entries[at].waiter.take(),
            false => inside.entries.remove(at).and_then(|entry| entry.waiter),
        };
        self.sleeping.fetch_sub(1, Ordering::Relaxed);
        waiter
    }

    /// Wakes all waiters in the queue.
    ///
    /// It is for the end of a resource, such as a lost connection.
    pub fn wake_all(&self) {
        if !self.has_sleepers() {
            return;
        }
        let mut inside = self.inside.lock();
        let woken: Vec<W> =
            inside.entries.iter_mut().filter_map(|entry| entry.waiter.take()).collect();
        inside.entries.retain(|entry| entry.has_place);
        self.sleeping.fetch_sub(woken.len(), Ordering::Relaxed);
        drop(inside);
        for waiter in woken {
            waiter.wake();
        }
    }

    /// Wakes those whose deadline is not after `now`. Returns the next deadline,
    /// at which this is to be called again; none if another call comes before.
    pub fn ring(&self, now: Instant) -> Option<Instant> {
        let mut inside = self.inside.lock();
        if inside.alarm.is_none_or(|alarm| now < alarm) {
            return None;
        }
        let (mut woken, mut next) = (Vec::new(), None);
        for entry in inside.entries.iter_mut().filter(|entry| entry.waiter.is_some()) {
            match entry.until {
                Some(until) if until <= now => woken.extend(entry.waiter.take()),
                Some(until) => next = Some(next.map_or(until, |next: Instant| next.min(until))),
                None => {}
            }
        }
        inside.alarm = next;
        self.sleeping.fetch_sub(woken.len(), Ordering::Relaxed);
        drop(inside);
        for waiter in woken {
            waiter.wake();
        }
        next
    }
}

impl<W> Inside<W> {
    /// Gives how many more can be woken.
    fn enter(&mut self, place: &mut QueuePlace, waiter: W, until: Option<Instant>) -> usize {
        if let Some(at) = place.0.and_then(|number| self.find(number)) {
            let entry = &mut self.entries[at];
            entry.until = until;
            return usize::from(entry.waiter.replace(waiter).is_none());
        }
        place.0 = Some(self.push(waiter, true, until));
        1
    }

    /// Returns the index of an entry.
    fn find(&self, number: u64) -> Option<usize> {
        self.entries.binary_search_by_key(&number, |entry| entry.number).ok()
    }

    /// Adds an entry at the end, and returns its number.
    fn push(&mut self, waiter: W, has_place: bool, until: Option<Instant>) -> u64 {
        self.last += 1;
        let (number, waiter) = (self.last, Some(waiter));
        self.entries.push_back(Entry { number, waiter, has_place, until });
        self.last
    }
}
