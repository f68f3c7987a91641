//! The thread that applies the commits of a primary to its secondary.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, Timestamp};
use parking_lot::{Condvar, Mutex};

use super::apply::{apply_some, target};
use super::compare::{self, Compared};
use super::flip;
use super::piece::Source;
use super::reads::{ComparedReads, ReadComparison};
use crate::contract::change::Position;
use crate::runtime::backoff::Backoff;
use crate::store::Store;

/// The pause between two looks at the feed while nothing happens.
const IDLE: Duration = Duration::from_millis(2);
/// The longest pause between two attempts while a database fails.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Applies the commits of a primary to its secondary, in the background. Both stores were opened with
/// [`StoreBuilder::pair_role`](crate::StoreBuilder::pair_role) after [`fill`](super::fill).
///
/// It ends when it is dropped.
pub struct PairFollower {
    pub(super) primary: Store,
    pub(super) secondary: Store,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The share of the reads that are compared, from 0 to 1.
    share: f64,
    reads: Option<ReadComparison>,
}

/// The progress of a [`PairFollower`].
#[derive(Clone, Debug)]
pub struct PairProgress {
    /// The position of the primary.
    pub primary: Position,
    /// The number of commits that the secondary does not have yet.
    pub lag_commits: u64,
    /// The time since the last commit that the secondary has; 0 if it has all.
    pub lag: Duration,
    /// The number of changes that the follower has applied.
    pub changes: u64,
    /// The error of the last attempt to apply a commit. It is tried again.
    pub error: Option<String>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<FollowerState>,
    changed: Condvar,
}

#[derive(Default)]
struct FollowerState {
    is_stopped: bool,
    /// The number of the last commit that was applied.
    applied: u64,
    /// The time of that commit.
    applied_at: Option<Timestamp>,
    /// The number of changes of all commits that were applied.
    changes: u64,
    error: Option<String>,
    /// The requests to compare all rows.
    requests: Vec<mpsc::Sender<Result<Compared>>>,
}

impl PairFollower {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the stores are not the primary and the filled secondary of one
    /// pair; [`ErrorKind::Io`] if the thread cannot be started.
    pub fn start(primary: &Store, secondary: &Store) -> Result<Self> {
        let (primary, secondary) = (primary.outside(), secondary.outside());
        let shared = Arc::new(Shared::default());
        shared.state.lock().applied = target(&primary, &secondary)?.position().number;
        let thread = {
            let (primary, secondary) = (primary.clone(), secondary.clone());
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name("marmota-pair".to_owned());
            thread.spawn(move || follow(&primary, &secondary, &shared)).map_err(|error| {
                let message = format!("no thread can be started for the pair: {error}");
                Error::new(ErrorKind::Io, message).with_source(error)
            })?
        };
        Ok(Self { primary, secondary, shared, thread: Some(thread), share: 0.0, reads: None })
    }

    /// Returns the progress.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the primary records no changes.
    pub fn progress(&self) -> Result<PairProgress> {
        let primary = self.primary.position()?;
        let state = self.shared.state.lock();
        let lag_commits = primary.number.saturating_sub(state.applied);
        let since = |at: Timestamp| {
            let micros = Timestamp::now().micros().saturating_sub(at.micros());
            Duration::from_micros(u64::try_from(micros).unwrap_or(0))
        };
        let lag = match lag_commits {
            0 => Duration::ZERO,
            _ => state.applied_at.map_or(Duration::ZERO, since),
        };
        let (changes, error) = (state.changes, state.error.clone());
        Ok(PairProgress { primary, lag_commits, lag, changes, error })
    }

    /// Compares all rows of both databases while they are used: each piece of rows of the primary
    /// with those that the secondary has at the same position. Waits for the result.
    ///
    /// # Errors
    /// Those of the engines; [`ErrorKind::Closed`] if the follower ends meanwhile.
    pub fn compare(&self) -> Result<Compared> {
        let ended = || Error::new(ErrorKind::Closed, "the follower has ended");
        self.begin_compare().recv().map_err(|_| ended())?
    }

    /// Begins [`PairFollower::compare`]. The result is sent to the receiver; none is sent if the follower
    /// ends.
    #[must_use]
    pub fn begin_compare(&self) -> mpsc::Receiver<Result<Compared>> {
        let (reply, result) = mpsc::channel();
        self.shared.state.lock().requests.push(reply);
        self.shared.changed.notify_all();
        result
    }

    /// Compares a share of the reads of the primary's callers from now on, from 0 (none) to 1 (all).
    /// Default: 0. The primary answers them as without it; later, a thread executes them on both
    /// databases. Lists, reads by key and counts are compared, except those in transactions and those
    /// that the cache answers. The results until now are forgotten.
    ///
    /// Differences are logged with the table and the key.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a share that is not between 0 and 1; those of the engines.
    pub fn compare_reads(&mut self, share: f64) -> Result<()> {
        if !(0.0..=1.0).contains(&share) {
            let message = format!("the share of reads is {share}: use a number from 0 to 1");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.share = share;
        self.reads = None;
        if share > 0.0 {
            let shared = Arc::clone(&self.shared);
            let applied = move || shared.state.lock().applied;
            let started = ReadComparison::start(&self.primary, &self.secondary, share, applied)?;
            self.reads = Some(started);
        }
        Ok(())
    }

    /// Returns the results of [`PairFollower::compare_reads`]; `None` if no reads are compared.
    #[must_use]
    pub fn compared_reads(&self) -> Option<ComparedReads> {
        self.reads.as_ref().map(ReadComparison::compared)
    }

    /// Changes the roles: the secondary becomes the primary. Callers of both stores must be held back
    /// meanwhile. The last commits are applied, the old primary is sealed, and the roles are recorded
    /// in both databases. Then writes belong to the other store; close the old primary, open it as a
    /// secondary, and start another follower.
    ///
    /// After an error of a database between the two records, neither is primary: [`settle`] ends
    /// the flip.
    ///
    /// [`settle`]: super::settle
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if a hook has not handled all commits, or commits are not applied, within
    /// `wait_max`; then nothing is changed, and the follower continues.
    pub fn flip(&mut self, wait_max: Duration) -> Result<()> {
        self.stop();
        let flipped = flip::flip(&self.primary, &self.secondary, wait_max);
        if flipped.is_err() && self.primary.is_open() {
            let share = self.share;
            *self = Self::start(&self.primary, &self.secondary)?;
            self.compare_reads(share)?;
        }
        flipped
    }

    /// Ends the thread, and waits for it. [`PairFollower::start`] continues.
    pub fn stop(&mut self) {
        self.reads = None;
        self.shared.state.lock().is_stopped = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It catches no panics; a panic is reported by its thread.
            let _ = thread.join();
        }
        self.shared.state.lock().requests.clear();
    }
}

impl Drop for PairFollower {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Debug for PairFollower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PairFollower").finish_non_exhaustive()
    }
}

impl Shared {
    /// Waits for a request; returns true if the thread is to end.
    fn wait(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.is_stopped && state.requests.is_empty() {
            self.changed.wait_for(&mut state, time);
        }
        state.is_stopped
    }
}

fn follow(primary: &Store, secondary: &Store, shared: &Shared) {
    let mut backoff = Backoff::new(Duration::from_millis(20), PAUSE_MAX);
    loop {
        let error = match follow_until_error(primary, secondary, shared, &mut backoff) {
            Ok(()) => return,
            Err(error) => error,
        };
        if !primary.is_open() || !secondary.is_open() {
            return;
        }
        let first = {
            let mut state = shared.state.lock();
            // Those who wait for a comparison learn of the error.
            for request in std::mem::take(&mut state.requests) {
                let _ = request.send(Err(Error::new(error.kind(), error.message())));
            }
            state.error.replace(error.to_string()).is_none()
        };
        let level = if first { log::Level::Error } else { log::Level::Debug };
        log::log!(level, "the secondary cannot follow: {error}");
        let until = Instant::now() + backoff.pause();
        while Instant::now() < until {
            if shared.wait(until - Instant::now()) {
                return;
            }
        }
    }
}

fn follow_until_error(
    primary: &Store,
    secondary: &Store,
    shared: &Shared,
    backoff: &mut Backoff,
) -> Result<()> {
    let mut source = Source::new(primary)?;
    let mut target = target(primary, secondary)?;
    let mut commits = source.commits(target.position())?;
    loop {
        let request = {
            let mut state = shared.state.lock();
            if state.is_stopped {
                return Ok(());
            }
            state.requests.pop()
        };
        if let Some(request) = request {
            let is_stopped = || shared.state.lock().is_stopped;
            let compared = compare::all(&mut source, &mut target, &mut commits, &is_stopped);
            // A caller that has gone needs no answer.
            let _ = request.send(compared);
        }
        let last = source.store.position()?;
        let applied = apply_some(&mut source, &mut target, &mut commits, last.number)?;
        {
            let mut state = shared.state.lock();
            state.error = None;
            state.applied = target.position().number;
            state.applied_at = applied.at.or(state.applied_at);
            state.changes += applied.changes as u64;
        }
        backoff.reset();
        if target.position().number >= last.number && shared.wait(IDLE) {
            return Ok(());
        }
    }
}
