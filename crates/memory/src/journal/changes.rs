//! The payloads of a log: the list of tables, and the changes of rows by a commit.
//!
//! ```text
//! tables   1 u8, schema u32, count u32, { key u16, name, fields u16, { name, form u8 } }
//! changes  2 u8, { table, deleted, { key }, put, { row } }
//! ```
//! Numbers of tables refer to the last list of tables before them. Integers without a size have
//! variable length; rows and keys are encoded as in [`crate::data_file::row_codec`]. A change is
//! either the key of a deleted row, or a complete row as it is after the commit; so changes can be
//! replayed repeatedly.

use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;
use marmota_model::{Result, ValueForm, ValueRef};
use smallvec::{SmallVec, smallvec};

use crate::catalog::Catalog;
use crate::catalog::locked_tables::LockedTables;
use crate::data_file::row_codec::{Bytes, write_head, write_row, write_unsigned, write_value};
use crate::table::table_rows::Values;
use crate::write::undo_log::{Undo, UndoLog};

const TABLES: u8 = 1;
const CHANGES: u8 = 2;

/// A table in a list of tables.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) key: usize,
    pub(crate) fields: Vec<(String, ValueForm)>,
}

/// Writes a list of tables.
pub(crate) fn write_tables(out: &mut Vec<u8>, schema: u32, catalog: &Catalog) {
    out.push(TABLES);
    out.extend_from_slice(&schema.to_le_bytes());
    out.extend_from_slice(&(catalog.slots.len() as u32).to_le_bytes());
    for slot in &catalog.slots {
        let fields = slot.table.fields().iter();
        let fields = fields.map(|field| (&*field.name, field.kind.form()));
        out.extend_from_slice(&(slot.table.key() as u16).to_le_bytes());
        // Writing to a vector cannot fail.
        let _ = write_head(out, slot.table.name(), fields);
    }
}

/// The changes of a commit to one table.
#[derive(Default)]
struct Group {
    table: u32,
    deleted: u64,
    keys: Vec<u8>,
    put: u64,
    rows: Vec<u8>,
}

/// Writes the changes of tables that are still locked.
///
/// # Errors
/// Only a defect of the engine.
pub(crate) fn write_changes(
    out: &mut Vec<u8>,
    log: &UndoLog,
    locked: &LockedTables<'_>,
) -> Result<()> {
    out.push(CHANGES);
    let steps = log.steps();
    if let [Undo::Insert { table, row } | Undo::Update { table, row, .. }] = steps {
        write_unsigned(out, u64::from(*table));
        write_unsigned(out, 0);
        write_unsigned(out, 1);
        return write_image(out, locked, *table, *row);
    }
    // Only the final state of a row is written, once.
    let is_plain = steps.iter().all(|step| matches!(step, Undo::Insert { .. }));
    let last: HashMap<(u32, u32), usize> = match is_plain {
        true => HashMap::new(),
        false => steps.iter().enumerate().map(|(at, step)| (step.place(), at)).collect(),
    };
    let mut groups: SmallVec<[Group; 2]> = SmallVec::new();
    for (at, step) in steps.iter().enumerate() {
        let place = step.place();
        let group = match groups.iter().position(|group| group.table == place.0) {
            Some(group) => group,
            None => {
                groups.push(Group { table: place.0, ..Group::default() });
                groups.len() - 1
            }
        };
        let group = &mut groups[group];
        if let Undo::Remove { old, .. } = step {
            group.deleted += 1;
            write_value(&mut group.keys, old[locked.slot(place.0).table.key()].as_ref());
        } else if is_plain || last.get(&place) == Some(&at) {
            group.put += 1;
            write_image(&mut group.rows, locked, place.0, place.1)?;
        }
    }
    for group in groups {
        write_unsigned(out, u64::from(group.table));
        write_unsigned(out, group.deleted);
        out.extend_from_slice(&group.keys);
        write_unsigned(out, group.put);
        out.extend_from_slice(&group.rows);
    }
    Ok(())
}

fn write_image(out: &mut Vec<u8>, locked: &LockedTables<'_>, table: u32, row: u32) -> Result<()> {
    let rows = locked.rows(table)?;
    let (stored, columns) = (rows.pages.row(row), &rows.pages.layout.columns);
    let mut values: Values<'_> = smallvec![ValueRef::Null; columns.len()];
    for (value, column) in values.iter_mut().zip(columns) {
        *value = stored.value(column);
    }
    write_row(out, &values);
    Ok(())
}

/// A payload that was read.
pub(crate) enum Payload {
    Tables { schema: u32, definitions: Vec<Arc<Definition>> },
    Changes(Vec<Change>),
}

/// The change of one row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) table: usize,
    /// The position of the key.
    pub(crate) key: Range<usize>,
    /// The position of the row, if it exists.
    pub(crate) row: Option<Range<usize>>,
}

/// Reads the payload in a part of a log; `None` if it cannot be decoded.
pub(crate) fn read(
    log: &[u8],
    payload: Range<usize>,
    definitions: &[Arc<Definition>],
) -> Option<Payload> {
    let mut bytes = Bytes { rest: log.get(payload.clone())? };
    match bytes.u8()? {
        TABLES => read_tables(bytes),
        CHANGES => {
            let mut changes = Vec::new();
            let here = |bytes: &Bytes<'_>| payload.end - bytes.rest.len();
            while !bytes.rest.is_empty() {
                let table = usize::try_from(bytes.unsigned()?).ok()?;
                let definition = definitions.get(table)?;
                let form = definition.fields.get(definition.key)?.1;
                for _ in 0..bytes.unsigned()? {
                    let start = here(&bytes);
                    bytes.value(form)?;
                    changes.push(Change { table, key: start..here(&bytes), row: None });
                }
                for _ in 0..bytes.unsigned()? {
                    let start = here(&bytes);
                    let key = bytes.key_of_row(&definition.fields, definition.key)?;
                    let key = start + key.start..start + key.end;
                    changes.push(Change { table, key, row: Some(start..here(&bytes)) });
                }
            }
            Some(Payload::Changes(changes))
        }
        _ => None,
    }
}

fn read_tables(mut bytes: Bytes<'_>) -> Option<Payload> {
    let schema = bytes.u32()?;
    let mut definitions = Vec::new();
    for _ in 0..bytes.u32()? {
        let key = usize::from(bytes.u16()?);
        let (name, fields) = bytes.head()?;
        fields.get(key)?;
        definitions.push(Arc::new(Definition { name, key, fields }));
    }
    bytes.rest.is_empty().then_some(Payload::Tables { schema, definitions })
}
