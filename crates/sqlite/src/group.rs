//! A group: writes of several sessions in one transaction, with one wait for
//! the disk, each with a result of its own.
//!
//! Whoever finds the writer free carries out a write inside the group's
//! transaction at once, as its member ([`Seat::join`]). Whoever finds it taken
//! leaves a copy in the queue. The leader, some member that is polled, carries
//! out what is in the queue, commits all together and tells each
//! ([`Seat::lead`]). What members wrote is seen by nobody before that commit
//! is on the disk, and no member hears of its own result before, good or bad:
//! an error may rest on what another member wrote.
//!
//! An error of one member leaves nothing of that member: a single statement
//! that fails is undone by SQLite itself, what takes several has a savepoint.
//! So members need no savepoint each. An error after which the transaction is
//! gone (a full disk) is everybody's.
//!
//! This file knows nothing of SQLite: what carries out writes is a [`Work`].
//! `tests/model` checks it in all its interleavings.

use std::fmt::Debug;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Durability;
use marmota_store::backoff::Backoff;
use marmota_store::operation::Outcome;

use crate::sync::Mutex;

/// The first pause before the lock of the file is tried again, and the longest.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// What carries out a group's writes.
pub(crate) trait Work: Send + 'static {
    /// A write that can wait.
    type Job: Debug + Send;

    /// Begins a transaction; false if another process or engine has the lock
    /// of the file.
    fn begin(&mut self) -> Result<bool>;
    /// The error of a write that waited too long for that lock.
    fn refused(&self) -> Error;
    /// True inside a transaction. An error may have ended it.
    fn is_open(&self) -> bool;
    /// Carries out a write; one that fails leaves nothing.
    fn run(&mut self, job: &Self::Job) -> Result<Outcome>;
    /// Commits the transaction of so many members, or undoes it if that fails.
    fn commit(&mut self, durability: Durability, members: usize) -> Result<()>;
    /// Undoes the transaction, if there is one.
    fn roll_back(&mut self);
}

/// A write in a group, or in the queue for one.
#[derive(Debug)]
pub(crate) struct Member<J> {
    durability: Durability,
    /// Until when it may stay in the queue; none if it never was there.
    until: Option<Instant>,
    state: Mutex<State<J>>,
}

#[derive(Debug)]
struct State<J> {
    stage: Stage<J>,
    waker: Option<Waker>,
    /// True if nobody will poll it any more.
    is_left: bool,
    /// True if it is among those that are woken when the lock is free.
    is_in_line: bool,
}

#[derive(Debug)]
enum Stage<J> {
    /// In the queue.
    Queued(J),
    /// Being carried out by a leader.
    Taken,
    /// Carried out, not committed.
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

    /// The result, if it is there; otherwise has `waker` woken when it is.
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

    /// Until when it may stay in the queue; none if it never was there.
    pub(crate) const fn until(&self) -> Option<Instant> {
        self.until
    }

    /// True if it has been in the queue for too long.
    pub(crate) fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// True if its result is there, or was.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state.lock().stage, Stage::Done(_) | Stage::Gone)
    }

    /// Notes that it waits for the lock; false if it did already.
    pub(crate) fn line_up(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().is_in_line, true)
    }

    /// Leaves it to itself: it is taken out of the queue, or committed with its
    /// group.
    pub(crate) fn leave(&self) {
        let mut state = self.state.lock();
        state.is_left = true;
        state.waker = None;
        if matches!(state.stage, Stage::Queued(_)) {
            state.stage = Stage::Gone;
        }
    }

    /// Takes it out of the queue; false if it is carried out already.
    pub(crate) fn give_up(&self) -> bool {
        let mut state = self.state.lock();
        if matches!(state.stage, Stage::Queued(_)) {
            state.stage = Stage::Gone;
            return true;
        }
        false
    }

    /// Wakes whoever waits for it; false if nobody will lead on its behalf.
    pub(crate) fn wake(&self) -> bool {
        let mut state = self.state.lock();
        state.is_in_line = false;
        if state.is_left || matches!(state.stage, Stage::Done(_) | Stage::Gone) {
            return false;
        }
        let waker = state.waker.take();
        drop(state);
        // Without one it was never polled, and will be.
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

    /// Puts a write back that was taken and not carried out.
    fn put_back(&self, job: J) {
        let mut state = self.state.lock();
        // One that was abandoned meanwhile has no caller.
        state.stage = if state.is_left { Stage::Gone } else { Stage::Queued(job) };
    }

    fn ran(&self, result: Result<Outcome>) {
        self.state.lock().stage = Stage::Ran(result);
    }

    /// Ends it: with its own result, or with the error of the whole group.
    fn finish(&self, failed: Option<&Error>, told: &mut Vec<Waker>) {
        let mut state = self.state.lock();
        let stage = std::mem::replace(&mut state.stage, Stage::Gone);
        state.stage = Stage::Done(match (failed, stage) {
            (Some(error), _) => Err(same(error)),
            (None, Stage::Ran(result)) => result,
            (None, _) => Err(Error::new(ErrorKind::Bug, "a write of a group was not carried out")),
        });
        told.extend(state.waker.take());
    }
}

/// Where the one that writes sits: what it works with, and the open group.
#[derive(Debug)]
pub(crate) struct Seat<W: Work> {
    /// None once the engine is closed.
    pub(crate) work: Option<W>,
    members: Vec<Arc<Member<W::Job>>>,
    durability: Durability,
    is_open: bool,
    backoff: Backoff,
}

/// How far a leader came.
#[derive(Debug)]
pub(crate) struct Led<J> {
    /// How many writes were committed together.
    pub(crate) members: usize,
    /// Another process or engine has the lock of the file: these writes stay in
    /// the queue, and it is tried again after the pause.
    pub(crate) refused: Option<(Vec<Arc<Member<J>>>, Duration)>,
}

impl<W: Work> Seat<W> {
    pub(crate) const fn new(work: W) -> Self {
        let backoff = Backoff::new(PAUSE, PAUSE_MAX);
        let durability = Durability::None;
        Self { work: Some(work), members: Vec::new(), durability, is_open: false, backoff }
    }

    /// How long to wait before the lock of the file is tried again.
    pub(crate) fn pause(&mut self) -> Duration {
        self.backoff.pause()
    }

    /// Something has had the lock of the file.
    pub(crate) fn begun(&mut self) {
        self.backoff.reset();
    }

    /// How many writes are in the group.
    pub(crate) const fn members(&self) -> usize {
        self.members.len()
    }

    /// True if there is something to commit.
    pub(crate) const fn has_group(&self) -> bool {
        self.is_open
    }

    /// Carries out a write as a member of the open group, opening one if there
    /// is none; none if another process or engine has the lock of the file.
    ///
    /// # Errors
    /// That of the write, if nobody else is in the group; then there is none.
    pub(crate) fn join(
        &mut self,
        durability: Durability,
        told: &mut Vec<Waker>,
        run: impl FnOnce(&mut W) -> Result<Outcome>,
    ) -> Result<Option<Arc<Member<W::Job>>>> {
        if !self.open()? {
            return Ok(None);
        }
        let undo = Undo { seat: self, told };
        let seat = &mut *undo.seat;
        let result = seat.work.as_mut().ok_or_else(closed).and_then(run);
        let is_open = seat.work.as_ref().is_some_and(W::is_open);
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

    /// Carries out what waits, commits the group, and notes in `told` whom to
    /// tell. All of the queue and the group are done afterwards, unless
    /// another process or engine has the lock of the file.
    pub(crate) fn lead(
        &mut self,
        queued: Vec<Arc<Member<W::Job>>>,
        told: &mut Vec<Waker>,
    ) -> Led<W::Job> {
        let undo = Undo { seat: self, told };
        // A group that cannot begin fails for all: each that tried anew would
        // fail as well.
        let mut failed: Option<Error> = None;
        let mut refused = Vec::new();
        for member in queued {
            let Some(job) = member.take() else { continue };
            if let Some(error) = &failed {
                member.finish(Some(error), undo.told);
                continue;
            }
            // One try for all.
            match if refused.is_empty() { undo.seat.open() } else { Ok(false) } {
                Ok(true) => undo.seat.run_queued(&member, &job, undo.told),
                Ok(false) => {
                    member.put_back(job);
                    refused.push(member);
                }
                Err(error) => {
                    member.finish(Some(&error), undo.told);
                    failed = Some(error);
                }
            }
        }
        let seat = &mut *undo.seat;
        let members = seat.members.len();
        if seat.is_open {
            let durability = seat.durability;
            let work = seat.work.as_mut().ok_or_else(closed);
            let committed = work.and_then(|work| work.commit(durability, members));
            seat.end(committed.err().as_ref(), undo.told);
        }
        let refused = match refused.is_empty() {
            true => None,
            false => Some((seat.dismiss_late(refused, undo.told), seat.pause())),
        };
        std::mem::forget(undo);
        Led { members, refused }
    }

    /// Ends those that waited too long for the lock of the file; gives the rest.
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
                // Who has the lock is looked up only now, and once for all.
                let refused = || self.work.as_ref().map_or_else(closed, W::refused);
                member.finish(Some(error.get_or_insert_with(refused)), told);
            }
            false
        });
        members
    }

    fn run_queued(&mut self, member: &Arc<Member<W::Job>>, job: &W::Job, told: &mut Vec<Waker>) {
        // Before it runs, so that it is not forgotten if that panics.
        self.add(member);
        let result = self.work.as_mut().ok_or_else(closed).and_then(|work| work.run(job));
        match result {
            Err(error) if !self.work.as_ref().is_some_and(W::is_open) => self.lose(&error, told),
            result => member.ran(result),
        }
    }

    /// Opens a group unless one is open; false if another process or engine has
    /// the lock of the file.
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

    /// The transaction is gone, with all that members wrote.
    #[cold]
    fn lose(&mut self, error: &Error, told: &mut Vec<Waker>) {
        let message = format!("a write of the same group could not go on: {}", error.message());
        let error = Error::new(error.kind(), message);
        self.end(Some(&error), told);
    }

    /// Gives up a group without members.
    #[cold]
    fn abandon(&mut self) {
        if let Some(work) = &mut self.work {
            work.roll_back();
        }
        self.end(None, &mut Vec::new());
    }

    fn end(&mut self, failed: Option<&Error>, told: &mut Vec<Waker>) {
        self.is_open = false;
        self.durability = Durability::None;
        for member in self.members.drain(..) {
            member.finish(failed, told);
        }
    }
}

/// Undoes the group if a write panics: no member is answered as if it had
/// taken place.
struct Undo<'s, W: Work> {
    seat: &'s mut Seat<W>,
    told: &'s mut Vec<Waker>,
}

impl<W: Work> Drop for Undo<'_, W> {
    fn drop(&mut self) {
        if let Some(work) = &mut self.seat.work {
            work.roll_back();
        }
        let error = Error::new(
            ErrorKind::Bug,
            "a write of the same group panicked; nothing was written, try again",
        );
        self.seat.end(Some(&error), self.told);
    }
}

/// An error for each of those it concerns.
fn same(error: &Error) -> Error {
    let same = Error::new(error.kind(), error.message());
    error.violations().iter().cloned().fold(same, Error::with_violation)
}

#[cold]
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the database is closed")
}
