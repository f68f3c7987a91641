//! The writes that repeat recorded changes in the secondary of a pair.

use std::sync::Arc;

use marmota_model::{Comparison, Error, ErrorKind, FilterExpr, Result, Table, Value};

use super::piece::Source;
use crate::admin::transfer::Row;
use crate::contract::change::{Change, ChangeKind};
use crate::contract::operation::{OnConflict, Outcome, Write};

/// A write that repeats a change, and the version that the row has to get.
pub(super) struct Repeated {
    pub(super) write: Write,
    pub(super) version: Option<i64>,
}

impl Repeated {
    /// Returns the write of a change for the secondary's table. Blobs, which are not recorded, are
    /// read from the primary.
    ///
    /// # Errors
    /// Those of the primary's engine.
    pub(super) fn of(source: &mut Source, table: &Arc<Table>, change: &Change) -> Result<Self> {
        let (table, key) = (Arc::clone(table), change.key().clone());
        let after = match (change.kind, &change.after) {
            (ChangeKind::Delete, _) | (_, None) => {
                // The database may have deleted it together with another row.
                let field = table.key();
                let is_row =
                    FilterExpr::Compare { field, comparison: Comparison::Equal, value: key };
                let write = Write::DeleteWhere { table, filter: Some(is_row) };
                return Ok(Self { write, version: None });
            }
            (ChangeKind::Insert, Some(after)) => {
                let mut row = after.clone();
                source.read_absent(&change.table, &mut row)?;
                leave_out_generated(&table, &mut row);
                return Ok(Self { write: Write::insert(table, row), version: None });
            }
            (ChangeKind::Update, Some(after)) => after,
        };
        let mut row = vec![Value::Absent; after.len()];
        for place in change.changed.iter() {
            row[place] = after[place].clone();
        }
        // Only the blobs that have changed are read.
        let mut blobs = after.clone();
        for (place, value) in blobs.iter_mut().enumerate() {
            if *value == Value::Absent && !change.changed.contains(place) {
                *value = Value::Null;
            }
        }
        source.read_absent(&change.table, &mut blobs)?;
        for place in change.changed.iter().filter(|&place| after[place] == Value::Absent) {
            row[place] = blobs[place].clone();
        }
        row[table.key()] = Value::Absent;
        leave_out_generated(&table, &mut row);
        let mut version = None;
        if let Some(place) = table.version() {
            row[place] = Value::Absent;
            version = after[place].as_ref().as_int();
        }
        let key = after[table.key()].clone();
        Ok(Self { write: Write::Update { table, key, row, version: None }, version })
    }
}

/// Returns whether a row got the version that it has in the primary.
pub(super) fn has_version(version: Option<i64>, outcome: &Outcome) -> bool {
    version.is_none() || outcome.version.is_none() || outcome.version == version
}

/// Returns the write of a row whose version an update does not give: raw SQL does not count versions.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if the database deletes or changes other rows with that row
/// (`is_acted_on`); those of the primary's engine.
pub(super) fn replacement(
    source: &mut Source,
    table: &Arc<Table>,
    of_source: &Table,
    after: &Row,
    is_acted_on: bool,
) -> Result<Write> {
    if is_acted_on {
        let message = format!(
            "a row of `{}` got a version that no update gives, and other rows are deleted or \
             changed with it: raw SQL has to add one to the version of a row that it updates",
            table.name()
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let mut row = after.clone();
    source.read_absent(of_source, &mut row)?;
    leave_out_generated(table, &mut row);
    Ok(Write::Insert { table: Arc::clone(table), row, on_conflict: OnConflict::Replace })
}

/// Removes the values that the secondary computes by itself.
fn leave_out_generated(table: &Table, row: &mut Row) {
    table.generated_fields().iter().for_each(|field| row[field] = Value::Absent);
}
