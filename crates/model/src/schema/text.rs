//! The text form of values of each kind: in URLs, filters, defaults and string members of JSON.

use super::kind_check::check_kind;
use crate::value::excerpt::excerpt_of;
use crate::{EnumStored, Field, File, KeyKind, Kind, Literal, Value, ValueRef};

/// Parses a value of `kind` from its text form.
///
/// A text is parsed as it is, without quotes. Blobs have no text form. Integers have the forms of
/// [`integer`].
///
/// # Errors
/// The expected form, as the text after "not" in a message.
///
/// ```
/// use marmota_model::text::parse;
/// use marmota_model::{Kind, ValueRef};
/// assert_eq!(parse(&Kind::I64, "42"), Ok(ValueRef::Int(42)));
/// assert_eq!(parse(&Kind::Date, "tomorrow"), Err("a date such as 2026-11-21"));
/// ```
pub fn parse<'a>(kind: &Kind, text: &'a str) -> Result<ValueRef<'a>, &'static str> {
    match kind {
        Kind::Bool => match text {
            "true" | "1" => Ok(ValueRef::Bool(true)),
            "false" | "0" => Ok(ValueRef::Bool(false)),
            _ => Err("true or false"),
        },
        Kind::Int { .. } => integer(text).map(ValueRef::Int).ok_or("a 64-bit integer"),
        Kind::Float => match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(ValueRef::Float(value)),
            _ => Err("a finite number"),
        },
        Kind::Currency => {
            text.parse().map(ValueRef::Currency).map_err(|_| "an amount with at most four decimals")
        }
        Kind::Text { .. } => Ok(ValueRef::Text(text)),
        Kind::Blob | Kind::Vector { .. } => Err("readable from text"),
        Kind::File { .. } => match File::parse(text) {
            Some(_) => Ok(ValueRef::Json(text)),
            None => Err("the description of a file"),
        },
        Kind::Json => match serde_json::from_str::<serde::de::IgnoredAny>(text) {
            Ok(_) => Ok(ValueRef::Json(text)),
            Err(_) => Err("a JSON value"),
        },
        Kind::Date => text.parse().map(ValueRef::Date).map_err(|_| "a date such as 2026-11-21"),
        Kind::Time => text.parse().map(ValueRef::Time).map_err(|_| "a time such as 17:05:00"),
        Kind::Timestamp => text
            .parse()
            .map(ValueRef::Timestamp)
            .map_err(|_| "a timestamp such as 2026-11-21T17:05:00Z"),
        Kind::Uuid => uuid::Uuid::try_parse(text).map(ValueRef::Uuid).map_err(|_| "a UUID"),
        Kind::Enum { .. } => match enum_value(kind, text) {
            Some(value) => Ok(value.unbound(text)),
            None => Err("one of the field's names"),
        },
        Kind::Reference { key: KeyKind::Auto, .. } => parse(&Kind::I64, text),
        Kind::Reference { key: KeyKind::Uuid, .. } => parse(&Kind::Uuid, text),
        Kind::Reference { key: KeyKind::Text, .. } => Ok(ValueRef::Text(text)),
    }
}

/// Parses an integer. `10.0` and `1e1` are the integer 10, as in JSON Schema. Larger numbers than a
/// float has exactly are integers without these forms.
///
/// ```
/// use marmota_model::text::integer;
/// assert_eq!(integer("9007199254740993"), Some(9_007_199_254_740_993));
/// assert_eq!(integer("10.0"), Some(10));
/// assert_eq!(integer("10.5"), None);
/// assert_eq!(integer("10."), None);
/// ```
#[must_use]
pub fn integer(text: &str) -> Option<i64> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    text.parse().ok().or_else(|| {
        // Rust accepts a point without digits before or after it; JSON does not.
        let is_digit = |at: Option<usize>| {
            at.and_then(|at| text.as_bytes().get(at)).is_some_and(u8::is_ascii_digit)
        };
        if let Some(point) = text.find('.')
            && !(is_digit(point.checked_sub(1)) && is_digit(Some(point + 1)))
        {
            return None;
        }
        let number: f64 = text.parse().ok()?;
        (number.fract() == 0.0 && number.abs() <= EXACT_MAX).then_some(number as i64)
    })
}

/// The value of an enum's name in a row.
/// See [`enum_value`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnumValue {
    /// The name itself.
    Name,
    /// The number of the name.
    Number(i64),
}

impl EnumValue {
    fn unbound(self, name: &str) -> ValueRef<'_> {
        match self {
            Self::Name => ValueRef::Text(name),
            Self::Number(number) => ValueRef::Int(number),
        }
    }
}

/// Returns the value in a row for a name of an enum; `None` for an unknown name.
///
/// ```
/// use marmota_model::text::{EnumValue, enum_value};
/// use marmota_model::{EnumStored, Kind, Variant};
/// let variants = vec![Variant { name: "open".into(), number: 1 }];
/// let state = Kind::Enum { variants: variants.into(), stored: EnumStored::Integer };
/// assert_eq!(enum_value(&state, "open"), Some(EnumValue::Number(1)));
/// assert_eq!(enum_value(&state, "shut"), None);
/// ```
#[must_use]
pub fn enum_value(kind: &Kind, name: &str) -> Option<EnumValue> {
    let Kind::Enum { variants, stored } = kind else { return None };
    let variant = variants.iter().find(|variant| variant.name == name)?;
    Some(match stored {
        EnumStored::Text => EnumValue::Name,
        EnumStored::Integer => EnumValue::Number(variant.number),
    })
}

/// Converts a constant of a schema to a value of its field's kind.
pub(crate) fn literal_value(field: &Field, literal: &Literal) -> Result<Value, String> {
    let value = match (&field.kind, literal) {
        (_, Literal::Text(text)) => parse(&field.kind, text).map_err(|what| match &field.kind {
            Kind::Enum { variants, .. } => {
                let names: Vec<&str> = variants.iter().map(|variant| &*variant.name).collect();
                format!("{text:?}, not {what}: {}", names.join(", "))
            }
            _ => format!("{text:?}, not {what}"),
        })?,
        (Kind::Currency, Literal::Int(whole)) => {
            let text = whole.to_string();
            return parse(&field.kind, &text)
                .map(|value| value.to_value())
                .map_err(|what| format!("{whole}, not {what}"));
        }
        (Kind::Currency, Literal::Float(amount)) => {
            let text = amount.to_string();
            return parse(&field.kind, &text)
                .map(|value| value.to_value())
                .map_err(|what| format!("{amount}, not {what}"));
        }
        (Kind::Float, Literal::Int(value)) => ValueRef::Float(*value as f64),
        (_, literal) => literal.value(),
    };
    match check_kind(field, value) {
        Ok(()) => Ok(value.to_value()),
        Err((_, message)) => Err(format!("{}: {message}", excerpt_of(value))),
    }
}
