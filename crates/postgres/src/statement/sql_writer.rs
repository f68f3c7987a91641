//! SQL text being written, and the types of its parameters.

use std::fmt::Write as _;

use marmota_model::{FieldSet, Table};

use crate::statement::column::{compared, sorted};
use crate::statement::key::text_sql;

/// The text of a statement being written.
#[derive(Debug, Default)]
pub(crate) struct Sql {
    pub(crate) text: String,
    pub(crate) types: Vec<u32>,
    /// The fields whose columns sort texts by the rules of a language.
    collated: FieldSet,
    /// Those of the related tables on whose rows the statement has conditions, by name.
    related: Vec<(String, FieldSet)>,
}

impl Sql {
    /// Creates SQL for a table whose `collated` columns sort by the rules of a language.
    pub(crate) fn on(collated: FieldSet) -> Self {
        Self { collated, ..Self::default() }
    }

    /// Continues with columns that all sort texts by bytes, such as those of a subquery that was
    /// written with [`Sql::sorted`].
    pub(crate) fn sort_by_bytes(&mut self) {
        self.collated = FieldSet::EMPTY;
    }

    /// Adds a related table with the columns that sort by the rules of a language.
    pub(crate) fn relate(&mut self, table: &str, collated: FieldSet) {
        self.related.push((table.to_owned(), collated));
    }

    /// Continues with columns of a related table. Returns what [`Self::leave_table`] needs.
    pub(crate) fn enter_table(&mut self, table: &Table) -> FieldSet {
        let related = self.related.iter().find(|(name, _)| name == table.name());
        let collated = related.map_or(FieldSet::EMPTY, |&(_, collated)| collated);
        std::mem::replace(&mut self.collated, collated)
    }

    /// Continues with columns of the table before.
    pub(crate) const fn leave_table(&mut self, collated: FieldSet) {
        self.collated = collated;
    }

    /// Returns the fields whose columns sort texts by the rules of a language.
    pub(crate) const fn collated(&self) -> FieldSet {
        self.collated
    }

    /// Returns true if a field's column sorts texts by the rules of a language.
    pub(crate) fn is_collated(&self, position: usize) -> bool {
        self.collated.contains(position)
    }

    /// Returns the expression by which a field is compared.
    pub(crate) fn compared(&self, table: &Table, position: usize) -> String {
        match table.is_made(position) {
            true => text_sql(table, position, ""),
            false => compared(&table.fields()[position], self.is_collated(position)),
        }
    }

    /// Returns the expression by which a field is sorted.
    pub(crate) fn sorted(&self, table: &Table, position: usize) -> String {
        match table.is_made(position) {
            true => text_sql(table, position, ""),
            false => sorted(&table.fields()[position], self.is_collated(position)),
        }
    }

    /// Adds text.
    pub(crate) fn push(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    /// Adds a parameter of this type.
    pub(crate) fn parameter(&mut self, oid: u32) -> &mut Self {
        self.types.push(oid);
        let _ = write!(self.text, "${}", self.types.len());
        self
    }
}
