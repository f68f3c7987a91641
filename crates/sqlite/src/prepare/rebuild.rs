//! Replaces a table to change a column, for which SQLite has no statement. The rows are copied, the
//! old table is dropped, the new one is renamed; indexes and triggers are created again.
//!
//! References are not checked meanwhile (`prepare.rs` disables that before the transaction); all of
//! them are checked at its end.

use marmota_model::{Kind, Table, ValueRef};
use marmota_sql::{on_delete, quoted};

use super::definition;
use super::layout::{Layout, LayoutColumn};
use crate::ffi::{Connection, Failure};
use crate::sql_words::{sql_literal, sql_type};

/// The name of the new table until the old one is dropped.
const NEW: &str = "\"marmota:rebuild\"";

/// The conversion of a column's values to another type.
pub(super) struct Conversion {
    /// The value as SQL.
    pub(super) value: String,
    /// An SQL condition that is true for a value that would be lost.
    pub(super) misfit: Option<String>,
}

/// Returns true for statements that replace a table.
pub(super) fn is_one(statements: &[String]) -> bool {
    statements.first().is_some_and(|first| first.contains(NEW))
}

/// Returns the reason why a table cannot be recreated from its known structure, or `None` if it
/// can.
pub(super) fn blocking_reason(layout: &Layout) -> Option<&'static str> {
    if !layout.strict {
        return Some("the table was not created by Marmota");
    }
    let sql = layout.sql.to_ascii_uppercase();
    let parts = ["CHECK", "AUTOINCREMENT", "GENERATED", " AS (", "UNIQUE", "DEFERR", "SET DEFAULT"];
    let has = parts.iter().any(|part| sql.contains(part));
    has.then_some("the table has constraints that a model cannot have")
}

/// Returns the conversion of a column to a field, if its values can be converted.
pub(super) fn conversion(column: &LayoutColumn, kind: &Kind) -> Option<Conversion> {
    let name = quoted(&column.name);
    let whole = |value: String, misfit: Option<String>| Some(Conversion { value, misfit });
    match (column.affinity(), kind) {
        (from, kind) if from == sql_type(kind) => whole(name, None),
        ("INTEGER" | "REAL", Kind::Text { .. }) => whole(format!("CAST({name} AS TEXT)"), None),
        ("INTEGER", Kind::Float) => whole(format!("CAST({name} AS REAL)"), None),
        ("REAL", Kind::Int { .. }) => {
            let value = format!("CAST({name} AS INTEGER)");
            let misfit = format!("{value}<>{name}");
            whole(value, Some(misfit))
        }
        ("TEXT", Kind::Int { .. }) => {
            let value = format!("CAST({name} AS INTEGER)");
            let misfit = format!("CAST({value} AS TEXT)<>{name}");
            whole(value, Some(misfit))
        }
        ("TEXT", Kind::Float) => {
            let misfit = format!("{name} NOT GLOB '*[0-9]*' OR {name} GLOB '*[^0-9.eE+-]*'");
            whole(format!("CAST({name} AS REAL)"), Some(misfit))
        }
        _ => None,
    }
}

/// Returns the statements that give a table the fields of `changes` in place of their columns and
/// keep all other columns, with those that were `added` before.
pub(super) fn statements(
    connection: &mut Connection,
    (table, there): (&Table, &str),
    layout: &Layout,
    changes: &[(usize, Conversion)],
    added: &[usize],
) -> Result<Vec<String>, Failure> {
    let name = quoted(table.name());
    let (mut definitions, mut names, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for column in &layout.columns {
        let known = layout.named(table, column);
        // At the time of the copy, columns have their new names.
        let called = known.map_or(&*column.name, |at| &table.fields()[at].name);
        names.push(quoted(called));
        match changes.iter().find(|(position, _)| known == Some(*position)) {
            Some((position, conversion)) => {
                definitions.push(redefined(table, *position, column));
                let value = converted(table, *position, column, conversion);
                values.push(value.replace(&quoted(&column.name), &quoted(called)));
            }
            None => {
                definitions.push(as_it_is(connection, there, called, column, layout)?);
                values.push(quoted(called));
            }
        }
    }
    for &position in added {
        let default = table.default(position).map(sql_literal);
        definitions.push(definition::column(table, position, default));
        names.push(quoted(&table.fields()[position].name));
        values.push(quoted(&table.fields()[position].name));
    }
    let keys = layout.key_columns();
    if keys.len() > 1 {
        let called = |column: &&LayoutColumn| {
            let known = layout.named(table, column);
            quoted(known.map_or(&*column.name, |at| &table.fields()[at].name))
        };
        let keys: Vec<String> = keys.iter().map(called).collect();
        definitions.push(format!("PRIMARY KEY ({})", keys.join(",")));
    }
    let references = definition::made_references(table);
    definitions.extend(references.map(|position| definition::foreign_key(table, position)));
    let rowid = if layout.without_rowid { ", WITHOUT ROWID" } else { "" };
    Ok(vec![
        format!("CREATE TABLE {NEW} ({}) STRICT{rowid}", definitions.join(", ")),
        format!(
            "INSERT INTO {NEW} ({}) SELECT {} FROM {name}",
            names.join(", "),
            values.join(", ")
        ),
        format!("DROP TABLE {name}"),
        format!("ALTER TABLE {NEW} RENAME TO {name}"),
    ])
}

/// Returns the statements of a table's indexes and triggers that Marmota did not create; its own
/// are created by separate steps.
pub(super) fn attached(connection: &mut Connection, there: &str) -> Result<Vec<String>, Failure> {
    let sql = format!(
        "SELECT name, sql FROM sqlite_schema WHERE tbl_name={} COLLATE NOCASE \
         AND type IN ('index', 'trigger') AND sql IS NOT NULL ORDER BY rowid",
        sql_literal(ValueRef::Text(there))
    );
    let mut again = Vec::new();
    connection.query(&sql, |row| {
        let text = |at| String::from_utf8_lossy(row.at(at).bytes()).into_owned();
        if !marmota_sql::is_ours(&text(0), there) {
            again.push(text(1));
        }
    })?;
    Ok(again)
}

/// Returns the field's definition, with NULL allowed as it is now: changing that is a separate
/// step.
fn redefined(table: &Table, position: usize, column: &LayoutColumn) -> String {
    let default = table.default(position).map(sql_literal);
    let sql = definition::column(table, position, default);
    match (column.not_null, table.fields()[position].nullable) {
        (false, false) => sql.replacen(" NOT NULL", "", 1),
        _ => sql,
    }
}

fn converted(
    table: &Table,
    position: usize,
    column: &LayoutColumn,
    conversion: &Conversion,
) -> String {
    let Conversion { value, misfit } = conversion;
    let Some(misfit) = misfit else { return value.clone() };
    let instead = match table.default(position) {
        Some(default) if !table.fields()[position].nullable => sql_literal(default),
        _ => "NULL".to_owned(),
    };
    let name = quoted(&column.name);
    format!("CASE WHEN {name} IS NULL THEN NULL WHEN {misfit} THEN {instead} ELSE {value} END")
}

fn as_it_is(
    connection: &mut Connection,
    there: &str,
    called: &str,
    column: &LayoutColumn,
    layout: &Layout,
) -> Result<String, Failure> {
    let mut sql = format!("{} {}", quoted(called), column.declared);
    if column.is_key() && layout.key_columns().len() == 1 {
        sql.push_str(if layout.without_rowid { " NOT NULL PRIMARY KEY" } else { " PRIMARY KEY" });
    } else if column.not_null {
        sql.push_str(" NOT NULL");
    }
    let collation = connection.collation(there, &column.name)?;
    if !collation.eq_ignore_ascii_case("BINARY") {
        sql.push_str(&format!(" COLLATE {}", quoted(&collation)));
    }
    if let Some(default) = &column.default {
        sql.push_str(&format!(" DEFAULT ({default})"));
    }
    if let Some((to, action)) = layout.reference(&column.name) {
        sql.push_str(&format!(" REFERENCES {}{}", quoted(to), on_delete(action)));
    }
    Ok(sql)
}
