//! The structure of the database: a table's columns, references and indexes, as reported by
//! PostgreSQL's catalogs.

use marmota_model::{Field, Kind, OnDelete, Result, Table};
use marmota_sql::on_delete_of;

use super::Preparing;
use crate::statement::search;
use crate::statement::sql_words::{literal, quoted, sql_type};
use crate::wire::value::PgType;

/// The structure of an existing table.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) is_table: bool,
    /// Its OID.
    pub(super) oid: u32,
    pub(super) columns: Vec<LayoutColumn>,
    pub(super) references: Vec<LayoutReference>,
    pub(super) indexes: Vec<LayoutIndex>,
    /// Its search columns.
    pub(super) searches: Vec<String>,
    /// The sequence of its key, as an SQL name.
    pub(super) sequence: Option<String>,
    /// True if the server generates keys: by a sequence, or by another default.
    pub(super) makes_keys: bool,
}

/// An existing column.
#[derive(Debug)]
pub(super) struct LayoutColumn {
    pub(super) name: String,
    pub(super) number: i16,
    /// Its type, as SQL.
    pub(super) declared: String,
    pub(super) not_null: bool,
    /// True if an insert must set it.
    pub(super) is_required: bool,
    /// The place in the primary key, from 1; 0 if it is not a part of it.
    pub(super) key_place: i16,
    /// True if its texts sort byte by byte.
    pub(super) is_by_bytes: bool,
    /// True if different texts are never equal in it.
    pub(super) is_deterministic: bool,
    /// True if the server generates its values and accepts no others.
    pub(super) is_generated: bool,
    /// True if the server generates its values if none are given, like for Marmota's keys.
    pub(super) is_identity: bool,
    pub(super) has_default: bool,
}

/// An existing reference.
#[derive(Debug)]
pub(super) struct LayoutReference {
    pub(super) name: String,
    /// The columns that refer.
    pub(super) columns: Vec<String>,
    pub(super) to: String,
    pub(super) on_delete: OnDelete,
}

/// An existing index.
#[derive(Debug)]
pub(super) struct LayoutIndex {
    pub(super) name: String,
    pub(super) unique: bool,
    /// Its columns or expressions, as SQL.
    pub(super) columns: Vec<String>,
    /// The condition of a partial index, as SQL.
    pub(super) condition: Option<String>,
}

impl Layout {
    /// Returns the layout of the table with this OID, with any key.
    pub(super) fn of_oid(run: &mut Preparing<'_>, oid: &str) -> Result<Self> {
        let mut layout = Self { is_table: true, ..Self::default() };
        layout.read_columns(run, oid)?;
        layout.read_references(run, oid)?;
        layout.read_indexes(run, oid)?;
        Ok(layout)
    }

    /// Returns the layout of the table `name`, with a model's key, or `None` if the table does not
    /// exist.
    pub(super) fn of(run: &mut Preparing<'_>, table: &Table, name: &str) -> Result<Option<Self>> {
        let oid = format!("to_regclass({})", literal(&quoted(name)));
        let mut layout: Option<Self> = None;
        run.query(
            &format!("SELECT relkind IN ('r','p'), oid FROM pg_class WHERE oid={oid}"),
            |row| {
                let oid = row.text(1).parse().unwrap_or(0);
                layout = Some(Self { is_table: row.is(0), oid, ..Self::default() });
            },
        )?;
        let Some(mut layout) = layout else { return Ok(None) };
        layout.read_columns(run, &oid)?;
        layout.read_references(run, &oid)?;
        layout.read_indexes(run, &oid)?;
        let key = layout.column_at(table, table.key()).map(|key| literal(&key.name));
        if let Some(key) = key {
            // Its own sequence, or one that its default uses.
            let sql = format!(
                "SELECT coalesce(pg_get_serial_sequence({oid}::text,{key}),\
                 (SELECT c.oid::regclass::text FROM pg_attrdef f \
                 JOIN pg_attribute a ON a.attrelid=f.adrelid AND a.attnum=f.adnum \
                 JOIN pg_depend d ON d.classid='pg_attrdef'::regclass AND d.objid=f.oid \
                 AND d.refclassid='pg_class'::regclass \
                 JOIN pg_class c ON c.oid=d.refobjid AND c.relkind='S' \
                 WHERE f.adrelid={oid} AND a.attname={key} LIMIT 1))"
            );
            run.query(&sql, |row| {
                layout.sequence = (!row.is_null(0)).then(|| row.text(0).to_owned());
            })?;
            let key = layout.column_at(table, table.key());
            layout.makes_keys = key.is_some_and(|key| key.has_default);
        }
        Ok(Some(layout))
    }

    fn read_columns(&mut self, run: &mut Preparing<'_>, oid: &str) -> Result<()> {
        let sql = format!(
            "SELECT a.attname, format_type(a.atttypid,a.atttypmod), a.attnotnull, \
             a.attnotnull AND NOT a.atthasdef AND a.attidentity='', \
             coalesce(array_position(p.conkey,a.attnum),0), \
             coalesce(CASE l.collname WHEN 'default' THEN d.datcollate ELSE l.collname END,'C') \
             IN ('C','POSIX','ucs_basic'), a.attnum, coalesce(l.collisdeterministic,true), \
             a.attgenerated<>'' OR a.attidentity='a', a.attidentity='d', \
             a.atthasdef OR a.attidentity<>'' \
             FROM pg_attribute a \
             LEFT JOIN pg_constraint p ON p.conrelid=a.attrelid AND p.contype='p' \
             LEFT JOIN pg_collation l ON l.oid=a.attcollation \
             JOIN pg_database d ON d.datname=current_database() \
             WHERE a.attrelid={oid} AND a.attnum>0 AND NOT a.attisdropped ORDER BY a.attnum"
        );
        run.query(&sql, |row| {
            if row.text(0).starts_with(search::COLUMN_START) {
                self.searches.push(row.text(0).to_owned());
                return;
            }
            self.columns.push(LayoutColumn {
                name: row.text(0).to_owned(),
                declared: row.text(1).to_owned(),
                not_null: row.is(2),
                is_required: row.is(3),
                key_place: row.text(4).parse().unwrap_or(0),
                is_by_bytes: row.is(5),
                number: row.text(6).parse().unwrap_or(0),
                is_deterministic: row.is(7),
                is_generated: row.is(8),
                is_identity: row.is(9),
                has_default: row.is(10),
            });
        })
    }

    fn read_references(&mut self, run: &mut Preparing<'_>, oid: &str) -> Result<()> {
        let sql = format!(
            "SELECT c.conname, a.attname, t.relname, \
             CASE c.confdeltype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' ELSE '' END \
             FROM pg_constraint c \
             CROSS JOIN LATERAL generate_series(1,array_length(c.conkey,1)) n \
             JOIN pg_attribute a ON a.attrelid=c.conrelid AND a.attnum=c.conkey[n] \
             JOIN pg_class t ON t.oid=c.confrelid \
             WHERE c.conrelid={oid} AND c.contype='f' ORDER BY c.conname, n"
        );
        run.query(&sql, |row| {
            if self.references.last().is_none_or(|last| last.name != row.text(0)) {
                self.references.push(LayoutReference {
                    name: row.text(0).to_owned(),
                    columns: Vec::new(),
                    to: row.text(2).to_owned(),
                    on_delete: on_delete_of(row.text(3)),
                });
            }
            if let Some(last) = self.references.last_mut() {
                last.columns.push(row.text(1).to_owned());
            }
        })
    }

    fn read_indexes(&mut self, run: &mut Preparing<'_>, oid: &str) -> Result<()> {
        let sql = format!(
            "SELECT c.relname, i.indisunique, i.indpred IS NULL, \
             coalesce(a.attname, pg_get_indexdef(i.indexrelid,n,true)), \
             coalesce(pg_get_expr(i.indpred,i.indrelid),'') \
             FROM pg_index i JOIN pg_class c ON c.oid=i.indexrelid \
             CROSS JOIN LATERAL generate_series(1,i.indnkeyatts) n \
             LEFT JOIN pg_attribute a ON a.attrelid=i.indrelid AND a.attnum=i.indkey[n-1] \
             AND i.indkey[n-1]<>0 \
             WHERE i.indrelid={oid} ORDER BY c.relname, n"
        );
        run.query(&sql, |row| {
            if self.indexes.last().is_none_or(|last| last.name != row.text(0)) {
                self.indexes.push(LayoutIndex {
                    name: row.text(0).to_owned(),
                    unique: row.is(1),
                    columns: Vec::new(),
                    condition: (!row.is(2)).then(|| row.text(4).to_owned()),
                });
            }
            if let Some(last) = self.indexes.last_mut() {
                last.columns.push(row.text(3).to_owned());
            }
        })
    }

    /// Returns the column of a field's values, by its current or former name.
    pub(super) fn column_of(&self, field: &Field) -> Option<&LayoutColumn> {
        let named = |name: &str| self.columns.iter().find(|column| column.name == name);
        named(&field.name).or_else(|| named(field.was.as_deref()?))
    }

    /// As [`Self::column_of`], by the position of the field. The text of a composite key has none.
    pub(super) fn column_at(&self, table: &Table, position: usize) -> Option<&LayoutColumn> {
        match table.is_made(position) {
            true => None,
            false => self.column_of(&table.fields()[position]),
        }
    }

    /// Returns the columns of the primary key, in its order.
    pub(super) fn key_columns(&self) -> Vec<&LayoutColumn> {
        let mut keys: Vec<&LayoutColumn> = self.columns.iter().filter(|c| c.is_key()).collect();
        keys.sort_by_key(|column| column.key_place);
        keys
    }

    /// Returns the foreign key of a field that is a reference.
    pub(super) fn reference(&self, table: &Table, position: usize) -> Option<&LayoutReference> {
        let Kind::Reference { table: to, .. } = &table.fields()[position].kind else { return None };
        let column = |at| self.column_at(table, at).map(|column| &*column.name);
        let columns: Option<Vec<&str>> =
            table.columns_of(position).into_iter().map(column).collect();
        let columns = columns?;
        // A key may be referred to with its columns in another order.
        let has = |one: &LayoutReference| {
            one.columns.len() == columns.len()
                && columns.iter().all(|&column| one.columns.iter().any(|there| there == column))
        };
        self.references.iter().find(|one| one.to == **to && has(one))
    }
}

impl LayoutColumn {
    /// Returns true for a column of the primary key.
    pub(super) const fn is_key(&self) -> bool {
        self.key_place > 0
    }

    /// Returns the number of bytes of its integers, if it has integers.
    pub(super) fn integer_bytes(&self) -> Option<u8> {
        match &*self.declared {
            "smallint" => Some(2),
            "integer" => Some(4),
            "bigint" => Some(8),
            _ => None,
        }
    }

    /// Returns the number of decimals of its numbers, if they are fewer than those of a currency.
    pub(super) fn decimals(&self) -> Option<u32> {
        let modifiers = self.declared.strip_prefix("numeric(")?.trim_end_matches(')');
        let decimals = modifiers.split(',').nth(1).map_or(Some(0), |scale| scale.parse().ok());
        decimals.filter(|&decimals| decimals < 4)
    }

    /// Returns true if values of this type must be converted to be stored in it.
    pub(super) fn is_converted(&self, pg_type: PgType) -> bool {
        let differs = self.declared != sql_type(pg_type);
        differs && (self.integer_bytes().is_some() || self.declared == "jsonb")
    }

    /// Returns true if its values have this type, though perhaps with a smaller range: reading one
    /// loses nothing, and values that do not fit are refused.
    pub(super) fn is_a(&self, pg_type: PgType) -> bool {
        match pg_type {
            PgType::Int2 | PgType::Int4 | PgType::Int8 => self.integer_bytes().is_some(),
            PgType::Numeric => self.declared == "numeric" || self.declared.starts_with("numeric("),
            PgType::Json => matches!(&*self.declared, "json" | "jsonb"),
            PgType::Text => {
                self.declared == "text" || self.declared.starts_with("character varying")
            }
            PgType::Time => self.declared == "time without time zone",
            // The zone of a session is UTC, in which the server converts one to the other.
            PgType::Timestamptz => {
                self.declared == "timestamp with time zone"
                    || self.declared == "timestamp without time zone"
            }
            pg_type => self.declared == sql_type(pg_type),
        }
    }
}
