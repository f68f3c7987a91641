//! Converts operations to calls of statements with parameters. `read.rs` and `write.rs` contain the
//! operations, this file what they share.

use std::sync::Arc;

use marmota_model::{FieldSet, Kind, Result, Table, ValueRef};
use marmota_store::tables::{KnownTables, Tables};
use parking_lot::RwLock;

use crate::column::{form, quoted};
use crate::column_limit::Limit;
use crate::shape::{Sql, misfit};
use crate::sql::Described;
use crate::statement::{AllTexts, Text, Texts, Verb};
use crate::wire::value;

/// Properties of a table in the database in addition to its model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The table's OID.
    pub(crate) oid: u32,
    /// The numbers of its columns, with the positions of their fields.
    pub(crate) columns: Vec<(i16, usize)>,
    /// The sequence of automatic keys, as an SQL literal.
    pub(crate) sequence: Option<String>,
    /// Unique indexes by name, with the positions of their fields.
    pub(crate) uniques: Vec<(String, Vec<usize>)>,
    /// Foreign keys by name, with the position of their field.
    pub(crate) references: Vec<(String, usize)>,
    /// Fields whose columns have a smaller range than the field.
    pub(crate) limits: Vec<(usize, Limit)>,
    /// Fields whose columns sort texts by the rules of a language.
    pub(crate) collated: FieldSet,
    /// True if a column has another type than its field requires: the server converts values, which
    /// a binary COPY does not.
    pub(crate) converts: bool,
    /// True if the database does not generate automatic keys: each row must contain its key.
    pub(crate) lacks_keys: bool,
}

/// The known tables and statements, shared by all sessions of an engine.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) tables: Arc<Tables>,
    /// By table number.
    pub(crate) facts: RwLock<Vec<Arc<Facts>>>,
    pub(crate) texts: Arc<AllTexts>,
    /// Raw SQL statements.
    pub(crate) described: Described,
}

impl Catalog {
    /// Returns the fields of a table whose columns sort texts by the rules of a language.
    pub(crate) fn collated(&self, number: u32) -> FieldSet {
        self.facts.read().get(number as usize).map_or(FieldSet::EMPTY, |facts| facts.collated)
    }
}

/// The state of one session for converting operations to calls.
pub(crate) struct Composer {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) tables: KnownTables,
    pub(crate) texts: Texts,
    /// A buffer for the shape of a filter.
    pub(crate) shape: Vec<u8>,
    facts: Vec<Arc<Facts>>,
}

impl Composer {
    pub(crate) fn new(catalog: &Arc<Catalog>) -> Self {
        Self {
            catalog: Arc::clone(catalog),
            tables: KnownTables::new(Arc::clone(&catalog.tables)),
            texts: Texts::new(Arc::clone(&catalog.texts)),
            shape: Vec::new(),
            facts: Vec::new(),
        }
    }

    /// Returns the properties of a table.
    pub(crate) fn facts(&mut self, number: u32) -> Arc<Facts> {
        let number = number as usize;
        if number >= self.facts.len() {
            self.facts.clone_from(&self.catalog.facts.read());
        }
        self.facts.get(number).cloned().unwrap_or_default()
    }

    /// Returns the described raw SQL statements.
    pub(crate) fn described(&self) -> &Described {
        &self.catalog.described
    }

    /// Returns the kind of the field of a database column.
    pub(crate) fn kind_at(&mut self, (table, column): (u32, i16)) -> Option<Kind> {
        if table == 0 {
            return None;
        }
        self.tables.learn();
        let facts = self.catalog.facts.read();
        let number = facts.iter().rposition(|facts| facts.oid == table)?;
        let field = facts[number].columns.iter().find(|(known, _)| *known == column)?.1;
        Some(self.tables.at(number)?.fields()[field].kind.clone())
    }

    /// Returns the statement for these properties, without a filter.
    pub(crate) fn text(
        &mut self,
        verb: Verb,
        table: &Table,
        fields: FieldSet,
        variant: u32,
        make: impl FnOnce(&mut Sql, &Table),
    ) -> Result<Arc<Text>> {
        let number = self.tables.number(table)?;
        Ok(self.texts.find(verb, number, fields, variant, &[], || {
            let mut sql = Sql::on(self.catalog.collated(number));
            make(&mut sql, table);
            Text::new(sql.text, sql.types, Box::default())
        }))
    }
}

/// Returns a field's name in SQL.
pub(crate) fn name(table: &Table, position: usize) -> String {
    quoted(&table.fields()[position].name)
}

/// Returns the type OID of a field's parameters.
pub(crate) fn oid(table: &Table, position: usize) -> u32 {
    form(&table.fields()[position].kind).oid()
}

/// Writes ` WHERE key=$n`.
pub(crate) fn by_key(sql: &mut Sql, table: &Table) {
    let key = table.key();
    sql.push(" WHERE ").push(&name(table, key)).push("=").parameter(oid(table, key));
}

/// Appends a field's value.
#[inline]
pub(crate) fn put(
    out: &mut Vec<u8>,
    table: &Table,
    position: usize,
    value: ValueRef<'_>,
) -> Result<()> {
    value::put(out, form(&table.fields()[position].kind), value)
        .map_err(|value::ValueMismatch| misfit(table, position))
}

/// Appends the present values of a row.
pub(crate) fn put_present(out: &mut Vec<u8>, table: &Table, row: &[ValueRef<'_>]) -> Result<u16> {
    let mut count = 0;
    for (position, value) in row.iter().enumerate().filter(|(_, value)| !value.is_absent()) {
        put(out, table, position, *value)?;
        count += 1;
    }
    Ok(count)
}

/// Returns the reference fields that have a value, with the referenced table and the value.
pub(crate) fn references<'r>(
    table: &'r Table,
    row: &'r [ValueRef<'r>],
) -> impl Iterator<Item = (usize, &'r str, ValueRef<'r>)> {
    table.fields().iter().zip(row).enumerate().filter_map(|(position, (field, value))| {
        let Kind::Reference { table: to, .. } = &field.kind else { return None };
        (!value.is_null() && !value.is_absent()).then_some((position, &**to, *value))
    })
}
