//! The database of an engine, as the copier of its log uses it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::log_copy::{LogEnd, LogKind, LogPiece, LoggedDatabase};

use crate::shared::Shared;

/// A database in a file with a log.
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

    fn append_log(&self, pieces: &[LogPiece<'_>]) -> Result<bool> {
        self.shared()?.append_log(pieces)
    }

    fn replace_files(&self, new: &Path) -> Result<()> {
        self.shared()?.replace_files(new)
    }
}
