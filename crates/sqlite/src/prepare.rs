//! Migrates a database to the tables of models: the plan is made and executed in one transaction,
//! all or nothing.
//!
//! `layout.rs` reads the structure of a file, `definition.rs` has the structure that a model needs,
//! `comparison.rs` makes the steps between the two, and `rebuild.rs` those without a statement in
//! SQLite. `existing.rs` describes the tables of another program, `page_size.rs` sets the size of a
//! new file's pages.

mod comparison;
mod definition;
mod existing;
mod layout;
mod page_size;
mod rebuild;

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::plan::{Destructive, Plan, PlanStep, TableChange};

pub(crate) use self::existing::structure;
use self::layout::Layout;
pub(crate) use self::page_size::fit_pages;
use crate::executor::Executor;
use crate::fault;
use crate::ffi::{Connection, Failure, code};
use crate::schema_objects::SchemaObjects;
use crate::statement::search_index;

/// Returns the plan for the tables without changing anything.
pub(crate) fn plan(
    executor: &mut Executor,
    tables: &[Arc<Table>],
    version: u32,
    place: &str,
) -> Result<Plan> {
    executor.begin_unchecked()?;
    let mut objects = SchemaObjects::default();
    let connection = (&mut executor.connection, &mut objects);
    let plan = make_plan(connection, tables, version, place, true);
    executor.roll_back();
    plan
}

/// Returns true if a table with this name exists.
pub(crate) fn has(executor: &mut Executor, table: &Table) -> Result<bool> {
    let mut objects = SchemaObjects::default();
    let layout = Layout::of(&mut executor.connection, &mut objects, table.name());
    layout.map(|layout| layout.is_some()).map_err(|failure| fault::of(&failure))
}

/// Executes the plan for the tables. `place` names the database in errors.
pub(crate) fn migrate(
    executor: &mut Executor,
    tables: &[Arc<Table>],
    version: u32,
    destructive: &Destructive,
    place: &str,
) -> Result<Plan> {
    match in_transaction(executor, tables, version, destructive, place, false)? {
        Some(plan) => Ok(plan),
        // Reference checks can be disabled only outside of a transaction, which is needed while a
        // table is replaced.
        None => {
            set_checks(executor, false)?;
            let done = in_transaction(executor, tables, version, destructive, place, true);
            set_checks(executor, true)?;
            done.map(Option::unwrap_or_default)
        }
    }
}

/// Executes the plan. Returns `None` without changes if it replaces tables and `may_rebuild` is
/// false.
fn in_transaction(
    executor: &mut Executor,
    tables: &[Arc<Table>],
    version: u32,
    destructive: &Destructive,
    place: &str,
    may_rebuild: bool,
) -> Result<Option<Plan>> {
    executor.begin()?;
    let mut objects = SchemaObjects::default();
    let connection = (&mut executor.connection, &mut objects);
    let done = make_plan(connection, tables, version, place, false).and_then(|plan| {
        plan.check(destructive)?;
        let rebuilds = plan.to_do(destructive).any(|step| rebuild::is_one(&step.statements));
        if rebuilds && !may_rebuild {
            return Ok(None);
        }
        for step in plan.to_do(destructive) {
            carry_out(&mut executor.connection, step)?;
            objects.forget();
        }
        for table in tables {
            search_index::prepare(&mut executor.connection, &mut objects, table)
                .map_err(|failure| fault::of(&failure))?;
        }
        if rebuilds {
            check_references(&mut executor.connection)?;
        }
        raise_version(&mut executor.connection, version)?;
        Ok(Some(plan))
    });
    match &done {
        Ok(Some(_)) => executor.commit()?,
        _ => executor.roll_back(),
    }
    done
}

fn set_checks(executor: &mut Executor, on: bool) -> Result<()> {
    let (checks, legacy) = if on { ("ON", "OFF") } else { ("OFF", "ON") };
    executor
        .connection
        .execute(&format!("PRAGMA foreign_keys={checks}; PRAGMA legacy_alter_table={legacy}"))
        .map_err(|failure| fault::of(&failure))
}

fn make_plan(
    (connection, objects): (&mut Connection, &mut SchemaObjects),
    tables: &[Arc<Table>],
    version: u32,
    place: &str,
    counts: bool,
) -> Result<Plan> {
    check_version(connection, version, place)?;
    let mut steps = Vec::new();
    for table in tables {
        // Triggers that name other columns would make the steps fail.
        let search = search_index::step(connection, objects, table)
            .map_err(|failure| fault::of(&failure))?;
        let names = |name: &str| tables.iter().any(|other| other.name().eq_ignore_ascii_case(name));
        comparison::compare((connection, objects), table, &names, counts, &mut steps).map_err(
            |failure| {
                let error = fault::of(&failure);
                let message = format!("table `{}`: {}", table.name(), error.message());
                Error::new(error.kind(), message).with_source(error)
            },
        )?;
        steps.extend(search);
    }
    Ok(Plan { steps })
}

fn carry_out(connection: &mut Connection, step: &PlanStep) -> Result<()> {
    for sql in &step.statements {
        connection.execute(sql).map_err(|failure| refusal(step, &failure))?;
    }
    Ok(())
}

#[cold]
fn refusal(step: &PlanStep, failure: &Failure) -> Error {
    let error = fault::of(failure);
    if let (TableChange::AddIndex { columns, .. }, code::CONSTRAINT_UNIQUE) =
        (&step.change, failure.code())
    {
        let message = format!(
            "table `{}`: {} must be unique, but several rows have the same value; change or delete \
             all but one of them",
            step.table,
            columns.join(", ")
        );
        return Error::new(ErrorKind::Invalid, message).with_source(error);
    }
    let message = format!("table `{}`: cannot {step}: {}", step.table, error.message());
    Error::new(error.kind(), message).with_source(error)
}

/// Checks that every reference has its row.
fn check_references(connection: &mut Connection) -> Result<()> {
    let mut torn = None;
    connection
        .query("SELECT \"table\", parent FROM pragma_foreign_key_check LIMIT 1", |row| {
            let text = |column| String::from_utf8_lossy(row.at(column).bytes()).into_owned();
            torn = Some((text(0), text(1)));
        })
        .map_err(|failure| fault::of(&failure))?;
    match torn {
        None => Ok(()),
        Some((table, parent)) => Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "table `{table}`: rows refer to rows of `{parent}` that do not exist; correct or \
                 delete them first (PRAGMA foreign_key_check lists them)"
            ),
        )),
    }
}

fn check_version(connection: &mut Connection, version: u32, place: &str) -> Result<()> {
    if i32::try_from(version).is_err() {
        let message = format!("the schema version {version} is above {}", i32::MAX);
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let file = version_of(connection)?;
    if file > i64::from(version) {
        let message = format!(
            "{place} was written with a newer schema version ({file}; this program has {version}): \
             start the newer program or restore a backup"
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(())
}

fn version_of(connection: &mut Connection) -> Result<i64> {
    let mut version = 0;
    connection
        .query("PRAGMA user_version", |row| version = row.at(0).int())
        .map_err(|failure| fault::of(&failure))?;
    Ok(version)
}

fn raise_version(connection: &mut Connection, version: u32) -> Result<()> {
    if version_of(connection)? == i64::from(version) {
        return Ok(());
    }
    connection
        .execute(&format!("PRAGMA user_version={version}"))
        .map_err(|failure| fault::of(&failure))
}
