//! What a field's type is, as far as its name tells. A macro sees no types:
//! an alias or a type of one's own is [`Shape::Other`], and what cannot be
//! checked here is checked by the compiler or when the model is registered.

use syn::{GenericArgument, PathArguments, Type};

/// A known type of field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    Bool,
    /// An integer with its least and most value.
    Int(i64, i64),
    Float,
    Currency,
    Text,
    Blob,
    Json,
    Date,
    Time,
    Timestamp,
    Uuid,
    Reference,
    Other,
}

/// The type inside an `Option`, if it is one.
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
    /// The shape of a type that is no `Option`.
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
            "Json" => Self::Json,
            "Date" => Self::Date,
            "Time" => Self::Time,
            "Timestamp" => Self::Timestamp,
            "Uuid" => Self::Uuid,
            "Ref" => Self::Reference,
            _ => Self::Other,
        }
    }

    /// True for what `max`, `collate`, `pattern` and `email` are for.
    pub(crate) const fn may_be_text(self) -> bool {
        matches!(self, Self::Text | Self::Other)
    }

    /// True for what `not_empty` and `length` are for.
    pub(crate) const fn may_have_length(self) -> bool {
        matches!(self, Self::Text | Self::Blob | Self::Other)
    }

    /// True for what `range` is for.
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

    /// True for what a key can be.
    pub(crate) const fn may_be_key(self) -> bool {
        matches!(self, Self::Int(i64::MIN, _) | Self::Uuid | Self::Text | Self::Other)
    }
}
