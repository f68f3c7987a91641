//! Making the tables of models: what is missing is added, what would lose
//! data is refused with the way out, and all of it takes place or nothing.
//!
//! `layout.rs` says what a file has, this file what a model needs.

mod layout;

use std::sync::Arc;

use marmota_model::{
    Collation, Error, ErrorKind, Field, Index, KeyKind, Kind, Result, Role, Table, Timestamp,
    ValueRef,
};

use crate::column::{Column, sql_collation, sql_literal, sql_type};
use crate::fault;
use crate::ffi::{Connection, Failure, code};
use crate::lane::Lane;
use crate::prepare::layout::{Layout, LayoutColumn};
use crate::shape::quoted;

/// Makes what the tables miss, in one transaction. `place` names the database
/// in errors.
pub(crate) fn prepare(
    lane: &mut Lane,
    tables: &[Arc<Table>],
    version: u32,
    place: &str,
) -> Result<()> {
    lane.begin()?;
    let prepared = prepare_all(&mut lane.connection, tables, version, place);
    match prepared {
        Ok(()) => lane.commit(),
        Err(_) => {
            lane.roll_back();
            prepared
        }
    }
}

fn prepare_all(
    connection: &mut Connection,
    tables: &[Arc<Table>],
    version: u32,
    place: &str,
) -> Result<()> {
    check_version(connection, version, place)?;
    for table in tables {
        match Layout::of(connection, table.name()).map_err(engine(table))? {
            None => create(connection, table)?,
            Some(layout) => alter(connection, table, &layout)?,
        }
        let Some(layout) = Layout::of(connection, table.name()).map_err(engine(table))? else {
            return Err(Error::new(ErrorKind::Bug, "a table that was made is not there"));
        };
        make_indexes(connection, table, &layout)?;
    }
    Ok(())
}

/// The error for a failure of SQLite's own while a table is prepared.
fn engine(table: &Table) -> impl Fn(Failure) -> Error {
    move |failure| {
        let error = fault::of(&failure);
        Error::new(error.kind(), format!("table `{}`: {}", table.name(), error.message()))
            .with_source(error)
    }
}

fn refuse(table: &Table, field: Option<&Field>, why: &str) -> Error {
    let place = match field {
        Some(field) => format!("field `{}` of `{}`", field.name, table.name()),
        None => format!("table `{}`", table.name()),
    };
    Error::new(ErrorKind::Invalid, format!("{place}: {why}"))
}

fn check_version(connection: &mut Connection, version: u32, place: &str) -> Result<()> {
    let failed = |failure: Failure| fault::of(&failure);
    let Ok(program) = i32::try_from(version) else {
        let message = format!("the schema version {version} is above {}", i32::MAX);
        return Err(Error::new(ErrorKind::Invalid, message));
    };
    let mut file = 0;
    connection.query("PRAGMA user_version", |row| file = row.at(0).int()).map_err(failed)?;
    if file > i64::from(program) {
        let message = format!(
            "{place} was made by a newer schema (file {file}, program {program}): start the newer \
             program or restore a backup"
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    if file < i64::from(program) {
        connection.execute(&format!("PRAGMA user_version={program}")).map_err(failed)?;
    }
    Ok(())
}

fn create(connection: &mut Connection, table: &Table) -> Result<()> {
    let columns: Vec<String> = (0..table.fields().len())
        .map(|position| column_sql(table, position, table.default(position).map(sql_literal)))
        .collect();
    // A key that is no integer would need an index beside the rows. Kept in its
    // order instead, rows of 40 bytes took 0.73 of the time to insert and 0.54
    // to read by key; rows of 220 bytes 1.02 and 0.71. That tables are STRICT
    // could not be measured.
    let rowid = match table.key_kind() {
        KeyKind::Auto => "",
        KeyKind::Uuid | KeyKind::Text => ", WITHOUT ROWID",
    };
    let name = quoted(table.name());
    let sql = format!("CREATE TABLE {name} ({}) STRICT{rowid}", columns.join(", "));
    connection.execute(&sql).map_err(engine(table))
}

/// A column's definition.
fn column_sql(table: &Table, position: usize, default: Option<String>) -> String {
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
    if let Some(default) = default {
        sql.push_str(" DEFAULT ");
        sql.push_str(&default);
    }
    // To the other's key. Checked at the end of each statement, so that rows
    // that refer to each other can be deleted together.
    if let Kind::Reference { table: to, .. } = &field.kind {
        sql.push_str(" REFERENCES ");
        sql.push_str(&quoted(to));
    }
    sql
}

fn alter(connection: &mut Connection, table: &Table, layout: &Layout) -> Result<()> {
    if !layout.is_table {
        return Err(refuse(
            table,
            None,
            "the database has a view or virtual table of this name; rename one",
        ));
    }
    check_key(table, layout)?;
    check_others(table, layout)?;
    for position in 0..table.fields().len() {
        let field = &table.fields()[position];
        match layout.column(&field.name) {
            None => add_column(connection, table, position)?,
            Some(column) => check_column(connection, table, field, layout, column)?,
        }
    }
    Ok(())
}

fn check_key(table: &Table, layout: &Layout) -> Result<()> {
    let field = &table.fields()[table.key()];
    let keys: Vec<&LayoutColumn> = layout.columns.iter().filter(|c| c.is_key).collect();
    let fits = match keys.as_slice() {
        [key] => {
            let rowid = key.declared.eq_ignore_ascii_case("INTEGER") && !layout.without_rowid;
            key.name.eq_ignore_ascii_case(&field.name)
                && key.affinity() == sql_type(&field.kind)
                && (table.key_kind() != KeyKind::Auto || rowid)
        }
        _ => false,
    };
    if fits {
        return Ok(());
    }
    let has: Vec<String> =
        keys.iter().map(|key| format!("{} {}", key.name, key.declared)).collect();
    let has =
        if has.is_empty() { "no key".to_owned() } else { format!("the key {}", has.join(", ")) };
    let wants = format!("{} {}", field.name, sql_type(&field.kind));
    let why = format!(
        "it has {has} in the database, and {wants} in the model: keys cannot be changed in \
         place; give the model another table name and copy the rows, or change the model back"
    );
    Err(refuse(table, None, &why))
}

/// Columns that the model does not have are left alone, if rows can be
/// inserted without them.
fn check_others(table: &Table, layout: &Layout) -> Result<()> {
    for column in &layout.columns {
        let known =
            table.fields().iter().any(|field| field.name.eq_ignore_ascii_case(&column.name));
        if !known && column.is_required() {
            let why = format!(
                "the column `{}` in the database is NOT NULL without a default, and the model has \
                 no such field, so that no row could be inserted; add the field, or drop the \
                 column (ALTER TABLE {} DROP COLUMN {})",
                column.name,
                table.name(),
                column.name
            );
            return Err(refuse(table, None, &why));
        }
    }
    Ok(())
}

fn check_column(
    connection: &mut Connection,
    table: &Table,
    field: &Field,
    layout: &Layout,
    column: &LayoutColumn,
) -> Result<()> {
    let wanted = sql_type(&field.kind);
    if column.affinity() != wanted {
        let why = format!(
            "the column is {} in the database, and a {} field is {wanted}; give the field another \
             name (it is added, and values can be copied), or change its type back",
            if column.declared.is_empty() { "of no type" } else { &column.declared },
            field.kind.name()
        );
        return Err(refuse(table, Some(field), &why));
    }
    let collation = connection.collation(table.name(), &column.name).map_err(engine(table))?;
    let wanted = match field.kind.collation() {
        Collation::Binary => "BINARY",
        Collation::NoCase => "NOCASE",
    };
    if !collation.eq_ignore_ascii_case(wanted) && column.affinity() == "TEXT" {
        let why = format!(
            "the column compares texts as {collation} in the database, and as {wanted} in the \
             model; give the field another name and copy the values, or change its collation back"
        );
        return Err(refuse(table, Some(field), &why));
    }
    if let Kind::Reference { table: to, .. } = &field.kind
        && !layout.refers(&column.name, to)
    {
        let why = format!(
            "the column does not refer to `{to}` in the database, and SQLite cannot change that; \
             give the field another name (it is added, and values can be copied)"
        );
        return Err(refuse(table, Some(field), &why));
    }
    if column.is_key || column.not_null != field.nullable {
        return Ok(());
    }
    change_null(connection, table, field)
}

/// Makes a column take NULL, or no longer.
fn change_null(connection: &mut Connection, table: &Table, field: &Field) -> Result<()> {
    let (name, column) = (quoted(table.name()), quoted(&field.name));
    if field.nullable {
        let sql = format!("ALTER TABLE {name} ALTER COLUMN {column} DROP NOT NULL");
        return connection.execute(&sql).map_err(engine(table));
    }
    let mut nulls = 0;
    let sql = format!("SELECT count(*) FROM {name} WHERE {column} IS NULL");
    connection.query(&sql, |row| nulls = row.at(0).int()).map_err(engine(table))?;
    if nulls > 0 {
        let why = format!(
            "it must have a value in the model, and {nulls} rows in the database have none; give \
             them one (UPDATE {} SET {}=… WHERE {} IS NULL), or make the field optional",
            table.name(),
            field.name,
            field.name
        );
        return Err(refuse(table, Some(field), &why));
    }
    let sql = format!("ALTER TABLE {name} ALTER COLUMN {column} SET NOT NULL");
    connection.execute(&sql).map_err(engine(table))
}

fn add_column(connection: &mut Connection, table: &Table, position: usize) -> Result<()> {
    let field = &table.fields()[position];
    let mut default = table.default(position).map(sql_literal);
    if !field.nullable && !is_empty(connection, table)? {
        default = match (field.role, default) {
            // What the rows had if the field had been there.
            (Role::Version, None) => Some("1".to_owned()),
            (Role::CreatedAt | Role::UpdatedAt, None) => {
                Some(Timestamp::now().micros().to_string())
            }
            (_, None) => {
                let why = "it is new and must have a value, but the table has rows: give it a \
                           default for those, or make it optional";
                return Err(refuse(table, Some(field), why));
            }
            (_, default) => default,
        };
        if matches!(field.kind, Kind::Reference { .. }) {
            let why = "it is new and must refer to a row, but the table has rows: make it \
                       optional, give it values, and make it required then";
            return Err(refuse(table, Some(field), why));
        }
    }
    let name = quoted(table.name());
    let sql = format!("ALTER TABLE {name} ADD COLUMN {}", column_sql(table, position, default));
    connection.execute(&sql).map_err(engine(table))
}

fn is_empty(connection: &mut Connection, table: &Table) -> Result<bool> {
    let mut empty = true;
    let sql = format!("SELECT 1 FROM {} LIMIT 1", quoted(table.name()));
    connection.query(&sql, |_| empty = false).map_err(engine(table))?;
    Ok(empty)
}

/// What an index is called. The colons keep it from being any other's name.
fn index_name(table: &Table, index: &Index) -> String {
    let names: Vec<&str> = index.fields.iter().map(|&field| &*table.fields()[field].name).collect();
    let kind = if index.unique { "unique" } else { "index" };
    format!("{kind}:{}:{}", table.name(), names.join(","))
}

fn make_indexes(connection: &mut Connection, table: &Table, layout: &Layout) -> Result<()> {
    let wanted = table.indexes();
    let names: Vec<String> = wanted.iter().map(|index| index_name(table, index)).collect();
    // Ours that the model no longer has: a unique one would go on refusing.
    for index in &layout.indexes {
        let ours = ["unique", "index"]
            .iter()
            .any(|kind| index.name.starts_with(&format!("{kind}:{}:", table.name())));
        if ours && !names.contains(&index.name) {
            let sql = format!("DROP INDEX {}", quoted(&index.name));
            connection.execute(&sql).map_err(engine(table))?;
        }
    }
    for (index, name) in wanted.iter().zip(names) {
        let columns: Vec<&str> =
            index.fields.iter().map(|&field| &*table.fields()[field].name).collect();
        let serves = layout.indexes.iter().any(|there| {
            there.name == name || (there.unique == index.unique && there.is_over(&columns))
        });
        if !serves {
            make_index(connection, table, index, &name)?;
        }
    }
    Ok(())
}

fn make_index(connection: &mut Connection, table: &Table, index: &Index, name: &str) -> Result<()> {
    let columns: Vec<String> =
        index.fields.iter().map(|&field| quoted(&table.fields()[field].name)).collect();
    let columns = columns.join(",");
    let unique = if index.unique { "UNIQUE " } else { "" };
    let (name, on) = (quoted(name), quoted(table.name()));
    let made = connection.execute(&format!("CREATE {unique}INDEX {name} ON {on} ({columns})"));
    match made {
        Err(failure) if failure.code() == code::CONSTRAINT_UNIQUE => {
            let value = duplicate(connection, table, &columns, index).map_err(engine(table))?;
            let why = format!(
                "{columns} is to be unique, and more than one row has {value}; change or delete \
                 all of them but one",
            );
            Err(refuse(table, None, &why))
        }
        made => made.map_err(engine(table)),
    }
}

/// A value that several rows have.
fn duplicate(
    connection: &mut Connection,
    table: &Table,
    columns: &str,
    index: &Index,
) -> Result<String, Failure> {
    let there: Vec<String> = index
        .fields
        .iter()
        .map(|&field| format!("{} IS NOT NULL", quoted(&table.fields()[field].name)))
        .collect();
    let sql = format!(
        "SELECT {columns} FROM {} WHERE {} GROUP BY {columns} HAVING count(*)>1 LIMIT 1",
        quoted(table.name()),
        there.join(" AND ")
    );
    let mut values = Vec::new();
    connection.query(&sql, |row| {
        for (at, &field) in index.fields.iter().enumerate() {
            let mut value = ValueRef::Absent;
            values.push(match Column::new(table, field).read(row, at, &mut value) {
                true => marmota_model::text::excerpt_of(value),
                false => "a value of another type".to_owned(),
            });
        }
    })?;
    Ok(values.join(", "))
}
