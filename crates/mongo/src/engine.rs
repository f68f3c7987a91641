//! The engine as programs and stores see it: connecting, and what the server can do.

use std::sync::Arc;
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
use parking_lot::Mutex;
use tokio::runtime::Builder;
use tokio::sync::watch;

use crate::database::{Database, number};
use crate::fault;
use crate::listener;
use crate::options::parse;
use crate::prepare;
use crate::session::MongoSession;
use crate::session::gather::Gets;
use crate::shape::Shape;
use crate::shared::Shared;
use crate::shared::counts::Counts;
use crate::shared::waiting::wait_on;

/// The database for a URL without one.
const DATABASE: &str = "marmota";
/// The default server selection timeout, unless the URL sets one.
const REACH_MS: u64 = 3_000;
/// The protocol version since which sharded clusters have transactions, too.
const WIRE_MIN: u64 = 8;
/// The default idle timeout of connections, unless the URL sets one.
const IDLE: Duration = Duration::from_secs(10);

/// Models in a MongoDB database.
#[derive(Debug)]
pub struct Mongo {
    shared: Arc<Shared>,
    gets: Arc<Gets>,
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
        let capability = capability.without_on_delete().without_partial_indexes();
        let capability = match database.is_replicated {
            true => capability,
            false => capability.without_transactions(),
        };
        let shared = Arc::new(Shared::new(runtime, database, options, counts, capability));
        Ok(Self { gets: Arc::new(Gets::new(&shared)), shared })
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

impl Engine for Mongo {
    fn capability(&self) -> &Capability {
        &self.shared.capability
    }

    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        let (database, tables) = (self.shared.database.clone(), tables.to_vec());
        wait_on(
            &self.shared.handle,
            async move { prepare::plan(&database, &tables, version).await },
        )
    }

    fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan> {
        let shapes = tables.iter().map(Shape::new).collect::<Result<Vec<_>>>()?;
        let (database, tables, destructive) =
            (self.shared.database.clone(), tables.to_vec(), destructive.clone());
        let plan = wait_on(&self.shared.handle, async move {
            prepare::migrate(&database, &tables, version, &destructive).await
        })?;
        self.shared.add_shapes(shapes.into_iter().map(Arc::new));
        Ok(plan)
    }

    fn open_table(&self, table: &Arc<Table>) -> Result<bool> {
        let shape = Arc::new(Shape::new(table)?);
        let (database, name) = (self.shared.database.clone(), table.name().to_owned());
        let is_there =
            wait_on(&self.shared.handle, async move { prepare::has(&database, &name).await })?;
        if is_there {
            self.shared.add_shapes([shape]);
        }
        Ok(is_there)
    }

    fn existing_tables(&self) -> Result<Option<Vec<String>>> {
        let database = self.shared.database.clone();
        wait_on(&self.shared.handle, async move { prepare::existing(&database).await }).map(Some)
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        self.shared.check_open()?;
        Ok(Box::new(MongoSession::new(Arc::clone(&self.shared), Arc::clone(&self.gets))))
    }

    fn statistics(&self) -> EngineStatistics {
        self.shared.counts.statistics()
    }

    fn subscribe_changes(&self, tables: &[Arc<Table>], feed: &Arc<InvalidationFeed>) -> Result<()> {
        let (database, handle) = (&self.shared.database, &self.shared.handle);
        if !database.is_replicated || tables.is_empty() {
            return Ok(());
        }
        listener::check(database)?;
        let starts = listener::start(database.clone(), tables.to_vec(), Arc::clone(feed));
        self.shared.listens(handle.spawn(wait_on(handle, starts)?));
        Ok(())
    }

    fn close(&self) -> Result<()> {
        self.shared.close()
    }
}

impl Drop for Mongo {
    fn drop(&mut self) {
        // Errors cannot be reported here; call `close` to receive them.
        let _ = self.shared.close();
    }
}
