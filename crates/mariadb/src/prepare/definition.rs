//! The structure that a model needs: the SQL of tables, columns, references and indexes, and their
//! names.

use marmota_model::{Field, Index, KeyKind, Kind, Table, ValueForm};
use marmota_sql::{bounded, on_delete, quoted};

use crate::statement::column::{
    folded_name, folded_sql, is_folded, is_long, literal, name, sql_type,
};

/// The most bytes of an index.
const INDEX_BYTES_MAX: usize = 3_072;

/// Returns the name of an index.
pub(super) fn index_name(table: &Table, index: &Index) -> String {
    bounded(&marmota_sql::index_name(table, index))
}

/// Returns the name of a reference, and of the index that it needs.
pub(super) fn reference_name(table: &Table, field: &Field) -> String {
    bounded(&format!("reference:{}:{}", table.name(), field.name))
}

/// Returns the statement that creates an index. Of long texts, an index has the beginning; a unique
/// one has a hash of the whole.
pub(super) fn create_index(table: &Table, index: &Index) -> String {
    let unit = |at: usize| if is_folded(&table.fields()[at]) { 1 } else { 4 };
    let bytes = |at: usize| -> usize {
        let declared = sql_type(table, at);
        match declared.strip_prefix("varchar(").and_then(|rest| rest.strip_suffix(')')) {
            Some(chars) => chars.parse::<usize>().unwrap_or(0) * 4,
            None if is_long(&declared) => INDEX_BYTES_MAX + 1,
            None => 16,
        }
    };
    let all: usize = index.fields.iter().map(|&at| bytes(at)).sum();
    let most = INDEX_BYTES_MAX / index.fields.len().max(1);
    let columns: Vec<String> = index
        .fields
        .iter()
        .map(|&at| {
            let column = crate::statement::column::compared(&table.fields()[at]);
            match all > INDEX_BYTES_MAX && bytes(at) > most && !index.unique {
                // Shorter than it could be: most texts differ at their beginning.
                true => format!("{column}({})", most.min(800) / unit(at)),
                false => column,
            }
        })
        .collect();
    let unique = if index.unique { "UNIQUE " } else { "" };
    let (name, on) = (quoted(&index_name(table, index)), quoted(table.name()));
    format!("CREATE {unique}INDEX {name} ON {on} ({})", columns.join(","))
}

/// Returns the statement that creates a table without its references.
pub(super) fn create_table(table: &Table, collation: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (at, field) in table.fields().iter().enumerate() {
        parts.push(column(table, at, table.default(at).map(literal), collation));
        parts.extend(is_folded(field).then(|| folded_column(table, at)));
    }
    parts.push(format!("PRIMARY KEY ({})", name(table, table.key())));
    format!(
        "CREATE TABLE {} ({}) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE={collation}",
        quoted(table.name()),
        parts.join(", ")
    )
}

/// Returns a column's definition.
pub(super) fn column(
    table: &Table,
    position: usize,
    default: Option<String>,
    collation: &str,
) -> String {
    let field = &table.fields()[position];
    let mut sql = format!("{} {}", quoted(&field.name), sql_type(table, position));
    if matches!(field.kind.form(), ValueForm::Text | ValueForm::Json) {
        sql.push_str(" CHARACTER SET utf8mb4 COLLATE ");
        sql.push_str(collation);
    }
    let is_key = position == table.key();
    sql.push_str(if is_key || !field.nullable { " NOT NULL" } else { " NULL" });
    if is_key && table.key_kind() == KeyKind::Auto {
        sql.push_str(" AUTO_INCREMENT");
    } else if let Some(default) = default {
        sql.push_str(&format!(" DEFAULT ({default})"));
    }
    sql
}

/// Returns the definition of the column with a text in lower case.
pub(super) fn folded_column(table: &Table, position: usize) -> String {
    let field = &table.fields()[position];
    let declared = sql_type(table, position);
    let chars = declared.strip_prefix("varchar(").and_then(|rest| rest.strip_suffix(')'));
    let of = match chars.and_then(|chars| chars.parse::<u32>().ok()) {
        Some(chars) => format!("varbinary({})", chars * 4),
        None => "longblob".to_owned(),
    };
    format!(
        "{} {of} GENERATED ALWAYS AS ({}) STORED INVISIBLE",
        quoted(&folded_name(&field.name)),
        folded_sql(&name(table, position))
    )
}

/// Returns the statement that adds a reference to the column `key`, or `None` for a field that is not
/// a reference.
pub(super) fn add_reference(table: &Table, position: usize, key: &str) -> Option<String> {
    let field = &table.fields()[position];
    let Kind::Reference { table: to, .. } = &field.kind else { return None };
    Some(format!(
        "ALTER TABLE {} ADD CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {} ({}){}",
        quoted(table.name()),
        quoted(&reference_name(table, field)),
        name(table, position),
        quoted(to),
        key,
        on_delete(field.on_delete)
    ))
}
