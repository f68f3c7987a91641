//! The log of a memory engine: all commits since the snapshot, in their order, in a separate file.
//!
//! ```text
//! app.mem         the snapshot: all rows, and which log goes on from it
//! app.mem.log.7   the log: a record a commit (journal/record, journal/changes)
//! app.mem.lock    held by the process that has the database open
//! ```
//! A commit is one write to the log file, made while its tables are still locked. So each record
//! follows those that it depends on, a write that fails is undone before other sessions have seen
//! it, and acknowledged commits survive the end of the process at once. The wait for the disk comes
//! after the locks are released: one thread ([`Journal::run`]) waits for everything that has been
//! written so far, and the next commits are collected meanwhile (group commit). Other sessions may
//! see a row before it is on the disk; their writes that depend on it follow it in the log, and
//! cannot be kept without it.
//!
//! If a sync of the disk fails, the content of the disk is unknown: commits that waited fail with
//! [`ErrorKind::Lost`], and the engine refuses all operations, because rows that may not be on the
//! disk must not be seen.

mod changes;
mod log_copy;
mod log_file;
pub(crate) mod plain_file;
pub(crate) mod received;
mod record;
mod recovery;
mod replay;

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, Uuid};
use marmota_store::Durability;
use marmota_store::EngineStatistics;
use marmota_store::log_copy::{CommitSink, log_path};
use parking_lot::{Condvar, Mutex};

pub(super) use changes::{
    Change, Definition, Payload, read as read_payload, write_changes, write_tables,
};
use log_file::{LogFile, fault};
use record::{Identity, RECORD_BYTES};
pub(super) use recovery::{ExclusiveFile, FetchedLog, Part, fetched, first_log, move_files, open};

use crate::encryption::file_encryption::FileEncryption;
use crate::journal::log_copy::LogCopy;

/// The maximum delay before a relaxed write is synced.
const RELAXED_MAX: Duration = Duration::from_millis(800);
/// The minimum length from which on a log can count as too long, in bytes.
const LOG_BYTES_MIN: u64 = 64 << 20;
/// A larger buffer is freed.
const RECORD_BYTES_KEPT: usize = 1 << 20;

/// A session's waiter: the session's number and the ticket.
type Name = (u64, u64);

/// A call to make when the log is on the disk.
pub(super) type WhenSynced = Box<dyn FnOnce() + Send>;

/// The log.
pub(super) struct Journal {
    /// The path of the snapshot.
    path: PathBuf,
    durability: Durability,
    encryption: Arc<FileEncryption>,
    tail: Mutex<Tail>,
    /// Held during a sync, so that only one caller gets its error.
    syncing: Mutex<()>,
    /// The position up to which everything is on the disk.
    synced: AtomicU64,
    /// The position up to which commits may be answered: the same, unless they have to be copied
    /// elsewhere before.
    answered: AtomicU64,
    /// What copies the log elsewhere.
    pub(super) copy: LogCopy,
    waiting: Mutex<Waiting>,
    work: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Held while a snapshot is made, or tables change.
    pub(super) snapshots: Mutex<()>,
    snapshot_wanted: AtomicBool,
    /// Set for the whole engine when the log has failed.
    closed: Arc<AtomicBool>,
    failure: Mutex<Option<String>>,
    /// The lock against other processes.
    lock: Mutex<Option<Lock>>,
    counts: Counts,
}

/// The counters since the log was opened.
#[derive(Default)]
struct Counts {
    commits: AtomicU64,
    syncs: AtomicU64,
    snapshots: AtomicU64,
}

/// The end of the log. Positions count all bytes that were ever written.
struct Tail {
    log: LogFile,
    position: u64,
    /// The last list of tables, with which each log begins.
    tables: Vec<u8>,
    /// The bytes written since the last snapshot, and their maximum.
    since_snapshot: u64,
    bytes_max: u64,
    /// The schema version of a snapshot that needs no log after it.
    whole: Option<u32>,
}

#[derive(Default)]
struct Waiting {
    /// The highest position that a session waits for.
    wanted: u64,
    /// The time at which relaxed writes have to be synced.
    due: Option<Instant>,
    wakers: Vec<(u64, Name, Waker)>,
    /// The calls to make when the log is on the disk up to a position.
    calls: Vec<(u64, WhenSynced)>,
    stopped: bool,
    /// The commits that requested a sync and are not part of one yet, and the counters of the
    /// groups so far.
    asked: u64,
    groups: u64,
    grouped: u64,
    group_max: u64,
}

/// The lock against other processes.
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // The process id is removed, so that no error message names an ended process.
        let _ = self.0.set_len(0);
        // A child that was just forked has the same file: if only ours was closed, the child would
        // keep the lock.
        let _ = self.0.unlock();
    }
}

/// A record that is being written.
pub(super) struct Record(Vec<u8>);

impl Default for Record {
    fn default() -> Self {
        Self(vec![0; RECORD_BYTES])
    }
}

impl Record {
    /// Begins a record with an empty payload.
    pub(super) fn payload(&mut self) -> &mut Vec<u8> {
        self.0.truncate(RECORD_BYTES);
        self.0.shrink_to(RECORD_BYTES_KEPT);
        &mut self.0
    }
}

impl Journal {
    /// Syncs the log of a snapshot's generation; returns its length.
    pub(super) fn settle(&self, of: u64) -> Result<u64> {
        let (generation, position) = self.end();
        debug_assert_eq!(generation, of);
        self.sync()?;
        Ok(position)
    }

    /// Writes a record, and returns the position after it. `number` is that of its commit in the
    /// change feed.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the disk fails, [`ErrorKind::Invalid`] if the record is too long: then
    /// nothing is written. [`ErrorKind::Lost`] if a part of it cannot be removed.
    pub(super) fn append(&self, record: &mut Record, number: Option<NonZeroU64>) -> Result<u64> {
        let payload = &record.0[RECORD_BYTES..];
        if payload.len() > record::PAYLOAD_BYTES_MAX {
            let message = format!(
                "a commit of {} bytes is larger than the log allows ({}): split the commit",
                payload.len(),
                record::PAYLOAD_BYTES_MAX
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut sum = crc32fast::Hasher::new();
        sum.update(payload);
        let mut tail = self.tail.lock();
        self.check()?;
        let position = self.write(&mut tail, &mut record.0, &sum)?;
        self.copy.report(&tail.log, number);
        Ok(position)
    }

    fn write(
        &self,
        tail: &mut Tail,
        record: &mut [u8],
        payload: &crc32fast::Hasher,
    ) -> Result<u64> {
        let unsynced = tail.position - self.synced.load(Ordering::Acquire);
        let log = &mut tail.log;
        let settled = match self.durability {
            // No caller ever waits, and a power loss may lose any commit.
            Durability::None => log.bytes,
            _ => log.bytes.saturating_sub(unsynced),
        };
        let bytes = match log.write(record, payload, settled) {
            Ok(bytes) => bytes,
            Err(error) => {
                // A partial record has to be removed, or the records after it would be lost.
                if let Err(error) = log.file.set_len(log.bytes) {
                    return Err(unknown(self.fail(&error)));
                }
                return Err(fault(error));
            }
        };
        tail.position += bytes;
        tail.since_snapshot += bytes;
        Ok(tail.position)
    }

    /// Writes the list of tables that the following records refer to.
    ///
    /// # Errors
    /// Those of [`Journal::append`].
    pub(super) fn append_tables(&self, record: &mut Record) -> Result<()> {
        self.append(record, None)?;
        let mut tail = self.tail.lock();
        tail.tables.clear();
        tail.tables.extend_from_slice(&record.0[RECORD_BYTES..]);
        Ok(())
    }

    /// Requests the durability of a commit that ends at `position`; returns true if the caller has
    /// to wait with [`Journal::poll`].
    pub(super) fn request_sync(&self, position: u64, asked: Option<Durability>) -> bool {
        self.counts.commits.fetch_add(1, Ordering::Relaxed);
        let durability = match self.durability {
            _ if self.copy.waits() => Durability::Full,
            Durability::None => return false,
            own => asked.unwrap_or(own),
        };
        if durability == Durability::None || self.answered.load(Ordering::Acquire) >= position {
            return false;
        }
        let mut waiting = self.waiting.lock();
        if durability == Durability::Full {
            waiting.wanted = waiting.wanted.max(position);
            waiting.asked += 1;
            self.work.notify_one();
            return true;
        }
        if waiting.due.is_none() {
            waiting.due = Some(Instant::now() + RELAXED_MAX);
            self.work.notify_one();
        }
        false
    }

    /// Returns true if a commit with this durability waits for the disk.
    pub(super) fn waits(&self, asked: Option<Durability>) -> bool {
        self.copy.waits()
            || self.durability != Durability::None
                && asked.unwrap_or(self.durability) == Durability::Full
    }

    /// Makes a call when the log is on the disk up to `position`; at once if it is already. After
    /// the disk has failed, it is never made.
    pub(super) fn when_synced(&self, position: u64, call: WhenSynced) {
        let mut waiting = self.waiting.lock();
        if self.answered.load(Ordering::Acquire) < position {
            waiting.calls.push((position, call));
            return;
        }
        drop(waiting);
        call();
    }

    /// Ready once everything up to a position is on the disk, or with [`ErrorKind::Lost`] if this
    /// is unknown.
    pub(super) fn poll(
        &self,
        position: u64,
        name: Name,
        context: &Context<'_>,
    ) -> Poll<Result<()>> {
        if self.answered.load(Ordering::Acquire) >= position {
            return Poll::Ready(self.copy.check_answered(position));
        }
        let mut waiting = self.waiting.lock();
        if self.answered.load(Ordering::Acquire) >= position {
            return Poll::Ready(self.copy.check_answered(position));
        }
        if let Err(error) = self.check() {
            return Poll::Ready(Err(unknown(error)));
        }
        match waiting.wakers.iter_mut().find(|(_, other, _)| *other == name) {
            Some((_, _, waker)) => waker.clone_from(context.waker()),
            None => waiting.wakers.push((position, name, context.waker().clone())),
        }
        Poll::Pending
    }

    /// Removes a waiter's waker.
    pub(super) fn forget(&self, name: Name) {
        self.waiting.lock().wakers.retain(|(_, other, _)| *other != name);
    }

    /// Syncs everything that is written by now; returns the position up to which.
    ///
    /// # Errors
    /// [`ErrorKind::Io`], also for all later operations.
    pub(super) fn sync(&self) -> Result<u64> {
        let _one = self.syncing.lock();
        self.check()?;
        // They are counted before the position is read, which is then after all of them.
        let members = std::mem::take(&mut self.waiting.lock().asked);
        let (file, position) = {
            let tail = self.tail.lock();
            (Arc::clone(&tail.log.file), tail.position)
        };
        if self.synced.load(Ordering::Acquire) < position {
            self.sync_file(&file)?;
            self.waiting.lock().count_group(members);
            self.reached(position);
        }
        Ok(position)
    }

    fn sync_file(&self, file: &File) -> Result<()> {
        self.counts.syncs.fetch_add(1, Ordering::Relaxed);
        file.sync_data().map_err(|error| self.fail(&error))
    }

    /// Records that everything up to a position is on the disk, and wakes the callers that wait for
    /// that only.
    fn reached(&self, position: u64) {
        self.synced.fetch_max(position, Ordering::AcqRel);
        if !self.copy.waits() {
            self.answer(position);
        }
    }

    /// Wakes the callers that wait for the answer to a commit up to a position.
    fn answer(&self, position: u64) {
        self.answered.fetch_max(position, Ordering::AcqRel);
        let mut woken = Vec::new();
        let mut waiting = self.waiting.lock();
        waiting.wakers.retain(|(wanted, _, waker)| {
            let waits = *wanted > position;
            if !waits {
                woken.push(waker.clone());
            }
            waits
        });
        let calls = waiting.calls.extract_if(.., |(wanted, _)| *wanted <= position);
        let calls: Vec<_> = calls.collect();
        drop(waiting);
        calls.into_iter().for_each(|(_, call)| call());
        woken.into_iter().for_each(Waker::wake);
    }

    /// Closes the log permanently after a failure.
    #[cold]
    fn fail(&self, error: &io::Error) -> Error {
        let message = format!(
            "the disk failed while the log of {} was written ({error}), so the last writes may be \
             lost: the engine has stopped; check the disk, then open the engine again",
            self.path.display()
        );
        log::error!("{message}");
        self.failure.lock().get_or_insert(message);
        self.closed.store(true, Ordering::SeqCst);
        let wakers = std::mem::take(&mut self.waiting.lock().wakers);
        wakers.into_iter().for_each(|(_, _, waker)| waker.wake());
        self.failure().unwrap_or_else(|| Error::new(ErrorKind::Io, "the disk failed"))
    }

    /// Returns the error because of which the log was closed, if it was.
    pub(super) fn failure(&self) -> Option<Error> {
        let failure = self.failure.lock();
        failure.as_ref().map(|message| Error::new(ErrorKind::Io, message.clone()))
    }

    fn check(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed)
            && let Some(error) = self.failure()
        {
            return Err(error);
        }
        Ok(())
    }

    /// Copies the log to a sink from now on.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it is copied already; [`ErrorKind::Io`] without a thread.
    pub(super) fn copy_to(self: &Arc<Self>, sink: Arc<dyn CommitSink>) -> Result<()> {
        let waits = sink.waits();
        self.copy.set(sink)?;
        // Without a durability, no thread waits for the disk.
        match waits && self.durability == Durability::None {
            true => self.start(),
            false => Ok(()),
        }
    }

    /// Starts the thread that syncs the log for all commits.
    fn start(self: &Arc<Self>) -> Result<()> {
        let journal = Arc::clone(self);
        let thread = std::thread::Builder::new().name("marmota-log".to_owned());
        let started = thread.spawn(move || journal.run()).map_err(|error| {
            let message = format!("no thread can be started for the log: {error}");
            Error::new(ErrorKind::Io, message).with_source(error)
        })?;
        *self.thread.lock() = Some(started);
        Ok(())
    }

    fn run(&self) {
        let mut waiting = self.waiting.lock();
        while !waiting.stopped {
            let now = Instant::now();
            let is_wanted = waiting.wanted > self.answered.load(Ordering::Acquire);
            if is_wanted || waiting.due.is_some_and(|due| due <= now) {
                waiting.due = None;
                drop(waiting);
                let Ok(position) = self.sync() else { return };
                if self.copy.waits() {
                    self.copy.wait(self.answered.load(Ordering::Acquire), position);
                    self.answer(position);
                }
                waiting = self.waiting.lock();
            } else if let Some(due) = waiting.due {
                let _ = self.work.wait_until(&mut waiting, due);
            } else {
                self.work.wait(&mut waiting);
            }
        }
    }

    /// Ends the thread that syncs the log, and releases the lock against other processes.
    pub(super) fn stop(&self) {
        self.waiting.lock().stopped = true;
        self.work.notify_one();
        if let Some(thread) = self.thread.lock().take() {
            // The thread has no code that panics.
            let _ = thread.join();
        }
        self.lock.lock().take();
    }

    /// Returns the counters.
    pub(super) fn statistics(&self) -> EngineStatistics {
        let waiting = self.waiting.lock();
        let (groups, grouped, group_max) = (waiting.groups, waiting.grouped, waiting.group_max);
        let writes_waiting = waiting.wakers.len() as u64;
        drop(waiting);
        let mut statistics = EngineStatistics::default();
        statistics.commits = self.counts.commits.load(Ordering::Relaxed);
        statistics.groups = groups;
        statistics.grouped_writes = grouped;
        statistics.group_writes_max = group_max;
        statistics.syncs = self.counts.syncs.load(Ordering::Relaxed);
        statistics.checkpoints = self.counts.snapshots.load(Ordering::Relaxed);
        statistics.writes_waiting = writes_waiting;
        statistics
    }

    /// Returns the end of the log: its generation and the length of its file.
    pub(super) fn end(&self) -> (u64, u64) {
        let tail = self.tail.lock();
        (tail.log.identity.generation, tail.log.bytes)
    }

    /// Returns the identity that all logs of this database share.
    pub(super) fn lineage(&self) -> Uuid {
        self.tail.lock().log.identity.lineage
    }

    /// Appends bytes of the primary's log to that of a replica. Returns false if the log does not have
    /// exactly the bytes before them; otherwise those that it did not have.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]: nothing is appended.
    pub(super) fn copy_piece<'p>(&self, begin: u64, bytes: &'p [u8]) -> Result<Option<&'p [u8]>> {
        let mut tail = self.tail.lock();
        self.check()?;
        if begin > tail.log.bytes {
            return Ok(None);
        }
        let known = usize::try_from(tail.log.bytes - begin).unwrap_or(usize::MAX).min(bytes.len());
        let (known, new) = bytes.split_at(known);
        let path = log_path(&self.path, tail.log.identity.generation);
        if !log_file::has_bytes(&path, begin, known)? {
            return Ok(None);
        }
        tail.log.copy(new)?;
        tail.position += new.len() as u64;
        tail.since_snapshot += new.len() as u64;
        Ok(Some(new))
    }

    /// Begins the next log of a replica. The current one is then complete on the disk.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub(super) fn begin_copy(&self, generation: u64) -> Result<()> {
        self.sync()?;
        let identity = Identity { lineage: self.lineage(), generation };
        let log = LogFile::begin_copy(&log_path(&self.path, generation), identity)?;
        self.tail.lock().log = log;
        Ok(())
    }

    /// Continues with the log of other files, which were moved to the place of this database's.
    pub(super) fn replace_log(&self, log: FetchedLog) {
        let mut tail = self.tail.lock();
        tail.since_snapshot = log.file.bytes;
        tail.bytes_max = bytes_max(log.snapshot_bytes);
        tail.whole = None;
        tail.log = log.file;
    }

    /// Begins another log; then the previous one is complete on the disk.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]; the log continues unchanged, unless it has failed.
    pub(super) fn rotate(&self) -> Result<u64> {
        // This is most of the wait, while other sessions continue to write.
        self.sync()?;
        let (identity, tables) = {
            let tail = self.tail.lock();
            let Identity { lineage, generation } = tail.log.identity;
            (Identity { lineage, generation: generation + 1 }, tail.tables.clone())
        };
        let path = log_path(&self.path, identity.generation);
        let log = self.begin_log(&path, identity, &tables).inspect_err(|_| {
            let _ = std::fs::remove_file(&path);
        })?;
        let _one = self.syncing.lock();
        let mut tail = self.tail.lock();
        self.check()?;
        if self.synced.load(Ordering::Acquire) < tail.position {
            self.sync_file(&tail.log.file)?;
        }
        tail.log = log;
        self.copy.report(&tail.log, None);
        let position = tail.position;
        drop(tail);
        self.reached(position);
        Ok(identity.generation)
    }

    fn begin_log(&self, path: &Path, identity: Identity, tables: &[u8]) -> Result<LogFile> {
        let mut log = LogFile::begin(path, identity, &self.encryption)?;
        if !tables.is_empty() {
            let mut record = vec![0; RECORD_BYTES];
            record.extend_from_slice(tables);
            let mut sum = crc32fast::Hasher::new();
            sum.update(tables);
            let settled = log.bytes;
            let written = log.write(&mut record, &sum, settled);
            written.and_then(|_| log.file.sync_data()).map_err(fault)?;
        }
        Ok(log)
    }

    /// Records that a snapshot of this size exists, to which the logs from `generation` on belong;
    /// earlier logs are removed.
    pub(super) fn began(&self, generation: u64, snapshot_bytes: u64) {
        let mut tail = self.tail.lock();
        tail.since_snapshot = tail.log.bytes;
        tail.whole = None;
        tail.bytes_max = bytes_max(snapshot_bytes);
        drop(tail);
        self.counts.snapshots.fetch_add(1, Ordering::Relaxed);
        // Those that stay are removed after a later snapshot.
        if self.copy.may_remove_logs() {
            recovery::remove_logs(&self.path, |other| other < generation);
        }
    }

    /// Records that no snapshot could be made: the next attempt is made after as many bytes again.
    pub(super) fn put_off(&self) {
        let mut tail = self.tail.lock();
        tail.bytes_max = tail.since_snapshot + LOG_BYTES_MIN;
    }

    /// Returns true if the log has become too long.
    pub(super) fn is_long(&self) -> bool {
        let tail = self.tail.lock();
        tail.since_snapshot > tail.bytes_max
    }

    /// Returns true for the caller that has to make a snapshot; [`Journal::snapshot_made`] allows the
    /// next one.
    pub(super) fn begins_snapshot(&self) -> bool {
        !self.snapshot_wanted.swap(true, Ordering::AcqRel)
    }

    pub(super) fn snapshot_made(&self) {
        self.snapshot_wanted.store(false, Ordering::Release);
    }

    /// Returns true if the snapshot from the start has all data.
    pub(super) fn is_in_snapshot(&self, schema: u32) -> bool {
        let tail = self.tail.lock();
        let tables = tail.log.bytes_with(tail.tables.len());
        // A copy of the log continues with the number after the last one, so that has to change.
        !self.copy.is_there() && tail.whole == Some(schema) && tail.since_snapshot <= tables
    }

    /// Ends the log: a snapshot of this generation has all its data.
    pub(super) fn close(&self, generation: u64) {
        let position = self.tail.lock().position;
        self.reached(position);
        self.answer(position);
        recovery::remove_logs(&self.path, |other| other < generation);
    }

    /// Ends a log that stays, because it was not copied completely.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if it is not on the disk.
    pub(super) fn keep(&self) -> Result<()> {
        let position = self.sync()?;
        self.copy.close(self.answered.load(Ordering::Acquire), position);
        self.answer(position);
        Ok(())
    }
}

impl Waiting {
    /// Counts the commits that waited for the disk together.
    fn count_group(&mut self, members: u64) {
        self.groups += u64::from(members > 0);
        self.grouped += members;
        self.group_max = self.group_max.max(members);
    }
}

const fn bytes_max(snapshot_bytes: u64) -> u64 {
    let double = snapshot_bytes.saturating_mul(2);
    if double > LOG_BYTES_MIN { double } else { LOG_BYTES_MIN }
}

/// The error for a commit that is in the log, but possibly not on the disk.
#[cold]
fn unknown(failure: Error) -> Error {
    let message = format!(
        "the write may or may not have been committed, read the row before you retry: {}",
        failure.message()
    );
    Error::new(ErrorKind::Lost, message).with_source(failure)
}
