//! How engines differ, as data that callers and the conformance suite read.

use marmota_model::{Error, ErrorKind, Result};

/// The features and guarantees of an engine.
///
/// Callers read this instead of testing which engine they have. A store of
/// several databases combines the capabilities of its parts; the client of a
/// remote store receives its server's when it connects.
///
/// ```
/// use marmota_store::Store;
/// use marmota_memory::Memory;
/// let store = Store::builder(Memory::new()).open()?;
/// let capability = store.capability();
/// assert!(capability.transactions && !capability.persistent && !capability.sql);
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capability {
    /// The engine's name: the scheme of its URL.
    pub name: &'static str,
    /// True if acknowledged writes survive the end of the process.
    pub durable: bool,
    /// True if a store that is opened again after [`crate::Store::close`] has the
    /// rows that were written before. Default: as `durable`.
    pub persistent: bool,
    /// True if it executes [`crate::operation::Operation::Sql`]. Default: false.
    pub sql: bool,
    /// True if it executes [`crate::operation::Operation::Aggregate`]. Default: false.
    pub aggregation: bool,
    /// True if it executes [`crate::operation::Operation::Estimate`]: it estimates the number of
    /// rows in less time than it counts them. Default: false.
    pub estimates: bool,
    /// True if it supports transactions, and what is built on them: batches that are executed all
    /// or none, batches with an idempotency key, migrations, and the history of audited models. An
    /// engine without transactions refuses them as [`ErrorKind::Unsupported`]. Default: true.
    pub transactions: bool,
    /// True if it executes writes that check rows against the rights of their caller
    /// ([`crate::Store::with_rights`]). The client of a remote store does not: the server checks
    /// the rights of the client's credential. Default: true.
    pub guarded_writes: bool,
    /// True if it executes the actions of references when a row is deleted
    /// ([`marmota_model::Field::on_delete`]). A store on an engine without them refuses schemas with
    /// such references as [`ErrorKind::Unsupported`]. Default: true.
    pub on_delete: bool,
    /// True if it has indexes of the rows that a filter selects ([`marmota_model::Index::filter`]).
    /// A store on an engine without them refuses schemas with such indexes as
    /// [`ErrorKind::Unsupported`]. Default: true.
    pub partial_indexes: bool,
    /// True if it has columns whose values the database computes
    /// ([`marmota_model::Field::generated`]). A store on an engine without them refuses schemas with
    /// such fields as [`ErrorKind::Unsupported`]. Default: false.
    pub generated_columns: bool,
    /// True if it makes the texts of composite keys, and those of references to them, of their fields
    /// in each read. Then the store need not compute the references of stored rows. Default: false,
    /// it stores them.
    pub makes_key_texts: bool,
    /// True if a write waits for an open transaction of another session only if that has written to
    /// the same row. Default: false, writes to other rows may wait as well.
    pub row_locks: bool,
    /// How a session reads while another has a transaction open. Default:
    /// [`ReadsMeanwhile::Before`].
    pub reads_meanwhile: ReadsMeanwhile,
    /// True if an insert that was refused or undone uses up its automatic key, so
    /// that keys have gaps. Keys ascend in either case. Default: false.
    pub key_gaps: bool,
    /// True if the highest automatic key is used again after its row was deleted. No engine reuses
    /// another key. If other rows hold keys without a [`marmota_model::Ref`] (rules such as `owner
    /// = @user.id`), use a `Uuid` key on such an engine. Default: false.
    pub reuses_last_key: bool,
    /// True if the database is a file that other processes may have open as well. The next read
    /// sees their writes, without a round trip. Default: false.
    pub shared_file: bool,
    /// True if it records changes for the change feed
    /// ([`StoreBuilder::changes`](crate::StoreBuilder::changes)). Default: false.
    pub change_feed: bool,
    /// True if the database numbers the commits of the change feed, for all of its programs: a
    /// number can become visible after a later one, and numbers can be missing. The store then
    /// publishes commits by reading the table of commits. Default: false.
    pub shared_commits: bool,
    /// True if other processes are not notified of such commits. The store then polls the table of
    /// commits while the feed has readers, and commits of others invalidate its cache. Default:
    /// false.
    pub polled_commits: bool,
    /// The database server that the engine is connected to, if the server runs on this machine,
    /// such as `PostgreSQL on this machine (127.0.0.1:5432)`. Default: `None`, as for an engine in
    /// this process.
    pub local_server: Option<String>,
}

/// How a session reads while another has a transaction open.
///
/// The order of the variants is from the least to the most waiting: a store of several databases
/// has the maximum of its parts.
///
/// ```
/// use marmota_store::engine::ReadsMeanwhile;
/// assert!(ReadsMeanwhile::Before < ReadsMeanwhile::Wait);
/// assert_eq!(ReadsMeanwhile::default(), ReadsMeanwhile::Before);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadsMeanwhile {
    /// It reads what was committed before, without waiting (multi-version concurrency).
    #[default]
    Before,
    /// It waits for the end of a transaction that has written to its table. Reads of other tables
    /// do not wait.
    WaitForTables,
    /// It waits for the end of the transaction, also if that has only read.
    Wait,
}

impl Capability {
    /// Creates the capability of an engine with this name, with the defaults of all fields.
    /// `durable` is true if an acknowledged write survives the end of the process.
    ///
    /// ```
    /// use marmota_store::engine::{Capability, ReadsMeanwhile};
    /// let capability = Capability::new("tiny", false)
    ///     .with_persistence()
    ///     .with_reads_meanwhile(ReadsMeanwhile::Wait)
    ///     .without_transactions();
    /// assert!(capability.persistent && !capability.durable && !capability.transactions);
    /// ```
    #[must_use]
    pub const fn new(name: &'static str, durable: bool) -> Self {
        Self {
            name,
            durable,
            persistent: durable,
            sql: false,
            aggregation: false,
            estimates: false,
            transactions: true,
            guarded_writes: true,
            on_delete: true,
            partial_indexes: true,
            generated_columns: false,
            makes_key_texts: false,
            row_locks: false,
            reads_meanwhile: ReadsMeanwhile::Before,
            key_gaps: false,
            reuses_last_key: false,
            shared_file: false,
            change_feed: false,
            shared_commits: false,
            polled_commits: false,
            local_server: None,
        }
    }

    /// The same engine, with rows that survive a close ([`Capability::persistent`]).
    #[must_use]
    pub const fn with_persistence(mut self) -> Self {
        self.persistent = true;
        self
    }

    /// The same engine, with SQL.
    ///
    /// It executes [`Operation::Sql`](crate::operation::Operation::Sql) ([`Capability::sql`]).
    #[must_use]
    pub const fn with_sql(mut self) -> Self {
        self.sql = true;
        self
    }

    /// The same engine, with aggregation pipelines.
    ///
    /// It executes [`Operation::Aggregate`](crate::operation::Operation::Aggregate)
    /// ([`Capability::aggregation`]).
    #[must_use]
    pub const fn with_aggregation(mut self) -> Self {
        self.aggregation = true;
        self
    }

    /// The same engine, with estimates of numbers of rows ([`Capability::estimates`]).
    #[must_use]
    pub const fn with_estimates(mut self) -> Self {
        self.estimates = true;
        self
    }

    /// The same engine, with this behaviour of reads while a transaction is open.
    #[must_use]
    pub const fn with_reads_meanwhile(mut self, reads: ReadsMeanwhile) -> Self {
        self.reads_meanwhile = reads;
        self
    }

    /// The same engine, whose transactions lock rows.
    ///
    /// A write waits only for transactions that wrote to the same row ([`Capability::row_locks`]).
    #[must_use]
    pub const fn with_row_locks(mut self) -> Self {
        self.row_locks = true;
        self
    }

    /// The same engine, on a file that other processes may have open
    /// ([`Capability::shared_file`]).
    #[must_use]
    pub const fn with_shared_file(mut self) -> Self {
        self.shared_file = true;
        self
    }

    /// Declares that it records changes ([`Capability::change_feed`]).
    #[must_use]
    pub const fn with_change_feed(mut self) -> Self {
        self.change_feed = true;
        self
    }

    /// Declares that it records changes of all programs ([`Capability::change_feed`],
    /// [`Capability::shared_commits`]).
    #[must_use]
    pub const fn with_shared_commits(mut self) -> Self {
        (self.change_feed, self.shared_commits) = (true, true);
        self
    }

    /// Declares that it records changes of all programs, and does not notify other processes of them
    /// ([`Capability::shared_commits`], [`Capability::polled_commits`]).
    #[must_use]
    pub const fn with_polled_commits(mut self) -> Self {
        self.polled_commits = true;
        self.with_shared_commits()
    }

    /// The same engine, whose automatic keys have gaps ([`Capability::key_gaps`]).
    #[must_use]
    pub const fn with_key_gaps(mut self) -> Self {
        self.key_gaps = true;
        self
    }

    /// The same engine, which uses the highest automatic key again
    /// ([`Capability::reuses_last_key`]).
    #[must_use]
    pub const fn with_reused_last_key(mut self) -> Self {
        self.reuses_last_key = true;
        self
    }

    /// The same engine, connected to this server on this machine.
    #[must_use]
    pub fn with_local_server(mut self, server: Option<String>) -> Self {
        self.local_server = server;
        self
    }

    /// The same engine, without transactions.
    ///
    /// The conformance suite then checks that it refuses them as [`ErrorKind::Unsupported`].
    #[must_use]
    pub const fn without_transactions(mut self) -> Self {
        self.transactions = false;
        self
    }

    /// The same engine, without actions of references ([`Capability::on_delete`]).
    #[must_use]
    pub const fn without_on_delete(mut self) -> Self {
        self.on_delete = false;
        self
    }

    /// The same engine, without partial indexes ([`Capability::partial_indexes`]).
    #[must_use]
    pub const fn without_partial_indexes(mut self) -> Self {
        self.partial_indexes = false;
        self
    }

    /// The same engine, with generated columns ([`Capability::generated_columns`]).
    #[must_use]
    pub const fn with_generated_columns(mut self) -> Self {
        self.generated_columns = true;
        self
    }

    /// The same engine, which makes the texts of keys in each read ([`Capability::makes_key_texts`]).
    #[must_use]
    pub const fn with_made_key_texts(mut self) -> Self {
        self.makes_key_texts = true;
        self
    }

    /// Returns an error if the engine has no transactions; `what` begins its message, such as "a
    /// migration".
    ///
    /// ```
    /// use marmota_model::ErrorKind;
    /// use marmota_store::engine::Capability;
    /// let capability = Capability::new("tiny", false).without_transactions();
    /// let error = capability.check_transactions("a migration").unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Unsupported);
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`].
    pub fn check_transactions(&self, what: &str) -> Result<()> {
        if self.transactions {
            return Ok(());
        }
        let message = format!(
            "{what} needs transactions, which the engine `{}` does not support: leave it out, or \
             use a database of another engine",
            self.name
        );
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// Returns the capability of a client of the server with this one. The guarantees are the
    /// server's; raw SQL, aggregations and rights are only available on the server.
    #[must_use]
    pub const fn of_client(&self, name: &'static str) -> Self {
        Self {
            name,
            sql: false,
            aggregation: false,
            estimates: self.estimates,
            guarded_writes: false,
            on_delete: self.on_delete,
            partial_indexes: self.partial_indexes,
            generated_columns: self.generated_columns,
            makes_key_texts: false,
            shared_file: false,
            change_feed: false,
            shared_commits: false,
            polled_commits: false,
            local_server: None,
            durable: self.durable,
            persistent: self.persistent,
            transactions: self.transactions,
            row_locks: self.row_locks,
            reads_meanwhile: self.reads_meanwhile,
            key_gaps: self.key_gaps,
            reuses_last_key: self.reuses_last_key,
        }
    }

    /// Returns the capability of a store with this database and another: it guarantees what both
    /// guarantee. SQL and aggregations run on the database that supports them.
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self {
            name: self.name,
            durable: self.durable && other.durable,
            persistent: self.persistent && other.persistent,
            sql: self.sql || other.sql,
            aggregation: self.aggregation || other.aggregation,
            estimates: self.estimates && other.estimates,
            transactions: self.transactions && other.transactions,
            guarded_writes: self.guarded_writes && other.guarded_writes,
            on_delete: self.on_delete && other.on_delete,
            partial_indexes: self.partial_indexes && other.partial_indexes,
            generated_columns: self.generated_columns && other.generated_columns,
            makes_key_texts: self.makes_key_texts && other.makes_key_texts,
            row_locks: self.row_locks && other.row_locks,
            reads_meanwhile: self.reads_meanwhile.max(other.reads_meanwhile),
            key_gaps: self.key_gaps || other.key_gaps,
            reuses_last_key: self.reuses_last_key || other.reuses_last_key,
            shared_file: self.shared_file || other.shared_file,
            change_feed: false,
            shared_commits: false,
            polled_commits: false,
            local_server: self.local_server.clone().or_else(|| other.local_server.clone()),
        }
    }

    /// Returns the capability of a store with this database and one without tables.
    pub(crate) fn and_without_tables(&self, other: &Self) -> Self {
        Self {
            name: self.name,
            sql: self.sql || other.sql,
            aggregation: self.aggregation || other.aggregation,
            transactions: self.transactions && other.transactions,
            row_locks: self.row_locks && other.row_locks,
            local_server: self.local_server.clone().or_else(|| other.local_server.clone()),
            ..self.clone()
        }
    }
}

/// The error of an engine that has no aggregation.
#[cold]
pub(crate) fn no_aggregation(engine: &str) -> Error {
    let message = format!(
        "the engine `{engine}` does not support aggregation pipelines; use SQL if the engine has \
         it (`Store::sql`), or list the rows and sum them"
    );
    Error::new(ErrorKind::Unsupported, message)
}
