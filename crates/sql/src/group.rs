//! Statements that group rows, and statements that limit the rows for each value of a field: their
//! shape and their text.

use marmota_model::{AggregateColumn, AggregateFunction, GroupQuery, Table};

use crate::filter::{ShapeBuffer, SqlWriter, where_sql};
use crate::name::quoted;

/// The name of the column that numbers the rows with the same value.
const NUMBER: &str = "marmota_number";

/// Adds the columns of a query of groups to a shape. Its filter, condition and order are added
/// separately.
pub fn shape_groups(shape: &mut impl ShapeBuffer, query: &GroupQuery) {
    let bytes = shape.bytes();
    bytes.push(query.by.len() as u8);
    bytes.extend(query.by.iter().map(|&field| field as u8));
    bytes.push(query.aggregates.len() as u8);
    for AggregateColumn { function, field, name } in &query.aggregates {
        bytes.extend([*function as u8, field.map_or(u8::MAX, |field| field as u8)]);
        // Names are in the text of the statement.
        let name = name.as_deref().unwrap_or_default();
        bytes.push(name.len() as u8);
        bytes.extend_from_slice(name.as_bytes());
    }
    bytes.extend([
        u8::from(query.filter.is_some()),
        u8::from(query.having.is_some()),
        u8::from(query.limit.is_some()),
    ]);
}

/// Writes a query of groups, up to its condition on groups: the order and the limit follow. The
/// groups are a subquery, whose columns have the names of the result, so that conditions and orders
/// on groups are written like those on rows.
///
/// `grouped` returns the expression of a field to group by, `aggregated` that of a computed value;
/// `turn` is called between the conditions on rows and those on groups.
pub fn groups_sql<W: SqlWriter>(
    out: &mut W,
    (table, result): (&Table, &Table),
    query: &GroupQuery,
    grouped: impl Fn(&W, usize) -> String,
    aggregated: impl Fn(&W, AggregateFunction, usize) -> String,
    turn: impl FnOnce(&mut W),
) {
    out.push("SELECT * FROM (SELECT ");
    let by = query.by.iter().map(|&field| grouped(out, field));
    let values = query.aggregates.iter().map(|column| match column.field {
        Some(field) => aggregated(out, column.function, field),
        None => "count(*)".to_owned(),
    });
    let names = result.fields().iter().map(|field| quoted(&field.name));
    let columns: Vec<String> =
        by.chain(values).zip(names).map(|(value, name)| format!("{value} AS {name}")).collect();
    out.push(&columns.join(",")).push(" FROM ").push(&quoted(table.name()));
    where_sql(out, table, query.filter.as_ref());
    for place in 1..=query.by.len() {
        out.push(if place == 1 { " GROUP BY " } else { "," }).push(&place.to_string());
    }
    out.push(") AS ").push(&quoted(table.name()));
    turn(out);
    where_sql(out, result, query.having.as_ref());
}

/// Writes a list that is limited for each value of a field, up to its outer condition: the order
/// and the limit follow.
///
/// `names` are the columns to read, `by` is the expression of the field, `order` writes the order.
/// `limit` writes the parameter of the limit for each value.
pub fn list_each_sql<W: SqlWriter>(
    out: &mut W,
    table: &Table,
    filter: Option<&marmota_model::FilterExpr>,
    (names, by): (&str, &str),
    order: impl FnOnce(&mut W),
    limit: impl FnOnce(&mut W),
) {
    let from = quoted(table.name());
    out.push("SELECT ").push(names).push(" FROM (SELECT *,row_number() OVER (PARTITION BY ");
    out.push(by);
    order(out);
    out.push(") AS ").push(NUMBER).push(" FROM ").push(&from);
    where_sql(out, table, filter);
    out.push(") AS ").push(&from).push(" WHERE ").push(NUMBER).push("<=");
    limit(out);
}
