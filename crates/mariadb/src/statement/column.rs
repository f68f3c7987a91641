//! The storage of field values in MariaDB: column types, values as parameters, reading rows.
//!
//! | kind | column |
//! |---|---|
//! | boolean, integers | TINYINT(1), SMALLINT, INT, BIGINT by range |
//! | currency | DECIMAL(19,4) |
//! | text | VARCHAR up to [`CHARS_MAX`] characters, and for keys; LONGTEXT otherwise |
//! | JSON, file | LONGTEXT: JSON's check would refuse documents that are nested deeply |
//! | blob, vector | LONGBLOB |
//! | date, time, timestamp | DATE, TIME(6), DATETIME(6) in UTC |
//! | UUID | BINARY(16), in the order of its bytes |
//!
//! A text that compares without regard to the case of A to Z has another column next to it, which
//! the server generates ([`folded_name`]).

use marmota_model::{
    Collation, Currency, Date, Error, Field, FieldSet, Kind, Result, Table, Time, Timestamp, Uuid,
    Value, ValueForm, ValueRef, Violation, text::excerpt,
};
use marmota_sql::quoted;

use crate::connection::Cell;

/// Texts with at most this number of characters are VARCHAR: 64 such columns fit a row.
const CHARS_MAX: u32 = 250;
/// The characters of a key, or of a reference to one: an index has at most 3,072 bytes.
pub(crate) const KEY_CHARS: u32 = 700;
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Returns the declared type of a field's column, in the form in which the server reports it.
pub(crate) fn sql_type(table: &Table, position: usize) -> String {
    let field = &table.fields()[position];
    let is_key = position == table.key() || matches!(field.kind, Kind::Reference { .. });
    match (field.kind.form(), &field.kind) {
        (ValueForm::Bool, _) => "tinyint(1)".to_owned(),
        (ValueForm::Int, Kind::Int { min, max }) if position != table.key() => {
            let fits = |low: i64, high: i64| *min >= low && *max <= high;
            if fits(i16::MIN.into(), i16::MAX.into()) {
                "smallint(6)".to_owned()
            } else if fits(i32::MIN.into(), i32::MAX.into()) {
                "int(11)".to_owned()
            } else {
                "bigint(20)".to_owned()
            }
        }
        (ValueForm::Int, _) => "bigint(20)".to_owned(),
        (ValueForm::Float, _) => "double".to_owned(),
        (ValueForm::Currency, _) => "decimal(19,4)".to_owned(),
        (ValueForm::Text, Kind::Text { chars_max: chars @ 1..=CHARS_MAX, .. }) if !is_key => {
            format!("varchar({chars})")
        }
        (ValueForm::Text, _) if is_key => format!("varchar({KEY_CHARS})"),
        (ValueForm::Text | ValueForm::Json, _) => "longtext".to_owned(),
        (ValueForm::Blob, _) => "longblob".to_owned(),
        (ValueForm::Date, _) => "date".to_owned(),
        (ValueForm::Time, _) => "time(6)".to_owned(),
        (ValueForm::Timestamp, _) => "datetime(6)".to_owned(),
        (ValueForm::Uuid, _) => "binary(16)".to_owned(),
    }
}

/// Returns true if a column of this type has texts or bytes of any length, of which an index has a
/// prefix only.
pub(crate) fn is_long(declared: &str) -> bool {
    declared.starts_with("long")
}

/// Returns true if the field's texts compare without regard to the case of A to Z.
pub(crate) fn is_folded(field: &Field) -> bool {
    field.kind.collation() == Collation::NoCase
}

/// Returns the name of the column with the bytes of a text in lower case.
pub(crate) fn folded_name(field: &str) -> String {
    marmota_sql::bounded(&format!("fold:{field}"))
}

/// Returns the bytes of a column's texts, A to Z in lower case.
///
/// The character set tis620 has one byte for each character, and other letters than A to Z have no
/// case in it: so the bytes of other characters are unchanged.
pub(crate) fn folded_sql(name: &str) -> String {
    format!("cast(lower(convert(cast({name} as binary) using tis620)) as binary)")
}

/// Returns a text as [`folded_sql`] has it.
pub(crate) fn folded(text: &str) -> Cell {
    Cell::Bytes(text.to_ascii_lowercase().into_bytes())
}

/// Returns a field's name in SQL.
pub(crate) fn name(table: &Table, position: usize) -> String {
    quoted(&table.fields()[position].name)
}

/// Returns the SQL expression by which a field is compared and sorted.
pub(crate) fn compared(field: &Field) -> String {
    match is_folded(field) {
        true => quoted(&folded_name(&field.name)),
        false => quoted(&field.name),
    }
}

/// Returns the placeholder of a value that a field is compared with or that is added to it: a
/// decimal would be compared with a text as a float.
pub(crate) fn placeholder(field: &Field) -> &'static str {
    match field.kind.form() {
        ValueForm::Currency => "CAST(? AS DECIMAL(19,4))",
        _ => "?",
    }
}

/// Returns a value as a parameter.
pub(crate) fn cell(value: ValueRef<'_>) -> Cell {
    let bytes = |text: String| Cell::Bytes(text.into_bytes());
    match value {
        ValueRef::Absent | ValueRef::Null => Cell::NULL,
        ValueRef::Bool(value) => Cell::Int(value.into()),
        ValueRef::Int(value) => Cell::Int(value),
        ValueRef::Float(value) => Cell::Double(value),
        ValueRef::Currency(value) => bytes(value.to_string()),
        ValueRef::Text(text) | ValueRef::Json(text) => Cell::Bytes(text.as_bytes().to_vec()),
        ValueRef::Blob(blob) => Cell::Bytes(blob.to_vec()),
        ValueRef::Uuid(uuid) => Cell::Bytes(uuid.as_bytes().to_vec()),
        ValueRef::Date(date) => bytes(date.to_string()),
        ValueRef::Time(time) => bytes(time.to_string()),
        ValueRef::Timestamp(at) => bytes(timestamp_text(at)),
    }
}

/// Returns a value that a field is compared with, as a parameter.
pub(crate) fn compared_cell(field: &Field, value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Text(text) if is_folded(field) => folded(text),
        value => cell(value),
    }
}

fn timestamp_text(at: Timestamp) -> String {
    let (days, micros) =
        (at.micros().div_euclid(MICROS_PER_DAY), at.micros().rem_euclid(MICROS_PER_DAY));
    let date = i32::try_from(days).ok().and_then(|days| Date::from_days(days).ok());
    let time = Time::from_micros(micros).unwrap_or_default();
    format!("{} {time}", date.unwrap_or_default())
}

/// Returns a value as an SQL literal, for defaults.
pub(crate) fn literal(value: ValueRef<'_>) -> String {
    match cell(value) {
        Cell::NULL => "NULL".to_owned(),
        Cell::Int(value) => value.to_string(),
        Cell::Double(value) => format!("{value:e}"),
        Cell::Bytes(bytes) if matches!(value, ValueRef::Blob(_) | ValueRef::Uuid(_)) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("x'{digits}'")
        }
        Cell::Bytes(bytes) => text_literal(&String::from_utf8_lossy(&bytes)),
        _ => "NULL".to_owned(),
    }
}

/// Returns a text as an SQL literal.
pub(crate) fn text_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns the fields that a statement reads, and their names in SQL.
pub(crate) fn columns(table: &Table, fields: FieldSet) -> (Vec<usize>, String) {
    let known: Vec<usize> = fields.iter().filter(|&at| at < table.fields().len()).collect();
    let names: Vec<String> = known.iter().map(|&at| name(table, at)).collect();
    let names = if names.is_empty() { "1".to_owned() } else { names.join(",") };
    (known, names)
}

/// Returns a row with these columns; other fields are absent.
///
/// # Errors
/// [`marmota_model::ErrorKind::Invalid`] for a stored value that is invalid for its field.
pub(crate) fn row_of(table: &Table, columns: &[usize], cells: Vec<Cell>) -> Result<Vec<Value>> {
    let mut row = vec![Value::Absent; table.fields().len()];
    for (&position, cell) in columns.iter().zip(cells) {
        let shown = (position != table.key()).then(|| row[table.key()].clone());
        row[position] = read(table.fields()[position].kind.form(), cell)
            .ok_or_else(|| unreadable(table, position, shown))?;
    }
    Ok(row)
}

#[cold]
fn unreadable(table: &Table, position: usize, key: Option<Value>) -> Error {
    let field = &table.fields()[position];
    let row = match key {
        Some(key) if key != Value::Absent => {
            format!(" of row {}", marmota_model::text::excerpt_of(key.as_ref()))
        }
        _ => String::new(),
    };
    let message = format!(
        "the value{row} in `{}` cannot be represented by a {} field: another program wrote this \
         value; correct it in the database, or leave the field out of the read",
        table.name(),
        field.kind.name()
    );
    Error::invalid(vec![Violation {
        field: field.name.to_string(),
        value: excerpt("?"),
        rule: "type".to_owned(),
        message,
    }])
}

/// Reads a stored value; `None` if it is invalid for the field.
pub(crate) fn read(form: ValueForm, cell: Cell) -> Option<Value> {
    if cell == Cell::NULL {
        return Some(Value::Null);
    }
    let utf8 = |cell| match cell {
        Cell::Bytes(bytes) => String::from_utf8(bytes).ok(),
        _ => None,
    };
    Some(match form {
        ValueForm::Int => Value::Int(integer(&cell)?),
        ValueForm::Bool => Value::Bool(integer(&cell)? != 0),
        ValueForm::Float => Value::Float(match cell {
            Cell::Double(value) => value,
            Cell::Float(value) => value.into(),
            Cell::Int(value) => value as f64,
            cell => utf8(cell)?.parse().ok()?,
        }),
        ValueForm::Currency => Value::Currency(match integer(&cell) {
            Some(whole) => Currency::from_scaled(whole.checked_mul(Currency::SCALE)?),
            None => utf8(cell)?.parse().ok()?,
        }),
        ValueForm::Text => Value::Text(utf8(cell)?),
        ValueForm::Json => Value::Json(utf8(cell)?),
        ValueForm::Blob => match cell {
            Cell::Bytes(bytes) => Value::Blob(bytes),
            _ => return None,
        },
        ValueForm::Uuid => match cell {
            Cell::Bytes(bytes) => Value::Uuid(Uuid::from_slice(&bytes).ok()?),
            _ => return None,
        },
        ValueForm::Date => match cell {
            Cell::Date(year, month, day, 0, 0, 0, 0) => Value::Date(date(year, month, day)?),
            cell => Value::Date(utf8(cell)?.parse().ok()?),
        },
        ValueForm::Time => match cell {
            Cell::Time(false, 0, hour, minute, second, micros) => {
                Value::Time(Time::from_micros(micros_of_day(hour, minute, second, micros)).ok()?)
            }
            cell => Value::Time(utf8(cell)?.parse().ok()?),
        },
        ValueForm::Timestamp => match cell {
            Cell::Date(year, month, day, hour, minute, second, micros) => {
                let days = i64::from(date(year, month, day)?.days());
                let of_day = micros_of_day(hour, minute, second, micros);
                Value::Timestamp(Timestamp::from_micros(days * MICROS_PER_DAY + of_day).ok()?)
            }
            _ => return None,
        },
    })
}

fn integer(cell: &Cell) -> Option<i64> {
    match cell {
        Cell::Int(value) => Some(*value),
        Cell::UInt(value) => i64::try_from(*value).ok(),
        _ => None,
    }
}

fn date(year: u16, month: u8, day: u8) -> Option<Date> {
    format!("{year:04}-{month:02}-{day:02}").parse().ok()
}

fn micros_of_day(hour: u8, minute: u8, second: u8, micros: u32) -> i64 {
    let seconds = (i64::from(hour) * 60 + i64::from(minute)) * 60 + i64::from(second);
    seconds * 1_000_000 + i64::from(micros)
}
