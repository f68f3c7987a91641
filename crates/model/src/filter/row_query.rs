//! The query of a list or count: which rows, in which order, from where.

use super::check::check_value;
use crate::{Comparison, Error, ErrorKind, FieldSet, FilterExpr, Result, SortKey, Table, Value};

/// The selection of a list or count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowQuery {
    /// The condition; `None` for all rows.
    pub filter: Option<FilterExpr>,
    /// The fields to sort by. The key is always added as the last one.
    pub order: Vec<SortKey>,
    /// The maximum number of rows to return.
    pub limit: Option<u64>,
    /// Starts after the row with these values, one for each field of [`RowQuery::order_with_key`].
    pub after: Option<Vec<Value>>,
    /// The fields to read; `None` for [`Table::read_by_default`].
    pub fields: Option<FieldSet>,
}

impl RowQuery {
    /// Selects all rows, in the order of their keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the order with the key appended, so that it is total and a page can start after any
    /// row.
    #[must_use]
    pub fn order_with_key(&self, table: &Table) -> Vec<SortKey> {
        let mut order = self.order.clone();
        match order.iter().position(|by| by.field == table.key()) {
            // Keys are unique: later fields have no effect.
            Some(last) => order.truncate(last + 1),
            None => {
                let descending = order.last().is_some_and(|by| by.descending);
                order.push(SortKey { field: table.key(), descending });
            }
        }
        order
    }

    /// Returns the condition combined with the start of the page.
    #[must_use]
    pub fn filter_with_after(&self, table: &Table) -> Option<FilterExpr> {
        let after = self.after.as_ref().map(|after| behind(&self.order_with_key(table), after));
        match (self.filter.clone(), after) {
            (Some(filter), Some(after)) => Some(filter.and(after)),
            (filter, after) => filter.or(after),
        }
    }

    /// Checks that the query fits a table.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the field and the value.
    pub fn check(&self, table: &Table) -> Result<()> {
        if let Some(filter) = &self.filter {
            filter.check(table)?;
        }
        self.order.iter().try_for_each(|by| by.check(table))?;
        if let Some(after) = &self.after {
            let order = self.order_with_key(table);
            if after.len() != order.len() {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    "`after` must have one value for each field of the order; use the `after` of \
                     the previous page",
                ));
            }
            for (by, value) in order.iter().zip(after) {
                if !matches!(value, Value::Null) {
                    check_value(table, by.field, value.as_ref())?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the filter for the rows that follow the one with the values `after` in `order`.
fn behind(order: &[SortKey], after: &[Value]) -> FilterExpr {
    let mut any = Vec::with_capacity(order.len());
    for (depth, (by, value)) in order.iter().zip(after).enumerate() {
        let mut all: Vec<FilterExpr> = order[..depth]
            .iter()
            .zip(after)
            .map(|(by, value)| equal_or_null(by.field, value))
            .collect();
        match strictly_behind(*by, value) {
            Some(filter) => all.push(filter),
            None => continue,
        }
        any.push(if all.len() == 1 { all.remove(0) } else { FilterExpr::And(all) });
    }
    if any.len() == 1 { any.remove(0) } else { FilterExpr::Or(any) }
}

fn equal_or_null(field: usize, value: &Value) -> FilterExpr {
    match value {
        Value::Null => FilterExpr::IsNull { field },
        value => FilterExpr::Compare { field, comparison: Comparison::Equal, value: value.clone() },
    }
}

fn strictly_behind(by: SortKey, value: &Value) -> Option<FilterExpr> {
    let SortKey { field, descending } = by;
    let null = FilterExpr::IsNull { field };
    match (value, descending) {
        (Value::Null, false) => Some(FilterExpr::Not(Box::new(null))),
        (Value::Null, true) => None,
        (value, false) => Some(FilterExpr::Compare {
            field,
            comparison: Comparison::Greater,
            value: value.clone(),
        }),
        (value, true) => {
            let less =
                FilterExpr::Compare { field, comparison: Comparison::Less, value: value.clone() };
            Some(less.or(null))
        }
    }
}
