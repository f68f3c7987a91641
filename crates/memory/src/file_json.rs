//! The JSON file of a memory engine: one document with one row per line.
//!
//! ```text
//! {"format":"marmota-memory","version":1,"schema":1,"tables":{
//! "person":[
//! {"id":1,"name":"Curie"},
//! {"id":2,"name":"Joliot"}
//! ]
//! }}
//! ```
//! Rows have the usual JSON form; missing members get their defaults. Rows are checked when a model
//! registers the table, not before, since only the model defines the members.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

use marmota_model::json::{RowWriter, read_object, write_string};
use marmota_model::{Error, ErrorKind, Result, Scratch, Table, ValueRef};
use marmota_store::plan::Destructive;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use smallvec::smallvec;

use super::comparison::{Shape, place_of};
use super::file::{Contents, Read, Section, other_format};
use super::table_rows::{TableRows, Values};

const FORMAT: &str = "marmota-memory";
const VERSION: u32 = 1;
/// The approximate size of the pieces in which text is passed on, in bytes.
const PIECE_BYTES: usize = 1 << 16;

/// Writes the document.
///
/// # Errors
/// The outer error for content that cannot be written as JSON, the inner one if the file cannot be
/// written.
pub(super) fn write(out: &mut impl Write, contents: &Contents<'_>) -> Result<io::Result<()>> {
    for (name, section) in contents.sections {
        if !matches!(section, Section::Json(_)) {
            return Err(other_format(name, "JSON"));
        }
    }
    Ok(write_document(out, contents))
}

fn write_document(out: &mut impl Write, contents: &Contents<'_>) -> io::Result<()> {
    let schema = contents.schema;
    write!(out, r#"{{"format":"{FORMAT}","version":{VERSION},"schema":{schema},"tables":{{"#)?;
    let mut buffer = Vec::new();
    let mut first = true;
    for rows in &contents.tables {
        write_name(&mut buffer, rows.table.name(), &mut first);
        write_rows(out, &mut buffer, rows)?;
    }
    for (name, section) in contents.sections {
        if let Section::Json(text) = section {
            write_name(&mut buffer, name, &mut first);
            buffer.extend_from_slice(text.get().as_bytes());
        }
    }
    buffer.extend_from_slice(b"\n}}\n");
    out.write_all(&buffer)
}

fn write_name(buffer: &mut Vec<u8>, name: &str, first: &mut bool) {
    if !std::mem::replace(first, false) {
        buffer.push(b',');
    }
    buffer.push(b'\n');
    write_string(buffer, name);
    buffer.push(b':');
}

fn write_rows(out: &mut impl Write, buffer: &mut Vec<u8>, rows: &TableRows) -> io::Result<()> {
    buffer.push(b'[');
    let (mut writer, mut first) = (RowWriter::new(), true);
    rows.try_each(|row| {
        if !std::mem::replace(&mut first, false) {
            buffer.push(b',');
        }
        buffer.push(b'\n');
        writer.write(buffer, &rows.table, rows.table.all(), row);
        if buffer.len() >= PIECE_BYTES {
            out.write_all(buffer)?;
            buffer.clear();
        }
        Ok::<_, io::Error>(())
    })?;
    buffer.extend_from_slice(b"\n]");
    Ok(())
}

/// Reads the document; the error describes its defect.
pub(super) fn load(bytes: &[u8]) -> Result<Read, String> {
    let document: Document =
        serde_json::from_slice(bytes).map_err(|error| format!("is damaged: {error}"))?;
    if document.format != FORMAT {
        return Err(format!(
            "is no file of the memory engine: its format is {:?}",
            document.format
        ));
    }
    if document.version != VERSION {
        return Err(format!(
            "has the file version {}, and this program reads {VERSION}: use the program that \
             wrote it, or a newer one",
            document.version
        ));
    }
    Ok(Read { schema: document.schema, tables: document.tables.0, link: None })
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: String,
    version: u32,
    schema: u32,
    tables: Tables,
}

struct Tables(BTreeMap<String, Section>);

impl<'de> Deserialize<'de> for Tables {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Named;
        impl<'de> Visitor<'de> for Named {
            type Value = Tables;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a list of rows for each table")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tables, A::Error> {
                let mut tables = BTreeMap::new();
                while let Some((name, rows)) = map.next_entry::<String, Box<RawValue>>()? {
                    if tables.insert(name.clone(), Section::Json(rows)).is_some() {
                        return Err(A::Error::custom(format!("table `{name}` comes twice")));
                    }
                }
                Ok(Tables(tables))
            }
        }
        deserializer.deserialize_map(Named)
    }
}

/// Copies the rows of a list to an empty table.
pub(super) fn fill(list: &RawValue, rows: &mut TableRows, destructive: &Destructive) -> Result<()> {
    let mut failed = None;
    let mut deserializer = serde_json::Deserializer::from_str(list.get());
    let read = deserializer.deserialize_seq(Rows { rows, destructive, failed: &mut failed });
    match (failed, read) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => {
            let message = format!("`{}` is no list of rows: {error}", rows.table.name());
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
pub(super) fn shape(list: &RawValue) -> Result<Shape> {
    let rows: Vec<BTreeMap<String, &RawValue>> =
        serde_json::from_str(list.get()).map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("it is no list of rows: {error}"))
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
