//! Conversion of stored SQL values (integers, floats, texts, bytes) to a kind. The result of a raw
//! SQL statement has lost its kind if it is computed (`max(born)`).

use crate::{Currency, Date, EnumStored, KeyKind, Kind, Time, Timestamp, Uuid, ValueRef};

impl Kind {
    /// Converts a stored value to the value of a field of this kind; `None` if it does not fit.
    /// NULL and values that already have the kind are unchanged.
    ///
    /// ```
    /// use marmota_model::{Kind, Timestamp, ValueRef};
    /// let at = Timestamp::from_micros(1_000_000)?;
    /// assert_eq!(Kind::Timestamp.read_stored(ValueRef::Int(1_000_000)), Some(ValueRef::Timestamp(at)));
    /// assert_eq!(Kind::Timestamp.read_stored(ValueRef::Text("soon")), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn read_stored<'a>(&self, stored: ValueRef<'a>) -> Option<ValueRef<'a>> {
        Some(match (self, stored) {
            (_, ValueRef::Null) => ValueRef::Null,
            (Self::Bool, ValueRef::Int(value)) => ValueRef::Bool(value != 0),
            (Self::Float, ValueRef::Int(value)) => ValueRef::Float(value as f64),
            (Self::Currency, ValueRef::Int(value)) => {
                ValueRef::Currency(Currency::from_scaled(value))
            }
            (Self::Date, ValueRef::Int(days)) => {
                ValueRef::Date(Date::from_days(i32::try_from(days).ok()?).ok()?)
            }
            (Self::Time, ValueRef::Int(micros)) => ValueRef::Time(Time::from_micros(micros).ok()?),
            (Self::Timestamp, ValueRef::Int(micros)) => {
                ValueRef::Timestamp(Timestamp::from_micros(micros).ok()?)
            }
            (Self::Uuid | Self::Reference { key: KeyKind::Uuid, .. }, ValueRef::Blob(bytes)) => {
                ValueRef::Uuid(Uuid::from_slice(bytes).ok()?)
            }
            (Self::Json, ValueRef::Text(text)) => ValueRef::Json(text),
            (Self::Bool, value @ ValueRef::Bool(_))
            | (Self::Float, value @ ValueRef::Float(_))
            | (Self::Currency, value @ ValueRef::Currency(_))
            | (Self::Date, value @ ValueRef::Date(_))
            | (Self::Time, value @ ValueRef::Time(_))
            | (Self::Timestamp, value @ ValueRef::Timestamp(_))
            | (
                Self::Uuid | Self::Reference { key: KeyKind::Uuid, .. },
                value @ ValueRef::Uuid(_),
            )
            | (Self::Json, value @ ValueRef::Json(_))
            | (Self::Blob, value @ ValueRef::Blob(_))
            | (
                Self::Int { .. }
                | Self::Enum { stored: EnumStored::Integer, .. }
                | Self::Reference { key: KeyKind::Auto, .. },
                value @ ValueRef::Int(_),
            )
            | (
                Self::Text { .. }
                | Self::Enum { stored: EnumStored::Text, .. }
                | Self::Reference { key: KeyKind::Text, .. },
                value @ ValueRef::Text(_),
            ) => value,
            _ => return None,
        })
    }
}
