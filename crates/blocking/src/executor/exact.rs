//! The parts of a filter that databases would decide differently: searches, conditions on a path
//! inside of JSON, whose functions have a limited depth and other numbers, and circles on the earth.
//! The statement selects by the other parts, and the rows are checked here.

use marmota_model::{FieldSet, FilterExpr, Result, RowQuery, Table, ValueRef};
use marmota_store::related_values::JoiningValues;

use super::SqlExecutor;

/// A filter in two parts, both of which have to be true.
#[derive(Debug, Default)]
pub(super) struct SplitFilter {
    /// The part for the statement.
    pub(super) sql: Option<FilterExpr>,
    /// The part that is evaluated on the rows.
    pub(super) rest: Option<FilterExpr>,
}

/// Returns true if SQL decides the filter.
fn is_exact(filter: &FilterExpr) -> bool {
    match filter {
        FilterExpr::Inside { .. } | FilterExpr::Near { .. } | FilterExpr::Search { .. } => false,
        FilterExpr::Related(related) => is_exact(&related.filter),
        FilterExpr::Not(inner) => is_exact(inner),
        FilterExpr::And(all) | FilterExpr::Or(all) => all.iter().all(is_exact),
        _ => true,
    }
}

/// Returns the fields that a filter reads.
pub(super) fn fields_of(table: &Table, filter: &FilterExpr) -> FieldSet {
    let mut fields = FieldSet::EMPTY;
    add_fields(table, filter, &mut fields);
    fields
}

fn add_fields(table: &Table, filter: &FilterExpr, fields: &mut FieldSet) {
    match filter {
        FilterExpr::Compare { field, .. }
        | FilterExpr::In { field, .. }
        | FilterExpr::Match { field, .. }
        | FilterExpr::IsNull { field }
        | FilterExpr::Inside { field, .. }
        | FilterExpr::Search { field: Some(field), .. } => *fields = fields.with(*field),
        FilterExpr::Near { latitude, longitude, .. } => {
            *fields = fields.with(*latitude).with(*longitude);
        }
        FilterExpr::Search { field: None, .. } => {
            for (at, _) in table.fields().iter().enumerate().filter(|(_, field)| field.search) {
                *fields = fields.with(at);
            }
        }
        FilterExpr::Related(related) => *fields = fields.with(related.step.local),
        FilterExpr::Not(inner) => add_fields(table, inner, fields),
        FilterExpr::And(all) | FilterExpr::Or(all) => {
            all.iter().for_each(|one| add_fields(table, one, fields));
        }
    }
}

impl SplitFilter {
    /// Splits a filter. `rest` replaces the conditions on related rows in the part for the rows.
    pub(super) fn of(
        filter: Option<&FilterExpr>,
        rest: &mut dyn FnMut(&FilterExpr) -> Result<FilterExpr>,
    ) -> Result<Self> {
        let Some(filter) = filter else { return Ok(Self::default()) };
        if is_exact(filter) {
            return Ok(Self { sql: Some(filter.clone()), rest: None });
        }
        let all = match filter {
            FilterExpr::And(all) => all.as_slice(),
            one => std::slice::from_ref(one),
        };
        let (sql, inexact): (Vec<&FilterExpr>, Vec<&FilterExpr>) =
            all.iter().partition(|one| is_exact(one));
        let inexact = inexact.into_iter().map(rest).collect::<Result<Vec<_>>>()?;
        let sql: Vec<FilterExpr> = sql.into_iter().cloned().collect();
        Ok(Self {
            sql: (!sql.is_empty()).then_some(FilterExpr::And(sql)),
            rest: Some(FilterExpr::And(inexact)),
        })
    }
}

/// Returns true if one statement reads the rows that a filter selects: no condition on related rows is
/// replaced by the keys of another statement.
pub(crate) fn is_one_read(filter: &FilterExpr) -> bool {
    fn is_related(filter: &FilterExpr) -> bool {
        match filter {
            FilterExpr::Related(_) => true,
            FilterExpr::Not(inner) => is_related(inner),
            FilterExpr::And(all) | FilterExpr::Or(all) => all.iter().any(is_related),
            _ => false,
        }
    }
    is_exact(filter) || !is_related(filter)
}

impl SqlExecutor<'_> {
    /// Returns a filter whose conditions on related rows become lists of keys.
    pub(super) fn without_related(
        &mut self,
        table: &Table,
        filter: &FilterExpr,
    ) -> Result<FilterExpr> {
        Ok(match filter {
            FilterExpr::Related(related) => {
                let target = table.step_target(&related.step)?;
                let field = related.step.target;
                let query = RowQuery {
                    filter: Some(related.filter.clone()),
                    fields: Some(FieldSet::EMPTY.with(field)),
                    ..RowQuery::new()
                };
                let mut values = JoiningValues::default();
                let mut take = |row: &[ValueRef<'_>]| {
                    values.add(row[field]);
                    std::ops::ControlFlow::Continue(())
                };
                self.list(&target, &query, &mut take)?;
                values.condition(table, related)
            }
            FilterExpr::Not(inner) => {
                FilterExpr::Not(Box::new(self.without_related(table, inner)?))
            }
            FilterExpr::And(all) => FilterExpr::And(
                all.iter().map(|one| self.without_related(table, one)).collect::<Result<_>>()?,
            ),
            FilterExpr::Or(any) => FilterExpr::Or(
                any.iter().map(|one| self.without_related(table, one)).collect::<Result<_>>()?,
            ),
            other => other.clone(),
        })
    }
}
