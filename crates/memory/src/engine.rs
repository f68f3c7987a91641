//! The memory engine: its constructors, and its implementation of [`Engine`].

#[cfg(test)]
mod failed_commit;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::backup::Copied;
use marmota_store::change::ChangeRecorder;
use marmota_store::engine::{AttachSource, Capability, Engine, ReadsMeanwhile, Session};
#[cfg(feature = "encryption")]
use marmota_store::key::EncryptionKey;
use marmota_store::key::{KeySource, refuse_secrets};
use marmota_store::log_copy::CommitSink;
use marmota_store::plan::{Destructive, Plan};
use marmota_store::{Durability, EngineStatistics};

use crate::data_file::FileFormat;
use crate::data_file::contents::Loaded;
use crate::encryption::file_encryption::FileEncryption;
use crate::journal::plain_file;
use crate::session::MemorySession;
use crate::shared::logged_file::LoggedFile;
use crate::shared::{READ_DEADLINE_MS, Shared};

/// The memory engine.
pub struct Memory {
    pub(crate) shared: Arc<Shared>,
    capability: Capability,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// Creates an empty engine.
    #[must_use]
    pub fn new() -> Self {
        Self::with(None, (None, false), None, FileEncryption::none())
    }

    fn with(
        file: Option<(PathBuf, FileFormat)>,
        (durability, creates_folders): (Option<Durability>, bool),
        loaded: Option<Loaded>,
        encryption: FileEncryption,
    ) -> Self {
        let shared = Shared::new(file, (durability, creates_folders), loaded, encryption);
        let capability = Capability::new("memory", durability.is_some())
            .with_reads_meanwhile(ReadsMeanwhile::WaitForTables)
            .with_reused_last_key()
            .with_change_feed();
        let capability = match shared.file {
            Some(_) => capability.with_persistence(),
            None => capability,
        };
        Self { shared: Arc::new(shared), capability }
    }

    /// Creates the engine of a URL: `memory:`, or `memory:data/app.mem` with a file, which is
    /// loaded when the first model is registered and saved when the engine is closed.
    /// `?format=json` or `?format=binary` sets the format; by default it depends on the name (JSON
    /// if it ends in `.json`).
    ///
    /// With `?durability=full`, `relaxed` or `none`, the (binary) file has a log in the same
    /// folder: acknowledged writes survive without a close, as far as the [`Durability`] promises,
    /// and only one process at a time can open the file. The file itself is written again when the
    /// log is longer than 64 MiB and than twice the file, and at the close.
    ///
    /// The file's folder must exist; `?create_folders=true` creates it. New files and folders are
    /// accessible to their owner only (modes 0600 and 0700).
    ///
    /// `?read_deadline_ms=5000` ends a list, a count or a delete by filter that takes longer, with
    /// `Timeout`; 0 disables the deadline. Default: 30,000.
    ///
    /// With the feature `encryption`, the (binary) file and its log are encrypted if the
    /// environment has `MARMOTA_KEY`, or the variable that `?key_env=NAME` names; see
    /// [`EncryptionKey`](marmota_store::key::EncryptionKey).
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for any other URL, [`ErrorKind::Unsupported`] for
    /// a key without the feature `encryption`.
    ///
    /// ```
    /// use marmota_memory::Memory;
    /// assert!(Memory::from_url("memory:data/app.mem?format=binary").is_ok());
    /// assert!(Memory::from_url("memory:data/app.mem?durability=full").is_ok());
    /// assert!(Memory::from_url("memory:data/app.mem?format=xml").is_err());
    /// ```
    pub fn from_url(url: &str) -> Result<Self> {
        refuse_secrets(url)?;
        let refuse = |why: &str| {
            let message = format!(
                "{url:?} is not a URL of the memory engine: {why}; use memory: or memory:FILE, \
                 with the options format (json or binary), durability (full, relaxed or none), \
                 create_folders (true or false) and key_env (NAME) for a file, and \
                 read_deadline_ms (a number) for both"
            );
            Error::new(ErrorKind::Invalid, message)
        };
        let rest = url.strip_prefix("memory:").ok_or_else(|| {
            refuse(
                "it does not begin with \
                                                                     `memory:`",
            )
        })?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut format, mut durability, mut source) = (None, None, None);
        let (mut creates_folders, mut of_file) = (false, false);
        let mut read_deadline_ms = READ_DEADLINE_MS;
        for option in query.split('&').filter(|option| !option.is_empty()) {
            of_file |= !option.starts_with("read_deadline_ms=");
            match option.split_once('=') {
                Some(("read_deadline_ms", value)) => {
                    let wrong = || refuse("read_deadline_ms must be a number of milliseconds");
                    read_deadline_ms = value.parse().map_err(|_| wrong())?;
                }
                Some(("format", "json")) => format = Some(FileFormat::Json),
                Some(("format", "binary")) => format = Some(FileFormat::Binary),
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
                true => Err(refuse("without a file, only the option read_deadline_ms is allowed")),
            };
        }
        let named = if path.ends_with(".json") { FileFormat::Json } else { FileFormat::Binary };
        let format = format.unwrap_or(named);
        if format == FileFormat::Json && durability.is_some() {
            return Err(refuse("a JSON file has no log"));
        }
        let encryption = FileEncryption::from(source.or_else(KeySource::usual))?;
        let kept = (durability, creates_folders);
        Self::with(Some((path.into(), format)), kept, None, encryption)
            .read_deadline_ms(read_deadline_ms)
    }

    /// Sets the time that a list, a count or a delete by filter may take, in milliseconds, before
    /// it ends with [`ErrorKind::Timeout`]; 0 disables the deadline. Default: 30,000.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the engine was already used.
    ///
    /// ```
    /// use marmota_memory::Memory;
    /// let engine = Memory::new().read_deadline_ms(5_000)?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn read_deadline_ms(mut self, limit: u32) -> Result<Self> {
        match Arc::get_mut(&mut self.shared).filter(|shared| shared.journal.get().is_none()) {
            Some(shared) => shared.read_deadline_ms = limit,
            None => {
                let message = "the engine was used already: set `read_deadline_ms` before the first operation";
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        Ok(self)
    }

    /// Encrypts the engine's files with the key that `ask` returns. It is called for each file if
    /// the key is raw, and once if it is a passphrase. A file that is not encrypted is refused;
    /// [`Memory::rekey`] encrypts it. JSON is refused as well.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the engine was already used.
    ///
    /// ```
    /// use marmota_store::key::EncryptionKey;
    /// use marmota_memory::Memory;
    /// let engine = Memory::from_url("memory:data/app.mem?durability=full")?
    ///     .key(|| EncryptionKey::passphrase("correct horse".to_owned()))?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[cfg(feature = "encryption")]
    pub fn key(
        mut self,
        ask: impl Fn() -> Result<EncryptionKey> + Send + Sync + 'static,
    ) -> Result<Self> {
        let encryption = FileEncryption::from(Some(KeySource::new(ask)))?;
        match Arc::get_mut(&mut self.shared).filter(|shared| shared.journal.get().is_none()) {
            Some(shared) => shared.encryption = Arc::new(encryption),
            None => {
                let message = "the engine was used already: set the key before the first operation";
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        Ok(self)
    }

    /// Creates an engine with the data that [`Memory::save`] has written to a file, in either
    /// format, without encryption ([`Memory::from_url`] opens encrypted files with their key). Rows
    /// are converted when their models are registered.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the file cannot be read, [`ErrorKind::Invalid`] if it is damaged or not
    /// a file of this engine.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let encryption = FileEncryption::none();
        let loaded = plain_file::load(path.as_ref(), &encryption)?;
        Ok(Self::with(None, (None, false), Some(loaded), encryption))
    }

    /// Saves all committed data, encrypted if the engine has a key. After a crash the file is
    /// either the old one or the new one, complete.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the file cannot be written; [`ErrorKind::Busy`] if a transaction stays
    /// open for too long.
    pub fn save(&self, path: impl AsRef<Path>, format: FileFormat) -> Result<()> {
        let path = path.as_ref();
        if let (Some((own, _)), Some(_)) = (&self.shared.file, self.shared.durability)
            && (own == path
                || own
                    .canonicalize()
                    .is_ok_and(|own| path.canonicalize().is_ok_and(|it| it == own)))
        {
            let message = format!(
                "{} has a log of later writes: make a snapshot, or save to another file",
                path.display()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.shared.between_transactions(|| self.shared.save(path, format).map(drop))
    }

    /// Writes the file of an engine with a log again, and begins another log, so that the next
    /// start is fast. Other sessions continue meanwhile. The engine does this automatically when
    /// the log has become long, and at the close.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the file cannot be written, or if a transaction that has changed rows
    /// stays open for too long: the log continues unchanged. [`ErrorKind::Unsupported`] without a
    /// log.
    pub fn snapshot(&self) -> Result<()> {
        self.shared.snapshot().map(drop)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(journal) = self.shared.journal.get() {
            journal.copy.end();
        }
    }
}

impl Engine for Memory {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        let _paused = self.shared.pause_replica()?;
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
        let _paused = self.shared.pause_replica()?;
        self.shared.between_transactions(|| {
            self.shared.check_open()?;
            self.shared.open_table(table)
        })
    }

    fn copy_to(&self, path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Copied> {
        let _paused = self.shared.pause_replica()?;
        self.shared.copy_to(path, progress)
    }

    fn existing_tables(&self) -> Result<Option<Vec<String>>> {
        self.shared.load()?;
        let _paused = self.shared.pause_replica()?;
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

    fn record_changes(&self, recorder: &Arc<ChangeRecorder>) -> Result<()> {
        self.shared
            .recorder
            .set(Arc::clone(recorder))
            .map_err(|_| Error::new(ErrorKind::Invalid, "changes are recorded already"))
    }

    fn copy_log(&self, sink: Arc<dyn CommitSink>) -> Result<()> {
        let shared = &self.shared;
        let (Some((path, _)), Some(_)) = (&shared.file, shared.durability) else {
            let message = "a memory engine without a log cannot be replicated: open a file with a \
                           durability, as in memory:data/app.mem?durability=full";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        if sink.is_replica() {
            shared.become_replica()?;
        }
        shared.load()?;
        let Some(journal) = shared.journal.get() else { return Err(shared.refusal()) };
        journal.copy_to(Arc::clone(&sink))?;
        sink.attach(Arc::new(LoggedFile { path: path.clone(), shared: Arc::downgrade(shared) }))
    }

    fn close(&self) -> Result<()> {
        self.shared.between_transactions(|| self.shared.close())
    }
}
