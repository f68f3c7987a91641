//! Arithmetic with checks: a result that is out of range is an error, on every engine alike.

use super::node::Operator;
use crate::{Currency, Date, Value};

/// The number of parts of a currency unit.
const CURRENCY_SCALE: i128 = 10_000;
/// The maximum length of a text in bytes.
const TEXT_BYTES_MAX: usize = 1 << 24;

/// Why a calculation has no result.
type Fault = String;

/// Combines two values that are not NULL.
pub(super) fn combine(operator: Operator, left: &Value, right: &Value) -> Result<Value, Fault> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => {
            of_integers(operator, *left, *right).map(Value::Int)
        }
        (Value::Float(left), Value::Float(right)) => of_floats(operator, *left, *right),
        (Value::Int(left), Value::Float(right)) => of_floats(operator, *left as f64, *right),
        (Value::Float(left), Value::Int(right)) => of_floats(operator, *left, *right as f64),
        (Value::Currency(left), Value::Currency(right)) => of_amounts(operator, *left, *right),
        (Value::Currency(amount), Value::Int(number)) => scaled(operator, *amount, *number),
        (Value::Int(number), Value::Currency(amount)) => scaled(operator, *amount, *number),
        (Value::Date(day), Value::Int(days)) => moved(operator, *day, *days),
        (Value::Date(left), Value::Date(right)) => {
            Ok(Value::Int(i64::from(left.days()) - i64::from(right.days())))
        }
        (Value::Text(left), Value::Text(right)) => {
            if left.len() + right.len() > TEXT_BYTES_MAX {
                return Err(format!("has more than {TEXT_BYTES_MAX} bytes"));
            }
            Ok(Value::Text(format!("{left}{right}")))
        }
        _ => Err(unsuitable()),
    }
}

/// Returns a number with the other sign.
pub(super) fn negate(value: &Value) -> Result<Value, Fault> {
    let negated = match value {
        Value::Int(value) => value.checked_neg().map(Value::Int),
        Value::Float(value) => Some(Value::Float(-value)),
        Value::Currency(value) => value
            .scaled()
            .checked_neg()
            .map(|scaled| Value::Currency(Currency::from_scaled(scaled))),
        _ => return Err(unsuitable()),
    };
    negated.ok_or_else(too_large)
}

/// Returns an integer as an amount.
pub(super) fn to_currency(whole: i64) -> Result<Value, Fault> {
    amount(i128::from(whole) * CURRENCY_SCALE)
}

fn of_integers(operator: Operator, left: i64, right: i64) -> Result<i64, Fault> {
    let result = match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        Operator::Divide if right == 0 => return Err(by_zero()),
        Operator::Divide => left.checked_div(right),
    };
    result.ok_or_else(too_large)
}

fn of_floats(operator: Operator, left: f64, right: f64) -> Result<Value, Fault> {
    let result = match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide if right == 0.0 => return Err(by_zero()),
        Operator::Divide => left / right,
    };
    if result.is_finite() { Ok(Value::Float(result)) } else { Err(too_large()) }
}

fn of_amounts(operator: Operator, left: Currency, right: Currency) -> Result<Value, Fault> {
    let (left, right) = (i128::from(left.scaled()), i128::from(right.scaled()));
    amount(match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => divided(left * right, CURRENCY_SCALE),
        Operator::Divide => return Err(unsuitable()),
    })
}

fn scaled(operator: Operator, of: Currency, by: i64) -> Result<Value, Fault> {
    let (of, by) = (i128::from(of.scaled()), i128::from(by));
    amount(match operator {
        Operator::Multiply => of * by,
        Operator::Divide if by == 0 => return Err(by_zero()),
        Operator::Divide => divided(of, by),
        Operator::Add | Operator::Subtract => return Err(unsuitable()),
    })
}

fn moved(operator: Operator, day: Date, days: i64) -> Result<Value, Fault> {
    let day = i64::from(day.days());
    let moved = match operator {
        Operator::Add => day.checked_add(days),
        Operator::Subtract => day.checked_sub(days),
        Operator::Multiply | Operator::Divide => return Err(unsuitable()),
    };
    let moved = moved.and_then(|days| i32::try_from(days).ok());
    moved.and_then(|days| Date::from_days(days).ok()).map(Value::Date).ok_or_else(too_large)
}

/// Divides with rounding to the nearest number, halves away from zero.
fn divided(of: i128, by: i128) -> i128 {
    let (quotient, rest) = (of / by, of % by);
    match rest.unsigned_abs() * 2 >= by.unsigned_abs() {
        true if (of < 0) == (by < 0) => quotient + 1,
        true => quotient - 1,
        false => quotient,
    }
}

fn amount(scaled: i128) -> Result<Value, Fault> {
    let scaled = i64::try_from(scaled).map_err(|_| too_large())?;
    Ok(Value::Currency(Currency::from_scaled(scaled)))
}

fn too_large() -> Fault {
    "is out of range".to_owned()
}

fn by_zero() -> Fault {
    "divides by zero".to_owned()
}

/// The error for values that are not of their field's kind, which rules refuse before.
pub(super) fn unsuitable() -> Fault {
    "uses a value that is not of its field's kind".to_owned()
}
