//! The filters of partial indexes as SQL with constants, and filters from the SQL of indexes that
//! other programs created.

use std::fmt::Write as _;

use marmota_model::{FilterExpr, Index, Kind, Table, ValueRef, json, parse_filter};

use crate::filter::{SqlWriter, filter_sql, sign};
use crate::index_condition::filter_text;
use crate::name::quoted;

/// The words of a database for fields and constants.
struct Words<'w> {
    field: &'w dyn Fn(usize) -> String,
    literal: &'w dyn Fn(usize, ValueRef<'_>) -> String,
}

struct Writer<'w> {
    words: Words<'w>,
    text: String,
}

impl SqlWriter for Writer<'_> {
    const TRUE: &'static str = "1=1";
    const FALSE: &'static str = "1=0";

    type Outer = ();

    fn push(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    fn condition(&mut self, _: &Table, filter: &FilterExpr) {
        let (field, literal) = (self.words.field, self.words.literal);
        let _ = match filter {
            FilterExpr::Compare { field: at, comparison, value } => {
                let value = literal(*at, value.as_ref());
                write!(self.text, "{}{}{value}", field(*at), sign(*comparison))
            }
            FilterExpr::In { field: at, values } => {
                let values: Vec<String> =
                    values.iter().map(|value| literal(*at, value.as_ref())).collect();
                write!(self.text, "{} IN ({})", field(*at), values.join(","))
            }
            FilterExpr::IsNull { field: at } => write!(self.text, "{} IS NULL", field(*at)),
            // `Table::new` refuses these in an index.
            _ => write!(self.text, "1=0"),
        };
    }

    fn enter(&mut self, _: &Table) {}

    fn leave(&mut self, (): ()) {}
}

/// Returns the filter of a partial index as SQL. `field` returns the expression by which a field is
/// compared, and `literal` a constant that it is compared with.
#[must_use]
pub fn index_filter_sql(
    table: &Table,
    filter: &FilterExpr,
    field: &dyn Fn(usize) -> String,
    literal: &dyn Fn(usize, ValueRef<'_>) -> String,
) -> String {
    let mut writer = Writer { words: Words { field, literal }, text: String::new() };
    filter_sql(&mut writer, table, filter);
    writer.text
}

/// Returns a text that two filters have in common only if they are the same, in any database and
/// with any positions of the fields.
pub(crate) fn canonical(table: &Table, index: &Index) -> Option<String> {
    let field = |at: usize| quoted(&table.fields()[at].name);
    let literal = |_: usize, value: ValueRef<'_>| {
        let mut json = Vec::new();
        json::write_value(&mut json, value);
        String::from_utf8_lossy(&json).into_owned()
    };
    Some(index_filter_sql(table, &table.index_filter(index)?, &field, &literal))
}

/// Returns true if an index of another program with this condition has the rows of the model's
/// index; `condition` is `None` for an index of all rows.
#[must_use]
pub fn has_same_filter(table: &Table, index: &Index, condition: Option<&str>) -> bool {
    match (table.index_filter(index), condition) {
        (None, None) => true,
        (Some(filter), Some(sql)) => {
            let text = existing_filter(sql, &|name| {
                let mut fields = table.fields().iter();
                let field = fields.find(|field| field.name.eq_ignore_ascii_case(name))?;
                Some((field.name.to_string(), field.kind == Kind::Bool))
            });
            text.and_then(|text| parse_filter(table, &text).ok()?.into_expr_for(table).ok())
                == Some(filter)
        }
        _ => false,
    }
}

/// Returns the filter for a condition of an index as SQL; `None` if no filter has the same rows.
/// `field` returns the name of a column's field, and true if its values are booleans.
#[must_use]
pub fn existing_filter(
    sql: &str,
    field: &dyn Fn(&str) -> Option<(String, bool)>,
) -> Option<String> {
    filter_text(sql, field)
}

#[cfg(test)]
mod tests {
    use marmota_model::{Field, Role, Schema};

    use super::*;
    use crate::index_name;

    fn table(filter: &'static str) -> Table {
        let fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("email", Kind::TEXT),
            Field::new("deleted", Kind::Timestamp).nullable(true),
            Field::new("done", Kind::Bool),
        ];
        let index = Index::unique(vec![1]).filter(filter);
        Table::new(Schema::new("person", fields).indexes(vec![index])).unwrap()
    }

    fn name(filter: &'static str) -> String {
        let table = table(filter);
        index_name(&table, &table.indexes()[0])
    }

    #[test]
    fn the_name_of_a_partial_index_depends_on_its_filter_only() {
        assert_eq!(name("deleted=null"), name("( deleted = null )"));
        assert_ne!(name("deleted = null"), name("deleted != null"));
        assert_ne!(name("email = 'a'"), name("email = 'b'"));
        assert!(name("deleted = null").starts_with("unique:person:email:"));
    }

    #[test]
    fn conditions_of_databases_are_compared_as_filters() {
        let same = |filter: &'static str, sql: Option<&str>| {
            let table = table(filter);
            has_same_filter(&table, &table.indexes()[0], sql)
        };
        assert!(same("deleted = null", Some("(deleted IS NULL)")));
        assert!(same(
            "deleted != null and done = true",
            Some("DELETED is not null AND \"done\"=1")
        ));
        assert!(!same("deleted = null", Some("deleted IS NOT NULL")));
        assert!(!same("deleted = null", None));
        assert!(!same("deleted = null", Some("lower(email) = 'a'")));
    }
}
