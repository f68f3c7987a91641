//! Migrates a database to the tables of models. MariaDB commits each statement that defines a table,
//! so a migration that fails in the middle leaves the steps before it; the next one compares again,
//! and continues there.
//!
//! `layout.rs` reads the structure of the database, `definition.rs` has the structure that a model
//! needs, and `comparison.rs` makes the steps between the two.

mod comparison;
mod definition;
mod layout;

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::plan::{Destructive, Plan, PlanStep, TableChange};

use crate::connection::{Cell, Connection, number, text};
use crate::fault::{self, Failure, code};
use crate::statement::column::text_literal;

/// The name of the lock that serializes programs that migrate at the same time.
const LOCK: &str = "marmota_migration";
/// How long a migration waits for another one, in seconds.
const LOCK_WAIT: u32 = 120;

/// A connection that inspects a database.
pub(crate) struct Preparing<'c> {
    connection: &'c mut Connection,
}

/// Returns the plan for the tables without changing anything.
pub(crate) fn plan(
    connection: &mut Connection,
    tables: &[Arc<Table>],
    version: u32,
    place: &str,
) -> Result<Plan> {
    Preparing { connection }.plan(tables, version, place)
}

/// Executes the plan for the tables.
pub(crate) fn migrate(
    connection: &mut Connection,
    tables: &[Arc<Table>],
    version: u32,
    destructive: &Destructive,
    place: &str,
) -> Result<Plan> {
    let mut run = Preparing { connection };
    // The lock is of the server, the name of one of its databases.
    let name = format!("concat('{LOCK}:',left(database(),40))");
    if run.number(&format!("SELECT get_lock({name},{LOCK_WAIT})"))? != 1 {
        let message =
            format!("another program has migrated {place} for {LOCK_WAIT} s; try again later");
        return Err(Error::new(ErrorKind::Busy, message));
    }
    let done = run.migrate(tables, version, destructive, place);
    // The lock ends with the connection at the latest.
    let _ = run.execute(&format!("DO release_lock({name})"));
    done
}

/// Returns true if a table with this name exists.
pub(crate) fn has(connection: &mut Connection, name: &str) -> Result<bool> {
    Preparing { connection }.has(name)
}

/// Returns the names of all tables except the engine's own.
pub(crate) fn existing(connection: &mut Connection) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let sql = "SELECT table_name FROM information_schema.tables WHERE table_schema=database() \
               AND table_type='BASE TABLE' AND table_name<>'marmota_schema' ORDER BY table_name";
    Preparing { connection }.query(sql, |row| names.push(text(&row[0])))?;
    Ok(names)
}

impl Preparing<'_> {
    fn execute(&mut self, sql: &str) -> Result<()> {
        self.connection.execute(sql).map_err(|failure| fault::of(&failure))
    }

    fn query(&mut self, sql: &str, mut take: impl FnMut(&[Cell])) -> Result<()> {
        let mut each = |row: Vec<Cell>| {
            take(&row);
            true
        };
        self.connection.query(sql, &mut each).map_err(|failure| fault::of(&failure))
    }

    /// Returns the number that SQL selects.
    fn number(&mut self, sql: &str) -> Result<i64> {
        let mut found = 0;
        self.query(sql, |row| found = row.first().map_or(0, number))?;
        Ok(found)
    }

    fn has(&mut self, name: &str) -> Result<bool> {
        let name = text_literal(name);
        let sql = format!(
            "SELECT count(*) FROM information_schema.tables \
             WHERE table_schema=database() AND table_name={name}"
        );
        Ok(self.number(&sql)? > 0)
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
            self.execute(
                "CREATE TABLE IF NOT EXISTS marmota_schema (version bigint NOT NULL PRIMARY KEY)",
            )?;
            self.execute(&format!("INSERT INTO marmota_schema VALUES ({version})"))?;
        }
        Ok(plan)
    }

    /// Returns the version that the database was migrated to.
    fn version(&mut self) -> Result<i64> {
        match self.has("marmota_schema")? {
            false => Ok(0),
            true => self.number("SELECT coalesce(max(version),0) FROM marmota_schema"),
        }
    }
}

#[cold]
fn refusal(step: &PlanStep, failure: &Failure) -> Error {
    let error = fault::of(failure);
    let (kind, why) = match (&step.change, failure.code) {
        (TableChange::AddIndex { columns, .. }, _) if failure.is_taken() => (
            ErrorKind::Invalid,
            format!(
                "{} must be unique, but several rows have the same value; change or delete all but \
                 one of them",
                columns.join(", ")
            ),
        ),
        (_, code::NO_TARGET) => (
            ErrorKind::Invalid,
            format!("cannot {step}: rows refer to rows that do not exist; correct those rows"),
        ),
        _ => (error.kind(), format!("cannot {step}: {}", error.message())),
    };
    Error::new(kind, format!("table `{}`: {why}", step.table)).with_source(error)
}
