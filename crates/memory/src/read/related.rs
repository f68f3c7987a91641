//! Conditions on related rows, resolved before a read: each becomes a list of the values that the
//! joining field may have. The list is made by one read of the related table, so a condition costs
//! the sum of both tables, never their product; and the plan of the outer read can use an index on
//! the joining field. If the filter is on one row by its key, only rows related to that one are read.

use std::borrow::Cow;

use marmota_model::{Comparison, FilterExpr, RelatedFilter, Result, Table, Value, ValueRef};
use marmota_store::related_values::{condition, only_key};

use crate::catalog::locked_tables::LockedTables;
use crate::read::scan::RowsFound;

/// Returns a filter without conditions on related rows, for an operation that is executed in one
/// turn. The related tables have to be locked.
pub(crate) fn resolved<'f>(
    locked: &LockedTables<'_>,
    table: u32,
    filter: Option<&'f FilterExpr>,
) -> Result<Option<Cow<'f, FilterExpr>>> {
    match filter {
        Some(filter) if filter.has_relations() => {
            replaced(locked, table, filter, &mut None).map(|filter| Some(Cow::Owned(filter)))
        }
        filter => Ok(filter.map(Cow::Borrowed)),
    }
}

/// Returns the same for a filter with such conditions, or `None` if it takes more than one turn: if
/// a related table has many rows that have to be read, or that are selected.
pub(crate) fn resolved_in_time(
    locked: &LockedTables<'_>,
    table: u32,
    filter: &FilterExpr,
) -> Result<Option<FilterExpr>> {
    let mut turn = Some(FirstTurn { is_over: false });
    let filter = replaced(locked, table, filter, &mut turn)?;
    Ok(turn.is_some_and(|turn| !turn.is_over).then_some(filter))
}

/// A turn in which related tables are read; `None` reads all that is needed.
struct FirstTurn {
    is_over: bool,
}

fn replaced(
    locked: &LockedTables<'_>,
    number: u32,
    filter: &FilterExpr,
    turn: &mut Option<FirstTurn>,
) -> Result<FilterExpr> {
    let table = &locked.slot(number).table;
    let only = match only_key(table, filter) {
        Some(key) => locked.find(number, key.as_ref())?,
        None => None,
    };
    let rows = locked.rows(number)?;
    filter.replace_related(table, &mut |table, related| {
        let value = only.map(|row| rows.pages.value(row, related.step.local));
        list_of(locked, table, related, value, turn)
    })
}

/// Returns the condition on the joining field of `table`. If only rows with one value in that field
/// are of interest, `only` is this value.
fn list_of(
    locked: &LockedTables<'_>,
    table: &Table,
    related: &RelatedFilter,
    only: Option<ValueRef<'_>>,
    turn: &mut Option<FirstTurn>,
) -> Result<FilterExpr> {
    if turn.as_ref().is_some_and(|turn| turn.is_over) {
        return Ok(FilterExpr::ALL);
    }
    let target = table.step_target(&related.step)?;
    let number = locked.catalog.find(&target)?;
    let rows = locked.rows(number)?;
    let joined = only.filter(|value| !value.is_null()).map(|value| FilterExpr::Compare {
        field: related.step.target,
        comparison: Comparison::Equal,
        value: value.to_value(),
    });
    let filter = match (&related.filter, joined) {
        (filter, None) if *filter == FilterExpr::ALL => None,
        (filter, None) => Some(replaced(locked, number, filter, turn)?),
        (filter, Some(joined)) => {
            let filter = FilterExpr::And(vec![joined, filter.clone()]);
            Some(replaced(locked, number, &filter, turn)?)
        }
    };
    let found = match turn {
        None => rows.numbers(filter.as_ref())?,
        Some(turn) if turn.is_over => return Ok(FilterExpr::ALL),
        Some(turn) => match rows.find(filter.as_ref())? {
            RowsFound::All(found) => found,
            RowsFound::Some { .. } => {
                turn.is_over = true;
                return Ok(FilterExpr::ALL);
            }
        },
    };
    let mut values: Vec<Value> = Vec::with_capacity(found.len());
    for number in found {
        let value = rows.pages.value(number, related.step.target);
        if !value.is_null() {
            values.push(value.to_value());
        }
    }
    values.sort_unstable_by(|one, two| one.as_ref().order(&two.as_ref()));
    let counted = values.chunk_by(PartialEq::eq);
    let counted = counted.filter_map(|same| Some((same.first()?.clone(), same.len() as u64)));
    Ok(condition(table, related, counted))
}
