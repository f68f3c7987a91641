//! The values of the driver: as parameters, and as read from results.

use marmota_blocking::{ColumnName, ReadAs, timestamp_text};
use marmota_model::{Currency, Date, Time, Timestamp, Uuid, ValueForm, ValueRef};
use mysql::Value as Parameter;
use mysql::consts::ColumnType;

use crate::row::Cell;

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Returns a value as a parameter.
pub(crate) fn parameter(value: ValueRef<'_>) -> Parameter {
    let bytes = |text: String| Parameter::Bytes(text.into_bytes());
    match value {
        ValueRef::Absent | ValueRef::Null => Parameter::NULL,
        ValueRef::Bool(value) => Parameter::Int(value.into()),
        ValueRef::Int(value) => Parameter::Int(value),
        ValueRef::Float(value) => Parameter::Double(value),
        ValueRef::Currency(value) => bytes(value.to_string()),
        ValueRef::Text(text) | ValueRef::Json(text) => Parameter::Bytes(text.as_bytes().to_vec()),
        ValueRef::Blob(blob) => Parameter::Bytes(blob.to_vec()),
        ValueRef::Uuid(uuid) => Parameter::Bytes(uuid.as_bytes().to_vec()),
        ValueRef::Date(date) => bytes(date.to_string()),
        ValueRef::Time(time) => bytes(time.to_string()),
        ValueRef::Timestamp(at) => bytes(timestamp_text(at)),
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
    pub(crate) fn read(self, cell: Cell<'_>) -> Option<ValueRef<'_>> {
        Some(match cell {
            Cell::Int(value) => ValueRef::Int(value),
            Cell::UInt(value) => {
                i64::try_from(value).map_or(ValueRef::Float(value as f64), ValueRef::Int)
            }
            Cell::Float(value) => ValueRef::Float(value.into()),
            Cell::Double(value) => ValueRef::Float(value),
            Cell::Date(..) => read(ValueForm::Timestamp, cell)?,
            Cell::Time(..) => read(ValueForm::Time, cell)?,
            Cell::Bytes(bytes) if self.is_decimal => {
                let text = std::str::from_utf8(bytes).ok()?;
                let float = |_| text.parse().map(ValueRef::Float);
                text.parse().map(ValueRef::Int).or_else(float).ok()?
            }
            Cell::Bytes(bytes) if self.is_binary => ValueRef::Blob(bytes),
            Cell::Bytes(bytes) => ValueRef::Text(std::str::from_utf8(bytes).ok()?),
            Cell::Null => ValueRef::Null,
        })
    }
}

/// Reads a stored value; `None` if it is invalid for the field.
pub(crate) fn read(form: ValueForm, cell: Cell<'_>) -> Option<ValueRef<'_>> {
    let utf8 = || std::str::from_utf8(bytes(cell)?).ok();
    Some(match form {
        _ if cell == Cell::Null => ValueRef::Null,
        ValueForm::Int => ValueRef::Int(integer(cell)?),
        ValueForm::Bool => ValueRef::Bool(integer(cell)? != 0),
        ValueForm::Float => ValueRef::Float(match cell {
            Cell::Double(value) => value,
            Cell::Float(value) => value.into(),
            Cell::Int(value) => value as f64,
            _ => utf8()?.parse().ok()?,
        }),
        ValueForm::Currency => ValueRef::Currency(match integer(cell) {
            Some(whole) => Currency::from_scaled(whole.checked_mul(Currency::SCALE)?),
            None => utf8()?.parse().ok()?,
        }),
        ValueForm::Text => ValueRef::Text(utf8()?),
        ValueForm::Json => ValueRef::Json(utf8()?),
        ValueForm::Blob => ValueRef::Blob(bytes(cell)?),
        ValueForm::Uuid => ValueRef::Uuid(Uuid::from_slice(bytes(cell)?).ok()?),
        ValueForm::Date => match cell {
            Cell::Date(year, month, day, 0, 0, 0, 0) => ValueRef::Date(date(year, month, day)?),
            _ => ValueRef::Date(utf8()?.parse().ok()?),
        },
        ValueForm::Time => match cell {
            Cell::Time(false, 0, hour, minute, second, micros) => {
                ValueRef::Time(Time::from_micros(micros_of_day(hour, minute, second, micros)).ok()?)
            }
            _ => ValueRef::Time(utf8()?.parse().ok()?),
        },
        ValueForm::Timestamp => match cell {
            Cell::Date(year, month, day, hour, minute, second, micros) => {
                let days = i64::from(date(year, month, day)?.days());
                let of_day = micros_of_day(hour, minute, second, micros);
                ValueRef::Timestamp(Timestamp::from_micros(days * MICROS_PER_DAY + of_day).ok()?)
            }
            _ => return None,
        },
    })
}

fn bytes(cell: Cell<'_>) -> Option<&[u8]> {
    match cell {
        Cell::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

fn integer(cell: Cell<'_>) -> Option<i64> {
    match cell {
        Cell::Int(value) => Some(value),
        Cell::UInt(value) => i64::try_from(value).ok(),
        _ => None,
    }
}

fn date(year: u16, month: u8, day: u8) -> Option<Date> {
    if year > 9_999 || month > 99 || day > 99 {
        return None;
    }
    let digit = |number: u16| b'0' + (number % 10) as u8;
    let (month, day) = (u16::from(month), u16::from(day));
    let text = [
        digit(year / 1_000),
        digit(year / 100),
        digit(year / 10),
        digit(year),
        b'-',
        digit(month / 10),
        digit(month),
        b'-',
        digit(day / 10),
        digit(day),
    ];
    std::str::from_utf8(&text).ok()?.parse().ok()
}

fn micros_of_day(hour: u8, minute: u8, second: u8, micros: u32) -> i64 {
    let seconds = (i64::from(hour) * 60 + i64::from(minute)) * 60 + i64::from(second);
    seconds * 1_000_000 + i64::from(micros)
}

/// How the rows of a result are read.
pub(crate) struct RowReader {
    forms: Vec<Option<ValueForm>>,
    types: Vec<ComputedType>,
    /// The columns whose integers are read as texts: conditions of the catalog.
    number_texts: Vec<usize>,
}

impl RowReader {
    pub(crate) fn of(columns: &[mysql::Column], read: &mut ReadAs<'_>) -> Self {
        let forms: Vec<Option<ValueForm>> = match read {
            ReadAs::Forms(forms) => forms.iter().copied().map(Some).collect(),
            ReadAs::Columns(_) if columns.is_empty() => Vec::new(),
            ReadAs::Columns(choose) => choose(columns.iter().map(column_name).collect()),
        };
        let is_number_text = |&at: &usize| {
            forms.get(at) == Some(&Some(ValueForm::Text)) && is_integer(columns[at].column_type())
        };
        let number_texts = (0..columns.len()).filter(is_number_text).collect();
        Self { forms, types: columns.iter().map(ComputedType::of).collect(), number_texts }
    }

    /// Passes a row to `take`, each value in its form.
    pub(crate) fn lend<T>(
        &self,
        cells: &[Cell<'_>],
        take: impl FnOnce(&[Option<ValueRef<'_>>]) -> T,
    ) -> T {
        let value = |(at, &cell): (usize, &_)| match (self.forms.get(at), self.types.get(at)) {
            (Some(&Some(form)), _) => read(form, cell),
            (_, Some(of)) => of.read(cell),
            (_, None) => None,
        };
        if self.number_texts.is_empty() {
            let values: Vec<_> = cells.iter().enumerate().map(value).collect();
            return take(&values);
        }
        let text = |&at: &usize| integer(*cells.get(at)?).map(|number| number.to_string());
        let texts: Vec<Option<String>> = self.number_texts.iter().map(text).collect();
        let mut values: Vec<_> = cells.iter().enumerate().map(value).collect();
        for (&at, text) in self.number_texts.iter().zip(&texts) {
            if let (Some(value), Some(text)) = (values.get_mut(at), text) {
                *value = Some(ValueRef::Text(text));
            }
        }
        take(&values)
    }
}

fn is_integer(of: ColumnType) -> bool {
    matches!(
        of,
        ColumnType::MYSQL_TYPE_TINY
            | ColumnType::MYSQL_TYPE_SHORT
            | ColumnType::MYSQL_TYPE_INT24
            | ColumnType::MYSQL_TYPE_LONG
            | ColumnType::MYSQL_TYPE_LONGLONG
    )
}

fn column_name(column: &mysql::Column) -> ColumnName {
    ColumnName {
        shown: column.name_str().into_owned(),
        table: column.org_table_str().into_owned(),
        column: column.org_name_str().into_owned(),
    }
}
