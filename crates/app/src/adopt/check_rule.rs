//! Rules of CHECK constraints: lengths, ranges, and lists of texts.

use marmota_model::{EnumStored, Field, Kind, Rule, Schema, Table, Variant};
use marmota_store::existing::ExistingTable;
use sqlparser::ast::{
    BinaryOperator, ColumnOption, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, InTarget,
    Statement, TableConstraint, UnaryOperator,
};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::Parser;

use super::constant;

/// Returns the dialect of a table's SQL.
pub(super) fn dialect(table: &ExistingTable) -> &'static dyn Dialect {
    match table.definition {
        Some(_) => &SQLiteDialect {},
        None => &PostgreSqlDialect {},
    }
}

/// Returns the conditions of a table, each of which all rows satisfy, and the text of those that
/// the parser does not know.
pub(super) fn conditions(table: &ExistingTable) -> (Vec<Expr>, Vec<String>) {
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    for check in &table.checks {
        match constant::expression(dialect(table), check) {
            Some(check) => split(&check, &mut found),
            None => unknown.push(check.clone()),
        }
    }
    let Some(definition) = &table.definition else { return (found, unknown) };
    let has_checks = definition.to_ascii_uppercase().contains("CHECK");
    let statements = Parser::parse_sql(dialect(table), definition).unwrap_or_default();
    let Some(Statement::CreateTable(create)) = statements.first() else {
        if has_checks {
            unknown.push("the constraints in its CREATE TABLE".to_owned());
        }
        return (found, unknown);
    };
    let of_columns = create.columns.iter().flat_map(|column| &column.options);
    for option in of_columns {
        if let ColumnOption::Check(check) = &option.option {
            split(&check.expr, &mut found);
        }
    }
    for constraint in &create.constraints {
        if let TableConstraint::Check(check) = constraint {
            split(&check.expr, &mut found);
        }
    }
    (found, unknown)
}

/// Splits a condition into those that `AND` connects.
fn split(condition: &Expr, found: &mut Vec<Expr>) {
    match condition {
        Expr::Nested(inner) => split(inner, found),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            split(left, found);
            split(right, found);
        }
        other => found.push(other.clone()),
    }
}

/// A rule that a condition has as a field's.
#[expect(clippy::large_enum_variant, reason = "it exists for a moment, once per condition")]
enum Found {
    Length {
        min: u32,
        max: u32,
    },
    /// `of_integers` is true if the ends are right for integers only.
    Range {
        min: Option<Expr>,
        max: Option<Expr>,
        of_integers: bool,
    },
    OneOf(Vec<String>),
    /// It is true for all values of the field.
    Nothing,
}

/// Adds the rule of a condition to its field. Returns false if no rule states it.
pub(super) fn apply(condition: &Expr, fields: &mut [Field]) -> bool {
    let Some((column, found)) = find(condition) else { return false };
    let Some(field) = fields.iter_mut().find(|field| field.name.eq_ignore_ascii_case(&column))
    else {
        return false;
    };
    let before = field.clone();
    let is_stated = match found {
        Found::Nothing => true,
        Found::Length { min, max } => {
            matches!(field.kind, Kind::Text { .. } | Kind::Blob) && set_length(field, min, max)
        }
        Found::OneOf(names) => set_enum(field, names),
        Found::Range { of_integers: true, .. } if !matches!(field.kind, Kind::Int { .. }) => false,
        Found::Range { min, max, .. } => set_range(field, min.as_ref(), max.as_ref()),
    };
    let is_valid = is_stated && is_valid(field);
    if !is_valid {
        *field = before;
    }
    is_valid
}

/// Returns true if a table may have the field.
pub(super) fn is_valid(field: &Field) -> bool {
    let key = Field::new("marmota_key", Kind::I64).role(marmota_model::Role::Key);
    let fields = match field.role {
        marmota_model::Role::Key => vec![field.clone()],
        _ => vec![key, field.clone()],
    };
    Table::new(Schema::new("one", fields)).is_ok()
}

fn set_length(field: &mut Field, low: u32, high: u32) -> bool {
    let mut rules = field.rules.to_vec();
    match rules.iter_mut().find_map(|rule| match rule {
        Rule::Length { min, max } => Some((min, max)),
        _ => None,
    }) {
        Some((min, max)) => (*min, *max) = ((*min).max(low), (*max).min(high)),
        None => rules.push(Rule::Length { min: low, max: high }),
    }
    field.rules = rules.into();
    true
}

fn set_enum(field: &mut Field, names: Vec<String>) -> bool {
    if !matches!(field.kind, Kind::Text { .. }) {
        return false;
    }
    let variants: Vec<Variant> =
        (0..).zip(names).map(|(number, name)| Variant { name: name.into(), number }).collect();
    field.kind = Kind::Enum { variants: variants.into(), stored: EnumStored::Text };
    true
}

fn set_range(field: &mut Field, low: Option<&Expr>, high: Option<&Expr>) -> bool {
    if !matches!(
        field.kind,
        Kind::Int { .. } | Kind::Float | Kind::Currency | Kind::Date | Kind::Time | Kind::Timestamp
    ) {
        return false;
    }
    let kind = field.kind.clone();
    let end = |end: Option<&Expr>| match end {
        None => Some(None),
        Some(end) => constant::literal(end, &kind).map(Some),
    };
    let (Some(low), Some(high)) = (end(low), end(high)) else { return false };
    let mut rules = field.rules.to_vec();
    match rules.iter_mut().find_map(|rule| match rule {
        Rule::Range { min, max } => Some((min, max)),
        _ => None,
    }) {
        // Two lower ends of one field are rare, and the database checks both.
        Some((min, _)) if min.is_some() && low.is_some() => return false,
        Some((_, max)) if max.is_some() && high.is_some() => return false,
        Some((min, max)) => {
            *min = min.take().or(low);
            *max = max.take().or(high);
        }
        None => rules.push(Rule::Range { min: low, max: high }),
    }
    field.rules = rules.into();
    true
}

/// Returns the column of a condition, and what the condition states about its values.
fn find(condition: &Expr) -> Option<(String, Found)> {
    match condition {
        Expr::IsNotNull(of) => Some((column(of)?, Found::Nothing)),
        Expr::Between { expr, negated: false, low, high } => match length_of(expr) {
            Some(column) => {
                let (min, max) = (number(low)?, number(high)?);
                Some((column, Found::Length { min, max }))
            }
            None => {
                let (min, max) = (Some((**low).clone()), Some((**high).clone()));
                Some((column(expr)?, Found::Range { min, max, of_integers: false }))
            }
        },
        Expr::In { expr, target: InTarget::List(list), negated: false, .. } => {
            let names = list.iter().map(constant::text).collect::<Option<Vec<_>>>()?;
            Some((column(expr)?, Found::OneOf(names)))
        }
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
            let Expr::Array(array) = constant::plain(right) else { return None };
            let names = array.elem.iter().map(constant::text).collect::<Option<Vec<_>>>()?;
            Some((column(left)?, Found::OneOf(names)))
        }
        Expr::BinaryOp { left, op, right } => compared(left, op, right),
        _ => None,
    }
}

/// Returns what a comparison with a constant states.
fn compared(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<(String, Found)> {
    // `0 < price` is `price > 0`.
    if constant::text(left).is_some() && constant::text(right).is_none() {
        let op = match op {
            BinaryOperator::Lt => BinaryOperator::Gt,
            BinaryOperator::LtEq => BinaryOperator::GtEq,
            BinaryOperator::Gt => BinaryOperator::Lt,
            BinaryOperator::GtEq => BinaryOperator::LtEq,
            _ => return None,
        };
        return compared(right, &op, left);
    }
    if let Some(column) = length_of(left) {
        let number = number(right)?;
        let (min, max) = match op {
            BinaryOperator::Gt => (number.checked_add(1)?, u32::MAX),
            BinaryOperator::GtEq => (number, u32::MAX),
            BinaryOperator::Lt => (0, number.checked_sub(1)?),
            BinaryOperator::LtEq => (0, number),
            BinaryOperator::Eq => (number, number),
            _ => return None,
        };
        return Some((column, Found::Length { min, max }));
    }
    let column = column(left)?;
    if *op == BinaryOperator::NotEq && constant::text(right)?.is_empty() {
        return Some((column, Found::Length { min: 1, max: u32::MAX }));
    }
    // Without its end, a range of integers begins at the next one.
    let next = |by: i64| {
        let number = constant::text(right)?.parse::<i64>().ok()?.checked_add(by)?;
        let digits = sqlparser::ast::Value::Number(number.unsigned_abs().to_string(), false);
        let digits = Expr::Value(digits.into());
        Some(match number < 0 {
            true => Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(digits) },
            false => digits,
        })
    };
    let (min, max) = match op {
        BinaryOperator::GtEq => (Some(right.clone()), None),
        BinaryOperator::LtEq => (None, Some(right.clone())),
        BinaryOperator::Gt => (Some(next(1)?), None),
        BinaryOperator::Lt => (None, Some(next(-1)?)),
        _ => return None,
    };
    let of_integers = matches!(op, BinaryOperator::Gt | BinaryOperator::Lt);
    Some((column, Found::Range { min, max, of_integers }))
}

/// Returns the name of a column.
fn column(expression: &Expr) -> Option<String> {
    match constant::plain(expression) {
        Expr::Identifier(name) => Some(name.value.clone()),
        _ => None,
    }
}

/// Returns the column whose number of characters this is.
fn length_of(expression: &Expr) -> Option<String> {
    let Expr::Function(call) = constant::plain(expression) else { return None };
    let name = call.name.to_string().to_ascii_lowercase();
    if !["length", "char_length", "character_length"].contains(&&*name) {
        return None;
    }
    let FunctionArguments::List(arguments) = &call.args else { return None };
    match &*arguments.args {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(of))] => column(of),
        _ => None,
    }
}

fn number(expression: &Expr) -> Option<u32> {
    constant::text(expression)?.parse().ok()
}
