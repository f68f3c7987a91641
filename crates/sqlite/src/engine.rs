//! The engine: opening a file, its connections, and closing.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::backup::Copied;
use marmota_store::engine::{
    AttachSource, AttachedDatabase, Capability, Engine, ReadsMeanwhile, Session,
};
use marmota_store::plan::{Destructive, Plan};
use marmota_store::private_file::have_folder;
use marmota_store::{Durability, EngineStatistics};
use parking_lot::Mutex;

use crate::budget::FIRST_BUDGET;
use crate::clerk::Clerk;
use crate::counts::Counts;
use crate::fault;
use crate::ffi::{Connection, Failure, code};
use crate::holder;
use crate::lane::Lane;
use crate::neighbours::Neighbours;
use crate::options::{Location, Options, parse};
use crate::scan::{Place, Scan};
use crate::session::{SqliteSession, busy, closed};
use crate::stopped::write_log_anew;
use crate::vault::{Vault, at_place};
use crate::writer::Writer;
use marmota_store::tables::{KnownTables, Tables};
use marmota_store::thread_pool::ThreadPool;

/// A session's own connection; `None` after the engine is closed.
pub(crate) type Reader = Mutex<Option<Lane>>;

/// The longest time that closing waits for a running read.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause before a locked file is opened again.
const OPEN_AGAIN: Duration = Duration::from_millis(5);
/// The most connections kept for reads without a session.
const SPARE_READERS_MAX: usize = 8;
/// The log is truncated to this size after a checkpoint.
const LOG_BYTES_MAX: u64 = 64 << 20;

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
pub struct Sqlite(Arc<Shared>);

/// The state that an engine shares with its sessions.
#[derive(Debug)]
pub(crate) struct Shared {
    location: Location,
    pub(crate) options: Options,
    vault: Vault,
    capability: Capability,
    /// True if reads share the writing connection: a database in memory or a locked file has no
    /// second one.
    pub(crate) one_connection: bool,
    pub(crate) writer: Arc<Writer<Lane>>,
    pub(crate) clerk: Arc<Clerk>,
    pub(crate) counts: Arc<Counts>,
    /// True if writes join groups.
    groups: AtomicBool,
    readers: Mutex<Vec<Weak<Reader>>>,
    /// Reading connections that no session uses.
    spare_readers: Mutex<Vec<Arc<Reader>>>,
    pub(crate) helpers: Arc<ThreadPool>,
    /// The number of reads that run on helper threads or wait for one.
    scans: AtomicUsize,
    tables: Arc<Tables>,
    /// The other databases of the store, visible to SQL.
    neighbours: Mutex<Vec<AttachedDatabase>>,
    closed: AtomicBool,
}

impl Sqlite {
    /// Opens a database. A missing file is created, with access for its owner only (mode 0600), and
    /// that is logged. Its folder must exist unless [`Options::create_folders`] is set.
    ///
    /// # Errors
    /// - [`ErrorKind::Io`] for a place that cannot be read or written, or a missing folder.
    /// - [`ErrorKind::Engine`] for a file that is not an SQLite database.
    /// - [`ErrorKind::Busy`] for a file that another program has locked exclusively.
    /// - With the feature `encryption`, [`ErrorKind::Denied`] for a wrong key,
    ///   [`ErrorKind::Invalid`] for a key if the file is not encrypted or nothing can be encrypted,
    ///   and any error of the source of the key.
    pub fn open(location: Location, options: Options) -> Result<Self> {
        let one_connection = options.exclusive || location == Location::Memory;
        let durable = matches!(location, Location::File(_));
        let tables = Arc::new(Tables::default());
        let vault = Vault::new(&options);
        let connection = connect(&location, &options, &vault)?;
        let mut lane = Lane::new(connection, KnownTables::new(Arc::clone(&tables)))?;
        lane.connection.watch(FIRST_BUDGET, options.read_deadline());
        lane.read_deadline_ms = options.read_deadline_ms;
        let (clerk, counts) = (Arc::new(Clerk::default()), Arc::new(Counts::default()));
        lane.counts = Arc::clone(&counts);
        lane.file = file_of(&location, &options);
        if durable {
            lane.keep_with(options.durability, &clerk);
            lane.never_block();
        }
        let writer = Writer::new(lane, options.writes_waiting_max);
        clerk.employ(&writer);
        let capability = Capability::new("sqlite", durable).with_sql().with_reused_last_key();
        let capability = match one_connection {
            true => capability.with_reads_meanwhile(ReadsMeanwhile::Wait),
            false => capability.with_shared_file(),
        };
        Ok(Self(Arc::new(Shared {
            location,
            options,
            vault,
            capability,
            one_connection,
            writer,
            clerk,
            counts,
            groups: AtomicBool::new(false),
            readers: Mutex::default(),
            spare_readers: Mutex::default(),
            helpers: Arc::default(),
            scans: AtomicUsize::new(0),
            tables,
            neighbours: Mutex::default(),
            closed: AtomicBool::new(false),
        })))
    }

    /// Opens the database of a URL: `sqlite:data/app.db` or `sqlite::memory:`, with options after a
    /// `?`, named as in [`Options`]. The path is used literally, up to the `?`.
    ///
    /// The key of an encrypted file comes from the environment: from `MARMOTA_KEY`, or from the
    /// variable in `?key_env=NAME`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL of another form or an unknown option,
    /// [`ErrorKind::Unsupported`] for a key in a build without the feature
    /// `encryption`; otherwise as [`Sqlite::open`].
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
        self.0.with_lane(|lane| {
            lane.check_stopped()?;
            let done = lane.counted(|lane| lane.connection.execute(sql));
            let done = done.map_err(|failure| fault::of(&failure));
            lane.roll_back();
            self.0.decide_on_groups(lane);
            done
        })
    }

    /// Prevents the engine's own thread from leading groups (even if the disk is slow) and from
    /// syncing relaxed writes. The order of events then depends on the callers only, for
    /// reproducible runs. The returned function syncs relaxed writes to the disk, unless a
    /// transaction is open.
    #[cfg(feature = "simulated-disk")]
    pub fn leave_groups_to_callers(&self) -> impl Fn() + Send + Sync + use<> {
        self.0.clerk.stand_back();
        let clerk = Arc::clone(&self.0.clerk);
        move || clerk.sync(Duration::ZERO)
    }

    /// Injects a fault into the engine, which a test or `marmota prove` has to detect.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] while a transaction is open.
    #[cfg(feature = "simulated-disk")]
    pub fn plant(&self, fault: crate::disk::Fault) -> Result<()> {
        self.0.with_lane(|lane| {
            lane.planted = Some(fault);
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
        let place = place_name(&self.0.location);
        self.0.with_lane(|lane| crate::prepare::plan(lane, tables, version, &place))
    }

    fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan> {
        let place = place_name(&self.0.location);
        let migrate =
            |lane: &mut Lane| crate::prepare::migrate(lane, tables, version, destructive, &place);
        self.0.with_lane(|lane| {
            let plan = lane.counted(migrate)?;
            self.0.tables.add(tables);
            self.0.decide_on_groups(lane);
            Ok(plan)
        })
    }

    fn open_table(&self, table: &Arc<Table>) -> Result<bool> {
        let is_there = self.0.with_lane(|lane| crate::prepare::has(lane, table))?;
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
        AttachSource::Own(Arc::clone(&self.0) as Arc<dyn Any + Send + Sync>)
    }

    fn attach(&self, attached: AttachedDatabase) -> Result<()> {
        self.0.with_lane(|lane| {
            crate::neighbours::check_names(&mut lane.connection, &attached)?;
            lane.neighbours.add(&mut lane.connection, &attached, false)?;
            self.0.neighbours.lock().push(attached);
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

impl Shared {
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Decides whether writes join groups: not if commits do not wait for the disk, nor if a write
    /// can fail after its statement or roll back more than itself.
    fn decide_on_groups(&self, lane: &mut Lane) {
        let mut apart = 0;
        let asked = lane.connection.query(
            "SELECT count(*) FROM sqlite_schema \
             WHERE sql LIKE '%INITIALLY%DEFERRED%' OR sql LIKE '%ROLLBACK%'",
            |row| apart = row.at(0).int(),
        );
        let waits = lane.durability() != Durability::None;
        self.groups.store(waits && asked.is_ok() && apart == 0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn groups(&self) -> bool {
        self.groups.load(Ordering::Relaxed)
    }

    /// Returns the reason why a connection of another engine cannot see the database, with a
    /// solution, or `None` if it can.
    pub(crate) fn unseen(&self, only_reads: bool) -> Option<&'static str> {
        match self.location {
            Location::Memory => Some(
                "it is in SQLite's memory, which its own connection alone reads; keep the table \
                 in a file, in the memory engine, or in the first database",
            ),
            Location::File(_) if self.options.exclusive => Some(
                "its file is exclusive, so that no other connection reads it; open it without \
                 `exclusive`, or keep the table in the first database",
            ),
            Location::File(_) if !only_reads => Some(
                "another file is seen by statements that read, outside of transactions, and where \
                 the first database is a file that is not exclusive",
            ),
            Location::File(_) => None,
        }
    }

    /// Attaches the file to a connection of another engine.
    pub(crate) fn attach_to(&self, connection: &mut Connection, name: &str) -> Result<()> {
        let Location::File(path) = &self.location else { return Err(closed()) };
        self.vault.attach(connection, path, name)
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
            Location::File(path) => holder::busy(path, self.busy_timeout()),
            Location::Memory => busy(),
        }
    }

    /// Opens the file of a copy, with its key if it has one.
    pub(crate) fn open_copy(&self, path: &Path) -> Result<Connection> {
        let at = |failure: Failure| self.vault.at(&failure, path);
        let mut connection = match &self.location {
            Location::File(_) => self.vault.open(path)?,
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
        let mut connection = self.vault.open(path)?;
        connection.busy_timeout_ms(self.options.busy_timeout_ms);
        connection.keep_log_at_close();
        connection
            .execute("PRAGMA query_only=ON; PRAGMA trusted_schema=OFF")
            .map_err(|failure| self.vault.at(&failure, path))?;
        Ok(connection)
    }

    /// Runs a function on the writing connection. Blocks the thread while others write.
    pub(crate) fn with_lane<T>(&self, run: impl FnOnce(&mut Lane) -> Result<T>) -> Result<T> {
        let mut turn = self.writer.turn_within(self.busy_timeout()).ok_or_else(busy)?;
        turn.lane().ok_or_else(closed)?.blocking(run)
    }

    /// Like [`Self::with_lane`], for its connection.
    pub(crate) fn with_writer<T>(&self, run: impl FnOnce(&mut Connection) -> T) -> Result<T> {
        self.with_lane(|lane| Ok(run(&mut lane.connection)))
    }

    /// Returns true if the file has a key.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.vault.has_key()
    }

    /// Opens a reading connection. Its reads never block their thread; opening it blocks only if
    /// `blocks` is true.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if another process prevents reading the file.
    fn open_reader(&self, blocks: bool) -> Result<Arc<Reader>> {
        let Location::File(path) = &self.location else { return Err(closed()) };
        let mut connection = self.vault.open(path)?;
        connection.busy_timeout_ms(if blocks { self.options.busy_timeout_ms } else { 0 });
        // Only the writer removes the log, since it knows whether the disk failed.
        connection.keep_log_at_close();
        let mut neighbours = Neighbours::default();
        for attached in &*self.neighbours.lock() {
            neighbours.add(&mut connection, attached, true)?;
        }
        connection
            .execute(&cache_sql(&self.options))
            .and_then(|()| connection.execute("PRAGMA query_only=ON; PRAGMA trusted_schema=OFF"))
            .map_err(|failure| self.vault.at(&failure, path))?;
        let mut lane = Lane::new(connection, KnownTables::new(Arc::clone(&self.tables)))?;
        lane.connection.watch(FIRST_BUDGET, self.options.read_deadline());
        lane.read_deadline_ms = self.options.read_deadline_ms;
        lane.file = file_of(&self.location, &self.options);
        lane.never_block();
        lane.neighbours = neighbours;
        let reader = Arc::new(Mutex::new(Some(lane)));
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

    /// Returns a reading connection for one session or scan ([`Self::open_reader`]).
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
    pub(crate) fn reserve_scan(&self) -> Result<()> {
        let scans_max = self.options.scans_max;
        if self.scans.fetch_add(1, Ordering::Relaxed) < scans_max {
            return Ok(());
        }
        self.scan_ended();
        let message = format!(
            "{scans_max} long reads are under way already (`scans_max`); try again later, or \
             select fewer rows"
        );
        Err(Error::new(ErrorKind::Busy, message))
    }

    /// Continues a counted read on a helper thread.
    pub(crate) fn start_scan(self: &Arc<Self>, scan: &Arc<Scan>, place: Place) {
        self.counts.read_handover();
        let (shared, scan) = (Arc::clone(self), Arc::clone(scan));
        self.helpers.run(move || scan.carry_out(&shared, place));
    }

    pub(crate) fn scan_ended(&self) {
        self.scans.fetch_sub(1, Ordering::Relaxed);
    }

    fn close(&self) -> Result<()> {
        // An open transaction may finish. If that takes too long, the engine stays open and can be
        // closed later.
        let mut turn = self.writer.turn_within(self.busy_timeout()).ok_or_else(busy)?;
        if self.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        self.clerk.dismiss();
        self.helpers.dismiss();
        self.spare_readers.lock().clear();
        let readers = std::mem::take(&mut *self.readers.lock());
        for reader in readers.iter().filter_map(Weak::upgrade) {
            // A longer read closes its connection at its end.
            if let Some(mut lane) = reader.try_lock_for(CLOSE_TIMEOUT) {
                lane.take();
            }
        }
        turn.take().map_or(Ok(()), |lane| self.close_writer(lane))
    }

    /// Closes the writing connection, after a checkpoint of everything it wrote.
    pub(crate) fn close_writer(&self, mut lane: Lane) -> Result<()> {
        if self.location == Location::Memory {
            return Ok(());
        }
        lane.check_stopped()?;
        // With less durability, only this waits for the disk. If another program reads, the log
        // remains, but its content is in the file.
        let sql = "PRAGMA synchronous=FULL; PRAGMA wal_checkpoint(TRUNCATE)";
        let checkpoint = |lane: &mut Lane| lane.connection.execute(sql);
        match lane.blocking(|lane| lane.counted(checkpoint)) {
            Err(failure) if failure.code() & 0xff != code::BUSY => {
                lane.connection.keep_log_at_close();
                Err(at_place(&failure, &place_name(&self.location)))
            }
            _ => Ok(()),
        }
    }
}

/// Opens the writing connection and checks that it can write.
fn connect(location: &Location, options: &Options, vault: &Vault) -> Result<Connection> {
    match location {
        Location::Memory => connect_to_memory(options),
        Location::File(path) => {
            have_folder(path, options.create_folders)?;
            let is_new = !path.exists();
            let connected = match connect_in_time(path, options, vault) {
                Err(error) if vault.lost_race(&error) => connect_in_time(path, options, vault),
                done => done,
            };
            if is_new && connected.is_ok() {
                log::info!("created {}", place_of(path));
            }
            connected
        }
    }
}

fn connect_to_memory(options: &Options) -> Result<Connection> {
    options.refuse_key_of_memory()?;
    let at = |failure: Failure| at_place(&failure, &place_name(&Location::Memory));
    let mut connection = Connection::open_memory().map_err(at)?;
    connection.busy_timeout_ms(options.busy_timeout_ms);
    connection.execute("PRAGMA trusted_schema=OFF").map_err(at)?;
    Ok(connection)
}

/// Opens a file that others may have locked. SQLite itself waits for locks, except for the one that
/// starts a write-ahead log.
fn connect_in_time(path: &Path, options: &Options, vault: &Vault) -> Result<Connection> {
    let timeout = Duration::from_millis(options.busy_timeout_ms.into());
    let started = Instant::now();
    loop {
        match connect_to_file(path, options, vault) {
            Err(error) if error.kind() == ErrorKind::Busy => {
                if started.elapsed() >= timeout {
                    return Err(holder::busy(path, started.elapsed()).with_source(error));
                }
                std::thread::sleep(OPEN_AGAIN);
            }
            done => return done,
        }
    }
}

/// Returns the file and the timeout that a lane uses in errors about locks.
fn file_of(location: &Location, options: &Options) -> Option<(PathBuf, Duration)> {
    match location {
        Location::File(path) => {
            Some((path.clone(), Duration::from_millis(options.busy_timeout_ms.into())))
        }
        Location::Memory => None,
    }
}

fn connect_to_file(path: &Path, options: &Options, vault: &Vault) -> Result<Connection> {
    let place = place_of(path);
    let at = |failure: Failure| vault.at(&failure, path);
    let mut connection = vault.open(path)?;
    connection.busy_timeout_ms(options.busy_timeout_ms);
    if options.exclusive {
        // Before the first read of the file, which some PRAGMAs do: from then on, its log and so
        // the file would be shared.
        connection.execute("PRAGMA locking_mode=EXCLUSIVE").map_err(at)?;
    }
    connection.execute("PRAGMA trusted_schema=OFF").map_err(at)?;
    connection.execute(&cache_sql(options)).map_err(at)?;
    // The first read of the file, which detects files that are not databases.
    let encoding = text_of(&mut connection, "PRAGMA encoding").map_err(at)?;
    if encoding != "UTF-8" {
        let message = format!(
            "{place}: its texts are {encoding}; copy it into a new one that is UTF-8 \
             (`sqlite3 old.db .dump | sqlite3 new.db`)"
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    if connection.is_readonly() {
        let failure = Failure::new(code::READONLY, "attempt to open for writing");
        return Err(at_place(&failure, &place));
    }
    let mode = text_of(&mut connection, "PRAGMA journal_mode=WAL").map_err(at)?;
    if mode != "wal" {
        let message = format!(
            "{place}: its folder does not allow a write-ahead log (the journal stays `{mode}`); \
             use a local disk, or the option `exclusive`"
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    write_log_anew(&mut connection, path, options.busy_timeout_ms)?;
    let synchronous = match options.durability {
        Durability::Full => "FULL",
        Durability::Relaxed => "NORMAL",
        Durability::None => "OFF",
    };
    connection
        .execute(&format!(
            "PRAGMA synchronous={synchronous}; PRAGMA fullfsync=ON; \
             PRAGMA journal_size_limit={LOG_BYTES_MAX}; PRAGMA wal_autocheckpoint=0"
        ))
        .map_err(at)?;
    Ok(connection)
}

fn cache_sql(options: &Options) -> String {
    // A negative number is in KiB instead of pages.
    format!("PRAGMA cache_size=-{}", (options.cache_bytes_max >> 10).clamp(16, i32::MAX as u64))
}

/// Returns the text of the only row of a PRAGMA.
pub(crate) fn text_of(connection: &mut Connection, sql: &str) -> Result<String, Failure> {
    let mut text = String::new();
    connection.query(sql, |row| {
        text = String::from_utf8_lossy(row.at(0).bytes()).into_owned();
    })?;
    Ok(text)
}

fn place_name(location: &Location) -> String {
    match location {
        Location::File(path) => place_of(path),
        Location::Memory => "the database in memory".to_owned(),
    }
}

/// Returns a file's name for error messages.
pub(crate) fn place_of(path: &Path) -> String {
    format!("the database {}", path.display())
}
