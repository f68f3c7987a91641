//! A constant in an attribute, `default = 3` or `range(min = -1.5)`, and its conversion to a
//! literal of the schema for a field of a known type.

use std::cmp::Ordering;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Lit, Token};

use crate::shape::Shape;

/// Decimals of an amount, which is stored in ten-thousandths.
const CURRENCY_DECIMALS: usize = 4;

/// A constant as written in the source.
///
/// A number, a text, `true` or `false`. Expressions and paths are not accepted, because the schema
/// needs the value when the macro runs.
pub(crate) struct Constant {
    /// The sign, which is a separate token.
    negative: Option<Token![-]>,
    /// The literal after the sign.
    written: Lit,
}

/// A constant as a `Literal` of the schema.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Bool(bool),
    Int(i64),
    Float(f64),
    /// In ten-thousandths.
    Currency(i64),
    Text(String),
}

impl Parse for Constant {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let negative: Option<Token![-]> = input.parse()?;
        let written: Lit = input.parse()?;
        match written {
            Lit::Int(_) | Lit::Float(_) => Ok(Self { negative, written }),
            Lit::Str(_) | Lit::Bool(_) if negative.is_none() => Ok(Self { negative, written }),
            _ => Err(input.error("expected a number, a text, true or false")),
        }
    }
}

impl ToTokens for Constant {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.negative.to_tokens(tokens);
        self.written.to_tokens(tokens);
    }
}

impl Constant {
    /// Returns the constant as a length or maximum, from `least` to `u32::MAX`.
    pub(crate) fn size(&self, least: u32) -> Result<u32, String> {
        let number = match &self.written {
            Lit::Int(number) if self.negative.is_none() => number.base10_parse().ok(),
            _ => None,
        };
        number
            .filter(|number| *number >= least)
            .ok_or_else(|| format!("write a whole number from {least} to {}", u32::MAX))
    }

    /// Returns the constant as a number of bytes: a whole number, or a text with a unit such as
    /// `"10 MB"`.
    pub(crate) fn bytes(&self) -> Result<u64, String> {
        let bytes = match &self.written {
            Lit::Int(number) if self.negative.is_none() => number.base10_parse().ok(),
            Lit::Str(text) => bytes_of(&text.value()),
            _ => None,
        };
        bytes.filter(|bytes| (1..=i64::MAX as u64).contains(bytes)).ok_or_else(|| {
            "write a number of bytes of at least 1, or a text such as \"10 MB\" (kB, MB, GB, KiB, \
             MiB, GiB)"
                .to_owned()
        })
    }

    /// Returns the constant as a literal for a field of `shape`; the error is the expected form.
    pub(crate) fn literal(&self, shape: Shape) -> Result<Literal, String> {
        let expected = match (shape, &self.written) {
            (Shape::Bool, Lit::Bool(value)) => return Ok(Literal::Bool(value.value)),
            (Shape::Bool, _) => "`true` or `false`",
            (Shape::Int(min, max), Lit::Int(_)) => {
                return match self.integer() {
                    Some(value) if (min..=max).contains(&value) => Ok(Literal::Int(value)),
                    _ => Err(format!("the type of this field allows {min} to {max}")),
                };
            }
            (Shape::Int(..), _) => "a whole number",
            (Shape::Float, Lit::Int(_) | Lit::Float(_)) => return self.float(),
            (Shape::Float, _) => "a number",
            (Shape::Currency, Lit::Int(_) | Lit::Float(_)) => {
                return scaled(&self.digits()).map(Literal::Currency).ok_or_else(|| {
                    "an amount has at most four decimals and 19 digits, as 12.50".to_owned()
                });
            }
            (Shape::Currency, _) => "a number, as 12.50",
            (Shape::File, _) => return Err("a file field cannot have a constant".to_owned()),
            (Shape::Vector, _) => {
                return Err("a vector field cannot have a constant".to_owned());
            }
            (Shape::Blob, _) => return Err("a blob field cannot have a constant".to_owned()),
            (Shape::Reference, Lit::Int(_)) | (Shape::Other, _) => return self.as_written(),
            (_, Lit::Str(text)) if text.value().contains('\0') => {
                return Err("a text must not contain the character U+0000".to_owned());
            }
            (_, Lit::Str(text)) => return Ok(Literal::Text(text.value())),
            (Shape::Text, _) => "a text in quotes",
            (Shape::Json, _) => "JSON text in quotes, as \"[]\"",
            (Shape::Date, _) => "a date in quotes, as \"2026-11-21\"",
            (Shape::Time, _) => "a time in quotes, as \"17:05:00\"",
            (Shape::Timestamp, _) => "a timestamp in quotes, as \"2026-11-21T17:05:00Z\"",
            (Shape::Uuid, _) => "a UUID in quotes",
            (Shape::Reference, _) => "the key of the row referred to",
        };
        Err(format!("the type of this field needs {expected}"))
    }

    /// Returns the literal of a type that the macro does not know; it is checked when the model is
    /// registered.
    fn as_written(&self) -> Result<Literal, String> {
        match &self.written {
            Lit::Bool(value) => Ok(Literal::Bool(value.value)),
            Lit::Str(text) => Ok(Literal::Text(text.value())),
            Lit::Float(_) => self.float(),
            _ => match self.integer() {
                Some(value) => Ok(Literal::Int(value)),
                None => Err("an integer must fit into 64 bits with a sign".to_owned()),
            },
        }
    }

    /// Returns a number in decimal digits, with its sign and without a type suffix.
    fn digits(&self) -> String {
        let digits = match &self.written {
            Lit::Int(number) => number.base10_digits(),
            Lit::Float(number) => number.base10_digits(),
            _ => "",
        };
        if self.negative.is_some() { format!("-{digits}") } else { digits.to_owned() }
    }

    /// Returns the number as a signed integer of 64 bits.
    fn integer(&self) -> Option<i64> {
        self.digits().parse().ok()
    }

    /// Returns the number as a finite float.
    fn float(&self) -> Result<Literal, String> {
        match self.digits().parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Literal::Float(value)),
            _ => Err("a float must be finite".to_owned()),
        }
    }
}

/// Parses a number of bytes with a unit.
fn bytes_of(text: &str) -> Option<u64> {
    let (number, unit) = text.trim().split_at_checked(
        text.trim().find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.trim().len()),
    )?;
    let unit: u64 = match unit.trim() {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// Parses a decimal number into ten-thousandths; `None` if it is not exact or out of range.
fn scaled(digits: &str) -> Option<i64> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > CURRENCY_DECIMALS {
        return None;
    }
    format!("{whole}{fraction:0<CURRENCY_DECIMALS$}").parse().ok()
}

impl Literal {
    /// Compares two literals of the same field; `None` for texts, whose order depends on the
    /// field's kind.
    pub(crate) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) | (Self::Currency(a), Self::Currency(b)) => Some(a.cmp(b)),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(b),
            _ => None,
        }
    }

    /// Returns the code of the schema's `Literal`.
    pub(crate) fn code(&self, model: &TokenStream) -> TokenStream {
        match self {
            Self::Bool(value) => quote!(#model::Literal::Bool(#value)),
            Self::Int(value) => quote!(#model::Literal::Int(#value)),
            Self::Float(value) => quote!(#model::Literal::Float(#value)),
            Self::Currency(scaled) => {
                quote!(#model::Literal::Currency(#model::Currency::from_scaled(#scaled)))
            }
            Self::Text(text) => {
                quote!(#model::Literal::Text(::std::borrow::Cow::Borrowed(#text)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(written: &str, shape: Shape) -> Result<Literal, String> {
        syn::parse_str::<Constant>(written).unwrap().literal(shape)
    }

    #[test]
    fn amounts_are_exact() {
        for (written, amount) in [
            ("12.50", 125_000),
            ("-0.0001", -1),
            ("7", 70_000),
            ("-922337203685477.5808", i64::MIN),
            ("1.000000", 10_000),
        ] {
            assert_eq!(literal(written, Shape::Currency), Ok(Literal::Currency(amount)));
        }
        for written in ["0.00001", "922337203685477.5808", "1e3", "\"1\"", "true"] {
            assert!(literal(written, Shape::Currency).is_err(), "{written}");
        }
    }

    #[test]
    fn integers_fit_their_type() {
        let i8 = Shape::Int(-128, 127);
        assert_eq!(literal("-128", i8), Ok(Literal::Int(-128)));
        assert_eq!(literal("0x7f", i8), Ok(Literal::Int(127)));
        assert!(literal("128", i8).unwrap_err().contains("-128 to 127"));
        assert!(literal("99999999999999999999", Shape::Int(i64::MIN, i64::MAX)).is_err());
        assert_eq!(literal("-9223372036854775808", Shape::Other), Ok(Literal::Int(i64::MIN)));
    }

    #[test]
    fn sizes_have_units() {
        let bytes = |written: &str| syn::parse_str::<Constant>(written).unwrap().bytes();
        assert_eq!(bytes("5"), Ok(5));
        assert_eq!(bytes("\"10 MB\""), Ok(10_000_000));
        assert_eq!(bytes("\"2MiB\""), Ok(2 << 20));
        for wrong in ["0", "-1", "1.5", "\"\"", "\"MB\"", "\"1 M\"", "\"99999999999 GB\"", "true"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_minus_before_texts() {
        assert!(syn::parse_str::<Constant>("-\"a\"").is_err());
        assert!(syn::parse_str::<Constant>("'a'").is_err());
    }
}
