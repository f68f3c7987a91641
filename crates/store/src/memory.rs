//! The memory engine: typed rows in compact pages, indexes, transactions and
//! files to save to and load from.
//!
//! ```text
//! session ─ locked ─ write ─ table_rows ─ pages (the rows)
//!    │         │       │         ├─ key_index   (by key, in its order)
//!  gate     catalog   log        └─ row_index   (unique: hashed; all: ordered)
//!                                plan ─ scan ─ predicate   (reads)
//! file ─ snapshot ─ journal   (what is kept on the disk)
//!        vault    ─ cipher    (encrypted, if there is a key)
//! lent                        (what the SQL of another engine reads)
//! ```
//! It is the oracle of the conformance suite: what it answers is what an
//! operation means.
//!
//! # What a session sees
//! Reads are of what is committed. One transaction is open at a time, and it
//! is serializable: other sessions' writes to the tables that it has used wait
//! for its end, and so do their reads of tables that it has written to (there
//! are no old versions of rows). Operations outside a transaction take place at once
//! and whole. A waiting operation holds nothing and answers
//! [`Submitted::Waiting`](crate::engine::Submitted::Waiting); what
//! [`Session::submit`] does block on is only another thread's running
//! operation.

mod backup;
mod catalog;
#[cfg(feature = "encryption")]
mod cipher;
mod compare;
mod comparison;
pub(crate) mod condition;
mod conflict;
mod file;
mod file_binary;
mod file_json;
mod file_sealed;
mod gate;
mod hashed;
mod install;
mod journal;
mod key_index;
mod layout;
mod lent;
mod locked;
mod log;
mod long_reads;
mod long_scan;
mod ordered;
mod page;
mod plan;
mod predicate;
#[cfg(feature = "encryption")]
mod rekey;
mod row_codec;
mod row_index;
mod scan;
mod session;
mod snapshot;
mod table_rows;
mod vault;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use marmota_model::{Error, ErrorKind, Result, Table};
use parking_lot::Mutex;

use crate::backup::Copied;
use crate::durability::Durability;
use crate::engine::{AttachSource, Capability, Engine, ReadsMeanwhile, Session};
#[cfg(feature = "encryption")]
use crate::key::Key;
use crate::key::{KeySource, refuse_secrets};
use crate::plan::{Destructive, Plan};
use crate::statistics::EngineStatistics;
use catalog::Catalog;
pub use condition::{Condition, Ready};
pub use file::Format;
use file::Loaded;
use gate::Gate;
pub(crate) use gate::{WAIT_MAX as LEND_WAIT_MAX, busy as kept};
use journal::{Journal, Record};
pub use lent::{LentTable, LentTables, RangeEnd, RowNumbers};
use session::MemorySession;
use table_rows::TableRows;
use vault::Vault;

/// How long a read may take unless an option changes it.
const READ_DEADLINE_MS: u32 = 30_000;

/// The memory engine.
pub struct Memory {
    shared: Arc<Shared>,
    capability: Capability,
}

/// What the engine's sessions share.
struct Shared {
    catalog: Arc<ArcSwap<Catalog>>,
    gate: Arc<Gate>,
    /// Set by the log as well, once it is lost.
    closed: Arc<AtomicBool>,
    /// How many sessions there were; their numbers.
    sessions: AtomicU64,
    /// Where to load from and save to, and how.
    file: Option<(PathBuf, Format)>,
    /// Of a file that has a log.
    durability: Option<Durability>,
    /// True if the file's folder is made where it is missing.
    creates_folders: bool,
    /// What its files are encrypted with.
    vault: Arc<Vault>,
    /// The log, once the file was read.
    journal: OnceLock<Arc<Journal>>,
    /// What a file had, once one was read; tables leave it as models ask for them.
    loaded: Mutex<Option<Loaded>>,
    /// How long a list, a count or the search of a delete may take, in
    /// milliseconds; 0 for any time.
    read_deadline_ms: u32,
    /// How often a long read has left its thread to others.
    read_yields: AtomicU64,
    /// Long reads that were ended by their deadline.
    read_timeouts: AtomicU64,
    /// Long reads that were given up.
    reads_cancelled: AtomicU64,
}

impl Shared {
    /// The number of another session.
    fn new_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Until when a read that begins now may take.
    fn read_until(&self) -> Option<Instant> {
        let limit = Duration::from_millis(self.read_deadline_ms.into());
        (self.read_deadline_ms > 0).then(|| Instant::now() + limit)
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(self.refusal());
        }
        Ok(())
    }

    /// Holds the gate, so that no transaction is open while `run` runs.
    fn between_transactions<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<T> {
        struct Opened<'g>(&'g Gate);
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

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// An empty engine.
    #[must_use]
    pub fn new() -> Self {
        Self::with(None, (None, false), None, Vault::none())
    }

    fn with(
        file: Option<(PathBuf, Format)>,
        (durability, creates_folders): (Option<Durability>, bool),
        loaded: Option<Loaded>,
        vault: Vault,
    ) -> Self {
        let shared = Shared {
            catalog: Arc::default(),
            gate: Arc::default(),
            closed: Arc::default(),
            sessions: AtomicU64::new(0),
            file,
            durability,
            creates_folders,
            vault: Arc::new(vault),
            journal: OnceLock::new(),
            loaded: Mutex::new(loaded),
            read_deadline_ms: READ_DEADLINE_MS,
            read_yields: AtomicU64::new(0),
            read_timeouts: AtomicU64::new(0),
            reads_cancelled: AtomicU64::new(0),
        };
        let capability = Capability::new("memory", durability.is_some())
            .with_reads_meanwhile(ReadsMeanwhile::WaitForTables)
            .with_reused_last_key();
        let capability = match shared.file {
            Some(_) => capability.with_persistence(),
            None => capability,
        };
        Self { shared: Arc::new(shared), capability }
    }

    /// The engine that a URL names: `memory:`, or `memory:data/app.mem` with a
    /// file that is loaded when the first model is registered and saved when
    /// the engine is closed. `?format=json` or `?format=binary` says how; else
    /// the name does (JSON if it ends in `.json`).
    ///
    /// With `?durability=full`, `relaxed` or `none` the (binary) file has a log
    /// beside it: what was answered is kept without a close, to the extent that
    /// [`Durability`] says, and one process at a time has the file. The file
    /// itself is written anew when the log has become longer than 64 MiB and
    /// twice the file, and at the close.
    ///
    /// The file's folder must exist; `?create_folders=true` makes it. What is made
    /// is its owner's alone (modes 0600 and 0700).
    ///
    /// `?read_deadline_ms=5000` ends a list, a count or a delete by a filter that
    /// takes longer with `Timeout`; 0 ends none. Default: 30,000.
    ///
    /// With the feature `encryption` the (binary) file and its log are encrypted
    /// if the environment has `MARMOTA_KEY`, or the variable that
    /// `?key_env=NAME` names; see [`Key`](crate::key::Key).
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for any other URL, [`ErrorKind::Unsupported`] for
    /// a key without the feature `encryption`.
    ///
    /// ```
    /// use marmota_store::memory::Memory;
    /// assert!(Memory::from_url("memory:data/app.mem?format=binary").is_ok());
    /// assert!(Memory::from_url("memory:data/app.mem?durability=full").is_ok());
    /// assert!(Memory::from_url("memory:data/app.mem?format=xml").is_err());
    /// ```
    pub fn from_url(url: &str) -> Result<Self> {
        refuse_secrets(url)?;
        let refuse = |why: &str| {
            let message = format!(
                "{url:?} is no URL of the memory engine: {why}; use memory: or \
                 memory:FILE?format=json or binary&durability=full, relaxed or none&\
                 create_folders=true&key_env=NAME, and read_deadline_ms=NUMBER with either"
            );
            Error::new(ErrorKind::Invalid, message)
        };
        let rest = url.strip_prefix("memory:").ok_or_else(|| refuse("it begins otherwise"))?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut format, mut durability, mut source) = (None, None, None);
        let (mut creates_folders, mut of_file) = (false, false);
        let mut read_deadline_ms = READ_DEADLINE_MS;
        for option in query.split('&').filter(|option| !option.is_empty()) {
            of_file |= !option.starts_with("read_deadline_ms=");
            match option.split_once('=') {
                Some(("read_deadline_ms", value)) => {
                    let wrong = || refuse("read_deadline_ms is a number of milliseconds");
                    read_deadline_ms = value.parse().map_err(|_| wrong())?;
                }
                Some(("format", "json")) => format = Some(Format::Json),
                Some(("format", "binary")) => format = Some(Format::Binary),
                Some(("durability", "full")) => durability = Some(Durability::Full),
                Some(("durability", "relaxed")) => durability = Some(Durability::Relaxed),
                Some(("durability", "none")) => durability = Some(Durability::None),
                Some(("create_folders", "true")) => creates_folders = true,
                Some(("create_folders", "false")) => creates_folders = false,
                Some(("key_env", name)) => source = Some(KeySource::named(name)?),
                _ => return Err(refuse(&format!("there is no option `{option}`"))),
            }
        }
        if path.is_empty() {
            return match of_file {
                false => Self::new().read_deadline_ms(read_deadline_ms),
                true => Err(refuse("options but read_deadline_ms are for a file")),
            };
        }
        let named = if path.ends_with(".json") { Format::Json } else { Format::Binary };
        let format = format.unwrap_or(named);
        if format == Format::Json && durability.is_some() {
            return Err(refuse("a JSON file has no log"));
        }
        let vault = Vault::from(source.or_else(KeySource::usual))?;
        let kept = (durability, creates_folders);
        Self::with(Some((path.into(), format)), kept, None, vault)
            .read_deadline_ms(read_deadline_ms)
    }

    /// How long a list, a count or a delete by a filter may take, in
    /// milliseconds, before it ends with [`ErrorKind::Timeout`]; 0 for any time.
    /// Default: 30,000.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the engine was used already.
    ///
    /// ```
    /// use marmota_store::memory::Memory;
    /// let engine = Memory::new().read_deadline_ms(5_000)?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn read_deadline_ms(mut self, limit: u32) -> Result<Self> {
        match Arc::get_mut(&mut self.shared).filter(|shared| shared.journal.get().is_none()) {
            Some(shared) => shared.read_deadline_ms = limit,
            None => {
                let message =
                    "the engine was used already: give `read_deadline_ms` before all else";
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        Ok(self)
    }

    /// Encrypts the engine's files with the key that `ask` gives: at each file
    /// if it is a raw one, once if it is a passphrase. A file that is not
    /// encrypted is refused; [`Memory::rekey`] makes an encrypted one of it.
    /// JSON is refused as well.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the engine was used already.
    ///
    /// ```
    /// use marmota_store::key::Key;
    /// use marmota_store::memory::Memory;
    /// let engine = Memory::from_url("memory:data/app.mem?durability=full")?
    ///     .key(|| Key::passphrase("correct horse".to_owned()))?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[cfg(feature = "encryption")]
    pub fn key(mut self, ask: impl Fn() -> Result<Key> + Send + Sync + 'static) -> Result<Self> {
        let vault = Vault::from(Some(KeySource::new(ask)))?;
        match Arc::get_mut(&mut self.shared).filter(|shared| shared.journal.get().is_none()) {
            Some(shared) => shared.vault = Arc::new(vault),
            None => {
                let message = "the engine was used already: give its key before all else";
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        Ok(self)
    }

    /// An engine with what [`Memory::save`] has put into a file of either
    /// format that is not encrypted (one that is opens by [`Memory::from_url`]
    /// with its key). Rows take their place when their models are registered.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the file cannot be read, [`ErrorKind::Invalid`] if
    /// it is damaged or none of ours.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let vault = Vault::none();
        let loaded = file::load(path.as_ref(), &vault)?;
        Ok(Self::with(None, (None, false), Some(loaded), vault))
    }

    /// Saves everything that is committed, encrypted if the engine has a key. A
    /// crash leaves the old file or the new one, whole.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if it cannot be written; [`ErrorKind::Busy`] if a
    /// transaction stays open for too long.
    pub fn save(&self, path: impl AsRef<Path>, format: Format) -> Result<()> {
        let path = path.as_ref();
        if let (Some((own, _)), Some(_)) = (&self.shared.file, self.shared.durability)
            && (own == path
                || own
                    .canonicalize()
                    .is_ok_and(|own| path.canonicalize().is_ok_and(|it| it == own)))
        {
            let message = format!(
                "{} has a log, which goes on from it: make a snapshot, or save to another file",
                path.display()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.shared.between_transactions(|| self.shared.save(path, format).map(drop))
    }

    /// Writes the file of an engine that has a log anew, and begins another
    /// log, so that the next start is quick. Others go on meanwhile. It happens
    /// by itself when the log has become long, and at the close.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if it cannot be written, or if a transaction that has
    /// changed rows stays open for too long: the log goes on as it was.
    /// [`ErrorKind::Unsupported`] without a log.
    pub fn snapshot(&self) -> Result<()> {
        self.shared.snapshot()
    }
}

impl Shared {
    /// Gives how many rows of each table were saved.
    fn save(&self, path: &Path, format: Format) -> Result<BTreeMap<String, u64>> {
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
        file::save(path, &self.vault, format, &file::Contents { schema, tables, sections })?;
        Ok(rows)
    }

    /// Reads the file, the first time that something is asked of it.
    fn load(&self) -> Result<()> {
        let mut loaded = self.loaded.lock();
        if loaded.is_some() {
            return Ok(());
        }
        if let Some((path, Format::Json)) = &self.file {
            self.vault.check_json(path)?;
        }
        if let Some((path, _)) = &self.file {
            // Now, not when it is saved: that may be at the close.
            crate::private_file::have_folder(path, self.creates_folders)?;
        }
        *loaded = Some(match (&self.file, self.durability) {
            (Some((path, _)), Some(durability)) => {
                let opened = journal::open(path, &self.vault, durability, &self.closed)?;
                // Nobody else can have set it: this happens once.
                let _ = self.journal.set(opened.journal);
                opened.loaded
            }
            (Some((path, _)), None) if path.exists() => file::load(path, &self.vault)?,
            (Some((path, _)), None) => file::check_without_log(path).map(|()| Loaded::default())?,
            (None, _) => Loaded::default(),
        });
        Ok(())
    }

    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        self.load()?;
        let loaded = self.loaded.lock();
        let Some(loaded) = &*loaded else { return Ok(Plan::default()) };
        Self::check_version(loaded, version)?;
        self.compare(tables, loaded, true)
    }

    fn check_version(loaded: &Loaded, version: u32) -> Result<()> {
        if loaded.schema > version {
            let message = format!(
                "{} was written by a program with schema version {}, and this one has {version}: \
                 use that program, or a newer one",
                loaded.path.display(),
                loaded.schema
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(())
    }

    fn migrate(
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
        // What older rows got for new fields is in no log.
        match (journal, &self.file) {
            (Some(journal), Some((path, _))) if reshaped => {
                self.snapshot_of(journal, path, loaded)?;
            }
            _ => {}
        }
        Ok(plan)
    }

    fn open_table(&self, table: &Arc<Table>) -> Result<bool> {
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

    fn close(&self) -> Result<()> {
        let journal = self.journal.get();
        if self.closed.swap(true, Ordering::SeqCst) {
            let Some((journal, error)) =
                journal.and_then(|log| log.failure().map(|why| (log, why)))
            else {
                return Ok(());
            };
            journal.stop();
            return Err(error);
        }
        // A file that was never read must not be written over.
        let read = self.loaded.lock().is_some();
        let saved = match (&self.file, journal) {
            (Some((path, _)), Some(journal)) => self.close_log(journal, path),
            (Some((path, format)), None) if read => self.save(path, *format).map(drop),
            _ => Ok(()),
        };
        match (&saved, journal) {
            (Err(_), _) => self.closed.store(false, Ordering::Relaxed),
            (Ok(()), Some(journal)) => journal.stop(),
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

impl Engine for Memory {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        self.shared.between_transactions(|| {
            self.shared.check_open()?;
            self.shared.plan(tables, version)
        })
    }

    fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan> {
        self.shared.between_transactions(|| {
            self.shared.check_open()?;
            self.shared.migrate(tables, version, destructive)
        })
    }

    fn open_table(&self, table: &Arc<Table>) -> Result<bool> {
        self.shared.between_transactions(|| {
            self.shared.check_open()?;
            self.shared.open_table(table)
        })
    }

    fn copy_to(&self, path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Copied> {
        self.shared.copy_to(path, progress)
    }

    fn existing_tables(&self) -> Result<Option<Vec<String>>> {
        self.shared.load()?;
        let loaded = self.shared.loaded.lock();
        let mut names: Vec<String> =
            loaded.iter().flat_map(|loaded| loaded.tables.keys().cloned()).collect();
        let catalog = self.shared.catalog.load();
        names.extend(catalog.slots.iter().map(|slot| slot.rows.read().table.name().to_owned()));
        Ok(Some(names))
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        self.shared.check_open()?;
        Ok(Box::new(MemorySession::new(Arc::clone(&self.shared))))
    }

    fn statistics(&self) -> EngineStatistics {
        let journal = self.shared.journal.get();
        let mut statistics = journal.map(|journal| journal.statistics()).unwrap_or_default();
        statistics.read_yields = self.shared.read_yields.load(Ordering::Relaxed);
        statistics.read_timeouts = self.shared.read_timeouts.load(Ordering::Relaxed);
        statistics.reads_cancelled = self.shared.reads_cancelled.load(Ordering::Relaxed);
        statistics
    }

    fn attach_source(&self) -> AttachSource {
        AttachSource::Rows
    }

    fn close(&self) -> Result<()> {
        self.shared.between_transactions(|| self.shared.close())
    }
}
