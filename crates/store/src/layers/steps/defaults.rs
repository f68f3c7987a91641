//! Default expressions: the values that the store determines for new rows. An insert without other
//! additional steps stays one operation, whose rows are filled on their way to the engine.

use std::sync::Arc;

use marmota_model::{
    ExpressionContext, FieldSet, Result, RowSource, Scratch, Table, Timestamp, ValueRef,
};

use crate::contract::operation::Operation;
use crate::layers::handle::HandleContext;
use crate::rights::Rights;

/// What default expressions depend on besides their row.
#[derive(Clone, Debug)]
pub(super) struct Defaults {
    /// The rights of the caller, who has a key and a name.
    rights: Option<Arc<Rights>>,
    /// The time of the write, for tables without a field for it.
    at: Timestamp,
}

impl Defaults {
    /// Returns the context of an operation of a handle.
    pub(super) fn of(handle: &HandleContext) -> Self {
        Self { rights: handle.rights.clone(), at: handle.time() }
    }

    /// Returns the context of an operation that inserts rows with default expressions; `None` for
    /// others.
    pub(super) fn needed(handle: &HandleContext, operation: &Operation<'_>) -> Option<Self> {
        match operation {
            Operation::Insert { table, .. } | Operation::InsertMany { table, .. } => {
                table.has_default_expressions().then(|| Self::of(handle))
            }
            _ => None,
        }
    }

    /// Evaluates the default expressions of a new row, and returns the filled fields.
    ///
    /// # Errors
    /// That of [`Table::fill_defaults`].
    pub(super) fn fill<'a>(
        &self,
        table: &Table,
        row: &mut [ValueRef<'a>],
        scratch: &'a Scratch,
    ) -> Result<FieldSet> {
        let now = match table.created_at().map(|at| row[at]) {
            Some(ValueRef::Timestamp(created_at)) => created_at,
            _ => self.at,
        };
        let caller = self.rights.as_ref().and_then(|rights| rights.caller());
        table.fill_defaults(row, &ExpressionContext { now, caller }, scratch)
    }

    /// Calls `run` with the operation, whose new rows are filled.
    ///
    /// # Errors
    /// That of [`Table::fill_defaults`] for a single row. Those of several rows are errors of their
    /// source.
    pub(super) fn with<T>(
        &self,
        operation: &mut Operation<'_>,
        run: impl FnOnce(&mut Operation<'_>) -> T,
    ) -> Result<T> {
        let scratch = Scratch::new();
        match operation {
            Operation::Insert { table, row, on_conflict } => {
                let mut row = row.to_vec();
                self.fill(table, &mut row, &scratch)?;
                Ok(run(&mut Operation::Insert { table, row: &row, on_conflict: *on_conflict }))
            }
            Operation::InsertMany { table, rows, on_conflict } => {
                let row = vec![ValueRef::Absent; table.fields().len()];
                let mut rows = FilledRows {
                    table,
                    defaults: self,
                    rows: *rows,
                    row,
                    scratch: &scratch,
                    at: 0,
                };
                Ok(run(&mut Operation::InsertMany {
                    table,
                    rows: &mut rows,
                    on_conflict: *on_conflict,
                }))
            }
            operation => Ok(run(operation)),
        }
    }
}

/// A source of new rows that fills each before the engine inserts it.
struct FilledRows<'j, 'a> {
    table: &'j Table,
    defaults: &'j Defaults,
    rows: &'j mut dyn RowSource<'a>,
    row: Vec<ValueRef<'a>>,
    scratch: &'j Scratch,
    at: usize,
}

impl<'j: 's, 's, 'a: 's> RowSource<'s> for FilledRows<'j, 'a> {
    fn remaining(&self) -> usize {
        self.rows.remaining()
    }

    fn next(&mut self, row: &mut [ValueRef<'s>]) -> Result<bool> {
        self.row.fill(ValueRef::Absent);
        if !self.rows.next(&mut self.row)? {
            return Ok(false);
        }
        row.copy_from_slice(&self.row);
        let filled = self.defaults.fill(self.table, row, self.scratch);
        filled.map_err(|error| super::write_as_batch::at_row(self.at, &error))?;
        self.at += 1;
        Ok(true)
    }
}
