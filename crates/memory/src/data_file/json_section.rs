//! A table of a JSON file, before its model is registered: a list of rows.

use std::collections::BTreeMap;
use std::fmt;

use marmota_model::json::read_object;
use marmota_model::{Error, ErrorKind, Result, Scratch, Table, ValueRef};
use marmota_store::plan::Destructive;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;
use smallvec::smallvec;

use crate::catalog::comparison::{Shape, place_of};
use crate::table::table_rows::{TableRows, Values};

/// Copies the rows of a list to an empty table.
pub(crate) fn fill(list: &RawValue, rows: &mut TableRows, destructive: &Destructive) -> Result<()> {
    let mut failed = None;
    let mut deserializer = serde_json::Deserializer::from_str(list.get());
    let read = deserializer.deserialize_seq(Rows { rows, destructive, failed: &mut failed });
    match (failed, read) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => {
            let message = format!("`{}` is not a list of rows: {error}", rows.table.name());
            Err(Error::new(ErrorKind::Invalid, message))
        }
        (None, Ok(())) => Ok(()),
    }
}

/// Returns a row whose members have the names of the table's fields, without members that may be
/// dropped; `None` if the row is not an object.
fn renamed(table: &Table, json: &RawValue, destructive: &Destructive) -> Result<Option<String>> {
    let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(json.get()) else {
        return Ok(None);
    };
    let mut object = Vec::new();
    for (name, value) in members {
        let Some(place) = place_of(table, &name, destructive)? else { continue };
        object.push(if object.is_empty() { b'{' } else { b',' });
        object.extend_from_slice(table.json_key(place));
        object.extend_from_slice(value.get().as_bytes());
    }
    if object.is_empty() {
        object.push(b'{');
    }
    object.push(b'}');
    Ok(String::from_utf8(object).ok())
}

/// Returns the shape of a list of rows, for a plan.
pub(crate) fn shape(list: &RawValue) -> Result<Shape> {
    let rows: Vec<BTreeMap<String, &RawValue>> =
        serde_json::from_str(list.get()).map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("the table is not a list of rows: {error}"))
        })?;
    let mut shape = Shape { rows: rows.len() as u64, ..Shape::default() };
    for name in rows.iter().flat_map(BTreeMap::keys) {
        shape.note(name, None);
    }
    Ok(shape)
}

struct Rows<'r> {
    rows: &'r mut TableRows,
    destructive: &'r Destructive,
    /// The error that stopped it, if it was not one of the JSON.
    failed: &'r mut Option<Error>,
}

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut scratch = Scratch::new();
        let mut count = 0;
        while let Some(json) = list.next_element::<&RawValue>()? {
            count += 1;
            if let Err(error) = insert(self.rows, json, &scratch, self.destructive) {
                let message = format!("row {count} of `{}`: {error}", self.rows.table.name());
                *self.failed = Some(Error::new(ErrorKind::Invalid, message).with_source(error));
                return Err(A::Error::custom("refused"));
            }
            scratch.reset();
        }
        Ok(())
    }
}

fn insert(
    rows: &mut TableRows,
    json: &RawValue,
    scratch: &Scratch,
    destructive: &Destructive,
) -> Result<()> {
    let changes = rows.table.fields().iter().any(|field| field.was.is_some())
        || *destructive != Destructive::default();
    let changed = if changes { renamed(&rows.table, json, destructive)? } else { None };
    let json = changed.as_deref().unwrap_or(json.get());
    let mut row: Values<'_> = smallvec![ValueRef::Absent; rows.table.fields().len()];
    let mut violations = Vec::new();
    read_object(&rows.table, json.as_bytes(), scratch, &mut row, &mut violations)?;
    if !violations.is_empty() {
        return Err(Error::invalid(violations));
    }
    rows.insert_loaded(&row)
}
