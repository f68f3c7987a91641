//! Reads a column of a statement's rows: as its field, or as the type of the expression.

use marmota_model::{Kind, ValueRef};

use super::parameter;
use super::parameter::oid;
use crate::statement::column::pg_type;
use crate::wire::value::{self, PgType};

/// The conversion of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reading {
    /// Of this type.
    Type(PgType),
    /// A computed number: an integer, a currency amount, or a float.
    Numeric,
    /// `real`
    Float4,
    /// A type that Marmota lacks, as the server's text.
    Text,
    /// JSON, as the server's text.
    Json,
}

impl Reading {
    /// Returns the conversion for a field's kind, or for a type OID.
    pub(super) fn of(kind: Option<&Kind>, oid: u32) -> Self {
        match (kind, oid) {
            (Some(kind), _) => Self::Type(pg_type(kind)),
            (None, oid::FLOAT4) => Self::Float4,
            (None, oid::JSONB) => Self::Json,
            (None, oid::NAME | oid::UNKNOWN | oid::BPCHAR | oid::VARCHAR) => {
                Self::Type(PgType::Text)
            }
            (None, oid) => match parameter::pg_type(oid) {
                Some(PgType::Numeric) => Self::Numeric,
                Some(pg_type) => Self::Type(pg_type),
                None => Self::Text,
            },
        }
    }

    /// Returns 1 if it is received in binary, 0 for text.
    pub(super) fn format(&self) -> u8 {
        u8::from(!matches!(self, Self::Text | Self::Json))
    }

    /// Returns the value in a column, or `None` if Marmota cannot represent it.
    pub(super) fn read<'b>(&self, bytes: &'b [u8]) -> Option<ValueRef<'b>> {
        Some(match self {
            Self::Type(pg_type) => value::read(*pg_type, bytes)?,
            Self::Numeric => numeric(bytes)?,
            Self::Float4 => ValueRef::Float(f32::from_be_bytes(bytes.try_into().ok()?).into()),
            Self::Text => ValueRef::Text(std::str::from_utf8(bytes).ok()?),
            Self::Json => ValueRef::Json(std::str::from_utf8(bytes).ok()?),
        })
    }
}

/// A number without decimals is an integer, one with at most four an amount, any other a float.
fn numeric(bytes: &[u8]) -> Option<ValueRef<'_>> {
    let decimals = u16::from_be_bytes(*bytes.get(6..8)?.first_chunk()?);
    if decimals == 0
        && let Some(whole) = value::read_whole(bytes)
    {
        return Some(ValueRef::Int(whole));
    }
    match value::read(PgType::Numeric, bytes) {
        Some(ValueRef::Currency(amount)) if (1..=4).contains(&decimals) => {
            Some(ValueRef::Currency(amount))
        }
        _ => value::read_numeric_as_float(bytes).map(ValueRef::Float),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use marmota_model::Currency;

    #[test]
    fn numbers_worked_out_are_what_they_can_be() {
        // 30, 12.5000 and 0.3333333333333333
        assert_eq!(numeric(&[0, 1, 0, 0, 0, 0, 0, 0, 0, 30]), Some(ValueRef::Int(30)));
        let amount = numeric(&[0, 2, 0, 0, 0, 0, 0, 4, 0, 12, 0x13, 0x88]);
        assert_eq!(amount, Some(ValueRef::Currency(Currency::from_scaled(125_000))));
        let third = [0, 4, 255, 255, 0, 0, 0, 16, 13, 5, 13, 5, 13, 5, 13, 5];
        let Some(ValueRef::Float(third)) = numeric(&third) else { panic!() };
        assert!((third - 1.0 / 3.0).abs() < 1e-12, "{third}");
        assert_eq!(numeric(&[0, 0]), None);
    }
}
