//! A group: writes of several sessions in one transaction, with one wait for the disk and a
//! separate result for each.
//!
//! A session that finds the writer free executes its write at once in the group's transaction, as a
//! member ([`GroupCommit::join`]). Otherwise it leaves a copy in the queue. The leader, one of the
//! members that is polled, executes the queue, commits everything together and notifies each member
//! ([`GroupCommit::lead`]). The members' writes are invisible until that commit is on the disk, and
//! no member receives its result before, success or error: an error may depend on the write of
//! another member.
//!
//! An error of one member undoes only that member: SQLite itself undoes a single failed statement,
//! and operations of several statements have a savepoint. So members need no savepoint each. An
//! error that ends the transaction (a full disk) fails all members.
//!
//! This file is independent of SQLite: a [`Work`] executes the writes. `tests/model` checks it in
//! all its interleavings.

use std::fmt::Debug;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Durability;
use marmota_store::backoff::Backoff;
use marmota_store::operation::Outcome;

use super::sync::Mutex;

/// The first pause before the lock of the file is tried again, and the longest.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Executes the writes of a group.
pub(crate) trait Work: Send + 'static {
    /// A write that can be queued.
    type Job: Debug + Send;

    /// Begins a transaction. Returns false if another process or engine has the lock of the file.
    fn begin(&mut self) -> Result<bool>;
    /// Returns the error of a write that waited too long for that lock.
    fn refused(&self) -> Error;
    /// Returns true inside a transaction. An error may have ended it.
    fn is_open(&self) -> bool;
    /// Executes a write. A failed one leaves no changes.
    fn run(&mut self, job: &Self::Job) -> Result<Outcome>;
    /// Commits the transaction of `members` members, or rolls it back if that fails.
    /// Returns the number of the commit, if changes are recorded.
    fn commit(&mut self, durability: Durability, members: usize) -> Result<Option<NonZeroU64>>;
    /// Rolls back the transaction, if one is open.
    fn roll_back(&mut self);
}

/// A write in a group or in its queue.
#[derive(Debug)]
pub(crate) struct Member<J> {
    durability: Durability,
    /// The time until which it may stay in the queue; `None` if it was never queued.
    until: Option<Instant>,
    state: Mutex<State<J>>,
}

#[derive(Debug)]
struct State<J> {
    stage: Stage<J>,
    waker: Option<Waker>,
    /// True if it will not be polled again.
    is_left: bool,
    /// True if it is among those that are woken when the lock is free.
    is_in_line: bool,
}

#[derive(Debug)]
enum Stage<J> {
    /// In the queue.
    Queued(J),
    /// Being executed by a leader.
    Taken,
    /// Executed, not committed.
    Ran(Result<Outcome>),
    /// Committed, or failed.
    Done(Result<Outcome>),
    /// Given up, or its result was taken.
    Gone,
}

impl<J> Member<J> {
    pub(crate) fn queued(job: J, durability: Durability, until: Instant) -> Arc<Self> {
        Self::new(Stage::Queued(job), durability, Some(until))
    }

    fn new(stage: Stage<J>, durability: Durability, until: Option<Instant>) -> Arc<Self> {
        Arc::new(Self {
            durability,
            until,
            state: Mutex::new(State { stage, waker: None, is_left: false, is_in_line: false }),
        })
    }

    /// Returns the result if it is available; otherwise `waker` is woken when it is.
    pub(crate) fn poll(&self, waker: &Waker) -> Option<Result<Outcome>> {
        let mut state = self.state.lock();
        if let Stage::Done(_) = state.stage {
            let Stage::Done(result) = std::mem::replace(&mut state.stage, Stage::Gone) else {
                return None;
            };
            return Some(result);
        }
        match &mut state.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        None
    }

    /// Returns the time until which it may stay in the queue; `None` if it was never queued.
    pub(crate) const fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Returns true if it has been in the queue for too long.
    pub(crate) fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Returns true if its result is or was available.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state.lock().stage, Stage::Done(_) | Stage::Gone)
    }

    /// Records that it waits for the lock. Returns false if it already did.
    pub(crate) fn line_up(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().is_in_line, true)
    }

    /// Abandons it: it is removed from the queue, or committed with its group.
    pub(crate) fn leave(&self) {
        let mut state = self.state.lock();
        state.is_left = true;
        state.waker = None;
        if matches!(state.stage, Stage::Queued(_)) {
            state.stage = Stage::Gone;
        }
    }

    /// Removes it from the queue. Returns false if it is already being executed.
    pub(crate) fn give_up(&self) -> bool {
        let mut state = self.state.lock();
        if matches!(state.stage, Stage::Queued(_)) {
            state.stage = Stage::Gone;
            return true;
        }
        false
    }

    /// Wakes its session. Returns false if it will not lead: it is abandoned or done.
    pub(crate) fn wake(&self) -> bool {
        let mut state = self.state.lock();
        state.is_in_line = false;
        if state.is_left || matches!(state.stage, Stage::Done(_) | Stage::Gone) {
            return false;
        }
        let waker = state.waker.take();
        drop(state);
        // Without a waker, it has not been polled yet and will be.
        waker.inspect(Waker::wake_by_ref);
        true
    }

    fn take(&self) -> Option<J> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut state.stage, Stage::Taken) {
            Stage::Queued(job) => Some(job),
            other => {
                state.stage = other;
                None
            }
        }
    }

    /// Puts back a write that was taken but not executed.
    fn put_back(&self, job: J) {
        let mut state = self.state.lock();
        // One that was abandoned meanwhile has no caller.
        state.stage = if state.is_left { Stage::Gone } else { Stage::Queued(job) };
    }

    fn ran(&self, result: Result<Outcome>) {
        self.state.lock().stage = Stage::Ran(result);
    }

    /// Completes it with its own result, or with the error of the whole group.
    fn finish(
        &self,
        committed: std::result::Result<Option<NonZeroU64>, &Error>,
        told: &mut Vec<Waker>,
    ) {
        let mut state = self.state.lock();
        let stage = std::mem::replace(&mut state.stage, Stage::Gone);
        state.stage = Stage::Done(match (committed, stage) {
            (Err(error), _) => Err(same(error)),
            (Ok(commit), Stage::Ran(result)) => result.map(|outcome| Outcome { commit, ..outcome }),
            (Ok(_), _) => Err(Error::new(ErrorKind::Bug, "a write of a group was not executed")),
        });
        told.extend(state.waker.take());
    }
}

/// The state of the writer: what executes the writes, and the open group.
#[derive(Debug)]
pub(crate) struct GroupCommit<W: Work> {
    /// `None` after the engine is closed.
    pub(crate) work: Option<W>,
    members: Vec<Arc<Member<W::Job>>>,
    durability: Durability,
    is_open: bool,
    backoff: Backoff,
}

/// The result of leading.
#[derive(Debug)]
pub(crate) struct Led<J> {
    /// The number of writes committed together.
    pub(crate) members: usize,
    /// The writes that stay in the queue because another process or engine has the lock of the
    /// file, and the pause before the next try.
    pub(crate) refused: Option<(Vec<Arc<Member<J>>>, Duration)>,
}

impl<W: Work> GroupCommit<W> {
    pub(crate) const fn new(work: W) -> Self {
        let backoff = Backoff::new(PAUSE, PAUSE_MAX);
        let durability = Durability::None;
        Self { work: Some(work), members: Vec::new(), durability, is_open: false, backoff }
    }

    /// Returns the pause before the lock of the file is tried again.
    pub(crate) fn pause(&mut self) -> Duration {
        self.backoff.pause()
    }

    /// Resets the pause after the lock of the file was acquired.
    pub(crate) fn begun(&mut self) {
        self.backoff.reset();
    }

    /// Returns the number of writes in the group.
    pub(crate) const fn members(&self) -> usize {
        self.members.len()
    }

    /// Returns true if a group is open, which must be committed.
    pub(crate) const fn has_group(&self) -> bool {
        self.is_open
    }

    /// Executes a write as a member of the open group, opening one if necessary. Returns `None` if
    /// another process or engine has the lock of the file.
    ///
    /// # Errors
    /// The error of the write if the group has no other members; the group is closed then.
    pub(crate) fn join(
        &mut self,
        durability: Durability,
        told: &mut Vec<Waker>,
        run: impl FnOnce(&mut W) -> Result<Outcome>,
    ) -> Result<Option<Arc<Member<W::Job>>>> {
        if !self.open()? {
            return Ok(None);
        }
        let undo = Undo { group: self, told };
        let group = &mut *undo.group;
        let result = group.work.as_mut().ok_or_else(closed).and_then(run);
        let is_open = group.work.as_ref().is_some_and(W::is_open);
        std::mem::forget(undo);
        match result {
            Err(error) if !is_open => {
                self.lose(&error, told);
                Err(error)
            }
            Err(error) if self.members.is_empty() => {
                self.abandon();
                Err(error)
            }
            result => {
                let member = Member::new(Stage::Ran(result), durability, None);
                self.add(&member);
                Ok(Some(member))
            }
        }
    }

    /// Executes the queued writes, commits the group, and adds to `told` the wakers to notify.
    /// Afterwards the queue and the group are done, unless another process or engine has the lock
    /// of the file.
    pub(crate) fn lead(
        &mut self,
        queued: Vec<Arc<Member<W::Job>>>,
        told: &mut Vec<Waker>,
    ) -> Led<W::Job> {
        let undo = Undo { group: self, told };
        // If the group cannot begin, all writes fail: each new try would fail as well.
        let mut failed: Option<Error> = None;
        let mut refused = Vec::new();
        for member in queued {
            let Some(job) = member.take() else { continue };
            if let Some(error) = &failed {
                member.finish(Err(error), undo.told);
                continue;
            }
            // One try for all.
            match if refused.is_empty() { undo.group.open() } else { Ok(false) } {
                Ok(true) => undo.group.run_queued(&member, &job, undo.told),
                Ok(false) => {
                    member.put_back(job);
                    refused.push(member);
                }
                Err(error) => {
                    member.finish(Err(&error), undo.told);
                    failed = Some(error);
                }
            }
        }
        let group = &mut *undo.group;
        let members = group.members.len();
        if group.is_open {
            let durability = group.durability;
            let work = group.work.as_mut().ok_or_else(closed);
            let committed = work.and_then(|work| work.commit(durability, members));
            match committed {
                Ok(number) => group.end(Ok(number), undo.told),
                Err(error) => group.end(Err(&error), undo.told),
            }
        }
        let refused = match refused.is_empty() {
            true => None,
            false => Some((group.dismiss_late(refused, undo.told), group.pause())),
        };
        std::mem::forget(undo);
        Led { members, refused }
    }

    /// Fails the writes that waited too long for the lock of the file. Returns the others.
    #[cold]
    fn dismiss_late(
        &mut self,
        mut members: Vec<Arc<Member<W::Job>>>,
        told: &mut Vec<Waker>,
    ) -> Vec<Arc<Member<W::Job>>> {
        let mut error = None;
        members.retain(|member| {
            if !member.is_late() {
                return true;
            }
            if member.take().is_some() {
                // The holder of the lock is looked up only now, and once for all.
                let refused = || self.work.as_ref().map_or_else(closed, W::refused);
                member.finish(Err(error.get_or_insert_with(refused)), told);
            }
            false
        });
        members
    }

    fn run_queued(&mut self, member: &Arc<Member<W::Job>>, job: &W::Job, told: &mut Vec<Waker>) {
        // Before it runs, so that it is not lost if that panics.
        self.add(member);
        let result = self.work.as_mut().ok_or_else(closed).and_then(|work| work.run(job));
        match result {
            Err(error) if !self.work.as_ref().is_some_and(W::is_open) => self.lose(&error, told),
            result => member.ran(result),
        }
    }

    /// Opens a group unless one is open. Returns false if another process or engine has the lock of
    /// the file.
    fn open(&mut self) -> Result<bool> {
        if !self.is_open {
            self.is_open = self.work.as_mut().ok_or_else(closed)?.begin()?;
            if self.is_open {
                self.backoff.reset();
            }
        }
        Ok(self.is_open)
    }

    fn add(&mut self, member: &Arc<Member<W::Job>>) {
        self.durability = self.durability.max(member.durability);
        self.members.push(Arc::clone(member));
    }

    /// Fails all members after the transaction was lost.
    #[cold]
    fn lose(&mut self, error: &Error, told: &mut Vec<Waker>) {
        let message = format!("a write of the same group failed: {}", error.message());
        let error = Error::new(error.kind(), message);
        self.end(Err(&error), told);
    }

    /// Rolls back a group without members.
    #[cold]
    fn abandon(&mut self) {
        if let Some(work) = &mut self.work {
            work.roll_back();
        }
        self.end(Ok(None), &mut Vec::new());
    }

    fn end(
        &mut self,
        committed: std::result::Result<Option<NonZeroU64>, &Error>,
        told: &mut Vec<Waker>,
    ) {
        self.is_open = false;
        self.durability = Durability::None;
        for member in self.members.drain(..) {
            member.finish(committed, told);
        }
    }
}

/// Rolls back the group if a write panics, and fails its members.
struct Undo<'s, W: Work> {
    group: &'s mut GroupCommit<W>,
    told: &'s mut Vec<Waker>,
}

impl<W: Work> Drop for Undo<'_, W> {
    fn drop(&mut self) {
        if let Some(work) = &mut self.group.work {
            work.roll_back();
        }
        let error = Error::new(
            ErrorKind::Bug,
            "a write of the same group panicked; nothing was written, try again",
        );
        self.group.end(Err(&error), self.told);
    }
}

/// Returns a copy of an error for another member.
fn same(error: &Error) -> Error {
    let same = Error::new(error.kind(), error.message());
    error.violations().iter().cloned().fold(same, Error::with_violation)
}

#[cold]
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the database is closed")
}
