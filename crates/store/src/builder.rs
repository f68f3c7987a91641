//! The builder of a store: an engine with its models and settings.

mod before_hooks;
mod change_feed;
mod database_models;
mod engine_checks;
mod feed_keeper;
mod file_fields;
mod pair_role;
mod replica;
mod shared_commits;

use std::any::TypeId;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hashbrown::HashMap;
use marmota_model::{Error, ErrorKind, FieldSet, Model, Result, Schema, Table};

pub use self::before_hooks::{AsyncHook, BeforeChange, HookFuture};
use self::before_hooks::{HooksToOpen, LateCore};
pub use self::change_feed::renew_feed;
pub use self::database_models::DatabaseModels;
use self::engine_checks::{check_hooks, check_schema};
use crate::batch_machine::answers_schema;
use crate::contract::audit::AuditLog;
use crate::contract::commit_sink::CommitSink;
use crate::contract::engine::{Capability, Engine};
use crate::contract::file_guard::FileGuard;
use crate::contract::operation::{ANSWERS, Idempotency};
use crate::contract::plan::{Destructive, Plan};
use crate::databases::{Databases, MAIN};
use crate::layers::feed::options::ChangeRetention;
use crate::layers::feed::pair_record::{self, PairRole};
use crate::layers::feed::tables::FeedTables;
use crate::layers::metrics::meter::Metering;
use crate::layers::stack::LayerSettings;
use crate::layers::steps::before_hooks::BeforeHooks;
use crate::migration::composite_key;
use crate::migration::computed::{COMPUTED, ComputedTables};
use crate::migration::sequence::Sequence;
use crate::migration::{MIGRATIONS, Migration, MigrationStatus};
use crate::rows::history::{HISTORY_TABLE, History};
use crate::rows::registry::Registry;
use crate::store::Store;

impl Store {
    /// Returns a builder that opens a store on an engine.
    #[must_use]
    pub fn builder(engine: impl Into<Box<dyn Engine>>) -> StoreBuilder {
        let engine = engine.into();
        StoreBuilder {
            engine,
            tables: Vec::new(),
            databases: Vec::new(),
            version: 0,
            cache_bytes_max: None,
            idempotency: None,
            metering: None,
            traced: false,
            destructive: Destructive::default(),
            history_age_max: None,
            migrations: Vec::new(),
            left: Vec::new(),
            changes: None,
            before_hooks: HooksToOpen::default(),
            commit_sink: None,
            file_guard: None,
            pair_role: None,
            is_of_models: false,
        }
    }
}

/// A builder that opens a store; it has the engine, the models and the settings.
pub struct StoreBuilder {
    engine: Box<dyn Engine>,
    tables: Vec<(Schema, Option<TypeId>)>,
    /// Further databases, each with its name and models.
    databases: Vec<(String, Box<dyn Engine>, DatabaseModels)>,
    pub(crate) version: u32,
    cache_bytes_max: Option<u64>,
    idempotency: Option<Idempotency>,
    metering: Option<Metering>,
    traced: bool,
    destructive: Destructive,
    history_age_max: Option<Duration>,
    migrations: Vec<Migration>,
    /// Tables that a transfer does not move.
    pub(crate) left: Vec<String>,
    /// How long changes are kept; `None` if they are not recorded.
    changes: Option<ChangeRetention>,
    /// The hooks that are called before writes.
    before_hooks: HooksToOpen,
    commit_sink: Option<Arc<dyn CommitSink>>,
    file_guard: Option<Arc<dyn FileGuard>>,
    /// The role in a pair that the caller expects.
    pair_role: Option<PairRole>,
    /// True if the store is opened for its models alone.
    is_of_models: bool,
}

impl StoreBuilder {
    /// Adds the model `M`.
    #[must_use]
    pub fn model<M: Model>(mut self) -> Self {
        self.tables.push((M::schema().clone(), Some(TypeId::of::<M>())));
        self
    }

    /// Adds a model made at run time.
    #[must_use]
    pub fn schema(mut self, schema: Schema) -> Self {
        self.tables.push((schema, None));
        self
    }

    /// Adds a separate database, with any engine, for further models. Verbs find the database of
    /// each table. A batch or transaction writes to one database, and references cannot leave
    /// theirs. Raw SQL can read all of them: see the guide's page on databases. The first database
    /// is called `main`; a store has at most nine.
    ///
    /// ```
    /// use marmota_store::Store;
    /// use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # let schema = |name| Schema::new(name, vec![Field::new("id", Kind::I64).role(Role::Key)]);
    /// # let (person, order) = (schema("person"), schema("order"));
    /// let store = Store::builder(Memory::new())
    ///     .schema(person)
    ///     .database("shop", Memory::new(), |shop| shop.schema(order))
    ///     .open()?;
    /// assert_eq!(store.registry().tables().len(), 2);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn database(
        mut self,
        name: impl Into<String>,
        engine: impl Into<Box<dyn Engine>>,
        models: impl FnOnce(DatabaseModels) -> DatabaseModels,
    ) -> Self {
        self.databases.push((name.into(), engine.into(), models(DatabaseModels::default())));
        self
    }

    /// Sets the version of the models as a whole: a database written by a program with a higher
    /// version is refused. Default: 0.
    #[must_use]
    pub const fn schema_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Caches rows that were read by key, up to this many bytes, and answers later reads from the
    /// cache, some five times as fast as SQLite. A row is never older than the last write that this
    /// store had acknowledged before the read.
    ///
    /// PostgreSQL notifies the cache of writes by others: a row may be older by the delay of the
    /// notification, and is read again after it. With any other engine, enable the cache only for a
    /// database to which no one else writes: the cache does not see writes of other processes, or
    /// of other stores in this process. (SQLite's `exclusive=true` rules both out.)
    #[must_use]
    pub const fn cache(mut self, bytes_max: u64) -> Self {
        self.cache_bytes_max = Some(bytes_max);
        self
    }

    /// Counts operations by table, verb and session ([`Store::activity`]), and records slow ones.
    /// An operation takes some 140 ns longer with it.
    #[must_use]
    pub const fn metering(mut self, metering: Metering) -> Self {
        self.metering = Some(metering);
        self
    }

    /// Creates a span of the crate `tracing` for each operation of a caller: target
    /// `marmota_store`, level info. Its fields have the names of OpenTelemetry's conventions for
    /// databases (`db.system.name`: the engine, `db.operation.name`: the verb,
    /// `db.collection.name`: the table, `error.type`: the kind of an error), and `marmota.rows`,
    /// read or written. The span lasts as long as the operation, is a child of the caller's current
    /// span, and contains no value of a row. While no subscriber records it, an operation takes
    /// some 180 instructions more; without this setting there is no cost.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    /// let store = Store::builder(Memory::new()).schema(city).traced().open()?;
    /// # store.close()?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub const fn traced(mut self) -> Self {
        self.traced = true;
        self
    }

    /// Deletes entries in the history of audited models that are older than this, not at once, but
    /// in the course of later writes. Default: they are kept forever.
    #[must_use]
    pub const fn history_age_max(mut self, age: Duration) -> Self {
        self.history_age_max = Some(age);
        self
    }

    /// Allows steps of the plan that lose data. Default: none.
    #[must_use]
    pub fn allow_destructive(mut self, destructive: Destructive) -> Self {
        self.destructive = destructive;
        self
    }

    /// Returns the changes that opening the store would make in the database, and those that it
    /// would refuse. Changes nothing, and closes the engine.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Role, Schema};
    /// use marmota_memory::Memory;
    /// use marmota_store::Store;
    /// let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    /// let plan = Store::builder(Memory::new()).schema(city).plan()?;
    /// assert_eq!(plan.steps[0].to_string(), "add table city");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] for an invalid schema, or a database of a newer
    /// program.
    pub fn plan(self) -> Result<Plan> {
        let version = self.version;
        let Assembled { engine, tables, migrations, .. } = self.assemble()?;
        let done = migrations.read(&*engine);
        let done = done.and_then(|done| migrations.check(&done, None));
        let plan = done.and_then(|()| engine.plan(&tables, version));
        let closed = engine.close();
        let plan = plan?;
        closed.map(|()| plan)
    }

    /// Returns the changes that the database of an open store needs for the tables of this builder,
    /// and changes nothing. The engine of the builder is not used, so this works for databases that
    /// only one engine at a time can open.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// let id = || Field::new("id", Kind::I64).role(Role::Key);
    /// let store = Store::builder(Memory::new()).schema(Schema::new("city", vec![id()])).open()?;
    /// let wanted = Schema::new("city", vec![id(), Field::new("name", Kind::TEXT)]);
    /// let plan = Store::builder(Memory::new()).schema(wanted).plan_for(&store)?;
    /// assert_eq!(plan.steps[0].to_string(), "add column city.name");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`StoreBuilder::plan`].
    pub fn plan_for(self, store: &Store) -> Result<Plan> {
        let version = self.version;
        let Assembled { engine, tables, .. } = self.assemble()?;
        let plan = store.engine().plan(&tables, version);
        engine.close()?;
        plan
    }

    /// Adds a migration after those added before: a change of rows, executed once in every
    /// database. [`StoreBuilder::open`] executes pending migrations, each in a transaction with its
    /// record. The records are in the table `marmota_migration` of the first database, and a
    /// migration can only write to that database.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Record, Role, Schema};
    /// use marmota_memory::Memory;
    /// use marmota_store::{Store, migration::Migration};
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let city = Schema::new("city", vec![id, Field::new("name", Kind::TEXT)]);
    /// let store = Store::builder(Memory::new())
    ///     .schema(city)
    ///     .migration(Migration::new(1, "first cities").up(|transaction| {
    ///         let mut city = Record::new(transaction.table("city")?);
    ///         city.set("name", "Bourges")?;
    ///         transaction.insert_record(&city).run().map(drop)
    ///     }))
    ///     .open()?;
    /// let city = store.table("city")?;
    /// assert_eq!(store.get_record(&city, 1).run()?.value("name")?, &"Bourges".into());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn migration(mut self, migration: Migration) -> Self {
        self.migrations.push(migration);
        self
    }

    /// Returns the migrations of the program, and which of them the database has. Changes nothing,
    /// and closes the engine.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] for invalid migrations; not for a database of a newer
    /// program.
    pub fn migration_status(self) -> Result<Vec<MigrationStatus>> {
        let Assembled { engine, migrations, .. } = self.assemble()?;
        let status = migrations.read(&*engine).map(|done| migrations.status(&done));
        let closed = engine.close();
        let status = status?;
        closed.map(|()| status)
    }

    /// Executes the plan, like [`StoreBuilder::open`], then executes or undoes migrations until the
    /// one with this number is the last executed one (0: none is), and closes the store. This is
    /// for a downgrade: the previous version of the program opens the database next.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Unsupported`] for a migration that cannot be undone, before
    /// anything is changed; otherwise those of [`StoreBuilder::open`].
    pub fn migrate_to(self, number: u32) -> Result<()> {
        self.open_at(Some(number))?.close()
    }

    /// Opens the store for its models alone: it is not checked whether the engine has what they need,
    /// such as generated columns. For programs that look at the models of another database by a store
    /// in memory; rows of such a store may lack values.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// let fields = vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("twice", Kind::I64).generated("id * 2"),
    /// ];
    /// let builder = || Store::builder(Memory::new()).schema(Schema::new("number", fields.clone()));
    /// assert!(builder().open().is_err());
    /// assert!(builder().models_alone().open()?.table("number").is_ok());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub const fn models_alone(mut self) -> Self {
        self.is_of_models = true;
        self
    }

    /// Returns the features of the first engine, as far as they are known before the store is
    /// opened: for builders that add what an engine supports.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// let builder = Store::builder(Memory::new());
    /// assert!(builder.capability().transactions);
    /// ```
    #[must_use]
    pub fn capability(&self) -> &Capability {
        self.engine.capability()
    }

    /// The first database.
    pub(crate) fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// Returns true if a model of any of its databases has the table.
    pub(crate) fn names_table(&self, table: &str) -> bool {
        let of_others = self.databases.iter().flat_map(|(_, _, DatabaseModels(tables))| tables);
        self.tables.iter().chain(of_others).any(|(schema, _)| schema.name == table)
    }

    /// Returns the engine, which combines the engines if there are several databases, and all
    /// tables.
    pub(crate) fn assemble(self) -> Result<Assembled> {
        let mut registry = Registry::default();
        let mut engines = vec![(MAIN.to_owned(), self.engine)];
        let mut homes = HashMap::new();
        let mut models: Vec<_> = self.tables.into_iter().map(|table| (0, table)).collect();
        for (name, engine, DatabaseModels(tables)) in self.databases {
            models.extend(tables.into_iter().map(|table| (engines.len(), table)));
            engines.push((name, engine));
        }
        for (database, (schema, of)) in models {
            homes.insert(schema.name.to_string(), database);
            registry.add(Arc::new(Table::new(schema)?), of)?;
        }
        // Each of these is committed together with the writes that it belongs to.
        if registry.is_audited() {
            let home = home_of_history(&registry, &homes)?;
            engines[home].1.capability().check_transactions("the history of audited models")?;
            homes.insert(HISTORY_TABLE.to_owned(), home);
            let table = Arc::new(Table::new(History::schema().clone())?);
            registry.add(table, Some(TypeId::of::<History>()))?;
        }
        if self.idempotency.is_some() {
            for (_, engine) in &engines {
                let what = "storing the answers to batches (idempotency)";
                engine.capability().check_transactions(what)?;
            }
        }
        if !self.migrations.is_empty() {
            engines[0].1.capability().check_transactions("a migration")?;
        }
        let answers = match self.idempotency {
            Some(limits) => Some((answers_table(&registry)?, limits)),
            None => None,
        };
        for table in self.before_hooks.tables() {
            let home = homes.get(table).copied().unwrap_or(0);
            check_hooks(engines[home].1.capability(), table)?;
        }
        let (mut before_hooks, hooks_core) = self.before_hooks.open(&registry)?;
        for table in registry.tables() {
            let hook = self.file_guard.as_ref().and_then(|guard| file_fields::hook(table, guard));
            if let Some(hook) = hook {
                let home = homes.get(table.name()).copied().unwrap_or(0);
                check_hooks(engines[home].1.capability(), table.name())?;
                before_hooks.get_or_insert_default().add(table.name(), hook);
            }
        }
        for table in registry.tables().iter().filter(|table| table.has_expressions()) {
            let home = homes.get(table.name()).copied().unwrap_or(0);
            // The server of a remote store evaluates the expressions.
            if engines[home].1.capability().guarded_writes {
                before_hooks.get_or_insert_default().add_expressions(table.name());
            }
        }
        for table in registry.tables() {
            let home = homes.get(table.name()).copied().unwrap_or(0);
            if !self.is_of_models {
                check_schema(engines[home].1.capability(), table)?;
            }
        }
        let migrations = Sequence::new(self.migrations, &registry)?;
        homes.insert(MIGRATIONS.to_owned(), 0);
        let mut tables = registry.by_dependency()?;
        registry.link(|table| homes.get(table).copied().unwrap_or(0))?;
        registry.cascades().check(|table| {
            let has_hooks = before_hooks.as_ref().is_some_and(|hooks| hooks.has(table));
            table.schema().audit || has_hooks
        })?;
        tables.extend(answers.iter().map(|(table, _)| Arc::clone(table)));
        tables.extend(migrations.table().cloned());
        let home = |table: &str| homes.get(table).copied().unwrap_or(0);
        let computed_of = |table: &Table| {
            let capability = engines[home(table.name())].1.capability();
            let fields = table.computed_fields();
            match capability.makes_key_texts {
                _ if !capability.guarded_writes => FieldSet::EMPTY, // The server computes them.
                true => table.made_fields().iter().fold(fields, FieldSet::without),
                false => fields,
            }
        };
        let computed = ComputedTables::of(&registry, computed_of)?;
        if let Some(table) = computed.as_ref().and_then(ComputedTables::first) {
            let home = home(table.name());
            homes.insert(COMPUTED.to_owned(), home);
        }
        tables.extend(computed.iter().map(|computed| Arc::clone(&computed.expressions)));
        let is_paired = self.pair_role.is_some();
        let changes = self.changes.or(is_paired.then(ChangeRetention::default));
        let feed = match changes {
            Some(retention) => {
                let of_several = engines.len() > 1;
                check_feed(engines[0].1.capability(), of_several)?;
                Some((FeedTables::new(&registry)?, retention))
            }
            None => None,
        };
        tables.extend(feed.iter().flat_map(|(feed, _)| feed.all()).cloned());
        if is_paired {
            tables.push(pair_record::table()?);
        }
        let engine: Box<dyn Engine> = match engines.len() {
            1 => engines.remove(0).1,
            _ => {
                registry.set_databases(homes.iter().map(|(name, &home)| (name.clone(), home)));
                Box::new(Databases::new(engines, homes)?)
            }
        };
        let hooks = (before_hooks, hooks_core);
        Ok(Assembled { engine, registry, tables, answers, migrations, computed, feed, hooks })
    }

    /// Stores the answers to batches with an idempotency key
    /// ([`crate::batch::Batch::idempotency_key`], `Idempotency-Key` in REST), so that a repeat
    /// returns the same answer and writes nothing. They are in the table `marmota_answer`, which is
    /// not a resource of REST. Each of several databases has its own table, so a key is known in
    /// the database where it was used.
    #[must_use]
    pub const fn idempotency(mut self, idempotency: Idempotency) -> Self {
        self.idempotency = Some(idempotency);
        self
    }

    /// Records the changes of all models in a change feed ([`Store::changes`]).
    ///
    /// Default: they are not recorded, and cost nothing. Internal tables, such as those of
    /// accounts, are never recorded.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// use marmota_store::change::ChangeRetention;
    ///
    /// let store = Store::builder(Memory::new()).changes(ChangeRetention::default()).open()?;
    /// let start = store.position()?;
    /// assert_eq!(store.changes()?.position(), start);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub const fn changes(mut self, retention: ChangeRetention) -> Self {
        self.changes = Some(retention);
        self
    }

    /// Copies the log of the database elsewhere: `marmota-replication` has implementations for
    /// replication and for read-only replicas. Default: the log is not copied.
    ///
    /// [`StoreBuilder::open`] fails with [`ErrorKind::Unsupported`] if the engine cannot do this,
    /// or if the store has several databases.
    #[must_use]
    pub fn commit_sink(mut self, sink: Arc<dyn CommitSink>) -> Self {
        self.commit_sink = Some(sink);
        self
    }

    /// Opens the store. It executes the steps of the plan that lose no data (it creates missing
    /// tables, columns and indexes), and the destructive ones that
    /// [`StoreBuilder::allow_destructive`] allows; then it executes the pending migrations.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] for an invalid schema, a database that would lose
    /// data, or one that does not belong to the program's migrations, with an alternative; those of
    /// a migration.
    pub fn open(self) -> Result<Store> {
        self.open_at(None)
    }

    fn open_at(mut self, to: Option<u32>) -> Result<Store> {
        let is_paired = self.check_pair()?;
        if is_paired {
            self.pair_role.get_or_insert(PairRole::Primary);
        }
        let (version, destructive) = (self.version, self.destructive.clone());
        let Self { history_age_max, metering, traced, cache_bytes_max, .. } = self;
        let commit_sink = self.commit_sink.clone();
        let Assembled { engine, registry, tables, answers, migrations, computed, feed, hooks } =
            self.assemble()?;
        let (before_hooks, hooks_core) = hooks;
        let history = registry.table(HISTORY_TABLE).ok().cloned();
        let audit_log = history.filter(|_| registry.is_audited()).map(|table| {
            let age_max_us =
                history_age_max.map(|age| i64::try_from(age.as_micros()).unwrap_or(i64::MAX));
            AuditLog::new(table, age_max_us)
        });
        let is_replica = commit_sink.as_ref().is_some_and(|sink| sink.is_replica());
        if let Some(sink) = commit_sink {
            engine.copy_log(sink)?;
        }
        // The records are checked first: a refused database is not changed.
        let done = migrations.read(&*engine)?;
        migrations.check(&done, to)?;
        if is_replica {
            replica::open_tables(&*engine, &tables, version)?;
            migrations.check_complete(&done)?;
        } else {
            engine
                .migrate(&tables, version, &destructive)
                .map_err(|refused| migrations.explain(refused, &done))?;
        }
        let settings = LayerSettings {
            is_traced: traced,
            metering,
            audit_log,
            before_hooks,
            cache_bytes_max,
            commits: feed.as_ref().map(|(tables, _)| Arc::clone(&tables.commits)),
        };
        let store = Store::new(engine, registry, answers, settings);
        store.core.is_replica.store(is_replica, Ordering::Relaxed);
        let _ = hooks_core.set(Arc::downgrade(&store.core));
        if let Some((tables, retention)) = feed {
            let feed = change_feed::open(&store, tables, is_replica, is_paired)?;
            let retention = (!is_replica).then_some(retention);
            feed_keeper::start(&store, &feed, retention)?;
            store.core.set_feed(feed);
        }
        // The server of a remote store checks its rows.
        if store.capability().guarded_writes {
            composite_key::check(&store)?;
        }
        if let Some(computed) = computed.filter(|_| !is_replica) {
            computed.fill(&store)?;
        }
        if !is_replica {
            migrations.carry_out(&store, &done, to)?;
        }
        // Rows that the migrations have read are not in the cache afterwards.
        store.core.layers.subscribe_cache(store.registry(), store.core.feed())?;
        Ok(store)
    }
}

/// The result of a builder: its engine, tables and migrations.
pub(crate) struct Assembled {
    pub(crate) engine: Box<dyn Engine>,
    registry: Registry,
    /// All tables of the engine: those of the models and the store's internal ones.
    pub(crate) tables: Vec<Arc<Table>>,
    answers: Option<(Arc<Table>, Idempotency)>,
    migrations: Sequence,
    /// The tables of the change feed, if there is one.
    feed: Option<(FeedTables, ChangeRetention)>,
    /// The tables with computed fields, if there are any.
    computed: Option<ComputedTables>,
    /// The hooks that are called before writes, and the place for their store.
    hooks: (Option<BeforeHooks>, LateCore),
}

/// Returns the table of idempotent answers.
fn answers_table(registry: &Registry) -> Result<Arc<Table>> {
    if registry.table(ANSWERS).is_ok() {
        let message = format!("the table name `{ANSWERS}` is reserved for the store; rename yours");
        return Err(Error::new(ErrorKind::Conflict, message));
    }
    Ok(Arc::new(Table::new(answers_schema())?))
}

/// Checks that the change feed can be recorded.
fn check_feed(capability: &Capability, of_several: bool) -> Result<()> {
    let message = if of_several {
        "a store of several databases has no change feed: open a store on each".to_owned()
    } else if !capability.change_feed {
        format!("the engine `{}` has no change feed", capability.name)
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Returns the index of the database with the audited models. It has the history as well, since
/// each entry is committed together with its write.
fn home_of_history(registry: &Registry, homes: &HashMap<String, usize>) -> Result<usize> {
    let mut audited = registry.tables().iter().filter(|table| table.schema().audit);
    let home = |table: &Arc<Table>| homes.get(table.name()).copied().unwrap_or(0);
    let first = audited.next().map_or(0, home);
    match audited.find(|table| home(table) != first) {
        None => Ok(first),
        Some(other) => {
            let message = format!(
                "the model `{}` is audited in another database than the models before it, but a \
                 store has one history: keep audited models in one database, or open a store on \
                 each",
                other.name()
            );
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}
