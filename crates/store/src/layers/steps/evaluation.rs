//! Default expressions and computed fields: the values that the store determines. A write without
//! other additional steps stays one operation, whose rows are completed on their way to the engine,
//! unless the stored row has to be read.

use std::sync::Arc;

use marmota_model::{
    ExpressionContext, FieldSet, Result, RowSource, Scratch, Table, Timestamp, ValueRef,
};

use crate::batch_machine::computed::{self, Computing};
use crate::contract::operation::Operation;
use crate::layers::handle::HandleContext;
use crate::rights::Rights;
use crate::rows::prepare;
use crate::rows::refusal::at_row;

/// What expressions depend on besides their row.
#[derive(Clone, Debug)]
pub(super) struct Evaluation {
    /// The rights of the caller, who has a key and a name.
    rights: Option<Arc<Rights>>,
    /// The time of the write, for tables without a field for it.
    at: Timestamp,
}

impl Evaluation {
    /// Returns the context of an operation of a handle.
    pub(super) fn of(handle: &HandleContext) -> Self {
        Self { rights: handle.rights.clone(), at: handle.time() }
    }

    /// Returns the context of an operation whose rows alone determine the values; `None` for others.
    pub(super) fn needed(handle: &HandleContext, operation: &Operation<'_>) -> Option<Self> {
        let is_needed = match operation {
            Operation::Insert { table, .. } | Operation::InsertMany { table, .. } => {
                table.has_expressions()
            }
            Operation::Update { .. } => computed::of_operation(operation) == Computing::OfWrite,
            _ => false,
        };
        is_needed.then(|| Self::of(handle))
    }

    /// Evaluates the default expressions and the computed fields of a new row, and returns the
    /// fields that got values.
    ///
    /// # Errors
    /// Those of [`Table::fill_defaults`] and [`Table::compute`].
    pub(super) fn complete<'a>(
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
        let filled = table.fill_defaults(row, &ExpressionContext { now, caller }, scratch)?;
        Ok(filled.union(compute(table, row, table.computed_fields(), scratch)?))
    }

    /// Calls `run` with the operation, whose rows are completed.
    ///
    /// # Errors
    /// That of [`Evaluation::complete`] for a single row. Those of several rows are errors of their
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
                self.complete(table, &mut row, &scratch)?;
                Ok(run(&mut Operation::Insert { table, row: &row, on_conflict: *on_conflict }))
            }
            Operation::InsertMany { table, rows, on_conflict } => {
                let row = vec![ValueRef::Absent; table.fields().len()];
                let mut rows = CompletedRows {
                    table,
                    evaluation: self,
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
            Operation::Update { table, key, row, version } => {
                let (affected, _) = table.affected_by(FieldSet::present(row));
                let mut row = row.to_vec();
                // The key may be used. It is not written.
                row[table.key()] = *key;
                compute(table, &mut row, affected, &scratch)?;
                row[table.key()] = ValueRef::Absent;
                let (key, version) = (*key, *version);
                Ok(run(&mut Operation::Update { table, key, row: &row, version }))
            }
            operation => Ok(run(operation)),
        }
    }
}

/// Computes some computed fields of a row that has all values that they use, and checks their rules.
fn compute<'a>(
    table: &Table,
    row: &mut [ValueRef<'a>],
    fields: FieldSet,
    scratch: &'a Scratch,
) -> Result<FieldSet> {
    if fields.is_empty() {
        return Ok(FieldSet::EMPTY);
    }
    let given = FieldSet::present(row).intersection(table.computed_fields());
    let computed = table.compute(row, fields, given, scratch)?;
    let mut violations = Vec::new();
    table.check_fields(row, computed, &mut violations);
    prepare::finish(violations)?;
    Ok(computed)
}

/// A source of new rows that completes each before the engine inserts it.
struct CompletedRows<'j, 'a> {
    table: &'j Table,
    evaluation: &'j Evaluation,
    rows: &'j mut dyn RowSource<'a>,
    row: Vec<ValueRef<'a>>,
    scratch: &'j Scratch,
    at: usize,
}

impl<'j: 's, 's, 'a: 's> RowSource<'s> for CompletedRows<'j, 'a> {
    fn remaining(&self) -> usize {
        self.rows.remaining()
    }

    fn next(&mut self, row: &mut [ValueRef<'s>]) -> Result<bool> {
        self.row.fill(ValueRef::Absent);
        if !self.rows.next(&mut self.row)? {
            return Ok(false);
        }
        row.copy_from_slice(&self.row);
        let completed = self.evaluation.complete(self.table, row, self.scratch);
        completed.map_err(|error| at_row(self.at, &error))?;
        self.at += 1;
        Ok(true)
    }
}
