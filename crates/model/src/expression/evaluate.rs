//! The value of an expression for one row. NULL makes the result NULL, except in `coalesce`.

use uuid::Builder;

use super::arithmetic::{combine, negate, to_currency, unsuitable};
use super::context::ExpressionContext;
use super::node::{Node, TextFunction};
use crate::key_text;
use crate::schema::text;
use crate::{Date, Kind, Uuid, Value, ValueForm, ValueRef};

/// The characters of tokens: those of URLs, 6 bits each.
const TOKEN_CHARACTERS: &[u8; 64] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const MICROS_OF_DAY: i64 = 24 * 60 * 60 * 1_000_000;

/// Why an expression has no value.
type Fault = String;

/// Evaluates a node for a row.
pub(super) fn evaluate<'r>(
    node: &Node,
    row: &dyn Fn(usize) -> ValueRef<'r>,
    context: &ExpressionContext<'_>,
) -> Result<Value, Fault> {
    Ok(match node {
        Node::Constant(value) | Node::Number(value, _) => value.clone(),
        Node::Field(position) => match row(*position) {
            ValueRef::Absent => Value::Null,
            value => value.to_value(),
        },
        Node::Now => Value::Timestamp(context.now),
        Node::Today => Value::Date(day_of(context)?),
        Node::UserId => context.caller.map_or(Value::Null, |caller| caller.id.clone().into()),
        Node::UserName => context.caller.map_or(Value::Null, |caller| caller.name.clone().into()),
        Node::UuidV4 => {
            let mut bytes = [0; 16];
            fill(&mut bytes)?;
            Value::Uuid(Builder::from_random_bytes(bytes).into_uuid())
        }
        Node::UuidV7 => Value::Uuid(Uuid::now_v7()),
        Node::Token(chars) => Value::Text(token(*chars)?),
        Node::OfText(function, inner) => match evaluate(inner, row, context)? {
            Value::Text(text) => Value::Text(changed(*function, &text)),
            value => null_or_fault(value)?,
        },
        Node::Length(inner) => match evaluate(inner, row, context)? {
            Value::Text(text) => Value::Int(text.chars().count() as i64),
            value => null_or_fault(value)?,
        },
        Node::ToText(inner) => to_text(evaluate(inner, row, context)?)?,
        Node::Coalesce(values) => {
            for value in values {
                match evaluate(value, row, context)? {
                    Value::Null => {}
                    value => return Ok(value),
                }
            }
            Value::Null
        }
        Node::Key(parts) => {
            let parts: Result<Vec<Value>, Fault> =
                parts.iter().map(|part| evaluate(part, row, context)).collect();
            let parts = parts?;
            let parts: Vec<ValueRef<'_>> = parts.iter().map(Value::as_ref).collect();
            match parts.contains(&ValueRef::Null) {
                true => Value::Null,
                false => Value::Text(key_text(&parts)),
            }
        }
        Node::KeyIn(inner, table) => match evaluate(inner, row, context)? {
            Value::Text(text) => match text.split_once('/') {
                Some((name, key)) if name == &**table => Value::Text(key.to_owned()),
                _ => Value::Null,
            },
            value => null_or_fault(value)?,
        },
        Node::Negate(inner) => match evaluate(inner, row, context)? {
            Value::Null => Value::Null,
            value => negate(&value)?,
        },
        Node::Binary(operator, both) => {
            let (left, right) =
                (evaluate(&both[0], row, context)?, evaluate(&both[1], row, context)?);
            match left == Value::Null || right == Value::Null {
                true => Value::Null,
                false => combine(*operator, &left, &right)?,
            }
        }
    })
}

/// Converts the value of an expression to the kind of its field.
pub(super) fn to_kind(value: Value, kind: &Kind) -> Result<Value, Fault> {
    match (value, kind.form()) {
        (Value::Int(value), ValueForm::Float) => Ok(Value::Float(value as f64)),
        (Value::Int(value), ValueForm::Currency) => to_currency(value),
        // The caller's key, and that in a text.
        (Value::Text(key), ValueForm::Int | ValueForm::Uuid) => {
            let parsed = text::parse(kind, &key).map(|value| value.to_value());
            parsed.map_err(|what| format!("is a key which is not {what}"))
        }
        (value, _) => Ok(value),
    }
}

fn day_of(context: &ExpressionContext<'_>) -> Result<Date, Fault> {
    let days = context.now.micros().div_euclid(MICROS_OF_DAY);
    let day = i32::try_from(days).ok().and_then(|days| Date::from_days(days).ok());
    day.ok_or_else(|| "is a date out of range".to_owned())
}

fn null_or_fault(value: Value) -> Result<Value, Fault> {
    if value == Value::Null { Ok(value) } else { Err(unsuitable()) }
}

fn changed(function: TextFunction, text: &str) -> String {
    match function {
        TextFunction::Lower => text.to_lowercase(),
        TextFunction::Upper => text.to_uppercase(),
        TextFunction::Trim => text.trim().to_owned(),
        TextFunction::Slug => slug(text),
    }
}

/// Returns the letters and digits of a text in lower case, with `-` for all between them.
fn slug(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

fn to_text(value: Value) -> Result<Value, Fault> {
    Ok(Value::Text(match value {
        Value::Null => return Ok(Value::Null),
        Value::Text(text) => text,
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Currency(value) => value.to_string(),
        Value::Date(value) => value.to_string(),
        Value::Time(value) => value.to_string(),
        Value::Timestamp(value) => value.to_string(),
        Value::Uuid(value) => value.to_string(),
        Value::Absent | Value::Json(_) | Value::Blob(_) => return Err(unsuitable()),
    }))
}

fn token(chars: usize) -> Result<String, Fault> {
    let mut bytes = vec![0; chars];
    fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| char::from(TOKEN_CHARACTERS[usize::from(byte & 63)])).collect())
}

fn fill(bytes: &mut [u8]) -> Result<(), Fault> {
    getrandom::fill(bytes).map_err(|error| format!("needs random bytes: {error}"))
}
