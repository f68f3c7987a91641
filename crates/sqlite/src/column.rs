//! How a field's values lie in SQLite: the column's type, binding, reading.
//!
//! Whole numbers of all sorts are INTEGER (booleans 0 and 1, amounts in
//! ten-thousandths, days and microseconds since 1970), floats REAL, texts,
//! JSON and names TEXT, bytes and UUIDs BLOB.

use marmota_model::{
    Collation, Currency, Date, EnumStored, Error, ErrorKind, Field, KeyKind, Kind, Result, Table,
    Time, Timestamp, Uuid, Value, ValueRef,
};

use crate::ffi::{Columns, Run, Storage};

/// A column of a result and the field it is read into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) position: u8,
    reading: Reading,
    /// True if SQLite itself holds the column to its type and to not being
    /// NULL, so that there is nothing to look at before reading.
    certain: bool,
}

#[derive(Clone, Copy, Debug)]
enum Reading {
    Bool,
    Int,
    Float,
    Currency,
    Text,
    Blob,
    Json,
    Date,
    Time,
    Timestamp,
    Uuid,
}

impl Column {
    pub(crate) fn new(table: &Table, position: usize, certain: bool) -> Self {
        let reading = Reading::of(&table.fields()[position].kind);
        Self { position: position as u8, reading, certain }
    }

    /// Reads the column `at` of a row.
    ///
    /// # Errors
    /// Nothing: `None` if what is stored is no value of the field.
    #[inline]
    pub(crate) fn read<'r>(self, columns: Columns<'r>, at: usize) -> Option<ValueRef<'r>> {
        if !self.certain {
            let storage = columns.storage(at);
            if storage == Storage::Null {
                return Some(ValueRef::Null);
            }
            if !self.reading.fits(storage) {
                return None;
            }
        }
        // SQLite stores what it is given: texts are checked here, once.
        let text = || std::str::from_utf8(columns.bytes(at)).ok();
        Some(match self.reading {
            Reading::Int => ValueRef::Int(columns.int(at)),
            Reading::Text => ValueRef::Text(text()?),
            Reading::Timestamp => {
                ValueRef::Timestamp(Timestamp::from_micros(columns.int(at)).ok()?)
            }
            Reading::Currency => ValueRef::Currency(Currency::from_scaled(columns.int(at))),
            Reading::Bool => ValueRef::Bool(columns.int(at) != 0),
            Reading::Float => ValueRef::Float(columns.float(at)),
            Reading::Blob => ValueRef::Blob(columns.bytes(at)),
            Reading::Json => ValueRef::Json(text()?),
            Reading::Date => {
                ValueRef::Date(Date::from_days(i32::try_from(columns.int(at)).ok()?).ok()?)
            }
            Reading::Time => ValueRef::Time(Time::from_micros(columns.int(at)).ok()?),
            Reading::Uuid => ValueRef::Uuid(Uuid::from_slice(columns.bytes(at)).ok()?),
        })
    }

    /// The error for a stored value that [`Column::read`] refuses.
    #[cold]
    pub(crate) fn misfit(self, table: &Table, columns: Columns<'_>, at: usize) -> Error {
        let field = &table.fields()[usize::from(self.position)];
        let stored = match columns.storage(at) {
            Storage::Text if std::str::from_utf8(columns.bytes(at)).is_err() => {
                "a text that is not UTF-8".to_owned()
            }
            Storage::Text => format!("the text {:?}", lossy_excerpt(columns.bytes(at))),
            Storage::Blob => format!("{} bytes", columns.bytes(at).len()),
            Storage::Integer => format!("the integer {}", columns.int(at)),
            Storage::Real => format!("the float {}", columns.float(at)),
            Storage::Null => "NULL".to_owned(),
        };
        Error::new(
            ErrorKind::Engine,
            format!(
                "field `{}` of `{}` holds {stored}, which is no {}: another program wrote it; \
                 correct it there",
                field.name,
                table.name(),
                field.kind.name()
            ),
        )
    }
}

fn lossy_excerpt(bytes: &[u8]) -> String {
    marmota_model::text::excerpt(&String::from_utf8_lossy(bytes))
}

impl Reading {
    fn of(kind: &Kind) -> Self {
        match kind {
            Kind::Bool => Self::Bool,
            Kind::Float => Self::Float,
            Kind::Currency => Self::Currency,
            Kind::Blob => Self::Blob,
            Kind::Json => Self::Json,
            Kind::Date => Self::Date,
            Kind::Time => Self::Time,
            Kind::Timestamp => Self::Timestamp,
            Kind::Uuid | Kind::Reference { key: KeyKind::Uuid, .. } => Self::Uuid,
            Kind::Int { .. }
            | Kind::Enum { stored: EnumStored::Integer, .. }
            | Kind::Reference { key: KeyKind::Auto, .. } => Self::Int,
            // A kind that is not known here is text, as is what is text.
            _ => Self::Text,
        }
    }

    const fn fits(self, storage: Storage) -> bool {
        match self {
            Self::Text | Self::Json => matches!(storage, Storage::Text),
            Self::Blob | Self::Uuid => matches!(storage, Storage::Blob),
            Self::Float => matches!(storage, Storage::Real | Storage::Integer),
            _ => matches!(storage, Storage::Integer),
        }
    }
}

/// The type that a column of such a field is declared with.
pub(crate) fn sql_type(kind: &Kind) -> &'static str {
    match Reading::of(kind) {
        Reading::Float => "REAL",
        Reading::Text | Reading::Json => "TEXT",
        Reading::Blob | Reading::Uuid => "BLOB",
        _ => "INTEGER",
    }
}

/// A column's definition behind its name and type, for what SQLite itself is
/// to hold it to.
pub(crate) fn sql_collation(field: &Field) -> &'static str {
    match field.kind.collation() {
        Collation::Binary => "",
        Collation::NoCase => " COLLATE NOCASE",
    }
}

/// A value as a constant in SQL.
pub(crate) fn sql_literal(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Absent | ValueRef::Null => "NULL".to_owned(),
        ValueRef::Bool(value) => i64::from(value).to_string(),
        ValueRef::Int(value) => value.to_string(),
        // The shortest form that reads back the same; never NaN or infinite.
        ValueRef::Float(value) => format!("{value:?}"),
        ValueRef::Currency(value) => value.scaled().to_string(),
        ValueRef::Text(text) | ValueRef::Json(text) => format!("'{}'", text.replace('\'', "''")),
        ValueRef::Blob(bytes) => sql_blob(bytes),
        ValueRef::Uuid(value) => sql_blob(value.as_bytes()),
        ValueRef::Date(value) => value.days().to_string(),
        ValueRef::Time(value) => value.micros().to_string(),
        ValueRef::Timestamp(value) => value.micros().to_string(),
    }
}

fn sql_blob(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("x'{digits}'")
}

/// Binds a value to the next parameter, where it lies.
#[inline]
pub(crate) fn bind<'v>(run: &mut Run<'_, 'v>, value: &'v ValueRef<'v>) {
    match value {
        ValueRef::Text(text) | ValueRef::Json(text) => run.bind_text(text),
        ValueRef::Blob(bytes) => run.bind_blob(bytes),
        ValueRef::Uuid(uuid) => run.bind_blob(uuid.as_bytes()),
        number => bind_number(run, *number),
    }
}

/// [`bind`] for a value that owns its memory.
#[inline]
pub(crate) fn bind_value<'v>(run: &mut Run<'_, 'v>, value: &'v Value) {
    match value {
        Value::Text(text) | Value::Json(text) => run.bind_text(text),
        Value::Blob(bytes) => run.bind_blob(bytes),
        Value::Uuid(uuid) => run.bind_blob(uuid.as_bytes()),
        number => bind_number(run, number.as_ref()),
    }
}

#[inline]
fn bind_number(run: &mut Run<'_, '_>, value: ValueRef<'_>) {
    match value {
        ValueRef::Bool(value) => run.bind_int(i64::from(value)),
        ValueRef::Int(value) => run.bind_int(value),
        ValueRef::Float(value) => run.bind_float(value),
        ValueRef::Currency(value) => run.bind_int(value.scaled()),
        ValueRef::Date(value) => run.bind_int(i64::from(value.days())),
        ValueRef::Time(value) => run.bind_int(value.micros()),
        ValueRef::Timestamp(value) => run.bind_int(value.micros()),
        _ => run.bind_null(),
    }
}

/// Reads one row and lends it to `take`.
///
/// # Errors
/// [`ErrorKind::Engine`] for a stored value that is none of its field.
#[inline]
pub(crate) fn lend<const N: usize, T>(
    table: &Table,
    plan: &[Column],
    columns: Columns<'_>,
    take: impl FnOnce(&[ValueRef<'_>]) -> T,
) -> Result<T> {
    // Made anew for each row: what it borrows ends with the row.
    let mut row = [ValueRef::Absent; N];
    for (at, column) in plan.iter().enumerate() {
        match column.read(columns, at) {
            Some(value) => row[usize::from(column.position)] = value,
            None => return Err(column.misfit(table, columns, at)),
        }
    }
    Ok(take(&row[..table.fields().len()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_quoted() {
        for (value, sql) in [
            (ValueRef::Text("O'Sullivan"), "'O''Sullivan'"),
            (ValueRef::Float(1e300), "1e300"),
            (ValueRef::Float(1.0), "1.0"),
            (ValueRef::Blob(&[0, 255]), "x'00ff'"),
            (ValueRef::Bool(true), "1"),
            (ValueRef::Currency(Currency::from_scaled(-5)), "-5"),
        ] {
            assert_eq!(sql_literal(value), sql);
        }
    }
}
