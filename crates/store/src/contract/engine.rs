//! The contract of an engine, which opens sessions, and of sessions, which execute operations.
//!
//! The contract is dyn-safe and poll-style: one virtual call for each operation and one for each
//! row. An engine that has its answer at once (memory, SQLite) returns it from [`Session::submit`].
//! One that has to wait (for a lock or a socket) returns a [`Ticket`], which a future, or a thread
//! that parks between polls ([`run`]), drives with [`Session::poll`]. There is no second, blocking
//! kind of engine.
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
use crate::contract::durability::Durability;
use crate::contract::invalidation_feed::InvalidationFeed;
use crate::contract::operation::{Operation, Outcome};
use crate::contract::plan::{Destructive, Plan};
use crate::contract::statistics::EngineStatistics;
use crate::runtime::park::park_until;

pub use crate::contract::capability::{Capability, ReadsMeanwhile};
pub use crate::runtime::in_flight::Ticket;
pub use crate::runtime::park::{Sleep, caller_blocks, sleep_on};
#[cfg(target_os = "linux")]
pub use crate::runtime::watch::{Happened, Source, Watch};
#[cfg(target_os = "linux")]
pub use crate::runtime::watcher::{Watched, Watcher, Watching, wake_at, watch_by};

/// An engine: process-wide, shared by all threads.
pub trait Engine: Send + Sync {
    /// Returns the engine's features and guarantees. They are final once [`Engine::migrate`] has
    /// succeeded: an engine that connects to a server learns them there.
    fn capability(&self) -> &Capability;

    /// Returns the changes that the database needs to fit the tables, and changes nothing.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] for a database of a higher version.
    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan>;

    /// Makes a new plan and executes it, all of it or nothing; returns the plan. A step that loses
    /// data has to be allowed by `destructive`. Called before any operation on the tables. Tables
    /// that others refer to come first where possible.
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
    /// # Errors
    /// An error if no session can be opened.
    fn session(&self) -> Result<Box<dyn Session>>;

    /// Copies all committed data to a new file with this name, and checks the copy. Other sessions
    /// can read and write meanwhile. `progress` receives how many parts of how many are done.
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

    /// Makes everything durable and releases files. Operations fail with
    /// [`marmota_model::ErrorKind::Closed`] afterwards.
    ///
    /// # Errors
    /// An error if the data could not be made durable.
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
pub trait Session: Send {
    /// Begins an operation, and ends it if it need not wait. Its result is written to `outcome`,
    /// which has to be equal to [`Outcome::default`].
    ///
    /// `durability` is set if the operation has another durability than its store; an engine that
    /// supports only one may ignore it.
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

    /// Continues an operation that has to wait, and wakes `context` when another call makes sense.
    /// The operation and sink have the same meaning as at [`Session::submit`], but may be at
    /// another address.
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

    /// Cancels an operation that has to wait. It may still be executed, but then before any write
    /// that is submitted later, on any session, has succeeded; or it is reported like a write of
    /// others ([`Engine::subscribe_changes`]).
    fn cancel(&mut self, ticket: Ticket);
}

/// Executes an operation on a session, and parks the thread while it waits.
///
/// # Errors
/// Those of [`Session::submit`]; [`marmota_model::ErrorKind::Busy`] if it took too long.
pub fn run(
    session: &mut dyn Session,
    operation: &mut Operation<'_>,
    sink: &mut dyn RowSink,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    if let Submitted::Waiting(ticket) = session.submit(None, operation, sink, &mut outcome)? {
        park_until(|context| session.poll(ticket, operation, sink, &mut outcome, context))?;
    }
    Ok(outcome)
}

/// The state of an operation after [`Session::submit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// It is done.
    Done,
    /// It has to wait.
    Waiting(Ticket),
}
