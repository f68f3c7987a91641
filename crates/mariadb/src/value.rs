//! The values of the driver: as parameters, and as read from results.

use marmota_blocking::timestamp_text;
use marmota_model::{Currency, Date, Time, Timestamp, Uuid, Value, ValueForm, ValueRef};
use mysql::Value as Cell;
use mysql::consts::ColumnType;

const MICROS_PER_DAY: i64 = 86_400_000_000;

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

/// Returns the number of bytes of a parameter, at most.
pub(crate) fn bytes_of(cell: &Cell) -> usize {
    match cell {
        Cell::Bytes(bytes) => bytes.len() + 11,
        _ => 15,
    }
}

/// The type of a computed column, as far as the driver's value does not have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComputedType {
    is_binary: bool,
    is_decimal: bool,
}

impl ComputedType {
    pub(crate) fn of(column: &mysql::Column) -> Self {
        Self {
            // The collation of bytes.
            is_binary: column.character_set() == 63,
            is_decimal: column.column_type() == ColumnType::MYSQL_TYPE_NEWDECIMAL,
        }
    }

    /// Returns a value by its own type.
    pub(crate) fn read(self, cell: Cell) -> Option<Value> {
        Some(match cell {
            Cell::Int(value) => Value::Int(value),
            Cell::UInt(value) => {
                i64::try_from(value).map_or(Value::Float(value as f64), Value::Int)
            }
            Cell::Float(value) => Value::Float(value.into()),
            Cell::Double(value) => Value::Float(value),
            Cell::Date(..) => read(ValueForm::Timestamp, cell)?,
            Cell::Time(..) => read(ValueForm::Time, cell)?,
            Cell::Bytes(bytes) if self.is_decimal => {
                let text = std::str::from_utf8(&bytes).ok()?;
                text.parse().map(Value::Int).or_else(|_| text.parse().map(Value::Float)).ok()?
            }
            Cell::Bytes(bytes) if self.is_binary => Value::Blob(bytes),
            Cell::Bytes(bytes) => Value::Text(String::from_utf8(bytes).ok()?),
            Cell::NULL => Value::Null,
        })
    }
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
        // Conditions of the catalog are integers.
        ValueForm::Text => match cell {
            Cell::Int(number) => Value::Text(number.to_string()),
            Cell::UInt(number) => Value::Text(number.to_string()),
            cell => Value::Text(utf8(cell)?),
        },
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
