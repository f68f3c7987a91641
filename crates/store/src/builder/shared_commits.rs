//! Publishes the commits of a database that several programs write to
//! ([`Capability::shared_commits`](crate::engine::Capability::shared_commits)).
//!
//! The database assigns numbers before a transaction commits, so a commit can become visible after
//! one with a later number. Commits are published in the order of their numbers: one is published
//! when each number before it is visible, or will never be. A missing number is dead once all
//! transactions have ended that were open after it was assigned, and it is still not visible.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, FieldSet, NoRows, Result, ValueRef};

use crate::contract::operation::Operation;
use crate::layers::feed::ChangeFeed;
use crate::layers::feed::commit_rows::{commits_between, integer};
use crate::layers::feed::schema::{commit, identity};
use crate::layers::feed::stored_commit::StoredCommit;
use crate::runtime::backoff::Backoff;
use crate::runtime::block_on::block_on;
use crate::store::Store;
use crate::verbs::changes::{decoded, removed_up_to};

/// The number of commits that are read at once.
const PAGE: u64 = 1_000;
/// The first pause until a missing commit is looked for again, and the longest.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// The time for open transactions to end when a feed is opened.
const OPEN_MAX: Duration = Duration::from_secs(30);

/// Publishes commits in the order of their numbers.
#[derive(Debug)]
pub(super) struct Publisher {
    /// A number that is visible, while one before it is missing.
    seen: Option<u64>,
    suspects: Option<Suspects>,
    backoff: Backoff,
    gap: Option<Duration>,
}

/// Missing numbers, and the transactions that may have them.
#[derive(Debug)]
struct Suspects {
    /// The missing numbers up to this one were assigned before `open` was read.
    up_to: u64,
    open: Vec<u64>,
}

impl Publisher {
    pub(super) fn new() -> Self {
        let backoff = Backoff::new(PAUSE, PAUSE_MAX);
        Self { seen: None, suspects: None, backoff, gap: None }
    }

    /// Returns the pause until it has to look again for a missing commit.
    pub(super) const fn gap(&self) -> Option<Duration> {
        self.gap
    }

    /// Publishes what can be published.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn publish(&mut self, store: &Store, feed: &ChangeFeed) -> Result<()> {
        loop {
            // Read before the commits: who has ended here is visible there, if it has committed.
            let dead_to = self.dead_to(store)?;
            let (last, filled) = feed.hub.unread();
            let after = filled.unwrap_or(last);
            let page = CommitPage::read(store, feed, after, filled.is_some())?;
            let (mut end, mut is_missing) = (last, false);
            for &number in page.numbers.iter().filter(|number| **number > last) {
                if number != end + 1 && number - 1 > dead_to {
                    is_missing = true;
                    break;
                }
                end = number;
            }
            let is_published = end > last;
            self.seen = page.numbers.last().copied().filter(|_| is_missing);
            let is_full = page.numbers.len() as u64 == PAGE;
            let read_to = if is_full { page.numbers.last().copied().unwrap_or(0) } else { end };
            let is_read = filled.is_some();
            if let Some(cache) = feed.cache.get() {
                let new = page.commits.iter().filter(|commit| commit.number > last);
                for commit in new.filter(|commit| commit.number <= end) {
                    match block_on(decoded(store, feed, commit)) {
                        Ok(decoded) => cache.invalidate(&decoded),
                        // Readers of the feed get the error.
                        Err(_) => cache.invalidate_all(),
                    }
                }
            }
            feed.hub.publish_read(end, page.commits);
            if is_read {
                feed.hub.read_up_to(read_to.min(end));
            }
            if is_published {
                self.backoff.reset();
            }
            if is_missing || !is_full {
                break;
            }
        }
        self.gap = self.seen.is_some().then(|| self.backoff.pause());
        Ok(())
    }

    /// Returns the number up to which all missing numbers are dead.
    fn dead_to(&mut self, store: &Store) -> Result<u64> {
        let Some(seen) = self.seen else {
            self.suspects = None;
            return Ok(0);
        };
        let open = store.engine().open_commits()?;
        let (dead_to, still) = match self.suspects.take() {
            Some(Suspects { up_to, open: mut still }) => {
                still.retain(|transaction| open.contains(transaction));
                match still.is_empty() {
                    true => (up_to, None),
                    false => (0, Some(Suspects { up_to, open: still })),
                }
            }
            None => (0, None),
        };
        if open.is_empty() {
            return Ok(seen);
        }
        self.suspects = Some(still.unwrap_or(Suspects { up_to: seen, open }));
        Ok(dead_to)
    }
}

/// Commits of the table, in order.
struct CommitPage {
    numbers: Vec<u64>,
    /// The commits with their changes, if they were requested.
    commits: Vec<StoredCommit>,
}

impl CommitPage {
    fn read(store: &Store, feed: &ChangeFeed, after: u64, with_changes: bool) -> Result<Self> {
        let (mut numbers, mut commits) = (Vec::new(), Vec::new());
        let table = &*feed.commits;
        let fields = if with_changes { table.all() } else { FieldSet::EMPTY.with(commit::NUMBER) };
        let query = commits_between(after, i64::MAX as u64, fields, PAGE);
        store.run(&mut Operation::List { table, query: &query }, &mut |row: &[ValueRef<
            '_,
        >]| {
            numbers.push(integer(row[commit::NUMBER]));
            if with_changes {
                commits.extend(StoredCommit::of_row(row));
            }
            ControlFlow::Continue(())
        })?;
        Ok(Self { numbers, commits })
    }
}

/// Waits until the transactions have ended that may have taken a number of a commit before: then
/// each commit up to the last visible number is visible.
///
/// # Errors
/// [`ErrorKind::Timeout`] if one does not end; those of the engine.
pub(super) fn wait_for_earlier(store: &Store) -> Result<()> {
    let engine = store.engine();
    let (mut open, until) = (engine.open_commits()?, Instant::now() + OPEN_MAX);
    let mut backoff = Backoff::new(PAUSE, PAUSE_MAX);
    while !open.is_empty() {
        if Instant::now() >= until {
            let message = "a transaction of the database has been committing for 30 seconds: the \
                           change feed cannot be opened before it ends (a prepared transaction?)";
            return Err(Error::new(ErrorKind::Timeout, message));
        }
        std::thread::sleep(backoff.pause());
        let now = engine.open_commits()?;
        open.retain(|transaction| now.contains(transaction));
    }
    Ok(())
}

/// Records that the commits up to a number are removed from the feed, before they are. Another
/// process may do the same: the recorded number never descends.
///
/// # Errors
/// Those of the engine.
pub(super) fn record_removal(
    store: &Store,
    feed: &ChangeFeed,
    key: ValueRef<'_>,
    to: u64,
) -> Result<()> {
    let table = &*feed.identity;
    store.transaction(|transaction| {
        if removed_up_to(transaction, feed)? >= to {
            return Ok(());
        }
        let mut row = vec![ValueRef::Absent; table.fields().len()];
        row[identity::REMOVED] = ValueRef::Int(to as i64);
        let mut update = Operation::Update { table, key, row: &row, version: None };
        transaction.run(&mut update, &mut NoRows).map(drop)
    })
}
