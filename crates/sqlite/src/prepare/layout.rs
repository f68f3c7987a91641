//! What a table is like in the database, as SQLite's PRAGMAs tell it.

use crate::column::sql_literal;
use crate::ffi::{Connection, Failure, QUERY_COLUMNS, Row};
use marmota_model::ValueRef;

/// A table as it is.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// False for a view or a virtual table.
    pub(super) is_table: bool,
    pub(super) without_rowid: bool,
    pub(super) columns: Vec<LayoutColumn>,
    pub(super) indexes: Vec<LayoutIndex>,
    /// Columns that refer to a table.
    references: Vec<(String, String)>,
}

/// A column as it is.
#[derive(Debug)]
pub(super) struct LayoutColumn {
    pub(super) name: String,
    /// The type it was declared with.
    pub(super) declared: String,
    pub(super) not_null: bool,
    pub(super) is_key: bool,
    has_default: bool,
    /// True if SQLite computes it.
    generated: bool,
}

/// An index as it is.
#[derive(Debug)]
pub(super) struct LayoutIndex {
    pub(super) name: String,
    pub(super) unique: bool,
    /// The columns; none for one over expressions or a part of the rows.
    columns: Vec<String>,
}

impl Layout {
    /// The table called `name`; `None` if there is none.
    pub(super) fn of(connection: &mut Connection, name: &str) -> Result<Option<Self>, Failure> {
        let name = sql_literal(ValueRef::Text(name));
        let mut layout: Option<Self> = None;
        let sql = format!(
            "SELECT type, wr FROM pragma_table_list \
             WHERE schema='main' AND name={name} COLLATE NOCASE"
        );
        connection.query(&sql, |row| {
            layout = Some(Self {
                is_table: row.at(0).bytes() == b"table",
                without_rowid: row.at(1).int() != 0,
                ..Self::default()
            });
        })?;
        let Some(mut layout) = layout else { return Ok(None) };
        let sql = format!(
            "SELECT name, type, \"notnull\", dflt_value IS NOT NULL, pk, hidden \
             FROM pragma_table_xinfo({name}) ORDER BY cid"
        );
        connection.query(&sql, |row| {
            layout.columns.push(LayoutColumn {
                name: text(row, 0),
                declared: text(row, 1),
                not_null: row.at(2).int() != 0,
                has_default: row.at(3).int() != 0,
                is_key: row.at(4).int() != 0,
                generated: row.at(5).int() > 1,
            });
        })?;
        let sql = format!("SELECT \"from\", \"table\" FROM pragma_foreign_key_list({name})");
        connection.query(&sql, |row| layout.references.push((text(row, 0), text(row, 1))))?;
        layout.read_indexes(connection, &name)?;
        Ok(Some(layout))
    }

    fn read_indexes(&mut self, connection: &mut Connection, name: &str) -> Result<(), Failure> {
        let sql = format!(
            "SELECT list.name, list.\"unique\", list.partial, info.name \
             FROM pragma_index_list({name}) AS list, pragma_index_info(list.name) AS info \
             ORDER BY list.name, info.seqno"
        );
        let indexes = &mut self.indexes;
        let mut whole = true;
        connection.query(&sql, |row| {
            let name = text(row, 0);
            if indexes.last().is_none_or(|last: &LayoutIndex| last.name != name) {
                indexes.push(LayoutIndex {
                    name,
                    unique: row.at(1).int() != 0,
                    columns: Vec::new(),
                });
                whole = row.at(2).int() == 0;
            }
            if let Some(last) = indexes.last_mut()
                && whole
            {
                // An expression has no name, and equals no field's.
                last.columns.push(text(row, 3));
            }
        })
    }

    /// The column called `name`.
    pub(super) fn column(&self, name: &str) -> Option<&LayoutColumn> {
        self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// True if a column refers to a table.
    pub(super) fn refers(&self, column: &str, table: &str) -> bool {
        self.references
            .iter()
            .any(|(from, to)| from.eq_ignore_ascii_case(column) && to.eq_ignore_ascii_case(table))
    }
}

impl LayoutColumn {
    /// The type that values are kept in, by SQLite's rules for declared types.
    pub(super) fn affinity(&self) -> &'static str {
        let declared = self.declared.to_ascii_uppercase();
        let has = |part: &str| declared.contains(part);
        if has("INT") {
            "INTEGER"
        } else if has("CHAR") || has("CLOB") || has("TEXT") {
            "TEXT"
        } else if has("BLOB") || declared.is_empty() {
            "BLOB"
        } else if has("REAL") || has("FLOA") || has("DOUB") {
            "REAL"
        } else {
            "NUMERIC"
        }
    }

    /// True if no row can be inserted without it.
    pub(super) fn is_required(&self) -> bool {
        self.not_null && !self.has_default && !self.generated
    }
}

impl LayoutIndex {
    /// True if it is over exactly these columns.
    pub(super) fn is_over(&self, columns: &[&str]) -> bool {
        self.columns.len() == columns.len()
            && self.columns.iter().zip(columns).all(|(a, b)| a.eq_ignore_ascii_case(b))
    }
}

fn text(row: &Row<'_, QUERY_COLUMNS>, column: usize) -> String {
    String::from_utf8_lossy(row.at(column).bytes()).into_owned()
}
