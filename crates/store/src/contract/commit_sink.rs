//! The seam between an engine with a log and what copies the log elsewhere (`marmota-replication`).
//!
//! The engine reports each commit once it is in the log. Before it moves the log's content to the
//! database file, after which the log may be overwritten, the sink has to permit that.

use std::fmt::Debug;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result};

/// What the log of a database has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogKind {
    /// The changed pages of one file: the write-ahead log of SQLite, which is overwritten.
    #[default]
    Pages,
    /// Records of commits, in numbered files that are only appended to ([`log_path`]). The
    /// database's file is a snapshot that names the first log after it. A log is complete before
    /// the next one begins.
    Records,
}

/// A position in the logs of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The number of the log. [`LogKind::Pages`]: the number in its head that changes whenever the
    /// log is begun again. [`LogKind::Records`]: the number in the name of its file.
    pub log: u64,
    /// The length of the log: in pages, or in bytes for [`LogKind::Records`].
    pub length: u64,
}

/// A commit that an engine has written to its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedCommit {
    /// The end of the commit in the log.
    pub end: LogEnd,
    /// The number of the commit in the change feed, if changes are recorded.
    pub number: Option<NonZeroU64>,
}

/// Returns the path of a log with records, by the path of its database and its number.
///
/// ```
/// use std::path::{Path, PathBuf};
/// use marmota_store::log_copy::log_path;
/// assert_eq!(log_path(Path::new("data/app.mem"), 7), Path::new("data/app.mem.log.7"));
/// ```
#[must_use]
pub fn log_path(database: &Path, log: u64) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(format!(".log.{log}"));
    name.into()
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

/// A piece of a log with records.
#[derive(Clone, Copy, Debug)]
pub struct LogPiece<'p> {
    /// The number of the log.
    pub log: u64,
    /// The position in the log at which it begins.
    pub begin: u64,
    /// The bytes as they are in the log. The last record may be incomplete: the next piece continues
    /// it.
    pub bytes: &'p [u8],
}

/// A database whose log is copied, as its [`CommitSink`] uses it.
pub trait LoggedDatabase: Debug + Send + Sync {
    /// Returns the path of the database's file. The log is next to it.
    fn path(&self) -> &Path;

    /// Returns what its log has. Default: pages.
    fn log_kind(&self) -> LogKind {
        LogKind::Pages
    }

    /// Returns the end of a log with records.
    ///
    /// # Errors
    /// [`Closed`](marmota_model::ErrorKind::Closed) after the engine is closed,
    /// [`Unsupported`](marmota_model::ErrorKind::Unsupported) for a log of pages.
    fn log_end(&self) -> Result<LogEnd> {
        Err(unsupported("a log of pages is read without its engine"))
    }

    /// Writes the database's file again, so that only the log with the returned number and later
    /// ones follow it. Other sessions continue meanwhile.
    ///
    /// # Errors
    /// As [`LoggedDatabase::log_end`], and those of the disk.
    fn write_snapshot(&self) -> Result<u64> {
        Err(unsupported("the file of a database with a log of pages is copied as it is"))
    }

    /// Replaces pages in one transaction, which readers see as a whole. `fill` is called once, and
    /// passes any number of pages to the function that it gets.
    ///
    /// # Errors
    /// [`Closed`](marmota_model::ErrorKind::Closed) after the engine is closed; those of a commit
    /// and of `fill`, after which nothing was changed.
    /// [`Unsupported`](marmota_model::ErrorKind::Unsupported) for a database without pages.
    fn replace_pages(&self, fill: &mut FillPages<'_>) -> Result<()> {
        let _ = fill;
        Err(unsupported("a database with a log of records has no pages"))
    }

    /// Appends the log of another database, in pieces, to the same log of this one, and applies its
    /// commits. Readers see each commit as a whole. What the log has already is left out.
    ///
    /// Returns false if the log does not have exactly the bytes before a piece.
    ///
    /// # Errors
    /// [`Closed`](marmota_model::ErrorKind::Closed) after the engine is closed,
    /// [`Busy`](marmota_model::ErrorKind::Busy) while a transaction of a reader uses the tables,
    /// [`Invalid`](marmota_model::ErrorKind::Invalid) for rows that do not fit the tables of this
    /// program; those of the disk. After each of these the same pieces can be appended again.
    /// [`Unsupported`](marmota_model::ErrorKind::Unsupported) for a database with a log of pages.
    fn append_log(&self, pieces: &[LogPiece<'_>]) -> Result<bool> {
        let _ = pieces;
        Err(unsupported("a log of pages is not appended to, its pages are replaced"))
    }

    /// Replaces all rows by those of another file with its logs, which are moved to the place of
    /// this database's. Readers see the old rows or the new ones.
    ///
    /// # Errors
    /// As [`LoggedDatabase::append_log`]; the rows are then the old ones. After an error of the disk
    /// the files may be incomplete.
    fn replace_files(&self, new: &Path) -> Result<()> {
        let _ = new;
        Err(unsupported("the file of a database with a log of pages stays, its pages are replaced"))
    }
}

#[cold]
fn unsupported(why: &str) -> Error {
    Error::new(ErrorKind::Unsupported, why)
}

/// Receives the commits of an engine, and decides whether it accepts writes.
///
/// The engine calls all methods except [`CommitSink::waits`], [`CommitSink::wait`] and
/// [`CommitSink::check`] while no other commit is possible.
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

    /// Called after each commit, in the order of the log. It does not wait.
    fn committed(&self, commit: LoggedCommit);

    /// Called before a commit is answered: if commits have to be copied before, waits for all that
    /// were reported so far. An engine may wait for several commits at once.
    ///
    /// # Errors
    /// [`Lost`](marmota_model::ErrorKind::Lost) if a commit was not copied in time.
    fn wait(&self) -> Result<()>;

    /// Returns true if [`CommitSink::wait`] waits, so that it must not be called on an event loop.
    fn waits(&self) -> bool;

    /// Called after the database was changed in a way that its log does not have.
    fn changed_without_log(&self) {}

    /// Called before the log's content is moved to the file, or before logs with records are deleted
    /// whose content is in the file. Returns false if the log is still needed.
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
