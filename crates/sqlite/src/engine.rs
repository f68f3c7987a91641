//! The engine: opening a file, its connections, and closing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::EngineStatistics;
use marmota_store::backup::Copied;
use marmota_store::change::ChangeRecorder;
use marmota_store::engine::{
    AttachSource, AttachedDatabase, Capability, Engine, ReadsMeanwhile, Session,
};
use marmota_store::existing::ExistingTable;
use marmota_store::log_copy::CommitSink;
use marmota_store::plan::{Destructive, Plan};
use marmota_store::tables::{KnownTables, Tables};
use parking_lot::Mutex;

use crate::commit::commit_thread::CommitThread;
use crate::commit::group_commit::closed;
use crate::commit::write_lock::WriteLock;
use crate::executor::Executor;
use crate::executor::log_copy::LogCopy;
use crate::executor::read_budget::FIRST_BUDGET;
use crate::executor::statistics::Counts;
use crate::fault;
use crate::file::attachable_file::AttachableFile;
use crate::file::connect::{connect, file_of};
use crate::file::database_name::location_name;
use crate::file::encryption::FileEncryption;
use crate::file::options::{Location, SqliteOptions, parse};
use crate::file::replication_lock;
use crate::session::SqliteSession;
use crate::session::logged_file::LoggedFile;
use crate::session::shared::Shared;

/// Models in an SQLite database.
///
/// ```
/// use marmota_sqlite::Sqlite;
/// use marmota_store::engine::Engine;
/// let engine = Sqlite::from_url("sqlite::memory:")?;
/// assert!(!engine.capability().durable);
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Debug)]
pub struct Sqlite(pub(crate) Arc<Shared>);

impl Sqlite {
    /// Opens a database. A missing file is created, with access for its owner only (mode 0600), and
    /// that is logged. Its folder must exist unless [`SqliteOptions::create_folders`] is set.
    ///
    /// # Errors
    /// - [`ErrorKind::Io`] for a place that cannot be read or written, or a missing folder.
    /// - [`ErrorKind::Engine`] for a file that is not an SQLite database.
    /// - [`ErrorKind::Busy`] for a file that another program has locked exclusively.
    /// - With the feature `encryption`, [`ErrorKind::Denied`] for a wrong key,
    ///   [`ErrorKind::Invalid`] for a key if the file is not encrypted or nothing can be encrypted,
    ///   and any error of the source of the key.
    ///
    /// [`ErrorKind::Busy`]: marmota_model::ErrorKind::Busy
    /// [`ErrorKind::Denied`]: marmota_model::ErrorKind::Denied
    /// [`ErrorKind::Engine`]: marmota_model::ErrorKind::Engine
    /// [`ErrorKind::Invalid`]: marmota_model::ErrorKind::Invalid
    /// [`ErrorKind::Io`]: marmota_model::ErrorKind::Io
    pub fn open(location: Location, options: SqliteOptions) -> Result<Self> {
        let one_connection = options.exclusive || location == Location::Memory;
        let durable = matches!(location, Location::File(_));
        let tables = Arc::new(Tables::default());
        let encryption = Arc::new(FileEncryption::new(&options));
        let connection = connect(&location, &options, &encryption)?;
        let mut executor = Executor::new(connection, KnownTables::new(Arc::clone(&tables)))?;
        executor.connection.watch(FIRST_BUDGET, options.read_deadline());
        executor.read_deadline_ms = options.read_deadline_ms;
        let (commit_thread, counts) =
            (Arc::new(CommitThread::default()), Arc::new(Counts::default()));
        executor.counts = Arc::clone(&counts);
        executor.file = file_of(&location, &options);
        if durable {
            executor.keep_with(options.durability, &commit_thread);
            executor.never_block();
        }
        if let Location::File(path) = &location {
            executor.log_copy =
                replication_lock::taken_elsewhere(path).map_or(LogCopy::None, LogCopy::Elsewhere);
        }
        let writer = WriteLock::new(executor, options.writes_waiting_max);
        commit_thread.employ(Arc::<WriteLock<Executor>>::downgrade(&writer));
        let capability = Capability::new("sqlite", durable)
            .with_made_key_texts()
            .with_sql()
            .with_reused_last_key()
            .with_change_feed()
            .with_generated_columns();
        let capability = match one_connection {
            true => capability.with_reads_meanwhile(ReadsMeanwhile::Wait),
            false => capability.with_shared_file(),
        };
        Ok(Self(Arc::new(Shared {
            location,
            options,
            encryption,
            capability,
            one_connection,
            writer,
            commit_thread,
            counts,
            groups: AtomicBool::new(false),
            readers: Mutex::default(),
            spare_readers: Mutex::default(),
            helpers: Arc::default(),
            offloaded: AtomicUsize::new(0),
            tables,
            attached: Mutex::default(),
            closed: AtomicBool::new(false),
            replication_lock: Mutex::default(),
        })))
    }

    /// Opens the database of a URL: `sqlite:data/app.db` or `sqlite::memory:`, with options after a
    /// `?`, named as in [`SqliteOptions`]. The path is used literally, up to the `?`.
    ///
    /// The key of an encrypted file comes from the environment: from `MARMOTA_KEY`, or from the
    /// variable in `?key_env=NAME`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL of another form or an unknown option,
    /// [`ErrorKind::Unsupported`] for a key in a build without the feature
    /// `encryption`; otherwise as [`Sqlite::open`].
    ///
    /// [`ErrorKind::Invalid`]: marmota_model::ErrorKind::Invalid
    /// [`ErrorKind::Unsupported`]: marmota_model::ErrorKind::Unsupported
    pub fn from_url(url: &str) -> Result<Self> {
        let (location, mut options) = parse(url)?;
        options.take_key_from_environment(&location)?;
        Self::open(location, options)
    }

    /// Runs raw SQL for things that models cannot describe: a view, a trigger, a change of rows
    /// before a model is prepared. Rows in the result are dropped, and a transaction left open is
    /// rolled back.
    ///
    /// The text must not come from users: it has no bound values.
    ///
    /// # Errors
    /// The error of SQLite, with the same kinds as for operations. Statements before the failed one
    /// have taken effect.
    pub fn execute(&self, sql: &str) -> Result<()> {
        self.0.with_executor(|executor| {
            executor.check_writable()?;
            let done = executor.counted(|executor| executor.connection.execute(sql));
            let done = done.map_err(|failure| fault::of(&failure));
            executor.roll_back();
            self.0.decide_on_groups(executor);
            done
        })
    }

    /// Prevents the engine's own threads from leading groups and executing writes (even if the disk
    /// is slow), and from syncing relaxed writes. The order of events then depends on the callers only, for
    /// reproducible runs. The returned function syncs relaxed writes to the disk, unless a
    /// transaction is open.
    #[cfg(feature = "simulated-disk")]
    pub fn leave_groups_to_callers(&self) -> impl Fn() + Send + Sync + use<> {
        self.0.commit_thread.leave_to_callers();
        let commit_thread = Arc::clone(&self.0.commit_thread);
        move || commit_thread.sync(std::time::Duration::ZERO)
    }

    /// Injects a fault into the engine, which a test or `marmota prove` has to detect.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] while a transaction is open.
    ///
    /// [`ErrorKind::Busy`]: marmota_model::ErrorKind::Busy
    #[cfg(feature = "simulated-disk")]
    pub fn plant(&self, fault: crate::file::disk::DiskFault) -> Result<()> {
        self.0.with_executor(|executor| {
            executor.planted = Some(fault);
            Ok(())
        })
    }

    /// Returns the version of the compiled-in SQLite.
    #[must_use]
    pub fn sqlite_version() -> &'static str {
        crate::ffi::version()
    }
}

impl Engine for Sqlite {
    fn capability(&self) -> &Capability {
        &self.0.capability
    }

    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        let place = location_name(&self.0.location);
        self.0.with_executor(|executor| crate::prepare::plan(executor, tables, version, &place))
    }

    fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan> {
        let place = location_name(&self.0.location);
        let is_encrypted = self.0.is_encrypted();
        let migrate = |executor: &mut Executor| {
            crate::prepare::fit_pages(executor, tables, is_encrypted)?;
            crate::prepare::migrate(executor, tables, version, destructive, &place)
        };
        self.0.with_executor(|executor| {
            let plan = executor.counted(migrate)?;
            self.0.tables.add(tables);
            self.0.decide_on_groups(executor);
            Ok(plan)
        })
    }

    fn open_table(&self, table: &Arc<Table>) -> Result<bool> {
        let is_there = self.0.with_executor(|executor| crate::prepare::has(executor, table))?;
        if is_there {
            self.0.tables.add(std::slice::from_ref(table));
        }
        Ok(is_there)
    }

    fn copy_to(&self, path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Copied> {
        self.0.copy_to(path, progress)
    }

    fn existing_tables(&self) -> Result<Option<Vec<String>>> {
        let mut names = Vec::new();
        // Without the tables of a search index.
        let sql = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' \
                   AND name NOT LIKE 'sqlite#_%' ESCAPE '#' ORDER BY name";
        let asked = self.0.with_writer(|connection| {
            connection.query(sql, |row| {
                names.push(String::from_utf8_lossy(row.at(0).bytes()).into_owned());
            })
        })?;
        asked.map_err(|failure| fault::of(&failure))?;
        Ok(Some(names))
    }

    fn existing_structure(&self) -> Result<Option<Vec<ExistingTable>>> {
        let structure = self.0.with_writer(crate::prepare::structure)?;
        structure.map(Some).map_err(|failure| fault::of(&failure))
    }

    fn other_processes(&self) -> Result<Vec<String>> {
        Ok(self.0.other_processes())
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        if self.0.is_closed() {
            return Err(closed());
        }
        Ok(Box::new(SqliteSession::new(Arc::clone(&self.0))))
    }

    fn statistics(&self) -> EngineStatistics {
        self.0.counts.statistics(self.0.writer.waiting())
    }

    fn attach_source(&self) -> AttachSource {
        AttachSource::Own(Arc::new(AttachableFile {
            location: self.0.location.clone(),
            is_exclusive: self.0.options.exclusive,
            encryption: Arc::clone(&self.0.encryption),
        }))
    }

    fn attach(&self, attached: AttachedDatabase) -> Result<()> {
        self.0.with_executor(|executor| {
            crate::file::attached_databases::check_names(&mut executor.connection, &attached)?;
            executor.attached.add(&mut executor.connection, &attached, false)?;
            self.0.attached.lock().push(attached);
            Ok(())
        })
    }

    fn record_changes(&self, recorder: &Arc<ChangeRecorder>) -> Result<()> {
        self.0.with_executor(|executor| executor.record(recorder))
    }

    fn copy_log(&self, sink: Arc<dyn CommitSink>) -> Result<()> {
        let Location::File(path) = &self.0.location else {
            let message = "a database in memory cannot be replicated: name a file, as in \
                           sqlite:data/app.db";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let lock = replication_lock::take(path)?;
        let database = Arc::new(LoggedFile { path: path.clone(), shared: Arc::downgrade(&self.0) });
        self.0.with_executor(|executor| {
            sink.attach(database)?;
            if sink.waits() {
                self.0.commit_thread.expect_waits();
            }
            executor.log_copy = LogCopy::Sink { sink, is_reported: false };
            *self.0.replication_lock.lock() = Some(lock);
            Ok(())
        })
    }

    fn close(&self) -> Result<()> {
        self.0.close()
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // Errors cannot be reported here; call `close` to receive them.
        let _ = self.0.close();
    }
}
