//! [`Shared`]: the state of an engine, and its connections.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Durability;
use marmota_store::engine::{AttachedDatabase, Capability};
use marmota_store::tables::{KnownTables, Tables};
use marmota_store::thread_pool::ThreadPool;
use parking_lot::Mutex;

use crate::commit::commit_thread::{CommitThread, LeadsGroups};
use crate::commit::group_commit::closed;
use crate::commit::write_lock::WriteLock;
use crate::executor::Executor;
use crate::executor::log_copy::LogCopy;
use crate::executor::read_budget::FIRST_BUDGET;
use crate::executor::statistics::Counts;
use crate::fault::busy;
use crate::ffi::{Connection, Failure, code};
use crate::file::attached_databases::AttachedDatabases;
use crate::file::connect::{cache_sql, file_of};
use crate::file::database_name::location_name;
use crate::file::encryption::{FileEncryption, error_at};
use crate::file::lock_owner;
use crate::file::options::{Location, SqliteOptions};

/// A session's own connection; `None` after the engine is closed.
pub(crate) type Reader = Mutex<Option<Executor>>;

/// The longest time that closing waits for a running read.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest wait for the writing connection before it is checked whether the engine is closed.
const CLOSING_PAUSE: Duration = Duration::from_millis(20);
/// The most connections kept for reads without a session.
const SPARE_READERS_MAX: usize = 8;
/// The state that an engine shares with its sessions.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) location: Location,
    pub(crate) options: SqliteOptions,
    pub(crate) encryption: Arc<FileEncryption>,
    pub(crate) capability: Capability,
    /// True if reads share the writing connection: a database in memory or a locked file has no
    /// second one.
    pub(crate) one_connection: bool,
    pub(crate) writer: Arc<WriteLock<Executor>>,
    pub(crate) commit_thread: Arc<CommitThread>,
    pub(crate) counts: Arc<Counts>,
    /// True if writes join groups.
    pub(crate) groups: AtomicBool,
    pub(crate) readers: Mutex<Vec<Weak<Reader>>>,
    /// Reading connections that no session uses.
    pub(crate) spare_readers: Mutex<Vec<Arc<Reader>>>,
    pub(crate) helpers: Arc<ThreadPool>,
    /// The number of reads that run on helper threads or wait for one.
    pub(crate) offloaded: AtomicUsize,
    pub(crate) tables: Arc<Tables>,
    /// The other databases of the store, visible to SQL.
    pub(crate) attached: Mutex<Vec<AttachedDatabase>>,
    pub(crate) closed: AtomicBool,
    /// Held while the log is copied elsewhere.
    pub(crate) replication_lock: Mutex<Option<File>>,
}

impl LeadsGroups for WriteLock<Executor> {
    fn lead_within(&self, timeout: Duration) -> Option<usize> {
        self.lead_within(timeout)
    }

    fn wake_late(&self) {
        self.wake_late();
    }

    fn pending(&self) -> usize {
        self.pending()
    }

    fn sync_within(&self, timeout: Duration) -> bool {
        match self.lock_within(timeout) {
            // A failed sync has stopped the engine and is never retried.
            Some(mut guard) => guard
                .executor()
                .is_none_or(|executor| executor.sync_log().is_ok() || executor.is_stopped()),
            None => false,
        }
    }
}

impl Shared {
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Decides whether writes join groups: not if commits do not wait for the disk, nor if a write
    /// can fail after its statement or roll back more than itself.
    pub(crate) fn decide_on_groups(&self, executor: &mut Executor) {
        let mut apart = 0;
        let asked = executor.connection.query(
            "SELECT count(*) FROM sqlite_schema \
             WHERE sql LIKE '%INITIALLY%DEFERRED%' OR sql LIKE '%ROLLBACK%'",
            |row| apart = row.at(0).int(),
        );
        let waits = executor.durability() != Durability::None;
        self.groups.store(waits && asked.is_ok() && apart == 0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn groups(&self) -> bool {
        self.groups.load(Ordering::Relaxed)
    }

    /// Returns a view of the tables.
    pub(crate) fn known_tables(&self) -> KnownTables {
        KnownTables::new(Arc::clone(&self.tables))
    }

    pub(crate) fn busy_timeout(&self) -> Duration {
        Duration::from_millis(self.options.busy_timeout_ms.into())
    }

    /// Returns the error of a write that waited too long for the lock of the file.
    #[cold]
    pub(crate) fn locked_by_other(&self) -> Error {
        match &self.location {
            Location::File(path) => lock_owner::busy(path, self.busy_timeout()),
            Location::Memory => busy(),
        }
    }

    /// Describes the other processes that have the file open.
    pub(crate) fn other_processes(&self) -> Vec<String> {
        match &self.location {
            Location::File(path) => lock_owner::other_processes(path),
            Location::Memory => Vec::new(),
        }
    }

    /// Opens the file of a copy, with its key if it has one.
    pub(crate) fn open_copy(&self, path: &Path) -> Result<Connection> {
        let at = |failure: Failure| self.encryption.at(&failure, path);
        let mut connection = match &self.location {
            Location::File(_) => self.encryption.open(path)?,
            Location::Memory => Connection::open_file(path).map_err(at)?,
        };
        // The copy gets its final name only when it is complete and on the disk.
        connection.execute("PRAGMA synchronous=OFF; PRAGMA trusted_schema=OFF").map_err(at)?;
        Ok(connection)
    }

    /// Opens a separate connection to the file for a copy.
    pub(crate) fn open_source(&self) -> Result<Connection> {
        let Location::File(path) = &self.location else { return Err(closed()) };
        if self.is_closed() {
            return Err(closed());
        }
        let mut connection = self.encryption.open(path)?;
        connection.busy_timeout_ms(self.options.busy_timeout_ms);
        connection.keep_log_at_close();
        connection
            .execute("PRAGMA query_only=ON; PRAGMA trusted_schema=OFF")
            .map_err(|failure| self.encryption.at(&failure, path))?;
        Ok(connection)
    }

    /// Runs a function on the writing connection. Blocks the thread while others write.
    pub(crate) fn with_executor<T>(
        &self,
        run: impl FnOnce(&mut Executor) -> Result<T>,
    ) -> Result<T> {
        let mut guard = self.writer.lock_within(self.busy_timeout()).ok_or_else(busy)?;
        guard.executor().ok_or_else(closed)?.blocking(run)
    }

    /// Like [`Self::with_executor`], but fails soon once the engine is being closed: the closing
    /// thread has the connection, and may wait for this one.
    pub(crate) fn with_open_executor<T>(
        &self,
        run: impl FnOnce(&mut Executor) -> Result<T>,
    ) -> Result<T> {
        let until = Instant::now() + self.busy_timeout();
        let mut guard = loop {
            match self.writer.lock_within(CLOSING_PAUSE) {
                Some(guard) => break guard,
                None if self.is_closed() => return Err(closed()),
                None if Instant::now() >= until => return Err(busy()),
                None => {}
            }
        };
        guard.executor().ok_or_else(closed)?.blocking(run)
    }

    /// Like [`Self::with_executor`], for its connection.
    pub(crate) fn with_writer<T>(&self, run: impl FnOnce(&mut Connection) -> T) -> Result<T> {
        self.with_executor(|executor| Ok(run(&mut executor.connection)))
    }

    /// Returns true if the file has a key.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.encryption.has_key()
    }

    /// Opens a reading connection. Its reads never block their thread; opening it blocks only if
    /// `blocks` is true.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if another process prevents reading the file.
    fn open_reader(&self, blocks: bool) -> Result<Arc<Reader>> {
        let Location::File(path) = &self.location else { return Err(closed()) };
        let mut connection = self.encryption.open(path)?;
        connection.busy_timeout_ms(if blocks { self.options.busy_timeout_ms } else { 0 });
        // Only the writer removes the log, since it knows whether the disk failed.
        connection.keep_log_at_close();
        let mut attached = AttachedDatabases::default();
        for database in &*self.attached.lock() {
            attached.add(&mut connection, database, true)?;
        }
        connection
            .execute(&cache_sql(&self.options))
            .and_then(|()| connection.execute("PRAGMA query_only=ON; PRAGMA trusted_schema=OFF"))
            .map_err(|failure| self.encryption.at(&failure, path))?;
        let mut executor = Executor::new(connection, KnownTables::new(Arc::clone(&self.tables)))?;
        executor.connection.watch(FIRST_BUDGET, self.options.read_deadline());
        executor.read_deadline_ms = self.options.read_deadline_ms;
        executor.file = file_of(&self.location, &self.options);
        executor.never_block();
        executor.attached = attached;
        let reader = Arc::new(Mutex::new(Some(executor)));
        let mut readers = self.readers.lock();
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(Arc::downgrade(&reader));
        drop(readers);
        // `close` ran before this reader was in the list.
        if self.is_closed() {
            reader.lock().take();
            return Err(closed());
        }
        Ok(reader)
    }

    /// Returns a reading connection for one session or offloaded read ([`Self::open_reader`]).
    pub(crate) fn take_reader(&self, blocks: bool) -> Result<Arc<Reader>> {
        let spare = self.spare_readers.lock().pop();
        spare.map_or_else(|| self.open_reader(blocks), Ok)
    }

    /// Keeps a reading connection for the next use.
    pub(crate) fn give_reader_back(&self, reader: Arc<Reader>) {
        let mut spare = self.spare_readers.lock();
        if spare.len() < SPARE_READERS_MAX && !self.is_closed() {
            spare.push(reader);
        }
    }

    /// Counts a read that continues on a helper thread.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if too many reads do.
    #[cold]
    pub(crate) fn reserve_offloaded(&self) -> Result<()> {
        let scans_max = self.options.scans_max;
        if self.offloaded.fetch_add(1, Ordering::Relaxed) < scans_max {
            return Ok(());
        }
        self.offloaded_ended();
        let message = format!(
            "{scans_max} long reads are running already (`scans_max`); try again later, or select \
             fewer rows"
        );
        Err(Error::new(ErrorKind::Busy, message))
    }

    pub(crate) fn offloaded_ended(&self) {
        self.offloaded.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn close(&self) -> Result<()> {
        // An open transaction may finish. If that takes too long, the engine stays open and can be
        // closed later.
        let mut guard = self.writer.lock_within(self.busy_timeout()).ok_or_else(busy)?;
        if self.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        self.commit_thread.dismiss();
        self.helpers.dismiss();
        self.spare_readers.lock().clear();
        let readers = std::mem::take(&mut *self.readers.lock());
        for reader in readers.iter().filter_map(Weak::upgrade) {
            // A longer read closes its connection at its end.
            if let Some(mut executor) = reader.try_lock_for(CLOSE_TIMEOUT) {
                executor.take();
            }
        }
        guard.take().map_or(Ok(()), |executor| self.close_writer(executor))
    }

    /// Closes the writing connection, after a checkpoint of everything it wrote.
    pub(crate) fn close_writer(&self, mut executor: Executor) -> Result<()> {
        if self.location == Location::Memory {
            return Ok(());
        }
        if let Err(stopped) = executor.check_stopped() {
            if let LogCopy::Sink { sink, .. } = &executor.log_copy {
                sink.closed();
            }
            return Err(stopped);
        }
        // With less durability, only this waits for the disk. If another program reads, the log
        // remains, but its content is in the file.
        let sink = match &executor.log_copy {
            LogCopy::None => None,
            LogCopy::Elsewhere(_) => {
                executor.connection.keep_log_at_close();
                return Ok(());
            }
            LogCopy::Sink { sink, .. } => Some(Arc::clone(sink)),
        };
        if sink.as_ref().is_some_and(|sink| !sink.before_close()) {
            executor.connection.keep_log_at_close();
            drop(executor);
            sink.inspect(|sink| sink.closed());
            self.replication_lock.lock().take();
            return Ok(());
        }
        let sql = "PRAGMA synchronous=FULL; PRAGMA wal_checkpoint(TRUNCATE)";
        let checkpoint = |executor: &mut Executor| executor.connection.execute(sql);
        match executor.blocking(|executor| executor.counted(checkpoint)) {
            Err(failure) if failure.code() & 0xff != code::BUSY => {
                executor.connection.keep_log_at_close();
                Err(error_at(&failure, &location_name(&self.location)))
            }
            _ => {
                drop(executor);
                if let Some(sink) = sink {
                    sink.closed();
                    self.replication_lock.lock().take();
                }
                Ok(())
            }
        }
    }
}
