//! The query of a list or count: which rows, in which order, from where.

use super::check::check_value;
use super::related_field::RELATED_FIELDS_MAX;
use crate::{
    Comparison, Error, ErrorKind, FieldSet, FilterExpr, RelatedField, Result, Schema, SortKey,
    Table, Value,
};

/// The selection of a list or count.
///
/// ```
/// # use marmota_model::{Field, Kind, Role, Schema, Table};
/// # let table = Table::new(Schema::new("person", vec![
/// #     Field::new("id", Kind::I64).role(Role::Key),
/// #     Field::new("name", Kind::TEXT).search(true),
/// #     Field::new("died", Kind::I64).nullable(true)]))?;
/// use marmota_model::{RowQuery, SortKey, parse_filter};
/// let mut query = RowQuery::new();
/// query.filter = Some(parse_filter(&table, "died != null")?.into_expr_for(&table)?);
/// query.order = vec![SortKey { field: 2, descending: true }];
/// query.limit = Some(20);
/// query.check(&table)?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowQuery {
    /// The condition; `None` for all rows.
    pub filter: Option<FilterExpr>,
    /// The fields to sort by. The key is always added as the last one, or the fields that it
    /// consists of.
    pub order: Vec<SortKey>,
    /// The sort keys that are replaced by fields of related rows. Engines get lists without them.
    pub related: Vec<RelatedField>,
    /// The maximum number of rows to return.
    pub limit: Option<u64>,
    /// Starts after the row with these values, one for each field of [`RowQuery::order_with_key`].
    /// For a field of a related row, the value is that of the reference.
    pub after: Option<Vec<Value>>,
    /// The fields to read; `None` for [`Table::read_by_default`].
    pub fields: Option<FieldSet>,
}

impl RowQuery {
    /// Selects all rows, in the order of their keys.
    ///
    /// ```
    /// use marmota_model::RowQuery;
    /// let query = RowQuery { limit: Some(10), ..RowQuery::new() };
    /// assert!(query.filter.is_none());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the order with the key appended, so that it is total and a page can start after any
    /// row. A composite key is replaced by them.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT).search(true),
    /// #     Field::new("died", Kind::I64).nullable(true)]))?;
    /// use marmota_model::{RowQuery, SortKey};
    /// let by_name = SortKey { field: 1, descending: true };
    /// let query = RowQuery { order: vec![by_name], ..RowQuery::new() };
    /// let by_key = SortKey { field: 0, descending: true };
    /// assert_eq!(query.order_with_key(&table), [by_name, by_key]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn order_with_key(&self, table: &Table) -> Vec<SortKey> {
        self.order_with_key_of(table.schema())
    }

    /// As [`RowQuery::order_with_key`], of a schema.
    #[must_use]
    pub fn order_with_key_of(&self, schema: &Schema) -> Vec<SortKey> {
        let mut order = self.order.clone();
        let key = schema.key;
        let (at, descending) = match order.iter().position(|by| by.field == key) {
            // Keys are unique: later fields have no effect.
            Some(at) => (at, order[at].descending),
            None => (order.len(), order.last().is_some_and(|by| by.descending)),
        };
        order.truncate(at);
        for &field in schema.key_order() {
            if field == key || order.iter().all(|by| by.field != field) {
                order.push(SortKey { field, descending });
            }
        }
        order
    }

    /// Returns the condition combined with the start of the page.
    ///
    /// The page after a row `(name, id)` has the rows with a greater name, and those with the same name
    /// and a greater key (keyset pagination).
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT).search(true),
    /// #     Field::new("died", Kind::I64).nullable(true)]))?;
    /// use marmota_model::{FilterExpr, RowQuery, SortKey, Value};
    /// let query = RowQuery {
    ///     order: vec![SortKey { field: 1, descending: false }],
    ///     after: Some(vec![Value::from("Curie"), Value::Int(7)]),
    ///     ..RowQuery::new()
    /// };
    /// let Some(FilterExpr::Or(parts)) = query.filter_with_after(&table) else { panic!() };
    /// assert_eq!(parts.len(), 2);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
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
        self.check_related(table)?;
        self.check_start(table)?;
        if let Some(after) = &self.after {
            let order = self.order_with_key(table);
            for (by, value) in order.iter().zip(after) {
                if !matches!(value, Value::Null) {
                    check_value(table, by.field, value.as_ref())?;
                }
            }
        }
        Ok(())
    }

    /// Checks the orders through references.
    fn check_related(&self, table: &Table) -> Result<()> {
        if self.related.len() > RELATED_FIELDS_MAX {
            let message = format!(
                "`order` has {} fields of related rows; at most {RELATED_FIELDS_MAX} are allowed",
                self.related.len()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.check_related_fields(table, true)
    }

    fn check_related_fields(&self, table: &Table, with_rows: bool) -> Result<()> {
        self.related.iter().try_for_each(|by| {
            let replaced = self.order.get(by.place).map(|by| by.field);
            by.check(table, replaced, with_rows)
        })
    }

    /// Checks the paths of orders through references, and the number of values of the start.
    /// [`RowQuery::check`] includes it; this is for queries that rights have narrowed.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let table = Table::new(Schema::new("person", vec![id]))?;
    /// use marmota_model::{RowQuery, Value};
    /// assert!(RowQuery::new().check_paths(&table).is_ok());
    /// let query = RowQuery { after: Some(Vec::new()), ..RowQuery::new() };
    /// assert!(query.check_paths(&table).is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the relation or the field.
    pub fn check_paths(&self, table: &Table) -> Result<()> {
        self.order.iter().try_for_each(|by| by.check(table))?;
        self.check_related_fields(table, false)?;
        self.check_start(table)
    }

    /// Refuses orders through references, for a read that does not have them; `read` names it.
    ///
    /// ```
    /// use marmota_model::RowQuery;
    /// assert!(RowQuery::new().refuse_related("a live query").is_ok());
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the query has such an order.
    pub fn refuse_related(&self, read: &str) -> Result<()> {
        if self.related.is_empty() {
            return Ok(());
        }
        let message = format!(
            "{read} cannot be ordered by a field of related rows: order it by fields of its own \
             table, or read pages of a list"
        );
        Err(Error::new(ErrorKind::Invalid, message))
    }

    /// Checks the number of values of the row after which the page begins.
    fn check_start(&self, table: &Table) -> Result<()> {
        let Some(after) = &self.after else { return Ok(()) };
        if after.len() == self.order_with_key(table).len() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Invalid,
            "`after` must have one value for each field of the order; use the `after` of the \
             previous page",
        ))
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
        match strictly_after(*by, value) {
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

fn strictly_after(by: SortKey, value: &Value) -> Option<FilterExpr> {
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
