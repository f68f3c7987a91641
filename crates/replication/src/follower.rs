//! The follower of a replica: applies the segments of a target to the database of a running store.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, Timestamp};
use marmota_store::log_copy::{
    CommitSink, LogKind, LogPiece, LoggedCommit, LoggedDatabase, ReplacedPages,
};
use parking_lot::{Condvar, Mutex};

use crate::objects::claim;
use crate::objects::log_position::LogPlace;
use crate::objects::segment::{SegmentBody, SegmentHead};
use crate::objects::segment_reader::{FoundSegment, SegmentReader};
use crate::objects::target::Target;
use crate::restore::{RestorePoint, RestoredReplica, fetch};
use crate::restoring::go_back;
use crate::state_file::{Role, StateFile};
use crate::status::ReplicationStatus;

/// The number of looks for the next segment after which the target is listed: the next one may have
/// been merged, or deleted.
const LOOKS: u32 = 60;
/// The bytes of a fetched file that are passed to the database at once.
const CHUNK_BYTES: usize = 4 << 20;

/// Keeps a read-only replica up to date.
///
/// Pass it to [`StoreBuilder::commit_sink`](marmota_store::StoreBuilder::commit_sink). It refuses
/// writes, and works until the store is closed. Before the store is opened, the file has to be there:
/// see [`Follower::prepare`].
#[derive(Clone, Debug)]
pub struct Follower(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    url: String,
    poll: Duration,
    database: OnceLock<Arc<dyn LoggedDatabase>>,
    state: Mutex<State>,
    bell: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct State {
    is_closing: bool,
    /// The last time at which the replica had all segments.
    current_at: Instant,
    status: ReplicationStatus,
}

/// Where a follower reads segments.
#[derive(Default)]
struct Source {
    /// Set once it could be opened.
    target: Option<Target>,
    segments: SegmentReader,
    /// The number of looks for the next segment before the target is listed. 0 at first: after a
    /// pause the next one may be merged.
    looks: u32,
    /// True once the segments that the database has were compared to its log.
    is_compared: bool,
    /// True once the log ended where the last segment does.
    is_equal: bool,
}

impl Follower {
    /// Creates a follower of a target, which looks for segments at this interval.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL of another form, [`ErrorKind::NotFound`] for a missing
    /// folder.
    pub fn new(url: &str, poll: Duration) -> Result<Self> {
        Target::open(url, false)?;
        let status = ReplicationStatus { target: url.to_owned(), ..ReplicationStatus::default() };
        Ok(Self(Arc::new(Shared {
            url: url.to_owned(),
            poll: poll.max(Duration::from_millis(1)),
            database: OnceLock::new(),
            state: Mutex::new(State { is_closing: false, current_at: Instant::now(), status }),
            bell: Condvar::new(),
            thread: Mutex::new(None),
        })))
    }

    /// Makes the file of a replica, if it is missing or too old to follow the target.
    ///
    /// `install` writes a file next to the database with the function that it gets, checks it and
    /// puts it in the place of the database: `Sqlite::install` and `Memory::install_replica` do that.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if the file is another database, or the primary; those of [`fetch`]
    /// and `install`.
    pub fn prepare(
        &self,
        kind: LogKind,
        path: &Path,
        install: impl FnOnce(&dyn Fn(&Path) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let state = StateFile::read(path)?;
        let refuse = |why: &str| {
            let message = format!(
                "{} {why}: name a file that does not exist, which becomes the replica",
                path.display()
            );
            Err(Error::new(ErrorKind::Conflict, message))
        };
        match (&state, path.exists()) {
            (None, true) => return refuse("is a database that is not a replica"),
            (Some(state), true) if state.role == Role::Primary => {
                return refuse("is a primary, not a replica");
            }
            (Some(state), true) if state.index > 0 => match self.can_follow(state) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                // The replica answers reads with what it has.
                Err(error) if error.kind() == ErrorKind::Refused => {
                    log::warn!("the replica follows later: {error}");
                    return Ok(());
                }
                Err(error) => return Err(error),
            },
            _ => {}
        }
        let restored: OnceLock<RestoredReplica> = OnceLock::new();
        let unfinished = StateFile::unfinished_replica();
        unfinished.write(path)?;
        install(&|new: &Path| {
            let fetched = fetch(&self.0.url, kind, RestorePoint::Latest, new)?;
            let _ = restored.set(fetched);
            Ok(())
        })?;
        let Some(restored) = restored.into_inner() else {
            return Err(Error::new(ErrorKind::Bug, "the replica was not fetched"));
        };
        StateFile {
            database: restored.database,
            epoch: restored.epoch,
            index: restored.index,
            chain: restored.chain,
            ..unfinished
        }
        .write(path)
    }

    /// Returns true if the segments after that of the state are there and continue it.
    fn can_follow(&self, state: &StateFile) -> Result<bool> {
        let target = Target::open(&self.0.url, false)?;
        let last = claim::last_index(&target)?;
        if last == state.index {
            return Ok(true);
        }
        if last < state.index {
            return Ok(false);
        }
        let next = SegmentReader::default().find(&target, state.index + 1)?;
        Ok(next.is_some_and(|next| {
            next.head.chain == state.chain && next.head.database == state.database
        }))
    }

    /// Returns the state of the replica.
    #[must_use]
    pub fn status(&self) -> ReplicationStatus {
        let state = self.0.state.lock();
        let lag_ms = u64::try_from(state.current_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        ReplicationStatus { lag_ms, ..state.status.clone() }
    }
}

impl CommitSink for Follower {
    fn attach(&self, database: Arc<dyn LoggedDatabase>) -> Result<()> {
        let shared = &self.0;
        let state = StateFile::read(database.path())?.filter(|state| state.role == Role::Replica);
        let Some(state) = state else {
            let message = format!(
                "{} is not a replica: it has to be prepared first",
                database.path().display()
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        };
        {
            let mut of_shared = shared.state.lock();
            (of_shared.status.epoch, of_shared.status.index) = (state.epoch, state.index);
        }
        if shared.database.set(database).is_err() {
            let message = "a follower has one store: make another one for each";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let of_thread = Arc::clone(shared);
        let thread = std::thread::Builder::new().name("marmota-follow".to_owned());
        let thread = thread.spawn(move || of_thread.run(state)).map_err(|error| {
            Error::new(ErrorKind::Io, format!("no thread can be started: {error}"))
        })?;
        *shared.thread.lock() = Some(thread);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let message = format!(
            "this server is a read-only replica of {}: send writes to the primary, or stop this \
             server and take over with `marmota promote`",
            self.0.url
        );
        Err(Error::new(ErrorKind::Busy, message))
    }

    fn committed(&self, _: LoggedCommit) {}

    fn wait(&self) -> Result<()> {
        Ok(())
    }

    fn waits(&self) -> bool {
        false
    }

    fn before_checkpoint(&self) -> bool {
        true
    }

    fn before_close(&self) -> bool {
        // A log of records is that of the primary, which is continued.
        let database = self.0.database.get();
        database.is_none_or(|database| database.log_kind() == LogKind::Pages)
    }

    fn closed(&self) {
        self.0.state.lock().is_closing = true;
        self.0.bell.notify_all();
        let thread = self.0.thread.lock().take();
        if let Some(thread) = thread.filter(|own| own.thread().id() != std::thread::current().id())
        {
            // If it panicked, it has ended as well.
            let _ = thread.join();
        }
    }

    fn is_replica(&self) -> bool {
        true
    }
}

impl Shared {
    /// Applies segments until the store is closed.
    fn run(&self, mut state: StateFile) {
        let Some(database) = self.database.get() else { return };
        let mut source = Source::default();
        loop {
            match self.follow(&**database, &mut source, &mut state) {
                Ok(()) => {
                    let mut of_self = self.state.lock();
                    of_self.current_at = Instant::now();
                    of_self.status.error = None;
                }
                Err(error) if error.kind() == ErrorKind::Closed => return,
                Err(error) => {
                    let mut of_self = self.state.lock();
                    if of_self.status.error.as_deref() != Some(error.message()) {
                        log::warn!("the replica does not follow: {error}");
                    }
                    of_self.status.error = Some(error.message().to_owned());
                }
            }
            let mut of_self = self.state.lock();
            let deadline = Instant::now() + self.poll;
            while !of_self.is_closing {
                if self.bell.wait_until(&mut of_self, deadline).timed_out() {
                    break;
                }
            }
            if of_self.is_closing {
                return;
            }
        }
    }

    /// Applies all segments that are there.
    fn follow(
        &self,
        database: &dyn LoggedDatabase,
        source: &mut Source,
        state: &mut StateFile,
    ) -> Result<()> {
        let Source { target, segments, looks, is_compared, is_equal } = source;
        if target.is_none() {
            *target = Some(Target::open(&self.url, false)?);
        }
        let Some(target) = target else { return Ok(()) };
        if !*is_compared && database.log_kind() == LogKind::Records {
            go_back(target, segments, database.log_end()?, state)?;
        }
        *is_compared = true;
        while !self.state.lock().is_closing {
            let index = state.index + 1;
            let mut found = segments.read(target, index)?;
            if found.is_none() {
                if *looks > 0 {
                    *looks -= 1;
                    return Ok(());
                }
                *looks = LOOKS;
                if claim::last_index(target)? <= state.index {
                    if !*is_equal && is_written_to(database, target, segments, state)? {
                        self.fetch_again(database, target, state)?;
                        continue;
                    }
                    *is_equal = true;
                    return Ok(());
                }
                found = segments.find(target, index)?;
            }
            let Some(FoundSegment { head, body, bytes }) = found else {
                self.fetch_again(database, target, state)?;
                continue;
            };
            if head.database != state.database {
                let message = format!("{} has another database now", self.url);
                return Err(Error::new(ErrorKind::Conflict, message));
            }
            if head.chain != state.chain {
                self.fetch_again(database, target, state)?;
                continue;
            }
            if !apply(database, &head, &body)? {
                self.fetch_again(database, target, state)?;
                continue;
            }
            (state.index, state.epoch) = (index, head.epoch);
            state.write(database.path())?;
            self.note_applied(&head, bytes);
        }
        Ok(())
    }

    fn note_applied(&self, head: &SegmentHead, bytes: usize) {
        let mut of_self = self.state.lock();
        of_self.status.index = head.index;
        of_self.status.epoch = head.epoch;
        of_self.status.time = Timestamp::from_micros(head.time_us).ok();
        of_self.status.bytes += bytes as u64;
        of_self.status.segments += 1;
    }

    /// Replaces all of the database by the last state in the target, because segments are missing.
    #[cold]
    fn fetch_again(
        &self,
        database: &dyn LoggedDatabase,
        target: &Target,
        state: &mut StateFile,
    ) -> Result<()> {
        log::info!("the replica fetches a new snapshot of {}", self.url);
        let mut path = database.path().as_os_str().to_owned();
        path.push(".fetched");
        let path = std::path::PathBuf::from(path);
        remove_fetched(&path);
        let kind = database.log_kind();
        let fetched = fetch(&self.url, kind, RestorePoint::Latest, &path);
        let replaced = fetched.and_then(|fetched| {
            match kind {
                LogKind::Pages => {
                    let head = claim::head_of(target, fetched.index)?;
                    let page_bytes = page_bytes(target, &fetched, &head)?;
                    replace_all(database, &path, page_bytes)?;
                }
                LogKind::Records => {
                    // If this is interrupted, the files are fetched at the next start.
                    StateFile::unfinished_replica().write(database.path())?;
                    database.replace_files(&path)?;
                }
            }
            Ok(fetched)
        });
        remove_fetched(&path);
        let fetched = replaced?;
        (state.index, state.chain) = (fetched.index, fetched.chain);
        state.epoch = fetched.epoch;
        if kind == LogKind::Records {
            go_back(target, &mut SegmentReader::default(), database.log_end()?, state)?;
        }
        state.write(database.path())?;
        let head = claim::head_of(target, state.index)?;
        self.note_applied(&head, 0);
        Ok(())
    }
}

/// Returns true if a database that has all segments has more in its log of records: another program has
/// written to it.
fn is_written_to(
    database: &dyn LoggedDatabase,
    target: &Target,
    segments: &mut SegmentReader,
    state: &StateFile,
) -> Result<bool> {
    if database.log_kind() != LogKind::Records {
        return Ok(false);
    }
    let end = database.log_end()?;
    let last = segments.find(target, state.index)?.and_then(|found| found.head.log);
    Ok(matches!(last, Some(LogPlace::Records(at)) if (at.log, at.length) != (end.log, end.length)))
}

/// Removes files that were fetched, with their logs.
fn remove_fetched(path: &Path) {
    let _ = std::fs::remove_file(path);
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return };
    let begin = format!("{}.log.", name.display());
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(&begin)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Returns the size of a page, from the last segment with pages.
fn page_bytes(target: &Target, fetched: &RestoredReplica, last: &SegmentHead) -> Result<usize> {
    let mut head = last.clone();
    while head.page_bytes == 0 && head.index > 1 && head.index > fetched.chain {
        head = claim::head_of(target, head.index - 1)?;
    }
    match head.page_bytes {
        0 => Err(Error::new(ErrorKind::Engine, "no segment has pages yet: the replica waits")),
        bytes => Ok(bytes as usize),
    }
}

/// Applies a segment. Returns false if the database does not have exactly the log before it.
fn apply(database: &dyn LoggedDatabase, head: &SegmentHead, body: &SegmentBody) -> Result<bool> {
    match head.kind {
        LogKind::Pages => apply_pages(database, head, body).map(|()| true),
        LogKind::Records => {
            let pieces: Vec<LogPiece<'_>> = body.pieces(body.ranges.len()).collect();
            database.append_log(&pieces)
        }
    }
}

/// Applies the last content of each page of a segment, in one transaction.
fn apply_pages(
    database: &dyn LoggedDatabase,
    head: &SegmentHead,
    body: &SegmentBody,
) -> Result<()> {
    let Some(last) = body.commits.last() else { return Ok(()) };
    let page_bytes = head.page_bytes as usize;
    let count = last.end as usize;
    let mut newest = std::collections::BTreeMap::new();
    for (at, &number) in body.numbers[..count].iter().enumerate() {
        if number <= last.database_pages {
            newest.insert(number, at);
        }
    }
    let numbers: Vec<u32> = newest.keys().copied().collect();
    let mut bytes = Vec::with_capacity(numbers.len() * page_bytes);
    for &at in newest.values() {
        bytes.extend_from_slice(&body.bytes[at * page_bytes..][..page_bytes]);
    }
    database.replace_pages(&mut |put| {
        put(ReplacedPages {
            page_bytes,
            numbers: &numbers,
            bytes: &bytes,
            database_pages: last.database_pages,
        })
    })
}

/// Replaces all pages by those of a file, in one transaction.
fn replace_all(database: &dyn LoggedDatabase, path: &Path, page_bytes: usize) -> Result<()> {
    let io = |error: std::io::Error| {
        let message = format!("{} cannot be read: {error}", path.display());
        Error::new(ErrorKind::Io, message).with_source(error)
    };
    let file = File::open(path).map_err(io)?;
    let pages = file.metadata().map_err(io)?.len() / page_bytes as u64;
    let database_pages = u32::try_from(pages).unwrap_or(u32::MAX);
    let pages_a_chunk = u32::try_from((CHUNK_BYTES / page_bytes).max(1)).unwrap_or(1);
    database.replace_pages(&mut |put| {
        let mut first = 1;
        while first <= database_pages {
            let numbers: Vec<u32> = (first..=database_pages).take(pages_a_chunk as usize).collect();
            let mut bytes = vec![0; numbers.len() * page_bytes];
            let at = u64::from(first - 1) * page_bytes as u64;
            file.read_exact_at(&mut bytes, at).map_err(io)?;
            put(ReplacedPages { page_bytes, numbers: &numbers, bytes: &bytes, database_pages })?;
            first += numbers.len() as u32;
        }
        Ok(())
    })
}
