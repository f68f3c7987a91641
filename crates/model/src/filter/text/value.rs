//! The values with which a filter compares a field.

use crate::json::write_string;
use crate::lexer::{Cursor, Token};
use crate::schema::{text, violation};
use crate::{Error, Field, KeyKind, Kind, Result, Scratch, Value, ValueRef};

/// Parses the next value.
pub(super) fn value(cursor: &mut Cursor<'_, '_>, field: &Field) -> Result<Value> {
    let token = cursor.value_token()?;
    value_of(cursor, field, &token)
}

/// Converts a token to a value of the field's kind.
pub(super) fn value_of(cursor: &Cursor<'_, '_>, field: &Field, token: &Token<'_>) -> Result<Value> {
    let text = match token {
        Token::Word("null") => return Ok(Value::Null),
        Token::Word(word @ ("true" | "false")) if field.kind == Kind::Bool => word,
        Token::Number(number) if !matches!(field.kind, Kind::Text { .. }) => number,
        Token::Text(text) | Token::OfCaller(text) if field.kind == Kind::Json => {
            let mut json = Vec::new();
            write_string(&mut json, text);
            return Ok(Value::Json(String::from_utf8_lossy(&json).into_owned()));
        }
        Token::Text(text) if is_bare_kind(&field.kind) => {
            let message =
                format!("a value of type {} must be written without quotes", field.kind.name());
            let value = ValueRef::Text(text);
            return Err(Error::invalid(vec![violation(field, value, "type", message)]));
        }
        Token::Text(text) | Token::OfCaller(text) => text.as_str(),
        Token::Word(word) | Token::Number(word) => word,
        Token::End | Token::Symbol(_) => return Err(cursor.expected("a value", token)),
    };
    // A bare word or number is not a text: `name = 7` is more often a mistake.
    let bare = matches!(token, Token::Word(_) | Token::Number(_));
    let read = match field.kind {
        Kind::Text { .. } if bare => Err("a quoted text"),
        _ => text::parse(&field.kind, text),
    };
    read.map(|value| value.to_value()).map_err(|what| {
        let scratch = Scratch::new();
        let value = ValueRef::Text(scratch.text(text));
        let message = format!("the filter compares the field with a value that is not {what}");
        Error::invalid(vec![violation(field, value, "type", message)])
    })
}

/// Returns true for kinds whose values are numbers or booleans in JSON.
const fn is_bare_kind(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Bool
            | Kind::Int { .. }
            | Kind::Float
            | Kind::Currency
            | Kind::Reference { key: KeyKind::Auto, .. }
    )
}
