//! Migrations: changes to rows that no comparison of models finds, each done
//! once in a database, in order, in a transaction with its record.
//!
//! Tables and columns are the plan's ([`crate::plan`]), which is carried out
//! before them: a migration moves what lies in them, by the verbs of the
//! program's own models, or by SQL.

mod sequence;

use std::borrow::Cow;
use std::fmt;

use marmota_model::{Error, Result, Timestamp};

pub(crate) use self::sequence::Sequence;
use crate::transaction::Transaction;

/// The table with the records of what was done.
pub const MIGRATIONS: &str = "marmota_migration";

type Run = Box<dyn Fn(&mut Transaction) -> Result<()> + Send + Sync>;

/// A change to rows, with its number and name; see
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

/// A migration, and whether a database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationStatus {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// When it was done; none if it was not.
    pub done: Option<Timestamp>,
    /// True if it can be undone.
    pub has_down: bool,
    /// False if the database has it, and this program does not.
    pub is_known: bool,
}

impl Migration {
    /// The migration of this number. A program's numbers are 1, 2, 3 and so
    /// on; what was done under one stays as it is.
    #[must_use]
    pub fn new(number: u32, name: impl Into<Cow<'static, str>>) -> Self {
        Self { number, name: name.into(), up: None, down: None, skips_empty: false }
    }

    /// What it does. The transaction is committed behind it.
    #[must_use]
    pub fn up(
        mut self,
        run: impl Fn(&mut Transaction) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.up = Some(Box::new(run));
        self
    }

    /// What it does, as statements of SQL for an engine that has it: such as
    /// [`Scope::execute`](crate::Scope::execute) takes.
    #[must_use]
    pub fn up_sql(self, statements: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.up(each(statements))
    }

    /// What undoes it: where the program goes back to an older one that cannot
    /// use what this one wrote.
    #[must_use]
    pub fn down(
        mut self,
        run: impl Fn(&mut Transaction) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.down = Some(Box::new(run));
        self
    }

    /// What undoes it, as statements of SQL.
    #[must_use]
    pub fn down_sql(self, statements: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.down(each(statements))
    }

    /// In a database whose models have no rows at all it counts as done, and
    /// does nothing: for SQL that names columns which only older ones have.
    #[must_use]
    pub const fn skip_empty(mut self) -> Self {
        self.skips_empty = true;
        self
    }
}

/// Runs statements, one after the other.
fn each(
    statements: impl IntoIterator<Item = impl Into<String>>,
) -> impl Fn(&mut Transaction) -> Result<()> + Send + Sync + 'static {
    let statements: Vec<String> = statements.into_iter().map(Into::into).collect();
    move |transaction| {
        let mut statements = statements.iter();
        statements.try_for_each(|sql| {
            // A change of what rows look like is nobody's write to a row.
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

/// What a migration is called in messages.
struct Named<'n>(u32, &'n str);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "migration {} `{}`", self.0, marmota_model::text::excerpt(self.1))
    }
}

/// The same error, saying which migration it was, and that nothing of it stays.
#[cold]
fn failed(migration: &Migration, what: &str, error: Error) -> Error {
    let message = format!(
        "{migration} was not {what}, and nothing that it wrote was kept: {}",
        error.message()
    );
    let named = Error::new(error.kind(), message);
    let named = error.violations().iter().cloned().fold(named, Error::with_violation);
    named.with_source(error)
}
