//! Conditions on related rows, resolved before a read: each becomes a list of the values that the
//! joining field may have. The list is made by one read of the related table, so a condition costs
//! the sum of both tables, never their product; and the plan of the outer read can use an index on
//! the joining field.

use std::borrow::Cow;

use marmota_model::{FilterExpr, Quantifier, RelatedFilter, Result, Table, Value};

use crate::catalog::locked_tables::LockedTables;

/// Returns a filter without conditions on related rows. The related tables have to be locked.
pub(crate) fn resolved<'f>(
    locked: &LockedTables<'_>,
    table: u32,
    filter: Option<&'f FilterExpr>,
) -> Result<Option<Cow<'f, FilterExpr>>> {
    match filter {
        Some(filter) if filter.has_relations() => {
            let table = &locked.slot(table).table;
            replaced(locked, table, filter).map(|filter| Some(Cow::Owned(filter)))
        }
        filter => Ok(filter.map(Cow::Borrowed)),
    }
}

fn replaced(locked: &LockedTables<'_>, table: &Table, filter: &FilterExpr) -> Result<FilterExpr> {
    filter.replace_related(table, &mut |table, related| list_of(locked, table, related))
}

/// Returns the condition on the joining field of `table`.
fn list_of(
    locked: &LockedTables<'_>,
    table: &Table,
    related: &RelatedFilter,
) -> Result<FilterExpr> {
    let target = table.step_target(&related.step)?;
    let rows = locked.rows(locked.catalog.find(&target)?)?;
    let filter = match &related.filter {
        filter if *filter == FilterExpr::ALL => None,
        filter => Some(replaced(locked, &target, filter)?),
    };
    let mut values: Vec<Value> = Vec::new();
    for number in rows.numbers(filter.as_ref())? {
        let value = rows.pages.value(number, related.step.target);
        if !value.is_null() {
            values.push(value.to_value());
        }
    }
    values.sort_unstable_by(|one, two| one.as_ref().order(&two.as_ref()));
    let without_rows = related.quantifier.holds(0);
    match related.quantifier {
        Quantifier::Any => values.dedup(),
        quantifier @ Quantifier::Count { .. } => {
            let counted = values.chunk_by(PartialEq::eq);
            let wanted = counted.filter(|same| quantifier.holds(same.len() as u64) != without_rows);
            values = wanted.filter_map(|same| same.first().cloned()).collect();
        }
    }
    let field = related.step.local;
    let is_listed = FilterExpr::In { field, values };
    let is_null = FilterExpr::IsNull { field };
    // The condition is never unknown, also if the joining field is NULL.
    Ok(match (without_rows, table.fields()[field].nullable) {
        (false, false) => is_listed,
        (false, true) => FilterExpr::And(vec![FilterExpr::Not(Box::new(is_null)), is_listed]),
        (true, false) => FilterExpr::Not(Box::new(is_listed)),
        (true, true) => FilterExpr::Or(vec![is_null, FilterExpr::Not(Box::new(is_listed))]),
    })
}
