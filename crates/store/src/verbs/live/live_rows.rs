//! A subscriber of a live query, with rows as slices of values.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use marmota_model::{Error, ErrorKind, Result, RowQuery, Table};

use super::definition::{LiveDefinition, Written};
use super::exact_read::ExactRead;
use super::hub::LiveHub;
use super::resume::{Resumed, resume};
use super::resume_point::ResumePoint;
use super::shared_query::SharedQuery;
use super::update::{LiveRow, LiveUpdate};
use crate::runtime::block_on::block_on;
use crate::store::Store;

/// A subscriber of a live query, with rows as slices of values; made by [`Store::live_rows`].
///
/// All subscribers of equal queries share the updates. The updates that one has not read are
/// limited to 256 KiB: a subscriber that is slower gets a new snapshot instead.
pub struct LiveRows {
    store: Store,
    hub: Arc<LiveHub>,
    query: Arc<SharedQuery>,
    subscriber: u64,
    /// The first event, before those of the query.
    first: Option<Arc<LiveUpdate>>,
    /// The query without the rights of the caller.
    written: Written,
}

impl Store {
    /// Subscribes to the page of a query: its rows now, and the changes that commits make in it.
    ///
    /// It is the form of [`Store::live`] for any table. `query` can have an order, a limit, a
    /// cursor and fields, but no blobs; with `counts`, the number of all rows that its filter
    /// selects is part of the events. With `from`, the first event is a patch of the page at that
    /// position, if the feed has the commits since then and the caller may still read the same rows;
    /// it is left out if nothing has changed.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # use marmota_store::change::ChangeRetention;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let builder = Store::builder(Memory::new()).model::<City>();
    /// # let store = builder.changes(ChangeRetention::default()).open()?;
    /// use marmota_model::RowQuery;
    /// use marmota_store::live::LiveContent;
    ///
    /// let table = store.table("city")?;
    /// # marmota_store::action::block_on(async {
    /// let mut rows = store.live_rows(&table, RowQuery::new(), true, None).await?;
    /// let update = rows.next().await?.expect("the store is open");
    /// assert!(matches!(&update.content, LiveContent::Snapshot(rows) if rows.is_empty()));
    /// # Ok::<(), marmota_model::Error>(())
    /// # })?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the store records no changes, or not those of the table;
    /// [`ErrorKind::Invalid`] for an invalid query, one that uses blobs, and a handle of a
    /// transaction; [`ErrorKind::Denied`] without the right to read.
    pub async fn live_rows(
        &self,
        table: &Arc<Table>,
        query: RowQuery,
        counts: bool,
        from: Option<ResumePoint>,
    ) -> Result<LiveRows> {
        self.check_outside()?;
        let table = &Table::original_of(table);
        if !self.registry().tables().iter().any(|known| Arc::ptr_eq(known, table)) {
            let message = format!("`{}` is not a table of this store", table.name());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let written = Written::of(&query);
        let definition = LiveDefinition::new(self, table, query, counts)?;
        let (hub, store) = (LiveHub::of(self)?, self.outside());
        let tag = definition.rights_tag(&written);
        let from = from.filter(|from| from.rights_tag == tag).map(|from| from.position);
        let resumes = from.is_some();
        let (query, subscriber) = match hub.attach(&definition, resumes) {
            Some(attached) => attached,
            None => {
                let read = ExactRead::of(&store, hub.feed(), &definition).await?;
                hub.register(&store, definition, read, resumes)?
            }
        };
        let (snapshot, window) = (subscriber.snapshot, subscriber.window);
        let (subscriber, first) = (subscriber.number, Some(Arc::clone(&snapshot)));
        // From here on, the subscriber is removed if the future is dropped.
        let mut rows = LiveRows { store, hub, query, subscriber, first, written };
        if let (Some(from), Some(window)) = (from, window) {
            let LiveRows { store, query, .. } = &rows;
            let resumed =
                resume(store, &query.definition, &window, from, snapshot.position).await?;
            match resumed {
                Resumed::Unchanged => rows.first = None,
                Resumed::Patch(update) => rows.first = Some(update),
                Resumed::Unknown => {}
            }
        }
        Ok(rows)
    }

    /// Subscribes like [`Store::live_rows`], and blocks the thread while it waits.
    ///
    /// # Errors
    /// As [`Store::live_rows`].
    pub fn live_rows_run(
        &self,
        table: &Arc<Table>,
        query: RowQuery,
        counts: bool,
        from: Option<ResumePoint>,
    ) -> Result<LiveRows> {
        block_on(self.live_rows(table, query, counts, from))
    }
}

impl LiveRows {
    /// Returns the table.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.query.definition.table
    }

    /// Returns the next update, from a future. `None` after the store was closed.
    ///
    /// # Errors
    /// Those of the engine, if the rows had to be read again. The subscription has ended.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Arc<LiveUpdate>>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Ok(Some(first))),
            None => self.query.poll(self.subscriber, context),
        }
    }

    /// Waits for the next update. `None` after the store was closed. The future can be dropped
    /// without a loss.
    ///
    /// # Errors
    /// As [`Self::poll_next`].
    pub async fn next(&mut self) -> Result<Option<Arc<LiveUpdate>>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Returns a number for the rows that the caller may read; `None` if the caller's rights do not
    /// narrow the query.
    ///
    /// It is part of a [`ResumePoint`].
    #[must_use]
    pub fn rights_tag(&self) -> Option<u32> {
        self.query.definition.rights_tag(&self.written)
    }

    /// Returns true if the caller of another handle to the store may read the same rows and fields
    /// of the table as the one who subscribed.
    ///
    /// A subscription keeps the rights that its handle had. A server calls this with a new handle
    /// for the same caller, and if it is false, subscribes again.
    #[must_use]
    pub fn is_readable_by(&self, store: &Store) -> bool {
        self.query.definition.is_readable(store, &self.written)
    }

    /// Returns the values of a row, borrowed.
    #[must_use]
    pub fn borrowed(row: &LiveRow) -> Vec<marmota_model::ValueRef<'_>> {
        row.iter().map(marmota_model::Value::as_ref).collect()
    }
}

impl Drop for LiveRows {
    fn drop(&mut self) {
        self.hub.detach(&self.query, self.subscriber);
    }
}

impl std::fmt::Debug for LiveRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LiveRows { store, subscriber, .. } = self;
        f.debug_struct("LiveRows")
            .field("store", store)
            .field("table", &self.table().name())
            .field("subscriber", subscriber)
            .finish_non_exhaustive()
    }
}
