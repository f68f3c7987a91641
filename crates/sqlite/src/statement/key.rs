//! Keys in statements. The text of a composite key is not a column: conditions compare the columns
//! that it consists of, and a read makes the text of them.

use marmota_model::{Table, Value, ValueForm, ValueRef};
use marmota_sql::quoted;

use crate::ffi::Run;
use crate::statement::column::{bound, bound_value};

/// Returns the expression of a field: its column, or the text of a composite key.
pub(crate) fn field_sql(table: &Table, position: usize) -> String {
    match table.is_text_of_key(position) {
        true => text_sql(table),
        false => quoted(&table.fields()[position].name),
    }
}

/// Returns the positions of the fields that are columns.
pub(crate) fn stored(table: &Table) -> impl Iterator<Item = usize> {
    (0..table.fields().len()).filter(|&position| !table.is_text_of_key(position))
}

/// Returns the condition on the key, with a parameter for each of its columns.
pub(crate) fn key_condition(table: &Table) -> String {
    let columns: Vec<String> =
        table.key_order().iter().map(|&field| format!("{}=?", field_sql(table, field))).collect();
    columns.join(" AND ")
}

/// Writes the condition that a composite key is one of some, with parameters for each. SQLite uses
/// the index for `OR`, but not for a list of rows with texts. The tree is balanced, because SQLite
/// limits its depth.
pub(crate) fn key_in_list(out: &mut String, table: &Table, keys: usize) {
    if keys == 1 {
        out.push_str(&key_condition(table));
        return;
    }
    out.push('(');
    key_in_list(out, table, keys / 2);
    out.push_str(" OR ");
    key_in_list(out, table, keys - keys / 2);
    out.push(')');
}

/// Binds a key; `values` are those of [`Table::key_values`].
pub(crate) fn bind_key<'v>(run: &mut Run<'_, 'v>, key: &'v ValueRef<'v>, values: &'v [Value]) {
    match values {
        [] => run.bind(bound(key)),
        values => values.iter().for_each(|value| run.bind(bound_value(value))),
    }
}

/// Returns the text of a composite key, as [`marmota_model::key_text`] makes it.
fn text_sql(table: &Table) -> String {
    let parts: Vec<String> = table
        .key_fields()
        .iter()
        .map(|&field| {
            let field = &table.fields()[field];
            let name = quoted(&field.name);
            match field.kind.form() {
                ValueForm::Text => format!("replace(replace({name},'%','%25'),',','%2C')"),
                ValueForm::Uuid => {
                    let piece =
                        |(start, length): (u8, u8)| format!("substr(hex({name}),{start},{length})");
                    let pieces = [(1, 8), (9, 4), (13, 4), (17, 4), (21, 12)].map(piece);
                    format!("lower({})", pieces.join("||'-'||"))
                }
                ValueForm::Date => format!("date({name}*86400,'unixepoch')"),
                _ => name,
            }
        })
        .collect();
    format!("({})", parts.join("||','||"))
}
