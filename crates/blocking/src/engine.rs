//! An engine as stores see it.

use std::path::Path;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::InvalidationFeed;
use marmota_store::backup::Copied;
use marmota_store::engine::{Capability, Engine, Session};
use marmota_store::plan::{Destructive, Plan};

use crate::connection::BlockingDriver;
use crate::prepare;
use crate::session::BlockingSession;
use crate::shared::BlockingShared;

/// Models in a database that is reached by a blocking driver.
pub struct BlockingEngine(Arc<BlockingShared>);

impl BlockingEngine {
    /// Connects to a database.
    ///
    /// # Errors
    /// That of [`BlockingDriver::connect`], after the name of the place.
    pub fn connect(driver: impl BlockingDriver) -> Result<Self> {
        Ok(Self(Arc::new(BlockingShared::connect(Box::new(driver))?)))
    }

    /// Runs one statement for things that models cannot describe. Rows in the result are dropped.
    /// The text must not come from users: it has no bound values.
    ///
    /// # Errors
    /// The error of the server, with the same kinds as for operations.
    pub fn execute(&self, sql: &str) -> Result<()> {
        self.0.with_connection(|connection| {
            connection.execute(sql).map_err(|failure| failure.error())
        })
    }

    fn place(&self) -> &str {
        self.0.driver().place()
    }
}

impl std::fmt::Debug for BlockingEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("BlockingEngine").field(&self.place()).finish()
    }
}

impl Engine for BlockingEngine {
    fn capability(&self) -> &Capability {
        self.0.driver().capability()
    }

    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        let place = self.place();
        self.0.with_connection(|connection| prepare::plan(connection, tables, version, place))
    }

    fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan> {
        let place = self.place();
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
        Ok(Box::new(BlockingSession::new(Arc::clone(&self.0))))
    }

    // The server does not report the writes of other programs, so nothing is cached.
    fn subscribe_changes(&self, tables: &[Arc<Table>], feed: &Arc<InvalidationFeed>) -> Result<()> {
        if !tables.is_empty() {
            log::warn!("a cache has no effect on the engine `{}`", self.capability().name);
            self.0.keep_pause(feed.pause(tables));
        }
        Ok(())
    }

    fn copy_to(&self, _: &Path, _: &mut dyn FnMut(u64, u64)) -> Result<Copied> {
        let (name, tools) = (self.capability().name, self.0.driver().backup_tools());
        let message = format!("the engine `{name}` does not support backups: use {tools}");
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    fn close(&self) -> Result<()> {
        self.0.close()
    }
}

impl Drop for BlockingEngine {
    fn drop(&mut self) {
        // Errors cannot be reported here; call `close` to receive them.
        let _ = self.0.close();
    }
}
