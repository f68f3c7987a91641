//! The engine as programs and stores see it.

use std::time::Duration;

use marmota_blocking::{
    BlockingDriver, BlockingEngine, BlockingOptions, SqlConnection, SqlFailure, SteppedConnection,
};
use marmota_model::Result;
use marmota_store::engine::Capability;

use crate::connection::{Connection, DriverOptions};
use crate::fault;
use crate::options::MariadbOptions;
use crate::stepped::SteppedReads;

/// Models in a database of MariaDB or MySQL.
///
/// ```no_run
/// use marmota_mariadb::Mariadb;
/// use marmota_store::Store;
/// let engine = Mariadb::from_url("mariadb://ada:secret@localhost/app")?;
/// let store = Store::builder(engine).open()?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub type Mariadb = BlockingEngine<MariadbOptions>;

impl BlockingOptions for MariadbOptions {
    fn parse(url: &str) -> Result<Self> {
        Self::parse(url)
    }

    fn into_driver(self) -> Result<Box<dyn BlockingDriver>> {
        let is_local = self.servers.iter().any(DriverOptions::is_local);
        let server = is_local.then(|| format!("MariaDB on this machine ({})", self.place()));
        let capability = Capability::new("mariadb", true)
            .with_sql()
            .with_key_gaps()
            .with_polled_commits()
            .with_generated_columns()
            .with_local_server(server)
            .without_partial_indexes();
        Ok(Box::new(MariadbDriver { options: self, capability }))
    }
}

/// How the engine connects.
struct MariadbDriver {
    options: MariadbOptions,
    capability: Capability,
}

impl MariadbDriver {
    /// Connects to the first server that accepts it.
    fn open(&self) -> Result<Connection, SqlFailure> {
        let MariadbOptions { servers, last_server, lock_timeout, target, .. } = &self.options;
        let mut refused = Vec::new();
        for number in last_server.order(servers.len()) {
            match Connection::open(&servers[number], *lock_timeout, *target) {
                Ok(connection) => {
                    last_server.set(number);
                    return Ok(connection);
                }
                Err(failure) => refused.push((servers[number].server(), fault::of(&failure))),
            }
        }
        Err(fault::of_servers(refused))
    }
}

impl BlockingDriver for MariadbDriver {
    fn connect(&self) -> Result<Box<dyn SqlConnection>, SqlFailure> {
        Ok(Box::new(self.open()?))
    }

    fn connect_stepped(&self) -> Result<Option<Box<dyn SteppedConnection>>, SqlFailure> {
        let stepped = SteppedReads::of(self.open()?).map_err(|failure| fault::of(&failure))?;
        Ok(stepped.map(|stepped| Box::new(stepped) as Box<dyn SteppedConnection>))
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
