//! The tables of a file as another program made them: which kind of field has the values of each
//! column. Columns of SQLite may have values of any type, so all rows are read.

use std::collections::BTreeMap;

use marmota_model::{Collation, Kind, ValueRef};
use marmota_sql::{existing_filter, on_delete_of, quoted};
use marmota_store::existing::{ExistingColumn, ExistingIndex, ExistingReference, ExistingTable};
use marmota_store::rights::OWN_PREFIX;

use super::layout::{Layout, LayoutColumn};
use crate::ffi::{Connection, Failure};
use crate::schema_objects::SchemaObjects;
use crate::sql_words::sql_literal;

/// A date, a time or both, as SQLite's functions write them. No such text looks like a number.
const DATE_OR_TIME: &str = r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})?)?|\d{2}:\d{2}(:\d{2}(\.\d+)?)?";

/// Returns the structure of all tables and views, by name.
pub(crate) fn structure(connection: &mut Connection) -> Result<Vec<ExistingTable>, Failure> {
    let mut names = Vec::new();
    // The tables of a search index are of the type `shadow`.
    let sql = "SELECT name FROM pragma_table_list WHERE schema='main' AND type<>'shadow' \
               AND name NOT LIKE 'sqlite#_%' ESCAPE '#' ORDER BY name";
    connection.query(sql, |row| names.push(text(row.at(0).bytes())))?;
    names.retain(|name| !name.starts_with(OWN_PREFIX) && !name.contains(':'));
    let (mut tables, mut objects) = (Vec::with_capacity(names.len()), SchemaObjects::default());
    for name in names {
        if let Some(layout) = Layout::of(connection, &mut objects, &name)? {
            tables.push(table(connection, name, layout)?);
        }
    }
    Ok(tables)
}

fn table(
    connection: &mut Connection,
    name: String,
    layout: Layout,
) -> Result<ExistingTable, Failure> {
    if !layout.is_table {
        return Ok(ExistingTable { name, ..ExistingTable::default() });
    }
    let mut columns = Vec::with_capacity(layout.columns.len());
    for one in &layout.columns {
        columns.push(column(connection, &name, &layout, one)?);
    }
    let keys: Vec<&str> = layout.key_columns().iter().map(|column| &*column.name).collect();
    let is_key = |index: &&super::layout::LayoutIndex| {
        index.unique && index.condition.is_none() && index.is_over(&keys)
    };
    let indexes = layout.indexes.iter().filter(|index| !is_key(index)).map(|index| {
        let of_column = |name: &str| {
            let column = columns.iter().find(|one| one.name.eq_ignore_ascii_case(name))?;
            Some((column.name.clone(), column.kind == Ok(Kind::Bool)))
        };
        let filter = index.condition.as_ref().map(|sql| existing_filter(sql, &of_column));
        let is_plain = index.columns.iter().all(|column| !column.is_empty());
        let is_read = is_plain && filter != Some(None);
        ExistingIndex {
            name: index.name.clone(),
            unique: index.unique,
            columns: is_read.then(|| index.columns.clone()),
            filter: filter.flatten(),
        }
    });
    let indexes = indexes.collect();
    Ok(ExistingTable {
        indexes,
        references: references(connection, &name)?,
        name,
        is_table: true,
        key: keys.iter().map(|&key| key.to_owned()).collect(),
        columns,
        checks: Vec::new(),
        definition: Some(layout.sql),
    })
}

fn references(connection: &mut Connection, table: &str) -> Result<Vec<ExistingReference>, Failure> {
    let mut found: BTreeMap<i64, ExistingReference> = BTreeMap::new();
    let name = sql_literal(ValueRef::Text(table));
    let sql = format!(
        "SELECT id, \"from\", \"table\", \"to\", on_delete FROM pragma_foreign_key_list({name}) \
         ORDER BY id, seq"
    );
    connection.query(&sql, |row| {
        let reference = found.entry(row.at(0).int()).or_insert_with(|| ExistingReference {
            columns: Vec::new(),
            table: text(row.at(2).bytes()),
            to: Vec::new(),
            on_delete: on_delete_of(&text(row.at(4).bytes())),
        });
        reference.columns.push(text(row.at(1).bytes()));
        if !row.cell(3).is_null() {
            reference.to.push(text(row.at(3).bytes()));
        }
    })?;
    Ok(found.into_values().collect())
}

fn column(
    connection: &mut Connection,
    table: &str,
    layout: &Layout,
    column: &LayoutColumn,
) -> Result<ExistingColumn, Failure> {
    let values = Values::of(connection, table, column)?;
    let collation = connection.collation(table, &column.name)?;
    let is_only_key = column.is_key() && layout.columns.iter().filter(|c| c.is_key()).count() == 1;
    let mut result = ExistingColumn::new(&column.name, &column.declared, Ok(Kind::I64));
    result.kind = match is_only_key {
        true => key_kind(layout, column, &values),
        false => kind(column, &values, &collation),
    };
    result.is_generated = column.generated;
    if let (Ok(Kind::Text { .. }), "NUMERIC") = (&result.kind, column.affinity()) {
        result.pattern = Some(DATE_OR_TIME);
    }
    result.nullable = !column.not_null && !is_only_key;
    result.is_required = column.is_required() && !is_only_key;
    result.is_key = column.is_key();
    result.default.clone_from(&column.default);
    Ok(result)
}

/// The values of a column.
#[derive(Default)]
struct Values {
    /// The number of values by their type.
    types: BTreeMap<String, i64>,
    /// The number of characters or bytes of the longest, and of the shortest one.
    longest: i64,
    shortest: i64,
    /// True if some integer is not 0 or 1.
    has_other_integers: bool,
    /// True if some text is not a date or a time.
    has_other_texts: bool,
}

impl Values {
    fn of(
        connection: &mut Connection,
        table: &str,
        column: &LayoutColumn,
    ) -> Result<Self, Failure> {
        let (name, table) = (quoted(&column.name), quoted(table));
        let mut values = Self::default();
        // As far as SQLite's own patterns state a date or a time.
        let sql = format!(
            "SELECT typeof({name}), count(*), max(length({name})), min(length({name})), \
             sum({name} NOT IN (0,1)), \
             sum({name} NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' \
             AND {name} NOT GLOB '[0-9][0-9]:[0-9][0-9]*') \
             FROM {table} WHERE {name} IS NOT NULL GROUP BY 1"
        );
        connection.query(&sql, |row| {
            let kind = text(row.at(0).bytes());
            values.longest = values.longest.max(row.at(2).int());
            values.shortest = row.at(3).int();
            match &*kind {
                "integer" => values.has_other_integers = row.at(4).int() > 0,
                "text" => values.has_other_texts = row.at(5).int() > 0,
                _ => {}
            }
            values.types.insert(kind, row.at(1).int());
        })?;
        Ok(values)
    }

    /// Returns true if all values have one of these types.
    fn are(&self, types: &[&str]) -> bool {
        self.types.keys().all(|kind| types.contains(&&**kind))
    }

    /// Returns a kind, if all values have one of these types.
    fn having(&self, types: &[&str], declared: &str, kind: Kind) -> Result<Kind, String> {
        match self.types.iter().find(|(found, _)| !types.contains(&&***found)) {
            None => Ok(kind),
            Some((found, count)) => Err(format!(
                "it is declared as {declared}, but {count} values are of type {found}: UPDATE them"
            )),
        }
    }
}

fn key_kind(layout: &Layout, column: &LayoutColumn, values: &Values) -> Result<Kind, String> {
    let declared = &*column.declared;
    match column.affinity() {
        "INTEGER" if declared.eq_ignore_ascii_case("INTEGER") && !layout.without_rowid => {
            Ok(Kind::I64)
        }
        "TEXT" => values.having(&["text"], declared, Kind::TEXT),
        "BLOB" if values.are(&["blob"]) && values.longest == 16 && values.shortest == 16 => {
            Ok(Kind::Uuid)
        }
        _ => Err(format!(
            "a key of type {declared} is not supported: it has to be INTEGER PRIMARY KEY, a text or \
             16 bytes"
        )),
    }
}

fn kind(column: &LayoutColumn, values: &Values, collation: &str) -> Result<Kind, String> {
    let declared = column.declared.to_ascii_uppercase();
    let shown = if declared.is_empty() { "no type" } else { &*declared };
    let is_named = |parts: &[&str]| parts.iter().any(|part| declared.contains(part));
    match column.affinity() {
        "INTEGER" if is_named(&["BOOL"]) && !values.has_other_integers => {
            values.having(&["integer"], shown, Kind::Bool)
        }
        "INTEGER" => values.having(&["integer"], shown, Kind::I64),
        "REAL" => values.having(&["real", "integer"], shown, Kind::Float),
        "TEXT" => {
            let collation = match &*collation.to_ascii_uppercase() {
                "BINARY" => Collation::Binary,
                "NOCASE" => Collation::NoCase,
                other => {
                    return Err(format!(
                        "it compares texts as {other}: Marmota has BINARY and NOCASE"
                    ));
                }
            };
            // SQLite does not enforce the number.
            let length = declared.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
            let length = length.and_then(|(length, _)| length.trim().parse::<u32>().ok());
            let fits = |length: &u32| values.longest <= i64::from(*length);
            let chars_max = length.filter(fits).unwrap_or(0);
            values.having(&["text"], shown, Kind::Text { chars_max, collation })
        }
        "BLOB" => values.having(&["blob"], shown, Kind::Blob),
        _ if is_named(&["BOOL"]) && !values.has_other_integers => {
            values.having(&["integer"], shown, Kind::Bool)
        }
        _ if is_named(&["DATE", "TIME"]) && values.are(&["text"]) => {
            match values.has_other_texts || !collation.eq_ignore_ascii_case("BINARY") {
                false => Ok(Kind::TEXT),
                true => Err(format!(
                    "it is declared as {shown}, but some texts are not `YYYY-MM-DD` or `hh:mm`, and \
                     SQLite would store those that look like numbers as numbers: UPDATE them"
                )),
            }
        }
        _ if is_named(&["DATE", "TIME"]) => values.having(&["integer"], shown, Kind::I64),
        _ => values.having(&["integer", "real"], shown, Kind::Float),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
