//! Adds and changes an engine's tables for its models: new tables are filled from the file, rows of
//! changed tables are converted, and all changes take effect at once or not at all.

use std::sync::Arc;

use marmota_model::rule::violation;
use marmota_model::{Error, ErrorKind, Kind, Result, Table};
use marmota_store::plan::{Destructive, Plan, StepEffect, TableChange};
use parking_lot::{RwLock, RwLockWriteGuard};

use crate::catalog;
use crate::catalog::comparison;
use crate::catalog::comparison::Shape;
use crate::catalog::{Catalog, Slot};
use crate::data_file::contents::{Loaded, Section};
use crate::shared::Shared;
use crate::shared::copied_rows::other_fields;
use crate::table::table_rows::TableRows;

/// A new or changed table, and its rows if they differ from the existing ones.
struct Coming {
    table: Arc<Table>,
    fresh: Option<TableRows>,
}

impl Shared {
    /// Returns the changes that [`Self::install`] would make. With `tries`, each row of a file is
    /// checked, as `install` does anyway.
    pub(super) fn compare(
        &self,
        tables: &[Arc<Table>],
        loaded: &Loaded,
        tries: bool,
    ) -> Result<Plan> {
        let catalog = self.catalog.load();
        let mut plan = Plan::default();
        for table in tables {
            if let Some(number) = catalog.number(table.name()) {
                let rows = catalog.slots[number as usize].rows.read();
                plan.steps.append(&mut comparison::plan(&Shape::of(&rows), table).steps);
                continue;
            }
            let Some((name, section)) = loaded.section(table, tables) else {
                plan.steps.push(comparison::step(table, TableChange::AddTable, StepEffect::Safe));
                continue;
            };
            if name != table.name() {
                let change = TableChange::RenameTable { from: name.to_owned() };
                plan.steps.push(comparison::step(table, change, StepEffect::Safe));
            }
            if !tries && matches!(section, Section::Json(_)) {
                // The shape is only known from the rows.
                continue;
            }
            let shape = section.shape().map_err(|error| in_file(loaded, &error))?;
            let mut steps = comparison::plan(&shape, table).steps;
            let can_be =
                tries && steps.iter().all(|step| !matches!(step.effect, StepEffect::Refused(_)));
            plan.steps.append(&mut steps);
            // Errors in single rows are only found by converting them.
            let all = Destructive { needed: true, ..Destructive::default() };
            let mut rows = TableRows::new(Arc::clone(table));
            if let (true, Err(error)) = (can_be, section.fill(&mut rows, &all)) {
                let effect = StepEffect::Refused(error.to_string());
                plan.steps.push(comparison::step(table, TableChange::SchemaMismatch, effect));
            }
        }
        Ok(plan)
    }

    /// Adds tables, or changes existing ones; returns true if rows got another shape. No
    /// transaction is open. If `settle` fails, nothing is changed; no session writes to the tables
    /// while it runs.
    pub(super) fn install(
        &self,
        tables: &[Arc<Table>],
        loaded: &mut Loaded,
        destructive: &Destructive,
        settle: impl FnOnce(&Catalog) -> Result<()>,
    ) -> Result<bool> {
        let old = self.catalog.load_full();
        let guards: Vec<_> = old.slots.iter().map(|slot| slot.rows.write()).collect();
        let mut coming: Vec<Coming> = old
            .slots
            .iter()
            .map(|slot| Coming { table: Arc::clone(&slot.table), fresh: None })
            .collect();
        let (mut filled, mut reshaped) = (Vec::new(), false);
        for table in tables {
            let known = coming.iter().position(|known| known.table.name() == table.name());
            let Some(number) = known else {
                let mut rows = TableRows::new(Arc::clone(table));
                if let Some((name, section)) = loaded.section(table, tables) {
                    section
                        .fill(&mut rows, destructive)
                        .map_err(|error| in_file(loaded, &error))?;
                    filled.push(coming.len());
                    // The log names tables: rows under a previous name would not be found.
                    reshaped |= !section.is_shaped_as(&rows) || name != table.name();
                }
                coming.push(Coming { table: Arc::clone(table), fresh: Some(rows) });
                continue;
            };
            let at = &mut coming[number];
            if !catalog::same_shape(&at.table, table) {
                let rows = match (&at.fresh, guards.get(number)) {
                    (Some(rows), _) => catalog::rebuild(rows, table, destructive)?,
                    (None, Some(rows)) => catalog::rebuild(rows, table, destructive)?,
                    (None, None) => TableRows::new(Arc::clone(table)),
                };
                at.fresh = Some(rows);
                reshaped = true;
            }
            at.table = Arc::clone(table);
        }
        for &number in &filled {
            let rows_of = |number: usize| match &coming[number].fresh {
                Some(rows) => Some(rows),
                None => guards.get(number).map(|guard| &**guard),
            };
            check_references(&coming, number, rows_of).map_err(|error| in_file(loaded, &error))?;
        }
        let filled: Vec<Arc<Table>> =
            filled.into_iter().map(|number| Arc::clone(&coming[number].table)).collect();
        self.exchange(&old, guards, coming, settle)?;
        for table in filled {
            if let Some(name) = loaded.section(&table, tables).map(|(name, _)| name.to_owned()) {
                loaded.tables.remove(&name);
            }
        }
        Ok(reshaped)
    }

    /// Puts new and changed tables into the catalog, whose tables are locked. If `settle` fails, nothing
    /// is changed.
    fn exchange(
        &self,
        old: &Catalog,
        mut guards: Vec<RwLockWriteGuard<'_, TableRows>>,
        coming: Vec<Coming>,
        settle: impl FnOnce(&Catalog) -> Result<()>,
    ) -> Result<()> {
        let list = coming.into_iter().enumerate().map(|(number, at)| {
            let (rows, long_reads) = match (at.fresh, old.slots.get(number)) {
                (None, Some(slot)) => (Arc::clone(&slot.rows), Arc::clone(&slot.long_reads)),
                (fresh, _) => {
                    let mut rows = fresh.unwrap_or_else(|| TableRows::new(Arc::clone(&at.table)));
                    rows.table = Arc::clone(&at.table);
                    rows.long_reads.wake_at(&self.gate);
                    let long_reads = Arc::clone(&rows.long_reads);
                    (Arc::new(RwLock::new(rows)), long_reads)
                }
            };
            (at.table, rows, long_reads)
        });
        let new = Catalog::new(list.collect())?;
        settle(&new)?;
        for (number, guard) in guards.iter_mut().enumerate() {
            guard.retired = !Arc::ptr_eq(&old.slots[number].rows, &new.slots[number].rows);
            guard.table = Arc::clone(&new.slots[number].table);
        }
        // A session that waits for the lock of a retired table finds the new table afterwards.
        self.catalog.store(Arc::new(new));
        Ok(())
    }

    /// Returns the rows of a file for all tables, whose sections are removed.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if a table is missing or has other fields.
    pub(super) fn filled(&self, loaded: &mut Loaded) -> Result<Vec<TableRows>> {
        let catalog = self.catalog.load();
        let fill = |slot: &Slot| {
            let mut rows = TableRows::new(Arc::clone(&slot.table));
            let section = loaded.tables.remove(slot.table.name());
            let section = section.ok_or_else(|| other_fields(&slot.table))?;
            if !comparison::plan(&section.shape()?, &slot.table).steps.is_empty() {
                return Err(other_fields(&slot.table));
            }
            section.fill(&mut rows, &Destructive::default())?;
            Ok(rows)
        };
        catalog.slots.iter().map(fill).collect()
    }

    /// Replaces the rows of all tables at once, if `settle` succeeds. No transaction is open.
    pub(super) fn replace_rows(
        &self,
        fresh: Vec<TableRows>,
        settle: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let old = self.catalog.load_full();
        let guards: Vec<_> = old.slots.iter().map(|slot| slot.rows.write()).collect();
        let coming = fresh
            .into_iter()
            .map(|rows| Coming { table: Arc::clone(&rows.table), fresh: Some(rows) });
        self.exchange(&old, guards, coming.collect(), |_| settle())
    }
}

#[cold]
fn in_file(loaded: &Loaded, error: &Error) -> Error {
    error.at(loaded.path.display())
}

/// Checks that rows from a file refer to existing rows.
fn check_references<'r>(
    coming: &[Coming],
    number: usize,
    rows_of: impl Fn(usize) -> Option<&'r TableRows>,
) -> Result<()> {
    let Some(rows) = rows_of(number) else { return Ok(()) };
    for (position, field) in rows.table.fields().iter().enumerate() {
        let Kind::Reference { table, .. } = &field.kind else { continue };
        let target = coming.iter().position(|other| other.table.name() == table);
        let Some(target) = target.and_then(&rows_of) else { continue };
        rows.try_each(|row| {
            let value = row[position];
            if value.is_null() || target.keys.find(&target.pages, value).is_some() {
                return Ok(());
            }
            let message = format!("must be the key of a row of `{table}`");
            let broken = violation(field, value, "reference", message);
            let message = format!("`{}`: {broken}", rows.table.name());
            Err(Error::new(ErrorKind::Invalid, message).with_violation(broken))
        })?;
    }
    Ok(())
}
