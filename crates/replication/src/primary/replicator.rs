//! The replicator of a primary: receives commits from the engine and writes segments to a target.
//!
//! ```text
//!  engine: COMMIT -> CommitSink::committed        a note; in sync mode waits for the target
//!          before a checkpoint                    reads the rest of the log
//!  thread: reads the log -> segment -> target     create if the number is free
//!  thread: every day, or when pages were missed   snapshot: the file as it is
//!  thread: every hour                             merges old segments
//! ```

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, Timestamp};
use marmota_store::log_copy::{CommitSink, LogKind, LoggedCommit, LoggedDatabase};
use parking_lot::{Condvar, Mutex};

use crate::log::log_tail::{Checkpoint, LogLength, LogTail, Note, Notes};
use crate::log::page_tail::PageTail;
use crate::log::record_tail::RecordTail;
use crate::objects::claim::{self, Identity};
use crate::objects::target::Target;
use crate::options::{ReplicationMode, ReplicationOptions};
use crate::primary::shipping;
use crate::state_file::{ClosedFile, Role, StateFile};
use crate::status::ReplicationStatus;

/// The number of pages, or of bytes of a log of records, after which the log is read at once, to keep
/// segments small.
const PAGES_AT_ONCE: u64 = 4_096;
const BYTES_AT_ONCE: u64 = 16 << 20;
/// The number of pages that are added to the log before it is looked at again whether its content may
/// be moved to the file. A commit after which it is not costs nothing.
const PAGES_TO_LOOK: u64 = 1_000;
/// The longest wait for the target when a store is opened in async mode.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait of a commit for the target, because the log has become long.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_millis(200);
/// The longest wait for the target when a store is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Replicates a database to a target continuously.
///
/// Pass it to [`StoreBuilder::commit_sink`](marmota_store::StoreBuilder::commit_sink). It works
/// until the store is closed.
#[derive(Clone, Debug)]
pub struct Replicator(Arc<Core>);

/// The state that the engine, the replicator's thread and the thread of a snapshot share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) url: String,
    pub(crate) options: ReplicationOptions,
    pub(crate) notes: Notes,
    /// Set when the store is opened.
    pub(crate) open: OnceLock<OpenDatabase>,
    state: Mutex<State>,
    /// Wakes the replicator's thread.
    work: Condvar,
    /// Wakes those who wait for the target.
    shipped: Condvar,
    /// True if writes are refused; the reason is in the state.
    refuses: AtomicBool,
    /// The length of the log that was read.
    captured: AtomicU64,
    /// The length of the log after the last commit.
    logged: AtomicU64,
    /// The length of the log at which a checkpoint is considered again.
    look_at: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The database of a replicator.
#[derive(Debug)]
pub(crate) struct OpenDatabase {
    pub(crate) path: PathBuf,
    pub(crate) kind: LogKind,
    pub(crate) database: Arc<dyn LoggedDatabase>,
    /// The file of SQLite for snapshots. Opened once and kept: closing it would drop SQLite's locks.
    pub(crate) file: Option<Arc<File>>,
    pub(crate) tail: Mutex<Box<dyn LogTail>>,
}

#[derive(Debug, Default)]
struct State {
    identity: Option<Identity>,
    /// The number of commits that were reported.
    noted: u64,
    /// The number of reported commits that are in the target.
    shipped: u64,
    /// The time of the first reported commit that is not in the target.
    first_unshipped: Option<Instant>,
    /// The time of commits that were reported after the segment on its way was read.
    first_unread: Option<Instant>,
    is_urgent: bool,
    is_closing: bool,
    is_stopped: bool,
    /// True once the start has succeeded or failed.
    started: Option<Result<()>>,
    refusal: Option<Refusal>,
    chain: u64,
    /// The last chain that has a snapshot. Without one, its segments restore nothing.
    covered_chain: u64,
    status: ReplicationStatus,
    /// True if the engine may remove its log: everything is in the target.
    is_clean: bool,
}

/// The reason why writes are refused.
#[derive(Clone, Debug)]
enum Refusal {
    /// Another primary has taken over.
    Fenced(String),
    /// The target has not accepted commits in sync mode.
    Late,
}

impl Replicator {
    /// Creates the replicator of a target: `file:///folder`, or `s3://bucket/prefix` with the
    /// feature `s3`. The target is opened when the store is opened; a missing folder is created.
    ///
    /// Credentials and the address of a bucket come from the environment: `AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL of another form, [`ErrorKind::Io`] for a folder that cannot
    /// be created.
    pub fn new(url: &str, options: ReplicationOptions) -> Result<Self> {
        Target::open(url, true)?;
        let status = ReplicationStatus { target: url.to_owned(), ..ReplicationStatus::default() };
        Ok(Self(Arc::new(Core {
            url: url.to_owned(),
            options,
            notes: Mutex::new(VecDeque::new()),
            open: OnceLock::new(),
            state: Mutex::new(State { status, ..State::default() }),
            work: Condvar::new(),
            shipped: Condvar::new(),
            refuses: AtomicBool::new(false),
            captured: AtomicU64::new(0),
            logged: AtomicU64::new(0),
            look_at: AtomicU64::new(0),
            thread: Mutex::new(None),
        })))
    }

    /// Returns the state of the replication.
    #[must_use]
    pub fn status(&self) -> ReplicationStatus {
        let state = self.0.state.lock();
        let lag = state.first_unshipped.map_or(Duration::ZERO, |since| since.elapsed());
        let lag_ms = u64::try_from(lag.as_millis()).unwrap_or(u64::MAX);
        ReplicationStatus { lag_ms, ..state.status.clone() }
    }

    /// Waits until all commits so far are in the target. Returns false if they are not within
    /// `timeout`.
    #[must_use]
    pub fn flush(&self, timeout: Duration) -> bool {
        self.0.flush(timeout)
    }

    /// Checks that the target answers, and that this is still its primary.
    ///
    /// # Errors
    /// Those of the target; [`ErrorKind::Conflict`] if another primary has taken over.
    pub fn check_target(&self) -> Result<()> {
        let target = Target::open(&self.0.url, false)?;
        let (epoch, index) = {
            let state = self.0.state.lock();
            (state.status.epoch, state.status.index)
        };
        let head = claim::head_of(&target, index)?;
        match head.epoch == epoch {
            true => Ok(()),
            false => Err(claim::fenced(target.url(), &head)),
        }
    }
}

impl CommitSink for Replicator {
    fn attach(&self, database: Arc<dyn LoggedDatabase>) -> Result<()> {
        let core = &self.0;
        let path = database.path().to_owned();
        let io = |error: std::io::Error| {
            let message = format!("{} cannot be read for replication: {error}", path.display());
            Error::new(ErrorKind::Io, message).with_source(error)
        };
        let (kind, bytes_max) = (database.log_kind(), core.options.log_bytes_max);
        let (file, tail): (_, Box<dyn LogTail>) = match kind {
            LogKind::Pages => {
                let file = File::open(&path).map_err(io)?;
                (Some(Arc::new(file)), Box::new(PageTail::new(&path, bytes_max).map_err(io)?))
            }
            LogKind::Records => {
                let opened_at = database.log_end()?;
                (None, Box::new(RecordTail::new(&path, opened_at, bytes_max, &core.notes)))
            }
        };
        let path = path.clone();
        let open = OpenDatabase { path, kind, database, file, tail: Mutex::new(tail) };
        if core.open.set(open).is_err() {
            let message = "a replicator replicates one database: make another one for each store";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let of_thread = Arc::clone(core);
        let thread = std::thread::Builder::new().name("marmota-replicate".to_owned());
        *core.thread.lock() = Some(thread.spawn(move || shipping::run(&of_thread)).map_err(io)?);
        core.wait_for_start()?;
        match core.is_async() {
            true => Ok(()),
            false => core.wait_for_snapshot(),
        }
    }

    fn check(&self) -> Result<()> {
        match self.0.refuses.load(Ordering::Relaxed) {
            false => Ok(()),
            true => self.0.refusal(),
        }
    }

    fn committed(&self, commit: LoggedCommit) {
        let core = &self.0;
        core.logged.store(commit.end.length, Ordering::Relaxed);
        let note =
            Note { end: commit.end, number: commit.number, time_us: Timestamp::now().micros() };
        let is_known = {
            let mut notes = core.notes.lock();
            let is_known = notes.back().is_some_and(|last| last.end == note.end);
            if !is_known || note.number.is_some() {
                notes.push_back(note);
            }
            is_known
        };
        let mut state = core.state.lock();
        state.noted += 1;
        if state.first_unread.is_none() && !is_known {
            let now = Instant::now();
            state.first_unread = Some(now);
            state.first_unshipped.get_or_insert(now);
        }
        let at_once = if core.is_of_pages() { PAGES_AT_ONCE } else { BYTES_AT_ONCE };
        let captured = core.captured.load(Ordering::Relaxed);
        let is_long = commit.end.length > captured.saturating_add(at_once);
        if is_long && !state.is_urgent {
            state.is_urgent = true;
            drop(state);
            core.work.notify_one();
        }
    }

    fn wait(&self) -> Result<()> {
        match self.waits() {
            true => self.0.wait_for_commits(),
            false => Ok(()),
        }
    }

    fn changed_without_log(&self) {
        let core = &self.0;
        let Some(open) = core.open.get() else { return };
        open.tail.lock().give_up(&core.notes, "the tables were changed");
        core.write_state(true);
        core.hurry();
    }

    fn waits(&self) -> bool {
        self.0.options.mode == ReplicationMode::Sync
    }

    fn before_checkpoint(&self) -> bool {
        let core = &self.0;
        let Some(open) = core.open.get() else { return true };
        let logged = core.logged.load(Ordering::Relaxed);
        if logged < core.look_at.load(Ordering::Relaxed) {
            return false;
        }
        let look = || {
            let in_target = core.state.lock().status.index;
            let mut tail = open.tail.lock();
            let was_broken = tail.next().is_broken;
            let looked = tail.before_checkpoint(&core.notes, in_target);
            let gives_up = !was_broken && tail.next().is_broken;
            drop(tail);
            if gives_up {
                // Before the log can be overwritten.
                core.write_state(true);
            }
            looked
        };
        let is_allowed = match look() {
            Checkpoint::Allowed => true,
            Checkpoint::Refused { length: LogLength::Short } => false,
            Checkpoint::Refused { length: LogLength::Long } => {
                core.hurry();
                false
            }
            Checkpoint::Refused { length: LogLength::TooLong } => {
                open.tail.lock().note_waited();
                core.flush(CHECKPOINT_TIMEOUT) && look() == Checkpoint::Allowed
            }
        };
        // A log that was moved to the file begins with page 1 again.
        let look_at = match is_allowed || !core.is_of_pages() {
            true => 0,
            false => logged.saturating_add(PAGES_TO_LOOK),
        };
        core.look_at.store(look_at, Ordering::Relaxed);
        is_allowed
    }

    fn before_close(&self) -> bool {
        let core = &self.0;
        let Some(open) = core.open.get() else { return true };
        // A target that fails already gets a shorter time: the log stays, and is copied later.
        let timeout = match core.state.lock().status.error {
            None => CLOSE_TIMEOUT,
            Some(_) => CLOSE_TIMEOUT / 10,
        };
        if !core.flush(timeout) {
            return false;
        }
        let in_target = core.state.lock().status.index;
        if !open.tail.lock().before_close(&core.notes, in_target) {
            return false;
        }
        core.state.lock().is_clean = true;
        true
    }

    fn closed(&self) {
        let core = &self.0;
        core.stop();
        let state = core.state.lock();
        let (Some(open), Some(identity)) = (core.open.get(), &state.identity) else { return };
        if state.is_clean && !matches!(state.refusal, Some(Refusal::Fenced(_))) {
            let index = state.status.index;
            let file = StateFile {
                role: Role::Primary,
                database: identity.database.clone(),
                epoch: identity.epoch,
                index,
                chain: state.chain,
                has_gap: false,
                closed: ClosedFile::of(&open.path, index),
            };
            if let Err(error) = file.write(&open.path) {
                log::warn!("{error}: the next start makes a new snapshot");
            }
        }
    }
}

impl Core {
    /// Waits for the thread to begin. In async mode a target that cannot be reached is tried again
    /// in the background.
    fn wait_for_start(&self) -> Result<()> {
        let deadline = Instant::now() + OPEN_TIMEOUT;
        let mut state = self.state.lock();
        loop {
            match state.started.take() {
                Some(Ok(())) => return Ok(()),
                Some(Err(error)) if self.is_async() && error.kind() == ErrorKind::Refused => {
                    log::warn!("replication begins later: {error}");
                    return Ok(());
                }
                Some(Err(error)) => {
                    drop(state);
                    self.stop();
                    return Err(error);
                }
                None => {}
            }
            if self.shipped.wait_until(&mut state, deadline).timed_out() {
                if self.is_async() {
                    log::warn!("replication begins later: {} does not answer", self.url);
                    return Ok(());
                }
                // The thread ends when its request does.
                state.is_closing = true;
                let message = format!("{} does not answer: check the target", self.url);
                return Err(Error::new(ErrorKind::Refused, message));
            }
        }
    }

    /// Waits for the first snapshot: without one, nothing that is acknowledged could be restored.
    /// Takes as long as the snapshot does, unless the target fails.
    fn wait_for_snapshot(&self) -> Result<()> {
        let Some(open) = self.open.get() else { return Ok(()) };
        let (chain, mut failing_since) = (open.tail.lock().next().chain, None);
        let mut state = self.state.lock();
        while state.covered_chain < chain {
            self.shipped.wait_for(&mut state, Duration::from_millis(100));
            let Some(error) = state.status.error.clone() else {
                failing_since = None;
                continue;
            };
            let since = *failing_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= self.options.sync_deadline {
                state.is_closing = true;
                return Err(Error::new(ErrorKind::Refused, error));
            }
        }
        Ok(())
    }

    pub(crate) fn is_async(&self) -> bool {
        self.options.mode == ReplicationMode::Async
    }

    fn is_of_pages(&self) -> bool {
        self.open.get().is_none_or(|open| open.kind == LogKind::Pages)
    }

    /// Waits until all commits that were reported so far are in the target.
    fn wait_for_commits(&self) -> Result<()> {
        let mut state = self.state.lock();
        let (mine, deadline) = (state.noted, Instant::now() + self.options.sync_deadline);
        state.is_urgent = true;
        self.work.notify_one();
        while state.shipped < mine {
            if let Some(Refusal::Fenced(message)) = &state.refusal {
                let message = format!("the commit is in this database only: {message}");
                return Err(Error::new(ErrorKind::Lost, message));
            }
            if self.shipped.wait_until(&mut state, deadline).timed_out() {
                state.refusal.get_or_insert(Refusal::Late);
                self.refuses.store(true, Ordering::Relaxed);
                let message = format!(
                    "the write is committed in the database, but {} has not accepted it within {} \
                     ms{}: it is copied when the target accepts it; read the row before you retry",
                    self.url,
                    self.options.sync_deadline.as_millis(),
                    state.status.error.as_ref().map(|e| format!(" ({e})")).unwrap_or_default()
                );
                return Err(Error::new(ErrorKind::Lost, message));
            }
        }
        Ok(())
    }

    #[cold]
    fn refusal(&self) -> Result<()> {
        let state = self.state.lock();
        match &state.refusal {
            None => Ok(()),
            Some(Refusal::Fenced(message)) => Err(Error::new(ErrorKind::Busy, &**message)),
            Some(Refusal::Late) => {
                let message = format!(
                    "{} does not accept commits{}, and this database replicates synchronously: \
                     nothing was written; try again when the target is there, or restart with \
                     `--replicate-mode async`",
                    self.url,
                    state.status.error.as_ref().map(|e| format!(" ({e})")).unwrap_or_default()
                );
                Err(Error::new(ErrorKind::Busy, message))
            }
        }
    }

    /// Waits until all commits so far are in the target.
    fn flush(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.state.lock();
        state.noted += 1;
        let mine = state.noted;
        while state.shipped < mine {
            if state.is_stopped || matches!(state.refusal, Some(Refusal::Fenced(_))) {
                return false;
            }
            state.is_urgent = true;
            self.work.notify_one();
            if self.shipped.wait_until(&mut state, deadline).timed_out() {
                return false;
            }
        }
        true
    }

    fn stop(&self) {
        let mut state = self.state.lock();
        state.is_closing = true;
        drop(state);
        self.work.notify_all();
        self.shipped.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread.filter(|own| own.thread().id() != std::thread::current().id())
        {
            // If it panicked, it has ended as well.
            let _ = thread.join();
        }
        self.state.lock().is_stopped = true;
    }
}

/// What the threads of a replicator do with its state.
impl Core {
    /// Waits until there may be something to write, and returns the number of commits reported so
    /// far; `None` when the replicator ends.
    pub(crate) fn wait_for_work(&self) -> Option<u64> {
        let mut state = self.state.lock();
        let deadline = Instant::now() + self.options.window / 2;
        while !state.is_urgent && !state.is_closing {
            if self.work.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        state.is_urgent = false;
        state.first_unread = None;
        (!state.is_closing).then_some(state.noted)
    }

    /// Waits before another try. Returns false when the replicator ends.
    pub(crate) fn pause(&self, pause: Duration) -> bool {
        let mut state = self.state.lock();
        let deadline = Instant::now() + pause;
        while !state.is_closing {
            if self.work.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        !state.is_closing
    }

    /// Returns true when the replicator ends.
    pub(crate) fn is_closing(&self) -> bool {
        self.state.lock().is_closing
    }

    /// Returns true as long as the replicator does not end, and no other primary has taken over.
    pub(crate) fn is_working(&self) -> bool {
        let state = self.state.lock();
        !state.is_closing && !matches!(state.refusal, Some(Refusal::Fenced(_)))
    }

    /// Returns the epoch of this primary.
    pub(crate) fn epoch(&self) -> u64 {
        self.state.lock().status.epoch
    }

    /// Records that segments were merged.
    pub(crate) fn note_merged(&self, segments: u64) {
        self.state.lock().status.merged += segments;
    }

    /// Records the result of the start.
    pub(crate) fn started(&self, result: Result<Identity>) {
        let mut state = self.state.lock();
        match result {
            Ok(identity) => {
                state.status.epoch = identity.epoch;
                state.status.error = None;
                state.identity = Some(identity);
                state.started = Some(Ok(()));
            }
            Err(error) => {
                state.status.error = Some(error.message().to_owned());
                if error.kind() != ErrorKind::Refused {
                    state.refusal = Some(Refusal::Fenced(error.message().to_owned()));
                    self.refuses.store(true, Ordering::Relaxed);
                }
                state.started = Some(Err(error));
            }
        }
        drop(state);
        self.shipped.notify_all();
    }

    /// Records that the log was read up to this length.
    pub(crate) fn note_captured(&self, length: u64) {
        self.captured.store(length, Ordering::Relaxed);
    }

    /// Records that a new chain has begun: commits are not in the target before it has a snapshot.
    pub(crate) fn note_chain(&self, chain: u64) {
        self.state.lock().chain = chain;
    }

    /// Records that the commits up to `noted` are in the target, with a segment if there was one.
    pub(crate) fn note_shipped(&self, noted: u64, segment: Option<ShippedSegment>) {
        let mut state = self.state.lock();
        let chain = segment.map_or(state.chain, |segment| segment.chain);
        let noted = match self.is_async() || state.covered_chain >= chain {
            true => noted,
            false => 0,
        };
        state.shipped = state.shipped.max(noted);
        state.first_unshipped = state.first_unread;
        state.status.error = None;
        if let Some(segment) = segment {
            state.status.index = segment.index;
            state.status.time = Timestamp::from_micros(segment.time_us).ok();
            state.status.bytes += segment.bytes;
            state.status.segments += u64::from(segment.bytes > 0);
            state.chain = segment.chain;
        }
        if matches!(state.refusal, Some(Refusal::Late)) && state.shipped == state.noted {
            state.refusal = None;
            self.refuses.store(false, Ordering::Relaxed);
        }
        drop(state);
        self.shipped.notify_all();
    }

    /// Records that a snapshot of this chain is in the target.
    pub(crate) fn note_covered(&self, chain: u64) {
        let mut state = self.state.lock();
        state.covered_chain = state.covered_chain.max(chain);
        state.is_urgent = true;
        drop(state);
        self.work.notify_one();
        self.shipped.notify_all();
    }

    /// Makes the thread read the log at once.
    pub(crate) fn hurry(&self) {
        let mut state = self.state.lock();
        if !state.is_urgent {
            state.is_urgent = true;
            drop(state);
            self.work.notify_one();
        }
    }

    /// Writes the state file of an open primary. One that has not reached its target yet keeps what
    /// the file has.
    pub(crate) fn write_state(&self, has_gap: bool) {
        let Some(open) = self.open.get() else { return };
        let state = self.state.lock();
        let file = match &state.identity {
            Some(identity) => Ok(Some(StateFile {
                role: Role::Primary,
                database: identity.database.clone(),
                epoch: identity.epoch,
                index: state.status.index,
                chain: state.chain,
                has_gap,
                closed: None,
            })),
            None => StateFile::read(&open.path)
                .map(|file| file.map(|file| StateFile { has_gap, closed: None, ..file })),
        };
        drop(state);
        let written = file.and_then(|file| file.map_or(Ok(()), |file| file.write(&open.path)));
        if let Err(error) = written {
            log::error!("{error}");
        }
    }

    /// Records a failed request.
    pub(crate) fn note_failure(&self, error: &Error) {
        let mut state = self.state.lock();
        if state.status.error.is_none() {
            log::warn!("replication waits: {error}");
        }
        state.status.error = Some(error.message().to_owned());
    }

    /// Refuses all further writes: another primary has taken over.
    pub(crate) fn fence(&self, error: &Error) {
        log::error!("{error}");
        let mut state = self.state.lock();
        state.refusal = Some(Refusal::Fenced(error.message().to_owned()));
        state.status.error = Some(error.message().to_owned());
        self.refuses.store(true, Ordering::Relaxed);
        drop(state);
        self.shipped.notify_all();
    }

    /// Waits until a segment is in the target. Returns false when the replicator ends.
    pub(crate) fn wait_for_index(&self, index: u64) -> bool {
        let mut state = self.state.lock();
        while state.status.index < index {
            if state.is_closing || matches!(state.refusal, Some(Refusal::Fenced(_))) {
                return false;
            }
            self.shipped.wait_for(&mut state, Duration::from_secs(1));
        }
        true
    }
}

/// A segment that is in the target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShippedSegment {
    pub(crate) index: u64,
    pub(crate) chain: u64,
    pub(crate) time_us: i64,
    /// 0 for a segment of an earlier run.
    pub(crate) bytes: u64,
}
