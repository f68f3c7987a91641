//! The contract of an engine, which opens sessions, and of sessions, which execute operations.
//!
//! The contract is dyn-safe and poll-style: one virtual call for each operation and one for each
//! row. An engine that has its answer at once (memory, SQLite) returns it from [`Session::submit`].
//! One that has to wait (for a lock or a socket) returns a [`Ticket`], which a future, or a thread
//! that parks between polls ([`run`]), drives with [`Session::poll`]. There is no second, blocking
//! kind of engine.
//!
//! # Opening and closing
//! The store calls an engine in this order:
//!
//! ```text
//!  Engine::capability                    any time
//!  Engine::copy_log                      if the log is copied elsewhere
//!  Engine::open_table                    internal tables, before the database may change
//!  Engine::plan -> Engine::migrate       the tables of all models
//!  Engine::record_changes                if the store has a change feed
//!  Engine::subscribe_changes             if the store has a cache
//!  Engine::session                       for threads, and for each transaction
//!    Session::submit, poll, cancel ...   the sessions are used and dropped
//!  Engine::close                         later calls fail as `Closed`
//! ```
//!
//! # One operation
//! ```text
//!  submit ---- Ok(Done) -----------------------> `outcome` is valid; no ticket exists
//!    |  \----- Err(e) -------------------------> nothing was changed; no ticket exists
//!    |
//!    Ok(Waiting(ticket))
//!    v
//!  poll <----------------------------------+
//!    |  \---- Pending: the engine keeps the waker, and wakes it when a poll makes sense
//!    |         |
//!    |         +--- the caller loses interest ---> cancel(ticket); the ticket is spent
//!    v
//!  Ready(Ok)  -> `outcome` is valid; the ticket is spent
//!  Ready(Err) -> nothing was changed; the ticket is spent
//! ```
//!
//! # Rules for implementers
//! 1. `submit` and `poll` MUST NOT block the thread, as it may be an event loop. Work that takes
//!    longer than about 20 ms SHOULD move to a [`ThreadPool`](crate::thread_pool::ThreadPool) or be
//!    split over several polls. If [`caller_blocks`] returns true, the engine MAY take its time.
//! 2. An operation MUST take effect completely or not at all, including [`Operation::InsertMany`],
//!    [`Operation::UpdateMany`] and [`Operation::DeleteWhere`].
//! 3. An error inside a transaction MUST leave the transaction usable: only the failed operation is
//!    undone.
//! 4. A session MUST accept further operations while earlier ones wait; each has its own ticket
//!    ([`InFlight`](crate::in_flight::InFlight) makes them). A poll with a spent ticket MUST return
//!    [`not_waiting`](crate::refusal::not_waiting).
//! 5. `poll` MUST register the waker of the *last* call before it returns `Pending`.
//! 6. A sink MUST be called only during `submit` or `poll`, with one value for each field of the
//!    table, and MUST NOT be called again after it has returned `Break`.
//! 7. The outcome of every write MUST have its number of rows: history entries are made only for
//!    writes with [`Outcome::rows`] above 0.
//! 8. With [`Durability::Full`] success MUST NOT be reported before the write is on the disk.
//! 9. An engine MUST NOT repeat the checks of the store: rows were checked against the rules, keys,
//!    timestamps and defaults are filled in, and the caller's rights were applied. It MUST check
//!    uniqueness, then references.
//!
//! # Errors
//! The kinds are part of the contract: callers and the conformance suite compare them.
//!
//! | situation | kind | constructor |
//! |---|---|---|
//! | no row has the key (not for `Get`, which lends no row) | `NotFound` | [`refusal::not_found`](crate::refusal::not_found) |
//! | the row has another version than expected | `Stale` | [`refusal::stale`](crate::refusal::stale) |
//! | a unique value is taken; a violation names each field, rule `unique` | `Conflict` | [`refusal::with_violations`](crate::refusal::with_violations) |
//! | a deleted row is still referred to | `Conflict` | [`refusal::still_referred_to`](crate::refusal::still_referred_to) |
//! | a reference to a missing row; rule `reference` | `Invalid` | [`prepare::no_target`](crate::prepare::no_target) |
//! | a step of a transaction without one, or a second begin | `Invalid` | [`refusal::no_transaction`](crate::refusal::no_transaction), [`refusal::transaction_is_open`](crate::refusal::transaction_is_open) |
//! | a lock or a connection was not free in time | `Busy` | [`refusal::table_kept`](crate::refusal::table_kept) |
//! | an operation that the engine does not have | `Unsupported` | [`sql::no_sql`](crate::sql::no_sql) for SQL |
//! | the disk is full or failing; nothing was written | `Io` | |
//! | it is unknown whether the write was executed | `Lost` | |
//! | the engine is closed | `Closed` | |
//! | anything else that the database reports | `Engine` | |
//!
//! # An engine that waits
//! This session delays each operation by a millisecond, and then passes it to another session. An
//! engine that waits for a socket has the same shape.
//!
//! ```
//! use std::sync::Arc;
//! use std::task::{Context, Poll, ready};
//! use std::time::{Duration, Instant};
//!
//! use marmota_model::{Result, RowSink};
//! use marmota_store::Durability;
//! use marmota_store::engine::{Session, Submitted, Ticket, wake_at};
//! use marmota_store::in_flight::InFlight;
//! use marmota_store::operation::{Operation, Outcome};
//! use marmota_store::refusal;
//!
//! struct Delayed {
//!     inner: Box<dyn Session>,
//!     waiting: InFlight<Stage>,
//! }
//!
//! #[derive(Clone, Copy)]
//! enum Stage {
//!     Until(Instant),
//!     Inner(Ticket),
//! }
//!
//! impl Session for Delayed {
//!     fn submit(
//!         &mut self,
//!         _: Option<Durability>,
//!         _: &mut Operation<'_>,
//!         _: &mut dyn RowSink,
//!         _: &mut Outcome,
//!     ) -> Result<Submitted> {
//!         let due = Instant::now() + Duration::from_millis(1);
//!         Ok(Submitted::Waiting(self.waiting.add(Stage::Until(due))))
//!     }
//!
//!     fn poll(
//!         &mut self,
//!         ticket: Ticket,
//!         operation: &mut Operation<'_>,
//!         sink: &mut dyn RowSink,
//!         outcome: &mut Outcome,
//!         context: &mut Context<'_>,
//!     ) -> Poll<Result<()>> {
//!         let Some(&stage) = self.waiting.get(ticket) else {
//!             return Poll::Ready(Err(refusal::not_waiting()));
//!         };
//!         let done = match stage {
//!             Stage::Until(due) if Instant::now() < due => {
//!                 // Without a waker the operation would never be polled again.
//!                 if !wake_at(due, context.waker().clone()) {
//!                     context.waker().wake_by_ref();
//!                 }
//!                 return Poll::Pending;
//!             }
//!             Stage::Until(_) => match self.inner.submit(None, operation, sink, outcome) {
//!                 Ok(Submitted::Waiting(inner)) => {
//!                     self.waiting[ticket] = Stage::Inner(inner);
//!                     return self.poll(ticket, operation, sink, outcome, context);
//!                 }
//!                 Ok(Submitted::Done) => Ok(()),
//!                 Err(error) => Err(error),
//!             },
//!             Stage::Inner(inner) => {
//!                 ready!(self.inner.poll(inner, operation, sink, outcome, context))
//!             }
//!         };
//!         self.waiting.remove(ticket);
//!         Poll::Ready(done)
//!     }
//!
//!     fn cancel(&mut self, ticket: Ticket) {
//!         if let Some(Stage::Inner(inner)) = self.waiting.remove(ticket) {
//!             self.inner.cancel(inner);
//!         }
//!     }
//! }
//!
//! # use marmota_memory::Memory;
//! # use marmota_model::{Field, Kind, NoRows, Role, Schema, Table, ValueRef};
//! # use marmota_store::engine::{self, Engine};
//! # let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
//! # let table = Arc::new(Table::new(city)?);
//! # let memory = Memory::new();
//! # memory.prepare(&[Arc::clone(&table)], 0)?;
//! let mut session = Delayed { inner: memory.session()?, waiting: InFlight::new() };
//! let row = [ValueRef::Absent];
//! let done = engine::run(&mut session, &mut Operation::insert(&table, &row), &mut NoRows)?;
//! assert_eq!(done.rows, 1);
//! # Ok::<(), marmota_model::Error>(())
//! ```
//!
//! An outcome is written directly to the caller's variable. Returned by value through the layers,
//! it was copied five times, and each copy stalled on the bytes just written: this took a tenth of
//! a read by key.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use marmota_model::{Error, ErrorKind, Result, RowSink, Table};

use crate::contract::borrowed_table::BorrowedTables;
use crate::contract::change::{ChangeRecorder, RecordedRows, ReplicaRead};
use crate::contract::commit_sink::CommitSink;
use crate::contract::durability::Durability;
use crate::contract::existing::ExistingTable;
use crate::contract::invalidation_feed::InvalidationFeed;
use crate::contract::operation::{Operation, Outcome};
use crate::contract::plan::{Destructive, Plan};
use crate::contract::statistics::EngineStatistics;
use crate::runtime::block_on::park_until;

pub use crate::contract::capability::{Capability, ReadsMeanwhile};
pub use crate::runtime::block_on::{Sleep, caller_blocks, sleep_on};
pub use crate::runtime::in_flight::Ticket;
#[cfg(target_os = "linux")]
pub use crate::runtime::watch::{Happened, Source, Watch};
#[cfg(target_os = "linux")]
pub use crate::runtime::watcher::{Watched, Watcher, Watching, wake_at, watch_by};

/// An engine: process-wide, shared by all threads.
///
/// A store has one engine, from its opening to [`Engine::close`]. Six methods have to be
/// implemented: `capability`, `plan`, `migrate`, `open_table`, `session` and `close`, of which
/// `plan` and `migrate` may be trivial for an engine without stored schemas. The others have
/// defaults that suit an engine without the feature. The guide's chapter on engines has a complete
/// example.
///
/// ```
/// use std::sync::Arc;
/// use marmota_memory::Memory;
/// use marmota_model::{Field, Kind, NoRows, Role, Schema, Table, Value, ValueRef};
/// use marmota_store::engine::{self, Engine};
/// use marmota_store::operation::{Keys, Operation};
///
/// let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("name", Kind::TEXT)];
/// let table = Arc::new(Table::new(Schema::new("city", fields))?);
/// let engine = Memory::new();
/// engine.prepare(&[Arc::clone(&table)], 0)?;
///
/// let mut session = engine.session()?;
/// let row = [ValueRef::Absent, ValueRef::Text("Turin")];
/// let outcome = engine::run(&mut *session, &mut Operation::insert(&table, &row), &mut NoRows)?;
/// assert_eq!(outcome.keys, Keys::One(Value::Int(1)));
/// engine.close()?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub trait Engine: Send + Sync {
    /// Returns the engine's features and guarantees. They are final once [`Engine::migrate`] has
    /// succeeded: an engine that connects to a server learns them there.
    fn capability(&self) -> &Capability;

    /// Returns the changes that the database needs to fit the tables, and changes nothing.
    ///
    /// `tables` are those of all models and of the store itself; `version` is
    /// [`StoreBuilder::schema_version`](crate::StoreBuilder::schema_version). Default: 0. It MUST
    /// NOT create the database.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] for a database of a higher version.
    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan>;

    /// Makes a new plan and executes it, all of it or nothing; returns the plan. A step that loses
    /// data has to be allowed by `destructive`. Called before any operation on the tables. Tables
    /// that others refer to come first where possible.
    ///
    /// `tables` may have other addresses at each call: an engine finds a table by its name, and may
    /// use the address as a shortcut afterwards ([`KnownTables`](crate::tables::KnownTables)).
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] for a step that would lose data or cannot be executed;
    /// the message names the way out.
    fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan>;

    /// [`Engine::migrate`] without destructive steps.
    ///
    /// # Errors
    /// As [`Engine::migrate`].
    fn prepare(&self, tables: &[Arc<Table>], version: u32) -> Result<()> {
        self.migrate(tables, version, &Destructive::default()).map(drop)
    }

    /// Lets sessions use a table as it is in the database, without checking the database's version,
    /// and changes nothing. Returns false if there is no such table.
    ///
    /// This is for internal tables of the store that are read before [`Engine::migrate`].
    ///
    /// # Errors
    /// An error if the database cannot be read.
    fn open_table(&self, table: &Arc<Table>) -> Result<bool>;

    /// Opens a session.
    ///
    /// A store opens at most 64 sessions, which its threads share one at a time, and one for each
    /// transaction and each piece of background work. It SHOULD be cheap: an engine that connects to
    /// a server connects at the first operation, or takes a connection from its pool.
    ///
    /// # Errors
    /// An error if no session can be opened.
    fn session(&self) -> Result<Box<dyn Session>>;

    /// Copies all committed data to a new file with this name, and checks the copy. Other sessions
    /// can read and write meanwhile. `progress` receives how many parts of how many are done.
    ///
    /// The file MUST be complete and valid, but need not be synced: the store syncs and renames it,
    /// and writes the manifest ([`crate::backup`]).
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the engine makes no backups; [`ErrorKind::Engine`] if the
    /// database is damaged.
    fn copy_to(&self, path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Copied> {
        let _ = (path, progress);
        let message = format!("the engine `{}` does not support backups", self.capability().name);
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// Returns the databases that it consists of, with their names; empty for an engine with only
    /// one.
    fn databases(&self) -> Vec<(&str, &dyn Engine)> {
        Vec::new()
    }

    /// Returns the names of all tables of the database, including those without a model but not the
    /// engine's internal ones; `None` for an engine that cannot list them.
    ///
    /// # Errors
    /// An error if they cannot be read.
    fn existing_tables(&self) -> Result<Option<Vec<String>>> {
        Ok(None)
    }

    /// Returns the structure of all tables and views of the database, without those of the engine and
    /// of the store; `None` for an engine without stored schemas. It may read all rows, and changes
    /// nothing.
    ///
    /// # Errors
    /// An error if the structure cannot be read.
    fn existing_structure(&self) -> Result<Option<Vec<ExistingTable>>> {
        Ok(None)
    }

    /// Describes the connections of other processes of this program to the database, for an error.
    /// Empty for an engine that cannot know them, or that no other process can use meanwhile.
    ///
    /// # Errors
    /// An error if they cannot be listed.
    fn other_processes(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Returns the engine's counters since it was opened; one that the engine does not count is 0.
    fn statistics(&self) -> EngineStatistics {
        EngineStatistics::default()
    }

    /// Returns the part of this database that the SQL of another engine in the same store can see.
    fn attach_source(&self) -> AttachSource {
        AttachSource::Nothing
    }

    /// Makes the tables of another engine visible to the SQL of this one. Called after
    /// [`Engine::migrate`], before there is a session.
    ///
    /// # Errors
    /// An error if the tables cannot be attached; [`marmota_model::ErrorKind::Conflict`] for a name
    /// that is taken.
    fn attach(&self, attached: AttachedDatabase) -> Result<()> {
        let _ = attached;
        Ok(())
    }

    /// Subscribes a store's cache to the writes of others to these tables: those of other processes
    /// and other users of the database. Once this has returned, the engine reports such writes, and
    /// calls [`InvalidationFeed::pause`] while it cannot. Called once, after [`Engine::migrate`],
    /// before there are sessions of others.
    ///
    /// The default does nothing, for a database that only this process writes to.
    ///
    /// # Errors
    /// An error if the engine cannot receive these notifications.
    fn subscribe_changes(&self, tables: &[Arc<Table>], feed: &Arc<InvalidationFeed>) -> Result<()> {
        let _ = (tables, feed);
        Ok(())
    }

    /// Records the changes of the recorder's tables from now on, with a row in the table of commits
    /// for each transaction that has any. The store calls it once, before it is used. Sets
    /// [`Outcome::commit`] of what commits.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the engine has no change feed.
    fn record_changes(&self, recorder: &Arc<ChangeRecorder>) -> Result<()> {
        let _ = recorder;
        let message = format!("the engine `{}` has no change feed", self.capability().name);
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// Returns the reader of changes in the encoding of this engine, for an engine with
    /// [`Capability::shared_commits`].
    fn recorded_rows(&self) -> Option<Arc<dyn RecordedRows>> {
        None
    }

    /// Returns the transactions that may have taken a number of a commit and have not ended, for an
    /// engine with [`Capability::shared_commits`]. Each transaction has another value. A commit
    /// whose transaction is not among them is visible to later reads, or will never be.
    ///
    /// It may block.
    ///
    /// # Errors
    /// Those of the database.
    fn open_commits(&self) -> Result<Vec<u64>> {
        Ok(Vec::new())
    }

    /// Notifies other processes of new commits, for an engine with [`Capability::shared_commits`].
    /// It may block.
    ///
    /// # Errors
    /// Those of the database.
    fn announce_commits(&self) -> Result<()> {
        Ok(())
    }

    /// Reports all commits from now on to a sink, which copies the log elsewhere, and lets it
    /// refuse each write. The store calls it once, before any other method but `capability`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the engine has no log that can be copied; those of
    /// [`CommitSink::attach`].
    fn copy_log(&self, sink: Arc<dyn CommitSink>) -> Result<()> {
        let _ = sink;
        let message = format!(
            "the engine `{}` cannot be replicated: use a file of SQLite or of the \
             memory engine",
            self.capability().name
        );
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// Makes everything durable and releases files. Operations fail with
    /// [`marmota_model::ErrorKind::Closed`] afterwards.
    ///
    /// # Errors
    /// An error if the data could not be made durable; [`ErrorKind::Busy`] while a transaction is
    /// open, if the engine cannot close under it. After `Busy` the engine stays open, and the call
    /// can be repeated.
    fn close(&self) -> Result<()>;
}

/// Boxes an engine for [`crate::Store::builder`], which accepts a boxed one as it is. A box is not
/// an engine itself: an implementation that forwards calls would miss each method that is added
/// with a default.
///
/// ```compile_fail
/// use marmota_store::engine::Engine;
///
/// fn takes_an_engine<E: Engine>() {}
/// takes_an_engine::<Box<dyn Engine>>();
/// ```
impl<E: Engine + 'static> From<E> for Box<dyn Engine> {
    fn from(engine: E) -> Self {
        Box::new(engine)
    }
}

/// The result of an engine's copy.
///
/// A [`Manifest`](crate::backup::Manifest) has the same fields, and the size and checksum of the
/// file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The engine: the scheme of its URL.
    pub engine: &'static str,
    /// The engine's own version.
    pub engine_version: String,
    /// The version of the models as a whole.
    pub schema_version: u32,
    /// True if the copy is encrypted, with the key of what was copied.
    pub encrypted: bool,
    /// The number of rows of each table.
    pub tables: BTreeMap<String, u64>,
}

/// The part of a database that an engine shows to the SQL of others.
///
/// A store with several databases passes it to [`Engine::attach`] of every engine with SQL. An
/// engine that does not know the content of [`AttachSource::Own`] ignores it.
#[derive(Clone)]
#[non_exhaustive]
pub enum AttachSource {
    /// Nothing.
    Nothing,
    /// Rows in memory, which [`Session::lend`] lends.
    Rows,
    /// Data that only engines of the same kind understand, such as a file.
    Own(Arc<dyn Any + Send + Sync>),
}

impl std::fmt::Debug for AttachSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::Rows => "rows in memory",
            Self::Own(_) => "engine-specific",
        })
    }
}

impl AttachSource {
    /// Returns true for [`AttachSource::Rows`].
    #[must_use]
    pub const fn is_rows(&self) -> bool {
        matches!(self, Self::Rows)
    }
}

/// Another database of the same store, which an engine's SQL is to see.
///
/// `shown` never is [`AttachSource::Own`] of an engine that is not the first with SQL: files are
/// visible only there.
#[derive(Debug)]
pub struct AttachedDatabase {
    /// Its index in the store.
    pub place: usize,
    /// The name in front of its tables: `name.table`.
    pub name: String,
    /// Its tables.
    pub tables: Vec<Arc<Table>>,
    /// The part of it that is visible.
    pub shown: AttachSource,
}

/// A session, which executes operations. It is used by one thread at a time and may move between
/// threads.
///
/// A session that is dropped inside a transaction rolls it back.
///
/// It has at most one transaction, between [`Operation::Begin`] and [`Operation::Commit`] or
/// [`Operation::Rollback`]; then all operations on the session belong to it. A session without a
/// transaction is shared by all futures of its thread, so that several operations may wait in it at
/// the same time.
pub trait Session: Send {
    /// Begins an operation, and ends it if it need not wait. Its result is written to `outcome`,
    /// which has to be equal to [`Outcome::default`].
    ///
    /// `durability` is set if the operation has another durability than its store; an engine that
    /// supports only one may ignore it.
    ///
    /// `operation`, `sink` and `outcome` are borrowed for this call only. If the operation has to
    /// wait, the session keeps no reference to them: the caller passes them again to
    /// [`Session::poll`]. So an engine that waits for a lock need not copy the operation; one that
    /// sends it to a server copies what it needs here.
    ///
    /// On an error the content of `outcome` is unspecified.
    ///
    /// # Errors
    /// The operation's error; then nothing was changed, unless the operation documents otherwise.
    fn submit(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted>;

    /// Submits a read that a replica of the database may execute, outside of transactions. Without a
    /// replica that can, the primary executes it. Any other operation is submitted as by
    /// [`Session::submit`], which is the default for all.
    ///
    /// # Errors
    /// Those of [`Session::submit`].
    fn submit_read(
        &mut self,
        replica: ReplicaRead,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        let _ = replica;
        self.submit(None, operation, sink, outcome)
    }

    /// Continues an operation that has to wait, and wakes `context` when another call makes sense.
    /// The operation and sink have the same meaning as at [`Session::submit`], but may be at
    /// another address.
    ///
    /// A spurious call is allowed at any time, and returns `Pending` if nothing has changed.
    ///
    /// # Errors
    /// Those of [`Session::submit`], as `Ready(Err(_))`; [`ErrorKind::Bug`] for a ticket that does
    /// not wait ([`not_waiting`](crate::refusal::not_waiting)).
    fn poll(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>>;

    /// Lends tables to a statement of another engine: they do not change until they are returned.
    /// Returns `None` if a transaction of another session holds one of them; then `waker` is woken
    /// when another call makes sense.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Unsupported`] if the engine lends no tables.
    fn lend(&mut self, tables: &[&Table], waker: Option<&Waker>) -> Result<Option<BorrowedTables>> {
        let _ = (tables, waker);
        Err(Error::new(ErrorKind::Unsupported, "this engine does not lend tables"))
    }

    /// Called with true before several reads by key that one call makes, and with false after them: the
    /// session may read all of them from one snapshot, made after the first call. By default it does
    /// not.
    fn share_snapshot(&mut self, is_shared: bool) {
        let _ = is_shared;
    }

    /// Sets the actor of the operations that are submitted after it, for the change feed. Called
    /// only if the engine records changes.
    fn set_actor(&mut self, actor: Option<&Arc<str>>) {
        let _ = actor;
    }

    /// Cancels an operation that has to wait. It may still be executed, but then before any write
    /// that is submitted later, on any session, has succeeded; or it is reported like a write of
    /// others ([`Engine::subscribe_changes`]).
    ///
    /// Called when a future is dropped before its end. A spent ticket is ignored. If the operation
    /// belongs to a transaction, the transaction stays open until it is committed, rolled back, or
    /// its session is dropped.
    fn cancel(&mut self, ticket: Ticket);
}

/// Executes an operation on a session, and parks the thread while it waits.
///
/// # Errors
/// Those of [`Session::submit`]; [`marmota_model::ErrorKind::Busy`] if it took too long.
///
/// It is for tests, tools and the store's own work. Programs use the verbs of a
/// [`Store`](crate::Store), which apply rights, history and the cache. Do not call it on a thread
/// of an event loop.
///
/// ```
/// # use std::sync::Arc;
/// # use marmota_memory::Memory;
/// # use marmota_model::{Field, Kind, NoRows, Role, Schema, Table};
/// use marmota_store::engine::{self, Engine};
/// use marmota_store::operation::Operation;
/// # let fields = vec![Field::new("id", Kind::I64).role(Role::Key)];
/// # let table = Arc::new(Table::new(Schema::new("city", fields))?);
/// # let engine = Memory::new();
/// # engine.prepare(&[Arc::clone(&table)], 0)?;
/// let mut session = engine.session()?;
/// let mut count = Operation::Count { table: &table, filter: None };
/// assert_eq!(engine::run(&mut *session, &mut count, &mut NoRows)?.rows, 0);
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub fn run(
    session: &mut dyn Session,
    operation: &mut Operation<'_>,
    sink: &mut dyn RowSink,
) -> Result<Outcome> {
    run_as(session, None, operation, sink)
}

/// [`run`] with a durability.
///
/// # Errors
/// Those of [`run`].
pub(crate) fn run_as(
    session: &mut dyn Session,
    durability: Option<Durability>,
    operation: &mut Operation<'_>,
    sink: &mut dyn RowSink,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    if let Submitted::Waiting(ticket) = session.submit(durability, operation, sink, &mut outcome)? {
        park_until(|context| session.poll(ticket, operation, sink, &mut outcome, context))?;
    }
    Ok(outcome)
}

/// The state of an operation after [`Session::submit`].
///
/// ```
/// use marmota_store::engine::{Submitted, Ticket};
///
/// let submitted = Submitted::Waiting(Ticket(7));
/// assert!(matches!(submitted, Submitted::Waiting(ticket) if ticket == Ticket(7)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// It is done, and the outcome is valid. There is no ticket to poll or to cancel.
    Done,
    /// It has to wait. The caller polls the ticket until it is ready, or cancels it.
    Waiting(Ticket),
}
