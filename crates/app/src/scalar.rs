//! Constants in an application file: defaults, and the ends of ranges.

use std::borrow::Cow;
use std::fmt;

use marmota_model::Literal;
use schemars::JsonSchema;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};

/// A boolean, a number or a text.
#[derive(Clone, Debug, JsonSchema, PartialEq)]
#[schemars(untagged)]
pub(crate) enum Scalar {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

impl Scalar {
    pub(crate) fn into_literal(self) -> Literal {
        match self {
            Self::Bool(value) => Literal::Bool(value),
            Self::Int(value) => Literal::Int(value),
            Self::Float(value) => Literal::Float(value),
            Self::Text(value) => Literal::Text(Cow::Owned(value)),
        }
    }

    /// Returns the constant of a schema; `None` for NULL, which a file states by leaving it out.
    pub(crate) fn of_literal(literal: &Literal) -> Option<Self> {
        Some(match literal {
            Literal::Null => return None,
            Literal::Bool(value) => Self::Bool(*value),
            Literal::Int(value) => Self::Int(*value),
            Literal::Float(value) => Self::Float(*value),
            Literal::Currency(value) => Self::Text(value.to_string()),
            Literal::Text(value) => Self::Text(value.to_string()),
        })
    }
}

impl Serialize for Scalar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a boolean, a number or a text (dates and times are texts, in quotes)")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Scalar, E> {
        Ok(Scalar::Int(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Scalar, E> {
        let value = i64::try_from(value).map_err(|_| E::custom("the integer is too large"))?;
        Ok(Scalar::Int(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Scalar, E> {
        Ok(Scalar::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(value.to_owned()))
    }
}
