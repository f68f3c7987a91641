//! Snapshots of an engine: when one is made, and what becomes of the logs before it.

use std::path::Path;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result};

use crate::data_file::contents::Loaded;
use crate::data_file::replace::replace;
use crate::data_file::snapshot::Snapshot;
use crate::journal::Journal;
use crate::shared::Shared;

impl Shared {
    /// Makes a snapshot and begins another log, whose number is returned.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]: the old snapshot and its logs stay.
    pub(crate) fn snapshot(&self) -> Result<u64> {
        let Some((journal, path)) = self.journal.get().zip(self.path()) else {
            let message = "this memory engine has no log; open it with ?durability=full or relaxed";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let _one = journal.snapshots.lock();
        self.check_open()?;
        let loaded = self.loaded.lock();
        match &*loaded {
            Some(loaded) => self.snapshot_of(journal, path, loaded),
            None => Err(Error::new(ErrorKind::Bug, "a log was opened without its file")),
        }
    }

    /// Makes a snapshot for a caller that holds the lock on snapshots.
    pub(crate) fn snapshot_of(
        &self,
        journal: &Journal,
        path: &Path,
        loaded: &Loaded,
    ) -> Result<u64> {
        // All rows are later than the beginning of a replica's log.
        let generation = match self.replica.get() {
            None => journal.rotate()?,
            Some(_) => journal.end().0,
        };
        let written = self.write_snapshot(journal, path, loaded, generation, true);
        match &written {
            Ok(()) => {
                let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
                journal.began(generation, bytes);
            }
            Err(_) => journal.put_off(),
        }
        written.map(|()| generation)
    }

    fn write_snapshot(
        &self,
        journal: &Journal,
        path: &Path,
        loaded: &Loaded,
        generation: u64,
        has_log: bool,
    ) -> Result<()> {
        let catalog = self.catalog.load_full();
        let settle = |generation| journal.settle(generation);
        let snapshot = Snapshot {
            schema: loaded.schema,
            lineage: journal.lineage(),
            generation,
            catalog: &catalog,
            sections: &loaded.tables,
            gate: &self.gate,
            settle: if has_log { Some(&settle) } else { None },
        };
        replace(path, &self.encryption, |mut out| snapshot.write(&mut out))
    }

    /// Makes the last snapshot, which has all data, since nothing is written any more. If it cannot
    /// be written, the logs stay, which have the same data.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if neither is on the disk.
    pub(crate) fn close_log(&self, journal: &Journal, path: &Path) -> Result<()> {
        let _one = journal.snapshots.lock();
        if let Some(error) = journal.failure() {
            return Err(error);
        }
        let loaded = self.loaded.lock();
        let Some(loaded) = &*loaded else { return Ok(()) };
        if journal.is_in_snapshot(loaded.schema) {
            journal.close(u64::MAX);
            return Ok(());
        }
        if !journal.copy.may_end() {
            return journal.keep();
        }
        let (generation, _) = journal.end();
        match self.write_snapshot(journal, path, loaded, generation + 1, false) {
            Ok(()) => {
                journal.close(generation + 1);
                Ok(())
            }
            Err(error) => {
                log::warn!(
                    "{}: the snapshot at the close failed, and the log is kept: {error}",
                    path.display()
                );
                journal.keep()
            }
        }
    }

    /// Starts a thread that makes a snapshot, unless one makes it already.
    pub(crate) fn shorten_log(self: &Arc<Self>, journal: &Journal) {
        if !journal.begins_snapshot() {
            return;
        }
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new().name("marmota-snapshot".to_owned());
        let started = thread.spawn(move || {
            let made = shared.snapshot();
            if let Some(journal) = shared.journal.get() {
                journal.snapshot_made();
            }
            match made {
                Err(error) if error.kind() != ErrorKind::Closed => {
                    log::warn!("the snapshot failed, and the log continues: {error}");
                }
                _ => {}
            }
        });
        if let Err(error) = started {
            journal.put_off();
            journal.snapshot_made();
            log::warn!("no thread can be started for a snapshot, the log continues: {error}");
        }
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| &**path)
    }

    /// The error for an engine that is closed or whose log has failed.
    #[cold]
    pub(crate) fn refusal(&self) -> Error {
        let failure = self.journal.get().and_then(|journal| journal.failure());
        failure.unwrap_or_else(|| Error::new(ErrorKind::Closed, "the memory engine is closed"))
    }
}
