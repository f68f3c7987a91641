//! The engine: its connections, and closing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::backup::Copied;
use marmota_store::engine::{Capability, Engine, Session};
use marmota_store::plan::{Destructive, Plan};
use marmota_store::{EngineStatistics, InvalidationFeed};
use parking_lot::Mutex;

use crate::composer::Catalog;
use crate::connection::Connection;
use crate::connector::{self, Purpose};
use crate::lane::Lane;
use crate::listener::Listener;
use crate::options::Options;
use crate::own::Own;
use crate::pool::Pool;
use crate::session::PostgresSession;

/// The time for sent operations to end when the engine is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Models in a PostgreSQL database.
///
/// ```no_run
/// use marmota_postgres::Postgres;
/// use marmota_store::Store;
/// let engine = Postgres::from_url("postgres://ada@localhost/app")?;
/// let store = Store::builder(engine).open()?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub struct Postgres(Arc<Shared>);

/// The state that an engine shares with its sessions.
pub(crate) struct Shared {
    pub(crate) options: Arc<Options>,
    capability: Capability,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) pool: Pool,
    /// The connections for reads, and those for writes.
    readers: Vec<Arc<Lane>>,
    writers: Vec<Arc<Lane>>,
    sessions: AtomicUsize,
    /// Receives the writes of others for a store's cache.
    listener: Mutex<Option<Listener>>,
    is_closed: AtomicBool,
    /// The number of times that a read yielded its thread.
    read_yields: AtomicU64,
}

impl Postgres {
    /// Connects to a database.
    ///
    /// # Errors
    /// - [`ErrorKind::Refused`] if the server is not there or accepts no more connections.
    /// - [`ErrorKind::Denied`] if the user is not authorized or TLS is refused.
    /// - [`ErrorKind::Invalid`] if the database does not exist.
    pub fn open(mut options: Options) -> Result<Self> {
        // Other engines may be opened with the same options.
        options.own = Own::default();
        let first = connector::connect_first(&mut options).map_err(|refused| refused.error())?;
        if let Some(direct) = &mut options.direct {
            direct.own = options.own.clone();
        }
        let local_server =
            first.local_server().map(|at| format!("PostgreSQL on this machine ({at})"));
        let lanes_max = options.lanes_max();
        let lanes =
            |purpose| (0..lanes_max).map(|_| Arc::new(Lane::new(purpose))).collect::<Vec<_>>();
        Ok(Self(Arc::new(Shared {
            options: Arc::new(options),
            capability: Capability::new("postgres", true)
                .with_sql()
                .with_row_locks()
                .with_key_gaps()
                .with_local_server(local_server),
            catalog: Arc::default(),
            pool: Pool::of(Lane::with(first)),
            readers: lanes(Purpose::Reads),
            writers: lanes(Purpose::SharedWrites),
            sessions: AtomicUsize::new(0),
            listener: Mutex::default(),
            is_closed: AtomicBool::new(false),
            read_yields: AtomicU64::new(0),
        })))
    }

    /// Connects to the database of a URL; see [`Options::parse`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL of another form; otherwise like [`Postgres::open`].
    pub fn from_url(url: &str) -> Result<Self> {
        Self::open(Options::parse(url)?)
    }

    /// Runs raw SQL for things that models cannot describe: a view, a trigger, a change of rows
    /// before a model is prepared. Rows in the result are dropped. Several statements are one
    /// transaction, unless they contain transaction commands.
    ///
    /// The text must not come from users: it has no bound values.
    ///
    /// # Errors
    /// The error of PostgreSQL, with the same kinds as for operations.
    pub fn execute(&self, sql: &str) -> Result<()> {
        self.0.with_connection(|connection, options| {
            // A store on this engine does not know about these writes.
            connection.is_news();
            connection.query(sql, |_| {}).map_err(|error| error.into_error(options))
        })
    }
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Postgres").field(&self.0.options).finish()
    }
}

impl Engine for Postgres {
    fn capability(&self) -> &Capability {
        &self.0.capability
    }

    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        self.0.with_connection(|connection, options| {
            crate::prepare::plan(connection, tables, version, options)
        })
    }

    fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan> {
        let (plan, facts) = self.0.with_connection(|connection, options| {
            crate::prepare::migrate(connection, tables, version, destructive, options)
        })?;
        let mut known = self.0.catalog.facts.write();
        known.extend(facts.into_iter().map(Arc::new));
        self.0.catalog.tables.add(tables);
        Ok(plan)
    }

    fn open_table(&self, table: &Arc<Table>) -> Result<bool> {
        let facts = self.0.with_connection(|connection, options| {
            crate::prepare::facts_of(connection, table, options)
        })?;
        let Some(facts) = facts else { return Ok(false) };
        self.0.catalog.facts.write().push(Arc::new(facts));
        self.0.catalog.tables.add(std::slice::from_ref(table));
        Ok(true)
    }

    fn existing_tables(&self) -> Result<Option<Vec<String>>> {
        let mut names = Vec::new();
        let sql = "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema() \
                   AND tablename <> 'marmota_schema' ORDER BY tablename";
        self.0.with_connection(|connection, options| {
            let take = |row: &crate::query::Texts| names.push(row.text(0).to_owned());
            connection.query(sql, take).map_err(|error| error.into_error(options))
        })?;
        Ok(Some(names))
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        self.0.check_open()?;
        Ok(Box::new(PostgresSession::new(Arc::clone(&self.0))))
    }

    fn statistics(&self) -> EngineStatistics {
        let mut statistics = EngineStatistics::default();
        statistics.read_yields = self.0.read_yields.load(Ordering::Relaxed);
        statistics
    }

    fn subscribe_changes(&self, tables: &[Arc<Table>], feed: &Arc<InvalidationFeed>) -> Result<()> {
        self.0.check_open()?;
        let options = self.0.options_for_listening()?;
        let listener = Listener::start(&options, tables, feed)?;
        *self.0.listener.lock() = Some(listener);
        Ok(())
    }

    fn copy_to(&self, _: &Path, _: &mut dyn FnMut(u64, u64)) -> Result<Copied> {
        let message = "backups of PostgreSQL are made by its own programs: `pg_dump` for a database, \
                       `pg_basebackup` for a server";
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    fn close(&self) -> Result<()> {
        self.0.close()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Errors cannot be reported here; call `close` to receive them.
        let _ = self.0.close();
    }
}

impl Shared {
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Counts a read that yielded its thread.
    #[cold]
    pub(crate) fn note_yield(&self) {
        self.read_yields.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed() { Err(closed()) } else { Ok(()) }
    }

    /// Returns the lanes of the next session: one for reads, one for writes.
    pub(crate) fn lanes(&self) -> (Arc<Lane>, Arc<Lane>) {
        let at = self.sessions.fetch_add(1, Ordering::Relaxed) % self.readers.len();
        (Arc::clone(&self.readers[at]), Arc::clone(&self.writers[at]))
    }

    /// Returns the most connections for transactions.
    pub(crate) fn transactions_max(&self) -> usize {
        usize::from(self.options.connections_max) - 2 * self.options.lanes_max()
    }

    /// Calls `run` with an exclusive connection, from the pool if one is free, and blocks until it
    /// is done.
    fn with_connection<T>(
        &self,
        run: impl FnOnce(&mut Connection, &Options) -> Result<T>,
    ) -> Result<T> {
        self.check_open()?;
        let of_pool = self.pool.take_free(self);
        let lane = of_pool.clone().unwrap_or_default();
        let done = self.run_on(&lane, run);
        match of_pool {
            Some(lane) => self.pool.give_back(lane),
            None => lane.lock().connection.iter_mut().for_each(Connection::close),
        }
        done
    }

    fn run_on<T>(
        &self,
        lane: &Lane,
        run: impl FnOnce(&mut Connection, &Options) -> Result<T>,
    ) -> Result<T> {
        let mut inside = lane.lock();
        if inside.working().is_none() {
            let made = connector::connect(&self.options, Purpose::Exclusive);
            inside.connection = Some(made.map_err(|refused| refused.error())?);
        }
        let connection = inside.connection.as_mut().ok_or_else(closed)?;
        run(connection, &self.options)
    }

    /// Returns the options of the listening connection, which must not be over a pooler.
    fn options_for_listening(&self) -> Result<Arc<Options>> {
        let Some(direct) = &self.options.direct else {
            if self.options.is_pooled {
                let message = format!(
                    "PostgreSQL at {} is reached over a connection pooler, which passes on no \
                     announcements of other programs' writes: name the server itself in the URL \
                     (`direct_url`, with % before what has a meaning in a URL), or open the store \
                     without a cache",
                    self.options.place()
                );
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            return Ok(Arc::clone(&self.options));
        };
        // The start time of the server and the database identify the database.
        let which = "SELECT pg_postmaster_start_time()::text||' '||d.oid FROM pg_database d \
                     WHERE d.datname=current_database()";
        let ask = |connection: &mut Connection, options: &Options| {
            let mut answer = String::new();
            let asked = connection.query(which, |row| answer = row.text(0).to_owned());
            asked.map(|()| answer).map_err(|error| error.into_error(options))
        };
        let ours = self.with_connection(ask)?;
        let mut connection =
            connector::connect(direct, Purpose::Exclusive).map_err(|refused| refused.error())?;
        let theirs = ask(&mut connection, direct)?;
        connection.close();
        if ours != theirs {
            let message = format!(
                "`direct_url` names another server or database ({}) than the URL ({}): announcements \
                 of writes would be missed",
                direct.place(),
                self.options.place()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(Arc::new((**direct).clone()))
    }

    fn close(&self) -> Result<()> {
        if self.is_closed() {
            return Ok(());
        }
        // An open transaction may finish. If that takes too long, the engine stays open and can be
        // closed later.
        let timeout = Duration::from_millis(self.options.acquire_timeout_ms.into());
        if !self.pool.close(timeout) {
            let message = "a transaction is open, and did not end in time; end it and close again";
            return Err(Error::new(ErrorKind::Busy, message));
        }
        self.is_closed.store(true, Ordering::SeqCst);
        drop(self.listener.lock().take());
        let until = Instant::now() + CLOSE_TIMEOUT;
        for lane in self.readers.iter().chain(&self.writers) {
            lane.close(until);
        }
        Ok(())
    }
}

#[cold]
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the engine is closed")
}
