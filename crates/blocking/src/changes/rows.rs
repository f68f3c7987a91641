//! Decodes the changes that triggers have recorded.
//!
//! ```text
//! entry   00 kind table ":" value row row    kind: "i", "u" or "d"; the value is the actor
//! row     count ":" value*                   the rows before and after
//! value   "-"                                NULL
//!         length ":" bytes
//! ```
//!
//! Numbers are decimal.

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Field, Result, Value, ValueForm};
use marmota_store::change::{ChangeKind, ChangedRows, EncodedRow, RecordedRows};

use crate::statement::text::value_of_text;

/// Decodes the changes that triggers have recorded.
#[derive(Debug)]
pub(crate) struct TriggerText;

impl RecordedRows for TriggerText {
    fn entry<'b>(&self, bytes: &'b [u8]) -> Result<(ChangedRows<'b>, &'b [u8])> {
        let (kind, rest) = match bytes {
            [0, b'i', rest @ ..] => (ChangeKind::Insert, rest),
            [0, b'u', rest @ ..] => (ChangeKind::Update, rest),
            [0, b'd', rest @ ..] => (ChangeKind::Delete, rest),
            _ => return Err(damaged("a change has an unknown kind")),
        };
        let (table, rest) = number(rest)?;
        let (actor, rest) = value(rest)?;
        let actor = actor.map(|actor| std::str::from_utf8(actor).map(Arc::from)).transpose();
        let actor = actor.map_err(|_| damaged("the name of an actor is not UTF-8"))?;
        let (before, rest) = row(rest)?;
        let (after, rest) = row(rest)?;
        let rows =
            |row: EncodedRow<'b>, has_row: bool| if has_row { vec![row] } else { Vec::new() };
        let before = rows(before, kind != ChangeKind::Insert);
        let after = rows(after, kind != ChangeKind::Delete);
        Ok((ChangedRows { kind, table, actor, before, after }, rest))
    }

    fn value(&self, field: &Field, bytes: &[u8]) -> Result<Value> {
        let read = match field.kind.form() {
            ValueForm::Blob => Some(Value::Blob(bytes.to_vec())),
            form => std::str::from_utf8(bytes).ok().and_then(|text| value_of_text(form, text)),
        };
        read.ok_or_else(|| {
            let message = format!(
                "a recorded value of the field `{}` is not a {}: another program wrote it",
                field.name,
                field.kind.name()
            );
            Error::new(ErrorKind::Engine, message)
        })
    }
}

fn row(bytes: &[u8]) -> Result<(EncodedRow<'_>, &[u8])> {
    let (count, mut rest) = number(bytes)?;
    let mut values = Vec::with_capacity(usize::try_from(count).unwrap_or(0).min(64));
    for _ in 0..count {
        let (read, after) = value(rest)?;
        values.push(read);
        rest = after;
    }
    Ok((values, rest))
}

fn value(bytes: &[u8]) -> Result<(Option<&[u8]>, &[u8])> {
    if let [b'-', rest @ ..] = bytes {
        return Ok((None, rest));
    }
    let (length, rest) = number(bytes)?;
    let length = usize::try_from(length).map_err(|_| too_short())?;
    let (value, rest) = rest.split_at_checked(length).ok_or_else(too_short)?;
    Ok((Some(value), rest))
}

/// Reads a number that ends with a colon.
fn number(bytes: &[u8]) -> Result<(u64, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b':').ok_or_else(too_short)?;
    let digits = std::str::from_utf8(&bytes[..end]).ok();
    let number = digits.and_then(|digits| digits.parse().ok());
    Ok((number.ok_or_else(|| damaged("a length is not a number"))?, &bytes[end + 1..]))
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

    #[test]
    fn an_entry_has_rows_before_and_after() {
        let bytes = b"\0u7:3:ann2:1:a-2:1:b2:::\0";
        let (entry, rest) = TriggerText.entry(bytes).unwrap();
        assert_eq!((entry.kind, entry.table, rest), (ChangeKind::Update, 7, &b"\0"[..]));
        assert_eq!(entry.actor.as_deref(), Some("ann"));
        assert_eq!(entry.before, vec![vec![Some(&b"a"[..]), None]]);
        assert_eq!(entry.after, vec![vec![Some(&b"b"[..]), Some(&b"::"[..])]]);
        let (entry, _) = TriggerText.entry(b"\0d7:-1:-0:").unwrap();
        assert_eq!((entry.before.len(), entry.after.len(), entry.actor), (1, 0, None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(mut bytes: Vec<u8>, is_entry: bool) {
            if is_entry {
                bytes.splice(0..0, *b"\0i1:-0:9:");
            }
            let _ = TriggerText.entry(&bytes);
        }
    }
}
