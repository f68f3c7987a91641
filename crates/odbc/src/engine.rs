//! The engine as programs and stores see it.

use std::time::Duration;

use marmota_blocking::{
    BlockingDriver, BlockingEngine, BlockingOptions, SqlConnection, SqlFailure,
};
use marmota_model::{Error, Result};
use marmota_store::engine::Capability;

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
pub type Odbc = BlockingEngine<OdbcOptions>;

impl BlockingOptions for OdbcOptions {
    fn parse(url: &str) -> Result<Self> {
        Self::parse(url)
    }

    /// Chooses the dialect by the name that the driver reports.
    fn into_driver(mut self) -> Result<Box<dyn BlockingDriver>> {
        let first = OdbcConnection::open(&self).map_err(|failure| {
            let error = failure.error();
            let message = format!("{}: {}", self.place(), error.message());
            Error::new(error.kind(), message).with_source(error)
        })?;
        let dialect = first.dialect();
        first.complete(&mut self);
        let place = self.place();
        let server = self.is_local.then(|| format!("{} on this machine ({place})", dialect.name));
        if !dialect.is_tested {
            log::warn!(
                "the SQL for {} is not tested with a server: try it on a copy of the database first",
                dialect.name
            );
        }
        let mut capability = Capability::new("odbc", true)
            .with_sql()
            .with_key_gaps()
            .with_local_server(server)
            .without_partial_indexes();
        if dialect.definitions.generated.is_some() {
            capability = capability.with_generated_columns();
        }
        Ok(Box::new(OdbcDriver { options: self, capability }))
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
