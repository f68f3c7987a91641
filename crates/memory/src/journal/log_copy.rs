//! The log and the sink that it is copied to: which writes are accepted, when a commit is answered,
//! when logs may be removed.
//!
//! Commits are reported under the lock of the log's end, so in their order. If they have to be copied
//! before they are answered, the thread that waits for the disk waits for that as well, once for all
//! commits that it has synced.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::log_copy::{CommitSink, LogEnd, LoggedCommit};
use parking_lot::Mutex;

use super::log_file::LogFile;

/// What copies a log elsewhere, if anything does.
#[derive(Default)]
pub(crate) struct LogCopy {
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

    /// Sets the sink.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it is set already.
    pub(super) fn set(&self, sink: Arc<dyn CommitSink>) -> Result<()> {
        self.sink.set(sink).map_err(|_| {
            let message = "the log of this engine is copied already: open another engine";
            Error::new(ErrorKind::Invalid, message)
        })
    }

    /// Checks that the sink accepts writes.
    ///
    /// # Errors
    /// That of the sink.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        self.sink.get().map_or(Ok(()), |sink| sink.check())
    }

    /// Notes that rows were changed without a record.
    pub(crate) fn changed_without_log(&self) {
        if let Some(sink) = self.sink.get() {
            sink.changed_without_log();
        }
    }

    /// Returns true if the log may be removed at its end: all of it is copied, or it is not copied at
    /// all.
    pub(crate) fn may_end(&self) -> bool {
        self.sink.get().is_none_or(|sink| sink.before_close())
    }

    /// Ends the copying, after the files have their final state.
    pub(crate) fn end(&self) {
        if let Some(sink) = self.sink.get()
            && !self.has_ended.swap(true, Ordering::Relaxed)
        {
            sink.closed();
        }
    }
}

fn end_of(log: &LogFile) -> LogEnd {
    LogEnd { log: log.identity.generation, length: log.bytes }
}
