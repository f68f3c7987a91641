//! Filters and orders as SQL: their shape (what a statement is found by),
//! their text (made once a shape) and their values (written each time). All
//! three walk the tree in the same order.
//!
//! A list of values is one parameter, an array, so that its length is no part
//! of a shape. What is to match is sought in small letters on both sides.

use std::convert::Infallible;
use std::fmt::Write as _;

use marmota_model::{Error, ErrorKind, Filter, Order, Place, Result, Table, ValueRef};
use marmota_sql::{Writer, each_condition, filter_sql, quoted, sign};

use crate::column::{compared, compared_form, is_folded};
use crate::inside;
use crate::search;
use crate::wire::value::{self, Form};

/// SQL that is being written, and the types of its parameters.
#[derive(Debug, Default)]
pub(crate) struct Sql {
    pub(crate) text: String,
    pub(crate) types: Vec<u32>,
}

impl Sql {
    /// Adds text.
    pub(crate) fn push(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    /// Adds a parameter of this type.
    pub(crate) fn parameter(&mut self, oid: u32) -> &mut Self {
        self.types.push(oid);
        let _ = write!(self.text, "${}", self.types.len());
        self
    }
}

impl Writer for Sql {
    const TRUE: &'static str = "true";
    const FALSE: &'static str = "false";

    fn push(&mut self, text: &str) -> &mut Self {
        Self::push(self, text)
    }

    fn condition(&mut self, table: &Table, filter: &Filter) {
        let field = |position: usize| &table.fields()[position];
        match filter {
            Filter::Compare { field: position, comparison, .. } => {
                let field = field(*position);
                let form = compared_form(&field.kind);
                self.push(&compared(field)).push(sign(*comparison)).parameter(form.oid());
            }
            Filter::In { field: position, .. } => {
                let field = field(*position);
                let form = compared_form(&field.kind);
                self.push(&compared(field)).push("=ANY(").parameter(form.array_oid()).push(")");
            }
            Filter::Match { field: position, place, .. } => {
                let (before, behind) = match place {
                    Place::Anywhere => ("strpos(lower(", ")>0"),
                    Place::Start => ("starts_with(lower(", ")"),
                };
                self.push(before).push(&quoted(&field(*position).name)).push("),");
                self.parameter(Form::Text.oid()).push(behind);
            }
            Filter::IsNull { field: position } => {
                self.push(&quoted(&field(*position).name)).push(" IS NULL");
            }
            Filter::Inside { field, condition } => inside::sql(self, table, *field, condition),
            Filter::Search { field, search } => search::sql(self, table, *field, search),
            Filter::Not(_) | Filter::And(_) | Filter::Or(_) => filter_sql(self, table, filter),
        }
    }
}

/// Adds a filter to a shape.
pub(crate) fn shape_filter(shape: &mut Vec<u8>, filter: &Filter) {
    let mut condition = |shape: &mut Vec<u8>, filter: &Filter| -> Result<(), Infallible> {
        match filter {
            Filter::Compare { field, comparison, .. } => {
                shape.extend([1, *field as u8, *comparison as u8]);
            }
            Filter::In { field, .. } => shape.extend([2, *field as u8]),
            Filter::Match { field, place, .. } => shape.extend([3, *field as u8, *place as u8]),
            Filter::IsNull { field } => shape.extend([4, *field as u8]),
            Filter::Inside { field, condition } => inside::shape(shape, *field, condition),
            Filter::Search { field, search } => search::shape(shape, *field, search),
            Filter::Not(_) | Filter::And(_) | Filter::Or(_) => {}
        }
        Ok(())
    };
    let Ok(()) = marmota_sql::shape_filter(shape, filter, &mut condition);
}

/// Writes an order as SQL. NULL is the least: where it cannot be, nothing is
/// said of it, so that any index serves.
pub(crate) fn order_sql(out: &mut Sql, table: &Table, order: &[Order]) {
    for (position, by) in order.iter().enumerate() {
        let field = &table.fields()[by.field];
        out.push(if position == 0 { " ORDER BY " } else { "," }).push(&compared(field));
        out.push(match (by.descending, field.nullable) {
            (false, false) => "",
            (false, true) => " NULLS FIRST",
            (true, false) => " DESC",
            (true, true) => " DESC NULLS LAST",
        });
    }
}

/// Appends a filter's values to parameters; gives how many.
pub(crate) fn put_filter(out: &mut Vec<u8>, table: &Table, filter: &Filter) -> Result<u16> {
    let mut count = 0;
    each_condition(filter, &mut |condition| -> Result<()> {
        count += put_condition(out, table, condition)?;
        Ok(())
    })?;
    Ok(count)
}

fn put_condition(out: &mut Vec<u8>, table: &Table, filter: &Filter) -> Result<u16> {
    match filter {
        Filter::Compare { field, value, .. } => {
            put_compared(out, table, *field, value.as_ref())?;
        }
        Filter::In { field, values } => {
            let form = compared_form(&table.fields()[*field].kind);
            value::put_array(out, form, values.len(), |out| {
                values.iter().try_for_each(|value| put_compared(out, table, *field, value.as_ref()))
            })?;
        }
        Filter::Match { text, .. } => value::put_folded(out, text),
        Filter::IsNull { .. } => return Ok(0),
        Filter::Inside { condition, .. } => return inside::put(out, condition),
        Filter::Search { field, search } => return Ok(search::put(out, table, *field, search)),
        Filter::Not(_) | Filter::And(_) | Filter::Or(_) => return put_filter(out, table, filter),
    }
    Ok(1)
}

/// Appends a value that a field is compared with.
pub(crate) fn put_compared(
    out: &mut Vec<u8>,
    table: &Table,
    position: usize,
    value: ValueRef<'_>,
) -> Result<()> {
    let field = &table.fields()[position];
    match value {
        ValueRef::Text(text) if is_folded(field) => value::put_folded(out, text),
        value => value::put(out, compared_form(&field.kind), value)
            .map_err(|value::Misfit| misfit(table, position))?,
    }
    Ok(())
}

#[cold]
pub(crate) fn misfit(table: &Table, position: usize) -> Error {
    let field = &table.fields()[position];
    let message = format!(
        "a value for field `{}` of `{}` is no {} of PostgreSQL's",
        field.name,
        table.name(),
        field.kind.name()
    );
    Error::new(ErrorKind::Invalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use marmota_model::{Collation, Comparison, Field, Kind, Role, Schema, Value};

    fn table() -> Table {
        let folded = Kind::Text { chars_max: 0, collation: Collation::NoCase };
        let fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("name", folded).nullable(true),
            Field::new("small", Kind::Int { min: 0, max: 9 }),
        ];
        Table::new(Schema::new("t", fields)).unwrap()
    }

    fn sql(filter: &Filter) -> String {
        let mut out = Sql::default();
        filter_sql(&mut out, &table(), filter);
        out.text
    }

    #[test]
    fn values_are_no_part_of_a_shape() {
        let shape = |filter: &Filter| {
            let mut shape = Vec::new();
            shape_filter(&mut shape, filter);
            shape
        };
        let is = |values: &[i64]| Filter::In {
            field: 0,
            values: values.iter().map(|value| Value::Int(*value)).collect(),
        };
        assert_eq!(shape(&is(&[1])), shape(&is(&[2, 3])));
        let both = Filter::And(vec![is(&[1]), is(&[2])]);
        assert_ne!(shape(&both), shape(&Filter::Or(vec![is(&[1]), is(&[2])])));
    }

    #[test]
    fn filters_are_sql() {
        let is = Filter::Compare { field: 1, comparison: Comparison::Less, value: "x".into() };
        let within = Filter::Match { field: 1, place: Place::Anywhere, text: "é".to_owned() };
        let filter = Filter::And(vec![is, Filter::Not(Box::new(within))]);
        assert_eq!(sql(&filter), r#"(lower("name")<$1 AND NOT (strpos(lower("name"),$2)>0))"#);
        assert_eq!(sql(&Filter::And(vec![])), "true");
        assert_eq!(sql(&Filter::Or(vec![])), "false");
        let mut out = Vec::new();
        assert_eq!(put_filter(&mut out, &table(), &filter).unwrap(), 2);
        assert_eq!(out, b"\0\0\0\x01x\0\0\0\x02\xc3\xa9");
    }

    #[test]
    fn null_is_the_least() {
        let mut out = Sql::default();
        let order = [(1, true), (0, false)];
        let order = order.map(|(field, descending)| Order { field, descending });
        order_sql(&mut out, &table(), &order);
        assert_eq!(out.text, r#" ORDER BY lower("name") DESC NULLS LAST,"id""#);
    }
}
