//! A store: a handle to an engine with its models, through which operations run.
//!
//! All handles to a store share its engine, its sessions and its layers ([`StoreCore`]). A handle
//! adds what belongs to its user: a transaction, an actor, rights, a session for statistics.

mod core;
mod counters;
mod exposure;
mod operations;
mod pending;
mod statistics;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, Table};

pub(crate) use self::core::{Background, StoreCore};
pub use self::pending::{Pending, Progress};
pub use self::statistics::Statistics;
use crate::contract::change::{Position, ReplicaRead};
use crate::contract::engine::{Capability, Engine};
use crate::contract::operation::{Answered, Idempotency, Once, OnceKey, Outcome};
use crate::layers::feed::ChangeFeed;
use crate::layers::handle::{HandleContext, Place};
use crate::layers::stack::LayerSettings;
use crate::layers::steps::before_hooks::BeforeHooks;
use crate::rights::Rights;
use crate::rows::prepare::WriteTimestamp;
use crate::rows::refusal::transaction_is_open;
use crate::rows::registry::Registry;

/// A handle to an engine with its models, through which operations run. The verbs ([`get`],
/// [`list`], [`insert`], …) are its methods.
///
/// It is cheap to clone and `Send + Sync`. A clone is another handle to the same store, and
/// [`Store::with_actor`] and [`Store::with_rights`] return handles whose operations have an actor
/// or limited rights. A [`Transaction`](crate::Transaction) derefs to a handle whose operations run
/// in the transaction, so a function that takes `&Store` also takes a transaction.
///
/// ```
/// # use marmota_derive::Model;
/// # use marmota_memory::Memory;
/// # use marmota_store::Store;
/// # #[derive(Clone, Debug, PartialEq, Model)]
/// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
/// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
/// # let store = Store::builder(Memory::new()).model::<City>().open()?;
/// /// Works on a store and in a transaction.
/// fn total(store: &Store) -> marmota_model::Result<i64> {
///     Ok(store.list::<City>().column(City::PEOPLE).run()?.iter().sum())
/// }
///
/// store.insert(&city("Bourges", 64_000)).run()?;
/// let in_transaction = store.transaction(|tx| {
///     tx.insert(&city("Lyon", 520_000)).run()?;
///     total(tx)
/// })?;
/// assert_eq!(in_transaction, total(&store)?);
/// # Ok::<(), marmota_model::Error>(())
/// ```
///
/// [`get`]: Store::get
/// [`list`]: Store::list
/// [`insert`]: Store::insert
#[derive(Clone)]
pub struct Store {
    // Dropped first: a transaction that outlives its store ends before the
    // engine is closed.
    handle: HandleContext,
    pub(crate) core: Arc<StoreCore>,
    /// True if operations go directly to a session: without rights, cache, history, counters and
    /// spans.
    is_plain: bool,
}

impl Store {
    pub(crate) fn new(
        engine: Box<dyn Engine>,
        registry: Registry,
        answers: Option<(Arc<Table>, Idempotency)>,
        settings: LayerSettings,
    ) -> Self {
        let core = StoreCore::new(engine, registry, answers, settings);
        Self::of(Arc::new(core), HandleContext::of_store())
    }

    /// Returns a handle without limits to a store.
    pub(crate) fn of_core(core: Arc<StoreCore>) -> Self {
        Self::of(core, HandleContext::of_store())
    }

    /// Returns a handle to the same store outside of transactions, without an actor.
    pub(crate) fn outside(&self) -> Self {
        Self::of_core(Arc::clone(&self.core))
    }

    /// Returns the change feed.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the store records no changes.
    pub(crate) fn feed(&self) -> Result<&Arc<ChangeFeed>> {
        self.core.feed().ok_or_else(|| {
            let message = "the store records no changes; open it with `StoreBuilder::changes`, or \
                           start the program with `serve --changes`";
            Error::new(ErrorKind::Unsupported, message)
        })
    }

    /// Returns a handle with this context to a store.
    pub(crate) fn in_context(core: Arc<StoreCore>, handle: HandleContext) -> Self {
        Self::of(core, handle)
    }

    fn of(core: Arc<StoreCore>, handle: HandleContext) -> Self {
        let is_plain = core.layers.is_plain(&handle);
        Self { handle, core, is_plain }
    }

    /// Returns another handle to this store, with this context.
    fn with_handle(&self, handle: HandleContext) -> Self {
        Self::of(Arc::clone(&self.core), handle)
    }

    pub(crate) fn engine(&self) -> &dyn Engine {
        &*self.core.layers.sessions().engine
    }

    /// Returns the rights; `None` if everything is allowed.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// assert!(store.rights().is_none());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub const fn rights(&self) -> Option<&Arc<Rights>> {
        self.handle.rights.as_ref()
    }

    /// Returns the tables.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let names: Vec<&str> = store.registry().tables().iter().map(|table| table.name()).collect();
    /// assert_eq!(names, ["city"]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.core.registry
    }

    /// Returns the table called `name`.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// assert_eq!(store.table("city")?.fields().len(), 3);
    /// assert!(store.table("town").is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] with the names of the existing tables.
    pub fn table(&self, name: &str) -> Result<Arc<Table>> {
        self.registry().table(name).cloned()
    }

    /// Returns the settings with which a batch is executed once. Its answer is made by `answer` and
    /// stored, or is the stored one; it is written to `answered`.
    ///
    /// ```
    /// use marmota_memory::Memory;
    /// use marmota_store::operation::{Fingerprint, OnceKey};
    /// use marmota_store::{Idempotency, Store};
    ///
    /// let store = Store::builder(Memory::new()).idempotency(Idempotency::default()).open()?;
    /// let key = OnceKey::new("import-2024-05".to_owned(), &Fingerprint::default())?;
    /// let (mut encode, mut answered) = (|_: &[_]| Vec::new(), None);
    /// // A part of `Operation::Batch`.
    /// let once = store.once(&key, &mut encode, &mut answered)?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the store keeps no answers.
    pub fn once<'a>(
        &'a self,
        key: &'a OnceKey,
        answer: &'a mut dyn FnMut(&[Result<Outcome>]) -> Vec<u8>,
        answered: &'a mut Option<Answered>,
    ) -> Result<Once<'a>> {
        let Some((table, limits)) = &self.core.answers else {
            let message = "the store does not accept idempotency keys; start the program with \
                           `serve --idempotency`, or open the store with \
                           `StoreBuilder::idempotency`";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let key = Cow::Borrowed(key);
        Ok(Once { table, limits: *limits, key, answer, answered })
    }

    /// Returns the timestamp of a write, if the table has a field for it: the current time, or in a
    /// transaction that of its first write, as in SQL.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Timestamp, ValueRef};
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, Model)]
    /// # struct Page { id: i64, #[model(updated_at)] changed: Timestamp }
    /// # let store = Store::builder(Memory::new()).model::<Page>().open()?;
    /// let pages = store.table("page")?;
    /// assert!(matches!(store.stamp(&pages).value(), ValueRef::Timestamp(_)));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn stamp(&self, table: &Table) -> WriteTimestamp {
        WriteTimestamp::by(table, || self.handle.time())
    }

    /// Returns the engine's features and guarantees.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// assert_eq!(store.capability().name, "memory");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn capability(&self) -> &Capability {
        self.engine().capability()
    }

    /// Returns true if the database follows another one, which alone is written to
    /// ([`CommitSink::is_replica`](crate::log_copy::CommitSink::is_replica)). All writes and
    /// transactions fail with [`ErrorKind::Busy`].
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String }
    /// let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// assert!(!store.is_replica());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn is_replica(&self) -> bool {
        self.core.is_replica.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Returns true if the store may change rows of a table before they are written: it has hooks
    /// ([`StoreBuilder::before`](crate::StoreBuilder::before)), default expressions, computed fields
    /// or generated columns. Then a row that was written may have other values than the write, and
    /// has to be read to be known.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, Model)]
    /// # struct City { id: i64, name: String }
    /// let builder = Store::builder(Memory::new()).model::<City>();
    /// let store = builder.before::<City>(|_| Ok(())).open()?;
    /// assert!(store.has_hooks(&*store.table("city")?));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn has_hooks(&self, table: &Table) -> bool {
        let has_hooks = |hooks: &BeforeHooks| hooks.has(table.original());
        table.has_determined_values()
            || self.core.layers.before_hooks.as_deref().is_some_and(has_hooks)
    }

    /// Returns the same store without its cache: the engine executes reads by key.
    ///
    /// A cached row can be older than a write of another process of which the cache was not notified
    /// yet.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, Model)]
    /// # struct City { id: i64, name: String }
    /// let store = Store::builder(Memory::new()).model::<City>().cache(1 << 20).open()?;
    /// let id = store.insert(&City { id: 0, name: "Bourges".to_owned() }).run()?;
    /// for _ in 0..3 {
    ///     store.without_cache().get::<City>(id).run()?;
    /// }
    /// let stats = store.cache_stats().expect("it has a cache");
    /// assert_eq!((stats.hits, stats.misses), (0, 0));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn without_cache(&self) -> Self {
        self.with_handle(HandleContext { skips_cache: true, ..self.handle.clone() })
    }

    /// Returns the same store, whose reads outside of transactions are executed by a replica, if the
    /// database has one: on PostgreSQL a standby among the servers of the URL. Without a replica
    /// that can be reached, the primary executes them, as it does all else: writes, transactions,
    /// raw SQL and live queries.
    ///
    /// A replica may be older than an acknowledged write; see
    /// [`Store::prefer_replica_after`]. The reads use no cached rows.
    /// [`Outcome::from_replica`](crate::operation::Outcome::from_replica) is true for a read that one has
    /// executed.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, Model)]
    /// # struct City { id: i64, name: String }
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let cities = store.prefer_replica().list::<City>().run()?;
    /// # assert!(cities.is_empty());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn prefer_replica(&self) -> Self {
        self.with_replica(ReplicaRead::default())
    }

    /// Returns the same store as [`Store::prefer_replica`], whose reads see the commit at
    /// `position`, and all commits before it. A replica that has not applied them is waited for,
    /// for at most `wait_max` from now on; then the primary executes the read.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # use marmota_store::change::ChangeRetention;
    /// # #[derive(Clone, Debug, Model)]
    /// # struct City { id: i64, name: String }
    /// # let builder = Store::builder(Memory::new()).model::<City>();
    /// # let store = builder.changes(ChangeRetention::default()).open()?;
    /// store.insert(&City { id: 0, name: "Lyon".to_owned() }).run()?;
    /// let store = store.prefer_replica_after(store.position()?, Duration::from_secs(1))?;
    /// assert_eq!(store.count::<City>().run()?, 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a position of another database, [`ErrorKind::Unsupported`] if the
    /// store records no changes.
    pub fn prefer_replica_after(&self, position: Position, wait_max: Duration) -> Result<Self> {
        self.feed()?.check(position)?;
        let after = Some((position.commit_number(), Instant::now() + wait_max));
        Ok(self.with_replica(ReplicaRead { after }))
    }

    fn with_replica(&self, replica: ReplicaRead) -> Self {
        let replica = Some(replica);
        self.with_handle(HandleContext { skips_cache: true, replica, ..self.handle.clone() })
    }

    /// Returns the version of a table: a number that changes with every write to it, and that no
    /// later version has again as long as the store is open. `None` while a write is in progress,
    /// and for a store without a cache.
    ///
    /// Data that is read between two calls with the same result is the content of the table at that
    /// version.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, Model)]
    /// # struct City { id: i64, name: String }
    /// let store = Store::builder(Memory::new()).model::<City>().cache(1 << 20).open()?;
    /// let cities = store.table("city")?;
    /// let before = store.table_version(&cities);
    /// store.insert(&City { id: 0, name: "Bourges".to_owned() }).run()?;
    /// assert_ne!(store.table_version(&cities), before);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn table_version(&self, table: &Table) -> Option<u64> {
        let cache = self.core.layers.cache.as_ref().filter(|_| !self.handle.skips_cache)?;
        cache.version(table.original())
    }

    /// Returns true until the store is closed.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// assert!(store.is_open());
    /// store.close()?;
    /// assert!(!store.is_open());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.core.layers.sessions().check_open().is_ok()
    }

    /// Returns a number that no other store of this process has or had.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let other = Store::builder(Memory::new()).open()?;
    /// assert_ne!(store.number(), other.number());
    /// assert_eq!(store.number(), store.clone().number());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn number(&self) -> u64 {
        self.core.number
    }

    /// Returns the same store with `actor` as the author of its writes, also in its transactions.
    /// The history of audited models ([`Store::history`]) names the actor. The call is cheap enough
    /// for each request of a server. On a handle of a transaction, the new handle belongs to it as
    /// well.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, Model)]
    /// # #[model(audit)]
    /// # struct City { id: i64, name: String }
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let bourges = City { id: 0, name: "Bourges".to_owned() };
    /// let id = store.with_actor("ann").insert(&bourges).run()?;
    /// let entries = store.history::<City>(id).run()?;
    /// assert_eq!(entries[0].actor.as_deref(), Some("ann"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn with_actor(&self, actor: impl Into<Arc<str>>) -> Self {
        let actor = Some(actor.into());
        self.with_handle(HandleContext { actor, ..self.handle.clone() })
    }

    /// Returns the same store for a caller with limited rights. Every operation through it, also in
    /// its transactions, is refused or narrowed by these rights ([`crate::rights`]), and entered in
    /// the history under the caller's name. On a handle of a transaction, the new handle belongs to
    /// it as well.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// use marmota_store::rights::{Grant, Right, Rights};
    ///
    /// store.insert_many(&[city("Bourges", 64_000), city("Lyon", 520_000)]).run()?;
    /// let towns = Grant::new("city", &[Right::Read]).rule("people < 100000");
    /// let visitor = store.with_rights(Rights::new(store.registry(), None, &[towns])?);
    /// assert_eq!(visitor.count::<City>().run()?, 1);
    /// assert!(visitor.delete::<City>(1).run().is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn with_rights(&self, rights: Arc<Rights>) -> Self {
        let actor = rights.caller().map(|caller| Arc::from(&*caller.name));
        let rights = Some(rights);
        self.with_handle(HandleContext { actor, rights, ..self.handle.clone() })
    }

    /// Returns a number for the rows of a table that are visible here: two stores return the same
    /// number only if they may read the same rows at the same [`Store::table_version`]. `None` if
    /// that alone does not determine the visible rows.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let cities = store.table("city")?;
    /// assert_eq!(store.read_view_id(&cities), Some(0), "all rows are visible");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn read_view_id(&self, table: &Table) -> Option<u64> {
        self.rights().map_or(Some(0), |rights| rights.read_number(table))
    }

    pub(crate) fn watch(&self, background: &Arc<dyn Background>) {
        self.core.watch(background);
    }

    /// Returns true if no other handle to it exists.
    pub(crate) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.core) == 1
    }

    /// Makes everything durable and releases files. Writes that a background batch has accepted are
    /// executed first. Dropping the last handle does the same, but cannot report errors.
    ///
    /// The store is closed for all its handles. While a transaction is open, this fails with
    /// [`ErrorKind::Busy`] after a few seconds, and the store stays open.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// store.insert(&city("Bourges", 64_000)).run()?;
    /// store.close()?;
    /// assert!(store.count::<City>().run().is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error if the data could not be made durable.
    pub fn close(&self) -> Result<()> {
        self.core.flush();
        self.core.close()
    }

    /// Returns a handle whose operations run in a new transaction with a separate session. The
    /// transaction has not begun yet.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if this handle belongs to a transaction itself; an error if the
    /// engine cannot open a session.
    pub(crate) fn for_transaction(&self) -> Result<Self> {
        self.check_outside()?;
        let place = Place::Transaction(Arc::new(self.core.layers.sessions().transaction()?));
        Ok(self.with_handle(HandleContext { place, ..self.handle.clone() }))
    }

    /// Checks that this handle does not belong to a transaction.
    pub(crate) fn check_outside(&self) -> Result<()> {
        match self.handle.place {
            Place::Thread => Ok(()),
            Place::Transaction(_) => Err(transaction_is_open()),
        }
    }

    /// Ends the transaction of this handle, for all handles to it.
    pub(crate) fn end_transaction(&self) {
        if let Place::Transaction(transaction) = &self.handle.place {
            self.core.layers.sessions().end(transaction);
        }
    }

    /// Sets the actor of the following operations.
    pub(crate) fn set_actor(&mut self, actor: Arc<str>) {
        self.handle.actor = Some(actor);
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = match self.handle.place {
            Place::Thread => "store",
            Place::Transaction(_) => "transaction",
        };
        write!(f, "{place} on {}", self.engine().capability().name)
    }
}
