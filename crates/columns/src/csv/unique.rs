//! Checks unique fields after all rows are loaded.

use std::collections::HashMap;

use marmota_model::{Error, ErrorKind, Result, Role, Table, ValueRef, rule};

use crate::cells::{Cells, Values};

/// # Errors
/// [`ErrorKind::Conflict`] naming the first two rows of a field with the same value.
pub(crate) fn check(name: &str, table: &Table, cells: &[Cells], rows: u32) -> Result<()> {
    for (field, cells) in table.fields().iter().zip(cells) {
        if !field.unique && field.role != Role::Key {
            continue;
        }
        let row = |row: usize| cells.value(&field.kind, row);
        let Some((first, second)) = twice(cells, rows as usize, row) else { continue };
        let value = row(second);
        let violation = rule::violation(field, value, "unique", "must be unique");
        let message = format!(
            "{name}, rows {} and {}: {violation}; rows count from 1, after the first line",
            first + 1,
            second + 1
        );
        return Err(Error::new(ErrorKind::Conflict, message).with_violation(violation));
    }
    Ok(())
}

/// Returns the first row whose value occurred before, after the row where it did.
fn twice<'c>(
    cells: &'c Cells,
    rows: usize,
    value: impl Fn(usize) -> ValueRef<'c>,
) -> Option<(usize, usize)> {
    match &cells.values {
        Values::RowNumber => None,
        Values::Text(ids, dictionary) => {
            // There are as many texts as rows, so all are different.
            if dictionary.null().is_none() && dictionary.len() == rows {
                return None;
            }
            let mut seen = vec![u32::MAX; dictionary.len()];
            (0..rows).find_map(|row| {
                let id = ids.at(row);
                let first = std::mem::replace(&mut seen[id as usize], row as u32);
                let again = first != u32::MAX && dictionary.null() != Some(id);
                again.then_some((first as usize, row))
            })
        }
        _ => {
            let mut seen = HashMap::with_capacity(rows);
            (0..rows).find_map(|row| {
                let key = match value(row) {
                    ValueRef::Null => return None,
                    ValueRef::Float(float) => u128::from((float + 0.0).to_bits()),
                    ValueRef::Uuid(uuid) => uuid.as_u128(),
                    other => crate::cells::to_int(other)? as u128,
                };
                seen.insert(key, row).map(|first| (first, row))
            })
        }
    }
}
