//! Values in PostgreSQL's binary format, each with its length before it, as in parameters, columns
//! of COPY and elements of arrays.

use marmota_model::{Currency, Date, Time, Timestamp, Uuid, ValueRef};

/// Days from 1970-01-01 to 2000-01-01, PostgreSQL's epoch.
const DAYS_BEFORE: i32 = 10_957;
const MICROS_BEFORE: i64 = DAYS_BEFORE as i64 * 86_400_000_000;
/// The sign of a negative numeric.
const NEGATIVE: u16 = 0x4000;

/// The PostgreSQL types that are used, with their binary formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PgType {
    /// `boolean`
    Bool,
    /// `smallint`
    Int2,
    /// `integer`
    Int4,
    /// `bigint`
    Int8,
    /// `double precision`
    Float8,
    /// `numeric`, of which four decimals are used
    Numeric,
    /// `text`
    Text,
    /// `bytea`
    Bytea,
    /// `json`
    Json,
    /// `date`
    Date,
    /// `time`
    Time,
    /// `timestamptz`
    Timestamptz,
    /// `uuid`
    Uuid,
}

impl PgType {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Bool,
        Self::Int2,
        Self::Int4,
        Self::Int8,
        Self::Float8,
        Self::Numeric,
        Self::Text,
        Self::Bytea,
        Self::Json,
        Self::Date,
        Self::Time,
        Self::Timestamptz,
        Self::Uuid,
    ];

    /// Returns the OID of the type.
    #[must_use]
    pub const fn oid(self) -> u32 {
        match self {
            Self::Bool => 16,
            Self::Int2 => 21,
            Self::Int4 => 23,
            Self::Int8 => 20,
            Self::Float8 => 701,
            Self::Numeric => 1700,
            Self::Text => 25,
            Self::Bytea => 17,
            Self::Json => 114,
            Self::Date => 1082,
            Self::Time => 1083,
            Self::Timestamptz => 1184,
            Self::Uuid => 2950,
        }
    }

    /// Returns the OID of the type's arrays.
    #[must_use]
    pub const fn array_oid(self) -> u32 {
        match self {
            Self::Bool => 1000,
            Self::Int2 => 1005,
            Self::Int4 => 1007,
            Self::Int8 => 1016,
            Self::Float8 => 1022,
            Self::Numeric => 1231,
            Self::Text => 1009,
            Self::Bytea => 1001,
            Self::Json => 199,
            Self::Date => 1182,
            Self::Time => 1183,
            Self::Timestamptz => 1185,
            Self::Uuid => 2951,
        }
    }
}

/// The value does not fit the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueMismatch;

fn sized<const N: usize>(out: &mut Vec<u8>, bytes: [u8; N]) {
    out.extend((N as i32).to_be_bytes());
    out.extend_from_slice(&bytes);
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as i32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends a value of this type, with its length before it. Absent is NULL.
///
/// # Errors
/// [`ValueMismatch`] for a value that does not fit the type.
#[inline]
pub fn put(out: &mut Vec<u8>, pg_type: PgType, value: ValueRef<'_>) -> Result<(), ValueMismatch> {
    match (pg_type, value) {
        (_, ValueRef::Null | ValueRef::Absent) => out.extend((-1_i32).to_be_bytes()),
        (PgType::Int8, ValueRef::Int(value)) => sized(out, value.to_be_bytes()),
        (PgType::Int4, ValueRef::Int(value)) => {
            sized(out, i32::try_from(value).map_err(|_| ValueMismatch)?.to_be_bytes());
        }
        (PgType::Int2, ValueRef::Int(value)) => {
            sized(out, i16::try_from(value).map_err(|_| ValueMismatch)?.to_be_bytes());
        }
        (PgType::Text | PgType::Json, ValueRef::Text(text) | ValueRef::Json(text)) => {
            bytes(out, text.as_bytes());
        }
        (PgType::Bytea, ValueRef::Blob(blob)) => bytes(out, blob),
        (PgType::Bool, ValueRef::Bool(value)) => sized(out, [u8::from(value)]),
        (PgType::Float8, ValueRef::Float(value)) => sized(out, value.to_be_bytes()),
        (PgType::Numeric, ValueRef::Currency(value)) => put_numeric(out, value),
        (PgType::Date, ValueRef::Date(day)) => sized(out, (day.days() - DAYS_BEFORE).to_be_bytes()),
        (PgType::Time, ValueRef::Time(time)) => sized(out, time.micros().to_be_bytes()),
        (PgType::Timestamptz, ValueRef::Timestamp(at)) => {
            sized(out, (at.micros() - MICROS_BEFORE).to_be_bytes());
        }
        (PgType::Uuid, ValueRef::Uuid(uuid)) => sized(out, *uuid.as_bytes()),
        _ => return Err(ValueMismatch),
    }
    Ok(())
}

/// Appends a text with the letters A to Z in lower case.
pub fn put_folded(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as i32).to_be_bytes());
    let start = out.len();
    out.extend_from_slice(text.as_bytes());
    out[start..].make_ascii_lowercase();
}

/// Appends an array of `count` elements of this type, written by `elements`, none of them NULL.
///
/// # Errors
/// The error of `elements`.
pub fn put_array<E>(
    out: &mut Vec<u8>,
    pg_type: PgType,
    count: usize,
    elements: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    out.extend([0; 4]);
    out.extend([0, 0, 0, 1, 0, 0, 0, 0]);
    out.extend(pg_type.oid().to_be_bytes());
    out.extend((count as u32).to_be_bytes());
    out.extend([0, 0, 0, 1]);
    elements(out)?;
    let length = (out.len() - start - 4) as i32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Four decimals are one digit of base 10,000 after the point.
fn put_numeric(out: &mut Vec<u8>, value: Currency) {
    let (mut digits, mut rest) = ([0_u16; 5], value.scaled().unsigned_abs());
    let mut first = digits.len();
    while rest > 0 {
        first -= 1;
        digits[first] = (rest % 10_000) as u16;
        rest /= 10_000;
    }
    let digits = &digits[first..];
    let sign = if value.scaled() < 0 { NEGATIVE } else { 0 };
    out.extend((8 + 2 * digits.len() as i32).to_be_bytes());
    for word in [digits.len() as u16, (digits.len() as i16 - 2) as u16, sign, 4] {
        out.extend(word.to_be_bytes());
    }
    digits.iter().for_each(|digit| out.extend(digit.to_be_bytes()));
}

/// Reads a value of this type. Returns `None` if the bytes are invalid, or if Marmota cannot
/// represent the value (an infinite date, a fifth decimal).
#[inline]
#[must_use]
pub fn read(pg_type: PgType, bytes: &[u8]) -> Option<ValueRef<'_>> {
    Some(match pg_type {
        PgType::Int2 | PgType::Int4 | PgType::Int8 => ValueRef::Int(read_integer(bytes)?),
        PgType::Text => ValueRef::Text(std::str::from_utf8(bytes).ok()?),
        // A column of type `jsonb` has its version before the text, which no JSON text begins with.
        PgType::Json => {
            let text = bytes.strip_prefix(&[1]).unwrap_or(bytes);
            ValueRef::Json(std::str::from_utf8(text).ok()?)
        }
        PgType::Bytea => ValueRef::Blob(bytes),
        PgType::Bool => ValueRef::Bool(*<&[u8; 1]>::try_from(bytes).ok()? != [0]),
        PgType::Float8 => ValueRef::Float(f64::from_be_bytes(bytes.try_into().ok()?)),
        PgType::Numeric => ValueRef::Currency(read_numeric(bytes)?),
        PgType::Date => {
            let days = i32::from_be_bytes(bytes.try_into().ok()?).checked_add(DAYS_BEFORE)?;
            ValueRef::Date(Date::from_days(days).ok()?)
        }
        PgType::Time => {
            let micros = i64::from_be_bytes(bytes.try_into().ok()?);
            ValueRef::Time(Time::from_micros(micros).ok()?)
        }
        PgType::Timestamptz => {
            let micros = i64::from_be_bytes(bytes.try_into().ok()?).checked_add(MICROS_BEFORE)?;
            ValueRef::Timestamp(Timestamp::from_micros(micros).ok()?)
        }
        PgType::Uuid => ValueRef::Uuid(Uuid::from_slice(bytes).ok()?),
    })
}

/// Returns a value that [`read`] cannot represent in PostgreSQL's notation, if that is short: for
/// errors.
#[must_use]
pub fn unreadable(pg_type: PgType, bytes: &[u8]) -> String {
    let number = match *bytes {
        [a, b, c, d] => Some(i64::from(i32::from_be_bytes([a, b, c, d]))),
        [a, b, c, d, e, f, g, h] => Some(i64::from_be_bytes([a, b, c, d, e, f, g, h])),
        _ => None,
    };
    let (least, most) = match pg_type {
        PgType::Date => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    let words = match (pg_type, number) {
        (PgType::Date | PgType::Timestamptz, Some(number)) => match number {
            number if number == most => "infinity",
            number if number == least => "-infinity",
            // PostgreSQL counts from 2000.
            number if number < 0 => "before 0001-01-01",
            _ => "after 9999-12-31",
        },
        (PgType::Time, Some(86_400_000_000)) => "24:00:00",
        (PgType::Numeric, _) => match bytes {
            [_, _, _, _, 0xc0, ..] => "NaN",
            [_, _, _, _, 0xd0, ..] => "Infinity",
            [_, _, _, _, 0xf0, ..] => "-Infinity",
            _ => "a number with more than 15 digits or more than four decimals",
        },
        _ => return format!("{} bytes", bytes.len()),
    };
    words.to_owned()
}

/// Reads an integer of two, four or eight bytes: a column may be wider than its field.
#[inline]
#[must_use]
pub fn read_integer(bytes: &[u8]) -> Option<i64> {
    match bytes.len() {
        8 => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
        4 => Some(i32::from_be_bytes(bytes.try_into().ok()?).into()),
        2 => Some(i16::from_be_bytes(bytes.try_into().ok()?).into()),
        _ => None,
    }
}

fn read_numeric(bytes: &[u8]) -> Option<Currency> {
    let words = bytes.as_chunks::<2>();
    let ([count, weight, sign, _, digits @ ..], []) = words else { return None };
    let (count, weight) = (u16::from_be_bytes(*count), i16::from_be_bytes(*weight));
    if usize::from(count) != digits.len() || digits.len() > 1_000 {
        return None;
    }
    let mut scaled: i128 = 0;
    for (place, digit) in digits.iter().enumerate() {
        let digit = i128::from(u16::from_be_bytes(*digit));
        // The digit counts this many powers of 10,000, in ten-thousandths.
        let power = i32::from(weight) - i32::try_from(place).ok()? + 1;
        match u32::try_from(power) {
            Ok(power) => scaled += digit.checked_mul(10_000_i128.checked_pow(power.min(9))?)?,
            Err(_) if digit == 0 => {}
            Err(_) => return None,
        }
        if scaled > i128::from(u64::MAX) {
            return None;
        }
    }
    let scaled = match u16::from_be_bytes(*sign) {
        0 => scaled,
        NEGATIVE => -scaled,
        _ => return None,
    };
    i64::try_from(scaled).ok().map(Currency::from_scaled)
}

/// Reads a numeric that is an integer. Returns `None` if it has decimals or is too large.
#[must_use]
pub fn read_whole(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = numeric_digits(bytes)?;
    let mut whole: i128 = 0;
    for (digit, power) in digits {
        match u32::try_from(power) {
            Ok(power) => {
                whole = whole.checked_add(digit.checked_mul(10_000_i128.checked_pow(power)?)?)?;
            }
            Err(_) if digit == 0 => {}
            Err(_) => return None,
        }
    }
    i64::try_from(if negative { -whole } else { whole }).ok()
}

/// Returns the float nearest to a numeric, within rounding errors.
#[must_use]
pub fn read_numeric_as_float(bytes: &[u8]) -> Option<f64> {
    let (negative, digits) = numeric_digits(bytes)?;
    let float = digits.map(|(digit, power)| digit as f64 * 10_000_f64.powi(power)).sum::<f64>();
    Some(if negative { -float } else { float })
}

/// Returns a numeric's sign and its digits of base 10,000, each with its power, or `None` if it is
/// not a number.
fn numeric_digits(bytes: &[u8]) -> Option<(bool, impl Iterator<Item = (i128, i32)>)> {
    let words = bytes.as_chunks::<2>();
    let ([count, weight, sign, _, digits @ ..], []) = words else { return None };
    let (count, weight) = (u16::from_be_bytes(*count), i16::from_be_bytes(*weight));
    if usize::from(count) != digits.len() {
        return None;
    }
    let negative = match u16::from_be_bytes(*sign) {
        0 => false,
        NEGATIVE => true,
        _ => return None,
    };
    let powers = (i32::from(i16::MIN)..=i32::from(weight)).rev();
    let digits = digits.iter().map(|digit| i128::from(u16::from_be_bytes(*digit))).zip(powers);
    Some((negative, digits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(pg_type: PgType, value: ValueRef<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, pg_type, value).unwrap();
        assert_eq!(out.len() - 4, i32::from_be_bytes(out[..4].try_into().unwrap()) as usize);
        out.split_off(4)
    }

    #[test]
    fn known_bytes() {
        // SELECT numeric_send(-12.5), numeric_send(10000)
        let amount = |scaled| ValueRef::Currency(Currency::from_scaled(scaled));
        let bytes = written(PgType::Numeric, amount(-125_000));
        assert_eq!(bytes, [0, 2, 0, 0, 0x40, 0, 0, 4, 0, 12, 0x13, 0x88]);
        assert_eq!(
            read(PgType::Numeric, &[0, 1, 0, 1, 0, 0, 0, 0, 0, 1]),
            Some(amount(100_000_000))
        );
        assert_eq!(written(PgType::Numeric, amount(0)), [0, 0, 255, 254, 0, 0, 0, 4]);
        // NaN, and a fifth decimal.
        assert_eq!(read(PgType::Numeric, &[0, 0, 0, 0, 0xc0, 0, 0, 0]), None);
        assert_eq!(read(PgType::Numeric, &[0, 1, 255, 254, 0, 0, 0, 5, 0, 1]), None);
        let day: Date = "2000-01-02".parse().unwrap();
        assert_eq!(written(PgType::Date, ValueRef::Date(day)), [0, 0, 0, 1]);
        assert_eq!(read(PgType::Date, &i32::MAX.to_be_bytes()), None);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        // 5e38: one digit, followed by eight of base 10,000 and the decimals.
        let large = [[0, 1], [0, 8], [0, 0], [0, 0], [1, 244]].concat();
        assert_eq!(read(PgType::Numeric, &large), None);
        let mut out = Vec::new();
        assert_eq!(put(&mut out, PgType::Int2, ValueRef::Int(40_000)), Err(ValueMismatch));
        assert_eq!(put(&mut out, PgType::Uuid, ValueRef::Text("x")), Err(ValueMismatch));
    }

    proptest! {
        #[test]
        fn values_come_back(
            int: i64, float: f64, scaled: i64, text: String, blob: Vec<u8>, flag: bool,
            days in -719_162..=2_932_896_i32, micros in 0..86_400_000_000_i64, bits: u128,
        ) {
            let at = Timestamp::from_micros(i64::from(days) * 86_400_000_000 + micros).unwrap();
            for (pg_type, value) in [
                (PgType::Int8, ValueRef::Int(int)),
                (PgType::Int4, ValueRef::Int(int >> 32)),
                (PgType::Int2, ValueRef::Int(int >> 48)),
                (PgType::Float8, ValueRef::Float(float)),
                (PgType::Numeric, ValueRef::Currency(Currency::from_scaled(scaled))),
                (PgType::Text, ValueRef::Text(&text)),
                (PgType::Json, ValueRef::Json(&text)),
                (PgType::Bytea, ValueRef::Blob(&blob)),
                (PgType::Bool, ValueRef::Bool(flag)),
                (PgType::Date, ValueRef::Date(Date::from_days(days).unwrap())),
                (PgType::Time, ValueRef::Time(Time::from_micros(micros).unwrap())),
                (PgType::Timestamptz, ValueRef::Timestamp(at)),
                (PgType::Uuid, ValueRef::Uuid(Uuid::from_u128(bits))),
            ] {
                let bytes = written(pg_type, value);
                prop_assert_eq!(read(pg_type, &bytes), Some(value));
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let _ = (read_whole(&bytes), read_numeric_as_float(&bytes));
            for pg_type in [PgType::Numeric, PgType::Date, PgType::Timestamptz, PgType::Int8, PgType::Uuid] {
                let _ = read(pg_type, &bytes);
            }
        }
    }
}
