//! Live queries of models: the builder, and the stream of events.

use std::marker::PhantomData;

use marmota_model::{Filter, Model, Order, Result, RowQuery};

use super::live_rows::LiveRows;
use super::resume_point::ResumePoint;
use super::update::LiveEvent;
use crate::runtime::block_on::block_on;
use crate::store::Store;

/// A live query of a model before it is subscribed to; made by [`Store::live`].
#[must_use = "a live query does nothing until it is subscribed to"]
#[derive(Debug)]
pub struct LiveQuery<'s, M> {
    store: &'s Store,
    query: RowQuery,
    counts: bool,
    model: PhantomData<fn() -> M>,
}

/// The events of a live query of a model: the rows at the beginning, then the changes that commits
/// make.
///
/// A stream that is dropped and subscribed again at the position of its last event
/// ([`LiveQuery::subscribe_from`]) continues without a loss.
#[derive(Debug)]
pub struct LiveStream<M> {
    rows: LiveRows,
    model: PhantomData<fn() -> M>,
}

impl Store {
    /// Keeps a list up to date: returns its rows now, and then what each commit changes in them.
    ///
    /// The store must record changes ([`StoreBuilder::changes`](crate::StoreBuilder::changes)). The
    /// rights of the handle apply as they were at the subscription. Default: all rows, in the order
    /// of keys, without a count; rows have no blobs.
    ///
    /// The rows of the page, and half as many after it, are in memory, once for all subscribers of
    /// equal queries. Set a [limit](LiveQuery::limit) for a table that grows.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// use marmota_store::change::ChangeRetention;
    ///
    /// let store = Store::builder(Memory::new())
    ///     .model::<City>()
    ///     .changes(ChangeRetention::default())
    ///     .open()?;
    /// # marmota_store::action::block_on(async {
    /// let largest = store.live::<City>().order(City::PEOPLE.descending()).limit(2).count();
    /// let mut events = largest.subscribe().await?;
    /// let mut page = Vec::new();
    /// events.next().await?.expect("the store is open").apply_to(&mut page);
    /// assert!(page.is_empty());
    ///
    /// store.insert_many(&[city("Bourges", 64_000), city("Lyon", 520_000)]).await?;
    /// let event = events.next().await?.expect("the store is open");
    /// event.apply_to(&mut page);
    /// assert_eq!((&*page[0].name, event.count()), ("Lyon", Some(2)));
    /// # Ok::<(), marmota_model::Error>(())
    /// # })?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub const fn live<M: Model>(&self) -> LiveQuery<'_, M> {
        let query = RowQuery {
            filter: None,
            order: Vec::new(),
            related: Vec::new(),
            limit: None,
            after: None,
            fields: None,
        };
        LiveQuery { store: self, query, counts: false, model: PhantomData }
    }
}

impl<M: Model> LiveQuery<'_, M> {
    /// Selects rows that match the filter, and those set before. Default: all rows.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # use marmota_store::change::ChangeRetention;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let builder = Store::builder(Memory::new()).model::<City>();
    /// # let store = builder.changes(ChangeRetention::default()).open()?;
    /// store.insert_many(&[city("Bourges", 64_000), city("Lyon", 520_000)]).run()?;
    /// let mut events = store.live::<City>().filter(City::PEOPLE.lt(100_000)).subscribe_run()?;
    /// let mut page = Vec::new();
    /// events.next_run()?.expect("the store is open").apply_to(&mut page);
    /// assert_eq!(page.len(), 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn filter(mut self, filter: Filter<M>) -> Self {
        let filter = filter.into_expr();
        self.query.filter = Some(match self.query.filter.take() {
            Some(before) => before.and(filter),
            None => filter,
        });
        self
    }

    /// Sorts by a column, after those set before. Default: by the key.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # use marmota_store::change::ChangeRetention;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let builder = Store::builder(Memory::new()).model::<City>();
    /// # let store = builder.changes(ChangeRetention::default()).open()?;
    /// store.insert_many(&[city("Lyon", 520_000), city("Bourges", 64_000)]).run()?;
    /// let mut events = store.live::<City>().order(City::NAME.ascending()).subscribe_run()?;
    /// let mut page = Vec::new();
    /// events.next_run()?.expect("the store is open").apply_to(&mut page);
    /// assert_eq!(page[0].name, "Bourges");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn order(mut self, order: Order<M>) -> Self {
        order.append_to(&mut self.query);
        self
    }

    /// Sets the maximum number of rows of the page. Default: all rows.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # use marmota_store::change::ChangeRetention;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let builder = Store::builder(Memory::new()).model::<City>();
    /// # let store = builder.changes(ChangeRetention::default()).open()?;
    /// store.insert_many(&[city("Lyon", 520_000), city("Bourges", 64_000)]).run()?;
    /// let mut events = store.live::<City>().limit(1).subscribe_run()?;
    /// assert!(events.next_run()?.expect("the store is open").has_more());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub const fn limit(mut self, rows: u64) -> Self {
        self.query.limit = Some(rows);
        self
    }

    /// Counts all rows that the filter selects ([`LiveEvent::count`]). Default: they are not counted.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # use marmota_store::change::ChangeRetention;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let builder = Store::builder(Memory::new()).model::<City>();
    /// # let store = builder.changes(ChangeRetention::default()).open()?;
    /// store.insert_many(&[city("Lyon", 520_000), city("Bourges", 64_000)]).run()?;
    /// let mut events = store.live::<City>().limit(1).count().subscribe_run()?;
    /// assert_eq!(events.next_run()?.expect("the store is open").count(), Some(2));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub const fn count(mut self) -> Self {
        self.counts = true;
        self
    }

    /// Subscribes. The first event is a snapshot.
    ///
    /// # Errors
    /// As [`Store::live_rows`].
    pub async fn subscribe(self) -> Result<LiveStream<M>> {
        self.begin(None).await
    }

    /// Subscribes, and blocks the thread while it waits.
    ///
    /// # Errors
    /// As [`Store::live_rows`].
    pub fn subscribe_run(self) -> Result<LiveStream<M>> {
        block_on(self.begin(None))
    }

    /// Continues after the event with this position. The first event is a patch of the page at that
    /// position. If the position is not known any more or belongs to another database, or the
    /// caller may read other rows than then, it is a snapshot. There is no event until something
    /// has changed. A handle whose rights narrow the query needs the
    /// [point](LiveStream::resume_point) instead of the position.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # use marmota_store::change::ChangeRetention;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let builder = Store::builder(Memory::new()).model::<City>();
    /// # let store = builder.changes(ChangeRetention::default()).open()?;
    /// use marmota_store::live::{LiveEvent, RowPatch};
    ///
    /// # marmota_store::action::block_on(async {
    /// let mut events = store.live::<City>().subscribe().await?;
    /// let snapshot = events.next().await?.expect("the store is open");
    /// drop(events); // the connection was lost
    /// store.insert(&city("Bourges", 64_000)).await?;
    ///
    /// let mut events = store.live::<City>().subscribe_from(snapshot.position()).await?;
    /// let Some(LiveEvent::Patch { patches, .. }) = events.next().await? else { unreachable!() };
    /// assert!(matches!(&*patches, [RowPatch::Add { index: 0, row }] if row.name == "Bourges"));
    /// # Ok::<(), marmota_model::Error>(())
    /// # })?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Store::live_rows`].
    pub async fn subscribe_from(self, point: impl Into<ResumePoint>) -> Result<LiveStream<M>> {
        self.begin(Some(point.into())).await
    }

    async fn begin(self, from: Option<ResumePoint>) -> Result<LiveStream<M>> {
        let table = self.store.registry().of::<M>()?;
        let rows = self.store.live_rows(table, self.query, self.counts, from).await?;
        Ok(LiveStream { rows, model: PhantomData })
    }
}

impl<M: Model> LiveStream<M> {
    /// Waits for the next event. `None` after the store was closed. The future can be dropped
    /// without a loss.
    ///
    /// # Errors
    /// Those of the engine, if the rows had to be read again; that of a row that is not one of the
    /// model.
    pub async fn next(&mut self) -> Result<Option<LiveEvent<M>>> {
        match self.rows.next().await? {
            None => Ok(None),
            Some(update) => update.event(|row| M::read(&LiveRows::borrowed(row))).map(Some),
        }
    }

    /// Returns the place at which a subscriber of the same query continues after an event.
    #[must_use]
    pub fn resume_point(&self, event: &LiveEvent<M>) -> ResumePoint {
        ResumePoint { position: event.position(), rights_tag: self.rows.rights_tag() }
    }

    /// Waits for the next event like [`Self::next`], and blocks the thread.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn next_run(&mut self) -> Result<Option<LiveEvent<M>>> {
        block_on(self.next())
    }
}
