//! The engine as programs and stores see it.

use std::path::Path;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::InvalidationFeed;
use marmota_store::backup::Copied;
use marmota_store::engine::{Capability, Engine, Session};
use marmota_store::plan::{Destructive, Plan};

use crate::fault;
use crate::options::MariadbOptions;
use crate::prepare;
use crate::session::MariadbSession;
use crate::shared::Shared;

/// Models in a database of MariaDB or MySQL.
///
/// ```no_run
/// use marmota_mariadb::Mariadb;
/// use marmota_store::Store;
/// let engine = Mariadb::from_url("mariadb://ada:secret@localhost/app")?;
/// let store = Store::builder(engine).open()?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub struct Mariadb(Arc<Shared>);

impl Mariadb {
    /// Connects to a database.
    ///
    /// # Errors
    /// - [`ErrorKind::Refused`] if the server is not there.
    /// - [`ErrorKind::Denied`] if the user is not authorized or TLS is refused.
    /// - [`ErrorKind::Invalid`] if the database does not exist.
    pub fn open(options: MariadbOptions) -> Result<Self> {
        Ok(Self(Arc::new(Shared::connect(options)?)))
    }

    /// Connects to the database of a URL; see [`MariadbOptions::parse`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL of another form; otherwise like [`Mariadb::open`].
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
        self.0.with_connection(|connection| {
            connection.execute(sql).map_err(|failure| fault::of(&failure))
        })
    }
}

impl std::fmt::Debug for Mariadb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Mariadb").field(&self.0.options).finish()
    }
}

impl Engine for Mariadb {
    fn capability(&self) -> &Capability {
        &self.0.capability
    }

    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        let place = self.0.options.place();
        self.0.with_connection(|connection| prepare::plan(connection, tables, version, place))
    }

    fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan> {
        let place = self.0.options.place();
        let plan = self.0.with_connection(|connection| {
            prepare::migrate(connection, tables, version, destructive, place)
        })?;
        self.0.tables.add(tables);
        Ok(plan)
    }

    fn open_table(&self, table: &Arc<Table>) -> Result<bool> {
        let exists = self.0.with_connection(|connection| prepare::has(connection, table.name()))?;
        if exists {
            self.0.tables.add(std::slice::from_ref(table));
        }
        Ok(exists)
    }

    fn existing_tables(&self) -> Result<Option<Vec<String>>> {
        self.0.with_connection(prepare::existing).map(Some)
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        self.0.check_open()?;
        Ok(Box::new(MariadbSession::new(Arc::clone(&self.0))))
    }

    // The server does not report the writes of other programs, so nothing is cached.
    fn subscribe_changes(&self, tables: &[Arc<Table>], feed: &Arc<InvalidationFeed>) -> Result<()> {
        if !tables.is_empty() {
            log::warn!("a cache has no effect on the engine `mariadb`");
            self.0.keep_pause(feed.pause(tables));
        }
        Ok(())
    }

    fn copy_to(&self, _: &Path, _: &mut dyn FnMut(u64, u64)) -> Result<Copied> {
        let message = "the engine `mariadb` does not support backups: use `mariadb-dump` or \
                       `mariadb-backup`";
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    fn close(&self) -> Result<()> {
        self.0.close()
    }
}

impl Drop for Mariadb {
    fn drop(&mut self) {
        // Errors cannot be reported here; call `close` to receive them.
        let _ = self.0.close();
    }
}
