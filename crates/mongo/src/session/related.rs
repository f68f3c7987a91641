//! Lists and counts with conditions on related rows. Where the server has transactions, the related
//! rows and the rows are read in one, so that they are of one moment.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use marmota_model::{FieldSet, FilterExpr, Result, RowQuery, RowSink};
use marmota_store::engine::Submitted;
use mongodb::raw_batch_cursor::RawBatch;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::reading::{Reading, Wanted};
use super::reads::prepared;
use super::{MongoSession, Running};
use crate::database::Database;
use crate::database::transaction::Transaction;
use crate::fault;
use crate::related::{each_selected, resolved};
use crate::shape::Shape;
use crate::shared::Shared;
use crate::writer::work::Tries;

/// A list whose related rows are read.
pub(super) struct Opening {
    shape: Arc<Shape>,
    /// Missing after it was received.
    wanted: Option<oneshot::Receiver<Wanted>>,
    batches: mpsc::Receiver<Result<RawBatch>>,
}

/// A read of rows.
pub(super) enum Read {
    Opening(Opening),
    Rows(Box<Reading>),
}

/// A transaction of one read. It has nothing to commit, and is aborted at the end, also if the task
/// of the read is cancelled.
pub(super) struct ReadTransaction {
    transaction: Arc<Transaction>,
    shared: Arc<Shared>,
    is_ended: bool,
}

impl ReadTransaction {
    async fn begin(shared: &Arc<Shared>) -> Result<Self> {
        let transaction = Transaction::begin(&shared.database.driver, None).await?;
        Ok(Self { transaction, shared: Arc::clone(shared), is_ended: false })
    }

    /// Ends it, and waits for that.
    pub(super) async fn end(mut self) {
        // If it fails, the server ends it.
        let _ = self.abort().await;
    }

    /// Aborts it in a task of its own, since a transaction whose abort is interrupted stays open.
    fn abort(&mut self) -> JoinHandle<()> {
        self.is_ended = true;
        let (transaction, shared) = (Arc::clone(&self.transaction), Arc::clone(&self.shared));
        let under_way = shared.enter_further();
        self.shared.handle.spawn(async move {
            let aborts = async {
                transaction.abort().await;
                Ok(())
            };
            let _ = shared.within(aborts).await;
            drop(under_way);
        })
    }
}

impl Drop for ReadTransaction {
    fn drop(&mut self) {
        if !self.is_ended {
            self.abort();
        }
    }
}

impl Opening {
    /// Ready when the rows themselves are read.
    fn poll(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<Result<Box<Reading>>> {
        let wanted = match &mut self.wanted {
            Some(wanted) => ready!(Pin::new(wanted).poll(context)).ok(),
            None => None,
        };
        self.wanted = None;
        let Some(wanted) = wanted else {
            // The task has failed, and sends why.
            let failed = ready!(self.batches.poll_recv(context)).and_then(Result::err);
            return Poll::Ready(Err(failed.unwrap_or_else(fault::closed)));
        };
        let batches = std::mem::replace(&mut self.batches, mpsc::channel(1).1);
        let reading = Reading::new(&self.shape, wanted, batches, &shared.handle, &shared.counts);
        Poll::Ready(Ok(Box::new(reading)))
    }
}

impl Read {
    /// Passes the received rows to `sink`. Ready with the number of rows at the end.
    pub(super) fn poll(
        &mut self,
        shared: &Shared,
        sink: &mut dyn RowSink,
        context: &mut Context<'_>,
    ) -> Poll<Result<u64>> {
        loop {
            match self {
                Self::Rows(reading) => return reading.poll(sink, context),
                Self::Opening(opening) => match ready!(opening.poll(shared, context)) {
                    Ok(reading) => *self = Self::Rows(reading),
                    Err(error) => return Poll::Ready(Err(error)),
                },
            }
        }
    }
}

impl MongoSession {
    /// Starts a list with such a condition in its filter.
    pub(super) fn list_related(
        &mut self,
        shape: &Arc<Shape>,
        query: &RowQuery,
        filter: FilterExpr,
    ) -> Result<Submitted> {
        let (opens, wanted) = oneshot::channel();
        let (shared, transaction) = (Arc::clone(&self.shared), self.transaction.clone());
        let (list, query) = (Arc::clone(shape), query.clone());
        let (batches, task) = self.fetch(|_| async move {
            let found = at_one_moment(&shared, transaction, |database| {
                let (shared, list) = (Arc::clone(&shared), Arc::clone(&list));
                let (query, filter) = (query.clone(), filter.clone());
                async move {
                    let filter = resolved(&shared, &database, &list, &filter).await?;
                    let (find, wanted) = prepared(&list, &query, Some(filter));
                    Ok((wanted, database.find(&find).await?))
                }
            });
            let ((wanted, batches), own) = found.await?;
            // The caller may have given up.
            let _ = opens.send(wanted);
            Ok((batches, own))
        })?;
        let opening = Opening { shape: Arc::clone(shape), wanted: Some(wanted), batches };
        self.wait(Running::Reading(Read::Opening(opening), task))
    }

    /// Starts a count of the rows that such a filter selects.
    pub(super) fn count_related(
        &mut self,
        shape: &Arc<Shape>,
        filter: &FilterExpr,
    ) -> Result<Submitted> {
        let (shared, transaction) = (Arc::clone(&self.shared), self.transaction.clone());
        let (shape, filter) = (Arc::clone(shape), filter.clone());
        self.count_by(|_| async move {
            let counted = at_one_moment(&shared, transaction, |database| {
                let (shared, shape) = (Arc::clone(&shared), Arc::clone(&shape));
                let filter = filter.clone();
                async move {
                    let filter = resolved(&shared, &database, &shape, &filter).await?;
                    count(&database, &shape, &filter).await
                }
            });
            let (rows, own) = counted.await?;
            if let Some(own) = own {
                own.end().await;
            }
            Ok(rows)
        })
    }
}

async fn count(database: &Database, shape: &Arc<Shape>, filter: &FilterExpr) -> Result<u64> {
    let asked = crate::filter::matching(shape, Some(filter));
    if asked.exact {
        return database.count(shape.name(), asked.document).await;
    }
    let mut rows = 0;
    each_selected(database, shape, Some(filter), FieldSet::EMPTY, None, |_| {
        rows += 1;
        Ok(())
    })
    .await?;
    Ok(rows)
}

/// Reads in the caller's transaction, or else in a separate one, if the server has transactions. A
/// read in a separate one is repeated if it conflicts with others; its transaction is returned.
async fn at_one_moment<T, R>(
    shared: &Arc<Shared>,
    transaction: Option<Arc<Transaction>>,
    read: impl Fn(Database) -> R,
) -> Result<(T, Option<ReadTransaction>)>
where
    R: Future<Output = Result<T>>,
{
    let database = &shared.database;
    if let Some(transaction) = transaction {
        return Ok((read(database.inside(&transaction)).await?, None));
    }
    if !shared.capability.transactions {
        return Ok((read(database.clone()).await?, None));
    }
    let mut tries = Tries::begin(shared);
    loop {
        let own = ReadTransaction::begin(shared).await?;
        match read(database.inside(&own.transaction)).await {
            Ok(done) => return Ok((done, Some(own))),
            Err(error) => {
                own.end().await;
                match tries.pause_after(&error) {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => return Err(error),
                }
            }
        }
    }
}
