//! The storage of field values in PostgreSQL: their types, writing them as parameters, and reading
//! rows.
//!
//! Integers are as wide as their range requires, currencies are `numeric(19,4)`, texts `text`
//! compared byte by byte (`COLLATE "C"`), JSON is `json`, which preserves its text.

use marmota_model::{
    self as model, Collation, Error, ErrorKind, Field, Kind, Result, Table, ValueRef, Violation,
};

use super::key::{stored, text_sql};
use super::sql_words::quoted;
use crate::wire::backend::Row;
use crate::wire::value::{self, PgType};

/// A column of a result, and the field of its values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) position: u8,
    pg_type: PgType,
}

impl Column {
    pub(crate) fn new(table: &Table, position: usize) -> Self {
        Self { position: position as u8, pg_type: pg_type(&table.fields()[position].kind) }
    }
}

/// Returns the type of a field's column.
pub(crate) fn pg_type(kind: &Kind) -> PgType {
    match (kind.form(), kind) {
        (model::ValueForm::Int, Kind::Int { min, max }) => {
            let fits = |low: i64, high: i64| *min >= low && *max <= high;
            if fits(i16::MIN.into(), i16::MAX.into()) {
                PgType::Int2
            } else if fits(i32::MIN.into(), i32::MAX.into()) {
                PgType::Int4
            } else {
                PgType::Int8
            }
        }
        (model::ValueForm::Int, _) => PgType::Int8,
        (model::ValueForm::Bool, _) => PgType::Bool,
        (model::ValueForm::Float, _) => PgType::Float8,
        (model::ValueForm::Currency, _) => PgType::Numeric,
        (model::ValueForm::Text, _) => PgType::Text,
        (model::ValueForm::Blob, _) => PgType::Bytea,
        (model::ValueForm::Json, _) => PgType::Json,
        (model::ValueForm::Date, _) => PgType::Date,
        (model::ValueForm::Time, _) => PgType::Time,
        (model::ValueForm::Timestamp, _) => PgType::Timestamptz,
        (model::ValueForm::Uuid, _) => PgType::Uuid,
    }
}

/// Returns the type in which a field is compared.
pub(crate) fn compared_type(kind: &Kind) -> PgType {
    match pg_type(kind) {
        // A filter may contain values outside of the column's range.
        PgType::Int2 | PgType::Int4 => PgType::Int8,
        PgType::Json => PgType::Text,
        pg_type => pg_type,
    }
}

/// Returns true if the field's texts compare without regard to the case of A to Z.
pub(crate) fn is_folded(field: &Field) -> bool {
    field.kind.collation() == Collation::NoCase
}

/// Returns the SQL expression by which a field is compared; `is_collated` is true if the column
/// sorts texts by the rules of a language.
pub(crate) fn compared(field: &Field, is_collated: bool) -> String {
    let name = quoted(&field.name);
    match pg_type(&field.kind) {
        PgType::Json => format!("(({name})::text COLLATE \"C\")"),
        PgType::Text if is_folded(field) && is_collated => {
            format!("lower({name} COLLATE \"C\")")
        }
        PgType::Text if is_folded(field) => format!("lower({name})"),
        _ => name,
    }
}

/// Returns the SQL expression by which a field is sorted: texts byte by byte. Equality of texts is
/// the same by either rule, and the column's own rule has its indexes.
pub(crate) fn sorted(field: &Field, is_collated: bool) -> String {
    let compared = compared(field, is_collated);
    match pg_type(&field.kind) {
        PgType::Text if is_collated && !is_folded(field) => format!("({compared} COLLATE \"C\")"),
        _ => compared,
    }
}

/// Returns a field's name in SQL, or the expression of a text that is made of fields.
pub(crate) fn name(table: &Table, position: usize) -> String {
    match table.is_made(position) {
        true => text_sql(table, position, ""),
        false => quoted(&table.fields()[position].name),
    }
}

/// Returns the type OID of a field's parameters.
pub(crate) fn oid(table: &Table, position: usize) -> u32 {
    pg_type(&table.fields()[position].kind).oid()
}

/// Appends a field's value.
#[inline]
pub(crate) fn put(
    out: &mut Vec<u8>,
    table: &Table,
    position: usize,
    value: ValueRef<'_>,
) -> Result<()> {
    value::put(out, pg_type(&table.fields()[position].kind), value)
        .map_err(|value::ValueMismatch| misfit(table, position))
}

/// Appends the present values of a row.
pub(crate) fn put_present(out: &mut Vec<u8>, table: &Table, row: &[ValueRef<'_>]) -> Result<u16> {
    let stored = stored(table, row);
    for position in stored.iter() {
        put(out, table, position, row[position])?;
    }
    Ok(stored.len() as u16)
}

/// Returns the error for a value that the type of its column lacks.
#[cold]
pub(crate) fn misfit(table: &Table, position: usize) -> Error {
    let field = &table.fields()[position];
    let message = format!(
        "a value for field `{}` of `{}` is not a valid {} in PostgreSQL",
        field.name,
        table.name(),
        field.kind.name()
    );
    Error::new(ErrorKind::Invalid, message)
}

/// Passes a row to `take`. `N` must be at least the number of the table's fields.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a stored value that is invalid for its field, naming the row, the
/// field and the value.
#[inline]
pub(crate) fn lend<const N: usize, T>(
    table: &Table,
    columns: &[Column],
    stored: Row<'_>,
    take: impl FnOnce(&[ValueRef<'_>]) -> T,
) -> Result<T> {
    // Created for each row, since its borrows end with the row.
    let mut row = [ValueRef::Absent; N];
    let mut rest = stored;
    for column in columns {
        let Ok(bytes) = rest.next_column() else { return Err(too_few(table)) };
        let read = match bytes {
            None => Some(ValueRef::Null),
            Some(bytes) => value::read(column.pg_type, bytes),
        };
        match read {
            Some(value) => row[usize::from(column.position)] = value,
            None => return Err(unreadable(table, columns, stored, *column)),
        }
    }
    Ok(take(&row[..table.fields().len()]))
}

#[cold]
fn too_few(table: &Table) -> Error {
    let message = format!("PostgreSQL sent a row of `{}` with columns missing", table.name());
    Error::new(ErrorKind::Protocol, message)
}

/// Returns the error for a value that Marmota cannot represent. It names the row, the field and the
/// value, so that the row can be found in a list.
#[cold]
fn unreadable(table: &Table, columns: &[Column], mut stored: Row<'_>, column: Column) -> Error {
    let field = &table.fields()[usize::from(column.position)];
    let (mut row, mut text) = (String::new(), String::new());
    for of in columns {
        let Ok(Some(bytes)) = stored.next_column() else { continue };
        if of.position == column.position {
            text = value::unreadable(column.pg_type, bytes);
        } else if usize::from(of.position) == table.key()
            && let Some(key) = value::read(of.pg_type, bytes)
        {
            row = format!(" of row {}", model::text::excerpt_of(key));
        }
    }
    let message = format!(
        "the value{row} in `{}` cannot be represented by a {} field: another program wrote this \
         value; correct it in the database, or leave the field out of the read",
        table.name(),
        field.kind.name()
    );
    Error::invalid(vec![Violation {
        field: field.name.to_string(),
        value: text,
        rule: "type".to_owned(),
        message,
    }])
}
