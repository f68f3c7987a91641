//! The structure of a table in the database, as reported by SQLite's PRAGMAs.

use crate::ffi::{Connection, Failure, QUERY_COLUMNS, Row};
use crate::schema_objects::{Objects, SchemaObjects};
use crate::sql_words::{sql_literal, sql_type};
use marmota_model::{Field, Kind, OnDelete, Rule, Table, ValueRef};
use marmota_sql::{condition_of, on_delete_of, quoted};

/// The structure of an existing table.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// False for a view or a virtual table.
    pub(super) is_table: bool,
    pub(super) without_rowid: bool,
    pub(super) strict: bool,
    /// The statement that created it; SQLite keeps it up to date.
    pub(super) sql: String,
    pub(super) columns: Vec<LayoutColumn>,
    pub(super) indexes: Vec<LayoutIndex>,
    references: Vec<LayoutReference>,
}

/// An existing foreign key.
#[derive(Debug)]
pub(super) struct LayoutReference {
    /// The columns that refer.
    pub(super) columns: Vec<String>,
    /// The table that they refer to.
    pub(super) to: String,
    pub(super) action: OnDelete,
}

/// An existing column.
#[derive(Debug)]
pub(super) struct LayoutColumn {
    pub(super) name: String,
    /// The declared type.
    pub(super) declared: String,
    pub(super) not_null: bool,
    /// The place in the primary key, from 1; 0 if it is not a part of it.
    pub(super) key_place: i64,
    /// Its default, as SQL.
    pub(super) default: Option<String>,
    /// True for a generated column.
    pub(super) generated: bool,
}

/// An existing index.
#[derive(Debug)]
pub(super) struct LayoutIndex {
    pub(super) name: String,
    pub(super) unique: bool,
    /// The columns. An expression has an empty name.
    pub(super) columns: Vec<String>,
    /// The condition of a partial index, as SQL.
    pub(super) condition: Option<String>,
}

impl Layout {
    /// Returns the table `name`, or `None` if it does not exist.
    pub(super) fn of(
        connection: &mut Connection,
        objects: &mut SchemaObjects,
        name: &str,
    ) -> Result<Option<Self>, Failure> {
        let objects = objects.read(connection)?;
        let Some((listed, sql)) = objects.table(name) else { return Ok(None) };
        let mut layout = Self {
            is_table: listed.is_table,
            without_rowid: listed.without_rowid,
            strict: listed.strict,
            sql: sql.to_owned(),
            ..Self::default()
        };
        let name = sql_literal(ValueRef::Text(name));
        let sql = format!(
            "SELECT name, type, \"notnull\", dflt_value, pk, hidden \
             FROM pragma_table_xinfo({name}) ORDER BY cid"
        );
        connection.query(&sql, |row| {
            layout.columns.push(LayoutColumn {
                name: text(row, 0),
                declared: text(row, 1),
                not_null: row.at(2).int() != 0,
                default: (!row.cell(3).is_null()).then(|| text(row, 3)),
                key_place: row.at(4).int(),
                generated: row.at(5).int() > 1,
            });
        })?;
        let sql = format!(
            "SELECT \"from\", \"table\", on_delete, seq FROM pragma_foreign_key_list({name}) \
             ORDER BY id, seq"
        );
        let references = &mut layout.references;
        connection.query(&sql, |row| {
            if row.at(3).int() == 0 {
                let (to, action) = (text(row, 1), on_delete_of(&text(row, 2)));
                references.push(LayoutReference { columns: Vec::new(), to, action });
            }
            if let Some(last) = references.last_mut() {
                last.columns.push(text(row, 0));
            }
        })?;
        layout.read_indexes(connection, objects, &name)?;
        Ok(Some(layout))
    }

    fn read_indexes(
        &mut self,
        connection: &mut Connection,
        objects: &Objects,
        name: &str,
    ) -> Result<(), Failure> {
        let sql = format!(
            "SELECT list.name, list.\"unique\", list.partial, info.name \
             FROM pragma_index_list({name}) AS list, pragma_index_info(list.name) AS info \
             ORDER BY list.name, info.seqno"
        );
        let indexes = &mut self.indexes;
        connection.query(&sql, |row| {
            let name = text(row, 0);
            if indexes.last().is_none_or(|last: &LayoutIndex| last.name != name) {
                let condition = (row.at(2).int() != 0).then(|| {
                    let sql = objects.index_sql(&name);
                    condition_of(sql).unwrap_or(sql).to_owned()
                });
                let unique = row.at(1).int() != 0;
                indexes.push(LayoutIndex { name, unique, columns: Vec::new(), condition });
            }
            if let Some(last) = indexes.last_mut() {
                // An expression has no name, which equals no field.
                last.columns.push(text(row, 3));
            }
        })
    }

    /// Returns the columns of the primary key, in its order.
    pub(super) fn key_columns(&self) -> Vec<&LayoutColumn> {
        let mut keys: Vec<&LayoutColumn> = self.columns.iter().filter(|c| c.is_key()).collect();
        keys.sort_by_key(|column| column.key_place);
        keys
    }

    /// Returns the column `name`.
    pub(super) fn column(&self, name: &str) -> Option<&LayoutColumn> {
        self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// Returns the table that a column refers to, and its action when that row is deleted.
    pub(super) fn reference(&self, column: &str) -> Option<(&str, OnDelete)> {
        self.reference_of(&[column]).map(|reference| (&*reference.to, reference.action))
    }

    /// Returns the foreign key of some columns, in any order.
    fn reference_of(&self, columns: &[&str]) -> Option<&LayoutReference> {
        self.references.iter().find(|reference| {
            let has = |column: &&str| {
                reference.columns.iter().any(|there| there.eq_ignore_ascii_case(column))
            };
            reference.columns.len() == columns.len() && columns.iter().all(has)
        })
    }

    /// Returns the foreign key of a reference to a composite key.
    pub(super) fn made_reference(
        &self,
        table: &Table,
        position: usize,
    ) -> Option<&LayoutReference> {
        let column = |&part: &usize| self.column_of(table, part).map(|column| &*column.name);
        let columns: Option<Vec<&str>> = table.parts(position).iter().map(column).collect();
        self.reference_of(&columns?)
    }

    /// Returns the foreign keys of several columns that no field of a table stands for.
    pub(super) fn other_references(&self, table: &Table) -> Vec<&LayoutReference> {
        let known: Vec<_> =
            table.made_fields().iter().filter_map(|at| self.made_reference(table, at)).collect();
        let is_other = |one: &&LayoutReference| {
            one.columns.len() > 1 && !known.iter().any(|known| std::ptr::eq(*known, *one))
        };
        self.references.iter().filter(is_other).collect()
    }

    /// Returns the column of a field, by its current or former name.
    pub(super) fn column_of(&self, table: &Table, position: usize) -> Option<&LayoutColumn> {
        if table.is_made(position) {
            return None;
        }
        let field = &table.fields()[position];
        self.column(&field.name).or_else(|| self.column(field.was.as_deref()?))
    }

    /// Returns the field of a column.
    pub(super) fn named(&self, table: &Table, column: &LayoutColumn) -> Option<usize> {
        let is_it = |&position: &usize| {
            self.column_of(table, position).is_some_and(|found| found.name == column.name)
        };
        (0..table.fields().len()).find(is_it)
    }
}

impl LayoutColumn {
    /// Returns true for a column of the primary key.
    pub(super) const fn is_key(&self) -> bool {
        self.key_place > 0
    }

    /// Returns the type in which values are stored, by SQLite's rules for declared types.
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

    /// Returns true if a column with the affinity NUMERIC, which Marmota creates none of, stores the
    /// values of this field unchanged. It does so for numbers. It also does so for texts that do not
    /// look like numbers, which the pattern of the field has to ensure: dates, for example.
    pub(super) fn takes_like_numeric(&self, field: &Field) -> bool {
        // The values of a generated column are computed, and read as they are.
        let excludes_numbers = || {
            let has_pattern = field.rules.iter().any(|rule| matches!(rule, Rule::Pattern(_)));
            has_pattern || field.generated.is_some()
        };
        // A column for dates usually has texts, which are not the numbers of these kinds.
        let is_time = matches!(field.kind, Kind::Date | Kind::Time | Kind::Timestamp);
        self.affinity() == "NUMERIC"
            && !is_time
            && match sql_type(&field.kind) {
                "INTEGER" | "REAL" => true,
                "TEXT" => excludes_numbers(),
                _ => false,
            }
    }

    /// Returns true if an insert must set the column.
    pub(super) fn is_required(&self) -> bool {
        self.not_null && self.default.is_none() && !self.generated
    }
}

impl LayoutIndex {
    /// Returns true if it contains this column, or its condition does.
    pub(super) fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|name| name.eq_ignore_ascii_case(column))
            || self.condition.as_ref().is_some_and(|sql| sql.contains(&quoted(column)))
    }

    /// Returns true if it consists of exactly these columns.
    pub(super) fn is_over(&self, columns: &[&str]) -> bool {
        self.columns.len() == columns.len()
            && self.columns.iter().zip(columns).all(|(a, b)| a.eq_ignore_ascii_case(b))
    }
}

fn text(row: &Row<'_, QUERY_COLUMNS>, column: usize) -> String {
    String::from_utf8_lossy(row.at(column).bytes()).into_owned()
}
