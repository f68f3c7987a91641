//! An engine as stores see it.

use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::InvalidationFeed;
use marmota_store::backup::Copied;
use marmota_store::change::{ChangeRecorder, RecordedRows};
use marmota_store::engine::{Capability, Engine, Session};
use marmota_store::plan::{Destructive, Plan};

use crate::changes::{BlockingFeed, TriggerText};
use crate::connection::{BlockingDriver, SqlConnection, Transacting};
use crate::prepare;
use crate::session::{BlockingSession, GetQueue};
use crate::shared::BlockingShared;

/// The options of an engine: its `open` and `from_url` take them.
pub trait BlockingOptions: Sized + 'static {
    /// Parses a URL.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL of another form.
    fn parse(url: &str) -> Result<Self>;

    /// Returns how to connect.
    ///
    /// # Errors
    /// The options name what does not exist.
    fn into_driver(self) -> Result<Box<dyn BlockingDriver>>;
}

/// Models in a database that is reached by a blocking driver, with these options.
pub struct BlockingEngine<O> {
    shared: Arc<BlockingShared>,
    gets: Arc<GetQueue>,
    options: PhantomData<fn(O)>,
}

impl<O: BlockingOptions> BlockingEngine<O> {
    /// Connects to a database.
    ///
    /// # Errors
    /// - [`Refused`](ErrorKind::Refused) if the server is not there.
    /// - [`Denied`](ErrorKind::Denied) if the user is not authorized or TLS is refused.
    /// - [`Invalid`](ErrorKind::Invalid) if the database, or the driver that the options name, does
    ///   not exist.
    /// - [`Unsupported`](ErrorKind::Unsupported) if the database has no dialect.
    pub fn open(options: O) -> Result<Self> {
        let shared = Arc::new(BlockingShared::connect(options.into_driver()?)?);
        let gets = GetQueue::new(&shared);
        Ok(Self { shared, gets, options: PhantomData })
    }

    /// Connects to the database of a URL.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a URL of another form; otherwise like [`Self::open`].
    pub fn from_url(url: &str) -> Result<Self> {
        Self::open(O::parse(url)?)
    }
}

impl<O> BlockingEngine<O> {
    /// Runs one statement for things that models cannot describe: a view, a trigger, a change of
    /// rows before a model is prepared. Rows in the result are dropped.
    ///
    /// The text must not come from users: it has no bound values.
    ///
    /// # Errors
    /// The error of the server, with the same kinds as for operations.
    pub fn execute(&self, sql: &str) -> Result<()> {
        self.shared.with_connection(|connection| {
            let execute = |connection: &mut dyn SqlConnection| {
                connection.execute(sql).map_err(|failure| failure.error())
            };
            if self.shared.feed().is_none() {
                return execute(connection);
            }
            // Changes of rows are numbered at the end of a transaction.
            let how = Transacting::Committed;
            connection.begin(how).map_err(|failure| failure.error())?;
            let done = execute(connection);
            let ended = self.shared.end(connection, how, done.is_ok());
            done.and_then(|()| ended.map(drop))
        })
    }

    /// Drops the triggers with which the database records changes for the [change
    /// feed](marmota_store::StoreBuilder::changes). They stay when a store is closed, as other
    /// processes may have it open; call this if no store has a feed any more. A store that is opened
    /// with a feed creates them again.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) if the database has no change feed; otherwise the
    /// error of the server.
    pub fn remove_change_triggers(&self) -> Result<()> {
        self.shared.with_connection(|connection| prepare::feed::uninstall(connection, self.place()))
    }

    fn shut(&self) -> Result<()> {
        self.shared.close()?;
        self.gets.dismiss();
        Ok(())
    }

    fn place(&self) -> &str {
        self.shared.driver().place()
    }
}

impl<O> std::fmt::Debug for BlockingEngine<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("BlockingEngine").field(&self.place()).finish()
    }
}

impl<O: 'static> Engine for BlockingEngine<O> {
    fn capability(&self) -> &Capability {
        self.shared.driver().capability()
    }

    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        let place = self.place();
        self.shared.with_connection(|connection| prepare::plan(connection, tables, version, place))
    }

    fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan> {
        let place = self.place();
        let plan = self.shared.with_connection(|connection| {
            prepare::migrate(connection, tables, version, destructive, place)
        })?;
        self.shared.tables.add(tables);
        Ok(plan)
    }

    fn open_table(&self, table: &Arc<Table>) -> Result<bool> {
        let exists =
            self.shared.with_connection(|connection| prepare::has(connection, table.name()))?;
        if exists {
            self.shared.tables.add(std::slice::from_ref(table));
        }
        Ok(exists)
    }

    fn existing_tables(&self) -> Result<Option<Vec<String>>> {
        self.shared.with_connection(prepare::existing).map(Some)
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        self.shared.check_open()?;
        Ok(Box::new(BlockingSession::new(Arc::clone(&self.shared), Arc::clone(&self.gets))))
    }

    fn record_changes(&self, recorder: &Arc<ChangeRecorder>) -> Result<()> {
        let place = self.place();
        let rules = self
            .shared
            .with_connection(|connection| prepare::feed::install(recorder, connection, place))?;
        self.shared.pool.record(BlockingFeed::new(recorder, rules));
        Ok(())
    }

    fn recorded_rows(&self) -> Option<Arc<dyn RecordedRows>> {
        self.capability().change_feed.then(|| Arc::new(TriggerText) as Arc<dyn RecordedRows>)
    }

    // The server does not report the writes of other programs, so nothing is cached.
    fn subscribe_changes(&self, tables: &[Arc<Table>], feed: &Arc<InvalidationFeed>) -> Result<()> {
        if !tables.is_empty() {
            let name = self.capability().name;
            let why = if self.capability().change_feed { " without a change feed" } else { "" };
            log::warn!("a cache has no effect on the engine `{name}`{why}");
            self.shared.keep_pause(feed.pause(tables));
        }
        Ok(())
    }

    fn copy_to(&self, _: &Path, _: &mut dyn FnMut(u64, u64)) -> Result<Copied> {
        let (name, tools) = (self.capability().name, self.shared.driver().backup_tools());
        let message = format!("the engine `{name}` does not support backups: use {tools}");
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    fn close(&self) -> Result<()> {
        self.shut()
    }
}

impl<O> Drop for BlockingEngine<O> {
    fn drop(&mut self) {
        // Errors cannot be reported here; call `close` to receive them.
        let _ = self.shut();
    }
}
