//! The tables of the current schema as another program made them: which kind of field has the
//! values of each column.

use std::collections::BTreeMap;

use marmota_model::{Kind, OnDelete, Result};
use marmota_sql::{existing_filter, on_delete_of};
use marmota_store::existing::{ExistingColumn, ExistingIndex, ExistingReference, ExistingTable};

use super::Preparing;
use super::layout::{Layout, LayoutColumn, LayoutIndex};

/// Returns the structure of all tables and views, by name.
pub(super) fn structure(run: &mut Preparing<'_>) -> Result<Vec<ExistingTable>> {
    let mut found = Vec::new();
    let sql = "SELECT c.relname, c.oid::text, c.relkind IN ('r','p') FROM pg_class c \
               WHERE c.relnamespace=current_schema()::regnamespace \
               AND c.relkind IN ('r','p','v','m','f') AND NOT c.relispartition \
               AND c.relname NOT LIKE 'marmota#_%' ESCAPE '#' ORDER BY c.relname";
    run.query(sql, |row| found.push((row.text(0).to_owned(), row.text(1).to_owned(), row.is(2))))?;
    let mut tables = Vec::with_capacity(found.len());
    for (name, oid, is_table) in found {
        let mut table = ExistingTable { name, is_table, ..ExistingTable::default() };
        if is_table {
            read(run, &oid, &mut table)?;
        }
        tables.push(table);
    }
    Ok(tables)
}

fn read(run: &mut Preparing<'_>, oid: &str, table: &mut ExistingTable) -> Result<()> {
    let layout = Layout::of_oid(run, oid)?;
    let defaults = defaults(run, oid)?;
    table.columns = layout.columns.iter().map(|one| column(one, &layout, &defaults)).collect();
    let keys: Vec<&str> = layout.key_columns().iter().map(|one| &*one.name).collect();
    table.key = keys.iter().map(|&key| key.to_owned()).collect();
    let is_key = |columns: &[String]| columns.iter().map(|c| &**c).eq(keys.iter().copied());
    let is_of_key =
        |index: &&LayoutIndex| index.unique && index.condition.is_none() && is_key(&index.columns);
    for index in layout.indexes.iter().filter(|index| !is_of_key(index)) {
        let is_column = |name: &String| layout.columns.iter().any(|one| one.name == *name);
        let of_column = |name: &str| {
            let column = table.columns.iter().find(|one| one.name == name)?;
            Some((column.name.clone(), column.kind == Ok(Kind::Bool)))
        };
        let filter = index.condition.as_ref().map(|sql| existing_filter(sql, &of_column));
        let is_read = index.columns.iter().all(is_column) && filter != Some(None);
        let index = ExistingIndex {
            name: index.name.clone(),
            unique: index.unique,
            columns: is_read.then(|| index.columns.clone()),
            filter: filter.flatten(),
        };
        table.indexes.push(index);
    }
    table.references = references(run, oid)?;
    let sql = format!(
        "SELECT pg_get_expr(conbin,conrelid) FROM pg_constraint \
         WHERE conrelid={oid} AND contype='c' ORDER BY conname"
    );
    run.query(&sql, |row| table.checks.push(row.text(0).to_owned()))
}

/// Returns the defaults of the columns, as SQL.
fn defaults(run: &mut Preparing<'_>, oid: &str) -> Result<BTreeMap<i16, String>> {
    let mut defaults = BTreeMap::new();
    let sql =
        format!("SELECT adnum, pg_get_expr(adbin,adrelid) FROM pg_attrdef WHERE adrelid={oid}");
    run.query(&sql, |row| {
        if let Ok(number) = row.text(0).parse() {
            defaults.insert(number, row.text(1).to_owned());
        }
    })?;
    Ok(defaults)
}

fn references(run: &mut Preparing<'_>, oid: &str) -> Result<Vec<ExistingReference>> {
    let mut found: Vec<(String, ExistingReference)> = Vec::new();
    let sql = format!(
        "SELECT c.conname, t.relname, t.relnamespace=current_schema()::regnamespace, \
         CASE c.confdeltype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' ELSE '' END, \
         a.attname, b.attname FROM pg_constraint c \
         JOIN pg_class t ON t.oid=c.confrelid \
         CROSS JOIN LATERAL generate_series(1,array_length(c.conkey,1)) n \
         JOIN pg_attribute a ON a.attrelid=c.conrelid AND a.attnum=c.conkey[n] \
         JOIN pg_attribute b ON b.attrelid=c.confrelid AND b.attnum=c.confkey[n] \
         WHERE c.conrelid={oid} AND c.contype='f' ORDER BY c.conname, n"
    );
    run.query(&sql, |row| {
        if found.last().is_none_or(|(name, _)| name != row.text(0)) {
            let on_delete: OnDelete = on_delete_of(row.text(3));
            // The table of another schema has a name that no table of this one can have.
            let table = match row.is(2) {
                true => row.text(1).to_owned(),
                false => format!("{} of another schema", row.text(1)),
            };
            let reference =
                ExistingReference { columns: Vec::new(), table, to: Vec::new(), on_delete };
            found.push((row.text(0).to_owned(), reference));
        }
        if let Some((_, reference)) = found.last_mut() {
            reference.columns.push(row.text(4).to_owned());
            reference.to.push(row.text(5).to_owned());
        }
    })?;
    Ok(found.into_iter().map(|(_, reference)| reference).collect())
}

fn column(
    column: &LayoutColumn,
    layout: &Layout,
    defaults: &BTreeMap<i16, String>,
) -> ExistingColumn {
    let is_only_key = column.is_key() && layout.columns.iter().filter(|c| c.is_key()).count() == 1;
    let kind = match (column.is_always_identity && !is_only_key, is_only_key) {
        (true, _) => {
            Err("PostgreSQL numbers it (GENERATED ALWAYS AS IDENTITY); read it with SQL".to_owned())
        }
        (_, true) => key_kind(column),
        (_, false) => kind(column),
    };
    let mut result = ExistingColumn::new(&column.name, &column.declared, kind);
    result.remark = remark(column).filter(|_| result.kind.is_ok());
    result.nullable = !column.not_null;
    result.is_required = column.is_required;
    result.is_key = column.is_key();
    result.is_generated = column.is_generated;
    // That of a generated column is its expression.
    let default = defaults.get(&column.number).filter(|_| !column.is_generated);
    result.default = default.cloned();
    result
}

fn key_kind(column: &LayoutColumn) -> std::result::Result<Kind, String> {
    match kind(column) {
        Ok(Kind::Int { .. }) => Ok(Kind::I64),
        Ok(Kind::Text { .. }) => Ok(Kind::TEXT),
        Ok(Kind::Uuid) => Ok(Kind::Uuid),
        _ => Err(format!(
            "a key of type {} is not supported: it has to be an integer, a uuid or a text",
            column.declared
        )),
    }
}

fn kind(column: &LayoutColumn) -> std::result::Result<Kind, String> {
    let declared = &*column.declared;
    let (name, modifiers) = declared.split_once('(').unwrap_or((declared, ""));
    let mut numbers = modifiers.trim_end_matches(')').split(',').map(str::parse::<u32>);
    let mut number = || numbers.next().and_then(std::result::Result::ok);
    Ok(match name {
        "smallint" => Kind::Int { min: i16::MIN.into(), max: i16::MAX.into() },
        "integer" => Kind::Int { min: i32::MIN.into(), max: i32::MAX.into() },
        "bigint" => Kind::I64,
        "boolean" => Kind::Bool,
        "double precision" => Kind::Float,
        "numeric" => match (number(), number()) {
            (Some(_), Some(scale)) if scale > 4 => {
                return Err(format!(
                    "{declared} has more than the 4 decimals of a currency: ALTER COLUMN … TYPE \
                     numeric(19,4) or double precision"
                ));
            }
            _ => Kind::Currency,
        },
        "text" | "character varying" if !column.is_deterministic => {
            return Err("its collation treats different texts as equal: ALTER COLUMN … TYPE text \
                        COLLATE \"C\""
                .to_owned());
        }
        "text" => Kind::TEXT,
        "character varying" => match number() {
            Some(chars_max) => {
                Kind::Text { chars_max, collation: marmota_model::Collation::Binary }
            }
            None => Kind::TEXT,
        },
        "bytea" => Kind::Blob,
        "json" | "jsonb" => Kind::Json,
        "date" => Kind::Date,
        "uuid" => Kind::Uuid,
        "time without time zone" => Kind::Time,
        "timestamp with time zone" | "timestamp without time zone" => Kind::Timestamp,
        "character" => {
            return Err(format!(
                "{declared} pads its texts with blanks: ALTER COLUMN … TYPE character varying"
            ));
        }
        "real" => {
            return Err(
                "it rounds floats to 24 bits: ALTER COLUMN … TYPE double precision".to_owned()
            );
        }
        _ => {
            return Err(format!(
                "no kind of field has the values of the type {declared}: ALTER COLUMN … TYPE to \
                 one that has (text, jsonb), or read it with SQL"
            ));
        }
    })
}

/// Returns what a reader has to know about the values of a column.
fn remark(column: &LayoutColumn) -> Option<String> {
    match &*column.declared {
        "numeric" => Some(
            "values with more than 4 decimals or 15 digits before the point cannot be read"
                .to_owned(),
        ),
        "timestamp without time zone" => Some("its times are taken as UTC".to_owned()),
        _ => None,
    }
}
