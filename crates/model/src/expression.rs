//! Expressions: the values of fields that the store determines itself, as text in a schema.
//!
//! ```text
//! sum      = product { ("+" | "-") product }
//! product  = single { ("*" | "/") single }
//! single   = "-" single | "(" sum ")" | value
//! value    = number | string | "true" | "false" | "null" | field | function | context
//! function = name "(" [ sum { "," sum } ] ")"
//! context  = "@now" | "@today" | "@user.id" | "@user.name"
//! ```
//!
//! `key_in(text)` is the key in a text `TABLE/KEY`, if TABLE is the one that the reference refers to.
//!
//! The store evaluates expressions itself, so all engines have the same results.

mod arithmetic;
mod context;
mod evaluate;
mod node;
mod parser;

pub use context::ExpressionContext;
pub use parser::{EXPRESSION_BYTES_MAX, EXPRESSION_DEPTH_MAX, EXPRESSION_TERMS_MAX};

use self::node::{Form, Node};
use crate::{Error, ErrorKind, Field, FieldSet, KeyKind, Kind, Result, Schema, Value, ValueRef};

/// A parsed expression, whose value a field gets.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    node: Node,
    /// The fields whose values it uses.
    pub(crate) fields: FieldSet,
    /// True if it depends on the row alone.
    pub(crate) is_of_row: bool,
}

impl Expression {
    /// Parses the expression of a field.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the place in the text; or because the values of the expression
    /// are not of the field's kind.
    pub(crate) fn parse(schema: &Schema, field: &Field, text: &str) -> Result<Self> {
        let (node, form) = parser::parse(schema, field, text)?;
        let node = fit(node, form, &field.kind).ok_or_else(|| {
            let message = format!(
                "the expression {:?} is {}, and the field is {}",
                crate::value::excerpt::excerpt(text),
                form.name(),
                field.kind.name()
            );
            Error::new(ErrorKind::Invalid, message)
        })?;
        let (mut fields, mut is_of_row) = (FieldSet::EMPTY, true);
        node.each(&mut |node| {
            is_of_row &= node.is_of_row();
            if let Node::Field(position) = node {
                fields = fields.with(*position);
            }
        });
        Ok(Self { node, fields, is_of_row })
    }

    /// Returns the fields of `key(a, b)`, in its order; empty for other expressions.
    pub(crate) fn parts_of_key(&self) -> Vec<usize> {
        let Node::Key(parts) = &self.node else { return Vec::new() };
        let field = |part: &Node| match part {
            Node::Field(position) => Some(*position),
            _ => None,
        };
        parts.iter().filter_map(field).collect()
    }

    /// Returns the text field of `key_in(text)`.
    pub(crate) fn text_of_key_in(&self) -> Option<usize> {
        match &self.node {
            Node::KeyIn(text, _) => match **text {
                Node::Field(position) => Some(position),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns true for the expression `null`.
    pub(crate) const fn is_null(&self) -> bool {
        matches!(self.node, Node::Constant(Value::Null))
    }

    /// Evaluates the expression for a row.
    ///
    /// # Errors
    /// Why it has no value, as a sentence without its subject.
    pub(crate) fn evaluate<'r>(
        &self,
        field: &Field,
        row: &dyn Fn(usize) -> ValueRef<'r>,
        context: &ExpressionContext<'_>,
    ) -> std::result::Result<Value, String> {
        let value = evaluate::evaluate(&self.node, row, context)?;
        evaluate::to_kind(value, &field.kind)
    }
}

/// Returns the node for a field of this kind; `None` if its values are not of the kind.
fn fit(node: Node, form: Form, kind: &Kind) -> Option<Node> {
    let of_reference = |key: &KeyKind| match key {
        KeyKind::Auto => Form::INT,
        KeyKind::Uuid => Form::UUID,
        KeyKind::Text => Form::TEXT,
    };
    let wanted = match kind {
        Kind::Enum { .. } | Kind::Json | Kind::Blob | Kind::File { .. } | Kind::Vector { .. } => {
            return None;
        }
        Kind::Reference { key, .. } => of_reference(key),
        kind => Form::Of(kind.form()),
    };
    match form {
        Form::Caller | Form::Key if [Form::INT, Form::UUID, Form::TEXT].contains(&wanted) => {
            Some(node)
        }
        Form::Null => Some(node),
        form if form == wanted => Some(node),
        Form::INT if wanted == Form::FLOAT => Some(node),
        Form::INT | Form::FLOAT if wanted == Form::CURRENCY => node.as_currency(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
