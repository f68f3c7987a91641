//! The type of a field, as far as its name determines it. A macro does not see types: an alias or a
//! custom type is [`Shape::Other`], and is checked by the compiler or when the model is registered.
//!
//! Only the last segment of a path counts, so `std::string::String` is a text like `String`. A
//! custom type with the name of a known one is taken for that one, and the compiler reports the
//! difference.

use syn::{GenericArgument, PathArguments, Type};

/// A known type of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// `bool`
    Bool,
    /// An integer with its minimum and maximum.
    Int(i64, i64),
    /// `f32`, `f64`
    Float,
    /// `Currency`
    Currency,
    /// `String`
    Text,
    /// `Blob`
    Blob,
    /// `File`
    File,
    /// `Vector<N>`
    Vector,
    /// `Json<T>`
    Json,
    /// `Date`
    Date,
    /// `Time`
    Time,
    /// `Timestamp`
    Timestamp,
    /// `Uuid`
    Uuid,
    /// `Ref<Model>`
    Reference,
    /// An alias, an enum or a custom type.
    Other,
}

/// Returns the type inside an `Option`; `None` for other types.
pub(crate) fn inside_option(of: &Type) -> Option<&Type> {
    let Type::Path(path) = of else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(inside)) if arguments.args.len() == 1 => Some(inside),
        _ => None,
    }
}

impl Shape {
    /// Returns the shape of a type that is not an `Option`.
    pub(crate) fn of(of: &Type) -> Self {
        let Type::Path(path) = of else { return Self::Other };
        let Some(last) = path.path.segments.last() else { return Self::Other };
        match last.ident.to_string().as_str() {
            "bool" => Self::Bool,
            "i8" => Self::Int(i8::MIN.into(), i8::MAX.into()),
            "i16" => Self::Int(i16::MIN.into(), i16::MAX.into()),
            "i32" => Self::Int(i32::MIN.into(), i32::MAX.into()),
            "i64" => Self::Int(i64::MIN, i64::MAX),
            "u8" => Self::Int(0, u8::MAX.into()),
            "u16" => Self::Int(0, u16::MAX.into()),
            "u32" => Self::Int(0, u32::MAX.into()),
            "u64" => Self::Int(0, i64::MAX),
            "f32" | "f64" => Self::Float,
            "String" => Self::Text,
            "Currency" => Self::Currency,
            "Blob" => Self::Blob,
            "File" => Self::File,
            "Vector" => Self::Vector,
            "Json" => Self::Json,
            "Date" => Self::Date,
            "Time" => Self::Time,
            "Timestamp" => Self::Timestamp,
            "Uuid" => Self::Uuid,
            "Ref" => Self::Reference,
            _ => Self::Other,
        }
    }

    /// Returns true if `max`, `collate`, `pattern` and `email` may apply to the type.
    pub(crate) const fn may_be_text(self) -> bool {
        matches!(self, Self::Text | Self::Other)
    }

    /// Returns true if `on_delete` may apply to the type.
    pub(crate) const fn may_be_reference(self) -> bool {
        matches!(self, Self::Reference | Self::Other)
    }

    /// Returns true if `not_empty` and `length` may apply to the type.
    pub(crate) const fn may_have_length(self) -> bool {
        matches!(self, Self::Text | Self::Blob | Self::Other)
    }

    /// Returns true if `range` may apply to the type.
    pub(crate) const fn may_have_range(self) -> bool {
        matches!(
            self,
            Self::Int(..)
                | Self::Float
                | Self::Currency
                | Self::Date
                | Self::Time
                | Self::Timestamp
                | Self::Other
        )
    }

    /// Returns true if `bytes_max` and `types` may apply to the type.
    pub(crate) const fn may_be_file(self) -> bool {
        matches!(self, Self::File | Self::Other)
    }

    /// Returns true if the type may be that of a key.
    pub(crate) const fn may_be_key(self) -> bool {
        matches!(self, Self::Int(i64::MIN, _) | Self::Uuid | Self::Text | Self::Other)
    }
}
