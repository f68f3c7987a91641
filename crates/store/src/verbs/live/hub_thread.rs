//! The thread that reads the change feed and applies commits to the live queries of a store.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};

use super::exact_read::ExactRead;
use super::hub::{LiveHub, QueryChanges};
use super::query_index::QueryIndex;
use super::shared_query::{AfterChanges, Ended, SharedQuery};
use crate::contract::change::{Change, Commit};
use crate::layers::feed::ChangeFeed;
use crate::layers::feed::hub::Next;
use crate::layers::feed::stored_commit::StoredCommit;
use crate::runtime::block_on::block_on;
use crate::store::{Store, StoreCore};
use crate::verbs::changes::{StoredPage, decoded, stored_commits};

/// The time without queries after which the thread ends.
const LINGER: Duration = Duration::from_secs(5);
/// The time after which a read that has failed is repeated, for errors that pass.
const RETRY: Duration = Duration::from_millis(50);

/// The state of the thread. It does not keep the store open.
pub(crate) struct HubThread {
    core: Weak<StoreCore>,
    hub: Arc<LiveHub>,
    feed: Arc<ChangeFeed>,
    /// Its number as a reader of the feed.
    reader: u64,
    waker: Waker,
    index: QueryIndex,
    /// Since when there is no query.
    idle_since: Option<Instant>,
    /// The queries that the changes of a commit concern, with the numbers of the changes.
    concerned: Vec<(usize, usize)>,
    /// Commits that were read from the table and are not applied.
    page: CommitPage,
    /// Queries whose rows have to be read again, and whether their subscribers get a snapshot.
    unread: Vec<(Arc<SharedQuery>, bool)>,
}

/// Commits that were read from the table, in order.
type CommitPage = VecDeque<Arc<StoredCommit>>;

/// The next commit of the feed after a number.
enum NextCommit {
    Commit(Arc<Commit>),
    /// The commits up to this number were removed.
    Gap(u64),
    Nothing,
    Closed,
}

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl HubThread {
    /// Starts the thread. It begins after the commit that the hub has applied.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if it cannot be started.
    pub(crate) fn start(store: &Store, hub: &Arc<LiveHub>) -> Result<Thread> {
        let (core, hub) = (Arc::downgrade(&store.core), Arc::clone(hub));
        let feed = Arc::clone(hub.feed());
        let run = move || {
            let reader = feed.hub.add_reader();
            let waker = Waker::from(Arc::new(Unpark(thread::current())));
            let (index, concerned) = (QueryIndex::default(), Vec::new());
            let (idle_since, page, unread) = (None, CommitPage::new(), Vec::new());
            let thread =
                Self { core, hub, feed, reader, waker, index, idle_since, concerned, page, unread };
            thread.run();
        };
        let thread = thread::Builder::new().name("marmota-live".to_owned()).spawn(run);
        thread.map(|handle| handle.thread().clone()).map_err(|error| {
            let message = format!("no thread can be started for live queries: {error}");
            Error::new(ErrorKind::Io, message).with_source(error)
        })
    }

    fn run(mut self) {
        loop {
            self.take_queries();
            self.read_unread();
            let mut page = std::mem::take(&mut self.page);
            let next = self.next(self.hub.applied(), &mut page, true);
            self.page = page;
            match next {
                Ok(NextCommit::Commit(commit)) => self.apply(&commit),
                Ok(NextCommit::Gap(number)) => {
                    self.index.queries().for_each(|query| query.miss_commits());
                    self.hub.set_applied(number);
                    self.unread = self.index.queries().map(|one| (Arc::clone(one), true)).collect();
                }
                Ok(NextCommit::Nothing) => {
                    if self.is_over() {
                        return;
                    }
                    thread::park_timeout(if self.unread.is_empty() { LINGER } else { RETRY });
                }
                Ok(NextCommit::Closed) => return self.hub.close(),
                Err(error) if error.kind() == ErrorKind::Closed => return self.hub.close(),
                Err(error) => {
                    log::warn!("the change feed cannot be read for live queries: {error}");
                    thread::park_timeout(Duration::from_millis(100));
                }
            }
        }
    }

    /// Returns true if there was no query for some time.
    fn is_over(&mut self) -> bool {
        if !self.index.is_empty() {
            self.idle_since = None;
            return false;
        }
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        since.elapsed() >= LINGER && self.hub.end_idle_thread()
    }

    /// Adds new queries, and removes those without subscribers.
    fn take_queries(&mut self) {
        let QueryChanges { added, ended } = self.hub.take_changes();
        for query in added {
            self.idle_since = None;
            self.index.add(Arc::clone(&query));
            match self.catch_up(&query) {
                Ok(AfterChanges::Done) => query.settle(),
                Ok(AfterChanges::Read) => {
                    query.miss_commits();
                    self.unread.push((query, false));
                }
                Err(error) => self.fail(&query, error),
            }
        }
        ended.iter().for_each(|query| self.index.remove(query));
    }

    /// Applies the commits to a new query that were applied to the others while its rows were read.
    fn catch_up(&self, query: &SharedQuery) -> Result<AfterChanges> {
        let (mut number, mut page) = (query.number(), CommitPage::new());
        while number < self.hub.applied() {
            let NextCommit::Commit(commit) = self.next(number, &mut page, false)? else {
                return Ok(AfterChanges::Read);
            };
            number = commit.position.number;
            let definition = &query.definition;
            if definition.is_related() {
                let changed = |change: &Change| definition.reads_again_after(&change.table);
                if commit.changes.iter().any(changed) {
                    return Ok(AfterChanges::Read);
                }
                continue;
            }
            let table = &definition.table;
            let changes = commit.changes.iter();
            let changes = changes.filter(|change| Arc::ptr_eq(&change.table, table));
            if query.apply(number, changes) == AfterChanges::Read {
                return Ok(AfterChanges::Read);
            }
        }
        Ok(AfterChanges::Done)
    }

    /// Applies a commit to the queries that it concerns.
    fn apply(&mut self, commit: &Commit) {
        let mut concerned = std::mem::take(&mut self.concerned);
        for (at, change) in commit.changes.iter().enumerate() {
            self.index.each_concerned(change, |slot| concerned.push((slot, at)));
        }
        concerned.sort_unstable();
        concerned.dedup();
        let number = commit.position.number;
        for changes in concerned.chunk_by(|(a, _), (b, _)| a == b) {
            let Some(query) = changes.first().and_then(|&(slot, _)| self.index.get(slot)) else {
                continue;
            };
            let changes = changes.iter().map(|&(_, at)| &commit.changes[at]);
            if query.apply(number, changes) == AfterChanges::Read {
                self.unread.push((Arc::clone(query), false));
            }
        }
        for query in self.index.related() {
            let changed = |change: &Change| query.definition.reads_again_after(&change.table);
            if query.number() < number && commit.changes.iter().any(changed) {
                query.miss_commits();
                self.unread.push((Arc::clone(query), false));
            }
        }
        self.hub.set_applied(number);
        concerned.clear();
        self.concerned = concerned;
    }

    /// Reads the rows again of the queries that need it. Errors that pass leave a query for later.
    fn read_unread(&mut self) {
        let mut unread = std::mem::take(&mut self.unread);
        // Each commit adds a query again while its read fails.
        unread.sort_by_key(|(query, as_snapshot)| (Arc::as_ptr(query), !as_snapshot));
        unread.dedup_by(|(a, _), (b, _)| Arc::ptr_eq(a, b));
        for (query, as_snapshot) in unread {
            if query.has_ended() {
                continue;
            }
            let read = self
                .store()
                .and_then(|store| block_on(ExactRead::of(&store, &self.feed, &query.definition)));
            match read {
                Ok(read) => query.replace(read, as_snapshot),
                Err(error) if passes(&error) => {
                    log::warn!("the rows of a live query cannot be read yet: {error}");
                    self.unread.push((query, as_snapshot));
                }
                Err(error) => self.fail(&query, error),
            }
        }
    }

    /// Ends a query with an error.
    fn fail(&mut self, query: &Arc<SharedQuery>, error: Error) {
        self.index.remove(query);
        self.hub.remove(query);
        query.end(match error.kind() {
            ErrorKind::Closed => Ended::Closed,
            _ => Ended::Failed(Arc::new(error)),
        });
    }

    fn store(&self) -> Result<Store> {
        let core = self.core.upgrade();
        core.map(Store::of_core).ok_or_else(|| Error::new(ErrorKind::Closed, "the store is closed"))
    }

    /// Returns the commit after a number. If `waits`, the thread is woken when there is one.
    fn next(&self, number: u64, page: &mut CommitPage, waits: bool) -> Result<NextCommit> {
        let decode = |commit: &StoredCommit| match commit
            .decode(self.feed.hub.feed(), &self.feed.shapes)
        {
            Ok(commit) => Ok(NextCommit::Commit(commit)),
            Err(_) => block_on(decoded(&self.store()?, &self.feed, commit)).map(NextCommit::Commit),
        };
        while let Some(commit) = page.pop_front() {
            if commit.number > number {
                return decode(&commit);
            }
        }
        match self.feed.hub.next(number, self.reader, waits.then_some(&self.waker)) {
            Next::Commit(commit) => decode(&commit),
            Next::Removed(number) => Ok(NextCommit::Gap(number)),
            Next::Nothing => Ok(NextCommit::Nothing),
            Next::Closed => Ok(NextCommit::Closed),
            Next::Stored(to) => {
                match block_on(stored_commits(&self.store()?, &self.feed, number, to))? {
                    StoredPage::Commits(read) => *page = read,
                    StoredPage::Empty => return self.next(to, page, waits),
                    StoredPage::Removed(to) => return Ok(NextCommit::Gap(to)),
                }
                match page.pop_front() {
                    Some(commit) => decode(&commit),
                    None => Ok(NextCommit::Nothing),
                }
            }
        }
    }
}

/// Returns true for an error that a later read may not have.
fn passes(error: &Error) -> bool {
    error.is_retryable() || matches!(error.kind(), ErrorKind::Busy | ErrorKind::Timeout)
}

impl Drop for HubThread {
    fn drop(&mut self) {
        self.feed.hub.remove_reader(self.reader);
        // After a panic, subscribers would wait forever.
        if thread::panicking() {
            self.hub.close();
        }
    }
}
