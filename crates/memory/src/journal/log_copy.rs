//! The log and the sink that it is copied to: which writes are accepted, when a commit is answered,
//! when logs may be removed.
//!
//! Commits are reported under the lock of the log's end, so in their order. If they have to be copied
//! before they are answered, the thread that waits for the disk waits for that as well, once for all
//! commits that it has synced.

use std::fmt;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Durability;
use marmota_store::log_copy::{CommitSink, LogEnd, LogKind, LoggedCommit, LoggedDatabase};
use parking_lot::Mutex;

use super::Journal;
use super::log_file::LogFile;
use crate::shared::Shared;

/// What copies a log elsewhere, if anything does.
#[derive(Default)]
pub(super) struct LogCopy {
    sink: OnceLock<Arc<dyn CommitSink>>,
    has_ended: AtomicBool,
    /// The commits that are in the log, but were not copied in time.
    late: Mutex<Option<Late>>,
}

/// Commits that were not copied in time.
struct Late {
    /// The position before the first one, and after the last one.
    after: u64,
    position: u64,
    message: String,
}

impl LogCopy {
    /// Returns true if the log is copied.
    pub(super) fn is_there(&self) -> bool {
        self.sink.get().is_some()
    }

    /// Returns true if commits are copied before they are answered.
    pub(super) fn waits(&self) -> bool {
        self.sink.get().is_some_and(|sink| sink.waits())
    }

    /// Reports what a log has now.
    pub(super) fn report(&self, log: &LogFile, number: Option<NonZeroU64>) {
        if let Some(sink) = self.sink.get() {
            sink.committed(LoggedCommit { end: end_of(log), number });
        }
    }

    /// Waits until all commits up to a position are copied; those after `answered` fail if they are
    /// not in time.
    pub(super) fn wait(&self, answered: u64, position: u64) {
        let Some(sink) = self.sink.get() else { return };
        match sink.wait() {
            Ok(()) => *self.late.lock() = None,
            Err(error) => self.fail(answered, position, error.message()),
        }
    }

    /// Fails the commits after `answered`, which are in the log only.
    pub(super) fn close(&self, answered: u64, position: u64) {
        if self.waits() && answered < position {
            let message = "the write is committed in the database, but was not copied before the \
                           store was closed: it is copied after the next start; read the row \
                           before you retry";
            self.fail(answered, position, message);
        }
    }

    fn fail(&self, answered: u64, position: u64, message: &str) {
        let mut late = self.late.lock();
        let after = late.as_ref().filter(|late| late.position == answered);
        let after = after.map_or(answered, |late| late.after);
        *late = Some(Late { after, position, message: message.to_owned() });
    }

    /// Returns the result of a commit that may be answered.
    pub(super) fn check_answered(&self, position: u64) -> Result<()> {
        if !self.waits() {
            return Ok(());
        }
        match &*self.late.lock() {
            Some(late) if late.after < position && position <= late.position => {
                Err(Error::new(ErrorKind::Lost, late.message.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Returns true if the logs before a snapshot may be removed.
    pub(super) fn may_remove_logs(&self) -> bool {
        self.sink.get().is_none_or(|sink| sink.before_checkpoint())
    }
}

fn end_of(log: &LogFile) -> LogEnd {
    LogEnd { log: log.identity.generation, length: log.bytes }
}

impl Journal {
    /// Copies the log to a sink from now on.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it is copied already; [`ErrorKind::Io`] without a thread.
    pub(crate) fn copy_to(self: &Arc<Self>, sink: Arc<dyn CommitSink>) -> Result<()> {
        let waits = sink.waits();
        if self.copy.sink.set(sink).is_err() {
            let message = "the log of this engine is copied already: open another engine";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        // Without a durability, no thread waits for the disk.
        match waits && self.durability == Durability::None {
            true => self.start(),
            false => Ok(()),
        }
    }

    /// Checks that the sink accepts writes.
    ///
    /// # Errors
    /// That of the sink.
    #[inline]
    pub(crate) fn check_copied(&self) -> Result<()> {
        self.copy.sink.get().map_or(Ok(()), |sink| sink.check())
    }

    /// Notes that rows were changed without a record.
    pub(crate) fn changed_without_log(&self) {
        if let Some(sink) = self.copy.sink.get() {
            sink.changed_without_log();
        }
    }

    /// Returns true if the log may be removed at its end: all of it is copied, or it is not copied at
    /// all.
    pub(crate) fn is_copied(&self) -> bool {
        self.copy.sink.get().is_none_or(|sink| sink.before_close())
    }

    /// Ends the copying, after the files have their final state.
    pub(crate) fn end_copy(&self) {
        if let Some(sink) = self.copy.sink.get()
            && !self.copy.has_ended.swap(true, Ordering::Relaxed)
        {
            sink.closed();
        }
    }
}

/// The database of an engine, as the copier of its log uses it.
pub(crate) struct LoggedFile {
    pub(crate) path: PathBuf,
    /// The engine has the sink, which has this.
    pub(crate) shared: Weak<Shared>,
}

impl fmt::Debug for LoggedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoggedFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl LoggedFile {
    fn shared(&self) -> Result<Arc<Shared>> {
        let closed = || Error::new(ErrorKind::Closed, "the memory engine is closed");
        self.shared.upgrade().ok_or_else(closed)
    }
}

impl LoggedDatabase for LoggedFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn log_kind(&self) -> LogKind {
        LogKind::Records
    }

    fn log_end(&self) -> Result<LogEnd> {
        let shared = self.shared()?;
        let journal = shared.journal.get();
        let (log, length) = journal.map(|journal| journal.end()).unwrap_or_default();
        Ok(LogEnd { log, length })
    }

    fn write_snapshot(&self) -> Result<u64> {
        self.shared()?.snapshot()
    }
}

/// The error for a replica that would have to change while it is read.
#[cold]
pub(crate) fn no_replica() -> Error {
    let message = "the memory engine cannot follow a primary: restore its database with `marmota \
                   restore`, and serve that";
    Error::new(ErrorKind::Unsupported, message)
}
