//! Constants and rules of a schema, as data.

use std::borrow::Cow;

use crate::{Currency, ValueRef};

/// A constant in a schema.
///
/// ```
/// use marmota_model::{Field, Kind, Literal};
/// let price = Field::new("price", Kind::Currency).default(Literal::Text("9.95".into()));
/// let count = Field::new("count", Kind::I64).default(Literal::Int(1));
/// assert_eq!(count.default, Some(Literal::Int(1)));
/// ```
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
    /// A text is not parsed: the field's kind is not known here.
    ///
    /// ```
    /// use marmota_model::{Literal, ValueRef};
    /// assert_eq!(Literal::Int(7).value(), ValueRef::Int(7));
    /// assert_eq!(Literal::Text("2026-11-21".into()).value(), ValueRef::Text("2026-11-21"));
    /// ```
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
///
/// | rule | for | name in a violation |
/// |---|---|---|
/// | `NotEmpty` | texts, blobs | `not_empty` |
/// | `Length` | texts, blobs | `length` |
/// | `Range` | numbers, amounts, dates and times, texts | `range` |
/// | `Pattern` | texts | `pattern` |
/// | `Email` | texts | `email` |
/// | `Check` | all | the one it has |
///
/// The rules of the kind are in addition: `required`, `type`, `max` (of a text), `range` (of an
/// integer).
///
/// ```
/// use marmota_model::{Field, Kind, Record, Role, Rule, Schema, Table, ValueRef};
///
/// fn even(value: ValueRef<'_>) -> Result<(), String> {
///     match value.as_int() {
///         Some(number) if number % 2 != 0 => Err("must be even".to_owned()),
///         _ => Ok(()),
///     }
/// }
///
/// let table = Table::new(Schema::new("pair", vec![
///     Field::new("id", Kind::I64).role(Role::Key),
///     Field::new("plate", Kind::TEXT).rules(vec![Rule::Pattern("[A-Z]{2}-[0-9]+".into())]),
///     Field::new("count", Kind::I64).rules(vec![Rule::Check { name: "even", check: even }]),
/// ]))?;
/// let mut pair = Record::new(table.into());
/// pair.set("plate", "AB-7")?;
/// let error = pair.set("count", 3_i64).unwrap_err();
/// assert_eq!(error.violations()[0].rule, "even");
/// assert_eq!(pair.set("plate", "ab-7").unwrap_err().violations()[0].rule, "pattern");
/// # Ok::<(), marmota_model::Error>(())
/// ```
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
