//! The connection that writes, and whose turn it is.
//!
//! SQLite has one writer a file. Whoever holds this lock is it: for one
//! operation ([`Turn`]), or for a transaction ([`LongTurn`]). Threads wait for
//! it blocked, futures by a waker; a write that can be copied waits in a queue
//! instead, for whoever leads the next group (`group.rs`).
//!
//! Nobody hangs: each member tries to lead ([`Writer::lead`]) until it is done.
//! If the lock is taken then, it is among those that are woken when it is free,
//! one at a time; whoever takes the lock wakes the next when it gives it back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Durability;
use marmota_store::operation::Outcome;

use crate::group::{Member, Seat, Work};
use crate::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, OwnedGuard, SPINS, fence};

/// The connection that writes, and those who wait for it.
#[derive(Debug)]
pub(crate) struct Writer<W: Work> {
    seat: Arc<Mutex<Seat<W>>>,
    /// Copies of writes, for the next leader.
    queue: Mutex<Vec<Arc<Member<W::Job>>>>,
    waiters: Waiters<W::Job>,
    /// True while a group is being committed: it is no use to spin.
    is_leading: AtomicBool,
    waiting_max: usize,
}

/// The right to write for one operation.
#[derive(Debug)]
pub(crate) struct Turn<'w, W: Work> {
    // An option, so that the lock is free before those who wait are told.
    guard: Option<MutexGuard<'w, Seat<W>>>,
    writer: &'w Writer<W>,
    /// Members that are done.
    told: Vec<Waker>,
}

/// The right to write for as long as this lives.
pub(crate) struct LongTurn<W: Work> {
    guard: Option<OwnedGuard<Seat<W>>>,
    writer: Arc<Writer<W>>,
}

/// Who waits for the lock, in the order they came.
#[derive(Debug)]
struct Waiters<J> {
    queue: Mutex<VecDeque<Waiter<J>>>,
    /// The length of the queue, so that nobody locks it in vain.
    count: AtomicUsize,
}

#[derive(Debug)]
enum Waiter<J> {
    /// An operation that wants the lock.
    Operation(u64, Waker),
    /// A member of a group that wants to lead; of no use once it is done.
    Member(Arc<Member<J>>),
}

impl<W: Work> Writer<W> {
    /// A writer for which so many operations may wait.
    pub(crate) fn new(work: W, waiting_max: usize) -> Self {
        Self {
            seat: Arc::new(Mutex::new(Seat::new(work))),
            queue: Mutex::new(Vec::new()),
            waiters: Waiters { queue: Mutex::new(VecDeque::new()), count: AtomicUsize::new(0) },
            is_leading: AtomicBool::new(false),
            waiting_max,
        }
    }

    fn turn<'w>(&'w self, guard: MutexGuard<'w, Seat<W>>) -> Turn<'w, W> {
        Turn { guard: Some(guard), writer: self, told: Vec::new() }
    }

    /// The turn, if it is free or soon becomes so.
    #[inline]
    pub(crate) fn try_turn(&self) -> Option<Turn<'_, W>> {
        let guard = match self.seat.try_lock() {
            Some(guard) => guard,
            None => self.spin(|| self.seat.try_lock())?,
        };
        Some(self.turn(guard))
    }

    /// The turn, and no group; `None` if it does not come within that time.
    pub(crate) fn turn_within(&self, timeout: Duration) -> Option<Turn<'_, W>> {
        let mut turn = self.turn(self.seat.try_lock_for(timeout)?);
        turn.settle();
        Some(turn)
    }

    /// The turn for a transaction, and no group, if it is free or soon becomes
    /// so.
    pub(crate) fn try_long_turn(self: &Arc<Self>) -> Option<LongTurn<W>> {
        let mut guard = match self.seat.try_lock_arc() {
            Some(guard) => guard,
            None => self.spin(|| self.seat.try_lock_arc())?,
        };
        let mut told = Vec::new();
        if guard.has_group() {
            self.lead_seated(&mut guard, &mut told);
        }
        told.into_iter().for_each(Waker::wake);
        Some(LongTurn { guard: Some(guard), writer: Arc::clone(self) })
    }

    /// Leaves a write for the next leader.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if too many wait.
    pub(crate) fn enqueue(
        &self,
        job: W::Job,
        durability: Durability,
    ) -> Result<Arc<Member<W::Job>>> {
        let mut queue = self.queue.lock();
        if queue.len() >= self.waiting_max {
            return Err(crowded(queue.len()));
        }
        let member = Member::queued(job, durability);
        queue.push(Arc::clone(&member));
        Ok(member)
    }

    /// How many writes wait to be committed; fewer, while the lock is taken.
    pub(crate) fn pending(&self) -> usize {
        let queued = self.queue.lock().len();
        let turn = self.seat.try_lock().map(|guard| self.turn(guard));
        queued + turn.and_then(|turn| turn.guard.as_ref().map(|seat| seat.members())).unwrap_or(0)
    }

    /// How many operations wait for their turn, or in the queue.
    pub(crate) fn waiting(&self) -> usize {
        let queued = self.queue.lock().len();
        let waiters = self.waiters.queue.lock();
        queued + waiters.iter().filter(|one| matches!(one, Waiter::Operation(..))).count()
    }

    /// # Errors
    /// [`ErrorKind::Busy`] if too many operations wait.
    pub(crate) fn check_room(&self) -> Result<()> {
        let waiting = self.waiters.count.load(Ordering::Relaxed);
        if waiting >= self.waiting_max { Err(crowded(waiting)) } else { Ok(()) }
    }

    /// Commits the group that `member` is in, or waits in the queue for; false
    /// if the lock is taken: then the member's waker is woken when it is free,
    /// unless the member is done by then.
    pub(crate) fn lead(&self, member: &Arc<Member<W::Job>>) -> bool {
        let guard = self.seat.try_lock().or_else(|| {
            if member.line_up() {
                self.waiters.add(Waiter::Member(Arc::clone(member)));
            }
            self.seat.try_lock()
        });
        let Some(guard) = guard else { return false };
        let mut turn = self.turn(guard);
        turn.lead();
        true
    }

    /// [`Self::lead`] for one that is no member: gives how many writes were
    /// committed, or `None` if the lock was not free in that time.
    pub(crate) fn lead_within(&self, timeout: Duration) -> Option<usize> {
        Some(self.turn(self.seat.try_lock_for(timeout)?).lead())
    }

    fn lead_seated(&self, seat: &mut Seat<W>, told: &mut Vec<Waker>) -> usize {
        self.is_leading.store(true, Ordering::Relaxed);
        let queued = std::mem::take(&mut *self.queue.lock());
        let members = seat.lead(queued, told);
        self.is_leading.store(false, Ordering::Relaxed);
        members
    }

    /// Has `waker` woken when it is worth trying again. The caller tries once
    /// more after this, for the turn may have become free before.
    pub(crate) fn wait(&self, ticket: u64, waker: &Waker) {
        self.waiters.wait(ticket, waker);
    }

    /// Forgets a waker. If it was woken already, another one is in its place: the one forgotten
    /// will not take the turn. Also one that had its turn: what it woke when it gave the turn up
    /// may have been itself, still in line, and nobody else.
    pub(crate) fn forget(&self, ticket: u64) {
        self.waiters.forget(ticket);
    }

    /// Wakes the next that waits for the lock: the one that was woken will not
    /// take it.
    pub(crate) fn pass_on(&self) {
        self.waiters.wake_next();
    }

    /// Tries some times, which is cheaper than to sleep and be woken.
    fn spin<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        (0..SPINS).find_map(|_| {
            if self.is_leading.load(Ordering::Relaxed) {
                return None;
            }
            std::hint::spin_loop();
            attempt()
        })
    }
}

#[cold]
fn crowded(waiting: usize) -> Error {
    Error::new(ErrorKind::Busy, format!("{waiting} writes wait for the disk already; try again"))
}

impl<J> Waiters<J> {
    fn add(&self, waiter: Waiter<J>) {
        self.change(|queue| queue.push_back(waiter));
    }

    fn wait(&self, ticket: u64, waker: &Waker) {
        self.change(|queue| {
            let known = queue.iter_mut().find_map(|waiter| match waiter {
                Waiter::Operation(waiting, known) if *waiting == ticket => Some(known),
                _ => None,
            });
            match known {
                Some(known) => known.clone_from(waker),
                None => queue.push_back(Waiter::Operation(ticket, waker.clone())),
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut VecDeque<Waiter<J>>)) {
        let mut queue = self.queue.lock();
        change(&mut queue);
        self.count.store(queue.len(), Ordering::Relaxed);
        drop(queue);
        // Pairs with the one in `wake_next`: either that one sees the count,
        // or the caller's next try sees the lock free.
        fence(Ordering::SeqCst);
    }

    fn forget(&self, ticket: u64) {
        let mut queue = self.queue.lock();
        let waiting = queue.iter().position(
            |waiter| matches!(waiter, Waiter::Operation(waiting, _) if *waiting == ticket),
        );
        match waiting {
            Some(place) => {
                queue.remove(place);
                self.count.store(queue.len(), Ordering::Relaxed);
            }
            None => {
                drop(queue);
                self.wake_next();
            }
        }
    }

    #[inline]
    fn wake_next(&self) {
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Relaxed) > 0 {
            self.wake_first();
        }
    }

    #[cold]
    fn wake_first(&self) {
        loop {
            let mut queue = self.queue.lock();
            let first = queue.pop_front();
            self.count.store(queue.len(), Ordering::Relaxed);
            drop(queue);
            match first {
                Some(Waiter::Operation(_, waker)) => return waker.wake(),
                Some(Waiter::Member(member)) if !member.wake() => {}
                _ => return,
            }
        }
    }
}

impl<W: Work> Turn<'_, W> {
    /// What writes, unless the engine is closed.
    #[inline]
    pub(crate) fn lane(&mut self) -> Option<&mut W> {
        self.guard.as_mut()?.work.as_mut()
    }

    /// Takes the connection away for good.
    pub(crate) fn take(&mut self) -> Option<W> {
        self.guard.as_mut()?.work.take()
    }

    /// See [`Seat::join`].
    ///
    /// # Errors
    /// The write's.
    pub(crate) fn join(
        &mut self,
        durability: Durability,
        run: impl FnOnce(&mut W) -> Result<Outcome>,
    ) -> Result<Arc<Member<W::Job>>> {
        let Some(seat) = &mut self.guard else { return Err(crate::group::closed()) };
        seat.join(durability, &mut self.told, run)
    }

    /// Commits the group, with what is in the queue; gives how many writes
    /// that were.
    pub(crate) fn lead(&mut self) -> usize {
        match &mut self.guard {
            Some(seat) => self.writer.lead_seated(seat, &mut self.told),
            None => 0,
        }
    }

    /// Commits the group if there is one.
    pub(crate) fn settle(&mut self) {
        if self.guard.as_ref().is_some_and(|seat| seat.has_group()) {
            self.lead();
        }
    }
}

impl<W: Work> Drop for Turn<'_, W> {
    #[inline]
    fn drop(&mut self) {
        self.guard = None;
        // The next leader first: it has more to do than to hear a result.
        self.writer.waiters.wake_next();
        for waker in self.told.drain(..) {
            waker.wake();
        }
    }
}

impl<W: Work> LongTurn<W> {
    /// See [`Turn::lane`].
    #[inline]
    pub(crate) fn lane(&mut self) -> Option<&mut W> {
        self.guard.as_mut()?.work.as_mut()
    }
}

impl<W: Work> Drop for LongTurn<W> {
    fn drop(&mut self) {
        self.guard = None;
        self.writer.waiters.wake_next();
    }
}
