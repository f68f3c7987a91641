//! The engine as programs and stores see it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use marmota_blocking::{BlockingDriver, BlockingEngine, SqlConnection, SqlFailure};
use marmota_model::{Error, Result, Table};
use marmota_store::InvalidationFeed;
use marmota_store::backup::Copied;
use marmota_store::engine::{Capability, Engine, Session};
use marmota_store::plan::{Destructive, Plan};

use crate::connection::OdbcConnection;
use crate::options::OdbcOptions;

/// Models in a database with an ODBC driver.
///
/// ```no_run
/// use marmota_odbc::Odbc;
/// use marmota_store::Store;
/// let engine = Odbc::from_url("odbc:DSN=sales;UID=ada;PWD=secret")?;
/// let store = Store::builder(engine).open()?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub struct Odbc(BlockingEngine);

impl Odbc {
    /// Connects to a database, and chooses the dialect by the name that the driver reports.
    ///
    /// # Errors
    /// - [`Invalid`](marmota_model::ErrorKind::Invalid) if the driver, the data source or the
    ///   database does not exist.
    /// - [`Refused`](marmota_model::ErrorKind::Refused) if the server is not there.
    /// - [`Denied`](marmota_model::ErrorKind::Denied) if the user is not authorized.
    /// - [`Unsupported`](marmota_model::ErrorKind::Unsupported) if the database has no dialect.
    pub fn open(mut options: OdbcOptions) -> Result<Self> {
        let first = OdbcConnection::open(&options).map_err(|failure| {
            let error = failure.error();
            let message = format!("{}: {}", options.place(), error.message());
            Error::new(error.kind(), message).with_source(error)
        })?;
        let dialect = first.dialect();
        first.complete(&mut options);
        let place = options.place();
        let server =
            options.is_local.then(|| format!("{} on this machine ({place})", dialect.name));
        if !dialect.is_tested {
            log::warn!(
                "the SQL for {} is not tested with a server: try it on a copy of the database first",
                dialect.name
            );
        }
        let capability =
            Capability::new("odbc", true).with_sql().with_key_gaps().with_local_server(server);
        let capability = capability.without_partial_indexes();
        drop(first);
        BlockingEngine::connect(OdbcDriver { options, capability }).map(Self)
    }

    /// Connects to the database of a URL; see [`OdbcOptions::parse`].
    ///
    /// # Errors
    /// [`Invalid`](marmota_model::ErrorKind::Invalid) for a URL of another form; otherwise like
    /// [`Odbc::open`].
    pub fn from_url(url: &str) -> Result<Self> {
        Self::open(OdbcOptions::parse(url)?)
    }

    /// Runs one statement for things that models cannot describe: a view, a trigger. Rows in the
    /// result are dropped.
    ///
    /// The text must not come from users: it has no bound values.
    ///
    /// # Errors
    /// The error of the server, with the same kinds as for operations.
    pub fn execute(&self, sql: &str) -> Result<()> {
        self.0.execute(sql)
    }
}

impl std::fmt::Debug for Odbc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
impl Engine for Odbc {
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
struct OdbcDriver {
    options: OdbcOptions,
    capability: Capability,
}

impl BlockingDriver for OdbcDriver {
    fn connect(&self) -> Result<Box<dyn SqlConnection>, SqlFailure> {
        Ok(Box::new(OdbcConnection::open(&self.options)?))
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
        "the tools of the database"
    }
}
