//! The Rust types that can be fields, except those that the derive macros generate.

use uuid::Uuid;

use crate::{Collation, Currency, Date, Kind, Scratch, Time, Timestamp, ValueRef};

/// A Rust type that can be a field of a model.
///
/// A type of a program becomes a field by its conversion to a type that is one. Its values have the
/// kind of that type in the schema, in JSON and in the database:
///
/// ```
/// use marmota_model::{FieldValue, Kind, Scratch, ValueRef};
///
/// #[derive(Debug, PartialEq)]
/// struct Isbn(u64);
///
/// impl FieldValue for Isbn {
///     const KIND: Kind = Kind::Int { min: 9_780_000_000_000, max: 9_799_999_999_999 };
///
///     fn to_row<'a>(&'a self, scratch: &'a Scratch) -> ValueRef<'a> {
///         self.0.to_row(scratch)
///     }
///
///     fn from_row(value: ValueRef<'_>) -> Option<Self> {
///         u64::from_row(value).map(Self)
///     }
/// }
///
/// assert_eq!(Isbn::from_row(ValueRef::Int(9_780_131_103_627)), Some(Isbn(9_780_131_103_627)));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a model",
    note = "fields are bool, i8 to i64, u8 to u64, f32, f64, String, Currency, Date, Time, \
            Timestamp, Uuid, Blob, File, Json<T>, Vector<N>, Ref<Model>, enums with #[derive(ModelEnum)], \
            and Option of these"
)]
pub trait FieldValue: Sized {
    /// The kind of its values.
    const KIND: Kind;
    /// True if it may be NULL.
    const NULLABLE: bool = false;

    /// Returns the value as it is in a row.
    fn to_row<'a>(&'a self, scratch: &'a Scratch) -> ValueRef<'a>;

    /// Returns the value from a row; `None` if that value is of another kind or out of range.
    /// [`ValueRef::Absent`], for a field that was not read, also gives `None`, except for types
    /// that can represent it, such as [`crate::Blob`].
    fn from_row(value: ValueRef<'_>) -> Option<Self>;
}

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
