//! The state that an engine shares with its sessions: its connections, and closing.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_sql::TargetServer;
use marmota_store::InvalidationFeed;
use marmota_store::change::ChangeRecorder;
use marmota_store::engine::Capability;
use parking_lot::Mutex;

use crate::changes::feed::{self, PostgresFeed};
use crate::changes::listener::Listener;
use crate::composer::Catalog;
use crate::connection::Connection;
use crate::connection::connector::{self, Purpose, QUICK};
use crate::connection::pool::Pool;
use crate::connection::slot::ConnectionSlot;
use crate::fault::closed;
use crate::options::PostgresOptions;
use crate::options::current_server::CurrentServer;
use crate::options::own_connections::OwnConnections;

/// The time for sent operations to end when the engine is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after looking for a server.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// The state that an engine shares with its sessions.
pub(crate) struct Shared {
    pub(crate) options: Arc<PostgresOptions>,
    capability: Capability,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) pool: Pool,
    /// The connections for reads, and those for writes.
    readers: Vec<Arc<ConnectionSlot>>,
    writers: Vec<Arc<ConnectionSlot>>,
    sessions: AtomicUsize,
    /// True for the connections to a standby: an operation does not wait for a connection, and is
    /// not repeated on another one.
    pub(crate) is_replica: bool,
    /// Receives the writes of others for a store's cache.
    listener: Mutex<Option<Listener>>,
    /// The change feed, if changes are recorded.
    feed: OnceLock<PostgresFeed>,
    is_closed: AtomicBool,
    is_looking: Arc<AtomicBool>,
    /// The number of times that a read yielded its thread.
    read_yields: AtomicU64,
}

impl Shared {
    /// Connects to a database.
    pub(crate) fn connect(mut options: PostgresOptions) -> Result<Self> {
        // Other engines may be opened with the same options.
        options.own = OwnConnections::default();
        let first = connector::connect_first(&mut options).map_err(|refused| refused.error())?;
        if let Some(direct) = &mut options.direct {
            direct.own = options.own.clone();
        }
        let local_server =
            first.local_server().map(|at| format!("PostgreSQL on this machine ({at})"));
        let first = ConnectionSlot::with(first);
        Ok(Self::of(options, local_server, Arc::default(), first, false))
    }

    /// Creates the connections to a server of a cluster as its standby. Nothing is connected yet.
    pub(crate) fn of_replica(primary: &Self, server: usize) -> Self {
        let mut options = primary.options.at(server).into_owned();
        options.target = TargetServer::Standby;
        options.current_server = CurrentServer::default();
        let catalog = Arc::clone(&primary.catalog);
        Self::of(options, None, catalog, ConnectionSlot::default(), true)
    }

    fn of(
        options: PostgresOptions,
        local_server: Option<String>,
        catalog: Arc<Catalog>,
        first: ConnectionSlot,
        is_replica: bool,
    ) -> Self {
        let slots_max = options.slots_max();
        let transactions_max = usize::from(options.connections_max) - 2 * slots_max;
        let slots = |purpose| {
            (0..slots_max).map(|_| Arc::new(ConnectionSlot::new(purpose))).collect::<Vec<_>>()
        };
        Self {
            options: Arc::new(options),
            capability: Capability::new("postgres", true)
                .with_made_key_texts()
                .with_sql()
                .with_row_locks()
                .with_key_gaps()
                .with_estimates()
                .with_shared_commits()
                .with_local_server(local_server),
            catalog,
            pool: Pool::of(first, transactions_max),
            readers: slots(Purpose::Reads),
            writers: slots(Purpose::SharedWrites),
            sessions: AtomicUsize::new(0),
            is_replica,
            listener: Mutex::default(),
            feed: OnceLock::new(),
            is_closed: AtomicBool::new(false),
            is_looking: Arc::default(),
            read_yields: AtomicU64::new(0),
        }
    }

    pub(crate) const fn capability(&self) -> &Capability {
        &self.capability
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Counts a read that yielded its thread.
    #[cold]
    pub(crate) fn note_yield(&self) {
        self.read_yields.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of times that a read yielded its thread.
    pub(crate) fn read_yields(&self) -> u64 {
        self.read_yields.load(Ordering::Relaxed)
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed() { Err(closed()) } else { Ok(()) }
    }

    /// Connects once more, on a separate thread, to find out which server is the primary. If it is
    /// another one, the connections to the one before are closed (`current_server.rs`). For the
    /// connections to a standby, finds out whether it answers; if not, they are closed.
    #[cold]
    pub(crate) fn look_for_server(&self) {
        let is_looking = &self.is_looking;
        if is_looking.swap(true, Ordering::Relaxed) {
            return;
        }
        let (options, is_looking) = (Arc::clone(&self.options), Arc::clone(is_looking));
        let look = move || {
            let begun = Instant::now();
            match connector::connect_quickly(&options, Purpose::Exclusive) {
                Ok(mut connection) => connection.close(),
                // A server that refuses the connection runs.
                Err(_) if options.target == TargetServer::Standby && begun.elapsed() >= QUICK => {
                    options.current_server.close_all();
                }
                Err(_) => {}
            }
            std::thread::sleep(LOOK_PAUSE);
            is_looking.store(false, Ordering::Relaxed);
        };
        let thread = std::thread::Builder::new().name("marmota-postgres-server".to_owned());
        if thread.spawn(look).is_err() {
            self.is_looking.store(false, Ordering::Relaxed);
        }
    }

    /// Returns the slots of the next session: one for reads, one for writes.
    pub(crate) fn slots(&self) -> (Arc<ConnectionSlot>, Arc<ConnectionSlot>) {
        let at = self.sessions.fetch_add(1, Ordering::Relaxed) % self.readers.len();
        (Arc::clone(&self.readers[at]), Arc::clone(&self.writers[at]))
    }

    /// Calls `run` with an exclusive connection, from the pool if one is free, and blocks until it
    /// is done.
    pub(crate) fn with_connection<T>(
        &self,
        run: impl FnOnce(&mut Connection, &PostgresOptions) -> Result<T>,
    ) -> Result<T> {
        self.check_open()?;
        let of_pool = self.pool.take_free();
        let slot = of_pool.clone().unwrap_or_default();
        let done = self.run_on(&slot, run);
        match of_pool {
            Some(slot) => self.pool.give_back(slot),
            None => slot.lock().connection.iter_mut().for_each(Connection::close),
        }
        done
    }

    fn run_on<T>(
        &self,
        slot: &ConnectionSlot,
        run: impl FnOnce(&mut Connection, &PostgresOptions) -> Result<T>,
    ) -> Result<T> {
        let mut inside = slot.lock();
        if inside.working().is_none() {
            let made = connector::connect(&self.options, Purpose::Exclusive);
            inside.connection = Some(made.map_err(|refused| refused.error())?);
        }
        let connection = inside.connection.as_mut().ok_or_else(closed)?;
        run(connection, &self.options)
    }

    /// Starts to notify a store's cache of the writes of others.
    pub(crate) fn listen(&self, tables: &[Arc<Table>], feed: &Arc<InvalidationFeed>) -> Result<()> {
        self.check_open()?;
        let options = self.options_for_listening()?;
        let listener = Listener::start(&options, tables, feed)?;
        *self.listener.lock() = Some(listener);
        Ok(())
    }

    /// Installs the triggers of the change feed, and reports its commits from now on.
    pub(crate) fn record(&self, recorder: &Arc<ChangeRecorder>) -> Result<()> {
        self.with_connection(|connection, options| feed::install(connection, recorder, options))?;
        self.options.own.record();
        // The connections that were used to open the store do not record changes.
        self.writers.iter().for_each(|slot| slot.reset());
        let listens = match (self.options.is_pooled, &self.options.direct) {
            (true, None) => {
                log::info!(
                    "PostgreSQL at {} is connected through a pooler without a `direct_url`: \
                     commits of other processes are found by polling",
                    self.options.place()
                );
                None
            }
            _ => Some(self.options_for_listening()?),
        };
        let feed = PostgresFeed::new(recorder, &self.options, listens)?;
        // A store records changes once.
        let _ = self.feed.set(feed);
        Ok(())
    }

    /// Returns the change feed, if changes are recorded.
    #[inline]
    pub(crate) fn feed(&self) -> Option<&PostgresFeed> {
        self.feed.get()
    }

    /// Reports that the result of a write is unknown, so that it may be in the change feed.
    #[cold]
    pub(crate) fn note_unknown_write(&self) {
        if let Some(feed) = self.feed() {
            feed.recorder().changed();
        }
    }

    /// Returns the options of the listening connection, which must not be over a pooler.
    fn options_for_listening(&self) -> Result<Arc<PostgresOptions>> {
        let Some(direct) = &self.options.direct else {
            if self.options.is_pooled {
                let message = format!(
                    "PostgreSQL at {} is connected through a pooler, which does not forward \
                     notifications of writes by other programs: add the server's own URL to the \
                     URL (`direct_url`, percent-encoded), or open the store without a cache",
                    self.options.place()
                );
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            return Ok(Arc::clone(&self.options));
        };
        // The start time of the server and the database identify the database.
        let which = "SELECT extract(epoch FROM pg_postmaster_start_time())||' '||d.oid \
                     FROM pg_database d WHERE d.datname=current_database()";
        let ask = |connection: &mut Connection, options: &PostgresOptions| {
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
                "`direct_url` names another server or database ({}) than the URL ({}): \
                 notifications of writes would be missed",
                direct.place(),
                self.options.place()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(Arc::new((**direct).clone()))
    }

    /// Closes the engine when no transaction is open.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if a transaction does not end in time.
    pub(crate) fn close(&self) -> Result<()> {
        if self.is_closed() {
            return Ok(());
        }
        // An open transaction may finish. If that takes too long, the engine stays open and can be
        // closed later.
        let timeout = Duration::from_millis(self.options.acquire_timeout_ms.into());
        if !self.pool.close(timeout) {
            let message = "a transaction is still open and did not end in time; end it, then close \
                           the store again";
            return Err(Error::new(ErrorKind::Busy, message));
        }
        self.is_closed.store(true, Ordering::SeqCst);
        drop(self.listener.lock().take());
        if let Some(feed) = self.feed() {
            feed.close();
        }
        let until = Instant::now() + CLOSE_TIMEOUT;
        for slot in self.readers.iter().chain(&self.writers) {
            slot.close(until);
        }
        Ok(())
    }
}
