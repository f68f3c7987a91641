//! How a field's values lie in PostgreSQL: the column's type, and reading it.
//!
//! Whole numbers are as wide as their range asks for, amounts `numeric(19,4)`,
//! texts `text` compared byte by byte (`COLLATE "C"`), JSON `json`, which keeps
//! the text as it is.

use marmota_model::{
    self as model, Collation, Error, ErrorKind, Field, Kind, Result, Table, ValueRef, Violation,
};
pub(crate) use marmota_sql::quoted;

use crate::wire::backend::Row;
use crate::wire::value::{self, Form};

/// A column of a result and the field it is read into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) position: u8,
    form: Form,
}

impl Column {
    pub(crate) fn new(table: &Table, position: usize) -> Self {
        Self { position: position as u8, form: form(&table.fields()[position].kind) }
    }
}

/// The form that a field's values have.
pub(crate) fn form(kind: &Kind) -> Form {
    match (kind.form(), kind) {
        (model::Form::Int, Kind::Int { min, max }) => {
            let fits = |low: i64, high: i64| *min >= low && *max <= high;
            if fits(i16::MIN.into(), i16::MAX.into()) {
                Form::Int2
            } else if fits(i32::MIN.into(), i32::MAX.into()) {
                Form::Int4
            } else {
                Form::Int8
            }
        }
        (model::Form::Int, _) => Form::Int8,
        (model::Form::Bool, _) => Form::Bool,
        (model::Form::Float, _) => Form::Float8,
        (model::Form::Currency, _) => Form::Numeric,
        (model::Form::Text, _) => Form::Text,
        (model::Form::Blob, _) => Form::Bytea,
        (model::Form::Json, _) => Form::Json,
        (model::Form::Date, _) => Form::Date,
        (model::Form::Time, _) => Form::Time,
        (model::Form::Timestamp, _) => Form::Timestamptz,
        (model::Form::Uuid, _) => Form::Uuid,
    }
}

/// The form that a field is compared in.
pub(crate) fn compared_form(kind: &Kind) -> Form {
    match form(kind) {
        // A filter may look for what the column could not hold.
        Form::Int2 | Form::Int4 => Form::Int8,
        Form::Json => Form::Text,
        form => form,
    }
}

/// True if the field's texts compare without regard to the case of A to Z.
pub(crate) fn is_folded(field: &Field) -> bool {
    field.kind.collation() == Collation::NoCase
}

/// The type that a column of such a field is declared with.
pub(crate) const fn sql_type(form: Form) -> &'static str {
    match form {
        Form::Bool => "boolean",
        Form::Int2 => "smallint",
        Form::Int4 => "integer",
        Form::Int8 => "bigint",
        Form::Float8 => "double precision",
        Form::Numeric => "numeric(19,4)",
        Form::Text => "text",
        Form::Bytea => "bytea",
        Form::Json => "json",
        Form::Date => "date",
        Form::Time => "time",
        Form::Timestamptz => "timestamptz",
        Form::Uuid => "uuid",
    }
}

/// What a field is compared with other values by, in SQL; `is_collated` if the
/// column sorts texts by the rules of a language.
pub(crate) fn compared(field: &Field, is_collated: bool) -> String {
    let name = quoted(&field.name);
    match form(&field.kind) {
        Form::Json => format!("(({name})::text COLLATE \"C\")"),
        Form::Text if is_folded(field) && is_collated => {
            format!("lower({name} COLLATE \"C\")")
        }
        Form::Text if is_folded(field) => format!("lower({name})"),
        _ => name,
    }
}

/// What a field is sorted by, in SQL: texts byte by byte. Whether two texts are
/// equal is the same by either rule, and the column's own has its indexes.
pub(crate) fn sorted(field: &Field, is_collated: bool) -> String {
    let compared = compared(field, is_collated);
    match form(&field.kind) {
        Form::Text if is_collated && !is_folded(field) => format!("({compared} COLLATE \"C\")"),
        _ => compared,
    }
}

/// A value as a constant in SQL.
pub(crate) fn sql_literal(value: ValueRef<'_>) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    match value {
        ValueRef::Absent | ValueRef::Null => "NULL".to_owned(),
        ValueRef::Bool(value) => value.to_string(),
        ValueRef::Int(value) => format!("'{value}'"),
        // The shortest form that reads back the same; never NaN or infinite.
        ValueRef::Float(value) => format!("'{value:?}'"),
        ValueRef::Currency(value) => format!("'{value}'"),
        ValueRef::Text(text) | ValueRef::Json(text) => quoted(text),
        ValueRef::Blob(bytes) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("'\\x{digits}'")
        }
        ValueRef::Uuid(value) => format!("'{value}'"),
        ValueRef::Date(value) => format!("'{value}'"),
        ValueRef::Time(value) => format!("'{value}'"),
        ValueRef::Timestamp(value) => format!("'{value}'"),
    }
}

/// Lends a row to `take`. `N` is at least the number of the table's fields.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a stored value that its field does not have,
/// naming the row, the field and the value.
#[inline]
pub(crate) fn lend<const N: usize, T>(
    table: &Table,
    columns: &[Column],
    stored: Row<'_>,
    take: impl FnOnce(&[ValueRef<'_>]) -> T,
) -> Result<T> {
    // Made anew for each row: what it borrows ends with the row.
    let mut row = [ValueRef::Absent; N];
    let mut rest = stored;
    for column in columns {
        let Ok(bytes) = rest.next_column() else { return Err(too_few(table)) };
        let read = match bytes {
            None => Some(ValueRef::Null),
            Some(bytes) => value::read(column.form, bytes),
        };
        match read {
            Some(value) => row[usize::from(column.position)] = value,
            None => return Err(misfit(table, columns, stored, *column)),
        }
    }
    Ok(take(&row[..table.fields().len()]))
}

#[cold]
fn too_few(table: &Table) -> Error {
    let message = format!("PostgreSQL sent a row of `{}` with columns missing", table.name());
    Error::new(ErrorKind::Protocol, message)
}

/// The error of a value that Marmota has no type for: it names the row, the
/// field and the value, so that one row does not hide behind a list.
#[cold]
fn misfit(table: &Table, columns: &[Column], mut stored: Row<'_>, column: Column) -> Error {
    let field = &table.fields()[usize::from(column.position)];
    let (mut row, mut text) = (String::new(), String::new());
    for of in columns {
        let Ok(Some(bytes)) = stored.next_column() else { continue };
        if of.position == column.position {
            text = value::unreadable(column.form, bytes);
        } else if usize::from(of.position) == table.key()
            && let Some(key) = value::read(of.form, bytes)
        {
            row = format!(" of row {}", model::text::excerpt_of(key));
        }
    }
    let message = format!(
        "the value{row} in `{}` is one of PostgreSQL's that a {} field does not have, written by \
         another program: correct it there, or leave the field out of what is read",
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
