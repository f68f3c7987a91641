//! The filters of partial indexes as SQL.

use marmota_model::{FieldSet, FilterExpr, Table, ValueRef};

use super::column::{compared, is_folded};
use super::sql_words::sql_literal;

/// Returns the filter of a partial index as SQL; `collated` are the fields whose columns sort texts
/// by the rules of a language.
pub(crate) fn index_filter(table: &Table, filter: &FilterExpr, collated: FieldSet) -> String {
    let field = |at: usize| compared(&table.fields()[at], collated.contains(at));
    let literal = |at: usize, value: ValueRef<'_>| match value {
        ValueRef::Text(text) if is_folded(&table.fields()[at]) => {
            sql_literal(ValueRef::Text(&text.to_ascii_lowercase()))
        }
        value => sql_literal(value),
    };
    marmota_sql::index_filter_sql(table, filter, &field, &literal)
}
