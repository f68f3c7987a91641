//! Conversion of stored SQL values (integers, floats, texts, bytes) to a kind. The result of a raw
//! SQL statement has lost its kind if it is computed (`max(born)`).

use crate::{Currency, Date, Kind, Time, Timestamp, Uuid, ValueForm, ValueRef};

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
        let form = self.form();
        Some(match stored {
            ValueRef::Null => ValueRef::Null,
            value if value.form() == Some(form) => value,
            ValueRef::Int(value) => match form {
                ValueForm::Bool => ValueRef::Bool(value != 0),
                ValueForm::Float => ValueRef::Float(value as f64),
                ValueForm::Currency => ValueRef::Currency(Currency::from_scaled(value)),
                ValueForm::Date => {
                    ValueRef::Date(Date::from_days(i32::try_from(value).ok()?).ok()?)
                }
                ValueForm::Time => ValueRef::Time(Time::from_micros(value).ok()?),
                ValueForm::Timestamp => ValueRef::Timestamp(Timestamp::from_micros(value).ok()?),
                ValueForm::Int
                | ValueForm::Text
                | ValueForm::Json
                | ValueForm::Blob
                | ValueForm::Uuid => return None,
            },
            ValueRef::Blob(bytes) if form == ValueForm::Uuid => {
                ValueRef::Uuid(Uuid::from_slice(bytes).ok()?)
            }
            ValueRef::Text(text) if form == ValueForm::Json => ValueRef::Json(text),
            _ => return None,
        })
    }
}
