//! An owned value, for rows and filters that outlive their source.

use uuid::Uuid;

use crate::{Currency, Date, Time, Timestamp, ValueRef};

/// An owned value.
///
/// Values are made with `From`; `Value::from(None)` does not exist, so NULL is written out.
///
/// ```
/// use marmota_model::{Value, ValueRef};
/// let values = [Value::from(7_i64), Value::from("Curie"), Value::from(true), Value::Null];
/// assert_eq!(values[1].as_ref(), ValueRef::Text("Curie"));
/// ```
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

impl ValueRef<'_> {
    /// Returns an owned copy.
    ///
    /// ```
    /// use marmota_model::{Value, ValueRef};
    /// let text = String::from("Curie");
    /// let value = ValueRef::Text(&text).to_value();
    /// drop(text);
    /// assert_eq!(value, Value::Text("Curie".into()));
    /// ```
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
}

impl Value {
    /// Returns the same value, borrowed.
    ///
    /// ```
    /// use marmota_model::{Value, ValueRef};
    /// let owned = vec![Value::from(7_i64), Value::from("Curie")];
    /// let row: Vec<ValueRef<'_>> = owned.iter().map(Value::as_ref).collect();
    /// assert_eq!(row, [ValueRef::Int(7), ValueRef::Text("Curie")]);
    /// ```
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
