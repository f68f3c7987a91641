//! The executor and the sink that its log is copied to: which writes are accepted, when a commit is
//! answered, when the log may be overwritten; and pages that come from another database.

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::log_copy::{CommitSink, FillPages, LogEnd, LoggedCommit, ReplacedPages};

use super::Executor;
use crate::fault;

/// What copies the log of a writing connection.
#[derive(Debug)]
pub(crate) enum LogCopy {
    /// Nothing does.
    None,
    /// Another process does; this one must neither write nor move the log to the file.
    Elsewhere(Box<str>),
    /// This sink does.
    Sink {
        sink: Arc<dyn CommitSink>,
        /// True if the last commit was reported, but not completed.
        is_reported: bool,
    },
}

impl Executor {
    /// Checks that a write is accepted.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] after a failed sync, [`ErrorKind::Busy`] if another process replicates the
    /// database; that of the sink.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_stopped()?;
        match &self.log_copy {
            LogCopy::None => Ok(()),
            LogCopy::Elsewhere(message) => Err(Error::new(ErrorKind::Busy, &**message)),
            LogCopy::Sink { sink, .. } => sink.check(),
        }
    }

    /// Reports a commit to the sink. Called before the commit is visible in the change feed.
    #[inline]
    pub(super) fn report_to_sink(&mut self) -> Result<()> {
        if !matches!(self.log_copy, LogCopy::Sink { .. }) {
            return Ok(());
        }
        let commit = LoggedCommit {
            end: LogEnd {
                log: self.connection.log_salt().into(),
                length: self.connection.log_pages().into(),
            },
            number: self.written_number(),
        };
        let LogCopy::Sink { sink, is_reported } = &mut self.log_copy else { return Ok(()) };
        *is_reported = true;
        sink.committed(commit);
        sink.wait()
    }

    /// Reports a commit that SQLite made by itself, for a single statement.
    #[inline]
    pub(super) fn complete_report(&mut self) -> Result<()> {
        let LogCopy::Sink { is_reported, .. } = &mut self.log_copy else { return Ok(()) };
        if std::mem::take(is_reported) {
            return Ok(());
        }
        let reported = self.report_to_sink();
        if let LogCopy::Sink { is_reported, .. } = &mut self.log_copy {
            *is_reported = false;
        }
        reported
    }

    /// Returns true if the content of the log may be moved to the file.
    #[inline]
    pub(crate) fn may_checkpoint(&self) -> bool {
        match &self.log_copy {
            LogCopy::None => true,
            LogCopy::Elsewhere(_) => false,
            LogCopy::Sink { sink, .. } => sink.before_checkpoint(),
        }
    }

    /// Replaces pages in one transaction, and moves the log to the file if it has become long.
    pub(crate) fn replace_pages(&mut self, fill: &mut FillPages<'_>) -> Result<()> {
        self.check_stopped()?;
        self.begin_unchecked()?;
        let connection = &mut self.connection;
        let filled = fill(&mut |pages: ReplacedPages<'_>| {
            connection.replace_pages(&pages).map_err(|failure| fault::of(&failure))
        });
        if let Err(error) = filled {
            self.roll_back();
            return Err(error);
        }
        self.counted(|executor| {
            executor.commit_statement()?;
            executor.checkpoint_if_long();
            Ok(())
        })
    }
}
