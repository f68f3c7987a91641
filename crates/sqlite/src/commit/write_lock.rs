//! The writing connection and the queue for it.
//!
//! SQLite has one writer per file. The holder of this lock is the writer: for one operation
//! ([`WriteGuard`]), or for a transaction ([`OwnedWriteGuard`]). Threads wait for it blocked,
//! futures with a waker. A write that can be copied waits in a queue instead, for the leader of the
//! next group (`group_commit.rs`).
//!
//! No write waits forever: each member tries to lead ([`WriteLock::lead`]) until it is done. If the
//! lock is taken then, the member is among those that are woken when it is free, one at a time;
//! each holder of the lock wakes the next one when it releases it.
//!
//! If another process or engine has SQLite's lock of the file, nothing in this process can write.
//! The first operation that detects this sets an alarm ([`WriteLock::refused`]), and no operation
//! tries before it fires. Then the first one that waits tries for all.

use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Durability;
use marmota_store::operation::Outcome;

use super::group_commit::{GroupCommit, Member, Work};
use super::sync::{
    AtomicBool, Mutex, MutexGuard, Ordering, OwnedGuard, QueuePlace, SPINS, WaitQueue, Wakeable,
    wake_at,
};

/// The time after the last refusal in which the error of a late write names the process that has
/// the lock of the file.
const REFUSED_LATELY: Duration = Duration::from_secs(1);

/// The writing connection, and the operations that wait for it.
#[derive(Debug)]
pub(crate) struct WriteLock<W: Work> {
    group: Arc<Mutex<GroupCommit<W>>>,
    /// Copies of writes, for the next leader.
    queue: Mutex<Vec<Arc<Member<W::Job>>>>,
    /// The operations that wait for the seat.
    waiters: WaitQueue<Waiter<W::Job>>,
    /// True while a group is being committed; then spinning is useless.
    is_leading: AtomicBool,
    /// True while another process or engine has the lock of the file, until the alarm.
    is_refused: AtomicBool,
    refused_at: Mutex<Option<Instant>>,
    /// True if an alarm is set for the first operation whose time is over.
    has_deadline: AtomicBool,
    waiting_max: usize,
    this: Weak<Self>,
}

/// Retries the lock of the file when woken.
struct Retry<W: Work>(Weak<WriteLock<W>>);

/// Wakes the operations that waited too long when woken.
struct Deadline<W: Work>(Weak<WriteLock<W>>);

/// The right to write for one operation.
#[derive(Debug)]
pub(crate) struct WriteGuard<'w, W: Work> {
    // An option, so that the lock is released before members are notified.
    locked: Option<MutexGuard<'w, GroupCommit<W>>>,
    writer: &'w WriteLock<W>,
    /// The wakers of completed members.
    told: Vec<Waker>,
}

/// The right to write for as long as this lives.
pub(crate) struct OwnedWriteGuard<W: Work> {
    locked: Option<OwnedGuard<GroupCommit<W>>>,
    writer: Arc<WriteLock<W>>,
}

/// A waiter for the lock.
#[derive(Debug)]
enum Waiter<J> {
    /// An operation that needs the lock.
    Operation(Waker),
    /// A member of a group that tries to lead; obsolete when it is done.
    Member(Arc<Member<J>>),
}

impl<J> Wakeable for Waiter<J> {
    fn wake(self) -> bool {
        match self {
            Self::Operation(waker) => Wakeable::wake(waker),
            Self::Member(member) => member.wake(),
        }
    }
}

impl<W: Work> Wake for Retry<W> {
    fn wake(self: Arc<Self>) {
        if let Some(writer) = self.0.upgrade() {
            writer.retry();
        }
    }
}

impl<W: Work> Wake for Deadline<W> {
    fn wake(self: Arc<Self>) {
        if let Some(writer) = self.0.upgrade() {
            writer.has_deadline.store(false, Ordering::SeqCst);
            writer.waiters.wake_next();
        }
    }
}

impl<W: Work> WriteLock<W> {
    /// Creates a writer for which at most `waiting_max` operations may wait.
    pub(crate) fn new(work: W, waiting_max: usize) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            group: Arc::new(Mutex::new(GroupCommit::new(work))),
            queue: Mutex::new(Vec::new()),
            waiters: WaitQueue::default(),
            is_leading: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            refused_at: Mutex::new(None),
            has_deadline: AtomicBool::new(false),
            waiting_max,
            this: Weak::clone(this),
        })
    }

    /// Records that another process or engine has the lock of the file. It is not tried before the
    /// pause is over.
    #[cold]
    fn refused(&self, pause: Duration) {
        *self.refused_at.lock() = Some(Instant::now());
        if !self.is_refused.swap(true, Ordering::SeqCst) {
            let retry = Arc::new(Retry(Weak::clone(&self.this)));
            wake_at(Instant::now() + pause, Waker::from(retry));
        }
    }

    fn retry(&self) {
        self.is_refused.store(false, Ordering::SeqCst);
        self.waiters.wake_next();
    }

    /// Returns true if another process or engine recently had the lock of the file.
    pub(crate) fn was_refused_lately(&self) -> bool {
        self.refused_at.lock().is_some_and(|at| at.elapsed() < REFUSED_LATELY)
    }

    /// Sets an alarm for the end of an operation's time, unless one is set. One alarm serves all:
    /// an operation that is woken too early sets the next.
    pub(crate) fn have_deadline(&self, until: impl FnOnce() -> Instant) {
        let has_one = self.has_deadline.load(Ordering::SeqCst);
        if !has_one && !self.has_deadline.swap(true, Ordering::SeqCst) {
            wake_at(until(), Waker::from(Arc::new(Deadline(Weak::clone(&self.this)))));
        }
    }

    fn try_group(&self) -> Option<MutexGuard<'_, GroupCommit<W>>> {
        match self.is_refused.load(Ordering::Relaxed) {
            true => None,
            false => self.group.try_lock(),
        }
    }

    /// Wakes the next waiter for the lock, which was just released.
    #[inline]
    fn wake_next(&self) {
        // While others have the lock of the file, the alarm wakes them.
        if self.waiters.has_sleepers() && !self.is_refused.load(Ordering::SeqCst) {
            self.waiters.wake_next();
        }
    }

    fn guard<'w>(&'w self, locked: MutexGuard<'w, GroupCommit<W>>) -> WriteGuard<'w, W> {
        WriteGuard { locked: Some(locked), writer: self, told: Vec::new() }
    }

    /// Returns the turn if it is free or soon becomes free.
    #[inline]
    pub(crate) fn try_lock_now(&self) -> Option<WriteGuard<'_, W>> {
        let locked = match self.try_group() {
            Some(locked) => locked,
            None => self.spin(|| self.try_group())?,
        };
        Some(self.guard(locked))
    }

    /// Returns the turn after committing the group, or `None` if it is not available within
    /// `timeout`.
    pub(crate) fn lock_within(&self, timeout: Duration) -> Option<WriteGuard<'_, W>> {
        let mut guard = self.guard(self.group.try_lock_for(timeout)?);
        guard.settle();
        Some(guard)
    }

    /// Returns the turn for a transaction, after committing the group, if it is free or soon
    /// becomes free.
    pub(crate) fn try_lock_owned(self: &Arc<Self>) -> Option<OwnedWriteGuard<W>> {
        let try_group = || match self.is_refused.load(Ordering::Relaxed) {
            true => None,
            false => self.group.try_lock_arc(),
        };
        let mut locked = match try_group() {
            Some(locked) => locked,
            None => self.spin(try_group)?,
        };
        let mut told = Vec::new();
        if locked.has_group() {
            self.lead_locked(&mut locked, &mut told);
        }
        told.into_iter().for_each(Waker::wake);
        Some(OwnedWriteGuard { locked: Some(locked), writer: Arc::clone(self) })
    }

    /// Queues a write for the next leader, until `until`.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if too many writes wait.
    pub(crate) fn enqueue(
        &self,
        job: W::Job,
        durability: Durability,
        until: Instant,
    ) -> Result<Arc<Member<W::Job>>> {
        let mut queue = self.queue.lock();
        if queue.len() >= self.waiting_max {
            return Err(crowded(queue.len()));
        }
        let member = Member::queued(job, durability, until);
        queue.push(Arc::clone(&member));
        Ok(member)
    }

    /// Returns the number of writes that wait for a commit; an underestimate while the lock is
    /// taken.
    pub(crate) fn pending(&self) -> usize {
        let queued = self.queue.lock().iter().filter(|member| !member.is_done()).count();
        let guard = self.group.try_lock().map(|locked| self.guard(locked));
        queued
            + guard
                .and_then(|guard| guard.locked.as_ref().map(|group| group.members()))
                .unwrap_or(0)
    }

    /// Returns the number of operations that wait for their turn or in the queue.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.lock().len() + self.waiters.len()
    }

    /// # Errors
    /// [`ErrorKind::Busy`] if too many operations wait.
    pub(crate) fn check_room(&self) -> Result<()> {
        let waiting = self.waiters.sleeping();
        if waiting >= self.waiting_max { Err(crowded(waiting)) } else { Ok(()) }
    }

    /// Commits the group of `member` or the queue with it. Returns false if the member is not done:
    /// its waker is woken when it is done, or when it should try again.
    pub(crate) fn lead(&self, member: &Arc<Member<W::Job>>) -> bool {
        let locked = self.try_group().or_else(|| {
            self.line_up(member);
            self.try_group()
        });
        let Some(locked) = locked else { return false };
        self.guard(locked).lead();
        member.is_done()
    }

    fn line_up(&self, member: &Arc<Member<W::Job>>) {
        if member.line_up() {
            self.waiters.enter_once(Waiter::Member(Arc::clone(member)));
        }
    }

    /// Like [`Self::lead`] without a member: returns the number of committed writes, or `None` if
    /// the lock was not free within `timeout`.
    pub(crate) fn lead_within(&self, timeout: Duration) -> Option<usize> {
        let mut guard = self.guard(self.group.try_lock_for(timeout)?);
        let has_group = guard.locked.as_ref().is_some_and(|group| group.has_group());
        Some(if !has_group && self.waits_for_file() { 0 } else { guard.lead() })
    }

    /// Returns true if another process or engine has the lock of the file; then the queued writes
    /// are woken when it is tried again.
    fn waits_for_file(&self) -> bool {
        let is_refused = || self.is_refused.load(Ordering::SeqCst);
        if !is_refused() {
            return false;
        }
        let queued = self.queue.lock().clone();
        queued.iter().for_each(|member| self.line_up(member));
        is_refused()
    }

    fn lead_locked(&self, group: &mut GroupCommit<W>, told: &mut Vec<Waker>) -> usize {
        self.is_leading.store(true, Ordering::Relaxed);
        let queued = std::mem::take(&mut *self.queue.lock());
        let led = group.lead(queued, told);
        self.is_leading.store(false, Ordering::Relaxed);
        if let Some((members, pause)) = led.refused {
            self.put_back(&members, pause);
        }
        led.members
    }

    /// Puts members back at the front of the queue. They are woken when the lock of the file is
    /// tried again.
    #[cold]
    fn put_back(&self, members: &[Arc<Member<W::Job>>], pause: Duration) {
        self.queue.lock().splice(0..0, members.iter().cloned());
        // Members that leave leading to the background thread are not in line.
        members.iter().for_each(|member| self.line_up(member));
        self.refused(pause);
    }

    /// Wakes queued writes that have waited too long; they give up.
    pub(crate) fn wake_late(&self) {
        let late: Vec<_> =
            self.queue.lock().iter().filter(|member| member.is_late()).cloned().collect();
        for member in late {
            member.wake();
        }
    }

    /// Wakes `waker` when another try may succeed or the time is over. The caller must try once
    /// more after this, because the turn may have become free before.
    pub(crate) fn wait(&self, place: &mut QueuePlace, waker: &Waker, until: Instant) {
        self.waiters.enter(place, Waiter::Operation(waker.clone()));
        self.have_deadline(|| until);
    }

    /// Removes a waker. If it was already woken, the next one is woken instead, since the removed
    /// one will not take the turn. Also for an operation that had its turn: when it released the
    /// turn, it may have woken only itself, still in line.
    pub(crate) fn forget(&self, place: &mut QueuePlace) {
        self.waiters.leave(place);
    }

    /// Wakes the next waiter for the lock, because the one that was woken will not take it.
    pub(crate) fn pass_on(&self) {
        self.waiters.wake_next();
    }

    /// Tries a few times, which is cheaper than sleeping and being woken.
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
    Error::new(
        ErrorKind::Busy,
        format!(
            "{waiting} writes already wait for the disk; try again \
                                         later"
        ),
    )
}

impl<W: Work> WriteGuard<'_, W> {
    /// Returns what executes writes, or `None` if the engine is closed.
    #[inline]
    pub(crate) fn executor(&mut self) -> Option<&mut W> {
        self.locked.as_mut()?.work.as_mut()
    }

    /// Takes the connection permanently.
    pub(crate) fn take(&mut self) -> Option<W> {
        self.locked.as_mut()?.work.take()
    }

    /// Calls [`GroupCommit::join`].
    ///
    /// # Errors
    /// The error of the write.
    pub(crate) fn join(
        &mut self,
        durability: Durability,
        run: impl FnOnce(&mut W) -> Result<Outcome>,
    ) -> Result<Option<Arc<Member<W::Job>>>> {
        let Some(group) = &mut self.locked else { return Err(super::group_commit::closed()) };
        group.join(durability, &mut self.told, run)
    }

    /// Commits the group and the queue. Returns the number of writes.
    pub(crate) fn lead(&mut self) -> usize {
        match &mut self.locked {
            Some(group) => self.writer.lead_locked(group, &mut self.told),
            None => 0,
        }
    }

    /// Releases the turn because another process or engine has the lock of the file.
    #[cold]
    pub(crate) fn refused(mut self) {
        let pause = self.locked.as_mut().map(|group| group.pause());
        // Before the seat is free, so that nothing is tried in vain.
        self.writer.refused(pause.unwrap_or_default());
    }

    /// Records that it had the lock of the file.
    pub(crate) fn begun(&mut self) {
        if let Some(group) = &mut self.locked {
            group.begun();
        }
    }

    /// Commits the group if one is open.
    pub(crate) fn settle(&mut self) {
        if self.locked.as_ref().is_some_and(|group| group.has_group()) {
            self.lead();
        }
    }
}

impl<W: Work> Drop for WriteGuard<'_, W> {
    #[inline]
    fn drop(&mut self) {
        self.locked = None;
        // The next leader is woken first: it has more work than those that receive a result.
        self.writer.wake_next();
        for waker in self.told.drain(..) {
            waker.wake();
        }
    }
}

impl<W: Work> OwnedWriteGuard<W> {
    /// Like [`WriteGuard::executor`].
    #[inline]
    pub(crate) fn executor(&mut self) -> Option<&mut W> {
        self.locked.as_mut()?.work.as_mut()
    }

    /// Like [`WriteGuard::refused`].
    #[cold]
    pub(crate) fn refused(mut self) {
        let pause = self.locked.as_mut().map(|group| group.pause());
        self.writer.refused(pause.unwrap_or_default());
    }

    /// Like [`WriteGuard::begun`].
    pub(crate) fn begun(&mut self) {
        if let Some(group) = &mut self.locked {
            group.begun();
        }
    }
}

impl<W: Work> Drop for OwnedWriteGuard<W> {
    fn drop(&mut self) {
        self.locked = None;
        self.writer.wake_next();
    }
}
