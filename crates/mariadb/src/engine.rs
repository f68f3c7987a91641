//! The engine as programs and stores see it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use marmota_blocking::{BlockingDriver, BlockingEngine, SqlConnection, SqlFailure};
use marmota_model::{Result, Table};
use marmota_store::InvalidationFeed;
use marmota_store::backup::Copied;
use marmota_store::engine::{Capability, Engine, Session};
use marmota_store::plan::{Destructive, Plan};

use crate::connection::Connection;
use crate::fault;
use crate::options::MariadbOptions;

/// Models in a database of MariaDB or MySQL.
///
/// ```no_run
/// use marmota_mariadb::Mariadb;
/// use marmota_store::Store;
/// let engine = Mariadb::from_url("mariadb://ada:secret@localhost/app")?;
/// let store = Store::builder(engine).open()?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub struct Mariadb(BlockingEngine);

impl Mariadb {
    /// Connects to a database.
    ///
    /// # Errors
    /// - [`Refused`](marmota_model::ErrorKind::Refused) if the server is not there.
    /// - [`Denied`](marmota_model::ErrorKind::Denied) if the user is not authorized or TLS is refused.
    /// - [`Invalid`](marmota_model::ErrorKind::Invalid) if the database does not exist.
    pub fn open(options: MariadbOptions) -> Result<Self> {
        let place = options.place();
        let server =
            options.driver.is_local().then(|| format!("MariaDB on this machine ({place})"));
        let capability =
            Capability::new("mariadb", true).with_sql().with_key_gaps().with_local_server(server);
        let capability = capability.without_partial_indexes();
        BlockingEngine::connect(MariadbDriver { options, capability }).map(Self)
    }

    /// Connects to the database of a URL; see [`MariadbOptions::parse`].
    ///
    /// # Errors
    /// [`Invalid`](marmota_model::ErrorKind::Invalid) for a URL of another form; otherwise like [`Mariadb::open`].
    pub fn from_url(url: &str) -> Result<Self> {
        Self::open(MariadbOptions::parse(url)?)
    }

    /// Runs one statement for things that models cannot describe: a view, a trigger, a change of
    /// rows before a model is prepared. Rows in the result are dropped.
    ///
    /// The text must not come from users: it has no bound values.
    ///
    /// # Errors
    /// The error of the server, with the same kinds as for operations.
    pub fn execute(&self, sql: &str) -> Result<()> {
        self.0.execute(sql)
    }
}

impl std::fmt::Debug for Mariadb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Engine for Mariadb {
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

    fn subscribe_changes(&self, tables: &[Arc<Table>], feed: &Arc<InvalidationFeed>) -> Result<()> {
        self.0.subscribe_changes(tables, feed)
    }

    fn copy_to(&self, path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Copied> {
        self.0.copy_to(path, progress)
    }

    fn close(&self) -> Result<()> {
        self.0.close()
    }
}

/// How the engine connects.
struct MariadbDriver {
    options: MariadbOptions,
    capability: Capability,
}

impl BlockingDriver for MariadbDriver {
    fn connect(&self) -> Result<Box<dyn SqlConnection>, SqlFailure> {
        let opened = Connection::open(&self.options.driver, self.options.lock_timeout);
        opened
            .map(|it| Box::new(it) as Box<dyn SqlConnection>)
            .map_err(|failure| fault::of(&failure))
    }

    fn place(&self) -> &str {
        self.options.place()
    }

    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn connections_max(&self) -> usize {
        self.options.connections_max
    }

    fn lock_timeout(&self) -> Duration {
        self.options.lock_timeout
    }

    fn backup_tools(&self) -> &str {
        "`mariadb-dump` or `mariadb-backup`"
    }
}
