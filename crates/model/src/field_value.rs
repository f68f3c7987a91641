//! The Rust types that can be fields, except those that the derive macros generate.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use uuid::Uuid;

use crate::{
    Collation, Currency, Date, FieldValue, Key, Kind, Model, Scratch, Time, Timestamp, ValueRef,
};

macro_rules! integers {
    ($($type:ty: $min:expr, $max:expr;)*) => {$(
        impl FieldValue for $type {
            const KIND: Kind = Kind::Int { min: $min, max: $max };

            fn to_row<'a>(&'a self, _: &'a Scratch) -> ValueRef<'a> {
                // A u64 above i64::MAX becomes negative, which its KIND refuses.
                ValueRef::Int(*self as i64)
            }

            fn from_row(value: ValueRef<'_>) -> Option<Self> {
                Self::try_from(value.as_int()?).ok()
            }
        }
    )*};
}

integers! {
    i8: i8::MIN as i64, i8::MAX as i64;
    i16: i16::MIN as i64, i16::MAX as i64;
    i32: i32::MIN as i64, i32::MAX as i64;
    i64: i64::MIN, i64::MAX;
    u8: 0, u8::MAX as i64;
    u16: 0, u16::MAX as i64;
    u32: 0, u32::MAX as i64;
    u64: 0, i64::MAX;
}

macro_rules! copied {
    ($($type:ty => $variant:ident, $kind:expr;)*) => {$(
        impl FieldValue for $type {
            const KIND: Kind = $kind;

            fn to_row<'a>(&'a self, _: &'a Scratch) -> ValueRef<'a> {
                ValueRef::$variant(*self)
            }

            fn from_row(value: ValueRef<'_>) -> Option<Self> {
                match value {
                    ValueRef::$variant(value) => Some(value),
                    _ => None,
                }
            }
        }
    )*};
}

copied! {
    bool => Bool, Kind::Bool;
    f64 => Float, Kind::Float;
    Currency => Currency, Kind::Currency;
    Date => Date, Kind::Date;
    Time => Time, Kind::Time;
    Timestamp => Timestamp, Kind::Timestamp;
    Uuid => Uuid, Kind::Uuid;
}

impl FieldValue for f32 {
    const KIND: Kind = Kind::Float;

    fn to_row<'a>(&'a self, _: &'a Scratch) -> ValueRef<'a> {
        ValueRef::Float(f64::from(*self))
    }

    fn from_row(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Float(value) => Some(value as Self),
            _ => None,
        }
    }
}

impl FieldValue for String {
    const KIND: Kind = Kind::Text { chars_max: 0, collation: Collation::Binary };

    fn to_row<'a>(&'a self, _: &'a Scratch) -> ValueRef<'a> {
        ValueRef::Text(self)
    }

    fn from_row(value: ValueRef<'_>) -> Option<Self> {
        value.as_text().map(str::to_owned)
    }
}

impl<T: FieldValue> FieldValue for Option<T> {
    const KIND: Kind = T::KIND;
    const NULLABLE: bool = true;

    fn to_row<'a>(&'a self, scratch: &'a Scratch) -> ValueRef<'a> {
        self.as_ref().map_or(ValueRef::Null, |value| value.to_row(scratch))
    }

    fn from_row(value: ValueRef<'_>) -> Option<Self> {
        if value.is_null() { Some(None) } else { T::from_row(value).map(Some) }
    }
}

/// Bytes that are read only on request. Lists and gets leave blobs out unless the caller names
/// them, and a write of a row whose blob was not read keeps the stored one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Blob {
    /// Left out by the read that returned the row.
    #[default]
    NotRead,
    /// The bytes.
    Bytes(Vec<u8>),
}

impl Blob {
    /// Returns the bytes, unless they were not read.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::NotRead => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }
}

impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl FieldValue for Blob {
    const KIND: Kind = Kind::Blob;

    fn to_row<'a>(&'a self, _: &'a Scratch) -> ValueRef<'a> {
        self.bytes().map_or(ValueRef::Absent, ValueRef::Blob)
    }

    fn from_row(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Blob(bytes) => Some(Self::Bytes(bytes.to_owned())),
            ValueRef::Absent => Some(Self::NotRead),
            _ => None,
        }
    }
}

/// Any serde value, stored as JSON text.
///
/// ```
/// use marmota_model::Json;
/// let tags = Json(vec!["a".to_owned()]);
/// assert_eq!(tags.len(), 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Json<T>(pub T);

impl<T> Deref for Json<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Json<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: serde::Serialize + serde::de::DeserializeOwned> FieldValue for Json<T> {
    const KIND: Kind = Kind::Json;

    fn to_row<'a>(&'a self, scratch: &'a Scratch) -> ValueRef<'a> {
        // A value that serde cannot write (a map whose keys are not strings) is left out, and
        // refused as a missing value.
        match serde_json::to_string(&self.0) {
            Ok(text) => ValueRef::Json(scratch.text(&text)),
            Err(_) => ValueRef::Null,
        }
    }

    fn from_row(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Json(text) => serde_json::from_str(text).ok().map(Self),
            _ => None,
        }
    }
}

/// The key of a row of another model.
pub struct Ref<M: Model>(M::Key, PhantomData<fn() -> M>);

impl<M: Model> Ref<M> {
    /// Creates a reference to the row with this key.
    #[must_use]
    pub const fn new(key: M::Key) -> Self {
        Self(key, PhantomData)
    }

    /// Returns the key of the referenced row.
    #[must_use]
    pub const fn key(&self) -> &M::Key {
        &self.0
    }
}

impl<M: Model> Clone for Ref<M> {
    fn clone(&self) -> Self {
        Self::new(self.0.clone())
    }
}

impl<M: Model> PartialEq for Ref<M> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<M: Model> Eq for Ref<M> {}

impl<M: Model> std::fmt::Debug for Ref<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{:?}", M::TABLE, self.0)
    }
}

impl<M: Model> FieldValue for Ref<M> {
    const KIND: Kind =
        Kind::Reference { table: std::borrow::Cow::Borrowed(M::TABLE), key: M::KEY_KIND };

    fn to_row<'a>(&'a self, _: &'a Scratch) -> ValueRef<'a> {
        self.0.borrow()
    }

    fn from_row(value: ValueRef<'_>) -> Option<Self> {
        M::Key::from_row(value).map(Self::new)
    }
}
