//! Which writes change computed fields, and whether the stored row has to be read for them.

use marmota_model::{FieldSet, Table};

use crate::contract::operation::{OnConflict, Operation, Write};
use crate::rights::present;

/// What a write does to the computed fields of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Computing {
    /// It does not change them.
    Nothing,
    /// The written values determine them.
    OfWrite,
    /// The written values and the stored ones determine them.
    OfStored,
}

/// Returns what an update does that writes these fields.
pub(crate) fn of_update(table: &Table, written: FieldSet) -> Computing {
    let (affected, used) = table.affected_by(written);
    let known = written.with(table.key());
    match affected.is_empty() {
        true => Computing::Nothing,
        false if known.intersection(used) == used => Computing::OfWrite,
        false => Computing::OfStored,
    }
}

/// Returns what a write of one row does.
pub(crate) fn of_write(write: &Write) -> Computing {
    let table = write.table();
    if table.computed_fields().is_empty() {
        return Computing::Nothing;
    }
    match write.bare() {
        Write::Insert { on_conflict, .. } => of_insert(table, *on_conflict),
        Write::Update { row, .. } => of_update(table, present(row)),
        Write::Increment { field, .. } => of_increment(table, *field),
        _ => Computing::Nothing,
    }
}

/// Returns what an operation does that is not a batch.
pub(crate) fn of_operation(operation: &Operation<'_>) -> Computing {
    let Some(table) = operation.table() else { return Computing::Nothing };
    if table.computed_fields().is_empty() {
        return Computing::Nothing;
    }
    match operation {
        Operation::Insert { on_conflict, .. } | Operation::InsertMany { on_conflict, .. } => {
            of_insert(table, *on_conflict)
        }
        Operation::Update { row, .. } => of_update(table, FieldSet::present(row)),
        // Each row may write other fields.
        Operation::UpdateMany { .. } => Computing::OfStored,
        Operation::Increment { field, .. } => of_increment(table, *field),
        _ => Computing::Nothing,
    }
}

fn of_insert(table: &Table, on_conflict: OnConflict) -> Computing {
    match on_conflict {
        // The update of an existing row depends on its other fields.
        OnConflict::Update { fields } if of_update(table, fields) != Computing::Nothing => {
            Computing::OfStored
        }
        _ => Computing::OfWrite,
    }
}

fn of_increment(table: &Table, field: usize) -> Computing {
    match table.affected_by(FieldSet::EMPTY.with(field)).0.is_empty() {
        true => Computing::Nothing,
        false => Computing::OfStored,
    }
}
