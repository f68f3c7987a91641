//! The engine as programs and stores see it.

use std::path::Path;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::backup::Copied;
use marmota_store::change::{ChangeRecorder, RecordedRows};
use marmota_store::engine::{Capability, Engine, Session};
use marmota_store::existing::ExistingTable;
use marmota_store::plan::{Destructive, Plan};
use marmota_store::{EngineStatistics, InvalidationFeed};

use crate::changes::feed::{self, PostgresFeed, TriggerRows};
use crate::options::PostgresOptions;
use crate::session::PostgresSession;
use crate::session::cluster_session::ClusterSession;
use crate::session::other_processes::other_processes;
use crate::session::replicas::Replicas;
use crate::shared::Shared;

/// Models in a PostgreSQL database.
///
/// ```no_run
/// use marmota_postgres::Postgres;
/// use marmota_store::Store;
/// let engine = Postgres::from_url("postgres://ada@localhost/app")?;
/// let store = Store::builder(engine).open()?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub struct Postgres {
    shared: Arc<Shared>,
    /// The standbys of a cluster.
    replicas: Option<Arc<Replicas>>,
}

impl Postgres {
    /// Connects to a database.
    ///
    /// # Errors
    /// - [`ErrorKind::Refused`] if the server is not there or accepts no more connections.
    /// - [`ErrorKind::Denied`] if the user is not authorized or TLS is refused.
    /// - [`ErrorKind::Invalid`] if the database does not exist.
    pub fn open(options: PostgresOptions) -> Result<Self> {
        let shared = Arc::new(Shared::connect(options)?);
        Ok(Self { replicas: Replicas::of(&shared), shared })
    }

    /// Connects to the database of a URL; see [`PostgresOptions::parse`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL of another form; otherwise like [`Postgres::open`].
    pub fn from_url(url: &str) -> Result<Self> {
        Self::open(PostgresOptions::parse(url)?)
    }

    /// Runs raw SQL for things that models cannot describe: a view, a trigger, a change of rows
    /// before a model is prepared. Rows in the result are dropped. Several statements are one
    /// transaction, unless they contain transaction commands.
    ///
    /// The text must not come from users: it has no bound values.
    ///
    /// # Errors
    /// The error of PostgreSQL, with the same kinds as for operations.
    pub fn execute(&self, sql: &str) -> Result<()> {
        self.shared.with_connection(|connection, options| {
            // A store on this engine does not know about these writes.
            connection.is_news();
            let done = connection.query(sql, |_| {}).map_err(|error| error.into_error(options));
            self.shared.note_unknown_write();
            done
        })
    }

    /// Drops the triggers and functions with which the database records changes for the
    /// [change feed](marmota_store::StoreBuilder::changes). They stay when a store is closed, as
    /// other processes may have it open; call this if no store has a feed any more. A store that
    /// is opened with a feed creates them again.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] if the user of the database does not own them; otherwise the error of
    /// PostgreSQL.
    pub fn remove_change_triggers(&self) -> Result<()> {
        self.shared.with_connection(feed::uninstall)
    }
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Postgres").field(&self.shared.options).finish()
    }
}

impl Engine for Postgres {
    fn capability(&self) -> &Capability {
        self.shared.capability()
    }

    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        self.shared.with_connection(|connection, options| {
            crate::prepare::plan(connection, tables, version, options)
        })
    }

    fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan> {
        let (plan, facts) = self.shared.with_connection(|connection, options| {
            crate::prepare::migrate(connection, tables, version, destructive, options)
        })?;
        let mut known = self.shared.catalog.facts.write();
        known.extend(facts.into_iter().map(Arc::new));
        self.shared.catalog.tables.add(tables);
        Ok(plan)
    }

    fn open_table(&self, table: &Arc<Table>) -> Result<bool> {
        let facts = self.shared.with_connection(|connection, options| {
            crate::prepare::facts_of(connection, table, options)
        })?;
        let Some(facts) = facts else { return Ok(false) };
        self.shared.catalog.facts.write().push(Arc::new(facts));
        self.shared.catalog.tables.add(std::slice::from_ref(table));
        Ok(true)
    }

    fn existing_tables(&self) -> Result<Option<Vec<String>>> {
        let mut names = Vec::new();
        let sql = "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema() \
                   AND tablename NOT IN ('marmota_schema','marmota_pending') ORDER BY tablename";
        self.shared.with_connection(|connection, options| {
            let take = |row: &crate::connection::query::Texts| names.push(row.text(0).to_owned());
            connection.query(sql, take).map_err(|error| error.into_error(options))
        })?;
        Ok(Some(names))
    }

    fn existing_structure(&self) -> Result<Option<Vec<ExistingTable>>> {
        self.shared.with_connection(crate::prepare::structure).map(Some)
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        self.shared.check_open()?;
        Ok(match &self.replicas {
            Some(replicas) => Box::new(ClusterSession::new(replicas)),
            None => Box::new(PostgresSession::new(Arc::clone(&self.shared))),
        })
    }

    fn statistics(&self) -> EngineStatistics {
        let mut statistics = EngineStatistics::default();
        statistics.read_yields = self.shared.read_yields();
        statistics.replica_reads = self.replicas.as_ref().map_or(0, |replicas| replicas.reads());
        statistics
    }

    fn subscribe_changes(&self, tables: &[Arc<Table>], feed: &Arc<InvalidationFeed>) -> Result<()> {
        self.shared.listen(tables, feed)
    }

    fn record_changes(&self, recorder: &Arc<ChangeRecorder>) -> Result<()> {
        self.shared.record(recorder)
    }

    fn recorded_rows(&self) -> Option<Arc<dyn RecordedRows>> {
        Some(Arc::new(TriggerRows))
    }

    fn open_commits(&self) -> Result<Vec<u64>> {
        self.shared.feed().map_or_else(|| Ok(Vec::new()), PostgresFeed::open_commits)
    }

    fn announce_commits(&self) -> Result<()> {
        self.shared.feed().map_or(Ok(()), PostgresFeed::announce)
    }

    fn other_processes(&self) -> Result<Vec<String>> {
        other_processes(&self.shared)
    }

    fn copy_to(&self, _: &Path, _: &mut dyn FnMut(u64, u64)) -> Result<Copied> {
        let message = "the engine `postgres` does not support backups: use PostgreSQL's `pg_dump` \
                       for a database, or `pg_basebackup` for a server";
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    fn close(&self) -> Result<()> {
        self.replicas.as_ref().map_or(Ok(()), |replicas| replicas.close())?;
        self.shared.close()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Errors cannot be reported here; call `close` to receive them.
        let _ = self.shared.close();
    }
}
