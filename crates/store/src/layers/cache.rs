//! The layer of the cache: rows that were read by key, which are never older than the last
//! acknowledged write.
//!
//! Every table has a version, which counts the writes to it. A cached row has the version at which
//! it was read, and is valid as long as the table has that version. A write to one table
//! invalidates no row of another, and the cache need not find out which rows a write has changed.
//!
//! # Why no read is stale
//! A write is announced before the engine gets it, and ended after its last step. Both add to one
//! word for each table: its low 20 bits count the writes in progress (a million at once), the
//! others are the version.
//! - Between the two, the engine may return the old row or the new one. So the cache is bypassed:
//!   it returns no row and stores none.
//! - A row is stored with the version that was known before the engine was called, so the row is at
//!   least as new as that version. (If the version has changed after the read, the row is never
//!   returned.)
//! - A reader of the cache reads the word first. If a write is announced just then, the read took
//!   place before it.
//!
//! A transaction announces its tables when it commits, since other sessions do not see its rows
//! before. A write that is cancelled while it waits may still be executed, but before any later
//! write to its database is acknowledged ([`crate::engine::Session::cancel`]). So it ends together
//! with the next write to that database that succeeds.
//!
//! Writes of other processes are known if the engine is notified of them ([`InvalidationFeed`]).
//! Each counts as a write that ends when the notification arrives; while the notifications are
//! interrupted, a write is in progress. So a row that another process has changed is returned until
//! the notification has arrived, and no longer. With an engine that receives no notifications, the
//! cache does not see the writes of others.
//!
//! [`InvalidationFeed`]: crate::InvalidationFeed

pub(crate) mod row_cache;
mod row_key;
pub(crate) mod table_versions;

use std::sync::Arc;
use std::task::{Context, Poll};

use marmota_model::{Result, RowSink};

use self::row_cache::{Cache, Copying, Fetch};
use self::table_versions::{TableVersions, Writing};
use crate::contract::durability::Durability;
use crate::contract::operation::{Operation, Outcome};
use crate::layers::handle::{HandleContext, Place};
use crate::layers::layer::Layer;
use crate::layers::session::pool::Sessions;
use crate::layers::thread_slot::slot_number;

/// The layer of the cache. It answers reads by key outside of transactions, announces writes, and
/// passes on all else.
pub(crate) struct CacheLayer<L> {
    /// The cache, if the store has one.
    cache: Option<Arc<Cache>>,
    next: L,
}

/// An operation that waits below the cache.
#[derive(Debug, Default)]
pub(crate) struct CacheState<S> {
    /// The writes that end with it, if it writes.
    writing: Option<Writing>,
    /// Where to cache the row that it reads.
    fetch: Option<Box<Fetch>>,
    next: S,
}

/// Announced writes. They end when this value is dropped, unless it is disarmed, also when a sink
/// or a source of rows panics.
struct Announced<'c> {
    versions: &'c TableVersions,
    writing: Writing,
    succeeded: bool,
}

impl Announced<'_> {
    /// Returns the writes, which the caller has to end.
    fn disarm(mut self) -> Writing {
        std::mem::take(&mut self.writing)
    }
}

impl Drop for Announced<'_> {
    /// Ends the writes: as failed, unless the operation has succeeded.
    fn drop(&mut self) {
        self.versions.ended(std::mem::take(&mut self.writing), self.succeeded);
    }
}

impl<L: Layer> CacheLayer<L> {
    /// Creates the layer above `next`. `None` passes all operations on.
    pub(crate) const fn new(cache: Option<Arc<Cache>>, next: L) -> Self {
        Self { cache, next }
    }

    /// Executes a read by key, outside of a transaction: answers it from the cache, or reads the
    /// row and caches it. A row is cached if the read requests all fields that are read by default.
    fn get(
        &self,
        cache: &Cache,
        handle: &HandleContext,
        state: &mut CacheState<L::State>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Poll<Result<()>> {
        let next = &mut state.next;
        let lookup = match operation {
            Operation::Get { table, key, fields } => cache.lookup(table, *key, *fields),
            _ => None,
        };
        let Some(lookup) = lookup else {
            return self.next.submit(handle, next, None, operation, sink, outcome);
        };
        {
            let _lending = self.sessions().begin_lending()?;
            if cache.lend(&lookup, slot_number(), sink) {
                outcome.rows = 1;
                return Poll::Ready(Ok(()));
            }
        }
        if !lookup.is_whole() {
            return self.next.submit(handle, next, None, operation, sink, outcome);
        }
        let mut copying = Copying { sink, copy: None };
        let submitted = self.next.submit(handle, next, None, operation, &mut copying, outcome);
        match (&submitted, copying.copy) {
            (Poll::Ready(Ok(())), Some(copy)) => cache.keep(&lookup, copy),
            (Poll::Pending, None) => state.fetch = Some(lookup.fetch()),
            _ => {}
        }
        submitted
    }

    /// Submits an operation, or answers it from the cache.
    #[expect(clippy::too_many_arguments, reason = "those of an operation, and the cache")]
    fn submit_cached(
        &self,
        cache: &Cache,
        handle: &HandleContext,
        state: &mut CacheState<L::State>,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Poll<Result<()>> {
        if let (Place::Thread, Operation::Get { .. }) = (&handle.place, &*operation)
            && !handle.skips_cache
        {
            return self.get(cache, handle, state, operation, sink, outcome);
        }
        let announced = announce(&cache.versions, &handle.place, operation);
        let next = &mut state.next;
        let submitted = self.next.submit(handle, next, durability, operation, sink, outcome);
        if let Some(mut announced) = announced {
            match &submitted {
                Poll::Pending => state.writing = Some(announced.disarm()),
                Poll::Ready(done) => announced.succeeded = done.is_ok(),
            }
        }
        submitted
    }
}

/// Announces the writes of an operation that other sessions see at its end: of a write outside of
/// transactions, or of all writes of a transaction at its commit. The tables of a write in a
/// transaction are collected for that.
fn announce<'c>(
    versions: &'c TableVersions,
    place: &Place,
    operation: &Operation<'_>,
) -> Option<Announced<'c>> {
    let writing = match (place, operation) {
        (Place::Thread, operation) if operation.is_write() => versions.write(operation),
        (Place::Thread, _) => return None,
        (Place::Transaction(transaction), Operation::Commit) => {
            let mut writing = std::mem::take(&mut *transaction.written.lock());
            versions.announce(&mut writing);
            writing
        }
        (Place::Transaction(transaction), step) => {
            versions.note(&mut transaction.written.lock(), step);
            return None;
        }
    };
    Some(Announced { versions, writing, succeeded: false })
}

impl<L: Layer> Layer for CacheLayer<L> {
    /// The part of this layer, with the state of the layer below.
    type State = CacheState<L::State>;

    /// Submits an operation. A read by key may be answered here; a write is announced before the
    /// layers below get it.
    #[inline(always)]
    fn submit(
        &self,
        handle: &HandleContext,
        state: &mut Self::State,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Poll<Result<()>> {
        match &self.cache {
            Some(cache) => {
                self.submit_cached(cache, handle, state, durability, operation, sink, outcome)
            }
            None => self.next.submit(handle, &mut state.next, durability, operation, sink, outcome),
        }
    }

    /// Continues an operation. When it ends, its writes end, whether it succeeded or not, and a row
    /// that it has read is cached.
    fn poll(
        &self,
        handle: &HandleContext,
        state: &mut Self::State,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let CacheState { writing, fetch, next } = state;
        let Some(cache) = &self.cache else {
            return self.next.poll(handle, next, operation, sink, outcome, context);
        };
        let mut copying = Copying { sink, copy: None };
        let polled = match fetch {
            Some(_) => self.next.poll(handle, next, operation, &mut copying, outcome, context),
            None => self.next.poll(handle, next, operation, &mut *copying.sink, outcome, context),
        };
        if let Poll::Ready(done) = &polled {
            if let Some(writing) = writing.take() {
                cache.versions.ended(writing, done.is_ok());
            }
            if let (Some(fetch), Some(copy)) = (fetch.take(), copying.copy) {
                cache.keep_fetched(*fetch, copy);
            }
        }
        polled
    }

    /// Cancels an operation. Its writes stay announced, since it may still be executed: they end
    /// with the next write to the same database.
    fn cancel(&self, handle: &HandleContext, state: Self::State) {
        self.next.cancel(handle, state.next);
        if let (Some(cache), Some(writing)) = (&self.cache, state.writing) {
            cache.versions.abandon(writing);
        }
    }

    #[inline]
    fn sessions(&self) -> &Sessions {
        self.next.sessions()
    }
}
