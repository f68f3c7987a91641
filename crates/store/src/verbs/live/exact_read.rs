//! Reads the rows of a live query at a known position of the change feed.
//!
//! If the database numbers the commits of several programs, a read may see a commit but not one
//! with an earlier number. Then the rows are those after all commits up to the last visible one
//! except the missing ones. These are applied to the rows once they are published: they have
//! changed other rows, as a commit that follows another one on the same row is only visible
//! together with it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use marmota_model::{FieldSet, NoRows, Result, RowQuery, RowSink, ValueRef};

use super::definition::LiveDefinition;
use super::update::LiveRow;
use super::window::{ChangedRow, LiveWindow, WindowEffect};
use crate::contract::change::{Change, Position};
use crate::contract::operation::{Operation, Outcome};
use crate::layers::feed::ChangeFeed;
use crate::layers::feed::commit_rows::{self, commits_between, integer};
use crate::layers::feed::schema::commit;
use crate::store::Store;
use crate::verbs::action::Verb;
use crate::verbs::changes::FeedEvent;

/// The number of reads that are tried without a lock.
const TRIES: usize = 5;
/// The time for the visible commits to be published.
const PUBLISH_MAX: Duration = Duration::from_secs(30);

/// The rows of a live query after the commit with this number.
#[derive(Debug)]
pub(crate) struct ExactRead {
    pub(crate) number: u64,
    pub(crate) window: LiveWindow,
}

impl ExactRead {
    /// Reads the rows. They are those at a position if no commit was made while they were read; if
    /// there are always commits, they are read in a transaction. `store` has no rights.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) async fn of(
        store: &Store,
        feed: &ChangeFeed,
        definition: &LiveDefinition,
    ) -> Result<Self> {
        if feed.hub.is_shared() {
            return Self::of_shared(store, feed, definition).await;
        }
        let mut before = last_commit(store, feed).await?;
        for _ in 0..TRIES {
            let window = window(store, definition).await?;
            let after = last_commit(store, feed).await?;
            if before == after {
                return Ok(Self { number: after, window });
            }
            before = after;
        }
        let transaction = store.begin().await?;
        let number = last_commit(&transaction, feed).await?;
        let window = window(&transaction, definition).await?;
        transaction.rollback().await?;
        Ok(Self { number, window })
    }

    async fn of_shared(
        store: &Store,
        feed: &ChangeFeed,
        definition: &LiveDefinition,
    ) -> Result<Self> {
        let until = Instant::now() + PUBLISH_MAX;
        loop {
            let mut published = feed.hub.position().number;
            let mut before = visible_after(store, feed, published).await?;
            let mut read = None;
            for _ in 0..TRIES {
                let window = window(store, definition).await?;
                let after = visible_after(store, feed, published).await?;
                if before == after {
                    read = Some((window, after));
                    break;
                }
                before = after;
            }
            let (mut window, visible) = match read {
                Some(read) => read,
                None => {
                    published = feed.hub.position().number;
                    match in_transaction(store, feed, definition, published).await {
                        Ok(read) => read,
                        // Its locks have conflicted with those of a write.
                        Err(error) if error.is_retryable() && Instant::now() < until => continue,
                        Err(error) => return Err(error),
                    }
                }
            };
            let number = visible.last().copied().unwrap_or(published);
            if add_missing(store, feed, definition, &mut window, (published, &visible)).await? {
                return Ok(Self { number, window });
            }
        }
    }
}

/// Reads the rows, and the visible commits after `published`, in a transaction, which reads a
/// snapshot or locks what it reads.
async fn in_transaction(
    store: &Store,
    feed: &ChangeFeed,
    definition: &LiveDefinition,
    published: u64,
) -> Result<(LiveWindow, Vec<u64>)> {
    let transaction = store.begin().await?;
    let visible = visible_after(&transaction, feed, published).await?;
    let window = window(&transaction, definition).await?;
    transaction.rollback().await?;
    Ok((window, visible))
}

/// Applies the commits after `published` that were not `visible` to the window, up to the last
/// visible one. Returns false if that cannot be done, so that the rows have to be read again.
async fn add_missing(
    store: &Store,
    feed: &ChangeFeed,
    definition: &LiveDefinition,
    window: &mut LiveWindow,
    (published, visible): (u64, &[u64]),
) -> Result<bool> {
    let Some(&last) = visible.last() else { return Ok(true) };
    if last - published == visible.len() as u64 {
        return Ok(true);
    }
    let position = |number| Position { feed: feed.hub.feed(), number };
    store.reached(position(last), PUBLISH_MAX).await?;
    let mut stream = store.changes()?.from(position(published))?;
    let selector = definition.selector()?;
    while stream.position().number < last {
        let Some(FeedEvent::Commit(commit)) = stream.next().await? else { return Ok(false) };
        if visible.binary_search(&commit.position.number).is_ok() {
            continue;
        }
        let changed = |change: &Change| definition.reads_again_after(&change.table);
        if commit.changes.iter().any(changed) {
            return Ok(false);
        }
        let table = &definition.table;
        for change in commit.changes.iter().filter(|change| Arc::ptr_eq(&change.table, table)) {
            let before = change.before.as_deref().map(ChangedRow::new);
            let after = change.after.as_deref().map(ChangedRow::new);
            let effect = window.apply(&selector, definition, before.as_ref(), after.as_ref());
            if effect == WindowEffect::Conflict {
                return Ok(false);
            }
        }
    }
    Ok(window.is_sufficient(definition))
}

/// Returns the numbers of the visible commits after a number.
async fn visible_after(store: &Store, feed: &ChangeFeed, number: u64) -> Result<Vec<u64>> {
    store.action(VisibleAfter { feed, number, visible: Vec::new() }).await
}

struct VisibleAfter<'f> {
    feed: &'f ChangeFeed,
    number: u64,
    visible: Vec<u64>,
}

impl Verb for VisibleAfter<'_> {
    type Output = Vec<u64>;

    fn operate(
        &mut self,
        _: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let Self { feed, number, visible } = self;
        let table = &*feed.commits;
        let fields = FieldSet::EMPTY.with(commit::NUMBER);
        let query = commits_between(*number, i64::MAX as u64, fields, u64::MAX);
        call(&mut Operation::List { table, query: &query }, &mut |row: &[ValueRef<'_>]| {
            visible.push(integer(row[commit::NUMBER]));
            ControlFlow::Continue(())
        })
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Vec<u64>> {
        Ok(std::mem::take(&mut self.visible))
    }
}

/// Returns the number of the last commit in the table of commits. One that is visible there may not
/// be published by the hub yet.
async fn last_commit(store: &Store, feed: &ChangeFeed) -> Result<u64> {
    store.action(LastCommit { feed, number: 0 }).await
}

async fn window(store: &Store, definition: &LiveDefinition) -> Result<LiveWindow> {
    let query = RowQuery { limit: LiveWindow::rows_max(definition), ..definition.query.clone() };
    let rows = store.action(ReadWindow { definition, query, rows: Vec::new() }).await?;
    let count = match definition.counts {
        true => Some(store.action(CountAll(definition)).await?),
        false => None,
    };
    Ok(LiveWindow::new(definition, rows, count))
}

struct LastCommit<'f> {
    feed: &'f ChangeFeed,
    number: u64,
}

impl Verb for LastCommit<'_> {
    type Output = u64;

    fn operate(
        &mut self,
        _: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let query = commit_rows::last_commit();
        let Self { feed, number } = self;
        let table = &*feed.commits;
        call(&mut Operation::List { table, query: &query }, &mut |row: &[ValueRef<'_>]| {
            *number = integer(row[commit::NUMBER]);
            ControlFlow::Break(())
        })
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<u64> {
        Ok(self.number)
    }
}

struct ReadWindow<'d> {
    definition: &'d LiveDefinition,
    query: RowQuery,
    rows: Vec<LiveRow>,
}

impl Verb for ReadWindow<'_> {
    type Output = Vec<LiveRow>;

    fn operate(
        &mut self,
        _: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let Self { definition, query, rows } = self;
        let table = &*definition.table;
        call(&mut Operation::List { table, query }, &mut |row: &[ValueRef<'_>]| {
            rows.push(row.iter().map(ValueRef::to_value).collect());
            ControlFlow::Continue(())
        })
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Vec<LiveRow>> {
        Ok(std::mem::take(&mut self.rows))
    }
}

/// Counts the rows that the filter selects, including those before the page.
struct CountAll<'d>(&'d LiveDefinition);

impl Verb for CountAll<'_> {
    type Output = u64;

    fn operate(
        &mut self,
        _: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let (table, filter) = (&*self.0.table, self.0.query.filter.as_ref());
        call(&mut Operation::Count { table, filter }, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, outcome: &mut Outcome) -> Result<u64> {
        Ok(outcome.rows)
    }
}
