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

use marmota_model::Result;
use marmota_model::json::{RowWriter, write_string};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::contents::{Contents, ReadFile, Section, other_format};
use crate::table::table_rows::TableRows;

const FORMAT: &str = "marmota-memory";
const VERSION: u32 = 1;
/// The approximate size of the pieces in which text is passed on, in bytes.
const PIECE_BYTES: usize = 1 << 16;

/// Writes the document.
///
/// # Errors
/// The outer error for content that cannot be written as JSON, the inner one if the file cannot be
/// written.
pub(crate) fn write(out: &mut impl Write, contents: &Contents<'_>) -> Result<io::Result<()>> {
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
pub(crate) fn load(bytes: &[u8]) -> Result<ReadFile, String> {
    let document: Document =
        serde_json::from_slice(bytes).map_err(|error| format!("is damaged: {error}"))?;
    if document.format != FORMAT {
        return Err(format!(
            "is not a file of the memory engine: its format is {:?}",
            document.format
        ));
    }
    if document.version != VERSION {
        return Err(format!(
            "has the file version {}, but this program reads version {VERSION}: use the program \
             that wrote the file, or a newer one",
            document.version
        ));
    }
    Ok(ReadFile { schema: document.schema, tables: document.tables.0, link: None })
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
                        return Err(A::Error::custom(format!("table `{name}` occurs twice")));
                    }
                }
                Ok(Tables(tables))
            }
        }
        deserializer.deserialize_map(Named)
    }
}
