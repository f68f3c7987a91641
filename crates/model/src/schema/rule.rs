//! Constants and rules of a schema, as data.

use std::borrow::Cow;

use crate::{Currency, ValueRef};

/// A constant in a schema.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// NULL.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// An exact amount.
    Currency(Currency),
    /// A text, or the text form of a value of any other kind.
    Text(Cow<'static, str>),
}

impl Literal {
    /// Returns the constant as a row's value.
    #[must_use]
    pub fn value(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Bool(value) => ValueRef::Bool(*value),
            Self::Int(value) => ValueRef::Int(*value),
            Self::Float(value) => ValueRef::Float(*value),
            Self::Currency(value) => ValueRef::Currency(*value),
            Self::Text(value) => ValueRef::Text(value),
        }
    }
}

/// A rule for a field's values in addition to the kind. NULL satisfies every rule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Rule {
    /// A text or blob of at least one character that is not white space, or one byte.
    NotEmpty,
    /// A number of characters (text) or bytes (blob) between the two, both included.
    Length {
        /// The minimum.
        min: u32,
        /// The maximum.
        max: u32,
    },
    /// A value between the two, both included.
    Range {
        /// The minimum; `None` for no limit.
        min: Option<Literal>,
        /// The maximum; `None` for no limit.
        max: Option<Literal>,
    },
    /// A text that matches the regular expression as a whole.
    Pattern(Cow<'static, str>),
    /// An e-mail address (RFC 5321, with a domain).
    Email,
    /// A custom function; its error is the message for the caller.
    Check {
        /// The rule's name in errors.
        name: &'static str,
        /// Checks a value; the error describes the fault.
        check: fn(ValueRef<'_>) -> Result<(), String>,
    },
}
