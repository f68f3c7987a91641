//! Conditions on a value at a path inside of a JSON field, as SQL.
//!
//! They are equivalent to [`JsonCondition::ask`], except that numbers compare as decimals as they
//! are written.

use std::fmt::Write as _;

use marmota_model::json::{JsonCondition, JsonStep, JsonTest};
use marmota_model::{Comparison, Place, Result, Table, Value, ValueRef};
use marmota_sql::sign;

use crate::statement::sql_words::quoted;
use crate::statement::sql_writer::Sql;
use crate::wire::value::{self, PgType};

/// Half of a surrogate pair, or a NUL, as a regular expression.
const ODD: &str = r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\u0000";
/// A whole surrogate pair.
const PAIR: &str = r"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})";

/// Returns the JSON type of a value, for shapes.
fn type_of(value: &Value) -> u8 {
    match value {
        Value::Bool(_) => 0,
        Value::Text(_) => 1,
        _ => 2,
    }
}

/// Adds a condition to a shape.
pub(crate) fn shape(shape: &mut Vec<u8>, field: usize, condition: &JsonCondition) {
    let steps = condition.path.steps().unwrap_or_default();
    shape.extend([9, field as u8, steps.len() as u8]);
    shape.extend(steps.iter().map(|step| u8::from(matches!(step, JsonStep::Member(_)))));
    match &condition.test {
        JsonTest::Compare(comparison, value) => {
            shape.extend([1, *comparison as u8, type_of(value)]);
        }
        JsonTest::In(values) => shape.extend([2, u8::from(values.is_empty())]),
        JsonTest::Match(place, _) => shape.extend([3, *place as u8]),
        JsonTest::IsNull => shape.push(4),
        JsonTest::Exists => shape.push(5),
    }
}

/// Writes a condition as SQL.
pub(crate) fn sql(out: &mut Sql, table: &Table, field: usize, condition: &JsonCondition) {
    let name = quoted(&table.fields()[field].name);
    // PostgreSQL refuses to process JSON with half of a surrogate pair or a NUL in its texts, so
    // those are removed.
    let mut node = format!(
        "(CASE WHEN ({name})::text ~ '{ODD}' THEN \
         regexp_replace(({name})::text,'{PAIR}|{ODD}','\\1','g')::json ELSE {name} END)"
    );
    for step in condition.path.steps().unwrap_or_default() {
        let pg_type = match step {
            JsonStep::Member(_) => PgType::Text,
            JsonStep::Element(_) => PgType::Int4,
        };
        out.types.push(pg_type.oid());
        node = format!("({node}->${})", out.types.len());
    }
    let (kind, text) = (format!("json_typeof{node}"), format!("({node}#>>'{{}}')"));
    let known = format!("CASE WHEN coalesce({kind},'null')='null' THEN NULL");
    match &condition.test {
        JsonTest::IsNull => drop(out.push(&format!("coalesce({kind},'null')='null'"))),
        JsonTest::Exists => drop(out.push(&format!("{node} IS NOT NULL"))),
        JsonTest::In(values) if values.is_empty() => drop(out.push("false")),
        JsonTest::In(_) => {
            out.push(&known).push(&format!(" WHEN {kind}='string' THEN {text} COLLATE \"C\"=ANY("));
            out.parameter(PgType::Text.array_oid());
            out.push(&format!(") WHEN {kind}='boolean' THEN {text}=ANY("));
            out.parameter(PgType::Text.array_oid());
            out.push(&format!(") WHEN {kind}='number' THEN {text}::numeric=ANY("));
            out.parameter(PgType::Text.array_oid()).push("::numeric[]) ELSE false END");
        }
        JsonTest::Match(place, _) => {
            let (before, behind) = match place {
                Place::Anywhere => ("strpos", ")>0"),
                Place::Start => ("starts_with", ")"),
            };
            let lower = format!("lower({text} COLLATE \"C\")");
            out.push(&known).push(&format!(" WHEN {kind}='string' THEN {before}({lower},"));
            out.parameter(PgType::Text.oid()).push(behind).push(" ELSE false END");
        }
        JsonTest::Compare(comparison, value) => {
            let sign = sign(*comparison);
            let (name, own, cast) = match type_of(value) {
                0 => ("boolean", format!("{text}::boolean"), "::boolean"),
                1 => ("string", format!("{text} COLLATE \"C\""), ""),
                _ => ("number", format!("{text}::numeric"), "::numeric"),
            };
            out.push(&known).push(&format!(" WHEN {kind}='{name}' THEN {own}{sign}"));
            out.parameter(PgType::Text.oid()).push(cast);
            out.push(match comparison {
                Comparison::Equal => " ELSE false END",
                Comparison::NotEqual => " ELSE true END",
                _ => " END",
            });
        }
    }
}

/// Appends a condition's values. Returns their number.
pub(crate) fn put(out: &mut Vec<u8>, condition: &JsonCondition) -> Result<u16> {
    let steps = condition.path.steps().unwrap_or_default();
    for step in steps {
        let step = match step {
            JsonStep::Member(name) => (PgType::Text, ValueRef::Text(name)),
            // Longer arrays do not exist.
            JsonStep::Element(at) => {
                let at = i64::from(*at).min(i32::MAX.into());
                (PgType::Int4, ValueRef::Int(at))
            }
        };
        // Both values fit their types.
        let _ = value::put(out, step.0, step.1);
    }
    let mut count = steps.len() as u16;
    match &condition.test {
        JsonTest::IsNull | JsonTest::Exists => {}
        JsonTest::In(values) if values.is_empty() => {}
        JsonTest::In(values) => {
            for kind in [1, 0, 2] {
                let of_kind: Vec<String> =
                    values.iter().filter(|value| type_of(value) == kind).map(text_of).collect();
                let _: Result<(), value::ValueMismatch> =
                    value::put_array(out, PgType::Text, of_kind.len(), |out| {
                        let mut texts = of_kind.iter().map(|text| ValueRef::Text(text));
                        texts.try_for_each(|text| value::put(out, PgType::Text, text))
                    });
            }
            count += 3;
        }
        JsonTest::Match(_, text) => {
            value::put_folded(out, text);
            count += 1;
        }
        JsonTest::Compare(_, value) => {
            let _ = value::put(out, PgType::Text, ValueRef::Text(&text_of(value)));
            count += 1;
        }
    }
    Ok(count)
}

/// Returns a value as the text that PostgreSQL parses.
fn text_of(value: &Value) -> String {
    let mut text = String::new();
    let _ = match value {
        Value::Text(text) => return text.clone(),
        Value::Bool(value) => write!(text, "{value}"),
        Value::Int(value) => write!(text, "{value}"),
        // Infinite values are written as `inf`, which PostgreSQL accepts.
        Value::Float(value) => write!(text, "{value}"),
        _ => Ok(()),
    };
    text
}
