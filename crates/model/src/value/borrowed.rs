//! A borrowed value of a row, and the order of values.

use std::cmp::Ordering;

use uuid::Uuid;

use crate::{Currency, Date, Time, Timestamp};

/// A borrowed value: from a column of SQLite, a packet, a body or a struct.
///
/// [`ValueRef::Absent`] and [`ValueRef::Null`] differ: a write leaves an absent field unchanged, and
/// sets a null field to NULL. A value is 24 bytes and `Copy`.
///
/// ```
/// use marmota_model::ValueRef;
/// let row = [ValueRef::Int(7), ValueRef::Text("Curie"), ValueRef::Null];
/// assert_eq!(row[1].as_text(), Some("Curie"));
/// assert!(row[2].is_null() && !row[2].is_absent());
/// ```
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
    ///
    /// ```
    /// use marmota_model::ValueRef;
    /// assert_eq!(ValueRef::Int(7).as_int(), Some(7));
    /// assert_eq!(ValueRef::Text("7").as_int(), None);
    /// ```
    #[must_use]
    pub const fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the text, if it is one.
    ///
    /// ```
    /// use marmota_model::ValueRef;
    /// assert_eq!(ValueRef::Text("Curie").as_text(), Some("Curie"));
    /// assert_eq!(ValueRef::Json("\"Curie\"").as_text(), None);
    /// ```
    #[must_use]
    pub const fn as_text(&self) -> Option<&'a str> {
        match self {
            Self::Text(value) => Some(value),
            _ => None,
        }
    }

    /// Compares two values in the sort order of all engines: NULL first, numbers and times by
    /// value, text and bytes byte by byte. Values of different kinds do not occur in one column; if
    /// they do, they compare by kind.
    ///
    /// The order of texts that ignore case is [`Collation::order`](crate::Collation::order).
    ///
    /// ```
    /// use std::cmp::Ordering;
    /// use marmota_model::ValueRef;
    /// let mut values = [ValueRef::Int(2), ValueRef::Null, ValueRef::Int(-1)];
    /// values.sort_by(|a, b| a.order(b));
    /// assert_eq!(values, [ValueRef::Null, ValueRef::Int(-1), ValueRef::Int(2)]);
    /// assert_eq!(ValueRef::Text("Z").order(&ValueRef::Text("a")), Ordering::Less);
    /// ```
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
