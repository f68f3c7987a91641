//! Filters and orders as SQL.

use marmota_model::{FilterExpr, Place, Quantifier, SortKey, Table, Value};
use marmota_sql::{SqlWriter, filter_sql, quoted, sign};

use crate::connection::Cell;
use crate::statement::column::{
    compared, compared_cell, folded, folded_sql, is_folded, placeholder,
};
use crate::statement::sql::Sql;

impl SqlWriter for Sql {
    const TRUE: &'static str = "TRUE";
    const FALSE: &'static str = "FALSE";

    type Outer = ();

    fn enter(&mut self, _: &Table) {}

    fn leave(&mut self, (): ()) {}

    fn push(&mut self, text: &str) -> &mut Self {
        self.add(text)
    }

    fn condition(&mut self, table: &Table, filter: &FilterExpr) {
        let field = |position: usize| &table.fields()[position];
        match filter {
            FilterExpr::Compare { field: position, comparison, value } => {
                let of = field(*position);
                self.add(&compared(of)).add(sign(*comparison)).add(placeholder(of));
                self.bind(compared_cell(of, value.as_ref()));
            }
            FilterExpr::In { field: position, values } => self.list(field(*position), values),
            FilterExpr::Match { field: position, place, text } => {
                let of = field(*position);
                let own = match is_folded(of) {
                    true => compared(of),
                    false => folded_sql(&quoted(&of.name)),
                };
                self.add(match place {
                    Place::Anywhere => "locate(cast(? as binary),",
                    Place::Start => "1=locate(cast(? as binary),",
                });
                self.bind(folded(text)).add(&own).add(match place {
                    Place::Anywhere => ")>0",
                    Place::Start => ")",
                });
            }
            FilterExpr::IsNull { field: position } => {
                self.add(&quoted(&field(*position).name)).add(" IS NULL");
            }
            // They are evaluated on the rows (`executor/exact.rs`).
            FilterExpr::Inside { .. } | FilterExpr::Search { .. } => drop(self.add("TRUE")),
            // The number of rows.
            FilterExpr::Related(related) => {
                if let Quantifier::Count { number, .. } = related.quantifier {
                    self.add("?").bind(Cell::Int(number.into()));
                }
            }
            FilterExpr::Not(_) | FilterExpr::And(_) | FilterExpr::Or(_) => {
                filter_sql(self, table, filter);
            }
        }
    }
}

impl Sql {
    /// Adds the condition that a field has one of these values. The list is filled up with its last
    /// value, so that few statements differ.
    fn list(&mut self, field: &marmota_model::Field, values: &[Value]) {
        let Some(last) = values.last() else {
            self.add("FALSE");
            return;
        };
        let count = match values.len() {
            few @ 1..=4 => few,
            // Long lists are no prepared statements that are worth keeping.
            many => many.checked_next_power_of_two().filter(|&most| most <= 4_096).unwrap_or(many),
        };
        let one = placeholder(field);
        self.add(&compared(field)).add(" IN (").add(one);
        self.add(&format!(",{one}").repeat(count - 1)).add(")");
        for value in values.iter().chain(std::iter::repeat(last)).take(count) {
            self.bind(compared_cell(field, value.as_ref()));
        }
    }
}

/// Writes an order. NULL sorts first in MariaDB, too.
pub(crate) fn order_sql(out: &mut Sql, table: &Table, order: &[SortKey]) {
    for (place, by) in order.iter().enumerate() {
        out.add(if place == 0 { " ORDER BY " } else { "," });
        out.add(&compared(&table.fields()[by.field]));
        out.add(if by.descending { " DESC" } else { "" });
    }
}
