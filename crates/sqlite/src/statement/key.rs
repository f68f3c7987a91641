//! Keys in statements. The text of a composite key, and that of a reference to one, is not a column:
//! conditions compare the columns that it is made of, and a read makes the text of them.

use marmota_model::{Table, Value, ValueForm, ValueRef};
use marmota_sql::quoted;

use crate::ffi::Run;
use crate::statement::column::{bound, bound_value};

/// Returns the expression of a field: its column, or the text of a composite key or of a reference to
/// one.
pub(crate) fn field_sql(table: &Table, position: usize) -> String {
    match table.is_made(position) {
        true => text_sql(table, position),
        false => quoted(&table.fields()[position].name),
    }
}

/// Returns the positions of the fields that are columns.
pub(crate) fn stored(table: &Table) -> impl Iterator<Item = usize> {
    (0..table.fields().len()).filter(|&position| !table.is_made(position))
}

/// Returns the condition on the key, with a parameter for each of its columns.
pub(crate) fn key_condition(table: &Table) -> String {
    made_condition(table, table.key())
}

/// Returns the condition that a field has a value, with a parameter for each of its columns.
pub(crate) fn made_condition(table: &Table, position: usize) -> String {
    let columns = table.columns_of(position).into_iter();
    let columns: Vec<String> =
        columns.map(|field| format!("{}=?", field_sql(table, field))).collect();
    columns.join(" AND ")
}

/// Writes the condition that a text that is made of fields is one of some, with parameters for each. SQLite uses
/// the index for `OR`, but not for a list of rows with texts. The tree is balanced, because SQLite
/// limits its depth.
pub(crate) fn made_in_list(out: &mut String, table: &Table, position: usize, texts: usize) {
    if texts == 1 {
        out.push_str(&made_condition(table, position));
        return;
    }
    out.push('(');
    made_in_list(out, table, position, texts / 2);
    out.push_str(" OR ");
    made_in_list(out, table, position, texts - texts / 2);
    out.push(')');
}

/// Binds a key; `values` are those of [`Table::key_values`].
pub(crate) fn bind_key<'v>(run: &mut Run<'_, 'v>, key: &'v ValueRef<'v>, values: &'v [Value]) {
    match values {
        [] => run.bind(bound(key)),
        values => values.iter().for_each(|value| run.bind(bound_value(value))),
    }
}

/// Returns the text that is made of fields, as [`marmota_model::key_text`] makes it; NULL if one of
/// them is.
fn text_sql(table: &Table, position: usize) -> String {
    let parts: Vec<String> = table
        .parts(position)
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
                    // `hex` of NULL is an empty text.
                    format!("iif({name} IS NULL,NULL,lower({}))", pieces.join("||'-'||"))
                }
                ValueForm::Date => format!("date({name}*86400,'unixepoch')"),
                _ => name,
            }
        })
        .collect();
    format!("({})", parts.join("||','||"))
}
