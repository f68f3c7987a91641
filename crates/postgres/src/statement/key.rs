//! Keys in statements. The text of a composite key, and that of a reference to one, is not a column:
//! conditions compare the columns that it is made of, and a read makes the text of them.

use marmota_model::{Field, FieldSet, Result, Table, Value, ValueForm, ValueRef};

use super::column::{name, oid, pg_type, put};
use super::sql_words::quoted;
use super::sql_writer::Sql;
use crate::wire::value;

/// Returns the fields of a row that are given and are columns.
pub(crate) fn stored(table: &Table, row: &[ValueRef<'_>]) -> FieldSet {
    columns(table, FieldSet::present(row))
}

/// Returns those of some fields that are columns.
pub(crate) fn columns(table: &Table, fields: FieldSet) -> FieldSet {
    table.made_fields().iter().fold(fields, FieldSet::without)
}

/// Returns true if the server generates the key of a row that has these fields.
pub(crate) fn is_generated(table: &Table, fields: FieldSet) -> bool {
    !fields.contains(table.key()) && !table.has_composite_key()
}

/// Writes the condition on the key, with a parameter for each of its columns.
pub(crate) fn key_condition(sql: &mut Sql, table: &Table) {
    made_condition(sql, table, table.key());
}

/// Writes the condition that a field has a value, with a parameter for each of its columns.
pub(crate) fn made_condition(sql: &mut Sql, table: &Table, position: usize) {
    for (at, field) in table.columns_of(position).into_iter().enumerate() {
        sql.push(if at == 0 { "" } else { " AND " });
        sql.push(&name(table, field)).push("=").parameter(oid(table, field));
    }
}

/// Appends the parameters of [`key_condition`]. Returns their number.
pub(crate) fn put_key(out: &mut Vec<u8>, table: &Table, key: ValueRef<'_>) -> Result<u16> {
    match table.has_composite_key() {
        true => put_made(out, table, table.key(), key),
        false => put(out, table, table.key(), key).map(|()| 1),
    }
}

/// Appends the parameters of [`made_condition`] for a text that is made of fields. Returns their
/// number.
pub(crate) fn put_made(
    out: &mut Vec<u8>,
    table: &Table,
    position: usize,
    text: ValueRef<'_>,
) -> Result<u16> {
    let values = table.part_values(position, text);
    for (&field, value) in table.parts(position).iter().zip(&values) {
        put(out, table, field, value.as_ref())?;
    }
    Ok(values.len() as u16)
}

/// Writes the condition that a text that is made of fields is in a list, with an array for each of
/// its columns.
pub(crate) fn made_in_list(sql: &mut Sql, table: &Table, position: usize) {
    let parts = table.parts(position);
    let columns: Vec<String> = parts.iter().map(|&field| name(table, field)).collect();
    sql.push("(").push(&columns.join(",")).push(") IN (SELECT * FROM unnest(");
    for (at, &field) in parts.iter().enumerate() {
        sql.push(if at == 0 { "" } else { "," });
        sql.parameter(pg_type(&table.fields()[field].kind).array_oid());
    }
    sql.push("))");
}

/// Appends the parameters of [`made_in_list`]. Returns their number.
pub(crate) fn put_made_list(
    out: &mut Vec<u8>,
    table: &Table,
    position: usize,
    texts: &[Value],
) -> Result<u16> {
    let texts: Vec<_> =
        texts.iter().map(|text| table.part_values(position, text.as_ref())).collect();
    let parts = table.parts(position);
    for (at, &field) in parts.iter().enumerate() {
        let pg_type = pg_type(&table.fields()[field].kind);
        value::put_array(out, pg_type, texts.len(), |out| {
            texts.iter().try_for_each(|text| put(out, table, field, text[at].as_ref()))
        })?;
    }
    Ok(parts.len() as u16)
}

/// Returns the text that is made of fields, as [`marmota_model::key_text`] makes it, or NULL if one
/// of them is; `row` is a prefix of the columns, such as `r.`. All names are qualified, for functions
/// of triggers.
pub(crate) fn text_sql(table: &Table, position: usize, row: &str) -> String {
    let parts = || table.parts(position).iter().map(|&field| &table.fields()[field]);
    let of_part = |field: &Field| {
        let name = format!("{row}{}", quoted(&field.name));
        match field.kind.form() {
            ValueForm::Text => format!(
                "pg_catalog.replace(pg_catalog.replace({name}::pg_catalog.text,'%','%25'),\
                 ',','%2C')"
            ),
            ValueForm::Date => format!("pg_catalog.to_char({name},'YYYY-MM-DD')"),
            _ => name,
        }
    };
    let made: Vec<String> = parts().map(of_part).collect();
    let text = format!("(pg_catalog.concat_ws(',',{}) COLLATE pg_catalog.\"C\")", made.join(","));
    let nullable = parts().filter(|field| field.nullable);
    let nulls: Vec<String> =
        nullable.map(|field| format!("{row}{} IS NULL", quoted(&field.name))).collect();
    match nulls.is_empty() {
        true => text,
        // `concat_ws` leaves out NULL.
        false => format!("(CASE WHEN {} THEN NULL ELSE {text} END)", nulls.join(" OR ")),
    }
}
