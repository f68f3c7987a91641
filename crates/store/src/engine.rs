//! What an engine has to be: something that opens sessions, and sessions that
//! carry out operations.
//!
//! The contract is dyn-safe and poll-style: one virtual call an operation and
//! one a row. An engine that has its answer at once (memory, SQLite) gives it
//! inside [`Session::submit`]; one that has to wait (for a lock, for a
//! socket) gives a [`Ticket`], to be driven by [`Session::poll`]: by a future,
//! or by a thread that parks between polls ([`run`]). There is no second,
//! blocking engine.
//!
//! An outcome is written where the caller wants it. Handed up by value through
//! the layers it was copied five times, and each copy stalled on the bytes
//! just written: a tenth of a read by key.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use marmota_model::{Error, ErrorKind, Result, RowSink, Table};

use crate::backup::Copied;
use crate::durability::Durability;
use crate::invalidation_feed::InvalidationFeed;
use crate::lent::LentTables;
use crate::operation::{Operation, Outcome};
use crate::park::park_until;
use crate::plan::{Destructive, Plan};
use crate::statistics::EngineStatistics;

pub use crate::capability::{Capability, ReadsMeanwhile};
pub use crate::park::{Sleep, caller_blocks, sleep_on};
#[cfg(target_os = "linux")]
pub use crate::watch::{Happened, Source, Watch, Watched, Watcher, Watching, wake_at, watch_by};

/// An engine: process-wide, shared by all threads.
pub trait Engine: Send + Sync {
    /// What it is, does and guarantees. Final once [`Engine::migrate`] has succeeded:
    /// an engine that connects to a server learns of it there.
    fn capability(&self) -> &Capability;

    /// Says what has to change for the database to fit the tables, and changes
    /// nothing.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] for a database of a higher version.
    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan>;

    /// Carries out a new plan, all of it or nothing, as far as it loses nothing
    /// or that is allowed; gives the plan. Called before any operation on the
    /// tables; those that others refer to come first where they can.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] for what would lose data or
    /// cannot be done, with the way out.
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

    /// Lets sessions use a table as it is in the database, whose version is
    /// not looked at; changes nothing. False if there is no such table.
    ///
    /// For a table of the store's own, that is read before [`Engine::migrate`].
    ///
    /// # Errors
    /// What keeps the engine from finding it.
    fn open_table(&self, table: &Arc<Table>) -> Result<bool>;

    /// Opens a session.
    ///
    /// # Errors
    /// What keeps the engine from opening one.
    fn session(&self) -> Result<Box<dyn Session>>;

    /// Copies all that is committed to a new file of this name, and checks the
    /// copy. Others go on meanwhile. `progress` hears how many parts of how
    /// many are done.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] by an engine that cannot;
    /// [`ErrorKind::Engine`] for a database that is damaged.
    fn copy_to(&self, path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Copied> {
        let _ = (path, progress);
        let message = format!("the engine `{}` makes no backups", self.capability().name);
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// The databases that it is made of, with their names; none for an engine
    /// that is of one.
    fn databases(&self) -> Vec<(&str, &dyn Engine)> {
        Vec::new()
    }

    /// The names of the tables that the database has, with those that no model
    /// names, without the engine's own; `None` for an engine that cannot tell.
    ///
    /// # Errors
    /// What keeps it from reading them.
    fn existing_tables(&self) -> Result<Option<Vec<String>>> {
        Ok(None)
    }

    /// What it has done since it was opened; what an engine does not count is 0.
    fn statistics(&self) -> EngineStatistics {
        EngineStatistics::default()
    }

    /// What the SQL of another engine in the same store can see of this one.
    fn attach_source(&self) -> AttachSource {
        AttachSource::Nothing
    }

    /// Has the SQL of this engine see another one's tables. Called behind
    /// [`Engine::migrate`], before there is a session.
    ///
    /// # Errors
    /// What keeps them from being seen; [`marmota_model::ErrorKind::Conflict`]
    /// for a name that is taken.
    fn attach(&self, attached: AttachedDatabase) -> Result<()> {
        let _ = attached;
        Ok(())
    }

    /// Tells a store's cache from now on what others write to these tables: other
    /// processes, and whoever else uses the database. An engine that returns
    /// hears them, and says when it does not ([`InvalidationFeed::pause`]). Called once,
    /// behind [`Engine::migrate`], before there are sessions of others.
    ///
    /// One that does nothing is for a database that nobody else writes to.
    ///
    /// # Errors
    /// What keeps it from hearing them.
    fn subscribe_changes(&self, tables: &[Arc<Table>], feed: &Arc<InvalidationFeed>) -> Result<()> {
        let _ = (tables, feed);
        Ok(())
    }

    /// Makes everything durable and lets go of files. Operations fail with
    /// [`marmota_model::ErrorKind::Closed`] afterwards.
    ///
    /// # Errors
    /// What could not be made durable.
    fn close(&self) -> Result<()>;
}

/// Boxes an engine for [`crate::Store::builder`], which takes a boxed one as it
/// is. A box is not an engine itself: an implementation that passes calls on
/// would forget each method that is added with a default.
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

/// What an engine shows to the SQL of others.
#[derive(Clone)]
#[non_exhaustive]
pub enum AttachSource {
    /// Nothing.
    Nothing,
    /// Rows in memory, which [`Session::lend`] lends.
    Rows,
    /// What only engines of its own kind understand, such as a file.
    Own(Arc<dyn Any + Send + Sync>),
}

impl std::fmt::Debug for AttachSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::Rows => "rows in memory",
            Self::Own(_) => "what its own kind understands",
        })
    }
}

impl AttachSource {
    /// True for [`AttachSource::Rows`].
    #[must_use]
    pub const fn is_rows(&self) -> bool {
        matches!(self, Self::Rows)
    }
}

/// Another database of the same store, to be seen by an engine's SQL.
#[derive(Debug)]
pub struct AttachedDatabase {
    /// Its place in the store.
    pub place: usize,
    /// What it is called in front of its tables: `name.table`.
    pub name: String,
    /// Its tables.
    pub tables: Vec<Arc<Table>>,
    /// What it shows.
    pub shown: AttachSource,
}

/// Where operations are carried out. Used by one thread at a time; may move
/// between threads.
///
/// A session dropped inside a transaction undoes it.
pub trait Session: Send {
    /// Begins an operation, and ends it where that needs no waiting; what it
    /// did is written to `outcome`, which is as [`Outcome::default`] makes it.
    ///
    /// `durability` is given where the operation asks for another one than its
    /// store has; an engine that knows only one may leave it at that.
    ///
    /// # Errors
    /// What went wrong; then nothing was changed, unless the operation says
    /// otherwise.
    fn submit(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted>;

    /// Goes on with an operation that has to wait; wakes `context` when it
    /// is worth calling again. The operation and sink are the same as at
    /// [`Session::submit`] in meaning, though they may lie elsewhere.
    fn poll(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>>;

    /// Lends tables to a statement of another engine: they do not change until
    /// they are given back. None if a transaction of another session keeps one
    /// of them; `waker` is woken when it is worth asking again.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Unsupported`] for an engine that lends none.
    fn lend(&mut self, tables: &[&Table], waker: Option<&Waker>) -> Result<Option<LentTables>> {
        let _ = (tables, waker);
        Err(Error::new(ErrorKind::Unsupported, "this engine lends no tables"))
    }

    /// Gives up an operation that has to wait. It may take place or not, but
    /// if it does, then before any write that is submitted later, on whichever
    /// session, has succeeded, or it is told like another's ([`Engine::subscribe_changes`]).
    fn cancel(&mut self, ticket: Ticket);
}

/// Carries out an operation on a session that one holds; parks the thread
/// while it waits.
///
/// # Errors
/// As [`Session::submit`]; [`marmota_model::ErrorKind::Busy`] if it took too long.
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

/// How far [`Session::submit`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// It is done.
    Done,
    /// It has to wait.
    Waiting(Ticket),
}

/// An operation that waits in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);
