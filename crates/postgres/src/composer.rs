//! Converts operations to calls of statements with parameters. `read.rs` and `write.rs` contain the
//! operations, this file what they share.

pub(crate) mod conflict;
pub(crate) mod group;
mod read;
mod write;
mod write_many;

use std::sync::Arc;

use marmota_model::{FieldSet, Kind, Result, Table};
use marmota_store::tables::{KnownTables, Tables};
use parking_lot::RwLock;

use crate::commands::raw_sql::Described;
use crate::prepare::table_facts::Facts;
use crate::statement::key::key_condition;
use crate::statement::sql_writer::Sql;
use crate::statement::{AllTexts, Text, Texts, Verb};

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

/// Writes ` WHERE key=$n`.
pub(crate) fn by_key(sql: &mut Sql, table: &Table) {
    sql.push(" WHERE ");
    key_condition(sql, table);
}
