//! Migrations: changes of rows that a comparison of models cannot find. Each is executed once for a
//! database, in order, in one transaction with its record.
//!
//! The plan ([`crate::plan`]) changes tables and columns, and is executed before them. A migration
//! changes rows, with the verbs of the program's models or with SQL.
//!
//! The table of records has the columns `number`, `name` and `done` (the time). A database with
//! records that the program does not have belongs to a newer program, and is refused
//! (`sequence.rs`).

pub(crate) mod composite_key;
pub(crate) mod computed;
pub(crate) mod sequence;

use std::borrow::Cow;
use std::fmt;

use marmota_model::{Error, Result, Timestamp};

use crate::verbs::transaction::Transaction;

/// The table with the records of executed migrations.
pub const MIGRATIONS: &str = "marmota_migration";

/// The function of a migration. It may be called again if its transaction has to be repeated.
type Run = Box<dyn Fn(&mut Transaction) -> Result<()> + Send + Sync>;

/// A change of rows, with its number and name; see
/// [`StoreBuilder::migration`](crate::StoreBuilder::migration).
///
/// ```
/// use marmota_store::migration::Migration;
/// let split = Migration::new(3, "split names")
///     .up(|transaction| {
///         // Verbs, as in any transaction.
///         Ok(())
///     })
///     .down_sql(["UPDATE person SET name = first_name || ' ' || last_name"]);
/// assert_eq!(split.to_string(), "migration 3 `split names`");
/// ```
pub struct Migration {
    number: u32,
    name: Cow<'static, str>,
    up: Option<Run>,
    down: Option<Run>,
    skips_empty: bool,
}

/// A migration, and its state in a database.
///
/// [`StoreBuilder::migration_status`](crate::StoreBuilder::migration_status) returns one for each.
///
/// ```
/// use marmota_memory::Memory;
/// use marmota_store::Store;
/// use marmota_store::migration::Migration;
///
/// let builder = Store::builder(Memory::new()).migration(Migration::new(1, "seed").up(|_| Ok(())));
/// let status = builder.migration_status()?;
/// assert_eq!((status[0].number, status[0].done, status[0].has_down), (1, None, false));
/// assert_eq!(status[0].to_string(), "migration 1 `seed`");
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationStatus {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// The time when it was executed; `None` if it was not.
    pub done: Option<Timestamp>,
    /// True if it can be undone.
    pub has_down: bool,
    /// False if the database has a record of it, but this program does not have the migration.
    pub is_known: bool,
}

impl Migration {
    /// Creates the migration with this number. A program's numbers are 1, 2, 3 and so on; a
    /// migration that was executed may not change.
    ///
    /// The builder refuses a gap in the numbers, an empty name, and a migration without
    /// [`Migration::up`] or [`Migration::up_sql`].
    #[must_use]
    pub fn new(number: u32, name: impl Into<Cow<'static, str>>) -> Self {
        Self { number, name: name.into(), up: None, down: None, skips_empty: false }
    }

    /// Sets the function that executes it. The transaction is committed afterwards.
    ///
    /// It gets the tables in the form of the program's models, and reads and writes them with all
    /// verbs. An error rolls back the transaction, with the record of the migration.
    ///
    /// ```
    /// use marmota_memory::Memory;
    /// use marmota_model::{Field, Kind, Record, Role, Schema};
    /// use marmota_store::Store;
    /// use marmota_store::migration::Migration;
    ///
    /// let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    /// let seed = Migration::new(1, "the first city").up(|transaction| {
    ///     let record = Record::new(transaction.table("city")?);
    ///     transaction.insert_record(&record).run().map(drop)
    /// });
    /// let store = Store::builder(Memory::new()).schema(city).migration(seed).open()?;
    /// assert_eq!(store.list_records(&store.table("city")?).run()?.len(), 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn up(
        mut self,
        run: impl Fn(&mut Transaction) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.up = Some(Box::new(run));
        self
    }

    /// Sets SQL statements that execute it, such as [`Store::execute`](crate::Store::execute)
    /// takes, for an engine with SQL.
    ///
    /// They are executed one after the other, without history entries. It replaces an earlier
    /// [`Migration::up`].
    #[must_use]
    pub fn up_sql(self, statements: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.up(each(statements))
    }

    /// Sets the function that undoes it, for a return to an older program that cannot use what this
    /// migration wrote.
    ///
    /// [`StoreBuilder::migrate_to`](crate::StoreBuilder::migrate_to) calls it, in one transaction
    /// with the deletion of the record. Without it the migration cannot be undone.
    #[must_use]
    pub fn down(
        mut self,
        run: impl Fn(&mut Transaction) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.down = Some(Box::new(run));
        self
    }

    /// Sets SQL statements that undo it.
    #[must_use]
    pub fn down_sql(self, statements: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.down(each(statements))
    }

    /// Skips the migration in a database whose models have no rows at all: it counts as executed,
    /// but does nothing. This is for SQL that names columns which only older databases have.
    ///
    /// In a new database all migrations are then executed in one transaction.
    #[must_use]
    pub const fn skip_empty(mut self) -> Self {
        self.skips_empty = true;
        self
    }
}

/// Returns a function that runs statements, one after the other.
fn each(
    statements: impl IntoIterator<Item = impl Into<String>>,
) -> impl Fn(&mut Transaction) -> Result<()> + Send + Sync + 'static {
    let statements: Vec<String> = statements.into_iter().map(Into::into).collect();
    move |transaction| {
        let mut statements = statements.iter();
        statements.try_for_each(|sql| {
            // A change of the form of rows is not audited as a write to a row.
            transaction.execute(sql.as_str()).unaudited().run().map(drop)
        })
    }
}

impl fmt::Display for Migration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Named(self.number, &self.name))
    }
}

impl fmt::Debug for Migration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for MigrationStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Named(self.number, &self.name))
    }
}

/// The name of a migration in messages.
struct Named<'n>(u32, &'n str);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "migration {} `{}`", self.0, marmota_model::text::excerpt(self.1))
    }
}

/// Returns the same error with the migration's name, and that its changes were undone.
#[cold]
fn failed(migration: &Migration, what: &str, error: Error) -> Error {
    let message = format!(
        "{migration} was not {what}, and its changes were rolled back: {}",
        error.message()
    );
    let named = Error::new(error.kind(), message);
    let named = error.violations().iter().cloned().fold(named, Error::with_violation);
    named.with_source(error)
}
