//! Migrates a database to the tables of models: the plan is made and executed in one transaction,
//! all or nothing.
//!
//! `layout.rs` reads the structure of the database, `definition.rs` has the structure that a model
//! needs, and `comparison.rs` makes the steps between the two. `existing.rs` describes the tables of
//! another program.

pub(crate) mod column_limit;
mod comparison;
mod definition;
mod existing;
mod layout;
pub(crate) mod table_facts;

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, KeyKind, Result, Table};
use marmota_store::existing::ExistingTable;
use marmota_store::plan::{Destructive, Plan, PlanStep, StepEffect, TableChange};

use self::layout::Layout;
use crate::connection::Connection;
use crate::connection::query::{QueryError, Texts};
use crate::fault::{self, code};
use crate::options::PostgresOptions;
use crate::prepare::column_limit::Limit;
use crate::prepare::table_facts::Facts;
use crate::statement::column::pg_type;
use crate::statement::search;
use crate::statement::sql_words::quoted;

/// The advisory lock that serializes programs that migrate at the same time.
pub(crate) const LOCK: i64 = 0x6d61_726d_6f74_6100;

/// A connection in a transaction that inspects a database.
pub(crate) struct Preparing<'c> {
    connection: &'c mut Connection,
    options: &'c PostgresOptions,
}

/// Returns the plan for the tables without changing anything.
pub(crate) fn plan(
    connection: &mut Connection,
    tables: &[Arc<Table>],
    version: u32,
    options: &PostgresOptions,
) -> Result<Plan> {
    let mut run = Preparing { connection, options };
    run.execute("BEGIN READ ONLY")?;
    let plan = run.plan(tables, version);
    run.execute("ROLLBACK")?;
    plan
}

/// Executes the plan for the tables. Returns it, and the resulting properties of the tables.
pub(crate) fn migrate(
    connection: &mut Connection,
    tables: &[Arc<Table>],
    version: u32,
    destructive: &Destructive,
    options: &PostgresOptions,
) -> Result<(Plan, Vec<Facts>)> {
    let mut run = Preparing { connection, options };
    run.execute(&format!("BEGIN; SELECT pg_advisory_xact_lock({LOCK})"))?;
    let done = run.migrate(tables, version, destructive);
    let ended = run.execute(if done.is_ok() { "COMMIT" } else { "ROLLBACK" });
    // The first error explains more than an error of the rollback.
    let done = done?;
    ended.map(|()| done)
}

/// Returns the structure of all tables and views.
pub(crate) fn structure(
    connection: &mut Connection,
    options: &PostgresOptions,
) -> Result<Vec<ExistingTable>> {
    existing::structure(&mut Preparing { connection, options })
}

/// Returns the properties of a table in the database, for any version, or `None` if the table does
/// not exist.
pub(crate) fn facts_of(
    connection: &mut Connection,
    table: &Table,
    options: &PostgresOptions,
) -> Result<Option<Facts>> {
    let mut run = Preparing { connection, options };
    match Layout::of(&mut run, table, table.name())? {
        Some(_) => run.facts(table).map(Some),
        None => Ok(None),
    }
}

impl Preparing<'_> {
    fn execute(&mut self, sql: &str) -> Result<()> {
        self.query(sql, |_| {})
    }

    fn query(&mut self, sql: &str, take: impl FnMut(&Texts)) -> Result<()> {
        self.connection.query(sql, take).map_err(|error| error.into_error(self.options))
    }

    /// Returns the number that SQL selects.
    fn number(&mut self, sql: &str) -> Result<i64> {
        let mut number = 0;
        self.query(sql, |row| number = row.text(0).parse().unwrap_or(0))?;
        Ok(number)
    }

    fn plan(&mut self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        let there = self.version()?;
        if there > i64::from(version) {
            let message = format!(
                "{} was written with a newer schema version ({there}; this program has {version}): \
                 start the newer program or restore a backup",
                self.options.place()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut plan = Plan::default();
        for at in 0..tables.len() {
            comparison::compare(self, tables, at, &mut plan.steps)?;
            plan.steps.extend(self.search_step(&tables[at])?);
        }
        Ok(plan)
    }

    fn migrate(
        &mut self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<(Plan, Vec<Facts>)> {
        let plan = self.plan(tables, version)?;
        plan.check(destructive)?;
        for table in tables {
            self.drop_search(table)?;
            if search::column_name(table).is_some() {
                self.make_search_functions(table)?;
            }
        }
        for step in plan.to_do(destructive) {
            for sql in &step.statements {
                self.connection
                    .query(sql, |_| {})
                    .map_err(|error| refusal(step, error, self.options))?;
            }
        }
        for table in tables {
            self.add_search(table)?;
        }
        if self.version()? < i64::from(version) {
            self.execute(&format!(
                "CREATE TABLE IF NOT EXISTS marmota_schema (version bigint NOT NULL); \
                 DELETE FROM marmota_schema; INSERT INTO marmota_schema VALUES ({version})"
            ))?;
        }
        let facts = tables.iter().map(|table| self.facts(table)).collect::<Result<_>>()?;
        Ok((plan, facts))
    }

    /// Returns the step that makes the search column of a table, or `None` if it is up to date.
    fn search_step(&mut self, table: &Table) -> Result<Option<PlanStep>> {
        let wanted = search::column_name(table);
        let names = [Some(table.name()), table.schema().was.as_deref()];
        let mut there = Vec::new();
        for name in names.into_iter().flatten() {
            let layout = Layout::of(self, table, name)?;
            there.extend(layout.into_iter().flat_map(|layout| layout.searches));
        }
        if there.iter().eq(&wanted) {
            return Ok(None);
        }
        let old = there.iter().filter(|column| Some(*column) != wanted.as_ref());
        let on = quoted(table.name());
        let drop =
            |column: &String| format!("ALTER TABLE {on} DROP COLUMN IF EXISTS {}", quoted(column));
        let mut statements: Vec<String> = old.map(drop).collect();
        let new = wanted.filter(|wanted| !there.contains(wanted));
        statements.extend(new.map(|column| search::add_column(table, &column)));
        Ok(Some(PlanStep {
            table: table.name().to_owned(),
            change: TableChange::search_of(table),
            effect: StepEffect::Safe,
            statements,
        }))
    }

    /// Drops the search column of a table, unless it is up to date: it would prevent changes of
    /// other columns.
    fn drop_search(&mut self, table: &Table) -> Result<()> {
        let wanted = search::column_name(table);
        for name in [Some(table.name()), table.schema().was.as_deref()].into_iter().flatten() {
            let Some(layout) = Layout::of(self, table, name)? else { continue };
            for column in layout.searches.iter().filter(|column| Some(*column) != wanted.as_ref()) {
                let (table, column) = (quoted(name), quoted(column));
                self.execute(&format!("ALTER TABLE {table} DROP COLUMN {column}"))?;
            }
        }
        Ok(())
    }

    /// Creates the search column of a table.
    fn add_search(&mut self, table: &Table) -> Result<()> {
        let Some(wanted) = search::column_name(table) else { return Ok(()) };
        let layout = Layout::of(self, table, table.name())?;
        if layout.is_some_and(|layout| layout.searches.contains(&wanted)) {
            return Ok(());
        }
        self.execute(&search::add_column(table, &wanted))
    }

    /// Creates the functions of a table's search column.
    fn make_search_functions(&mut self, table: &Table) -> Result<()> {
        if self.number(&search::has_functions(None))? == 0 {
            self.execute(&search::make_functions())?;
        }
        let Some(language) = table.schema().search_language else { return Ok(()) };
        if self.number(&search::has_functions(Some(language)))? == 0 {
            self.execute(&search::make_functions_of(language))?;
        }
        Ok(())
    }

    /// Returns the version that the database was migrated to.
    fn version(&mut self) -> Result<i64> {
        let there = "SELECT (to_regclass('marmota_schema') IS NOT NULL)::int";
        match self.number(there)? {
            0 => Ok(0),
            _ => self.number("SELECT coalesce(max(version),0) FROM marmota_schema"),
        }
    }

    /// Returns the properties of a table in the database in addition to its model.
    fn facts(&mut self, table: &Table) -> Result<Facts> {
        let Some(layout) = Layout::of(self, table, table.name())? else {
            return Ok(Facts::default());
        };
        let mut facts =
            Facts { oid: layout.oid, sequence: layout.sequence.clone(), ..Facts::default() };
        let columns: Vec<_> =
            (0..table.fields().len()).map(|at| layout.column_at(table, at)).collect();
        facts.collated = comparison::collated(&columns);
        for (position, (field, column)) in table.fields().iter().zip(&columns).enumerate() {
            let Some(column) = column else { continue };
            facts.columns.push((column.number, position));
            let limit = Limit::of(&column.declared);
            let narrower = limit.filter(|limit| limit.is_narrower_than(&field.kind));
            facts.limits.extend(narrower.map(|limit| (position, limit)));
            facts.converts |= column.is_converted(pg_type(&field.kind));
            facts.decimals.extend(column.decimals().map(|decimals| (position, decimals)));
        }
        facts.lacks_keys = table.key_kind() == KeyKind::Auto && !layout.makes_keys;
        let indexes = table.indexes();
        for index in layout.indexes.iter().filter(|index| index.unique) {
            let own = indexes.iter().find(|own| definition::index_name(table, own) == index.name);
            let fields = match own {
                Some(own) => own.fields.to_vec(),
                None => index.columns.iter().filter_map(|column| table.find(column)).collect(),
            };
            facts.uniques.push((index.name.clone(), fields));
        }
        for position in 0..table.fields().len() {
            if let Some(reference) = layout.reference(table, position) {
                facts.references.push((reference.name.clone(), position));
            }
        }
        Ok(facts)
    }
}

#[cold]
fn refusal(step: &PlanStep, error: QueryError, options: &PostgresOptions) -> Error {
    let (code, error) = match &error {
        QueryError::Refused(failure) => (failure.code().to_owned(), fault::of(failure)),
        QueryError::Lost(_) => (String::new(), error.into_error(options)),
    };
    let why = match (&step.change, &*code) {
        (TableChange::AddIndex { columns, .. }, code::UNIQUE) => format!(
            "{} must be unique, but several rows have the same value; change or delete all but one \
             of them",
            columns.join(", ")
        ),
        (_, code::NO_RIGHT) => format!(
            "cannot {step}: the database user must own the table and have the right CREATE on its \
             schema; run `migrate` as the owner"
        ),
        (_, code::REFERENCE) => {
            format!("cannot {step}: rows refer to rows that do not exist; correct those rows")
        }
        _ => format!("cannot {step}: {}", error.message()),
    };
    let kind = match &*code {
        code::UNIQUE | code::REFERENCE => ErrorKind::Invalid,
        _ => error.kind(),
    };
    Error::new(kind, format!("table `{}`: {why}", step.table)).with_source(error)
}
