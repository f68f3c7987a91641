//! The tree of a filter: its shape, by which a prepared statement is found that differs only in
//! values, and its text. The engine writes the conditions.

use marmota_model::{Comparison, FilterExpr, SortKey, Table};

const NOT: u8 = 5;
const AND: u8 = 6;
const OR: u8 = 7;
const ORDER: u8 = 8;

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

/// Adds a filter to a shape; `condition` adds its conditions.
///
/// The parts added here begin with a byte from 5 to 8: those that `condition` adds have to begin
/// with another one.
///
/// # Errors
/// Those of `condition`.
pub fn shape_filter<S: ShapeBuffer, E>(
    shape: &mut S,
    filter: &FilterExpr,
    condition: &mut impl FnMut(&mut S, &FilterExpr) -> Result<(), E>,
) -> Result<(), E> {
    let (tag, filters) = match filter {
        FilterExpr::Not(inner) => {
            shape.bytes().push(NOT);
            return shape_filter(shape, inner, condition);
        }
        FilterExpr::And(all) => (AND, all),
        FilterExpr::Or(any) => (OR, any),
        filter => return condition(shape, filter),
    };
    shape.bytes().push(tag);
    shape.bytes().extend((filters.len() as u32).to_le_bytes());
    filters.iter().try_for_each(|filter| shape_filter(shape, filter, condition))
}

/// Adds an order to a shape.
pub fn shape_order(shape: &mut impl ShapeBuffer, order: impl IntoIterator<Item = SortKey>) {
    shape.bytes().push(ORDER);
    for by in order {
        shape.bytes().extend([by.field as u8, u8::from(by.descending)]);
    }
}

/// Calls `take` for each condition of a filter, in the order in which they are written.
///
/// # Errors
/// Those of `take`.
pub fn each_condition<'f, E>(
    filter: &'f FilterExpr,
    take: &mut impl FnMut(&'f FilterExpr) -> Result<(), E>,
) -> Result<(), E> {
    match filter {
        FilterExpr::Not(inner) => each_condition(inner, take),
        FilterExpr::And(filters) | FilterExpr::Or(filters) => {
            filters.iter().try_for_each(|filter| each_condition(filter, take))
        }
        filter => take(filter),
    }
}

/// A buffer to which an engine writes SQL.
pub trait SqlWriter {
    /// A condition that is always true.
    const TRUE: &'static str;
    /// A condition that is always false.
    const FALSE: &'static str;

    /// Adds text.
    fn push(&mut self, text: &str) -> &mut Self;

    /// Adds a condition: any filter except NOT, AND and OR.
    fn condition(&mut self, table: &Table, filter: &FilterExpr);
}

/// Writes a filter as SQL.
pub fn filter_sql<W: SqlWriter>(out: &mut W, table: &Table, filter: &FilterExpr) {
    let (filters, between, empty) = match filter {
        FilterExpr::Not(inner) => {
            out.push("NOT (");
            filter_sql(out, table, inner);
            out.push(")");
            return;
        }
        FilterExpr::And(all) => (all, " AND ", W::TRUE),
        FilterExpr::Or(any) => (any, " OR ", W::FALSE),
        condition => return out.condition(table, condition),
    };
    if filters.is_empty() {
        out.push(empty);
        return;
    }
    for (position, filter) in filters.iter().enumerate() {
        out.push(if position == 0 { "(" } else { between });
        filter_sql(out, table, filter);
    }
    out.push(")");
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
    use std::convert::Infallible;

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
            let mut condition = |shape: &mut Vec<u8>, _: &FilterExpr| -> Result<(), Infallible> {
                shape.push(1);
                Ok(())
            };
            let Ok(()) = shape_filter(&mut shape, filter, &mut condition);
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
            let mut take = |_: &FilterExpr| -> Result<(), Infallible> {
                count += 1;
                Ok(())
            };
            let Ok(()) = each_condition(tree, &mut take);
            assert_eq!(count, format!("{tree:?}").matches("IsNull").count());
        }
    }
}
