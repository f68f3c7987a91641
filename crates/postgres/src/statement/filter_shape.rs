//! Filters and orders as SQL: their shape (the key of a statement), their text (made once per
//! shape) and their values (written each time). All three walk the tree in the same order.
//!
//! A list of values is one array parameter, so that its length is not part of a shape. Texts are
//! matched in lower case on both sides.

use marmota_model::{
    Comparison, FieldSet, FilterExpr, Place, Quantifier, Result, SortKey, Table, ValueRef,
};
use marmota_sql::{
    SqlWriter, each_condition, filter_sql, near_sql, near_values, negated_made, quoted, sign,
};

use crate::statement::column::{compared_type, is_folded, misfit, name};
use crate::statement::key::{made_condition, made_in_list, put_made, put_made_list};
use crate::statement::sql_writer::Sql;
use crate::statement::{json_path, search};
use crate::wire::value::{self, PgType};

impl SqlWriter for Sql {
    const TRUE: &'static str = "true";
    const FALSE: &'static str = "false";

    type Outer = FieldSet;

    fn enter(&mut self, table: &Table) -> FieldSet {
        self.enter_table(table)
    }

    fn leave(&mut self, outer: FieldSet) {
        self.leave_table(outer);
    }

    fn push(&mut self, text: &str) -> &mut Self {
        Self::push(self, text)
    }

    fn columns(table: &Table, field: usize) -> Vec<usize> {
        table.columns_of(field)
    }

    fn negated_condition(&mut self, table: &Table, filter: &FilterExpr) {
        negated_made(self, table, filter, &|at| name(table, at));
    }

    fn condition(&mut self, table: &Table, filter: &FilterExpr) {
        let field = |position: usize| &table.fields()[position];
        match filter {
            // The columns have an index, unlike their text.
            FilterExpr::Compare { field, comparison: Comparison::Equal, .. }
                if table.is_made(*field) =>
            {
                self.push("(");
                made_condition(self, table, *field);
                self.push(")");
            }
            FilterExpr::In { field, .. } if table.is_made(*field) => {
                made_in_list(self, table, *field);
            }
            FilterExpr::Compare { field: position, comparison, .. } => {
                let pg_type = compared_type(&field(*position).kind);
                let own = match comparison {
                    Comparison::Equal | Comparison::NotEqual => self.compared(table, *position),
                    _ => self.sorted(table, *position),
                };
                self.push(&own).push(sign(*comparison)).parameter(pg_type.oid());
            }
            FilterExpr::In { field: position, .. } => {
                let pg_type = compared_type(&field(*position).kind);
                let own = self.compared(table, *position);
                self.push(&own).push("=ANY(").parameter(pg_type.array_oid()).push(")");
            }
            FilterExpr::Match { field: position, place, .. } => {
                let (before, behind) = match place {
                    Place::Anywhere => ("strpos(lower(", ")>0"),
                    Place::Start => ("starts_with(lower(", ")"),
                };
                let by_bytes = if self.is_collated(*position) { " COLLATE \"C\"" } else { "" };
                self.push(before).push(&name(table, *position)).push(by_bytes).push("),");
                self.parameter(PgType::Text.oid()).push(behind);
            }
            FilterExpr::IsNull { field: position } => {
                self.push(&name(table, *position)).push(" IS NULL");
            }
            FilterExpr::Inside { field, condition } => {
                json_path::sql(self, table, *field, condition);
            }
            FilterExpr::Near { latitude, longitude, .. } => {
                let name = |position: &usize| quoted(&field(*position).name);
                near_sql(self, &name(latitude), &name(longitude), |out| {
                    out.parameter(PgType::Float8.oid());
                });
            }
            FilterExpr::Search { field, search } => search::sql(self, table, *field, search),
            // The number of rows.
            FilterExpr::Related(_) => {
                self.parameter(PgType::Int8.oid());
            }
            FilterExpr::Not(_) | FilterExpr::And(_) | FilterExpr::Or(_) => {
                filter_sql(self, table, filter);
            }
        }
    }
}

/// Adds a filter on rows of `table` to a shape.
pub(crate) fn shape_filter(shape: &mut Vec<u8>, table: &Table, filter: &FilterExpr) -> Result<()> {
    let mut condition = |shape: &mut Vec<u8>, _: &Table, filter: &FilterExpr| -> Result<()> {
        match filter {
            FilterExpr::Compare { field, comparison, .. } => {
                shape.extend([1, *field as u8, *comparison as u8]);
            }
            FilterExpr::In { field, .. } => shape.extend([2, *field as u8]),
            FilterExpr::Match { field, place, .. } => shape.extend([3, *field as u8, *place as u8]),
            FilterExpr::IsNull { field } => shape.extend([4, *field as u8]),
            FilterExpr::Inside { field, condition } => json_path::shape(shape, *field, condition),
            FilterExpr::Near { latitude, longitude, .. } => {
                shape.extend([11, *latitude as u8, *longitude as u8]);
            }
            FilterExpr::Search { field, search } => search::shape(shape, *field, search),
            FilterExpr::Related(_)
            | FilterExpr::Not(_)
            | FilterExpr::And(_)
            | FilterExpr::Or(_) => {}
        }
        Ok(())
    };
    marmota_sql::shape_filter(shape, table, filter, &mut condition)
}

/// Writes an order as SQL. NULL sorts first; for fields without NULL this is omitted, so that any
/// index can be used.
pub(crate) fn order_sql(out: &mut Sql, table: &Table, order: &[SortKey]) {
    for (position, by) in order.iter().enumerate() {
        let field = &table.fields()[by.field];
        let own = out.sorted(table, by.field);
        out.push(if position == 0 { " ORDER BY " } else { "," }).push(&own);
        out.push(match (by.descending, field.nullable) {
            (false, false) => "",
            (false, true) => " NULLS FIRST",
            (true, false) => " DESC",
            (true, true) => " DESC NULLS LAST",
        });
    }
}

/// Appends a filter's values to the parameters. Returns their number.
pub(crate) fn put_filter(out: &mut Vec<u8>, table: &Table, filter: &FilterExpr) -> Result<u16> {
    let mut count = 0;
    each_condition(table, filter, &mut |table, condition| -> Result<()> {
        count += put_condition(out, table, condition)?;
        Ok(())
    })?;
    Ok(count)
}

fn put_condition(out: &mut Vec<u8>, table: &Table, filter: &FilterExpr) -> Result<u16> {
    match filter {
        FilterExpr::Compare { field, comparison: Comparison::Equal, value }
            if table.is_made(*field) =>
        {
            return put_made(out, table, *field, value.as_ref());
        }
        FilterExpr::In { field, values } if table.is_made(*field) => {
            return put_made_list(out, table, *field, values);
        }
        FilterExpr::Compare { field, value, .. } => {
            put_compared(out, table, *field, value.as_ref())?;
        }
        FilterExpr::In { field, values } => {
            let pg_type = compared_type(&table.fields()[*field].kind);
            value::put_array(out, pg_type, values.len(), |out| {
                values.iter().try_for_each(|value| put_compared(out, table, *field, value.as_ref()))
            })?;
        }
        FilterExpr::Match { text, .. } => value::put_folded(out, text),
        FilterExpr::IsNull { .. } => return Ok(0),
        FilterExpr::Inside { condition, .. } => return json_path::put(out, condition),
        FilterExpr::Near { circle, .. } => {
            let values = near_values(circle);
            for value in values {
                // A float always fits a double precision.
                let _ = value::put(out, PgType::Float8, ValueRef::Float(value));
            }
            return Ok(values.len() as u16);
        }
        FilterExpr::Search { field, search } => return Ok(search::put(out, table, *field, search)),
        FilterExpr::Related(related) => {
            let Quantifier::Count { number, .. } = related.quantifier else { return Ok(0) };
            // An integer always fits a bigint.
            let _ = value::put(out, PgType::Int8, ValueRef::Int(i64::from(number)));
        }
        FilterExpr::Not(_) | FilterExpr::And(_) | FilterExpr::Or(_) => {
            return put_filter(out, table, filter);
        }
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
        value => value::put(out, compared_type(&field.kind), value)
            .map_err(|value::ValueMismatch| misfit(table, position))?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use marmota_model::{Collation, Field, FieldSet, Kind, Role, Schema, Value};

    fn table() -> Table {
        let folded = Kind::Text { chars_max: 0, collation: Collation::NoCase };
        let fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("name", folded).nullable(true),
            Field::new("small", Kind::Int { min: 0, max: 9 }),
        ];
        Table::new(Schema::new("t", fields)).unwrap()
    }

    fn sql(filter: &FilterExpr) -> String {
        let mut out = Sql::default();
        filter_sql(&mut out, &table(), filter);
        out.text
    }

    #[test]
    fn values_are_no_part_of_a_shape() {
        let shape = |filter: &FilterExpr| {
            let mut shape = Vec::new();
            shape_filter(&mut shape, &table(), filter).unwrap();
            shape
        };
        let is = |values: &[i64]| FilterExpr::In {
            field: 0,
            values: values.iter().map(|value| Value::Int(*value)).collect(),
        };
        assert_eq!(shape(&is(&[1])), shape(&is(&[2, 3])));
        let both = FilterExpr::And(vec![is(&[1]), is(&[2])]);
        assert_ne!(shape(&both), shape(&FilterExpr::Or(vec![is(&[1]), is(&[2])])));
    }

    #[test]
    fn filters_are_sql() {
        let is = FilterExpr::Compare { field: 1, comparison: Comparison::Less, value: "x".into() };
        let within = FilterExpr::Match { field: 1, place: Place::Anywhere, text: "é".to_owned() };
        let filter = FilterExpr::And(vec![is, FilterExpr::Not(Box::new(within))]);
        assert_eq!(sql(&filter), r#"(lower("name")<$1 AND NOT (strpos(lower("name"),$2)>0))"#);
        assert_eq!(sql(&FilterExpr::And(vec![])), "true");
        assert_eq!(sql(&FilterExpr::Or(vec![])), "false");
        let mut out = Vec::new();
        assert_eq!(put_filter(&mut out, &table(), &filter).unwrap(), 2);
        assert_eq!(out, b"\0\0\0\x01x\0\0\0\x02\xc3\xa9");
    }

    #[test]
    fn a_column_of_a_language_is_sorted_by_bytes() {
        let fields =
            vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("word", Kind::TEXT)];
        let table = Table::new(Schema::new("t", fields)).unwrap();
        let is = |comparison| FilterExpr::Compare { field: 1, comparison, value: "x".into() };
        let starts = FilterExpr::Match { field: 1, place: Place::Start, text: "x".to_owned() };
        let filter = FilterExpr::And(vec![is(Comparison::Equal), is(Comparison::Less), starts]);
        let mut out = Sql::on(FieldSet::EMPTY.with(1));
        filter_sql(&mut out, &table, &filter);
        order_sql(&mut out, &table, &[SortKey { field: 1, descending: false }]);
        let wanted = r#"("word"=$1 AND ("word" COLLATE "C")<$2 AND starts_with(lower("word" COLLATE "C"),$3)) ORDER BY ("word" COLLATE "C")"#;
        assert_eq!(out.text, wanted);
    }

    #[test]
    fn null_is_the_least() {
        let mut out = Sql::default();
        let order = [(1, true), (0, false)];
        let order = order.map(|(field, descending)| SortKey { field, descending });
        order_sql(&mut out, &table(), &order);
        assert_eq!(out.text, r#" ORDER BY lower("name") DESC NULLS LAST,"id""#);
    }
}
