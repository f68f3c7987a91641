//! A store: an engine with the models it keeps.

use std::any::TypeId;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use marmota_model::{Error, ErrorKind, Model, Result, Schema, Table};

use crate::audit::Ledger;
use crate::cache::{Cache, CacheStats};
use crate::databases::{Databases, MAIN};
use crate::engine::{Capability, Engine};
use crate::history::{HISTORY_TABLE, History};
use crate::meter::{Activity, Meter, Metering};
use crate::migration::{MIGRATIONS, Migration, MigrationStatus, Sequence};
use crate::operation::{self, Idempotency};
use crate::plan::{Destructive, Plan};
use crate::registry::Registry;
use crate::rights::Rights;
use crate::scope::{Background, Scope, Shared};
use crate::statistics::Statistics;

/// Models in an engine. Cheap to clone; `Send + Sync`; derefs to the
/// [`Scope`] that has the verbs.
#[derive(Clone, Debug)]
pub struct Store(Arc<Scope>);

impl Deref for Store {
    type Target = Scope;

    fn deref(&self) -> &Scope {
        &self.0
    }
}

impl Store {
    /// Begins to open a store on an engine.
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
        }
    }

    /// What the engine is and can do.
    #[must_use]
    pub fn capability(&self) -> &Capability {
        self.shared.engine.capability()
    }

    /// How often the cache had what was asked for; none for a store without
    /// one.
    #[must_use]
    pub fn cache_stats(&self) -> Option<CacheStats> {
        self.shared.cache().map(Cache::stats)
    }

    /// What it has done since it was opened: commits, groups, waits for the
    /// disk, how often its cache had what was asked for.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        Statistics { engine: self.shared.engine.statistics(), cache: self.cache_stats() }
    }

    /// What was done with it, by table, verb and session, and what took long;
    /// none unless it was opened to count ([`StoreBuilder::metering`]).
    #[must_use]
    pub fn activity(&self) -> Option<Activity> {
        self.shared.meter.as_ref().map(Meter::activity)
    }

    /// The same store, whose operations are counted for a session of this name
    /// too ([`Activity::sessions`]).
    #[must_use]
    pub fn in_session(&self, name: &str) -> Self {
        Self(Arc::new(self.0.in_session(name)))
    }

    /// The version of a table: a number that changes with every write to it,
    /// and that is never the same again as long as the store is open. None
    /// while one is under way, and for a store without a cache.
    ///
    /// What is read between two calls that give the same version is what the
    /// table has at that version.
    #[must_use]
    pub fn table_version(&self, table: &Table) -> Option<u64> {
        Some(self.shared.cache()?.version(table)?.number())
    }

    /// True until it is closed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.shared.check_open().is_ok()
    }

    /// A number that no other store of this process has or had.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.shared.number
    }

    /// The same store, whose writes are said to be by `actor`: entered in the
    /// history of audited models ([`Scope::history`]), by its transactions as
    /// well. Cheap, so that a server does it for each request.
    #[must_use]
    pub fn with_actor(&self, actor: impl Into<Arc<str>>) -> Self {
        Self(Arc::new(self.0.with_actor(actor.into())))
    }

    /// The same store for a caller who may not do everything: whatever is done
    /// through it, also by its transactions, is refused or narrowed by their
    /// rights ([`crate::rights`]), and entered in the history under their name.
    #[must_use]
    pub fn with_rights(&self, rights: Arc<Rights>) -> Self {
        Self(Arc::new(self.0.with_rights(rights)))
    }

    /// A number for what is read of a table here: two stores give the same one
    /// only if they may read the same rows at the same [`Store::table_version`].
    /// None where that alone does not say what there is to be read.
    #[must_use]
    pub fn read_view_id(&self, table: &Table) -> Option<u64> {
        self.rights().map_or(Some(0), |rights| rights.read_number(table))
    }

    pub(crate) fn watch(&self, background: &Arc<dyn Background>) {
        self.shared.watch(background);
    }

    /// True if nobody else holds it, nor a transaction on it.
    pub(crate) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.0) == 1 && Arc::strong_count(&self.0.shared) == 1
    }

    /// Makes everything durable and lets go of files. Dropping the last clone
    /// does the same, but cannot say what went wrong. What a background batch
    /// has accepted is carried out first.
    ///
    /// # Errors
    /// What could not be made durable.
    pub fn close(&self) -> Result<()> {
        self.shared.flush();
        self.shared.close()
    }
}

/// Collects the models of one of a store's databases; see
/// [`StoreBuilder::database`].
#[derive(Default)]
pub struct Models(Vec<(Schema, Option<TypeId>)>);

impl Models {
    /// Keeps the model `M`.
    #[must_use]
    pub fn model<M: Model>(mut self) -> Self {
        self.0.push((M::schema().clone(), Some(TypeId::of::<M>())));
        self
    }

    /// Keeps a model made at run time.
    #[must_use]
    pub fn schema(mut self, schema: Schema) -> Self {
        self.0.push((schema, None));
        self
    }
}

/// Collects a store's models.
pub struct StoreBuilder {
    engine: Box<dyn Engine>,
    tables: Vec<(Schema, Option<TypeId>)>,
    /// Further databases, each with its name and models.
    databases: Vec<(String, Box<dyn Engine>, Models)>,
    pub(crate) version: u32,
    cache_bytes_max: Option<u64>,
    idempotency: Option<Idempotency>,
    metering: Option<Metering>,
    traced: bool,
    destructive: Destructive,
    history_age_max: Option<Duration>,
    migrations: Vec<Migration>,
    /// Tables that a transfer leaves where they are.
    pub(crate) left: Vec<String>,
}

impl StoreBuilder {
    /// Keeps the model `M`.
    #[must_use]
    pub fn model<M: Model>(mut self) -> Self {
        self.tables.push((M::schema().clone(), Some(TypeId::of::<M>())));
        self
    }

    /// Keeps a model made at run time.
    #[must_use]
    pub fn schema(mut self, schema: Schema) -> Self {
        self.tables.push((schema, None));
        self
    }

    /// Keeps further models in a database of their own, of any engine. Verbs
    /// find each table where it is; a batch or transaction writes to one
    /// database, and references stay in theirs. SQL of one's own sees all of
    /// them: see the guide's page on databases. The first database is called
    /// `main`; nine are the most.
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
        models: impl FnOnce(Models) -> Models,
    ) -> Self {
        self.databases.push((name.into(), engine.into(), models(Models::default())));
        self
    }

    /// The version of the models as a whole: a database written by a program
    /// with a higher one is refused. 0 if never set.
    #[must_use]
    pub const fn schema_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Keeps rows that were read by key, up to so many bytes, and answers
    /// later reads of them: some five times as fast as SQLite does. A row is
    /// never older than what this store acknowledged before it was asked for.
    ///
    /// PostgreSQL tells what others write to it, whoever they are: a row may be
    /// as much older as that takes to come, and is read anew behind it. With
    /// any other engine, only for a database that nobody else writes to: what
    /// other processes write, or other stores of this one, goes unseen there.
    /// (SQLite's `exclusive=true` sees to it that there is nobody.)
    #[must_use]
    pub const fn cache(mut self, bytes_max: u64) -> Self {
        self.cache_bytes_max = Some(bytes_max);
        self
    }

    /// Counts what is done: by table, verb and session ([`Store::activity`]), and
    /// which operations took long. An operation takes some 140 ns more for it.
    #[must_use]
    pub const fn metering(mut self, metering: Metering) -> Self {
        self.metering = Some(metering);
        self
    }

    /// Puts a span of the crate `tracing` around each operation that is asked for: target
    /// `marmota_store`, level info, fields named as OpenTelemetry's conventions for databases have it
    /// (`db.system.name`: the engine, `db.operation.name`: the verb, `db.collection.name`: the table,
    /// `error.type`: the kind of an error), and `marmota.rows`, read or written. It lasts as long as
    /// the operation, inside of whatever span the caller is in, and has no value of a row. While
    /// nobody records it, an operation takes some 180 instructions more; a store that was not asked to
    /// pays nothing.
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

    /// Lets go of entries in the history of audited models that are older:
    /// not at once, but in the course of later writes. They are kept for ever
    /// if this is never set.
    #[must_use]
    pub const fn history_age_max(mut self, age: Duration) -> Self {
        self.history_age_max = Some(age);
        self
    }

    /// Allows steps of the plan that lose data; none if never called.
    #[must_use]
    pub fn allow_destructive(mut self, destructive: Destructive) -> Self {
        self.destructive = destructive;
        self
    }

    /// Says what opening the store would change in the database, and what it
    /// would not dare to; changes nothing, and closes the engine.
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
    /// [`marmota_model::ErrorKind::Invalid`] for a schema that makes no sense,
    /// or a database of a newer program.
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

    /// Adds a migration behind those that were given: a change to rows, done
    /// once in every database. [`StoreBuilder::open`] does those that are
    /// pending, each in a transaction with its record, which lies in the table
    /// `marmota_migration` of the first database, to which alone it can write.
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

    /// Says which migrations the program has, and which of them the database;
    /// changes nothing, and closes the engine.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] for migrations that make no sense;
    /// not for a database of a newer program.
    pub fn migration_status(self) -> Result<Vec<MigrationStatus>> {
        let Assembled { engine, migrations, .. } = self.assemble()?;
        let status = migrations.read(&*engine).map(|done| migrations.status(&done));
        let closed = engine.close();
        let status = status?;
        closed.map(|()| status)
    }

    /// Carries out the plan, as [`StoreBuilder::open`] does, then does or undoes
    /// migrations until the one of this number is the last that is done (0: none
    /// is), and closes the store: for the program before, which opens it next.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Unsupported`] for a migration that cannot be
    /// undone, before anything is changed; otherwise as [`StoreBuilder::open`].
    pub fn migrate_to(self, number: u32) -> Result<()> {
        self.open_at(Some(number))?.close()
    }

    /// The first database.
    pub(crate) fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// True if a model of any of its databases has the table.
    pub(crate) fn names_table(&self, table: &str) -> bool {
        let of_others = self.databases.iter().flat_map(|(_, _, Models(tables))| tables);
        self.tables.iter().chain(of_others).any(|(schema, _)| schema.name == table)
    }

    /// The engine, made of several where there are more databases than one,
    /// and all their tables.
    pub(crate) fn assemble(self) -> Result<Assembled> {
        let mut registry = Registry::default();
        let mut engines = vec![(MAIN.to_owned(), self.engine)];
        let mut homes = HashMap::new();
        let mut models: Vec<_> = self.tables.into_iter().map(|table| (0, table)).collect();
        for (name, engine, Models(tables)) in self.databases {
            models.extend(tables.into_iter().map(|table| (engines.len(), table)));
            engines.push((name, engine));
        }
        for (database, (schema, of)) in models {
            homes.insert(schema.name.to_string(), database);
            registry.add(Arc::new(Table::new(schema)?), of)?;
        }
        // Each of these is committed together with the writes that it is about.
        if registry.is_audited() {
            let home = home_of_history(&registry, &homes)?;
            engines[home].1.capability().check_transactions("the history of audited models")?;
            homes.insert(HISTORY_TABLE.to_owned(), home);
            let table = Arc::new(Table::new(History::schema().clone())?);
            registry.add(table, Some(TypeId::of::<History>()))?;
        }
        if self.idempotency.is_some() {
            for (_, engine) in &engines {
                let what = "keeping the answers to batches (idempotency)";
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
        let migrations = Sequence::new(self.migrations, &registry)?;
        homes.insert(MIGRATIONS.to_owned(), 0);
        let mut tables = registry.by_dependency()?;
        tables.extend(answers.iter().map(|(table, _)| Arc::clone(table)));
        tables.extend(migrations.table().cloned());
        let engine: Box<dyn Engine> = match engines.len() {
            1 => engines.remove(0).1,
            _ => {
                registry.set_databases(homes.iter().map(|(name, &home)| (name.clone(), home)));
                Box::new(Databases::new(engines, homes)?)
            }
        };
        Ok(Assembled { engine, registry, tables, answers, migrations })
    }

    /// Keeps the answers to batches with a key of their own
    /// ([`crate::batch::Batch::idempotency_key`], `Idempotency-Key` in REST),
    /// so that a repeat is answered the same and writes nothing. They lie in
    /// the table `marmota_answer`, which is no resource of REST; of several
    /// databases each has its own, so that a key is known where it was used.
    #[must_use]
    pub const fn idempotency(mut self, idempotency: Idempotency) -> Self {
        self.idempotency = Some(idempotency);
        self
    }

    /// Opens the store: carries out the steps of the plan that lose nothing
    /// (tables, columns and indexes that are missing are made), and those that
    /// lose what [`StoreBuilder::allow_destructive`] allows; then does the migrations that
    /// are pending.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] for a schema that makes no sense, a
    /// database that would lose data, or one that does not belong to the
    /// program's migrations, with the way out; a migration's own.
    pub fn open(self) -> Result<Store> {
        self.open_at(None)
    }

    fn open_at(self, to: Option<u32>) -> Result<Store> {
        let (version, cache, destructive) =
            (self.version, self.cache_bytes_max, self.destructive.clone());
        let (history_age_max, observed) = (self.history_age_max, (self.metering, self.traced));
        let Assembled { engine, registry, tables, answers, migrations } = self.assemble()?;
        let history = registry.table(HISTORY_TABLE).ok().cloned();
        let ledger = history.filter(|_| registry.is_audited()).map(|table| {
            let age_max_us =
                history_age_max.map(|age| i64::try_from(age.as_micros()).unwrap_or(i64::MAX));
            Ledger::new(table, age_max_us)
        });
        // Looked at first: what is refused is left as it was.
        let done = migrations.read(&*engine)?;
        migrations.check(&done, to)?;
        engine
            .migrate(&tables, version, &destructive)
            .map_err(|refused| migrations.explain(refused, &done))?;
        let shared = Arc::new(Shared::new(engine, registry, cache, answers, ledger, observed));
        let store = Store(Arc::new(Scope::of_store(shared)));
        migrations.carry_out(&store, &done, to)?;
        // Whatever those have read is forgotten.
        store.shared.hear()?;
        Ok(store)
    }
}

/// What a builder makes of its models and databases.
pub(crate) struct Assembled {
    pub(crate) engine: Box<dyn Engine>,
    registry: Registry,
    /// All tables that the engine keeps: the models', and the store's own.
    pub(crate) tables: Vec<Arc<Table>>,
    answers: Option<(Arc<Table>, Idempotency)>,
    migrations: Sequence,
}

/// The table that answers are kept in.
fn answers_table(registry: &Registry) -> Result<Arc<Table>> {
    if registry.table(operation::ANSWERS).is_ok() {
        let message = format!("the table `{}` is the store's; rename yours", operation::ANSWERS);
        return Err(Error::new(ErrorKind::Conflict, message));
    }
    Ok(Arc::new(Table::new(operation::answers_schema())?))
}

/// The place of the database whose models are audited: their history lies
/// there too, since each entry is committed with the write that it tells of.
fn home_of_history(registry: &Registry, homes: &HashMap<String, usize>) -> Result<usize> {
    let mut audited = registry.tables().iter().filter(|table| table.schema().audit);
    let home = |table: &Arc<Table>| homes.get(table.name()).copied().unwrap_or(0);
    let first = audited.next().map_or(0, home);
    match audited.find(|table| home(table) != first) {
        None => Ok(first),
        Some(other) => {
            let message = format!(
                "the model `{}` is audited in another database than the models before it, and a \
                 store has one history: keep audited models in one database, or open a store on \
                 each",
                other.name()
            );
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}
