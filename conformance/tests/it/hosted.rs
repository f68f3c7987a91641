//! A store that is served, and reached from elsewhere: an engine whose tables
//! are those of a server that it starts as soon as they are known.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use marmota_conformance::{Models, Subject};
use marmota_http::{RunningServer, Server};
use marmota_model::{Result, Table};
use marmota_remote::{Remote, Service};
use marmota_store::engine::{Capability, Engine, Session};
use marmota_store::history::HISTORY_TABLE;
use marmota_store::operation::ANSWERS;
use marmota_store::plan::{Destructive, Plan};
use marmota_store::{Idempotency, Store, StoreBuilder};

/// The table of what a program has migrated.
const MIGRATIONS: &str = "marmota_migration";

/// How a client reaches a service.
type Reach = fn(&Service) -> Reached;

/// The client, and what has to live as long.
type Reached = (Remote, Option<RunningServer>, Option<tempfile::TempDir>);

pub(crate) fn in_process(service: &Service) -> Reached {
    (Remote::in_process(service), None, None)
}

pub(crate) fn over_unix(service: &Service) -> Reached {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("unix:{}", folder.path().join("socket").display());
    let server = Server::bind(url.as_str()).unwrap().listeners(1).start(service.router()).unwrap();
    (Remote::from_url(&url).unwrap(), Some(server), Some(folder))
}

pub(crate) fn over_http(service: &Service) -> Reached {
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
    let server = server.start(service.router_at("/data")).unwrap();
    let url = format!("http://{}/data", server.local_addr());
    (Remote::from_url(&url).unwrap(), Some(server), None)
}

pub(crate) fn over_a_web_socket(service: &Service) -> Reached {
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
    let server = server.start(service.router()).unwrap();
    let url = format!("ws://{}/api", server.local_addr());
    (Remote::from_url(&url).unwrap(), Some(server), None)
}

/// A subject whose stores are reached by `reach`, over databases of `engine`.
pub(crate) fn subject(
    name: &'static str,
    reach: Reach,
    engine: impl Fn() -> Box<dyn Engine> + Send + Sync + 'static,
) -> Subject {
    Subject::served(name, move |models| {
        let inner = Shared(Arc::from(engine()));
        let hosted = Hosted { inner, models, reach, running: OnceLock::new() };
        let builder = Store::builder(hosted);
        match models {
            Some(models) => models(builder),
            None => builder,
        }
    })
}

/// The database's engine, which the server has and, before it is started, the
/// client.
#[derive(Clone)]
struct Shared(Arc<dyn Engine>);

impl Engine for Shared {
    fn capability(&self) -> &Capability {
        self.0.capability()
    }

    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        self.0.plan(tables, version)
    }

    fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan> {
        self.0.migrate(tables, version, destructive)
    }

    fn open_table(&self, table: &Arc<Table>) -> Result<bool> {
        self.0.open_table(table)
    }

    fn existing_tables(&self) -> Result<Option<Vec<String>>> {
        self.0.existing_tables()
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        self.0.session()
    }

    fn copy_to(
        &self,
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<marmota_store::backup::Copied> {
        self.0.copy_to(path, progress)
    }

    fn close(&self) -> Result<()> {
        self.0.close()
    }
}

struct Hosted {
    inner: Shared,
    models: Option<Models>,
    reach: Reach,
    running: OnceLock<Running>,
}

struct Running {
    // In the order in which they end.
    remote: Remote,
    _server: Option<RunningServer>,
    _folder: Option<tempfile::TempDir>,
    store: Store,
}

impl Hosted {
    /// The builder of the store that is served.
    fn served(&self, tables: &[Arc<Table>], version: u32) -> StoreBuilder {
        let builder = Store::builder(self.inner.clone()).schema_version(version);
        if let Some(models) = self.models {
            return models(builder);
        }
        tables.iter().fold(builder, |builder, table| match table.name() {
            HISTORY_TABLE => builder,
            ANSWERS => builder.idempotency(Idempotency::default()),
            _ => builder.schema(table.schema().clone()),
        })
    }
}

impl Engine for Hosted {
    fn capability(&self) -> &Capability {
        match self.running.get() {
            Some(running) => running.remote.capability(),
            None => self.inner.capability(),
        }
    }

    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        self.inner.plan(tables, version)
    }

    fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan> {
        // Migrations are the server's business: its own program does them.
        if tables.iter().any(|table| table.name() == MIGRATIONS) {
            return self.inner.migrate(tables, version, destructive);
        }
        let plan = self.inner.plan(tables, version)?;
        plan.check(destructive)?;
        let store = self.served(tables, version).allow_destructive(destructive.clone()).open()?;
        let (remote, server, folder) = (self.reach)(&Service::new(&store));
        remote.migrate(tables, version, destructive)?;
        let running = Running { remote, _server: server, _folder: folder, store };
        assert!(self.running.set(running).is_ok(), "it is opened once");
        Ok(plan)
    }

    fn open_table(&self, table: &Arc<Table>) -> Result<bool> {
        self.inner.open_table(table)
    }

    /// Asked for before there are tables to be served.
    fn existing_tables(&self) -> Result<Option<Vec<String>>> {
        self.inner.existing_tables()
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        match self.running.get() {
            Some(running) => running.remote.session(),
            None => self.inner.session(),
        }
    }

    fn close(&self) -> Result<()> {
        match self.running.get() {
            Some(running) => running.remote.close().and_then(|()| running.store.close()),
            None => self.inner.close(),
        }
    }
}
