//! Migrates a database to the tables of models. Many databases commit each statement that defines a
//! table, so a migration that fails in the middle leaves the steps before it; the next one compares again,
//! and continues there.
//!
//! `layout.rs` reads the structure of the database, `definition.rs` has the structure that a model
//! needs, and `comparison.rs` makes the steps between the two. `feed.rs` has the triggers of the change
//! feed.

mod comparison;
mod definition;
pub(crate) mod feed;
mod layout;

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, Table, ValueForm, ValueRef};
use marmota_store::plan::{Destructive, Plan, PlanStep, TableChange};

use crate::connection::{ReadAs, SqlConnection};
use crate::dialect::Dialect;
use crate::failure::{FailureCause, SqlFailure};
use crate::statement::column::text_literal;

/// A connection that inspects a database.
pub(crate) struct Preparing<'c> {
    connection: &'c mut dyn SqlConnection,
}

/// Returns the plan for the tables without changing anything.
pub(crate) fn plan(
    connection: &mut dyn SqlConnection,
    tables: &[Arc<Table>],
    version: u32,
    place: &str,
) -> Result<Plan> {
    Preparing { connection }.plan(tables, version, place)
}

/// Executes the plan for the tables.
pub(crate) fn migrate(
    connection: &mut dyn SqlConnection,
    tables: &[Arc<Table>],
    version: u32,
    destructive: &Destructive,
    place: &str,
) -> Result<Plan> {
    with_lock(connection, place, |run| run.migrate(tables, version, destructive, place))
}

/// Runs `work` under the lock of migrations, if the database has one.
fn with_lock<T>(
    connection: &mut dyn SqlConnection,
    place: &str,
    work: impl FnOnce(&mut Preparing<'_>) -> Result<T>,
) -> Result<T> {
    let mut run = Preparing { connection };
    let Some([acquire, release]) = run.dialect().definitions.lock else { return work(&mut run) };
    if run.number(acquire)? != 1 {
        let message = format!("another program has migrated {place} for 120 s; try again later");
        return Err(Error::new(ErrorKind::Busy, message));
    }
    let done = work(&mut run);
    // The lock ends with the connection at the latest.
    let _ = run.query(release, 1, |_| {});
    done
}

/// Returns true if a table with this name exists.
pub(crate) fn has(connection: &mut dyn SqlConnection, name: &str) -> Result<bool> {
    Preparing { connection }.has(name)
}

/// Returns the names of all tables except the engine's own.
pub(crate) fn existing(connection: &mut dyn SqlConnection) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let dialect = connection.dialect();
    let (sql, feed) = (dialect.catalog.tables, dialect.feed);
    Preparing { connection }.query(sql, 1, |row| names.push(row[0].clone()))?;
    let of_feed = feed.map_or(&[][..], |feed| feed.table_names);
    names.retain(|name| name != "marmota_schema" && !of_feed.contains(&&**name));
    Ok(names)
}

impl Preparing<'_> {
    fn execute(&mut self, sql: &str) -> Result<()> {
        self.connection.execute(sql).map_err(|failure| failure.error())
    }

    fn dialect(&self) -> &'static Dialect {
        self.connection.dialect()
    }

    /// Reads this number of columns as texts; NULL is empty.
    fn query(&mut self, sql: &str, columns: usize, mut take: impl FnMut(&[String])) -> Result<()> {
        let mut each = |row: &[Option<ValueRef<'_>>]| {
            let text = |value: &_| match value {
                Some(ValueRef::Text(text)) => (*text).to_owned(),
                _ => String::new(),
            };
            let row: Vec<String> = row.iter().map(text).collect();
            take(&row);
            true
        };
        let forms = vec![ValueForm::Text; columns];
        let done = self.connection.run(sql, &[], ReadAs::Forms(&forms), &mut each);
        done.map(drop).map_err(|failure| failure.error())
    }

    /// Returns the number that SQL selects.
    fn number(&mut self, sql: &str) -> Result<i64> {
        let mut found = 0;
        self.query(sql, 1, |row| found = row[0].parse().unwrap_or(0))?;
        Ok(found)
    }

    fn has(&mut self, name: &str) -> Result<bool> {
        let sql = self.dialect().catalog.is_table.replace("{}", &text_literal(name));
        let mut is_there = false;
        self.query(&sql, 1, |_| is_there = true)?;
        Ok(is_there)
    }

    fn plan(&mut self, tables: &[Arc<Table>], version: u32, place: &str) -> Result<Plan> {
        let there = self.version()?;
        if there > i64::from(version) {
            let message = format!(
                "{place} was written with a newer schema version ({there}; this program has \
                 {version}): start the newer program or restore a backup"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut plan = Plan::default();
        for at in 0..tables.len() {
            comparison::compare(self, tables, at, &mut plan.steps)?;
        }
        Ok(plan)
    }

    fn migrate(
        &mut self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
        place: &str,
    ) -> Result<Plan> {
        let plan = self.plan(tables, version, place)?;
        plan.check(destructive)?;
        for step in plan.to_do(destructive) {
            for sql in &step.statements {
                self.connection.execute(sql).map_err(|failure| refusal(step, &failure))?;
            }
        }
        if self.version()? < i64::from(version) {
            if !self.has("marmota_schema")? {
                let big = self.dialect().types.big;
                self.execute(&format!(
                    "CREATE TABLE \"marmota_schema\" (\"version\" {big} NOT NULL PRIMARY KEY)"
                ))?;
            }
            self.execute(&format!("INSERT INTO \"marmota_schema\" VALUES ({version})"))?;
        }
        Ok(plan)
    }

    /// Returns the version that the database was migrated to.
    fn version(&mut self) -> Result<i64> {
        match self.has("marmota_schema")? {
            false => Ok(0),
            true => self.number(r#"SELECT coalesce(max("version"),0) FROM "marmota_schema""#),
        }
    }
}

#[cold]
fn refusal(step: &PlanStep, failure: &SqlFailure) -> Error {
    let error = failure.error();
    let (kind, why) = match (&step.change, failure.cause) {
        (TableChange::AddIndex { columns, .. }, _) if failure.is_taken() => (
            ErrorKind::Invalid,
            format!(
                "{} must be unique, but several rows have the same value; change or delete all but \
                 one of them",
                columns.join(", ")
            ),
        ),
        (_, FailureCause::Reference) => (
            ErrorKind::Invalid,
            format!("cannot {step}: rows refer to rows that do not exist; correct those rows"),
        ),
        _ => (error.kind(), format!("cannot {step}: {}", error.message())),
    };
    Error::new(kind, format!("table `{}`: {why}", step.table)).with_source(error)
}
