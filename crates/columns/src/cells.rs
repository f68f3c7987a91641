//! [`Cells`]: the values of one field in row order, in the narrowest form that the field's kind
//! allows.

use marmota_model::{Currency, Date, Kind, Time, Timestamp, Uuid, ValueForm, ValueRef};

use crate::dictionary::Dictionary;
use crate::narrow::Ints;
use crate::steps::TextIds;

/// The form in which the values of a kind are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Numbers of texts in a dictionary.
    Text,
    /// Numbers of JSON texts in a dictionary.
    Json,
    /// Integers, and values that an integer represents (see [`to_int`]).
    Int,
    /// 64-bit floats.
    Float,
    /// UUIDs.
    Uuid,
}

impl Form {
    /// Returns the form of a kind, or `None` for kinds without a text form in CSV.
    pub(crate) const fn of(kind: &Kind) -> Option<Self> {
        Some(match kind.form() {
            ValueForm::Text => Self::Text,
            ValueForm::Json => Self::Json,
            ValueForm::Bool
            | ValueForm::Int
            | ValueForm::Currency
            | ValueForm::Date
            | ValueForm::Time
            | ValueForm::Timestamp => Self::Int,
            ValueForm::Float => Self::Float,
            ValueForm::Uuid => Self::Uuid,
            ValueForm::Blob => return None,
        })
    }
}

/// The values of one field.
#[derive(Debug)]
pub(crate) struct Cells {
    pub(crate) values: Values,
    pub(crate) nulls: Nulls,
}

/// All values except NULLs. A NULL has an arbitrary value here; NULL texts are in the dictionary.
#[derive(Debug)]
pub(crate) enum Values {
    Text(TextIds, Dictionary),
    Int(Ints),
    Float(Vec<f64>),
    Uuid(Vec<Uuid>),
    /// The number of the row, from 1.
    RowNumber,
}

/// The rows that are NULL: one bit per row. Empty if no value is NULL.
#[derive(Debug, Default)]
pub(crate) struct Nulls(Vec<u64>);

impl Nulls {
    pub(crate) fn set(&mut self, row: usize) {
        if self.0.len() <= row / 64 {
            self.0.resize(row / 64 + 1, 0);
        }
        self.0[row / 64] |= 1 << (row % 64);
    }

    #[inline]
    pub(crate) fn has(&self, row: usize) -> bool {
        self.0.get(row / 64).is_some_and(|bits| bits >> (row % 64) & 1 == 1)
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.0
    }
}

impl Cells {
    /// Returns the value of a row, which must exist.
    #[inline]
    pub(crate) fn value(&self, kind: &Kind, row: usize) -> ValueRef<'_> {
        if self.nulls.has(row) {
            return ValueRef::Null;
        }
        match &self.values {
            Values::Text(ids, dictionary) => match dictionary.text(ids.at(row)) {
                None => ValueRef::Null,
                Some(text) if matches!(kind, Kind::Json | Kind::File { .. }) => {
                    ValueRef::Json(text)
                }
                Some(text) => ValueRef::Text(text),
            },
            Values::Int(ints) => from_int(kind, ints.at(row)),
            Values::Float(floats) => ValueRef::Float(floats[row]),
            Values::Uuid(uuids) => ValueRef::Uuid(uuids[row]),
            Values::RowNumber => ValueRef::Int(row as i64 + 1),
        }
    }

    /// Returns the memory in use, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.nulls.0.capacity() * size_of::<u64>()
            + match &self.values {
                Values::Text(ids, dictionary) => ids.bytes() + dictionary.bytes(),
                Values::Int(ints) => ints.bytes(),
                Values::Float(floats) => floats.capacity() * size_of::<f64>(),
                Values::Uuid(uuids) => uuids.capacity() * size_of::<Uuid>(),
                Values::RowNumber => 0,
            }
    }
}

/// Returns the integer that represents a value of a kind whose form is [`Form::Int`].
pub(crate) fn to_int(value: ValueRef<'_>) -> Option<i64> {
    Some(match value {
        ValueRef::Bool(value) => i64::from(value),
        ValueRef::Int(value) => value,
        ValueRef::Currency(amount) => amount.scaled(),
        ValueRef::Date(day) => i64::from(day.days()),
        ValueRef::Time(time) => time.micros(),
        ValueRef::Timestamp(at) => at.micros(),
        ValueRef::Absent
        | ValueRef::Null
        | ValueRef::Float(_)
        | ValueRef::Text(_)
        | ValueRef::Blob(_)
        | ValueRef::Json(_)
        | ValueRef::Uuid(_) => return None,
    })
}

/// Converts an integer back to the value given to [`to_int`].
fn from_int(kind: &Kind, int: i64) -> ValueRef<'static> {
    match kind.form() {
        ValueForm::Bool => ValueRef::Bool(int != 0),
        ValueForm::Currency => ValueRef::Currency(Currency::from_scaled(int)),
        // These integers were made from valid values.
        ValueForm::Date => {
            let day = i32::try_from(int).ok().and_then(|days| Date::from_days(days).ok());
            day.map_or(ValueRef::Null, ValueRef::Date)
        }
        ValueForm::Time => Time::from_micros(int).map_or(ValueRef::Null, ValueRef::Time),
        ValueForm::Timestamp => {
            Timestamp::from_micros(int).map_or(ValueRef::Null, ValueRef::Timestamp)
        }
        ValueForm::Int
        | ValueForm::Float
        | ValueForm::Text
        | ValueForm::Json
        | ValueForm::Blob
        | ValueForm::Uuid => ValueRef::Int(int),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_integer_stands_for_comes_back() {
        for (kind, text) in [
            (Kind::Bool, "true"),
            (Kind::I64, "-7"),
            (Kind::Currency, "12.5"),
            (Kind::Date, "1867-11-07"),
            (Kind::Time, "17:05:00.25"),
            (Kind::Timestamp, "2026-11-21T17:05:00Z"),
        ] {
            let value = marmota_model::text::parse(&kind, text).unwrap();
            assert_eq!(from_int(&kind, to_int(value).unwrap()), value);
        }
    }

    #[test]
    fn nulls_are_bits() {
        let mut nulls = Nulls::default();
        nulls.set(64);
        assert_eq!(
            [0, 63, 64, 65, 999].map(|row| nulls.has(row)),
            [false, false, true, false, false]
        );
    }
}
