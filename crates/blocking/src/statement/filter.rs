//! Filters and orders as SQL.

use marmota_model::{Field, FilterExpr, Place, Quantifier, SortKey, Table, Value, ValueRef};
use marmota_sql::{SqlWriter, filter_sql, quoted, sign};

use super::column::{compared, compared_value, folded, folded_sql, is_folded};
use super::sql::Sql;

impl SqlWriter for Sql {
    const TRUE: &'static str = "1=1";
    const FALSE: &'static str = "1=0";

    type Outer = ();

    fn enter(&mut self, _: &Table) {}

    fn leave(&mut self, (): ()) {}

    fn push(&mut self, text: &str) -> &mut Self {
        self.add(text)
    }

    fn condition(&mut self, table: &Table, filter: &FilterExpr) {
        let (dialect, field) = (self.dialect, |position: usize| &table.fields()[position]);
        match filter {
            FilterExpr::Compare { field: position, comparison, value } => {
                let of = field(*position);
                self.add(&compared(dialect, of)).add(sign(*comparison));
                self.add(dialect.placeholder(of.kind.form()));
                self.parameters.push(compared_value(dialect, of, value.as_ref()));
            }
            FilterExpr::In { field: position, values } => self.list(field(*position), values),
            FilterExpr::Match { field: position, place, text } => {
                let of = field(*position);
                let own = match is_folded(of) {
                    true => compared(dialect, of),
                    false => folded_sql(dialect, &quoted(&of.name)),
                };
                let template = dialect.texts.places[usize::from(*place == Place::Start)];
                self.add(&template.replace("{}", &own));
                self.parameters.push(folded(dialect, text));
            }
            FilterExpr::IsNull { field: position } => {
                self.add(&quoted(&field(*position).name)).add(" IS NULL");
            }
            // They are evaluated on the rows (`executor/exact.rs`).
            FilterExpr::Inside { .. } | FilterExpr::Near { .. } | FilterExpr::Search { .. } => {
                self.add(Self::TRUE);
            }
            // The number of rows.
            FilterExpr::Related(related) => {
                if let Quantifier::Count { number, .. } = related.quantifier {
                    self.add(dialect.placeholder(marmota_model::ValueForm::Int));
                    self.bind(ValueRef::Int(number.into()));
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
    fn list(&mut self, field: &Field, values: &[Value]) {
        let Some(last) = values.last() else {
            self.add(<Self as SqlWriter>::FALSE);
            return;
        };
        let count = match values.len() {
            few @ 1..=4 => few,
            // Long lists are no prepared statements that are worth keeping.
            many => many.checked_next_power_of_two().filter(|&most| most <= 4_096).unwrap_or(many),
        };
        let one = self.dialect.placeholder(field.kind.form());
        self.add(&compared(self.dialect, field)).add(" IN (").add(one);
        self.add(&format!(",{one}").repeat(count - 1)).add(")");
        for value in values.iter().chain(std::iter::repeat(last)).take(count) {
            self.parameters.push(compared_value(self.dialect, field, value.as_ref()));
        }
    }
}

/// Writes an order. NULL sorts first.
pub(crate) fn order_sql(out: &mut Sql, table: &Table, order: &[SortKey]) {
    for (place, by) in order.iter().enumerate() {
        out.add(if place == 0 { " ORDER BY " } else { "," });
        let field = &table.fields()[by.field];
        out.add(&compared(out.dialect, field));
        let [ascending, descending] = out.dialect.nulls;
        out.add(match by.descending {
            true if field.nullable => descending,
            false if field.nullable => ascending,
            true => " DESC",
            false => "",
        });
    }
}
