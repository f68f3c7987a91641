//! The prepared form of a schema, which answers questions about its fields by position and by name.

use std::collections::HashMap;
use std::sync::Arc;

use super::compiled_rule::CompiledRule;
use super::{JsonMember, TableShape};
use crate::value::excerpt::excerpt;
use crate::{
    Error, Field, FieldSet, Index, KeyKind, Kind, Result, Schema, Value, ValueRef, Violation,
};

/// A prepared schema.
#[derive(Debug)]
pub struct Table {
    pub(super) schema: Schema,
    pub(super) positions: HashMap<String, usize>,
    pub(super) json_members: Vec<JsonMember>,
    pub(super) rules: Vec<(usize, CompiledRule)>,
    pub(super) typed_rules: Vec<usize>,
    pub(super) defaults: Vec<Option<Value>>,
    pub(super) key_kind: KeyKind,
    pub(super) all: FieldSet,
    pub(super) read_by_default: FieldSet,
    pub(super) immutable: FieldSet,
    pub(super) created_at: Option<usize>,
    pub(super) updated_at: Option<usize>,
    pub(super) version: Option<usize>,
    pub(super) shape: Arc<TableShape>,
}

impl Table {
    /// Returns the names and kinds of its fields, which filters store to identify the table.
    #[inline]
    pub(crate) const fn shape(&self) -> &Arc<TableShape> {
        &self.shape
    }

    /// Returns the table's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.schema.name
    }

    /// Returns the original schema.
    #[must_use]
    pub const fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the fields in the order of rows.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.schema.fields
    }

    /// Returns the position of the field called `name`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the rule `unknown` and the names of the fields.
    pub fn position(&self, name: &str) -> Result<usize> {
        self.find(name).ok_or_else(|| Error::invalid(vec![self.unknown_field(name, "null")]))
    }

    /// Returns the position of the field called `name`, if it exists.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    /// Returns the violation for a member that is not a field.
    #[must_use]
    pub fn unknown_field(&self, name: &str, value: &str) -> Violation {
        let names: Vec<&str> = self.fields().iter().map(|field| &*field.name).collect();
        Violation {
            field: excerpt(name),
            value: excerpt(value),
            rule: "unknown".to_owned(),
            message: format!("`{}` has no such field; it has {}", self.name(), names.join(", ")),
        }
    }

    /// Returns `"name":` for the field at `position`, escaped and quoted.
    #[must_use]
    pub fn json_key(&self, position: usize) -> &[u8] {
        self.json_members[position].key()
    }

    /// Returns the members of its rows in JSON.
    #[inline]
    pub(crate) fn json_members(&self) -> &[JsonMember] {
        &self.json_members
    }

    /// Returns the position of the key.
    #[must_use]
    pub const fn key(&self) -> usize {
        self.schema.key
    }

    /// Returns the kind of the key.
    #[must_use]
    pub const fn key_kind(&self) -> KeyKind {
        self.key_kind
    }

    /// Returns all fields.
    #[must_use]
    pub const fn all(&self) -> FieldSet {
        self.all
    }

    /// Returns the fields that a read returns by default: all except blobs.
    #[must_use]
    pub const fn read_by_default(&self) -> FieldSet {
        self.read_by_default
    }

    /// Returns the fields whose values may not change after the insert ([`Field::immutable`]).
    #[must_use]
    pub const fn immutable(&self) -> FieldSet {
        self.immutable
    }

    /// Returns the field with the time of the insert.
    #[must_use]
    pub const fn created_at(&self) -> Option<usize> {
        self.created_at
    }

    /// Returns the field with the time of the last write.
    #[must_use]
    pub const fn updated_at(&self) -> Option<usize> {
        self.updated_at
    }

    /// Returns the field that counts the writes.
    #[must_use]
    pub const fn version(&self) -> Option<usize> {
        self.version
    }

    /// Returns the default value of the field at `position`.
    #[must_use]
    pub fn default(&self, position: usize) -> Option<ValueRef<'_>> {
        self.defaults[position].as_ref().map(Value::as_ref)
    }

    /// Returns the searchable fields.
    pub fn search_fields(&self) -> impl Iterator<Item = usize> {
        let fields = self.fields().iter().enumerate();
        fields.filter(|(_, field)| field.search).map(|(position, _)| position)
    }

    /// Returns the rules, each with its field.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &(usize, CompiledRule)> {
        self.rules.iter()
    }

    /// Returns the rules that a row written by a struct can break.
    pub(crate) fn typed_rules(&self) -> impl Iterator<Item = &(usize, CompiledRule)> {
        self.typed_rules.iter().map(|&rule| &self.rules[rule])
    }

    /// Returns all indexes that the table needs: those declared, one for each unique field, and one
    /// for each reference (so that a delete finds the rows that refer to the deleted one).
    #[must_use]
    pub fn indexes(&self) -> Vec<Index> {
        let mut indexes = Vec::new();
        for (position, field) in self.fields().iter().enumerate() {
            let refers = matches!(field.kind, Kind::Reference { .. });
            // A plain index does not enforce uniqueness.
            let declared =
                |index: &Index| *index.fields == [position] && (index.unique || !field.unique);
            if position != self.key()
                && (field.unique || refers)
                && !self.schema.indexes.iter().any(declared)
            {
                indexes.push(Index { fields: vec![position].into(), unique: field.unique });
            }
        }
        indexes.extend(self.schema.indexes.iter().cloned());
        indexes
    }
}
