//! Values and rows: each value is preceded by its kind, so that a row is read without its schema.
//! Texts and bytes are borrowed from the encoded data.

use serde::de::IgnoredAny;

use super::reader::{BinaryReader, broken, put_unsigned};
use crate::{Currency, Date, Result, Time, Timestamp, Uuid, Value, ValueRef};

const ABSENT: u8 = 0;
const NULL: u8 = 1;
const FALSE: u8 = 2;
const TRUE: u8 = 3;
const INT: u8 = 4;
const FLOAT: u8 = 5;
const CURRENCY: u8 = 6;
const TEXT: u8 = 7;
const BLOB: u8 = 8;
const JSON: u8 = 9;
const DATE: u8 = 10;
const TIME: u8 = 11;
const TIMESTAMP: u8 = 12;
const UUID: u8 = 13;

/// Appends a value with its kind.
///
/// ```
/// use marmota_model::ValueRef;
/// use marmota_model::binary::{BinaryReader, put_value};
///
/// let mut out = Vec::new();
/// put_value(&mut out, ValueRef::Text("Bourges"));
/// assert_eq!(BinaryReader::new(&out).value()?.as_text(), Some("Bourges"));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[inline]
pub fn put_value(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::Absent => out.push(ABSENT),
        ValueRef::Null => out.push(NULL),
        ValueRef::Bool(value) => out.push(if value { TRUE } else { FALSE }),
        ValueRef::Int(value) => put_number(out, INT, value),
        ValueRef::Float(value) => {
            out.push(FLOAT);
            out.extend_from_slice(&value.to_bits().to_le_bytes());
        }
        ValueRef::Currency(value) => put_number(out, CURRENCY, value.scaled()),
        ValueRef::Text(text) => put_run(out, TEXT, text.as_bytes()),
        ValueRef::Blob(bytes) => put_run(out, BLOB, bytes),
        ValueRef::Json(text) => put_run(out, JSON, text.as_bytes()),
        ValueRef::Date(value) => put_number(out, DATE, i64::from(value.days())),
        ValueRef::Time(value) => put_number(out, TIME, value.micros()),
        ValueRef::Timestamp(value) => put_number(out, TIMESTAMP, value.micros()),
        ValueRef::Uuid(value) => {
            out.push(UUID);
            out.extend_from_slice(value.as_bytes());
        }
    }
}

/// Appends a kind and an integer. Both are put together first, because each `push` looks whether the
/// vector is full.
#[inline]
fn put_number(out: &mut Vec<u8>, kind: u8, value: i64) {
    put_head(out, kind, (value << 1 ^ value >> 63) as u64);
}

#[inline]
fn put_run(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    out.reserve(1 + VARINT_MAX + bytes.len());
    put_head(out, kind, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The most bytes of an integer of variable length.
const VARINT_MAX: usize = 10;

#[inline]
fn put_head(out: &mut Vec<u8>, kind: u8, mut number: u64) {
    if number < 0x80 {
        out.extend_from_slice(&[kind, number as u8]);
        return;
    }
    let (mut bytes, mut length) = ([0; 1 + VARINT_MAX], 1);
    bytes[0] = kind;
    while number >= 0x80 {
        bytes[length] = number as u8 | 0x80;
        number >>= 7;
        length += 1;
    }
    bytes[length] = number as u8;
    out.extend_from_slice(&bytes[..=length]);
}

/// Appends the values of a row, without their number.
pub fn put_row(out: &mut Vec<u8>, row: &[ValueRef<'_>]) {
    for &value in row {
        put_value(out, value);
    }
}

/// Appends values after their number.
pub fn put_values(out: &mut Vec<u8>, values: &[Value]) {
    put_unsigned(out, values.len() as u64);
    for value in values {
        put_value(out, value.as_ref());
    }
}

impl<'b> BinaryReader<'b> {
    /// Reads what [`put_value`] has written. JSON is trusted to be valid; for data of clients use
    /// [`Self::checked_value`].
    ///
    /// # Errors
    /// For an unknown kind, a value out of range, or at the end.
    #[inline]
    pub fn value(&mut self) -> Result<ValueRef<'b>> {
        let day = |days: i64| i32::try_from(days).ok().and_then(|days| Date::from_days(days).ok());
        let beyond = || broken("has a date or time out of range");
        Ok(match self.u8()? {
            ABSENT => ValueRef::Absent,
            NULL => ValueRef::Null,
            FALSE => ValueRef::Bool(false),
            TRUE => ValueRef::Bool(true),
            INT => ValueRef::Int(self.int()?),
            FLOAT => ValueRef::Float(f64::from_bits(u64::from_le_bytes(self.array()?))),
            CURRENCY => ValueRef::Currency(Currency::from_scaled(self.int()?)),
            TEXT => ValueRef::Text(self.text()?),
            BLOB => ValueRef::Blob(self.bytes()?),
            JSON => ValueRef::Json(self.text()?),
            DATE => ValueRef::Date(day(self.int()?).ok_or_else(beyond)?),
            TIME => ValueRef::Time(Time::from_micros(self.int()?).map_err(|_| beyond())?),
            TIMESTAMP => {
                ValueRef::Timestamp(Timestamp::from_micros(self.int()?).map_err(|_| beyond())?)
            }
            UUID => ValueRef::Uuid(Uuid::from_bytes(self.array()?)),
            _ => return Err(broken("has an unknown kind of value")),
        })
    }

    /// Reads a value of an untrusted client, and checks its JSON.
    ///
    /// # Errors
    /// Those of [`Self::value`], and for invalid JSON.
    pub fn checked_value(&mut self) -> Result<ValueRef<'b>> {
        let value = self.value()?;
        match value {
            ValueRef::Json(text) if serde_json::from_str::<IgnoredAny>(text).is_err() => {
                Err(broken("has an invalid JSON value"))
            }
            value => Ok(value),
        }
    }

    /// Reads as many values as the row has.
    ///
    /// # Errors
    /// Those of [`Self::value`].
    pub fn row<'a>(&mut self, row: &mut [ValueRef<'a>]) -> Result<()>
    where
        'b: 'a,
    {
        row.iter_mut().try_for_each(|value| self.value().map(|read| *value = read))
    }

    /// Reads as many values of an untrusted client as the row has.
    ///
    /// # Errors
    /// Those of [`Self::checked_value`].
    pub fn checked_row<'a>(&mut self, row: &mut [ValueRef<'a>]) -> Result<()>
    where
        'b: 'a,
    {
        row.iter_mut().try_for_each(|value| self.checked_value().map(|read| *value = read))
    }

    /// Reads what [`put_values`] has written by an untrusted client.
    ///
    /// # Errors
    /// Those of [`Self::checked_value`].
    pub fn values(&mut self) -> Result<Vec<Value>> {
        let count = self.count()?;
        (0..count).map(|_| self.checked_value().map(|value| value.to_value())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any value, with valid JSON.
    fn any_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Absent),
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            any::<i32>().prop_map(|small| Value::Float(f64::from(small) / 7.0)),
            any::<i64>().prop_map(|scaled| Value::Currency(Currency::from_scaled(scaled))),
            ".{0,40}".prop_map(Value::Text),
            any::<Vec<u8>>().prop_map(Value::Blob),
            any::<Vec<i64>>().prop_map(|list| Value::Json(format!("{list:?}"))),
            (-700_000..2_000_000_i32)
                .prop_filter_map("a day", |days| { Date::from_days(days).ok().map(Value::Date) }),
            (0..86_400_000_000_i64)
                .prop_filter_map("a time", |us| Time::from_micros(us).ok().map(Value::Time)),
            (-62_000_000_000_000_000..250_000_000_000_000_000_i64)
                .prop_filter_map("a moment", |us| {
                    Timestamp::from_micros(us).ok().map(Value::Timestamp)
                }),
            any::<u128>().prop_map(|bits| Value::Uuid(Uuid::from_u128(bits))),
        ]
    }

    proptest! {
        #[test]
        fn values_come_back(values in prop::collection::vec(any_value(), 0..20)) {
            let mut out = Vec::new();
            put_values(&mut out, &values);
            let mut read = BinaryReader::new(&out);
            prop_assert_eq!(read.values().unwrap(), values);
            read.end().unwrap();
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut read = BinaryReader::new(&bytes);
            while read.checked_value().is_ok() {}
            let _ = BinaryReader::new(&bytes).values();
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        let mut out = Vec::new();
        put_value(&mut out, ValueRef::Json("{\"a\":"));
        assert!(BinaryReader::new(&out).checked_value().is_err());
    }
}
