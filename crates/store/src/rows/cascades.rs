//! Which rows a delete also deletes or changes, because they refer to the deleted ones
//! ([`OnDelete`]): a plan for each table, made from the schemas when the store is opened.
//!
//! Engines execute the actions themselves. The store executes them before (`batch_machine/machine/
//! cascade.rs`), so that the rows have history entries, hooks, versions and a limit on every engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Kind, OnDelete, Result, Table};

/// The maximum number of rows that one delete reads, deletes and changes, in the table itself and
/// in the referring tables.
pub(crate) const CASCADE_ROWS_MAX: usize = 10_000;

/// The plans of a store.
#[derive(Debug, Default)]
pub(crate) struct Cascades {
    plans: BTreeMap<String, Arc<CascadePlan>>,
}

/// What a delete from one table does in others.
#[derive(Debug)]
pub(crate) struct CascadePlan {
    /// The table of the delete, then every table whose rows it may delete or change.
    pub(crate) tables: Vec<CascadeTable>,
    /// The indexes of the tables, each before those that its rows refer to.
    pub(crate) order: Vec<usize>,
    /// True if it may delete other rows of the table itself.
    pub(crate) reaches_itself: bool,
}

/// A table of a plan.
#[derive(Debug)]
pub(crate) struct CascadeTable {
    pub(crate) table: Arc<Table>,
    /// The fields that refer to its rows with an action other than [`OnDelete::Restrict`]; empty if
    /// the delete only changes its rows.
    pub(crate) referrers: Vec<CascadeField>,
}

/// A field that refers to rows of a table of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CascadeField {
    /// The index of its table in the plan.
    pub(crate) table: usize,
    pub(crate) field: usize,
    pub(crate) on_delete: OnDelete,
}

impl Cascades {
    /// No plans.
    pub(crate) const NONE: &Self = &Self { plans: BTreeMap::new() };

    /// Makes the plans of tables, each of which comes after those that it refers to.
    pub(crate) fn new(tables: &[Arc<Table>]) -> Self {
        let mut plans = BTreeMap::new();
        if tables.iter().any(|table| references(table).next().is_some()) {
            for table in tables {
                if let Some(plan) = CascadePlan::new(tables, table) {
                    plans.insert(table.name().to_owned(), Arc::new(plan));
                }
            }
        }
        Self { plans }
    }

    /// Returns true if no reference has an action other than [`OnDelete::Restrict`].
    pub(crate) fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }

    /// Returns the plan of a table; `None` if no rows refer to it with an action.
    #[inline]
    pub(crate) fn of(&self, table: &Table) -> Option<&Arc<CascadePlan>> {
        match self.plans.is_empty() {
            true => None,
            false => self.plans.get(table.name()),
        }
    }

    /// Checks that deletes write history entries and call hooks for all rows, in an order that
    /// exists: a table with entries or hooks cannot be in a circle of cascades with other tables,
    /// because then the database may delete its rows before the store reads them.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the tables.
    pub(crate) fn check(&self, has_steps: impl Fn(&Table) -> bool) -> Result<()> {
        for plan in self.plans.values() {
            let table = &plan.tables[0].table;
            let returns = |other: &&CascadeTable| {
                let back = self.plans.get(other.table.name());
                back.is_some_and(|back| back.deletes(table) && other.table.name() != table.name())
            };
            let deleted = || plan.tables.iter().filter(|other| plan.deletes(&other.table));
            if let (true, Some(other)) = (has_steps(table), deleted().find(returns)) {
                let message = format!(
                    "a delete cascades from `{}` to `{}` and back, and `{}` is audited or has hooks \
                     or files: use `on_delete = \"restrict\"` or \"set_null\" for one of the \
                     references",
                    table.name(),
                    other.table.name(),
                    table.name()
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        Ok(())
    }
}

impl CascadePlan {
    /// Makes the plan of a table; `None` if no rows refer to it with an action.
    fn new(tables: &[Arc<Table>], of: &Arc<Table>) -> Option<Self> {
        let empty =
            |table: &Arc<Table>| CascadeTable { table: Arc::clone(table), referrers: Vec::new() };
        let mut plan = Self { tables: vec![empty(of)], order: Vec::new(), reaches_itself: false };
        let (mut at, mut expanded) = (0, vec![0]);
        while let Some(&index) = expanded.get(at) {
            at += 1;
            let name = plan.tables[index].table.name().to_owned();
            for other in tables {
                for (field, to, on_delete) in references(other) {
                    if to != name {
                        continue;
                    }
                    let known =
                        plan.tables.iter().position(|known| known.table.name() == other.name());
                    let table = known.unwrap_or_else(|| {
                        plan.tables.push(empty(other));
                        plan.tables.len() - 1
                    });
                    plan.tables[index].referrers.push(CascadeField { table, field, on_delete });
                    plan.reaches_itself |= table == 0 && on_delete == OnDelete::Cascade;
                    if on_delete == OnDelete::Cascade && !expanded.contains(&table) {
                        expanded.push(table);
                    }
                }
            }
        }
        if plan.tables[0].referrers.is_empty() {
            return None;
        }
        let place = |table: &CascadeTable| {
            tables.iter().position(|other| other.name() == table.table.name())
        };
        plan.order = (0..plan.tables.len()).collect();
        plan.order.sort_by_key(|&index| std::cmp::Reverse(place(&plan.tables[index])));
        Some(plan)
    }

    /// Returns true if rows of a table may be deleted because of others.
    fn deletes(&self, table: &Table) -> bool {
        let index = self.tables.iter().position(|one| one.table.name() == table.name());
        let mut fields = self.tables.iter().flat_map(|one| &one.referrers);
        fields.any(|field| Some(field.table) == index && field.on_delete == OnDelete::Cascade)
    }
}

/// Returns the references of a table with an action: the field, the table, the action.
fn references(table: &Table) -> impl Iterator<Item = (usize, &str, OnDelete)> {
    table.fields().iter().enumerate().filter_map(|(position, field)| match &field.kind {
        Kind::Reference { table: to, .. } if field.on_delete != OnDelete::Restrict => {
            Some((position, &**to, field.on_delete))
        }
        _ => None,
    })
}
