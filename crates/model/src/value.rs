//! The values of a row, borrowed ([`ValueRef`]) or owned ([`Value`]).
//!
//! A row is `&[ValueRef<'_>]`, with one value for each field of the schema, in its order. Text is
//! valid UTF-8: an engine checks it once when it reads it, so that no later code has to.

use std::cmp::Ordering;

use uuid::Uuid;

use crate::{Currency, Date, Time, Timestamp};

pub(crate) mod json;

/// A borrowed value: from a column of SQLite, a packet, a body or a struct.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ValueRef<'a> {
    /// No value: a field that was not requested, or that a write leaves unchanged.
    #[default]
    Absent,
    /// SQL's NULL, JSON's `null`, Rust's `None`.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer of any width, or an enum stored as one.
    Int(i64),
    /// A 64-bit float.
    Float(f64),
    /// An exact amount with four decimals.
    Currency(Currency),
    /// UTF-8 text, or an enum stored as its name.
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
    /// A valid JSON text.
    Json(&'a str),
    /// A calendar day.
    Date(Date),
    /// A time of day.
    Time(Time),
    /// A point in time.
    Timestamp(Timestamp),
    /// A UUID.
    Uuid(Uuid),
}

/// An owned value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// See [`ValueRef::Absent`].
    #[default]
    Absent,
    /// See [`ValueRef::Null`].
    Null,
    /// See [`ValueRef::Bool`].
    Bool(bool),
    /// See [`ValueRef::Int`].
    Int(i64),
    /// See [`ValueRef::Float`].
    Float(f64),
    /// See [`ValueRef::Currency`].
    Currency(Currency),
    /// See [`ValueRef::Text`].
    Text(String),
    /// See [`ValueRef::Blob`].
    Blob(Vec<u8>),
    /// See [`ValueRef::Json`].
    Json(String),
    /// See [`ValueRef::Date`].
    Date(Date),
    /// See [`ValueRef::Time`].
    Time(Time),
    /// See [`ValueRef::Timestamp`].
    Timestamp(Timestamp),
    /// See [`ValueRef::Uuid`].
    Uuid(Uuid),
}

impl<'a> ValueRef<'a> {
    /// True for [`ValueRef::Absent`].
    #[must_use]
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// True for [`ValueRef::Null`].
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns the integer, if it is one.
    #[must_use]
    pub const fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the text, if it is one.
    #[must_use]
    pub const fn as_text(&self) -> Option<&'a str> {
        match self {
            Self::Text(value) => Some(value),
            _ => None,
        }
    }

    /// Returns an owned copy.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match *self {
            Self::Absent => Value::Absent,
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Int(value) => Value::Int(value),
            Self::Float(value) => Value::Float(value),
            Self::Currency(value) => Value::Currency(value),
            Self::Text(value) => Value::Text(value.to_owned()),
            Self::Blob(value) => Value::Blob(value.to_owned()),
            Self::Json(value) => Value::Json(value.to_owned()),
            Self::Date(value) => Value::Date(value),
            Self::Time(value) => Value::Time(value),
            Self::Timestamp(value) => Value::Timestamp(value),
            Self::Uuid(value) => Value::Uuid(value),
        }
    }

    /// Compares two values in the sort order of all engines: NULL first, numbers and times by
    /// value, text and bytes byte by byte. Values of different kinds do not occur in one column; if
    /// they do, they compare by kind.
    #[must_use]
    pub fn order(&self, other: &ValueRef<'_>) -> Ordering {
        match (self, other) {
            (Self::Bool(a), ValueRef::Bool(b)) => a.cmp(b),
            (Self::Int(a), ValueRef::Int(b)) => a.cmp(b),
            (Self::Float(a), ValueRef::Float(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
            (Self::Int(a), ValueRef::Float(b)) => {
                (*a as f64).partial_cmp(b).unwrap_or(Ordering::Equal)
            }
            (Self::Float(a), ValueRef::Int(b)) => {
                a.partial_cmp(&(*b as f64)).unwrap_or(Ordering::Equal)
            }
            (Self::Currency(a), ValueRef::Currency(b)) => a.cmp(b),
            (Self::Text(a) | Self::Json(a), ValueRef::Text(b) | ValueRef::Json(b)) => a.cmp(b),
            (Self::Blob(a), ValueRef::Blob(b)) => a.cmp(b),
            (Self::Date(a), ValueRef::Date(b)) => a.cmp(b),
            (Self::Time(a), ValueRef::Time(b)) => a.cmp(b),
            (Self::Timestamp(a), ValueRef::Timestamp(b)) => a.cmp(b),
            (Self::Uuid(a), ValueRef::Uuid(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }

    const fn rank(&self) -> u8 {
        match self {
            Self::Absent => 0,
            Self::Null => 1,
            Self::Bool(_) => 2,
            Self::Int(_) | Self::Float(_) => 3,
            Self::Currency(_) => 4,
            Self::Date(_) => 5,
            Self::Time(_) => 6,
            Self::Timestamp(_) => 7,
            Self::Text(_) | Self::Json(_) => 8,
            Self::Blob(_) => 9,
            Self::Uuid(_) => 10,
        }
    }
}

impl Value {
    /// Returns the same value, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Absent => ValueRef::Absent,
            Self::Null => ValueRef::Null,
            Self::Bool(value) => ValueRef::Bool(*value),
            Self::Int(value) => ValueRef::Int(*value),
            Self::Float(value) => ValueRef::Float(*value),
            Self::Currency(value) => ValueRef::Currency(*value),
            Self::Text(value) => ValueRef::Text(value),
            Self::Blob(value) => ValueRef::Blob(value),
            Self::Json(value) => ValueRef::Json(value),
            Self::Date(value) => ValueRef::Date(*value),
            Self::Time(value) => ValueRef::Time(*value),
            Self::Timestamp(value) => ValueRef::Timestamp(*value),
            Self::Uuid(value) => ValueRef::Uuid(*value),
        }
    }
}

macro_rules! value_from {
    ($($type:ty => $variant:ident ($convert:expr)),* $(,)?) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                let convert: fn($type) -> _ = $convert;
                Self::$variant(convert(value))
            }
        }
    )*};
}

value_from! {
    bool => Bool(|value| value),
    i64 => Int(|value| value),
    i32 => Int(i64::from),
    u32 => Int(i64::from),
    f64 => Float(|value| value),
    Currency => Currency(|value| value),
    String => Text(|value| value),
    &str => Text(str::to_owned),
    Vec<u8> => Blob(|value| value),
    Date => Date(|value| value),
    Time => Time(|value| value),
    Timestamp => Timestamp(|value| value),
    Uuid => Uuid(|value| value),
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Self {
        value.to_value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_borrowed_value_is_three_words() {
        assert_eq!(size_of::<ValueRef<'_>>(), 24);
    }

    #[test]
    fn null_sorts_first() {
        assert_eq!(ValueRef::Null.order(&ValueRef::Int(i64::MIN)), Ordering::Less);
        assert_eq!(ValueRef::Text("").order(&ValueRef::Null), Ordering::Greater);
    }
}
