//! The keeper of a feed: a thread that reads the commits of other processes, and removes commits
//! that are too old or too many.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use marmota_model::{
    Comparison, Error, ErrorKind, FieldSet, FilterExpr, NoRows, Result, Timestamp, Value, ValueRef,
};

use super::shared_commits::{Publisher, record_removal};
use crate::contract::change::recorder::CommitReceiver as _;
use crate::contract::operation::Operation;
use crate::layers::feed::ChangeFeed;
use crate::layers::feed::commit_rows::{commits_between, integer, timestamp};
use crate::layers::feed::hub::KeeperWork;
use crate::layers::feed::options::ChangeRetention;
use crate::layers::feed::schema::{commit, identity};
use crate::layers::feed::stored_commit::StoredCommit;
use crate::runtime::backoff::Backoff;
use crate::store::{Store, StoreCore};

/// The interval in which commits of other processes are looked for, while there are readers.
const POLL: Duration = Duration::from_millis(20);
/// The same if the database notifies this process of them: a notification can be lost.
const POLL_NOTIFIED: Duration = Duration::from_millis(250);
/// The longest pause between two attempts while the database fails.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// The interval in which old commits are removed.
const REMOVE: Duration = Duration::from_secs(10);
/// The number of commits that are read, or removed, in one operation.
const PAGE: u64 = 1_000;

/// Starts the thread of a store's feed. It ends when the store is closed. Without a retention, as in
/// a replica, it removes nothing.
///
/// # Errors
/// [`ErrorKind::Io`] if the thread cannot be started.
pub(super) fn start(
    store: &Store,
    feed: &Arc<ChangeFeed>,
    kept: Option<ChangeRetention>,
) -> Result<()> {
    // No engine reports the commits of a replica.
    let is_read = store.capability().shared_file || kept.is_none();
    let keeper = Keeper {
        core: Arc::downgrade(&store.core),
        feed: Arc::clone(feed),
        polls: is_read.then_some(POLL),
        is_notified: !store.capability().polled_commits,
        publisher: Publisher::new(),
        announced: Instant::now(),
        kept: kept.filter(|kept| !kept.is_unlimited()),
        blocks: VecDeque::new(),
        bytes: 0,
        failing: None,
    };
    let thread = std::thread::Builder::new().name("marmota-feed".to_owned());
    thread.spawn(move || keeper.run()).map(drop).map_err(|error| {
        let message = format!("no thread can be started for the change feed: {error}");
        Error::new(ErrorKind::Io, message).with_source(error)
    })
}

struct Keeper {
    core: Weak<StoreCore>,
    feed: Arc<ChangeFeed>,
    polls: Option<Duration>,
    /// True if the database notifies this process of the commits of others.
    is_notified: bool,
    /// Publishes commits if the database numbers those of several programs.
    publisher: Publisher,
    /// The last time when other processes were notified of commits.
    announced: Instant,
    kept: Option<ChangeRetention>,
    /// The commits of the table, in blocks.
    blocks: VecDeque<Block>,
    /// The bytes of all blocks.
    bytes: u64,
    /// The pauses while the database fails; `None` while it works.
    failing: Option<Backoff>,
}

/// Consecutive commits, which are removed together.
struct Block {
    /// The number of the last one.
    last: u64,
    /// The time of the last one.
    at: Timestamp,
    bytes: u64,
    commits: u64,
}

impl Block {
    /// A block has at most this many commits, and is complete once it has this many bytes.
    const COMMITS_MAX: u64 = PAGE;
    const BYTES: u64 = 1 << 20;

    const fn is_complete(&self) -> bool {
        self.commits >= Self::COMMITS_MAX || self.bytes >= Self::BYTES
    }
}

impl Keeper {
    fn run(mut self) {
        let mut next_removal = Instant::now() + REMOVE;
        loop {
            let hub = &self.feed.hub;
            let work = match hub.is_shared() {
                false => hub.wait(self.polls, next_removal),
                true => {
                    let polls = if self.is_notified { POLL_NOTIFIED } else { POLL };
                    hub.wait_shared(polls, self.publisher.gap(), self.announced, next_removal)
                }
            };
            let done = match work {
                KeeperWork::Closed => return,
                KeeperWork::Fetch(last) => {
                    self.with_store(|keeper, store| keeper.fetch(store, last))
                }
                KeeperWork::Publish { announces, reads } => {
                    self.with_store(|keeper, store| keeper.publish(store, announces, reads))
                }
                KeeperWork::Idle => {
                    next_removal = Instant::now() + REMOVE;
                    self.with_store(Self::remove_old)
                }
            };
            match done {
                None => return,
                Some(Err(error)) if error.kind() == ErrorKind::Closed => return,
                Some(Err(error)) => self.fail(&error),
                Some(Ok(())) => self.failing = None,
            }
        }
    }

    /// Logs the first of several failures, and waits before the next attempt.
    fn fail(&mut self, error: &Error) {
        if let Some(cache) = self.feed.cache.get() {
            cache.pause();
        }
        // A live move makes a store busy at its end.
        let is_news = self.failing.is_none() && error.kind() != ErrorKind::Busy;
        let level = if is_news { log::Level::Warn } else { log::Level::Debug };
        log::log!(level, "the change feed cannot be read: {error}");
        let pauses = self.failing.get_or_insert_with(|| Backoff::new(POLL, PAUSE_MAX));
        if self.feed.hub.is_shared() {
            std::thread::sleep(pauses.pause());
            self.feed.hub.changed();
        }
    }

    /// Calls `work` with the store, unless it was dropped.
    fn with_store(
        &mut self,
        work: impl FnOnce(&mut Self, &Store) -> Result<()>,
    ) -> Option<Result<()>> {
        let store = Store::of_core(self.core.upgrade()?);
        Some(work(self, &store))
    }

    /// Publishes commits that the table has, and notifies other processes.
    fn publish(&mut self, store: &Store, announces: bool, reads: bool) -> Result<()> {
        if announces {
            self.announced = Instant::now();
            if let Err(error) = store.engine().announce_commits() {
                // The others find the commits by polling.
                log::debug!("other processes are not notified of commits: {error}");
            }
        }
        if reads {
            self.publisher.publish(store, &self.feed)?;
            if let Some(cache) = self.feed.cache.get() {
                cache.resume();
            }
        }
        Ok(())
    }

    /// Reads the commits after this number.
    fn fetch(&mut self, store: &Store, mut last: u64) -> Result<()> {
        let table = &*self.feed.commits;
        loop {
            let mut page = Vec::new();
            let query = commits_between(last, i64::MAX as u64, table.all(), PAGE);
            let mut read = |row: &[ValueRef<'_>]| {
                page.extend(StoredCommit::of_row(row));
                ControlFlow::Continue(())
            };
            store.run(&mut Operation::List { table, query: &query }, &mut read)?;
            let Some(end) = page.last() else { return Ok(()) };
            last = end.number;
            let is_last = (page.len() as u64) < PAGE;
            self.feed.hub.fetched(page);
            if is_last {
                return Ok(());
            }
        }
    }

    /// Removes the commits that exceed the retention. The last commit stays, as the engine may
    /// assign the number of a last row again.
    fn remove_old(&mut self, store: &Store) -> Result<()> {
        let Some(ChangeRetention { age_max, bytes_max, .. }) = self.kept else { return Ok(()) };
        self.count(store)?;
        let oldest = Timestamp::now()
            .micros()
            .saturating_sub(i64::try_from(age_max.as_micros()).unwrap_or(i64::MAX));
        let mut to = 0;
        while let Some(block) = self.blocks.front() {
            let is_over = self.bytes > bytes_max || block.at.micros() < oldest;
            if !is_over || self.blocks.len() == 1 {
                break;
            }
            to = block.last;
            self.bytes -= block.bytes;
            self.blocks.pop_front();
        }
        if to == 0 { Ok(()) } else { self.remove(store, to) }
    }

    /// Adds the commits that are new since the last call to the blocks.
    fn count(&mut self, store: &Store) -> Result<()> {
        let feed = Arc::clone(&self.feed);
        let table = &*feed.commits;
        let fields = FieldSet::EMPTY.with(commit::NUMBER).with(commit::AT).with(commit::BYTES);
        let mut after = self.blocks.back().map_or(0, |block| block.last);
        loop {
            let mut rows = 0;
            let query = commits_between(after, i64::MAX as u64, fields, PAGE);
            let mut read = |row: &[ValueRef<'_>]| {
                rows += 1;
                after = integer(row[commit::NUMBER]);
                let at = timestamp(row[commit::AT]).unwrap_or(Timestamp::now());
                self.add(after, at, integer(row[commit::BYTES]));
                ControlFlow::Continue(())
            };
            store.run(&mut Operation::List { table, query: &query }, &mut read)?;
            if rows < PAGE {
                return Ok(());
            }
        }
    }

    fn add(&mut self, last: u64, at: Timestamp, bytes: u64) {
        self.bytes += bytes;
        match self.blocks.back_mut().filter(|block| !block.is_complete()) {
            Some(block) => {
                (block.last, block.at) = (last, at);
                block.bytes += bytes;
                block.commits += 1;
            }
            None => self.blocks.push_back(Block { last, at, bytes, commits: 1 }),
        }
    }

    /// Removes the commits up to this number. The hub is updated first: a reader of a
    /// commit that is being removed gets a gap.
    fn remove(&self, store: &Store, to: u64) -> Result<()> {
        let key = self.identity_key(store)?;
        record_removal(store, &self.feed, key.as_ref(), to)?;
        self.feed.hub.removed(to);
        let filter = FilterExpr::Compare {
            field: commit::NUMBER,
            comparison: Comparison::LessOrEqual,
            value: Value::Int(to as i64),
        };
        let table = &*self.feed.commits;
        store.run(&mut Operation::DeleteWhere { table, filter: Some(&filter) }, &mut NoRows)?;
        Ok(())
    }

    fn identity_key(&self, store: &Store) -> Result<Value> {
        let table = &*self.feed.identity;
        let mut key = Value::Int(1);
        let query = commits_between(0, i64::MAX as u64, table.all(), 1);
        store.run(&mut Operation::List { table, query: &query }, &mut |row: &[ValueRef<
            '_,
        >]| {
            key = row[identity::KEY].to_value();
            ControlFlow::Break(())
        })?;
        Ok(key)
    }
}
