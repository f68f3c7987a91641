//! Keys in statements. The text of a composite key is not a column: conditions compare the columns
//! that it consists of, and a read makes the text of them.

use marmota_model::{FieldSet, Result, Table, ValueForm, ValueRef};

use super::column::{name, oid, pg_type, put};
use super::sql_words::quoted;
use super::sql_writer::Sql;
use crate::wire::value;

/// Returns the fields of a row that are given and are columns.
pub(crate) fn stored(table: &Table, row: &[ValueRef<'_>]) -> FieldSet {
    let present = FieldSet::present(row);
    if table.has_composite_key() { present.without(table.key()) } else { present }
}

/// Returns true if the server generates the key of a row that has these fields.
pub(crate) fn is_generated(table: &Table, fields: FieldSet) -> bool {
    !fields.contains(table.key()) && !table.has_composite_key()
}

/// Writes the condition on the key, with a parameter for each of its columns.
pub(crate) fn key_condition(sql: &mut Sql, table: &Table) {
    for (at, &field) in table.key_order().iter().enumerate() {
        sql.push(if at == 0 { "" } else { " AND " });
        sql.push(&name(table, field)).push("=").parameter(oid(table, field));
    }
}

/// Appends the parameters of [`key_condition`]. Returns their number.
pub(crate) fn put_key(out: &mut Vec<u8>, table: &Table, key: ValueRef<'_>) -> Result<u16> {
    if !table.has_composite_key() {
        return put(out, table, table.key(), key).map(|()| 1);
    }
    let values = table.key_values(key);
    for (&field, value) in table.key_fields().iter().zip(&values) {
        put(out, table, field, value.as_ref())?;
    }
    Ok(values.len() as u16)
}

/// Writes the condition that the key is in a list, with an array for each of its columns.
pub(crate) fn key_in_list(sql: &mut Sql, table: &Table) {
    let columns: Vec<String> = table.key_fields().iter().map(|&field| name(table, field)).collect();
    sql.push("(").push(&columns.join(",")).push(") IN (SELECT * FROM unnest(");
    for (at, &field) in table.key_fields().iter().enumerate() {
        sql.push(if at == 0 { "" } else { "," });
        sql.parameter(pg_type(&table.fields()[field].kind).array_oid());
    }
    sql.push("))");
}

/// Appends the parameters of [`key_in_list`]. Returns their number.
pub(crate) fn put_keys(
    out: &mut Vec<u8>,
    table: &Table,
    keys: &[marmota_model::Value],
) -> Result<u16> {
    let keys: Vec<_> = keys.iter().map(|key| table.key_values(key.as_ref())).collect();
    for (at, &field) in table.key_fields().iter().enumerate() {
        let pg_type = pg_type(&table.fields()[field].kind);
        value::put_array(out, pg_type, keys.len(), |out| {
            keys.iter().try_for_each(|key| put(out, table, field, key[at].as_ref()))
        })?;
    }
    Ok(table.key_fields().len() as u16)
}

/// Returns the text of a composite key, as [`marmota_model::key_text`] makes it; `row` is a prefix of
/// the columns, such as `r.`. All names are qualified, for functions of triggers.
pub(crate) fn text_sql(table: &Table, row: &str) -> String {
    let parts: Vec<String> = table
        .key_fields()
        .iter()
        .map(|&field| {
            let field = &table.fields()[field];
            let name = format!("{row}{}", quoted(&field.name));
            match field.kind.form() {
                ValueForm::Text => format!(
                    "pg_catalog.replace(pg_catalog.replace({name}::pg_catalog.text,'%','%25'),\
                     ',','%2C')"
                ),
                ValueForm::Date => format!("pg_catalog.to_char({name},'YYYY-MM-DD')"),
                _ => name,
            }
        })
        .collect();
    format!("(pg_catalog.concat_ws(',',{}) COLLATE pg_catalog.\"C\")", parts.join(","))
}
