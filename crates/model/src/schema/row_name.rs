//! The name of a row in a text: `TABLE/KEY`, with the key in the form that REST writes.

use super::text;
use crate::{Field, Kind, ValueRef};

/// Returns the name of the row with this key, to which a reference refers.
pub(crate) fn of(reference: &Field, key: ValueRef<'_>) -> String {
    format!("{}/{}", target(reference), text_of_key(key))
}

/// Returns the table that a reference refers to.
fn target(field: &Field) -> &str {
    match &field.kind {
        Kind::Reference { table, .. } => table,
        _ => "",
    }
}

/// Returns a key as it stands in such a text.
pub(crate) fn text_of_key(key: ValueRef<'_>) -> String {
    match key {
        ValueRef::Text(key) => key.to_owned(),
        ValueRef::Int(key) => key.to_string(),
        ValueRef::Uuid(key) => key.to_string(),
        _ => String::new(),
    }
}

/// Checks a text against the references that are computed of it: `TABLE/KEY` of one of their tables,
/// with the key in the form that REST writes.
pub(crate) fn check(references: &[Field], value: &str) -> Result<(), String> {
    let has_key = |field: &&Field, key: &str| {
        text::parse(&field.kind, key)
            .is_ok_and(|parsed| !key.is_empty() && text_of_key(parsed) == key)
    };
    if let Some((table, key)) = value.split_once('/')
        && let Some(reference) = references.iter().find(|field| target(field) == table)
    {
        return match has_key(&reference, key) {
            true => Ok(()),
            false => Err(format!("has a key that no row of `{table}` can have: use `{table}/KEY`")),
        };
    }
    let forms: Vec<String> =
        references.iter().map(|field| format!("`{}/KEY`", target(field))).collect();
    Err(format!("must name a row as {}", forms.join(" or ")))
}
