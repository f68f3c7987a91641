//! SQL constants: defaults of columns, and the ends of ranges in CHECK constraints.

use marmota_model::{Kind, Literal};
use sqlparser::ast::{Expr, UnaryOperator, Value};
use sqlparser::dialect::Dialect;
use sqlparser::parser::Parser;

/// Parses an expression. SQL that the parser does not know is `None`.
pub(super) fn expression(dialect: &dyn Dialect, sql: &str) -> Option<Expr> {
    let mut parser = Parser::new(dialect).try_with_sql(sql).ok()?;
    let expression = parser.parse_expr().ok()?;
    let is_whole = parser.peek_token().token == sqlparser::tokenizer::Token::EOF;
    is_whole.then_some(expression)
}

/// Removes parentheses and casts of constants: `('a'::text)`.
pub(super) fn plain(mut expression: &Expr) -> &Expr {
    loop {
        expression = match expression {
            Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => inner,
            other => return other,
        };
    }
}

/// Returns the text of a constant, with the sign of a number; `None` for NULL and expressions.
pub(super) fn text(expression: &Expr) -> Option<String> {
    match plain(expression) {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => Some(number.to_string()),
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => {
                Some(text.clone())
            }
            Value::Boolean(value) => Some(value.to_string()),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Some(format!("-{}", text(expr)?)),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => text(expr),
        _ => None,
    }
}

/// Returns true for NULL.
pub(super) fn is_null(expression: &Expr) -> bool {
    matches!(plain(expression), Expr::Value(value) if matches!(value.value, Value::Null))
}

/// Returns true for a call that returns the current time.
pub(super) fn is_now(expression: &Expr) -> bool {
    let text = plain(expression).to_string().to_ascii_lowercase();
    ["now()", "current_timestamp", "current_timestamp()", "transaction_timestamp()"]
        .contains(&&*text)
}

/// Returns a constant for a field of a kind.
pub(super) fn literal(expression: &Expr, kind: &Kind) -> Option<Literal> {
    let text = text(expression)?;
    Some(match kind {
        Kind::Bool => match &*text.to_ascii_lowercase() {
            "1" | "t" | "true" => Literal::Bool(true),
            "0" | "f" | "false" => Literal::Bool(false),
            _ => return None,
        },
        Kind::Int { .. } | Kind::Reference { .. } => match text.parse() {
            Ok(number) => Literal::Int(number),
            Err(_) => Literal::Text(text.into()),
        },
        Kind::Float => Literal::Float(text.parse().ok()?),
        _ => Literal::Text(text.into()),
    })
}
