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
/// | `Url` | texts | `url` |
/// | `Ip` | texts | `ip` |
/// | `Count` | texts | `count` |
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
    /// An absolute URL of the web: `http` or `https`, with a host (RFC 3986).
    Url,
    /// An IPv4 or IPv6 address.
    Ip,
    /// A number of characters of a class between the two, both included: at least one digit, no
    /// white space.
    Count {
        /// The class.
        class: CharacterClass,
        /// The minimum.
        min: u32,
        /// The maximum.
        max: u32,
    },
    /// A custom function; its error is the message for the caller.
    Check {
        /// The rule's name in errors.
        name: &'static str,
        /// Checks a value; the error describes the fault.
        check: fn(ValueRef<'_>) -> Result<(), String>,
    },
}

/// A class of characters, which [`Rule::Count`] counts. Classes are those of Unicode.
///
/// ```
/// use marmota_model::{CharacterClass, Field, Kind, Record, Role, Rule, Schema, Table};
/// let digit = Rule::Count { class: CharacterClass::Digits, min: 1, max: u32::MAX };
/// let table = Table::new(Schema::new("lock", vec![
///     Field::new("id", Kind::I64).role(Role::Key),
///     Field::new("code", Kind::TEXT).rules(vec![digit]),
/// ]))?;
/// let error = Record::new(table.into()).set("code", "abc").unwrap_err();
/// assert_eq!(error.violations()[0].message, "must have at least 1 digit, but has 0");
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CharacterClass {
    /// Letters.
    Letters,
    /// Letters in lower case.
    Lower,
    /// Letters in upper case.
    Upper,
    /// Digits 0 to 9.
    Digits,
    /// Characters that are not letters, numbers, white space or control characters.
    Punctuation,
    /// White space.
    Spaces,
}

impl CharacterClass {
    /// All classes.
    pub const ALL: [Self; 6] =
        [Self::Letters, Self::Lower, Self::Upper, Self::Digits, Self::Punctuation, Self::Spaces];

    /// Returns the name in attributes and schema documents.
    ///
    /// ```
    /// assert_eq!(marmota_model::CharacterClass::Digits.name(), "digits");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Letters => "letters",
            Self::Lower => "lower",
            Self::Upper => "upper",
            Self::Digits => "digits",
            Self::Punctuation => "punctuation",
            Self::Spaces => "spaces",
        }
    }

    /// Returns the noun for one character and for several.
    pub(crate) const fn nouns(self) -> (&'static str, &'static str) {
        match self {
            Self::Letters => ("letter", "letters"),
            Self::Lower => ("lower-case letter", "lower-case letters"),
            Self::Upper => ("upper-case letter", "upper-case letters"),
            Self::Digits => ("digit", "digits"),
            Self::Punctuation => ("punctuation character", "punctuation characters"),
            Self::Spaces => ("space", "spaces"),
        }
    }

    /// Returns true if the class has the character.
    ///
    /// ```
    /// use marmota_model::CharacterClass;
    /// assert!(CharacterClass::Punctuation.has('€') && !CharacterClass::Punctuation.has('½'));
    /// ```
    #[must_use]
    pub fn has(self, c: char) -> bool {
        match self {
            Self::Letters => c.is_alphabetic(),
            Self::Lower => c.is_lowercase(),
            Self::Upper => c.is_uppercase(),
            Self::Digits => c.is_ascii_digit(),
            Self::Punctuation => !c.is_alphanumeric() && !c.is_whitespace() && !c.is_control(),
            Self::Spaces => c.is_whitespace(),
        }
    }
}
