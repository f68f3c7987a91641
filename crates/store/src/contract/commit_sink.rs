//! The seam between an engine with a log and what copies the log elsewhere (`marmota-replication`).
//!
//! The engine reports each commit once it is in the log. Before it moves the log's content to the
//! database file, after which the log may be overwritten, the sink has to permit that.

use std::fmt::Debug;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use marmota_model::Result;

/// A commit that an engine has written to its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedCommit {
    /// The number in the head of the log that changes whenever the log is begun again.
    pub log_salt: u32,
    /// The number of pages in the log, including those of the commit.
    pub log_pages: u32,
    /// The number of the commit in the change feed, if changes are recorded.
    pub number: Option<NonZeroU64>,
}

/// Pages that replace those of a database, in one transaction.
#[derive(Clone, Copy, Debug)]
pub struct ReplacedPages<'p> {
    /// The size of a page in bytes.
    pub page_bytes: usize,
    /// The numbers of the pages, from 1.
    pub numbers: &'p [u32],
    /// The pages as they are in the file (encrypted, if the database is), in the order of `numbers`.
    pub bytes: &'p [u8],
    /// The number of pages of the database afterwards.
    pub database_pages: u32,
}

/// Passes pages to a function, in one transaction.
pub type FillPages<'f> =
    dyn FnMut(&mut dyn FnMut(ReplacedPages<'_>) -> Result<()>) -> Result<()> + 'f;

/// A database whose log is copied, as its [`CommitSink`] uses it.
pub trait LoggedDatabase: Debug + Send + Sync {
    /// Returns the path of the database's file. The log is next to it.
    fn path(&self) -> &Path;

    /// Replaces pages in one transaction, which readers see as a whole. `fill` is called once, and
    /// passes any number of pages to the function that it gets.
    ///
    /// # Errors
    /// [`Closed`](marmota_model::ErrorKind::Closed) after the engine is closed; those of a commit
    /// and of `fill`, after which nothing was changed.
    fn replace_pages(&self, fill: &mut FillPages<'_>) -> Result<()>;
}

/// Receives the commits of an engine, and decides whether it accepts writes.
///
/// The engine calls all methods except [`CommitSink::waits`] while no other commit is possible.
/// Pass an implementation to [`StoreBuilder::commit_sink`](crate::StoreBuilder::commit_sink).
pub trait CommitSink: Debug + Send + Sync {
    /// Called once, after the database was opened and before its first write.
    ///
    /// # Errors
    /// An error if the log cannot be copied; the store is not opened then.
    fn attach(&self, database: Arc<dyn LoggedDatabase>) -> Result<()>;

    /// Called before each write.
    ///
    /// # Errors
    /// The error of the write, if none is accepted.
    fn check(&self) -> Result<()>;

    /// Called after each commit, before it is answered.
    ///
    /// # Errors
    /// [`Lost`](marmota_model::ErrorKind::Lost) if the commit has to be copied before it is
    /// answered, and was not in time.
    fn committed(&self, commit: LoggedCommit) -> Result<()>;

    /// Returns true if [`CommitSink::committed`] waits, so that it must not be called on an event
    /// loop.
    fn waits(&self) -> bool;

    /// Called before the log's content is moved to the file. Returns false if the log is still
    /// needed.
    fn before_checkpoint(&self) -> bool;

    /// Called before the engine removes its log at its end. Returns false if the log must stay.
    fn before_close(&self) -> bool;

    /// Called after the engine is closed, with all files in their final state.
    fn closed(&self);

    /// Returns true if the database follows another one, so that the store must not change anything
    /// when it is opened.
    fn is_replica(&self) -> bool {
        false
    }
}
