//! The structure of the database: a table's columns, references and indexes, as reported by
//! its catalog.

use marmota_model::{Field, OnDelete, Result, Table};
use marmota_sql::on_delete_of;

use super::Preparing;
use crate::dialect::Dialect;
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
        let catalog = &run.dialect().catalog;
        let of = |sql: &str| sql.replace("{}", &text_literal(name));
        let mut layout: Option<Self> = None;
        run.query(&of(catalog.is_table), 1, |row| {
            layout = Some(Self { is_table: is(&row[0]), ..Self::default() });
        })?;
        let Some(mut layout) = layout else { return Ok(None) };
        run.query(&of(catalog.columns), 7, |row| {
            layout.columns.push(LayoutColumn {
                name: row[0].clone(),
                declared: row[1].clone(),
                not_null: is(&row[2]),
                is_required: is(&row[3]),
                is_key: is(&row[4]),
                collation: row[5].clone(),
                is_generated: is(&row[6]),
            });
        })?;
        run.query(&of(catalog.references), 4, |row| {
            layout.references.push(LayoutReference {
                name: row[0].clone(),
                column: row[1].clone(),
                to: row[2].clone(),
                on_delete: on_delete_of(row[3].trim()),
            });
        })?;
        run.query(&of(catalog.indexes), 3, |row| {
            if layout.indexes.last().is_none_or(|last| last.name != row[0]) {
                let (unique, columns) = (is(&row[1]), Vec::new());
                layout.indexes.push(LayoutIndex { name: row[0].clone(), unique, columns });
            }
            if let Some(last) = layout.indexes.last_mut() {
                last.columns.push(row[2].clone());
            }
        })?;
        Ok(Some(layout))
    }

    /// Returns the layout with the names of a table's fields as the table spells them, for a database
    /// that compares names without regard to case.
    pub(super) fn spelled_as(mut self, table: &Table) -> Self {
        let of_columns = self.columns.iter_mut().map(|column| &mut column.name);
        let of_references = self.references.iter_mut().map(|reference| &mut reference.column);
        let of_indexes = self.indexes.iter_mut().flat_map(|index| &mut index.columns);
        for name in of_columns.chain(of_references).chain(of_indexes) {
            let is_it = |field: &&Field| field.name.eq_ignore_ascii_case(name);
            if let Some(field) = table.fields().iter().find(is_it) {
                (*field.name).clone_into(name);
            }
        }
        self
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

/// Returns true for a condition that a database reports as true.
fn is(text: &str) -> bool {
    matches!(text.trim(), "1" | "t" | "true")
}

/// Returns the number of bytes of the integers of a column type, if it has integers.
pub(super) fn integer_bytes(dialect: &Dialect, declared: &str) -> Option<u8> {
    if declared == dialect.types.boolean || declared.ends_with("unsigned") {
        return None;
    }
    let name = declared.split_once('(').map_or(declared, |(name, _)| name);
    named(dialect.types.integers, name)
}

/// Returns the most characters of a column type with texts; `None` for other types.
pub(super) fn chars(dialect: &Dialect, declared: &str) -> Option<u32> {
    if let Some(chars) = named(dialect.types.texts, declared) {
        return Some(chars);
    }
    let prefix = dialect.types.varchar.strip_suffix("{})")?;
    declared.strip_prefix(prefix)?.strip_suffix(')')?.parse().ok()
}

fn named<T: Copy>(of: &[(&str, T)], name: &str) -> Option<T> {
    of.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// Returns true if the values of a column type are those of another one, though perhaps with a
/// smaller range.
pub(super) fn is_a(dialect: &Dialect, declared: &str, wanted: &str) -> bool {
    let currency = dialect.types.currency;
    let decimals = |declared: &str| -> Option<u32> {
        let (name, rest) = declared.split_once('(')?;
        let is_decimal = currency.split_once('(').is_some_and(|(of, _)| of == name);
        is_decimal.then_some(())?;
        rest.strip_suffix(')')?.split(',').nth(1)?.parse().ok()
    };
    let is_integer = |declared| integer_bytes(dialect, declared).is_some();
    let is_text = |declared| chars(dialect, declared).is_some();
    declared == wanted
        || is_integer(declared) && is_integer(wanted)
        || is_text(declared) && is_text(wanted)
        // With fewer decimals, the server would round written values.
        || wanted == currency && decimals(wanted).is_some() && decimals(declared) >= decimals(wanted)
        || dialect.types.alike.iter().any(|&(of, other)| of == wanted && other == declared)
}
