//! Reads, in the transaction if there is one.

use std::future::Future;
use std::sync::Arc;

use marmota_model::{FieldSet, FilterExpr, Result, RowQuery, ValueRef};
use marmota_store::engine::Submitted;
use mongodb::raw_batch_cursor::RawBatch;
use tokio::sync::mpsc;

use super::aggregate::{self, Aggregating};
use super::fetching::Fetching;
use super::reading::{Reading, Wanted};
use super::related::{Read, ReadTransaction};
use super::{MongoSession, Running};
use crate::database::{Batches, Database, Find};
use crate::filter::{matching, sort};
use crate::shape::Shape;

impl MongoSession {
    /// Starts a read.
    fn read(&mut self, shape: &Arc<Shape>, find: Find, wanted: Wanted) -> Result<Submitted> {
        let (receiver, task) =
            self.fetch(|database| async move { Ok((database.find(&find).await?, None)) })?;
        let (handle, counts) = (&self.shared.handle, &self.shared.counts);
        let reading = Reading::new(shape, wanted, receiver, handle, counts);
        self.wait(Running::Reading(Read::Rows(Box::new(reading)), task))
    }

    /// Starts an aggregation.
    pub(super) fn aggregate(&mut self, collection: &str, pipeline: &str) -> Result<Submitted> {
        let command = aggregate::command(collection, pipeline, self.shared.database.time_max_ms)?;
        let (receiver, task) =
            self.fetch(|database| async move { Ok((database.find_raw(command).await?, None)) })?;
        let aggregating = Aggregating::new(receiver, &self.shared.counts);
        self.wait(Running::Aggregating(Box::new(aggregating), task))
    }

    /// Starts a task on the engine's thread that fetches the results of a command, one message at a
    /// time, and ends their transaction, if they have one of their own.
    pub(super) fn fetch<F>(
        &self,
        begin: impl FnOnce(Database) -> F,
    ) -> Result<(mpsc::Receiver<Result<RawBatch>>, Fetching)>
    where
        F: Future<Output = Result<(Batches, Option<ReadTransaction>)>> + Send + 'static,
    {
        let under_way = self.enter()?;
        let (sender, receiver) = mpsc::channel(1);
        let (shared, transaction) = (Arc::clone(&self.shared), self.transaction.clone());
        let is_inside = transaction.is_some();
        let begun = begin(self.database());
        let task = self.shared.handle.spawn(async move {
            let _under_way = under_way;
            let _turn = match &transaction {
                Some(transaction) => Some(transaction.turn().await),
                None => None,
            };
            let reading = async {
                let (mut batches, own) = shared.within(begun).await?;
                while let Some(batch) = shared.within(batches.next()).await? {
                    if sender.send(Ok(batch)).await.is_err() {
                        break;
                    }
                }
                if let Some(own) = own {
                    own.end().await;
                }
                Ok(())
            };
            if let Err(error) = reading.await {
                if let Some(transaction) = &transaction {
                    transaction.note_interruption(&error);
                }
                let _ = sender.send(Err(error)).await;
            }
        });
        Ok((receiver, Fetching { task, is_inside }))
    }

    /// Starts a read of a row by its key. Outside of transactions, it shares a query with others.
    pub(super) fn get(
        &mut self,
        shape: &Arc<Shape>,
        key: ValueRef<'_>,
        fields: FieldSet,
    ) -> Result<Submitted> {
        if self.transaction.is_none() && !self.is_inner {
            let getting = self.gets.get(shape, key, fields)?;
            return self.wait(Running::Getting(getting));
        }
        let find = Find {
            collection: shape.name().to_owned(),
            filter: shape.by_key(key),
            projection: shape.projection(fields),
            limit: Some(1),
            ..Find::default()
        };
        let wanted = Wanted { fields, filter: None, order: None, limit: Some(1), counts: false };
        self.read(shape, find, wanted)
    }

    pub(super) fn list(&mut self, shape: &Arc<Shape>, query: &RowQuery) -> Result<Submitted> {
        match query.filter_with_after(&shape.table) {
            Some(filter) if filter.has_relations() => self.list_related(shape, query, filter),
            filter => {
                let (find, wanted) = prepared(shape, query, filter);
                self.read(shape, find, wanted)
            }
        }
    }

    pub(super) fn count(
        &mut self,
        shape: &Arc<Shape>,
        filter: Option<&FilterExpr>,
    ) -> Result<Submitted> {
        if let Some(filter) = filter.filter(|filter| filter.has_relations()) {
            return self.count_related(shape, filter);
        }
        let asked = matching(shape, filter);
        if asked.exact {
            let name = shape.name().to_owned();
            return self
                .count_by(|database| async move { database.count(&name, asked.document).await });
        }
        let filter = filter.cloned();
        let wanted =
            Wanted { fields: FieldSet::EMPTY, filter, order: None, limit: None, counts: true };
        let find = Find {
            collection: shape.name().to_owned(),
            filter: asked.document,
            projection: shape.projection(wanted.read(&shape.table)),
            ..Find::default()
        };
        self.read(shape, find, wanted)
    }

    /// Starts a task on the engine's thread that counts rows.
    pub(super) fn count_by<F>(&mut self, count: impl FnOnce(Database) -> F) -> Result<Submitted>
    where
        F: Future<Output = Result<u64>> + Send + 'static,
    {
        let under_way = self.enter()?;
        let (shared, transaction) = (Arc::clone(&self.shared), self.transaction.clone());
        let (counting, is_inside) = (count(self.database()), transaction.is_some());
        let task = self.shared.handle.spawn(async move {
            let _under_way = under_way;
            let _turn = match &transaction {
                Some(transaction) => Some(transaction.turn().await),
                None => None,
            };
            let counted = shared.within(counting).await;
            if let (Err(error), Some(transaction)) = (&counted, &transaction) {
                transaction.note_interruption(error);
            }
            counted
        });
        self.wait(Running::Counting(task, is_inside))
    }
}

/// Returns the command of a list with this filter, which includes the place after which the list
/// continues, and how its rows are processed.
pub(super) fn prepared(
    shape: &Shape,
    query: &RowQuery,
    filter: Option<FilterExpr>,
) -> (Find, Wanted) {
    let asked = matching(shape, filter.as_ref());
    let sort = sort(shape, query);
    let wanted = Wanted {
        fields: query.fields.unwrap_or_else(|| shape.table.read_by_default()),
        filter: filter.filter(|_| !asked.exact),
        order: sort.is_none().then(|| query.order_with_key(&shape.table)),
        limit: query.limit,
        counts: false,
    };
    let is_theirs = asked.exact && sort.is_some();
    let find = Find {
        collection: shape.name().to_owned(),
        filter: asked.document,
        projection: shape.projection(wanted.read(&shape.table)),
        // The server treats 0 as unlimited.
        limit: query
            .limit
            .filter(|_| is_theirs)
            .map(|limit| i64::try_from(limit).unwrap_or(i64::MAX)),
        sort,
    };
    (find, wanted)
}
