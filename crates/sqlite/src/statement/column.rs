//! The storage of field values in SQLite: column types, binding, reading.
//!
//! Integer-like kinds are INTEGER (booleans as 0 and 1, currencies in ten-thousandths, days and
//! microseconds since 1970), floats REAL, texts, JSON and enum names TEXT, bytes and UUIDs BLOB.

use marmota_model::{
    Currency, Date, Error, ErrorKind, Result, Table, Time, Timestamp, Uuid, Value, ValueForm,
    ValueRef,
};

use crate::ffi::{Bound, Row, Run, Stored, StoredCell, utf8};
use crate::statement::key::stored;

/// A column of a result, and the field of its values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) position: u8,
    form: ValueForm,
}

impl Column {
    pub(crate) fn new(table: &Table, position: usize) -> Self {
        Self { position: position as u8, form: table.fields()[position].kind.form() }
    }
}

/// Returns the error for a stored value that [`read`] refuses.
#[cold]
pub(crate) fn misfit(table: &Table, position: usize, stored: Stored<'_>) -> Error {
    let field = &table.fields()[position];
    let stored = match stored {
        Stored::Text(text) if utf8(text).is_none() => "a text that is not UTF-8".to_owned(),
        Stored::Text(text) => format!("the text {:?}", lossy_excerpt(text)),
        Stored::Blob(bytes) => format!("{} bytes", bytes.len()),
        Stored::Integer(value) => format!("the integer {value}"),
        Stored::Real(value) => format!("the float {value}"),
        Stored::Null => "NULL".to_owned(),
    };
    Error::new(
        ErrorKind::Engine,
        format!(
            "field `{}` of `{}` has the value {stored}, which is not a {}: another program \
             wrote this value; correct it in the database",
            field.name,
            table.name(),
            field.kind.name()
        ),
    )
}

fn lossy_excerpt(bytes: &[u8]) -> String {
    marmota_model::text::excerpt(&String::from_utf8_lossy(bytes))
}

/// Reads a stored value into `to`. Returns false if it is invalid for the field. (A returned value
/// would be copied, and the copy waits for the bytes just written: a thirtieth of the time of a
/// list.)
#[inline(always)]
pub(crate) fn read<'r>(form: ValueForm, cell: StoredCell<'r>, to: &mut ValueRef<'r>) -> bool {
    // First by the field, then by the value: the stored type nearly always matches, so this is one
    // jump and one comparison.
    let is_read = match form {
        ValueForm::Int => put(to, cell.integer().map(ValueRef::Int)),
        // SQLite does not validate UTF-8, so texts are checked here, once.
        ValueForm::Text => put(to, cell.text().and_then(utf8).map(ValueRef::Text)),
        ValueForm::Timestamp => {
            let time = cell.integer().and_then(|micros| Timestamp::from_micros(micros).ok());
            put(to, time.map(ValueRef::Timestamp))
        }
        ValueForm::Currency => {
            let amount = cell.integer().map(Currency::from_scaled);
            put(to, amount.map(ValueRef::Currency))
        }
        ValueForm::Bool => put(to, cell.integer().map(|value| ValueRef::Bool(value != 0))),
        ValueForm::Float => {
            let whole = || cell.integer().map(|value| value as f64);
            put(to, cell.float().or_else(whole).map(ValueRef::Float))
        }
        ValueForm::Blob => put(to, cell.blob().map(ValueRef::Blob)),
        ValueForm::Json => put(to, cell.text().and_then(utf8).map(ValueRef::Json)),
        ValueForm::Date => {
            let days = cell.integer().and_then(|days| i32::try_from(days).ok());
            put(to, days.and_then(|days| Date::from_days(days).ok()).map(ValueRef::Date))
        }
        ValueForm::Time => {
            let time = cell.integer().and_then(|micros| Time::from_micros(micros).ok());
            put(to, time.map(ValueRef::Time))
        }
        ValueForm::Uuid => {
            let uuid = cell.blob().and_then(|bytes| Uuid::from_slice(bytes).ok());
            put(to, uuid.map(ValueRef::Uuid))
        }
    };
    is_read || cell.is_null() && put(to, Some(ValueRef::Null))
}

/// Returns a value as it is bound.
#[inline(always)]
pub(crate) fn bound<'v>(value: &'v ValueRef<'v>) -> Bound<'v> {
    match value {
        ValueRef::Absent | ValueRef::Null => Bound::NULL,
        ValueRef::Text(text) | ValueRef::Json(text) => Bound::text(text),
        ValueRef::Blob(bytes) => Bound::blob(bytes),
        ValueRef::Uuid(uuid) => Bound::blob(uuid.as_bytes()),
        ValueRef::Bool(value) => Bound::int(i64::from(*value)),
        ValueRef::Int(value) => Bound::int(*value),
        ValueRef::Float(value) => Bound::float(*value),
        ValueRef::Currency(value) => Bound::int(value.scaled()),
        ValueRef::Date(value) => Bound::int(i64::from(value.days())),
        ValueRef::Time(value) => Bound::int(value.micros()),
        ValueRef::Timestamp(value) => Bound::int(value.micros()),
    }
}

/// Binds every present value of some rows, one after the other.
#[inline]
pub(crate) fn bind_present<'v>(run: &mut Run<'_, 'v>, table: &Table, rows: &'v [ValueRef<'v>]) {
    if !table.made_fields().is_empty() {
        let rows = rows.chunks(table.fields().len());
        let stored = rows.flat_map(|row| stored(table).map(|position| &row[position]));
        return run.bind_all(stored.filter(|value| !value.is_absent()).map(bound));
    }
    run.bind_all(rows.iter().filter(|value| !value.is_absent()).map(bound));
}

/// Like [`bound`] for an owned value.
pub(crate) fn bound_value(value: &Value) -> Bound<'_> {
    match value {
        Value::Text(text) | Value::Json(text) => Bound::text(text),
        Value::Blob(bytes) => Bound::blob(bytes),
        Value::Uuid(uuid) => Bound::blob(uuid.as_bytes()),
        Value::Bool(value) => Bound::int(i64::from(*value)),
        Value::Int(value) => Bound::int(*value),
        Value::Float(value) => Bound::float(*value),
        Value::Currency(value) => Bound::int(value.scaled()),
        Value::Date(value) => Bound::int(i64::from(value.days())),
        Value::Time(value) => Bound::int(value.micros()),
        Value::Timestamp(value) => Bound::int(value.micros()),
        Value::Absent | Value::Null => Bound::NULL,
    }
}

/// Stores a value in its place. Returns false if it is `None`.
#[inline(always)]
fn put<'r>(to: &mut ValueRef<'r>, value: Option<ValueRef<'r>>) -> bool {
    let Some(value) = value else { return false };
    *to = value;
    true
}

/// Passes the current row of a statement to `take`. `N` must be at least the number of the table's
/// fields.
///
/// # Errors
/// [`ErrorKind::Engine`] for a stored value of the wrong type for its field.
#[inline]
pub(crate) fn lend<const N: usize, T>(
    table: &Table,
    plan: &[Column],
    stored: Row<'_, N>,
    take: impl FnOnce(&[ValueRef<'_>]) -> T,
) -> Result<T> {
    // Created for each row, since its borrows end with the row.
    let mut row = [ValueRef::Absent; N];
    for (column, cell) in plan.iter().zip(stored.cells()) {
        if !read(column.form, cell, &mut row[usize::from(column.position)]) {
            return Err(misfit(table, usize::from(column.position), cell.stored()));
        }
    }
    Ok(take(&row[..table.fields().len()]))
}
