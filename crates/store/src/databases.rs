//! An engine made of several engines, for a store with several databases. Each of them keeps some
//! of the tables.
//!
//! An operation is executed on the database of its table. A write to two databases is refused
//! before anything is written, since no commit covers both. A transaction begins on all databases,
//! always in the same order, so that no two transactions can wait for each other. References to
//! rows of another database are refused, because no engine would enforce them.
//!
//! ```text
//!             Databases (an Engine)
//!             ├─ homes: the index of each table's database
//!             ├─ 0 main     sqlite:app.db       <- the hub: the first with SQL
//!             ├─ 1 live     memory:
//!             └─ 2 archive  sqlite:archive.db
//! ```
//!
//! The hub executes raw SQL. It sees rows in memory, which are lent for each statement, and the
//! files of other SQLite databases, which it attaches; other databases with SQL see rows in memory
//! only.

mod session;

use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use marmota_model::{Error, ErrorKind, Kind, Result, Table};

use crate::contract::engine::{AttachedDatabase, Capability, Engine, Session};
use crate::contract::invalidation_feed::InvalidationFeed;
use crate::contract::operation::ANSWERS;
use crate::contract::plan::{Destructive, Plan};
use crate::contract::statistics::EngineStatistics;
use session::DatabasesSession;

/// The name of a store's first database.
pub(crate) const MAIN: &str = "main";
/// The maximum number of databases of a store: SQLite attaches ten to the first.
pub(crate) const DATABASES_MAX: usize = 9;

/// One of a store's databases.
struct Database {
    /// Its name in the store.
    name: String,
    /// Its engine, which does not know the others.
    engine: Box<dyn Engine>,
}

/// The engines, and the database of each table.
pub(crate) struct Databases {
    /// The combined capability before the databases are migrated.
    opening: Capability,
    /// The combined capability afterwards.
    capability: OnceLock<Capability>,
    /// The database of each table.
    homes: Arc<Homes>,
    /// The databases, which sessions share.
    shared: Arc<[Database]>,
}

/// The database of each table, as an index.
#[derive(Default)]
struct Homes {
    /// By the table's name; complete when the store is opened.
    by_name: HashMap<String, usize>,
    /// By the table's address, once the tables are prepared: it saves hashing a name in each
    /// operation.
    by_address: OnceLock<HashMap<usize, usize>>,
}

impl Homes {
    /// Returns the index of a table's database.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a table of another store.
    #[inline]
    fn of(&self, table: &Table) -> Result<usize> {
        let address = std::ptr::from_ref(table) as usize;
        let known = self.by_address.get().and_then(|homes| homes.get(&address));
        let known = known.or_else(|| self.by_name.get(table.name())).copied();
        // Each database has a table of answers. That of a batch is part of the batch, unless the
        // store executes it step by step.
        known.or_else(|| (table.name() == ANSWERS).then_some(0)).ok_or_else(|| {
            let message =
                format!("the table `{}` is not in a database of this store", table.name());
            Error::new(ErrorKind::Invalid, message)
        })
    }
}

impl Databases {
    /// Creates a store's engine from these engines, the first of which is called `main`; `homes`
    /// has the index of each table's database.
    ///
    /// `engines` are in the order of the builder, which determines which is the hub and in which
    /// order a transaction begins on them.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a name that is invalid or taken, and for too many databases.
    pub(crate) fn new(
        engines: Vec<(String, Box<dyn Engine>)>,
        homes: HashMap<String, usize>,
    ) -> Result<Self> {
        if engines.len() > DATABASES_MAX {
            let message = format!(
                "a store has at most {DATABASES_MAX} databases, not {}: open another store",
                engines.len()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        for (at, (name, _)) in engines.iter().enumerate() {
            check_name(name, at)?;
            if engines[..at].iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                let message = format!("two databases are called `{name}`; rename one");
                return Err(Error::new(ErrorKind::Conflict, message));
            }
        }
        let databases = engines.into_iter().map(|(name, engine)| Database { name, engine });
        let shared: Arc<[Database]> = databases.collect();
        let homes = Arc::new(Homes { by_name: homes, by_address: OnceLock::new() });
        let opening = combine(&shared, &homes);
        Ok(Self { opening, capability: OnceLock::new(), homes, shared })
    }

    /// Refuses references to tables of another database.
    fn check_references(&self, tables: &[Arc<Table>]) -> Result<()> {
        for table in tables {
            for field in table.fields() {
                let Kind::Reference { table: to, .. } = &field.kind else { continue };
                let home = self.homes.of(table)?;
                let Some(&other) = self.homes.by_name.get(&**to) else { continue };
                if home != other {
                    let message = format!(
                        "field `{}` of `{}` refers to `{to}`, which is in another database (`{}`, \
                         not `{}`), where the reference cannot be enforced; keep both tables in \
                         one database, or make the field a plain key (`i64`, `Uuid`, `String`)",
                        field.name,
                        table.name(),
                        self.shared[other].name,
                        self.shared[home].name
                    );
                    return Err(Error::new(ErrorKind::Invalid, message));
                }
            }
        }
        Ok(())
    }

    /// Returns the tables of the database at a place.
    fn tables_of(&self, place: usize, tables: &[Arc<Table>]) -> Vec<Arc<Table>> {
        let own = |table: &&Arc<Table>| {
            // Idempotent answers are stored in the database of their writes, so each has that
            // table.
            table.name() == ANSWERS || self.homes.of(table).ok() == Some(place)
        };
        tables.iter().filter(own).cloned().collect()
    }

    /// Returns the plan of one database; its errors name the database.
    fn plan_of(
        &self,
        place: usize,
        database: &Database,
        tables: &[Arc<Table>],
        version: u32,
    ) -> Result<Plan> {
        let plan = database.engine.plan(&self.tables_of(place, tables), version);
        plan.map_err(|error| in_database(&database.name, &error))
    }

    /// Returns the allowed destructive steps of one database. Steps of unknown tables go to the
    /// first database, which refuses them.
    fn destructive_of(&self, place: usize, destructive: &Destructive) -> Destructive {
        let home = |name: &String| {
            let table = name.split('.').next().unwrap_or_default();
            self.homes.by_name.get(table).copied().unwrap_or(0)
        };
        let columns = destructive.columns.iter().filter(|name| home(name) == place).cloned();
        Destructive { needed: destructive.needed, columns: columns.collect() }
    }

    /// Attaches the other databases to the one whose SQL is used.
    ///
    /// Called at the end of [`Engine::migrate`], when all tables exist.
    fn introduce(&self, tables: &[Arc<Table>]) -> Result<()> {
        let Some(hub) = hub(&self.shared) else { return Ok(()) };
        for (place, database) in self.shared.iter().enumerate() {
            for (other, neighbour) in self.shared.iter().enumerate() {
                // Every database with SQL sees rows in memory; only the hub sees files.
                let shown = neighbour.engine.attach_source();
                if other == place || place != hub && !shown.is_rows() {
                    continue;
                }
                if !database.engine.capability().sql {
                    continue;
                }
                let mut tables = self.tables_of(other, tables);
                tables.retain(|table| table.name() != ANSWERS);
                let name = neighbour.name.clone();
                database.engine.attach(AttachedDatabase { place: other, name, tables, shown })?;
            }
        }
        Ok(())
    }
}

/// Combines the guarantees of all databases. A database without tables only affects transactions,
/// which begin on all of them, and raw SQL.
fn combine(databases: &[Database], homes: &Homes) -> Capability {
    let mut all = Capability::new("databases", true).with_row_locks();
    for (place, database) in databases.iter().enumerate() {
        let part = database.engine.capability();
        all = match homes.by_name.values().any(|home| *home == place) {
            true => all.and(part),
            false => all.and_without_tables(part),
        };
    }
    all
}

/// Returns the index of the database whose SQL a store uses.
fn hub(databases: &[Database]) -> Option<usize> {
    databases.iter().position(|database| database.engine.capability().sql)
}

/// Returns true if a text is a valid name of a database, which becomes a part of a file name.
pub(crate) fn is_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Refuses an invalid name; only the first database is called `main`.
fn check_name(name: &str, at: usize) -> Result<()> {
    if is_name(name) && (at == 0 || !matches!(name, MAIN | "temp")) {
        return Ok(());
    }
    let name = marmota_model::text::excerpt(name);
    let message = format!(
        "{name:?} is not a valid name of a database: use at most 64 lower-case letters, digits and \
         _, with a letter first; `main` and `temp` are reserved"
    );
    Err(Error::new(ErrorKind::Invalid, message))
}

impl Engine for Databases {
    fn capability(&self) -> &Capability {
        self.capability.get().unwrap_or(&self.opening)
    }

    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        self.check_references(tables)?;
        let mut plan = Plan::default();
        for (place, database) in self.shared.iter().enumerate() {
            plan.steps.append(&mut self.plan_of(place, database, tables, version)?.steps);
        }
        Ok(plan)
    }

    fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan> {
        self.check_references(tables)?;
        // All plans are checked before the first database is changed, since no commit covers all of
        // them.
        for (place, database) in self.shared.iter().enumerate() {
            let plan = self.plan_of(place, database, tables, version)?;
            plan.check(&self.destructive_of(place, destructive))
                .map_err(|e| in_database(&database.name, &e))?;
        }
        let mut plan = Plan::default();
        for (place, database) in self.shared.iter().enumerate() {
            let (own, destructive) =
                (self.tables_of(place, tables), self.destructive_of(place, destructive));
            let done = database.engine.migrate(&own, version, &destructive);
            plan.steps
                .append(&mut done.map_err(|error| in_database(&database.name, &error))?.steps);
        }
        // The capabilities of engines that connect to a server are known by now.
        let _ = self.capability.set(combine(&self.shared, &self.homes));
        let address = |table: &Arc<Table>| Arc::as_ptr(table) as usize;
        let placed = tables.iter().filter(|table| table.name() != ANSWERS);
        let homes = placed.map(|table| Ok((address(table), self.homes.of(table)?)));
        // If it is prepared again, the known addresses stay; other tables are found by name.
        let _ = self.homes.by_address.set(homes.collect::<Result<_>>()?);
        self.introduce(tables)?;
        Ok(plan)
    }

    fn open_table(&self, table: &Arc<Table>) -> Result<bool> {
        let database = &self.shared[self.homes.of(table)?];
        database.engine.open_table(table).map_err(|error| in_database(&database.name, &error))
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        Ok(Box::new(DatabasesSession::new(Arc::clone(&self.shared), Arc::clone(&self.homes))))
    }

    fn databases(&self) -> Vec<(&str, &dyn Engine)> {
        self.shared.iter().map(|database| (&*database.name, &*database.engine)).collect()
    }

    fn existing_tables(&self) -> Result<Option<Vec<String>>> {
        let mut all = Vec::new();
        for database in &*self.shared {
            let existing = database.engine.existing_tables();
            let existing = existing.map_err(|error| in_database(&database.name, &error))?;
            all.extend(existing.unwrap_or_default());
        }
        Ok(Some(all))
    }

    fn subscribe_changes(&self, tables: &[Arc<Table>], feed: &Arc<InvalidationFeed>) -> Result<()> {
        for (place, database) in self.shared.iter().enumerate() {
            let heard = database.engine.subscribe_changes(&self.tables_of(place, tables), feed);
            heard.map_err(|error| in_database(&database.name, &error))?;
        }
        Ok(())
    }

    fn statistics(&self) -> EngineStatistics {
        let all = self.shared.iter().map(|database| database.engine.statistics());
        all.fold(EngineStatistics::default(), EngineStatistics::and)
    }

    fn close(&self) -> Result<()> {
        // The database that sees the others is closed first, since it has their files open.
        let hub = hub(&self.shared);
        let order = hub.into_iter().chain((0..self.shared.len()).filter(|&at| Some(at) != hub));
        let mut first = Ok(());
        for database in order.map(|at| &self.shared[at]) {
            let closed =
                database.engine.close().map_err(|error| in_database(&database.name, &error));
            if first.is_ok() {
                first = closed;
            }
        }
        first
    }
}

/// Returns the same error with the name of its database.
#[cold]
pub(crate) fn in_database(name: &str, error: &Error) -> Error {
    let message = format!("database `{name}`: {}", error.message());
    let placed = Error::new(error.kind(), message);
    error.violations().iter().cloned().fold(placed, Error::with_violation)
}
