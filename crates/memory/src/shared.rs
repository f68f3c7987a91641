//! The state that the sessions of an engine share: its tables, its file and log, and its options.

pub(crate) mod copied_rows;
pub(crate) mod logged_file;
pub(crate) mod replica;
pub(crate) mod snapshots;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::Durability;
use marmota_store::change::ChangeRecorder;
use marmota_store::plan::{Destructive, Plan};
use marmota_store::private_file::have_folder;
use parking_lot::Mutex;

use crate::catalog::Catalog;
use crate::data_file::contents::{Contents, Loaded};
use crate::data_file::{self, FileFormat};
use crate::encryption::file_encryption::FileEncryption;
use crate::journal::plain_file;
use crate::journal::{self, Journal, Part, Record};
use crate::lock::transaction_gate as gate;
use crate::lock::transaction_gate::TransactionGate;
use crate::recording::NumberedCommit;
use crate::shared::replica::ReplicaLog;
use crate::table::table_rows::TableRows;

/// The default deadline of a read, in milliseconds.
pub(crate) const READ_DEADLINE_MS: u32 = 30_000;

/// The state that the engine's sessions share.
pub(crate) struct Shared {
    pub(crate) catalog: Arc<ArcSwap<Catalog>>,
    pub(crate) gate: Arc<TransactionGate>,
    /// Also set by the log, once it has failed.
    pub(crate) closed: Arc<AtomicBool>,
    /// The number of sessions so far, which is the last session's number.
    pub(crate) sessions: AtomicU64,
    /// The file to load from and save to, and its format.
    pub(crate) file: Option<(PathBuf, FileFormat)>,
    /// The durability, of a file that has a log.
    pub(crate) durability: Option<Durability>,
    /// True if a missing folder of the file is created.
    pub(crate) creates_folders: bool,
    /// The encryption of its files.
    pub(crate) encryption: Arc<FileEncryption>,
    /// The log, once the file was read.
    pub(crate) journal: OnceLock<Arc<Journal>>,
    /// True if the log comes from a primary.
    pub(crate) is_replica: AtomicBool,
    /// The log of a replica, once its file was read.
    pub(crate) replica: OnceLock<ReplicaLog>,
    /// Records changes, if the store has a change feed.
    pub(crate) recorder: OnceLock<Arc<ChangeRecorder>>,
    /// The content of the file, once it was read; tables are removed from it when models register
    /// them.
    pub(crate) loaded: Mutex<Option<Loaded>>,
    /// The time that a list, a count or the search of a delete may take, in milliseconds; 0 for no
    /// limit.
    pub(crate) read_deadline_ms: u32,
    /// The number of times that a long read has yielded its thread.
    pub(crate) read_yields: AtomicU64,
    /// The number of long reads that were ended by their deadline.
    pub(crate) read_timeouts: AtomicU64,
    /// The number of long reads that were cancelled.
    pub(crate) reads_cancelled: AtomicU64,
}

impl Shared {
    /// Creates the state of a new engine.
    pub(crate) fn new(
        file: Option<(PathBuf, FileFormat)>,
        (durability, creates_folders): (Option<Durability>, bool),
        loaded: Option<Loaded>,
        encryption: FileEncryption,
    ) -> Self {
        Self {
            catalog: Arc::default(),
            gate: Arc::default(),
            closed: Arc::default(),
            sessions: AtomicU64::new(0),
            file,
            durability,
            creates_folders,
            encryption: Arc::new(encryption),
            journal: OnceLock::new(),
            is_replica: AtomicBool::new(false),
            replica: OnceLock::new(),
            recorder: OnceLock::new(),
            loaded: Mutex::new(loaded),
            read_deadline_ms: READ_DEADLINE_MS,
            read_yields: AtomicU64::new(0),
            read_timeouts: AtomicU64::new(0),
            reads_cancelled: AtomicU64::new(0),
        }
    }

    /// Returns the number for a new session.
    pub(crate) fn new_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the deadline of a read that begins now.
    pub(crate) fn read_until(&self) -> Option<Instant> {
        let limit = Duration::from_millis(self.read_deadline_ms.into());
        (self.read_deadline_ms > 0).then(|| Instant::now() + limit)
    }

    /// Returns the number of the table of commits, if changes are recorded, for a commit that is not
    /// `empty`.
    pub(crate) fn commits(&self, catalog: &Catalog, empty: bool) -> Result<Option<u32>> {
        let recorder = self.recorder.get().filter(|_| !empty);
        recorder.map(|recorder| catalog.find(recorder.table())).transpose()
    }

    /// Reports a commit to the change feed: at once, or when its log is on the disk if it waits for
    /// that.
    pub(crate) fn report(
        &self,
        position: Option<u64>,
        durability: Option<Durability>,
        commit: NumberedCommit,
    ) {
        let Some(recorder) = self.recorder.get() else { return };
        match (position, self.journal.get()) {
            (Some(position), Some(journal)) if journal.waits(durability) => {
                let recorder = Arc::clone(recorder);
                journal.when_synced(position, Box::new(move || commit.report(&recorder)));
            }
            _ => commit.report(recorder),
        }
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(self.refusal());
        }
        Ok(())
    }

    /// Holds the gate while `run` runs, so that no transaction is open.
    pub(crate) fn between_transactions<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<T> {
        struct Opened<'g>(&'g TransactionGate);
        impl Drop for Opened<'_> {
            fn drop(&mut self) {
                self.0.open();
            }
        }
        self.gate.wait(|| Ok::<_, Error>(self.gate.try_take(gate::ENGINE).then_some(())))?;
        let _opened = Opened(&self.gate);
        run()
    }
}

impl Shared {
    /// Saves all tables; returns the number of rows of each.
    pub(crate) fn save(&self, path: &Path, format: FileFormat) -> Result<BTreeMap<String, u64>> {
        let loaded = self.loaded.lock();
        let catalog = self.catalog.load();
        let guards: Vec<_> = catalog.slots.iter().map(|slot| slot.rows.read()).collect();
        let tables: Vec<&TableRows> = guards.iter().map(|rows| &**rows).collect();
        let no_sections = BTreeMap::new();
        let (schema, sections) = match &*loaded {
            Some(loaded) => (loaded.schema, &loaded.tables),
            None => (0, &no_sections),
        };
        let counted =
            tables.iter().map(|rows| (rows.table.name().to_owned(), rows.keys.len() as u64));
        let mut rows: BTreeMap<String, u64> = counted.collect();
        for (name, section) in sections {
            rows.insert(name.clone(), section.shape()?.rows);
        }
        data_file::save(path, &self.encryption, format, &Contents { schema, tables, sections })?;
        Ok(rows)
    }

    /// Reads the file when the engine is used for the first time.
    pub(crate) fn load(&self) -> Result<()> {
        let mut loaded = self.loaded.lock();
        if loaded.is_some() {
            return Ok(());
        }
        if let Some((path, FileFormat::Json)) = &self.file {
            self.encryption.check_json(path)?;
        }
        if let Some((path, _)) = &self.file {
            // The folder is checked now, not when the file is saved, which may be at the close.
            have_folder(path, self.creates_folders)?;
        }
        *loaded = Some(match (&self.file, self.durability) {
            (Some((path, _)), Some(durability)) => {
                let part = match self.is_replica.load(Ordering::Relaxed) {
                    true => Part::Replica,
                    false => Part::Own,
                };
                let opened = journal::open(path, &self.encryption, durability, &self.closed, part)?;
                // It cannot be set yet: this happens once.
                let _ = self.journal.set(opened.journal);
                if let Some(received) = opened.received {
                    let _ = self.replica.set(ReplicaLog::new(received, self.new_session()));
                }
                opened.loaded
            }
            (Some((path, _)), None) if path.exists() => plain_file::load(path, &self.encryption)?,
            (Some((path, _)), None) => {
                plain_file::check_without_log(path).map(|()| Loaded::default())?
            }
            (None, _) => Loaded::default(),
        });
        Ok(())
    }

    pub(crate) fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        self.load()?;
        let loaded = self.loaded.lock();
        let Some(loaded) = &*loaded else { return Ok(Plan::default()) };
        Self::check_version(loaded, version)?;
        self.compare(tables, loaded, true)
    }

    pub(crate) fn check_version(loaded: &Loaded, version: u32) -> Result<()> {
        if loaded.schema > version {
            let message = format!(
                "{} was written with a newer schema version ({}; this program has {version}): \
                 start the newer program or restore a backup",
                loaded.path.display(),
                loaded.schema
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(())
    }

    pub(crate) fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan> {
        self.load()?;
        let journal = self.journal.get();
        let _one = journal.map(|journal| journal.snapshots.lock());
        let mut loaded = self.loaded.lock();
        let Some(loaded) = &mut *loaded else { return Ok(Plan::default()) };
        Self::check_version(loaded, version)?;
        let tries = *destructive != Destructive::default();
        let plan = self.compare(tables, loaded, tries)?;
        plan.check(destructive)?;
        let reshaped = self.install(tables, loaded, destructive, |catalog| match journal {
            None => Ok(()),
            Some(journal) => {
                let mut record = Record::default();
                journal::write_tables(record.payload(), version, catalog);
                journal.append_tables(&mut record)
            }
        })?;
        loaded.schema = version;
        // The values that older rows got for new fields are not in the log.
        match (journal, &self.file) {
            (Some(journal), Some((path, _))) if reshaped => {
                journal.copy.changed_without_log();
                self.snapshot_of(journal, path, loaded)?;
            }
            _ => {}
        }
        Ok(plan)
    }

    pub(crate) fn open_table(&self, table: &Arc<Table>) -> Result<bool> {
        self.load()?;
        let _one = self.journal.get().map(|journal| journal.snapshots.lock());
        let mut loaded = self.loaded.lock();
        let Some(loaded) = &mut *loaded else { return Ok(false) };
        let tables = std::slice::from_ref(table);
        let is_there = self.catalog.load().number(table.name()).is_some();
        if !is_there && loaded.section(table, tables).is_none() {
            return Ok(false);
        }
        self.install(tables, loaded, &Destructive::default(), |_| Ok(())).map(|_| true)
    }

    pub(crate) fn close(&self) -> Result<()> {
        let journal = self.journal.get();
        if self.closed.swap(true, Ordering::SeqCst) {
            let Some((journal, error)) =
                journal.and_then(|log| log.failure().map(|why| (log, why)))
            else {
                return Ok(());
            };
            journal.stop();
            journal.copy.end();
            return Err(error);
        }
        self.settle_replica();
        // A file that was never read must not be overwritten.
        let read = self.loaded.lock().is_some();
        let saved = match (&self.file, journal) {
            (Some((path, _)), Some(journal)) => self.close_log(journal, path),
            (Some((path, format)), None) if read => self.save(path, *format).map(drop),
            _ => Ok(()),
        };
        match (&saved, journal) {
            (Err(_), _) => self.closed.store(false, Ordering::Relaxed),
            (Ok(()), Some(journal)) => {
                journal.stop();
                journal.copy.end();
            }
            (Ok(()), None) => {}
        }
        saved
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(journal) = self.journal.get() {
            journal.stop();
        }
    }
}
