//! Filters and orders as SQL: their shape (the key of a statement), their text (made once per
//! shape) and their values (bound each time). All three walk the tree in the same order.

use std::borrow::Cow;
use std::fmt::Write as _;

use marmota_model::{
    Comparison, Error, ErrorKind, FilterExpr, KeyKind, Place, Quantifier, Result, RowQuery,
    SortKey, Table, Value,
};
use marmota_sql::quoted;
use marmota_sql::{
    SqlWriter, each_condition, near_sql, near_values, negated_made, shape_filter, shape_order, sign,
};

use crate::ffi::{Bound, Run};
use crate::statement::column::bound_value;
use crate::statement::key::{field_sql, made_condition, made_in_list};
use crate::statement::search_index::{index_name, keys_name, match_text};

/// SQLite's own limit, which bounds the time of a pattern match.
const PATTERN_BYTES_MAX: usize = 50_000;

/// The shape of a filter as bytes, with its LIKE patterns and the parts of its composite keys.
#[derive(Debug, Default)]
pub(crate) struct FilterShape {
    pub(crate) bytes: Vec<u8>,
    /// Values to bind that are made of those of the filter.
    pub(crate) made: Vec<Value>,
}

impl FilterShape {
    /// Clears it, keeping the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.made.clear();
    }

    /// Adds a filter.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a pattern text that is too long.
    pub(crate) fn filter(&mut self, table: &Table, filter: &FilterExpr) -> Result<()> {
        shape_filter(self, table, filter, &mut Self::condition)
    }

    fn condition(&mut self, table: &Table, filter: &FilterExpr) -> Result<()> {
        match filter {
            FilterExpr::Compare { field, comparison, value } => {
                self.bytes.extend([1, *field as u8, *comparison as u8]);
                if *comparison == Comparison::Equal && table.is_made(*field) {
                    self.made.extend(table.part_values(*field, value.as_ref()));
                }
            }
            FilterExpr::In { field, values } => {
                self.bytes.extend([2, *field as u8]);
                self.bytes.extend((values.len() as u32).to_le_bytes());
                if table.is_made(*field) {
                    let parts = |text: &Value| table.part_values(*field, text.as_ref());
                    self.made.extend(values.iter().flat_map(parts));
                }
            }
            FilterExpr::Match { field, place, text } => {
                self.bytes.extend([3, *field as u8]);
                self.made.push(Value::Text(pattern(*place, text)?));
            }
            FilterExpr::IsNull { field } => self.bytes.extend([4, *field as u8]),
            FilterExpr::Inside { field, .. } => self.bytes.extend([9, *field as u8]),
            FilterExpr::Near { latitude, longitude, .. } => {
                self.bytes.extend([11, *latitude as u8, *longitude as u8]);
            }
            FilterExpr::Search { field, search } => {
                self.bytes.extend([10, field.map_or(u8::MAX, |field| field as u8)]);
                self.made.push(Value::Text(match_text(table, *field, search)?));
            }
            FilterExpr::Related(_)
            | FilterExpr::Not(_)
            | FilterExpr::And(_)
            | FilterExpr::Or(_) => {}
        }
        Ok(())
    }

    /// Adds an order.
    pub(crate) fn order(&mut self, table: &Table, order: &[SortKey]) {
        shape_order(self, with_key(table, order));
    }
}

impl marmota_sql::ShapeBuffer for FilterShape {
    fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

/// Returns the order followed by the key: [`RowQuery::order_with_key`] without a vector, unless the
/// key has several fields.
pub(crate) fn with_key(table: &Table, order: &[SortKey]) -> impl Iterator<Item = SortKey> {
    let key = table.key();
    let (order, key) = match table.has_composite_key() {
        true => {
            let query = RowQuery { order: order.to_vec(), ..RowQuery::new() };
            (Cow::Owned(query.order_with_key(table)), None)
        }
        false => {
            let given = order.iter().position(|by| by.field == key);
            let descending = order.last().is_some_and(|by| by.descending);
            let added = given.is_none().then_some(SortKey { field: key, descending });
            (Cow::Borrowed(&order[..given.map_or(order.len(), |last| last + 1)]), added)
        }
    };
    let length = order.len();
    (0..length).map(move |at| order[at]).chain(key)
}

/// Returns a query's condition including the start of the page.
///
/// To [`RowQuery::filter_with_after`] it adds a bound on the first field of the order, which is
/// redundant but lets SQLite start in the middle of an index.
pub(crate) fn with_after(table: &Table, query: &RowQuery) -> Option<FilterExpr> {
    let filter = query.filter_with_after(table);
    let first = query.after.as_ref().and_then(|after| after.first());
    let by = match table.has_composite_key() {
        true => with_key(table, &query.order).next(),
        false => query.order.first().copied(),
    };
    let (Some(filter), Some(value), Some(by)) = (filter.clone(), first, by) else {
        return filter;
    };
    let nullable = table.fields()[by.field].nullable;
    if by.field == table.key() || value.as_ref().is_null() || (by.descending && nullable) {
        return Some(filter);
    }
    let comparison =
        if by.descending { Comparison::LessOrEqual } else { Comparison::GreaterOrEqual };
    Some(filter.and(FilterExpr::Compare { field: by.field, comparison, value: value.clone() }))
}

/// Returns the LIKE pattern for a text in a place, with `\` as the escape.
fn pattern(place: Place, text: &str) -> Result<String> {
    let mut pattern = String::with_capacity(text.len() + 2);
    if place == Place::Anywhere {
        pattern.push('%');
    }
    for character in text.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    if pattern.len() > PATTERN_BYTES_MAX {
        let message = format!(
            "the text to search for, {:?}, has {} bytes; SQLite allows at most {PATTERN_BYTES_MAX}",
            marmota_model::text::excerpt(text),
            text.len()
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(pattern)
}

/// A buffer for SQL text.
#[derive(Debug, Default)]
pub(crate) struct Sql(pub(crate) String);

impl SqlWriter for Sql {
    const TRUE: &'static str = "1";
    const FALSE: &'static str = "0";

    type Outer = ();

    fn enter(&mut self, _: &Table) {}

    fn leave(&mut self, (): ()) {}

    fn push(&mut self, text: &str) -> &mut Self {
        self.0.push_str(text);
        self
    }

    fn columns(table: &Table, field: usize) -> Vec<usize> {
        table.columns_of(field)
    }

    fn negated_condition(&mut self, table: &Table, filter: &FilterExpr) {
        negated_made(self, table, filter, &|at| field_sql(table, at));
    }

    fn condition(&mut self, table: &Table, filter: &FilterExpr) {
        let name = |field: &usize| field_sql(table, *field);
        let is_made = |field: &usize| table.is_made(*field);
        if let FilterExpr::Near { latitude, longitude, .. } = filter {
            near_sql(self, &name(latitude), &name(longitude), |out| {
                out.push("?");
            });
            return;
        }
        let out = &mut self.0;
        let _ = match filter {
            // The columns have an index, unlike their text.
            FilterExpr::Compare { field, comparison: Comparison::Equal, .. } if is_made(field) => {
                write!(out, "({})", made_condition(table, *field))
            }
            FilterExpr::In { field, values } if is_made(field) && !values.is_empty() => {
                made_in_list(out, table, *field, values.len());
                Ok(())
            }
            FilterExpr::Compare { field, comparison, .. } => {
                write!(out, "{}{}?", name(field), sign(*comparison))
            }
            // No value is in an empty list, not even NULL.
            FilterExpr::In { values, .. } if values.is_empty() => write!(out, "0"),
            FilterExpr::In { field, values } => {
                write!(out, "{} IN (?{})", name(field), ",?".repeat(values.len() - 1))
            }
            FilterExpr::Match { field, .. } => write!(out, "{} LIKE ? ESCAPE '\\'", name(field)),
            FilterExpr::IsNull { field } => write!(out, "{} IS NULL", name(field)),
            FilterExpr::Inside { field, .. } => write!(out, "marmota_json({},?)", name(field)),
            FilterExpr::Search { .. } => {
                let (key, index) = (name(&table.key()), quoted(&index_name(table)));
                match table.key_kind() {
                    KeyKind::Auto => {
                        write!(out, "{key} IN (SELECT rowid FROM {index} WHERE {index} MATCH ?)")
                    }
                    KeyKind::Uuid | KeyKind::Text => write!(
                        out,
                        "{key} IN (SELECT key FROM {} WHERE number IN \
                         (SELECT rowid FROM {index} WHERE {index} MATCH ?))",
                        quoted(&keys_name(table))
                    ),
                }
            }
            // The number of rows.
            FilterExpr::Related(_) => write!(out, "?"),
            FilterExpr::Near { .. }
            | FilterExpr::Not(_)
            | FilterExpr::And(_)
            | FilterExpr::Or(_) => Ok(()),
        };
    }
}

/// Writes an order as SQL.
pub(crate) fn order_sql(out: &mut Sql, table: &Table, order: &[SortKey]) {
    for (position, by) in with_key(table, order).enumerate() {
        let before = if position == 0 { " ORDER BY " } else { "," };
        let behind = if by.descending { " DESC" } else { "" };
        let _ = write!(out.0, "{before}{}{behind}", field_sql(table, by.field));
    }
}

/// Binds the values of a filter on rows of `table`.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a related table that the store does not have.
pub(crate) fn bind_filter<'v>(
    run: &mut Run<'_, 'v>,
    table: &Table,
    filter: &'v FilterExpr,
    made: &mut std::slice::Iter<'v, Value>,
) -> Result<()> {
    each_condition(table, filter, &mut |table, condition| {
        match condition {
            FilterExpr::Compare { field, comparison: Comparison::Equal, .. }
                if table.is_made(*field) =>
            {
                run.bind_all(made.take(table.parts(*field).len()).map(bound_value));
            }
            FilterExpr::In { field, values } if table.is_made(*field) => {
                let parts = values.len() * table.parts(*field).len();
                run.bind_all(made.take(parts).map(bound_value));
            }
            FilterExpr::Compare { value, .. } => run.bind(bound_value(value)),
            FilterExpr::In { values, .. } => {
                values.iter().for_each(|value| run.bind(bound_value(value)));
            }
            FilterExpr::Match { .. } | FilterExpr::Search { .. } => {
                run.bind(made.next().map_or(Bound::NULL, bound_value));
            }
            FilterExpr::Inside { condition, .. } => run.bind(Bound::condition(condition)),
            FilterExpr::Near { circle, .. } => {
                near_values(circle).into_iter().for_each(|value| run.bind(Bound::float(value)));
            }
            FilterExpr::Related(related) => {
                if let Quantifier::Count { number, .. } = related.quantifier {
                    run.bind(Bound::int(i64::from(number)));
                }
            }
            FilterExpr::IsNull { .. }
            | FilterExpr::Not(_)
            | FilterExpr::And(_)
            | FilterExpr::Or(_) => {}
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use marmota_model::{Field, Kind, Role, Schema};

    fn table() -> Table {
        let fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("name", Kind::TEXT).nullable(true),
        ];
        Table::new(Schema::new("t", fields)).unwrap()
    }

    #[test]
    fn text_is_escaped_in_patterns() {
        assert_eq!(pattern(Place::Anywhere, "50%_\\").unwrap(), "%50\\%\\_\\\\%");
        assert_eq!(pattern(Place::Start, "a").unwrap(), "a%");
        assert!(pattern(Place::Start, &"a".repeat(60_000)).is_err());
    }

    #[test]
    fn values_are_no_part_of_a_shape() {
        let shape = |filter: &FilterExpr| {
            let mut shape = FilterShape::default();
            shape.filter(&table(), filter).unwrap();
            shape.bytes
        };
        let is = |field, value: i64| FilterExpr::Compare {
            field,
            comparison: Comparison::Equal,
            value: Value::Int(value),
        };
        assert_eq!(shape(&is(0, 1)), shape(&is(0, 2)));
        assert_ne!(shape(&is(0, 1)), shape(&is(1, 1)));
        let both = FilterExpr::And(vec![is(0, 1), is(0, 2)]);
        assert_ne!(shape(&both), shape(&FilterExpr::Or(vec![is(0, 1), is(0, 2)])));
        assert_ne!(
            shape(&FilterExpr::And(vec![both.clone(), is(0, 1)])),
            shape(&FilterExpr::And(vec![is(0, 1), both]))
        );
    }

    #[test]
    fn the_order_is_the_querys() {
        let table = table();
        for order in [
            vec![],
            vec![SortKey { field: 1, descending: true }],
            vec![SortKey { field: 0, descending: true }, SortKey { field: 1, descending: false }],
        ] {
            let query = RowQuery { order: order.clone(), ..RowQuery::new() };
            assert!(with_key(&table, &order).eq(query.order_with_key(&table)));
        }
    }

    #[test]
    fn an_empty_list_has_a_meaning() {
        let mut out = Sql::default();
        marmota_sql::filter_sql(&mut out, &table(), &FilterExpr::In { field: 1, values: vec![] });
        assert_eq!(out.0, "0");
    }
}
