//! The engine: the driver on its own thread, the server's capabilities, the models' shapes, and
//! closing.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::engine::{Capability, Engine, Session};
use marmota_store::plan::{Destructive, Plan};
use marmota_store::{EngineStatistics, InvalidationFeed};
use mongodb::ServerType;
use mongodb::bson::{Document, doc};
use mongodb::event::EventHandler;
use mongodb::event::sdam::SdamEvent;
use mongodb::options::ClientOptions;
use parking_lot::{Mutex, RwLock};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::counts::Counts;
use crate::database::{Database, number};
use crate::fault;
use crate::gather::Gets;
use crate::listener;
use crate::options::{Options, parse};
use crate::prepare;
use crate::session::MongoSession;
use crate::shape::Shape;
use crate::turn::Turns;

/// The database for a URL without one.
const DATABASE: &str = "marmota";
/// The default server selection timeout, unless the URL sets one.
const REACH_MS: u64 = 3_000;
/// The longest time that a close waits for open transactions.
const CLOSE_WAIT: Duration = Duration::from_secs(5);
/// The protocol version since which sharded clusters have transactions, too.
const WIRE_MIN: u64 = 8;
/// The default idle timeout of connections, unless the URL sets one.
const IDLE: Duration = Duration::from_secs(10);

/// Models in a MongoDB database.
#[derive(Debug)]
pub struct Mongo(Arc<Shared>);

/// The state that an engine shares with its sessions.
#[derive(Debug)]
pub(crate) struct Shared {
    runtime: Mutex<Option<Runtime>>,
    pub(crate) handle: Handle,
    pub(crate) database: Database,
    pub(crate) options: Options,
    pub(crate) counts: Arc<Counts>,
    pub(crate) turns: Turns,
    pub(crate) gets: Gets,
    shapes: RwLock<HashMap<String, Arc<Shape>>>,
    /// The number of operations in progress.
    under_way: AtomicU64,
    /// The number of callers' transactions that have not ended.
    pub(crate) transactions_open: AtomicU64,
    closed: AtomicBool,
    /// For each table with automatic keys, a key that is known to be in use.
    keys: Mutex<HashMap<String, i64>>,
    pub(crate) capability: Capability,
    /// The task that receives the writes of others for a store's cache.
    listener: Mutex<Option<JoinHandle<()>>>,
}

/// Counts an operation as in progress until it is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay(Arc<Shared>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Mongo {
    /// Opens the database of a URL: `mongodb://host:27017/name?…`, with the options of MongoDB's
    /// drivers (logins, TLS, `replicaSet`, `compressors=zstd,snappy,zlib`, `maxPoolSize`, …) and
    /// two options of the engine: `operation_timeout_ms` (default: 30,000) and `operations_max`
    /// (default: 10,000; more concurrent operations are refused). Fails if the server does not
    /// answer.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL that the driver cannot parse, [`ErrorKind::Io`] if no
    /// server can be reached, [`ErrorKind::Denied`] if it refuses the login.
    pub fn from_url(url: &str) -> Result<Self> {
        let (url, options) = parse(url)?;
        let failed = |why: &dyn std::fmt::Display| {
            Error::new(ErrorKind::Io, format!("the engine's thread could not be started: {why}"))
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("marmota-mongo")
            .enable_all()
            .build()
            .map_err(|error| failed(&error))?;
        let handle = runtime.handle().clone();
        let counts = Arc::new(Counts::default());
        let opened = wait_on(&handle, connect(url, Arc::clone(&counts)));
        let mut database = match opened {
            Ok(opened) => opened,
            Err(error) => {
                runtime.shutdown_background();
                return Err(error);
            }
        };
        database.time_max_ms = i32::try_from(options.timeout.as_millis()).unwrap_or(i32::MAX);
        let capability = Capability::new("mongodb", true).with_aggregation().with_key_gaps();
        let capability = match database.is_replicated {
            true => capability,
            false => capability.without_transactions(),
        };
        Ok(Self(Arc::new(Shared {
            runtime: Mutex::new(Some(runtime)),
            handle,
            database,
            options,
            counts,
            turns: Turns::default(),
            gets: Gets::default(),
            shapes: RwLock::default(),
            under_way: AtomicU64::new(0),
            transactions_open: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            keys: Mutex::default(),
            capability,
            listener: Mutex::default(),
        })))
    }
}

/// Connects and determines the kind of server.
async fn connect(url: String, counts: Arc<Counts>) -> Result<Database> {
    let refused = |fault: mongodb::error::Error| fault::of(&fault, false);
    let mut options = ClientOptions::parse(url).await.map_err(refused)?;
    options.app_name.get_or_insert_with(|| "marmota".to_owned());
    options.server_selection_timeout.get_or_insert(Duration::from_millis(REACH_MS));
    options.connect_timeout.get_or_insert(Duration::from_millis(REACH_MS));
    options.max_idle_time.get_or_insert(IDLE);
    let note: Arc<dyn Fn(_) + Send + Sync> = Arc::new(move |event| counts.note(&event));
    options.cmap_event_handler = Some(EventHandler::Callback(note));
    let (counted, primaries) = watch::channel(0);
    options.sdam_event_handler = Some(EventHandler::Callback(count_primaries(counted)));
    let name = options.default_database.clone().unwrap_or_else(|| DATABASE.to_owned());
    let client = mongodb::Client::with_options(options).map_err(refused)?;
    let mut database = Database::new(client, &name, primaries);
    let server = database.command(&doc! { "buildInfo": 1 }, false).await?;
    database.is_ferret = server.contains_key("ferretdb") || server.contains_key("ferretdbVersion");
    let hello = match database.command(&doc! { "hello": 1 }, false).await {
        // The name of the command before MongoDB 4.2.10.
        Err(error) if error.kind() == ErrorKind::Engine => {
            database.command(&doc! { "isMaster": 1 }, false).await?
        }
        hello => hello?,
    };
    database.is_replicated = is_replicated(&hello);
    Ok(database)
}

/// Counts the servers that become the primary of a replica set, as reported by the driver.
fn count_primaries(counted: watch::Sender<u64>) -> Arc<dyn Fn(SdamEvent) + Send + Sync> {
    let last = Mutex::new(None);
    Arc::new(move |event| {
        let SdamEvent::TopologyDescriptionChanged(event) = event else { return };
        for (address, server) in event.new_description.servers() {
            let mut last = last.lock();
            if server.server_type() == ServerType::RsPrimary && last.as_ref() != Some(address) {
                *last = Some(address.clone());
                counted.send_modify(|count| *count += 1);
            }
        }
    })
}

/// Returns true if the answer to `hello` is from a member of a replica set or a router of a sharded
/// cluster, of MongoDB 4.2 or later. Those have transactions and change streams.
fn is_replicated(hello: &Document) -> bool {
    (hello.contains_key("setName") || hello.get_str("msg").is_ok_and(|it| it == "isdbgrid"))
        && hello.contains_key("logicalSessionTimeoutMinutes")
        && number(hello, "maxWireVersion") >= WIRE_MIN
}

/// Runs a future on the engine's thread and waits for it, on a thread that may itself belong to a
/// runtime.
pub(crate) fn wait_on<T: Send + 'static>(
    handle: &Handle,
    future: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = mpsc::channel();
    handle.spawn(async move {
        // The caller may have given up.
        let _ = sender.send(future.await);
    });
    receiver.recv().unwrap_or_else(|_| Err(fault::closed()))
}

impl Shared {
    /// Returns a table's shape.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a table that was not prepared.
    pub(crate) fn shape(&self, table: &Table) -> Result<Arc<Shape>> {
        self.named(table.name()).ok_or_else(|| {
            let message = format!("the table `{}` was not prepared by this store", table.name());
            Error::new(ErrorKind::Invalid, message)
        })
    }

    pub(crate) fn named(&self, name: &str) -> Option<Arc<Shape>> {
        self.shapes.read().get(name).cloned()
    }

    /// Returns the fields that refer to a table.
    pub(crate) fn referrers(&self, table: &str) -> Vec<(Arc<Shape>, usize)> {
        let mut referrers = Vec::new();
        for shape in self.shapes.read().values() {
            for (at, field) in shape.table.fields().iter().enumerate() {
                if matches!(&field.kind, marmota_model::Kind::Reference { table: to, .. } if to == table)
                {
                    referrers.push((Arc::clone(shape), at));
                }
            }
        }
        referrers.sort_by(|a, b| (a.0.name(), a.1).cmp(&(b.0.name(), b.1)));
        referrers
    }

    /// Returns an automatic key of a table that is known to be in use.
    pub(crate) fn key_known(&self, table: &str) -> i64 {
        self.keys.lock().get(table).copied().unwrap_or(0)
    }

    /// Records that a key is in use.
    pub(crate) fn know_key(&self, table: &str, key: i64) {
        let mut keys = self.keys.lock();
        match keys.get_mut(table) {
            Some(known) => *known = (*known).max(key),
            None => drop(keys.insert(table.to_owned(), key)),
        }
    }

    /// Counts a new operation.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`], or [`ErrorKind::Busy`] if too many are in progress.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<UnderWay> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(fault::closed());
        }
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let entered = UnderWay(Arc::clone(self));
        if before >= self.options.operations_max {
            self.counts.refused();
            let message = format!(
                "{} operations wait for MongoDB (`operations_max`); try again",
                self.options.operations_max
            );
            return Err(Error::new(ErrorKind::Busy, message));
        }
        Ok(entered)
    }

    /// Counts an operation that is part of a counted one or of an open transaction. It is never
    /// refused.
    pub(crate) fn enter_further(self: &Arc<Self>) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(self))
    }

    /// Runs a future with the engine's time limit.
    pub(crate) async fn within<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.until(Instant::now() + self.options.timeout, work).await
    }

    /// Runs a future until `end` at most.
    pub(crate) async fn until<T>(
        &self,
        end: Instant,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let _asked = self.counts.ask();
        match tokio::time::timeout_at(end, work).await {
            Ok(done) => done,
            Err(_) => {
                let message = format!(
                    "MongoDB has not answered within {} ms (`operation_timeout_ms`); whether a \
                     write took place is unknown",
                    self.options.timeout.as_millis()
                );
                Err(Error::new(ErrorKind::Timeout, message))
            }
        }
    }

    fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        // Open transactions may finish. If that takes too long, the engine stays open and can be
        // closed later.
        let until = std::time::Instant::now() + CLOSE_WAIT.min(self.options.timeout);
        while self.transactions_open.load(Ordering::SeqCst) > 0 {
            if std::time::Instant::now() >= until {
                self.closed.store(false, Ordering::SeqCst);
                let message =
                    "a transaction is open, and did not end in time; end it and close again";
                return Err(Error::new(ErrorKind::Busy, message));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(listener) = self.listener.lock().take() {
            listener.abort();
        }
        // Writes in progress finish first, within their time limit.
        let until = std::time::Instant::now() + self.options.timeout;
        while self.under_way.load(Ordering::SeqCst) > 0 && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(runtime) = self.runtime.lock().take() {
            let client = self.database.client.clone();
            let done = wait_on(runtime.handle(), async move {
                let shut = client.shutdown().immediate(true);
                let _ = tokio::time::timeout(Duration::from_secs(2), shut).await;
                Ok(())
            });
            drop(done);
            // Does not wait, so it may be called on a runtime's thread.
            runtime.shutdown_background();
        }
        Ok(())
    }
}

impl Engine for Mongo {
    fn capability(&self) -> &Capability {
        &self.0.capability
    }

    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        let (database, tables) = (self.0.database.clone(), tables.to_vec());
        wait_on(&self.0.handle, async move { prepare::plan(&database, &tables, version).await })
    }

    fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan> {
        let shapes = tables.iter().map(Shape::new).collect::<Result<Vec<_>>>()?;
        let (database, tables, destructive) =
            (self.0.database.clone(), tables.to_vec(), destructive.clone());
        let plan = wait_on(&self.0.handle, async move {
            prepare::migrate(&database, &tables, version, &destructive).await
        })?;
        let mut known = self.0.shapes.write();
        for shape in shapes {
            known.insert(shape.name().to_owned(), Arc::new(shape));
        }
        Ok(plan)
    }

    fn open_table(&self, table: &Arc<Table>) -> Result<bool> {
        let shape = Arc::new(Shape::new(table)?);
        let (database, name) = (self.0.database.clone(), table.name().to_owned());
        let is_there =
            wait_on(&self.0.handle, async move { prepare::has(&database, &name).await })?;
        if is_there {
            self.0.shapes.write().insert(shape.name().to_owned(), shape);
        }
        Ok(is_there)
    }

    fn existing_tables(&self) -> Result<Option<Vec<String>>> {
        let database = self.0.database.clone();
        wait_on(&self.0.handle, async move { prepare::existing(&database).await }).map(Some)
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        if self.0.closed.load(Ordering::Relaxed) {
            return Err(fault::closed());
        }
        Ok(Box::new(MongoSession::new(Arc::clone(&self.0))))
    }

    fn statistics(&self) -> EngineStatistics {
        self.0.counts.statistics()
    }

    fn subscribe_changes(&self, tables: &[Arc<Table>], feed: &Arc<InvalidationFeed>) -> Result<()> {
        let (database, handle) = (&self.0.database, &self.0.handle);
        if !database.is_replicated || tables.is_empty() {
            return Ok(());
        }
        listener::check(database)?;
        let starts = listener::start(database.clone(), tables.to_vec(), Arc::clone(feed));
        *self.0.listener.lock() = Some(handle.spawn(wait_on(handle, starts)?));
        Ok(())
    }

    fn close(&self) -> Result<()> {
        self.0.close()
    }
}

impl Drop for Mongo {
    fn drop(&mut self) {
        // Errors cannot be reported here; call `close` to receive them.
        let _ = self.0.close();
    }
}
