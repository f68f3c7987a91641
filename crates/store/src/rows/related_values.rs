//! A condition on related rows as a list of values, for engines that read the related rows first.

use marmota_model::{FilterExpr, Quantifier, RelatedFilter, Table, Value};

/// Returns the condition as a list of the values of the joining field of `table`. `values` are those
/// of the related rows, in order, each with the number of its rows.
#[must_use]
pub fn condition(
    table: &Table,
    related: &RelatedFilter,
    values: impl Iterator<Item = (Value, u64)>,
) -> FilterExpr {
    let without_rows = related.quantifier.holds(0);
    let values = match related.quantifier {
        Quantifier::Any => values.map(|(value, _)| value).collect(),
        quantifier @ Quantifier::Count { .. } => {
            let wanted = values.filter(|(_, rows)| quantifier.holds(*rows) != without_rows);
            wanted.map(|(value, _)| value).collect()
        }
    };
    let field = related.step.local;
    let is_listed = FilterExpr::In { field, values };
    let is_null = FilterExpr::IsNull { field };
    // The condition is never unknown, also if the joining field is NULL.
    match (without_rows, table.fields()[field].nullable) {
        (false, false) => is_listed,
        (false, true) => FilterExpr::And(vec![FilterExpr::Not(Box::new(is_null)), is_listed]),
        (true, false) => FilterExpr::Not(Box::new(is_listed)),
        (true, true) => FilterExpr::Or(vec![is_null, FilterExpr::Not(Box::new(is_listed))]),
    }
}
