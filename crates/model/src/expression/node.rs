//! The tree of an expression, and the forms of its values.

use crate::{Currency, Value, ValueForm};

/// The form of an expression's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Only NULL.
    Null,
    /// The caller's key, which has the form of the field.
    Caller,
    /// The key of a row, which has the form of the field.
    Key,
    Of(ValueForm),
}

impl Form {
    pub(super) const INT: Self = Self::Of(ValueForm::Int);
    pub(super) const FLOAT: Self = Self::Of(ValueForm::Float);
    pub(super) const CURRENCY: Self = Self::Of(ValueForm::Currency);
    pub(super) const TEXT: Self = Self::Of(ValueForm::Text);
    pub(super) const DATE: Self = Self::Of(ValueForm::Date);
    pub(super) const UUID: Self = Self::Of(ValueForm::Uuid);

    /// Returns the name in errors.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Caller => "the key of the caller",
            Self::Key => "the key of a row",
            Self::Of(form) => match form {
                ValueForm::Bool => "boolean",
                ValueForm::Int => "integer",
                ValueForm::Float => "float",
                ValueForm::Currency => "currency",
                ValueForm::Text => "text",
                ValueForm::Json => "json",
                ValueForm::Blob => "blob",
                ValueForm::Date => "date",
                ValueForm::Time => "time",
                ValueForm::Timestamp => "timestamp",
                ValueForm::Uuid => "uuid",
            },
        }
    }

    pub(super) fn is_number(self) -> bool {
        [Self::INT, Self::FLOAT, Self::CURRENCY].contains(&self)
    }
}

/// A part of an expression.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Constant(Value),
    /// A number, with its digits, since it may become an amount.
    Number(Value, Box<str>),
    Field(usize),
    Now,
    Today,
    UserId,
    UserName,
    UuidV4,
    UuidV7,
    /// A random text of this number of characters.
    Token(usize),
    /// A function of a text.
    OfText(TextFunction, Box<Node>),
    /// The number of characters of a text.
    Length(Box<Node>),
    /// The text form of a value.
    ToText(Box<Node>),
    /// The first value that is not NULL.
    Coalesce(Vec<Node>),
    /// The text of a composite key, of fields.
    Key(Vec<Node>),
    /// The key in the text of a field, `TABLE/KEY`, if it names this table.
    KeyIn(Box<Node>, Box<str>),
    Negate(Box<Node>),
    Binary(Operator, Box<[Node; 2]>),
}

/// A function from a text to a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextFunction {
    Lower,
    Upper,
    Trim,
    /// The words in lower case, joined by `-`.
    Slug,
}

/// An operator between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Operator {
    /// Returns the operator as it is written.
    pub(super) const fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
        }
    }
}

impl Node {
    /// Visits this node and all nodes in it.
    pub(super) fn each(&self, visit: &mut impl FnMut(&Self)) {
        visit(self);
        match self {
            Self::OfText(_, inner)
            | Self::Length(inner)
            | Self::ToText(inner)
            | Self::KeyIn(inner, _)
            | Self::Negate(inner) => {
                inner.each(visit);
            }
            Self::Coalesce(inner) | Self::Key(inner) => {
                inner.iter().for_each(|inner| inner.each(visit));
            }
            Self::Binary(_, both) => both.iter().for_each(|inner| inner.each(visit)),
            _ => {}
        }
    }

    /// Returns true if this node depends on the row alone.
    pub(super) const fn is_of_row(&self) -> bool {
        !matches!(
            self,
            Self::Now
                | Self::Today
                | Self::UserId
                | Self::UserName
                | Self::UuidV4
                | Self::UuidV7
                | Self::Token(_)
        )
    }

    /// Returns a constant number as an amount; `None` for other nodes, and for more than four
    /// decimals.
    pub(super) fn as_currency(&self) -> Option<Self> {
        match self {
            Self::Number(_, digits) => {
                let amount: Currency = digits.parse().ok()?;
                Some(Self::Constant(Value::Currency(amount)))
            }
            Self::Negate(inner) => Some(Self::Negate(Box::new(inner.as_currency()?))),
            _ => None,
        }
    }
}
