//! Decodes the changes that triggers have recorded: records in the server's binary format, as its
//! function `record_send` writes them.
//!
//! ```text
//! entry     record of 5 columns: kind, table, actor, rows before, rows after
//! record    the number of columns (4 bytes), columns
//! column    the OID of its type, the length or -1 for NULL (4 bytes each), the value
//! rows      record*
//! ```

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Field, Result, Value};
use marmota_store::change::{ChangeKind, ChangedRows, EncodedRow, RecordedRows};

use crate::statement::column::pg_type;
use crate::wire::value;

/// Decodes the changes that triggers have recorded.
#[derive(Debug)]
pub(crate) struct TriggerRows;

/// The numbers of the kinds of changes.
pub(super) const INSERT: i32 = 1;
pub(super) const UPDATE: i32 = 2;
pub(super) const DELETE: i32 = 3;

impl RecordedRows for TriggerRows {
    fn entry<'b>(&self, bytes: &'b [u8]) -> Result<(ChangedRows<'b>, &'b [u8])> {
        let (columns, rest) = record(bytes)?;
        let &[Some(kind), Some(table), actor, before, after] = &*columns else {
            return Err(damaged("an entry has other columns"));
        };
        let kind = match value::read_integer(kind) {
            Some(kind) if kind == i64::from(INSERT) => ChangeKind::Insert,
            Some(kind) if kind == i64::from(UPDATE) => ChangeKind::Update,
            Some(kind) if kind == i64::from(DELETE) => ChangeKind::Delete,
            _ => return Err(damaged("a change has an unknown kind")),
        };
        let table = value::read_integer(table).and_then(|table| u64::try_from(table).ok());
        let table = table.ok_or_else(|| damaged("an entry names no table"))?;
        let actor = actor.map(|actor| std::str::from_utf8(actor).map(Arc::from)).transpose();
        let actor = actor.map_err(|_| damaged("the name of an actor is not UTF-8"))?;
        let (before, after) = (rows(before)?, rows(after)?);
        Ok((ChangedRows { kind, table, actor, before, after }, rest))
    }

    fn value(&self, field: &Field, bytes: &[u8]) -> Result<Value> {
        let read = value::read(pg_type(&field.kind), bytes);
        read.map(|value| value.to_value()).ok_or_else(|| {
            let message = format!(
                "a recorded value of the field `{}` is not a {}: another program wrote it",
                field.name,
                field.kind.name()
            );
            Error::new(ErrorKind::Engine, message)
        })
    }
}

/// Reads rows.
fn rows(bytes: Option<&[u8]>) -> Result<Vec<EncodedRow<'_>>> {
    let (mut rows, mut rest) = (Vec::new(), bytes.unwrap_or_default());
    while !rest.is_empty() {
        let (row, after) = record(rest)?;
        rows.push(row);
        rest = after;
    }
    Ok(rows)
}

/// Reads a record. Returns the values of its columns, and the bytes after it.
fn record(bytes: &[u8]) -> Result<(EncodedRow<'_>, &[u8])> {
    let (count, mut rest) = integer(bytes)?;
    let mut columns = Vec::with_capacity(usize::try_from(count).unwrap_or(0).min(64));
    for _ in 0..count {
        let (_, after) = integer(rest)?;
        let (length, after) = integer(after)?;
        let Ok(length) = usize::try_from(length) else {
            columns.push(None);
            rest = after;
            continue;
        };
        let (value, after) = after.split_at_checked(length).ok_or_else(too_short)?;
        columns.push(Some(value));
        rest = after;
    }
    Ok((columns, rest))
}

fn integer(bytes: &[u8]) -> Result<(i32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk().ok_or_else(too_short)?;
    Ok((i32::from_be_bytes(*number), rest))
}

fn too_short() -> Error {
    damaged("it ends too early")
}

fn damaged(message: &str) -> Error {
    Error::new(ErrorKind::Engine, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(columns: &[Option<&[u8]>]) -> Vec<u8> {
        let mut bytes = (columns.len() as i32).to_be_bytes().to_vec();
        for column in columns {
            bytes.extend(17_i32.to_be_bytes());
            bytes.extend(column.map_or(-1, |value| value.len() as i32).to_be_bytes());
            bytes.extend(column.unwrap_or_default());
        }
        bytes
    }

    #[test]
    fn an_entry_has_rows_before_and_after() {
        let row = encoded(&[Some(b"a"), None]);
        let two = [row.clone(), row].concat();
        let (kind, table) = (UPDATE.to_be_bytes(), 7_i32.to_be_bytes());
        let mut bytes = encoded(&[Some(&kind), Some(&table), Some(b"ann"), Some(&two), Some(&two)]);
        bytes.push(9);
        let (entry, rest) = TriggerRows.entry(&bytes).unwrap();
        assert_eq!((entry.kind, entry.table, rest), (ChangeKind::Update, 7, &[9][..]));
        assert_eq!(entry.actor.as_deref(), Some("ann"));
        assert_eq!(entry.before, vec![vec![Some(&b"a"[..]), None]; 2]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(mut bytes: Vec<u8>, is_entry: bool) {
            if is_entry {
                bytes.splice(0..0, [0, 0, 0, 5]);
            }
            let _ = TriggerRows.entry(&bytes);
        }
    }
}
