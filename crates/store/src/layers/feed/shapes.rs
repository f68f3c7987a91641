//! The tables that a feed has recorded, with the fields that they had.
//!
//! Encoded changes have no names. They refer to a row of an internal table, which has the name of
//! the table and its fields. A migration that adds, removes or renames a field makes a
//! new row, so that older changes can still be decoded.

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Field, FieldSet, Result, Table, Value, ValueRef};
use parking_lot::RwLock;

use super::commit_rows::integer;
use super::schema::shape;
use crate::contract::change::RecordedRows;

/// The recorded tables. Numbers are small and rarely missing, so they are places in a list.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    shapes: RwLock<Vec<Option<Arc<Shape>>>>,
    /// Reads changes that the database has recorded.
    engine_rows: Option<Arc<dyn RecordedRows>>,
}

/// A table as it was recorded.
#[derive(Debug)]
pub(crate) struct Shape {
    /// The number of its fields.
    fields: usize,
    /// The table that the store has now, and the place in it of each recorded field. `None` if the
    /// store no longer has it.
    now: Option<(Arc<Table>, Vec<Option<usize>>)>,
    /// True if the table has the recorded fields, in the same order.
    is_current: bool,
}

/// The greatest number of a recorded table. It keeps a damaged row from filling the memory.
const NUMBER_MAX: u64 = 1 << 20;

impl Shapes {
    /// Creates a list without tables. `engine_rows` reads changes that the database has recorded.
    pub(crate) fn new(engine_rows: Option<Arc<dyn RecordedRows>>) -> Self {
        Self { shapes: RwLock::default(), engine_rows }
    }

    /// Returns the reader of changes that the database has recorded.
    pub(crate) const fn engine_rows(&self) -> Option<&Arc<dyn RecordedRows>> {
        self.engine_rows.as_ref()
    }

    /// Adds a recorded table. Numbers that no feed has are ignored.
    pub(crate) fn add(&self, number: u64, shape: Shape) {
        if number > NUMBER_MAX {
            return;
        }
        let place = number as usize;
        let mut shapes = self.shapes.write();
        if shapes.len() <= place {
            shapes.resize_with(place + 1, || None);
        }
        shapes[place] = Some(Arc::new(shape));
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<Shape>> {
        self.shapes.read().get(usize::try_from(number).ok()?)?.clone()
    }
}

impl Shape {
    /// Reads a row of the internal table. Returns the number of the recorded table as well. `find`
    /// returns the table that the store has now.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] for a damaged row.
    pub(crate) fn of_row<'t>(
        row: &[ValueRef<'_>],
        find: impl FnOnce(&str) -> Option<&'t Arc<Table>>,
    ) -> Result<(u64, Self)> {
        let damaged = || Error::new(ErrorKind::Engine, "a recorded table of the feed is damaged");
        let (ValueRef::Text(name), ValueRef::Json(fields)) =
            (row[shape::TABLE], row[shape::FIELDS])
        else {
            return Err(damaged());
        };
        let fields: Vec<String> = serde_json::from_str(fields).map_err(|_| damaged())?;
        Ok((integer(row[shape::NUMBER]), Self::new(&fields, find(name))))
    }

    /// `fields` are the recorded fields ([`fields_of`]); `table` is the table with this name now.
    pub(crate) fn new(fields: &[String], table: Option<&Arc<Table>>) -> Self {
        let now = table.map(|table| {
            let known = fields_of(table);
            let place = |field| known.iter().position(|known| known == field);
            (Arc::clone(table), fields.iter().map(place).collect())
        });
        let is_current = now.as_ref().is_some_and(|(table, places): &(_, Vec<Option<usize>>)| {
            places.len() == table.fields().len()
                && places.iter().enumerate().all(|(place, now)| *now == Some(place))
        });
        Self { fields: fields.len(), now, is_current }
    }

    /// Returns the number of recorded fields.
    pub(crate) const fn fields(&self) -> usize {
        self.fields
    }

    /// Returns the table that the store has now.
    pub(crate) fn table(&self) -> Option<&Arc<Table>> {
        self.now.as_ref().map(|(table, _)| table)
    }

    /// Returns the place that a recorded field has now.
    pub(crate) fn place(&self, recorded: usize) -> Option<usize> {
        self.now.as_ref().and_then(|(_, places)| places.get(recorded).copied().flatten())
    }

    /// Returns true if new changes of the table can be encoded with this shape.
    pub(crate) const fn is_current(&self) -> bool {
        self.is_current
    }

    /// Moves the values of a recorded row to the places that their fields have now. Fields that
    /// were not recorded are absent.
    pub(crate) fn row(&self, row: Vec<Value>) -> Vec<Value> {
        let Some((table, places)) = self.now.as_ref().filter(|_| !self.is_current) else {
            return row;
        };
        let mut moved = vec![Value::Absent; table.fields().len()];
        for (value, place) in row.into_iter().zip(places) {
            if let Some(place) = *place {
                moved[place] = value;
            }
        }
        moved
    }

    /// Returns the places that these recorded fields have now.
    pub(crate) fn places(&self, fields: FieldSet) -> FieldSet {
        match &self.now {
            Some((_, places)) if !self.is_current => {
                fields.iter().filter_map(|place| places.get(place).copied().flatten()).collect()
            }
            _ => fields,
        }
    }
}

/// Returns the fields of a table as they are recorded: the name and the form of the values of each.
/// A field whose kind has changed to another form is another field.
pub(crate) fn fields_of(table: &Table) -> Vec<String> {
    let field = |field: &Field| format!("{}:{:?}", field.name, field.kind.form());
    table.fields().iter().map(field).collect()
}
