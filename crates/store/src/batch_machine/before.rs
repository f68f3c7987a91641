//! Rows as they were before a write: for the fields that may not change after the insert, and for
//! history entries, which have the fields that changed. The row is read in the transaction of the
//! write, on every engine alike ([`crate::operation::BatchMachine`]).
//!
//! A write that gives values to immutable fields is first compared with the stored row: the same
//! value is accepted, another one is a violation with the rule `immutable`. A history entry of an
//! update has only the fields whose values have changed. Values for generated columns are compared
//! after the write (`generated.rs`).

use marmota_model::rule::violation;
use marmota_model::{
    Comparison, FieldSet, FilterExpr, Result, RowQuery, Table, Value, ValueRef, Violation,
};

use super::generated::{self, is_same};
use crate::contract::operation::conflict::conflicting_rows;
use crate::contract::operation::{OnConflict, Operation, Outcome, Write, key_made};
use crate::rows::prepare;

/// Returns the fields of a table whose given values are compared with those of the database.
pub(crate) fn compared_fields(table: &Table) -> FieldSet {
    table.immutable().union(table.generated_fields())
}

/// Returns true if a write may change an immutable field, so that the row has to be read first, or
/// has a value for a generated column, so that it is read afterwards.
pub(crate) fn compares(write: &Write) -> bool {
    !fixed_of(write).is_empty() || generated::has_given(write)
}

/// Returns the same for an operation that is not a batch.
pub(crate) fn operation_compares(operation: &Operation<'_>) -> bool {
    let Some(table) = operation.table() else { return false };
    let (fixed, compared) = (table.immutable(), compared_fields(table));
    let has_generated = !table.generated_fields().is_empty();
    let gives = |row: &[ValueRef<'_>], fields: FieldSet| {
        fields.iter().any(|field| row.get(field).is_some_and(|value| !value.is_absent()))
    };
    let updates_fixed = |on_conflict: &OnConflict| matches!(on_conflict, OnConflict::Update { fields } if !fields.intersection(fixed).is_empty());
    match operation {
        _ if compared.is_empty() => false,
        Operation::Update { row, .. } => gives(row, compared),
        Operation::Insert { row, on_conflict, .. } => {
            updates_fixed(on_conflict) || gives(row, table.generated_fields())
        }
        // The rows are not known yet.
        Operation::InsertMany { on_conflict, .. } => has_generated || updates_fixed(on_conflict),
        Operation::UpdateMany { .. } => true,
        Operation::Increment { field, .. } => fixed.contains(*field),
        _ => false,
    }
}

/// Returns the immutable fields for which a write has a value.
fn fixed_of(write: &Write) -> FieldSet {
    let fixed = write.table().immutable();
    match fixed.is_empty() {
        true => fixed,
        false => written(write.bare()).intersection(fixed),
    }
}

/// Returns the fields for which a write of an existing row has values.
fn written(bare: &Write) -> FieldSet {
    let present = |row: &[Value]| {
        let given = row.iter().enumerate().filter(|(_, value)| **value != Value::Absent);
        given.fold(FieldSet::EMPTY, |fields, (field, _)| fields.with(field))
    };
    match bare {
        Write::Update { row, .. } => present(row),
        Write::Insert { row, on_conflict: OnConflict::Update { fields }, .. } => {
            present(row).intersection(*fields)
        }
        Write::Increment { field, .. } => FieldSet::EMPTY.with(*field),
        _ => FieldSet::EMPTY,
    }
}

/// Returns the query for the rows that have to be read before a write; `None` if no row has to be.
pub(crate) fn query(write: &Write) -> Option<RowQuery> {
    let (table, bare) = (&**write.table(), write.bare());
    let fields = match write.audit() {
        // The sum of an increment is known only after it.
        Some(_) if !matches!(bare, Write::Increment { .. }) => written(bare),
        _ => fixed_of(write),
    };
    let fields = match write.audit() {
        Some(_) if generated::may_change(bare) => fields.union(table.generated_fields()),
        _ => fields,
    };
    if fields.is_empty() {
        return None;
    }
    let filter = match bare {
        Write::Insert { row, .. } => conflicting_rows(table, row),
        Write::Update { key, .. } | Write::Increment { key, .. } => FilterExpr::Compare {
            field: table.key(),
            comparison: Comparison::Equal,
            value: key.clone(),
        },
        _ => return None,
    };
    let fields = Some(fields.with(table.key()));
    Some(RowQuery { filter: Some(filter), fields, ..RowQuery::new() })
}

/// Rows that were read, one after the other, with all fields of their table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowsBefore<'r>(pub(crate) &'r [Value]);

impl<'r> RowsBefore<'r> {
    /// Returns the rows, each with a value for each field of the table.
    pub(super) fn rows(self, table: &Table) -> impl Iterator<Item = &'r [Value]> {
        self.0.chunks_exact(table.fields().len())
    }

    /// Checks that a write leaves the immutable fields as they are.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] naming each that would change.
    pub(crate) fn check(self, write: &Write) -> Result<()> {
        let (table, fixed) = (&**write.table(), fixed_of(write));
        let mut violations: Vec<Violation> = Vec::new();
        // If an upsert finds several rows, each of them may be the one that is written.
        for before in self.rows(table) {
            for field in fixed.iter() {
                let value = match write.bare() {
                    Write::Increment { by, .. } if is_zero(by) => continue,
                    Write::Increment { by, .. } => by,
                    Write::Insert { row, .. } | Write::Update { row, .. } => &row[field],
                    _ => continue,
                };
                let is_increment = matches!(write.bare(), Write::Increment { .. });
                let named = &table.fields()[field].name;
                let is_named = violations.iter().any(|other| other.field == **named);
                if !is_named && (is_increment || !is_same(&before[field], value.as_ref())) {
                    violations.push(changed(table, field, value.as_ref()));
                }
            }
        }
        prepare::finish(violations)
    }

    /// Returns the fields that a write has changed of those that it has written, without the
    /// updated-at field if no other was changed; all of them if there is no row to compare with.
    pub(crate) fn changed(self, write: &Write, outcome: &Outcome) -> FieldSet {
        let (table, fields) = (&**write.table(), written(write));
        let row = match write {
            Write::Insert { row, .. } | Write::Update { row, .. } => row,
            Write::Increment { by, .. } if is_zero(by) => return FieldSet::EMPTY,
            _ => return fields,
        };
        let key = match write {
            Write::Update { key, .. } => Some(key),
            _ => key_made(write, outcome),
        };
        let Some(before) = self.rows(table).find(|before| Some(&before[table.key()]) == key) else {
            return fields;
        };
        let changed = fields
            .iter()
            .filter(|&field| !is_same(&before[field], row[field].as_ref()))
            .fold(FieldSet::EMPTY, FieldSet::with);
        let stamps = table.updated_at().map_or(FieldSet::EMPTY, |at| FieldSet::EMPTY.with(at));
        match changed.intersection(stamps) == changed {
            true => FieldSet::EMPTY,
            false => changed,
        }
    }
}

/// The violation for a value that would change an immutable field.
#[cold]
fn changed(table: &Table, field: usize, value: ValueRef<'_>) -> Violation {
    let message = "cannot be changed after the insert; leave it out, or send the stored value";
    violation(&table.fields()[field], value, "immutable", message)
}

/// Returns true for an increment that changes nothing.
fn is_zero(by: &Value) -> bool {
    match by {
        Value::Int(by) => *by == 0,
        Value::Currency(by) => by.scaled() == 0,
        _ => false,
    }
}
