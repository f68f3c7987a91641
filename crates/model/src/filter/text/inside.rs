//! Tests of the value at a path inside a JSON field.

use crate::json::{JsonCondition, JsonPath, JsonTest};
use crate::lexer::{Cursor, Token, comparison};
use crate::schema::violation;
use crate::{Comparison, Error, FilterExpr, Kind, Place, Result, Table, Value, ValueRef};

/// Parses a path and a test of the value there.
pub(super) fn inside(
    cursor: &mut Cursor<'_, '_>,
    table: &Table,
    field: usize,
) -> Result<FilterExpr> {
    let what = &table.fields()[field];
    if !matches!(what.kind, Kind::Json | Kind::File { .. }) {
        let kind = what.kind.name();
        let message = format!("is a {kind} field; only JSON fields and files have paths");
        return Err(Error::invalid(vec![violation(what, ValueRef::Null, "path", message)]));
    }
    let (path, taken) = JsonPath::at_start(cursor.rest())
        .map_err(|why| cursor.error(&format!("has a path of `{}` that {why}", what.name)))?;
    cursor.skip(taken);
    let (test, is_not) = test(cursor)?;
    let filter = FilterExpr::Inside { field, condition: Box::new(JsonCondition { path, test }) };
    Ok(if is_not { FilterExpr::Not(Box::new(filter)) } else { filter })
}

/// Parses a test of a JSON value. Also returns true if the test is negated.
fn test(cursor: &mut Cursor<'_, '_>) -> Result<(JsonTest, bool)> {
    let token = cursor.token()?;
    let comparison = match &token {
        Token::Symbol("~") => return matches(cursor, Place::Anywhere),
        Token::Symbol("^") => return matches(cursor, Place::Start),
        Token::Word(word) if word.eq_ignore_ascii_case("exists") => {
            return Ok((JsonTest::Exists, false));
        }
        Token::Word(word) if word.eq_ignore_ascii_case("in") => {
            return Ok((list(cursor)?, false));
        }
        Token::Word(word) if word.eq_ignore_ascii_case("not") && cursor.take_word("in") => {
            return Ok((list(cursor)?, true));
        }
        token => comparison(token)
            .ok_or_else(|| cursor.expected("one of = != < <= > >= ~ ^ in exists", token))?,
    };
    match (comparison, value(cursor)?) {
        (Comparison::Equal, Value::Null) => Ok((JsonTest::IsNull, false)),
        (Comparison::NotEqual, Value::Null) => Ok((JsonTest::IsNull, true)),
        (_, Value::Null) => Err(cursor.error("null has no order; use = or !=")),
        (comparison, value) => Ok((JsonTest::Compare(comparison, value), false)),
    }
}

fn matches(cursor: &mut Cursor<'_, '_>, place: Place) -> Result<(JsonTest, bool)> {
    match cursor.token()? {
        Token::Text(text) => Ok((JsonTest::Match(place, text), false)),
        other => Err(cursor.expected("a quoted text", &other)),
    }
}

fn list(cursor: &mut Cursor<'_, '_>) -> Result<JsonTest> {
    match cursor.groups() {
        Some(groups) => Ok(JsonTest::In(groups.into_iter().map(Value::Text).collect())),
        None => cursor.values(value).map(JsonTest::In),
    }
}

fn value(cursor: &mut Cursor<'_, '_>) -> Result<Value> {
    let token = cursor.value_token()?;
    let value = match &token {
        Token::Word("null") => Some(Value::Null),
        Token::Word("true") => Some(Value::Bool(true)),
        Token::Word("false") => Some(Value::Bool(false)),
        Token::Text(text) | Token::OfCaller(text) => Some(Value::Text(text.clone())),
        Token::Number(number) => match (number.parse(), number.parse::<f64>()) {
            (Ok(whole), _) => Some(Value::Int(whole)),
            (_, Ok(number)) if number.is_finite() => Some(Value::Float(number)),
            _ => None,
        },
        _ => None,
    };
    value.ok_or_else(|| cursor.expected("a number, a quoted text, true, false or null", &token))
}
