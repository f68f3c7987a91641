//! A replica: the log of a primary is appended to its own, and the commits are applied to its tables.
//!
//! Pieces of the log are written to the file first, then applied a commit at a time, with all tables of
//! a commit locked. So a snapshot, whose log is synced at its end, has only rows of commits that are in
//! the log. The snapshot is made when the primary begins another log, as the primary itself does then:
//! all rows that it reads are later than the beginning of that log, and `data_file/snapshot.rs` has the
//! argument why snapshot and log are then the state at the end of the log.
//!
//! The changes of tables that no model has are kept ([`Replay`](crate::journal::Replay)) until the
//! sections of the file are used.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::log_copy::{LogPiece, log_path};
use parking_lot::{Mutex, MutexGuard};

use crate::catalog::Catalog;
use crate::catalog::locked_tables::{LockedTables, Needs, NotNow};
use crate::data_file::contents::Loaded;
use crate::journal::received::ReceivedLog;
use crate::journal::{self, Journal, Payload};
use crate::shared::Shared;
use crate::shared::copied_rows::RowCopy;

/// What a replica has received of its primary's log.
pub(crate) struct ReplicaLog {
    log: Mutex<ReceivedLog>,
    /// The number of the session that applies commits.
    session: u64,
}

impl ReplicaLog {
    pub(crate) const fn new(log: ReceivedLog, session: u64) -> Self {
        Self { log: Mutex::new(log), session }
    }
}

impl Shared {
    /// Makes the engine a replica, before its file is read.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the file was read already.
    pub(crate) fn become_replica(&self) -> Result<()> {
        if self.loaded.lock().is_some() {
            let message =
                "the engine was used already: make it a replica before the first operation";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.is_replica.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn replica(&self) -> Result<(&Arc<Journal>, &Path, &ReplicaLog)> {
        let parts = self.journal.get().zip(self.path()).zip(self.replica.get());
        let ((journal, path), replica) = parts.ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "this memory engine is not a replica")
        })?;
        Ok((journal, path, replica))
    }

    /// Pauses a replica's commits, and puts what was received into the content of the file. Called
    /// before the gate is taken.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it does not fit.
    pub(crate) fn pause_replica(&self) -> Result<Option<MutexGuard<'_, ReceivedLog>>> {
        let Some(replica) = self.replica.get() else { return Ok(None) };
        let mut log = replica.log.lock();
        self.put_received(&mut log)?;
        Ok(Some(log))
    }

    /// Waits until no commit is being applied to a replica that is closed.
    pub(crate) fn settle_replica(&self) {
        if let Some(replica) = self.replica.get() {
            drop(replica.log.lock());
        }
    }

    fn put_received(&self, log: &mut ReceivedLog) -> Result<()> {
        match &mut *self.loaded.lock() {
            Some(Loaded { tables, path, schema }) => {
                *schema = log.replay.schema;
                log.replay.put_into(tables, path)?;
                let catalog = self.catalog.load();
                log.replay.add_empty(tables, |table| catalog.number(table).is_some());
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Refuses writes and transactions if this is a replica: its commits would wait for a transaction.
    ///
    /// # Errors
    /// That of the sink.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<()> {
        match (self.replica.get(), self.journal.get()) {
            (Some(_), Some(journal)) => journal.copy.check(),
            _ => Ok(()),
        }
    }

    /// Appends pieces of the primary's log, and applies their commits. Returns false if the log does
    /// not have exactly the bytes before a piece.
    ///
    /// # Errors
    /// Those of [`marmota_store::log_copy::LoggedDatabase::append_log`].
    pub(crate) fn append_log(self: &Arc<Self>, pieces: &[LogPiece<'_>]) -> Result<bool> {
        let (journal, path, replica) = self.replica()?;
        let mut log = replica.log.lock();
        self.apply_received(&mut log, replica.session)?;
        let mut has_begun = false;
        for piece in pieces {
            self.check_open()?;
            let (current, _) = journal.end();
            // The content of older logs was applied before the current one began.
            if piece.log < current {
                continue;
            }
            if piece.log > current {
                if piece.log != current + 1 || piece.begin != 0 {
                    return Ok(false);
                }
                self.begin_log(journal, &mut log, piece.log)?;
                has_begun = true;
            }
            let Some(new) = journal.copy_piece(piece.begin, piece.bytes)? else {
                return Ok(false);
            };
            log.add(&log_path(path, piece.log), new, &self.encryption)?;
            self.apply_received(&mut log, replica.session)?;
        }
        journal.sync()?;
        drop(log);
        if has_begun {
            self.shorten_log(journal);
        }
        Ok(true)
    }

    /// Begins the next log.
    fn begin_log(&self, journal: &Journal, log: &mut ReceivedLog, next: u64) -> Result<()> {
        // A snapshot belongs to the current log until it is complete.
        let _one = journal.snapshots.lock();
        self.put_received(log)?;
        log.begin(next)?;
        journal.begin_copy(next)
    }

    /// Applies the commits that were received.
    fn apply_received(&self, log: &mut ReceivedLog, session: u64) -> Result<()> {
        while let Some((bytes, payload)) = log.payloads.front().cloned() {
            let unreadable = || {
                let message = "the primary writes a log that this program cannot read: start the \
                               program of the primary";
                Error::new(ErrorKind::Invalid, message)
            };
            let definitions = &log.replay.definitions;
            let payload = journal::read_payload(&bytes, payload, definitions);
            match payload.ok_or_else(unreadable)? {
                Payload::Tables { schema, definitions } => {
                    (log.replay.schema, log.replay.definitions) = (schema, definitions);
                }
                Payload::Changes(changes) => {
                    let commit = RowCopy { log: &bytes, definitions, changes: &changes };
                    let catalog = self.gate.wait(|| self.try_apply(&commit, session))?;
                    for change in changes {
                        let name = &log.replay.definitions[change.table].name;
                        if catalog.number(name).is_none() {
                            log.replay.keep(&bytes, change).ok_or_else(unreadable)?;
                        }
                    }
                }
            }
            log.payloads.pop_front();
        }
        Ok(())
    }

    /// Applies a commit, unless a transaction or a long read uses its tables. Returns the catalog with
    /// those tables that have models.
    fn try_apply(&self, commit: &RowCopy<'_>, session: u64) -> Result<Option<Arc<Catalog>>> {
        loop {
            self.check_open()?;
            let catalog = self.catalog.load_full();
            let mut needs = Needs::default();
            for number in commit.tables(&catalog) {
                needs.also_write(number);
            }
            match LockedTables::new(&catalog, &needs, session) {
                Ok(mut locked) => commit.apply(&mut locked)?,
                Err(NotNow::Retired) => continue,
                Err(NotNow::Owned) => return Ok(None),
            }
            return Ok(Some(catalog));
        }
    }

    /// Replaces all rows by those of other files, which are moved to the place of the replica's.
    ///
    /// # Errors
    /// Those of [`marmota_store::log_copy::LoggedDatabase::replace_files`].
    pub(crate) fn replace_files(&self, new: &Path) -> Result<()> {
        let (journal, path, replica) = self.replica()?;
        let mut log = replica.log.lock();
        self.check_open()?;
        let mut fetched = journal::fetched(new, path, &self.encryption)?;
        let fresh = self.filled(&mut fetched.loaded)?;
        self.between_transactions(|| {
            self.check_open()?;
            let _one = journal.snapshots.lock();
            let mut loaded = self.loaded.lock();
            self.replace_rows(fresh, || journal::move_files(new, path))?;
            journal.replace_log(fetched.log);
            *loaded = Some(fetched.loaded);
            *log = fetched.received;
            Ok(())
        })
    }
}
