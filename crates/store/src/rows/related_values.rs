//! A condition on related rows as a list of values, for engines that read the related rows first.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use marmota_model::{Comparison, FilterExpr, Quantifier, RelatedFilter, Table, Value, ValueRef};

/// The values of the joining field in related rows, with the number of rows of each.
///
/// ```
/// use marmota_model::ValueRef;
/// use marmota_store::related_values::JoiningValues;
/// let mut values = JoiningValues::default();
/// assert!(values.add(ValueRef::Int(7)));
/// assert!(!values.add(ValueRef::Int(7)) && !values.add(ValueRef::Null));
/// ```
#[derive(Debug, Default)]
pub struct JoiningValues(BTreeMap<JoiningValue, u64>);

/// A value in the order of its field.
#[derive(Debug)]
struct JoiningValue(Value);

impl Ord for JoiningValue {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.as_ref().order(&other.0.as_ref())
    }
}

impl PartialOrd for JoiningValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for JoiningValue {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for JoiningValue {}

impl JoiningValues {
    /// Adds the value of a row, unless it is NULL. Returns true for the first row with this value.
    pub fn add(&mut self, value: ValueRef<'_>) -> bool {
        if value.is_null() {
            return false;
        }
        let rows = self.0.entry(JoiningValue(value.to_value())).or_default();
        *rows += 1;
        *rows == 1
    }

    /// Returns the condition on related rows with these values, as a list. `table` is that of the
    /// condition.
    #[must_use]
    pub fn condition(self, table: &Table, related: &RelatedFilter) -> FilterExpr {
        condition(table, related, self.0.into_iter().map(|(value, rows)| (value.0, rows)))
    }
}

/// Returns the key of the only row that a filter can select, if the filter compares the key.
#[must_use]
pub fn only_key<'f>(table: &Table, filter: &'f FilterExpr) -> Option<&'f Value> {
    match filter {
        FilterExpr::Compare { field, comparison: Comparison::Equal, value } => {
            (*field == table.key()).then_some(value)
        }
        FilterExpr::And(all) => all.iter().find_map(|one| only_key(table, one)),
        _ => None,
    }
}

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
