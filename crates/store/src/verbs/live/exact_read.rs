//! Reads the rows of a live query at a known position of the change feed.

use std::ops::ControlFlow;

use marmota_model::{FieldSet, NoRows, Result, RowQuery, RowSink, SortKey, ValueRef};

use super::definition::LiveDefinition;
use super::update::LiveRow;
use super::window::LiveWindow;
use crate::contract::operation::{Operation, Outcome};
use crate::layers::feed::ChangeFeed;
use crate::layers::feed::commit_rows::integer;
use crate::layers::feed::schema::commit;
use crate::store::Store;
use crate::verbs::action::Verb;

/// The number of reads that are tried without a lock.
const TRIES: usize = 5;

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
        let query = RowQuery {
            order: vec![SortKey { field: commit::NUMBER, descending: true }],
            fields: Some(FieldSet::EMPTY.with(commit::NUMBER)),
            limit: Some(1),
            ..RowQuery::new()
        };
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
