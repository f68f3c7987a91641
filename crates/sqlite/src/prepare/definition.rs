//! The structure that a model needs, as SQL: its table, its columns, its indexes.

use marmota_model::{Index, KeyKind, Kind, Table};
use marmota_sql::{index_columns, index_filter_sql, index_name, on_delete, quoted};

use crate::sql_words::{sql_collation, sql_literal, sql_type};
use crate::statement::key::stored;

/// Returns the statement that creates a table.
pub(super) fn create_table(table: &Table) -> String {
    let columns = stored(table)
        .map(|position| column(table, position, table.default(position).map(sql_literal), true));
    let mut columns: Vec<String> = columns.collect();
    if table.has_composite_key() {
        let key: Vec<String> =
            table.key_fields().iter().map(|&field| quoted(&table.fields()[field].name)).collect();
        columns.push(format!("PRIMARY KEY ({})", key.join(",")));
    }
    columns.extend(made_references(table).map(|position| foreign_key(table, position)));
    // A key that is not an integer would need an index in addition to the rows. Storing the rows in
    // key order instead, rows of 40 bytes took 0.73 of the time to insert and 0.54 to read by key;
    // rows of 220 bytes 1.02 and 0.71. STRICT had no measurable cost.
    let rowid = match table.key_kind() {
        KeyKind::Auto => "",
        KeyKind::Uuid | KeyKind::Text => ", WITHOUT ROWID",
    };
    let name = quoted(table.name());
    format!("CREATE TABLE {name} ({}) STRICT{rowid}", columns.join(", "))
}

/// Returns the references to composite keys.
pub(super) fn made_references(table: &Table) -> impl Iterator<Item = usize> {
    table.made_fields().iter().filter(|&position| position != table.key())
}

/// Returns the constraint of a reference to a composite key. SQLite finds the columns of the other
/// table's key by itself.
pub(super) fn foreign_key(table: &Table, position: usize) -> String {
    let parts: Vec<String> =
        table.parts(position).iter().map(|&at| quoted(&table.fields()[at].name)).collect();
    format!("FOREIGN KEY ({}){}", parts.join(","), references(table, position))
}

/// Returns ` REFERENCES …` for a field that is a reference. It is to the other table's key, and
/// checked at the end of each statement, so that rows that refer to each other can be deleted together.
fn references(table: &Table, position: usize) -> String {
    match &table.fields()[position].kind {
        Kind::Reference { table: to, .. } => {
            format!(" REFERENCES {}{}", quoted(to), on_delete(table.action_of_database(position)))
        }
        _ => String::new(),
    }
}

/// Returns a column's definition, for a new table or for one that has rows.
pub(super) fn column(
    table: &Table,
    position: usize,
    default: Option<String>,
    is_new_table: bool,
) -> String {
    let field = &table.fields()[position];
    let mut sql = format!("{} {}", quoted(&field.name), sql_type(&field.kind));
    if position == table.key() {
        if table.key_kind() != KeyKind::Auto {
            sql.push_str(" NOT NULL");
        }
        sql.push_str(" PRIMARY KEY");
    } else if !field.nullable {
        sql.push_str(" NOT NULL");
    }
    sql.push_str(sql_collation(field));
    if let Some(expression) = &field.generated {
        // A column that is added to a table is not stored: SQLite cannot do that.
        let stored = if is_new_table { "STORED" } else { "VIRTUAL" };
        sql.push_str(&format!(" GENERATED ALWAYS AS ({expression}) {stored}"));
        return sql;
    }
    if let Some(default) = default {
        sql.push_str(" DEFAULT ");
        sql.push_str(&default);
    }
    sql.push_str(&references(table, position));
    sql
}

/// Returns the statement that creates an index.
pub(super) fn create_index(table: &Table, index: &Index) -> String {
    let columns: Vec<String> =
        index_columns(table, index).iter().map(|name| quoted(name)).collect();
    let unique = if index.unique { "UNIQUE " } else { "" };
    let (name, on) = (quoted(&index_name(table, index)), quoted(table.name()));
    let field = |at: usize| quoted(&table.fields()[at].name);
    let filter = index_filter(table, index, &field);
    let filter = filter.map_or_else(String::new, |filter| format!(" WHERE {filter}"));
    format!("CREATE {unique}INDEX {name} ON {on} ({}){filter}", columns.join(","))
}

/// Returns the filter of a partial index as SQL; `field` returns the name of a field's column.
pub(super) fn index_filter(
    table: &Table,
    index: &Index,
    field: &dyn Fn(usize) -> String,
) -> Option<String> {
    let filter = table.index_filter(index)?;
    Some(index_filter_sql(table, &filter, field, &|_, value| sql_literal(value)))
}
