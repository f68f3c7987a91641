//! The tree of a filter: its shape, by which a prepared statement is found that differs only in
//! values, and its text. The engine writes the conditions.
//!
//! A condition on related rows is a sub-query that does not refer to the outer row:
//! `"assignee" IN (SELECT "id" FROM "person" WHERE …)`. So the names in it are those of its own
//! table, without aliases, and the engine may begin at either table. It is never NULL.

use marmota_model::{
    Comparison, Error, FilterExpr, GeoCircle, Quantifier, RelatedFilter, SortKey, Table,
};

use crate::quoted;

const NOT: u8 = 5;
const AND: u8 = 6;
const OR: u8 = 7;
const ORDER: u8 = 8;
/// Conditions of engines begin with lower bytes, or with one from 9 to 200.
const RELATED: u8 = 201;

/// A buffer for shapes.
pub trait ShapeBuffer {
    /// Returns the bytes so far.
    fn bytes(&mut self) -> &mut Vec<u8>;
}

impl ShapeBuffer for Vec<u8> {
    fn bytes(&mut self) -> &mut Vec<u8> {
        self
    }
}

/// Adds a filter on rows of `table` to a shape; `condition` adds its conditions, each with the
/// table whose rows it is on.
///
/// The parts added here begin with a byte from 5 to 8, or with 201: those that `condition` adds
/// have to begin with another one.
///
/// # Errors
/// Those of `condition`; and that of a related table that the store does not have.
pub fn shape_filter<S: ShapeBuffer, E: From<Error>>(
    shape: &mut S,
    table: &Table,
    filter: &FilterExpr,
    condition: &mut impl FnMut(&mut S, &Table, &FilterExpr) -> Result<(), E>,
) -> Result<(), E> {
    let (tag, filters) = match filter {
        FilterExpr::Not(inner) => {
            shape.bytes().push(NOT);
            return shape_filter(shape, table, inner, condition);
        }
        FilterExpr::Related(related) => {
            let target = table.step_target(&related.step)?;
            shape_related(shape.bytes(), related);
            return shape_filter(shape, &target, &related.filter, condition);
        }
        FilterExpr::And(all) => (AND, all),
        FilterExpr::Or(any) => (OR, any),
        filter => return condition(shape, table, filter),
    };
    shape.bytes().push(tag);
    shape.bytes().extend((filters.len() as u32).to_le_bytes());
    filters.iter().try_for_each(|filter| shape_filter(shape, table, filter, condition))
}

/// Adds a step and its quantifier, without the number to compare with.
fn shape_related(shape: &mut Vec<u8>, related: &RelatedFilter) {
    let step = &related.step;
    shape.push(RELATED);
    shape.extend((step.table.len() as u32).to_le_bytes());
    shape.extend(step.table.as_bytes());
    shape.extend([step.local as u8, step.target as u8]);
    shape.extend(match related.quantifier {
        Quantifier::Any => [0, 0],
        Quantifier::Count { comparison, .. } => {
            [1 + comparison as u8, u8::from(related.quantifier.holds(0))]
        }
    });
}

/// Adds an order to a shape.
pub fn shape_order(shape: &mut impl ShapeBuffer, order: impl IntoIterator<Item = SortKey>) {
    shape.bytes().push(ORDER);
    for by in order {
        shape.bytes().extend([by.field as u8, u8::from(by.descending)]);
    }
}

/// Calls `take` for each condition of a filter, in the order in which they are written, with the
/// table whose rows it is on. A count of related rows comes after the conditions on those rows.
///
/// # Errors
/// Those of `take`; and that of a related table that the store does not have.
pub fn each_condition<'f, E: From<Error>>(
    table: &Table,
    filter: &'f FilterExpr,
    take: &mut impl FnMut(&Table, &'f FilterExpr) -> Result<(), E>,
) -> Result<(), E> {
    match filter {
        FilterExpr::Not(inner) => each_condition(table, inner, take),
        FilterExpr::Related(related) => {
            let target = table.step_target(&related.step)?;
            each_condition(&target, &related.filter, take)?;
            match related.quantifier {
                Quantifier::Any => Ok(()),
                Quantifier::Count { .. } => take(table, filter),
            }
        }
        FilterExpr::And(filters) | FilterExpr::Or(filters) => {
            filters.iter().try_for_each(|filter| each_condition(table, filter, take))
        }
        filter => take(table, filter),
    }
}

/// A buffer to which an engine writes SQL.
pub trait SqlWriter {
    /// A condition that is always true.
    const TRUE: &'static str;
    /// A condition that is always false.
    const FALSE: &'static str;

    /// What the writer knows of the table whose rows the conditions are on.
    type Outer;

    /// Adds text.
    fn push(&mut self, text: &str) -> &mut Self;

    /// Adds a condition: any filter except NOT, AND and OR. For one on related rows, it adds the
    /// parameter for the number of rows.
    fn condition(&mut self, table: &Table, filter: &FilterExpr);

    /// As [`Self::condition`], inside of a NOT: there, a condition on NULL has to be NULL. Outside,
    /// false is as good.
    fn negated_condition(&mut self, table: &Table, filter: &FilterExpr) {
        self.condition(table, filter);
    }

    /// Returns the fields whose columns have the values of a field: the field itself, or
    /// [`Table::columns_of`] if the database does not store the text of a composite key.
    fn columns(_: &Table, field: usize) -> Vec<usize> {
        vec![field]
    }

    /// Prepares for conditions on the rows of another table; returns what [`Self::leave`] needs.
    fn enter(&mut self, table: &Table) -> Self::Outer;

    /// Returns to the table before [`Self::enter`].
    fn leave(&mut self, outer: Self::Outer);
}

/// Writes a filter as SQL.
pub fn filter_sql<W: SqlWriter>(out: &mut W, table: &Table, filter: &FilterExpr) {
    write_filter(out, table, filter, false);
}

fn write_filter<W: SqlWriter>(out: &mut W, table: &Table, filter: &FilterExpr, is_negated: bool) {
    let (filters, between, empty) = match filter {
        FilterExpr::Not(inner) => {
            out.push("NOT (");
            write_filter(out, table, inner, true);
            out.push(")");
            return;
        }
        FilterExpr::Related(related) => return related_sql(out, table, filter, related),
        FilterExpr::And(all) => (all, " AND ", W::TRUE),
        FilterExpr::Or(any) => (any, " OR ", W::FALSE),
        condition if is_negated => return out.negated_condition(table, condition),
        condition => return out.condition(table, condition),
    };
    if filters.is_empty() {
        out.push(empty);
        return;
    }
    for (position, filter) in filters.iter().enumerate() {
        out.push(if position == 0 { "(" } else { between });
        write_filter(out, table, filter, is_negated);
    }
    out.push(")");
}

/// Writes a condition on related rows.
///
/// A count is a condition on the keys that occur with a suitable number of rows. If no rows are
/// suitable, it is one on the keys that occur with an unsuitable number.
fn related_sql<W: SqlWriter>(
    out: &mut W,
    table: &Table,
    filter: &FilterExpr,
    related: &RelatedFilter,
) {
    // The shape was made before, and would have failed.
    let Ok(target) = table.step_target(&related.step) else {
        out.push(W::FALSE);
        return;
    };
    let step = &related.step;
    let (local, key) = (W::columns(table, step.local), W::columns(&target, step.target));
    let (name, key_name) = (names(table, &local), names(&target, &key));
    let without_rows = related.quantifier.holds(0);
    let (is, and) = if without_rows { (" IS NULL", " OR ") } else { (" IS NOT NULL", " AND ") };
    let is_guarded = local.iter().any(|&at| table.fields()[at].nullable);
    if is_guarded {
        out.push("(");
    }
    for field in nullable(table, &local) {
        out.push(&field).push(is).push(and);
    }
    match local.len() {
        1 => out.push(&name),
        _ => out.push("(").push(&name).push(")"),
    };
    out.push(if without_rows { " NOT IN (SELECT " } else { " IN (SELECT " });
    out.push(&key_name).push(" FROM ").push(&quoted(target.name()));
    let mut before = " WHERE ";
    for field in nullable(&target, &key) {
        out.push(before).push(&field).push(" IS NOT NULL");
        before = " AND ";
    }
    if related.filter != FilterExpr::ALL {
        out.push(before);
        let outer = out.enter(&target);
        filter_sql(out, &target, &related.filter);
        out.leave(outer);
    }
    if let Quantifier::Count { comparison, .. } = related.quantifier {
        let wanted = if without_rows { comparison.negated() } else { comparison };
        out.push(" GROUP BY ").push(&key_name).push(" HAVING count(*)").push(sign(wanted));
        out.condition(table, filter);
    }
    out.push(if is_guarded { "))" } else { ")" });
}

fn names(table: &Table, fields: &[usize]) -> String {
    let names: Vec<String> = fields.iter().map(|&at| quoted(&table.fields()[at].name)).collect();
    names.join(",")
}

/// Returns the names of those of some fields that may be NULL.
fn nullable(table: &Table, fields: &[usize]) -> impl Iterator<Item = String> {
    let fields = fields.iter().map(|&at| &table.fields()[at]).filter(|field| field.nullable);
    fields.map(|field| quoted(&field.name))
}

/// Writes a condition inside of a NOT for an engine that compares the columns of a text that is made
/// of them. `name` returns the name of a column.
///
/// `"a"=1 AND "b"=2` is false, not NULL, if `"a"` is NULL and `"b"` is 3; and it is NULL, not false,
/// for the values of a text that no row can have. Both differ under NOT.
pub fn negated_made<W: SqlWriter>(
    out: &mut W,
    table: &Table,
    filter: &FilterExpr,
    name: &dyn Fn(usize) -> String,
) {
    let field = match filter {
        FilterExpr::Compare { field, comparison: Comparison::Equal, .. } => *field,
        FilterExpr::In { field, .. } => *field,
        _ => return out.condition(table, filter),
    };
    if !table.is_made(field) {
        return out.condition(table, filter);
    }
    out.push("(coalesce(");
    out.condition(table, filter);
    out.push(",").push(W::FALSE).push(")");
    let parts = table.parts(field).iter().filter(|&&part| table.fields()[part].nullable);
    let parts: Vec<String> = parts.map(|&part| format!("{} IS NULL", name(part))).collect();
    if !parts.is_empty() {
        out.push(" OR (").push(&parts.join(" OR ")).push(") AND NULL");
    }
    out.push(")");
}

/// Writes the condition that the point of two fields is in a circle. `parameter` adds a parameter;
/// they are [`near_values`], in this order.
///
/// The operations are those of [`GeoCircle::contains`], in its order, so that the numbers are equal.
pub fn near_sql<W: SqlWriter>(
    out: &mut W,
    latitude: &str,
    longitude: &str,
    parameter: impl Fn(&mut W),
) {
    let half_sine = |out: &mut W, field: &str| {
        out.push("sin(radians(").push(field).push("-");
        parameter(out);
        out.push(")/2)");
    };
    half_sine(out, latitude);
    out.push("*");
    half_sine(out, latitude);
    out.push("+cos(radians(").push(latitude).push("))*");
    parameter(out);
    out.push("*");
    half_sine(out, longitude);
    out.push("*");
    half_sine(out, longitude);
    out.push("<=");
    parameter(out);
}

/// Returns the values of the parameters of [`near_sql`].
#[must_use]
pub const fn near_values(circle: &GeoCircle) -> [f64; 6] {
    let (center, cosine) = (circle.center(), circle.cosine());
    let (latitude, longitude) = (center.latitude(), center.longitude());
    [latitude, latitude, cosine, longitude, longitude, circle.limit()]
}

/// Writes ` WHERE` with a filter, if there is one.
pub fn where_sql(out: &mut impl SqlWriter, table: &Table, filter: Option<&FilterExpr>) {
    if let Some(filter) = filter {
        out.push(" WHERE ");
        filter_sql(out, table, filter);
    }
}

/// Returns the operator of a comparison.
#[must_use]
pub const fn sign(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "=",
        Comparison::NotEqual => "<>",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
    }
}

#[cfg(test)]
mod tests {
    use marmota_model::{Field, Kind, Role, Schema};

    use super::*;

    struct Text(String);

    impl SqlWriter for Text {
        const TRUE: &'static str = "1";
        const FALSE: &'static str = "0";

        fn push(&mut self, text: &str) -> &mut Self {
            self.0.push_str(text);
            self
        }

        type Outer = ();

        fn enter(&mut self, _: &Table) {}

        fn leave(&mut self, (): ()) {}

        fn condition(&mut self, table: &Table, filter: &FilterExpr) {
            if let FilterExpr::IsNull { field } = filter {
                self.push(&table.fields()[*field].name).push(" IS NULL");
            }
        }
    }

    fn table() -> Table {
        let fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("a", Kind::I64).nullable(true),
        ];
        Table::new(Schema::new("t", fields)).unwrap()
    }

    fn sql(filter: &FilterExpr) -> String {
        let mut out = Text(String::new());
        where_sql(&mut out, &table(), Some(filter));
        out.0
    }

    const A: FilterExpr = FilterExpr::IsNull { field: 1 };

    #[test]
    fn trees_are_written_with_parentheses() {
        assert_eq!(sql(&A), " WHERE a IS NULL");
        let not = FilterExpr::Not(Box::new(FilterExpr::Or(vec![A, A])));
        assert_eq!(
            sql(&FilterExpr::And(vec![A, not])),
            " WHERE (a IS NULL AND NOT ((a IS NULL OR a IS NULL)))"
        );
        assert_eq!(sql(&FilterExpr::And(vec![])), " WHERE 1");
        assert_eq!(sql(&FilterExpr::Or(vec![])), " WHERE 0");
    }

    #[test]
    fn trees_that_differ_have_shapes_that_differ() {
        let shape = |filter: &FilterExpr| {
            let mut shape = Vec::new();
            let mut condition =
                |shape: &mut Vec<u8>, _: &Table, _: &FilterExpr| -> Result<(), Error> {
                    shape.push(1);
                    Ok(())
                };
            shape_filter(&mut shape, &table(), filter, &mut condition).unwrap();
            shape
        };
        let both = || FilterExpr::And(vec![A, A]);
        let trees = [
            both(),
            FilterExpr::Or(vec![A, A]),
            FilterExpr::And(vec![both(), A]),
            FilterExpr::And(vec![A, both()]),
            FilterExpr::Not(Box::new(A)),
            FilterExpr::And(vec![]),
        ];
        let shapes: Vec<Vec<u8>> = trees.iter().map(shape).collect();
        for (at, one) in shapes.iter().enumerate() {
            assert!(!shapes[..at].contains(one), "{one:?}");
        }
        for tree in &trees {
            let mut count = 0;
            let mut take = |_: &Table, _: &FilterExpr| -> Result<(), Error> {
                count += 1;
                Ok(())
            };
            each_condition(&table(), tree, &mut take).unwrap();
            assert_eq!(count, format!("{tree:?}").matches("IsNull").count());
        }
    }
}
