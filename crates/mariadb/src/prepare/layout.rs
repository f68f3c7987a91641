//! The structure of the database: a table's columns, references and indexes, as reported by
//! `information_schema`.

use marmota_model::{Field, OnDelete, Result};
use marmota_sql::on_delete_of;

use super::Preparing;
use crate::connection::{number, text};
use crate::statement::column::text_literal;

/// The structure of an existing table.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) is_table: bool,
    pub(super) columns: Vec<LayoutColumn>,
    pub(super) references: Vec<LayoutReference>,
    pub(super) indexes: Vec<LayoutIndex>,
}

/// An existing column.
#[derive(Debug)]
pub(super) struct LayoutColumn {
    pub(super) name: String,
    /// Its type, as SQL.
    pub(super) declared: String,
    pub(super) not_null: bool,
    /// True if an insert must set it.
    pub(super) is_required: bool,
    pub(super) is_key: bool,
    /// The collation of its texts.
    pub(super) collation: String,
    /// True if the server computes its values.
    pub(super) is_generated: bool,
}

/// An existing reference.
#[derive(Debug)]
pub(super) struct LayoutReference {
    pub(super) name: String,
    pub(super) column: String,
    pub(super) to: String,
    pub(super) on_delete: OnDelete,
}

/// An existing index.
#[derive(Debug)]
pub(super) struct LayoutIndex {
    pub(super) name: String,
    pub(super) unique: bool,
    pub(super) columns: Vec<String>,
}

impl Layout {
    /// Returns the layout of the table `name`, or `None` if the table does not exist.
    pub(super) fn of(run: &mut Preparing<'_>, name: &str) -> Result<Option<Self>> {
        let of = format!("table_schema=database() AND table_name={}", text_literal(name));
        let mut layout: Option<Self> = None;
        let sql =
            format!("SELECT table_type='BASE TABLE' FROM information_schema.tables WHERE {of}");
        run.query(&sql, |row| {
            layout = Some(Self { is_table: number(&row[0]) != 0, ..Self::default() });
        })?;
        let Some(mut layout) = layout else { return Ok(None) };
        let sql = format!(
            "SELECT column_name,column_type,is_nullable='NO',\
             is_nullable='NO' AND column_default IS NULL AND extra='',column_key='PRI',\
             coalesce(collation_name,''),coalesce(generation_expression,'')<>'' \
             FROM information_schema.columns WHERE {of} ORDER BY ordinal_position"
        );
        run.query(&sql, |row| {
            layout.columns.push(LayoutColumn {
                name: text(&row[0]),
                declared: text(&row[1]),
                not_null: number(&row[2]) != 0,
                is_required: number(&row[3]) != 0,
                is_key: number(&row[4]) != 0,
                collation: text(&row[5]),
                is_generated: number(&row[6]) != 0,
            });
        })?;
        let name = text_literal(name);
        let sql = format!(
            "SELECT k.constraint_name,k.column_name,k.referenced_table_name,r.delete_rule \
             FROM information_schema.key_column_usage k \
             JOIN information_schema.referential_constraints r \
             ON r.constraint_schema=k.constraint_schema AND r.constraint_name=k.constraint_name \
             AND r.table_name=k.table_name \
             WHERE k.table_schema=database() AND k.table_name={name} \
             AND k.referenced_table_name IS NOT NULL"
        );
        run.query(&sql, |row| {
            layout.references.push(LayoutReference {
                name: text(&row[0]),
                column: text(&row[1]),
                to: text(&row[2]),
                on_delete: on_delete_of(&text(&row[3])),
            });
        })?;
        let sql = format!(
            "SELECT index_name,non_unique,coalesce(column_name,'') FROM information_schema.statistics \
             WHERE {of} AND index_name<>'PRIMARY' ORDER BY index_name,seq_in_index"
        );
        run.query(&sql, |row| {
            let name = text(&row[0]);
            if layout.indexes.last().is_none_or(|last| last.name != name) {
                let (unique, columns) = (number(&row[1]) == 0, Vec::new());
                layout.indexes.push(LayoutIndex { name, unique, columns });
            }
            if let Some(last) = layout.indexes.last_mut() {
                last.columns.push(text(&row[2]));
            }
        })?;
        Ok(Some(layout))
    }

    /// Returns the column `name`.
    pub(super) fn named(&self, name: &str) -> Option<&LayoutColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Returns the column of a field's values, by its current or former name.
    pub(super) fn column_of(&self, field: &Field) -> Option<&LayoutColumn> {
        self.named(&field.name).or_else(|| self.named(field.was.as_deref()?))
    }

    /// Returns the reference of a column to a table.
    pub(super) fn reference(&self, column: &str, table: &str) -> Option<&LayoutReference> {
        self.references.iter().find(|one| one.column == column && one.to == table)
    }
}

/// Returns the number of bytes of the integers of a column type, if it has integers.
pub(super) fn integer_bytes(declared: &str) -> Option<u8> {
    let (name, rest) = declared.split_once('(').unwrap_or((declared, ""));
    match name {
        // This is a boolean.
        "tinyint" if rest.starts_with("1)") => None,
        _ if rest.ends_with("unsigned") || declared.ends_with("unsigned") => None,
        "tinyint" => Some(1),
        "smallint" => Some(2),
        "mediumint" => Some(3),
        "int" => Some(4),
        "bigint" => Some(8),
        _ => None,
    }
}

/// Returns the most characters of a column type with texts; `None` for other types.
pub(super) fn chars(declared: &str) -> Option<u32> {
    match declared {
        "longtext" => Some(u32::MAX),
        "mediumtext" => Some((1 << 24) / 4),
        "text" => Some((1 << 16) / 4),
        "tinytext" => Some(63),
        declared => declared.strip_prefix("varchar(")?.strip_suffix(')')?.parse().ok(),
    }
}

/// Returns true if the values of a column type are those of another one, though perhaps with a
/// smaller range.
pub(super) fn is_a(declared: &str, wanted: &str) -> bool {
    let decimals = |declared: &str| -> Option<u32> {
        declared.strip_prefix("decimal(")?.strip_suffix(')')?.split(',').nth(1)?.parse().ok()
    };
    declared == wanted
        || integer_bytes(declared).is_some() && integer_bytes(wanted).is_some()
        || chars(declared).is_some() && chars(wanted).is_some()
        // With fewer decimals, the server would round written values.
        || decimals(wanted).is_some() && decimals(declared) >= decimals(wanted)
        || wanted == "longblob" && declared.ends_with("blob")
        || wanted == "double" && declared == "float"
}
