//! The structure that a model needs: the SQL of tables, columns, references and indexes, and their
//! names.

use marmota_model::{Field, Index, KeyKind, Kind, Table, ValueForm};
use marmota_sql::{bounded, on_delete, quoted};

use super::layout::chars;
use crate::dialect::Dialect;
use crate::executor::insert_sql::sequence_name;
use crate::statement::column::{
    compared, folded_name, folded_sql, is_folded, literal, name, sql_type,
};

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
pub(super) fn create_index(dialect: &Dialect, table: &Table, index: &Index) -> String {
    let columns = |prefix: &dyn Fn(usize) -> String| -> Vec<String> {
        let fields = index.fields.iter();
        let column = |at: usize| compared(dialect, &table.fields()[at]);
        fields.map(|&at| format!("{}{}", column(at), prefix(at))).collect()
    };
    let columns = match dialect.definitions.index_bytes_max {
        None => columns(&|_| String::new()),
        Some(index_bytes) => {
            let unit = |at: usize| if is_folded(&table.fields()[at]) { 1 } else { 4 };
            let bytes = |at: usize| -> usize {
                let declared = sql_type(dialect, table, at);
                match chars(dialect, &declared) {
                    Some(u32::MAX) => index_bytes + 1,
                    Some(chars) => chars as usize * 4,
                    None if declared == dialect.types.blob => index_bytes + 1,
                    None => 16,
                }
            };
            let all: usize = index.fields.iter().map(|&at| bytes(at)).sum();
            let most = index_bytes / index.fields.len().max(1);
            columns(&|at| match all > index_bytes && bytes(at) > most && !index.unique {
                // Shorter than it could be: most texts differ at their beginning.
                true => format!("({})", most.min(800) / unit(at)),
                false => String::new(),
            })
        }
    };
    let unique = if index.unique { "UNIQUE " } else { "" };
    let (name, on) = (quoted(&index_name(table, index)), quoted(table.name()));
    let mut sql = format!("CREATE {unique}INDEX {name} ON {on} ({})", columns.join(","));
    if index.unique && dialect.definitions.nulls_are_equal {
        let nullable = index.fields.iter().filter(|&&at| table.fields()[at].nullable);
        let set: Vec<String> =
            nullable.map(|&at| format!("{} IS NOT NULL", self::name(table, at))).collect();
        if !set.is_empty() {
            sql.push_str(&format!(" WHERE {}", set.join(" AND ")));
        }
    }
    sql
}

/// Returns the statements that create a table, without its references.
pub(super) fn create_table(dialect: &Dialect, table: &Table) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for (at, field) in table.fields().iter().enumerate() {
        let default = table.default(at).map(|value| literal(dialect, value));
        parts.push(column(dialect, table, at, default));
        parts.extend(has_fold_column(dialect, field).then(|| folded_column(dialect, table, at)));
    }
    parts.push(format!("PRIMARY KEY ({})", name(table, table.key())));
    let mut statements = Vec::new();
    if let Some(sequence) = dialect.definitions.sequence
        && table.key_kind() == KeyKind::Auto
    {
        statements.push(sequence.replace("{sequence}", &sequence_name(table)));
    }
    let (of, end) = (quoted(table.name()), dialect.definitions.table_end);
    statements.push(format!("CREATE TABLE {of} ({}){end}", parts.join(", ")));
    statements
}

/// Returns a column's definition.
pub(super) fn column(
    dialect: &Dialect,
    table: &Table,
    position: usize,
    default: Option<String>,
) -> String {
    let field = &table.fields()[position];
    let mut sql = format!("{} {}", quoted(&field.name), sql_type(dialect, table, position));
    if matches!(field.kind.form(), ValueForm::Text | ValueForm::Json) {
        sql.push_str(dialect.texts.collation);
    }
    if let (Some(expression), Some(generated)) = (&field.generated, dialect.definitions.generated) {
        return sql + &generated.replace("{}", expression);
    }
    let is_key = position == table.key();
    let null = match is_key || !field.nullable {
        true => " NOT NULL",
        false if dialect.texts.fold_column.is_some() => " NULL",
        false => "",
    };
    let default = if is_key && table.key_kind() == KeyKind::Auto {
        dialect.definitions.automatic_key.replace("{sequence}", &sequence_name(table))
    } else {
        default.map_or_else(String::new, |default| format!(" DEFAULT ({default})"))
    };
    match dialect.definitions.default_first {
        true => sql + &default + null,
        false => sql + null + &default,
    }
}

/// Returns true if the database stores a field's texts in lower case, too.
pub(super) fn has_fold_column(dialect: &Dialect, field: &Field) -> bool {
    dialect.texts.fold_column.is_some() && is_folded(field)
}

/// Returns the definition of the column with a text in lower case.
pub(super) fn folded_column(dialect: &Dialect, table: &Table, position: usize) -> String {
    let field = &table.fields()[position];
    let declared = sql_type(dialect, table, position);
    let of = match chars(dialect, &declared) {
        Some(chars) if chars != u32::MAX => format!("varbinary({})", chars * 4),
        _ => dialect.types.blob.to_owned(),
    };
    let definition = dialect.texts.fold_column.unwrap_or_default().replace("{type}", &of);
    let definition = definition.replace("{}", &folded_sql(dialect, &name(table, position)));
    format!("{} {definition}", quoted(&folded_name(&field.name)))
}

/// Returns the definition of a reference to the column `key`, or `None` for a field that is not a
/// reference.
pub(super) fn reference(table: &Table, position: usize, key: &str) -> Option<String> {
    let field = &table.fields()[position];
    let Kind::Reference { table: to, .. } = &field.kind else { return None };
    Some(format!(
        "CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {} ({}){}",
        quoted(&reference_name(table, field)),
        name(table, position),
        quoted(to),
        key,
        on_delete(table.action_of_database(position))
    ))
}
