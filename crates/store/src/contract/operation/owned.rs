//! Operations with owned values, for engines whose threads execute them later.

use std::sync::Arc;

use marmota_model::{Result, RowSource, Table, Value, ValueRef};

use super::{Operation, Write};

fn values(row: &[ValueRef<'_>]) -> Vec<Value> {
    row.iter().map(ValueRef::to_value).collect()
}

impl Write {
    /// Returns a write of one row, or a delete by a filter, with owned values; `None` for another
    /// operation. `table` is the operation's.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use marmota_model::{Field, Kind, Role, Schema, Table, ValueRef};
    /// use marmota_store::operation::{Operation, Write};
    ///
    /// let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    /// let table = Arc::new(Table::new(city)?);
    /// let operation = Operation::Delete { table: &table, key: ValueRef::Int(7), version: None };
    /// let write = Write::of_operation(&operation, Arc::clone(&table));
    /// assert!(matches!(write, Some(Write::Delete { .. })));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn of_operation(operation: &Operation<'_>, table: Arc<Table>) -> Option<Self> {
        Some(match operation {
            Operation::Insert { row, on_conflict, .. } => {
                Self::Insert { table, row: values(row), on_conflict: *on_conflict }
            }
            Operation::Update { key, row, version, .. } => {
                Self::Update { table, key: key.to_value(), row: values(row), version: *version }
            }
            Operation::Increment { key, field, by, stamp, .. } => Self::Increment {
                table,
                key: key.to_value(),
                field: *field,
                by: by.to_value(),
                stamp: stamp.to_value(),
            },
            Operation::Delete { key, version, .. } => {
                Self::Delete { table, key: key.to_value(), version: *version }
            }
            Operation::DeleteWhere { filter, .. } => {
                Self::DeleteWhere { table, filter: filter.cloned() }
            }
            _ => return None,
        })
    }
}

/// Returns all rows of a source with owned values. `width` is the number of the table's fields.
///
/// # Errors
/// Those of the source.
pub fn owned_rows<'a>(source: &mut dyn RowSource<'a>, width: usize) -> Result<Vec<Vec<Value>>> {
    let mut rows = Vec::with_capacity(source.remaining());
    let mut row = vec![ValueRef::Absent; width];
    while source.next(&mut row)? {
        rows.push(values(&row));
        row.fill(ValueRef::Absent);
    }
    Ok(rows)
}
