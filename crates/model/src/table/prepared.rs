//! The prepared form of a schema, which answers questions about its fields by position and by name.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use super::compiled_rule::CompiledRule;
use super::expressions::Expressions;
use super::reference::made_texts::MadeTexts;
use super::reference::row_texts::RowTexts;
use super::relation::Links;
use super::view::View;
use super::{JsonMember, TableShape};
use crate::schema::text::integer;
use crate::value::excerpt::excerpt;
use crate::{
    Error, Field, FieldSet, Index, KeyKind, Kind, Result, Schema, Value, ValueRef, Violation,
};

/// A prepared schema.
///
/// ```
/// use std::sync::Arc;
/// use marmota_model::{Field, Kind, Record, Role, Schema, Table, ValueRef, json};
///
/// let table = Arc::new(Table::new(Schema::new("city", vec![
///     Field::new("id", Kind::I64).role(Role::Key),
///     Field::new("name", Kind::TEXT),
/// ]))?);
/// let mut out = Vec::new();
/// json::write_row(&mut out, &table, table.all(), &[ValueRef::Int(1), ValueRef::Text("Bourges")]);
/// assert_eq!(out, br#"{"id":1,"name":"Bourges"}"#);
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Debug)]
pub struct Table {
    pub(super) schema: Schema,
    pub(super) positions: HashMap<String, usize>,
    pub(super) json_members: Vec<JsonMember>,
    pub(super) rules: Vec<(usize, CompiledRule)>,
    pub(super) typed_rules: Vec<usize>,
    pub(super) defaults: Vec<Option<Value>>,
    pub(super) expressions: Arc<Expressions>,
    pub(super) made: MadeTexts,
    pub(super) row_texts: RowTexts,
    pub(super) key_kind: KeyKind,
    pub(super) all: FieldSet,
    pub(super) read_by_default: FieldSet,
    pub(super) immutable: FieldSet,
    /// The fields with sanitizers.
    pub(super) sanitized: Vec<usize>,
    pub(super) created_at: Option<usize>,
    pub(super) updated_at: Option<usize>,
    pub(super) version: Option<usize>,
    pub(super) shape: Arc<TableShape>,
    pub(super) links: Links,
    /// The parsed filters of its indexes, of a type that modules above this one have.
    pub(crate) index_filters: Option<Box<dyn Any + Send + Sync>>,
    /// What makes it a view of another table, if it is one.
    pub(super) view: Option<Box<View>>,
}

impl Table {
    /// Returns the names and kinds of its fields, which filters store to identify the table.
    #[inline]
    pub(crate) const fn shape(&self) -> &Arc<TableShape> {
        &self.shape
    }

    /// Returns the table's name.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("born", Kind::Date).nullable(true)]))?;
    /// assert_eq!(table.name(), "person");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.schema.name
    }

    /// Returns the original schema.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("born", Kind::Date).nullable(true)]))?;
    /// assert!(!table.schema().audit);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub const fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the fields in the order of rows.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("born", Kind::Date).nullable(true)]))?;
    /// let names: Vec<&str> = table.fields().iter().map(|field| &*field.name).collect();
    /// assert_eq!(names, ["id", "name", "born"]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.schema.fields
    }

    /// Returns the position of the field called `name`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] with the rule `unknown` and the names of the fields.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("born", Kind::Date).nullable(true)]))?;
    /// assert_eq!(table.position("born")?, 2);
    /// let error = table.position("birth").unwrap_err();
    /// assert!(error.to_string().contains("it has id, name, born"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn position(&self, name: &str) -> Result<usize> {
        self.find(name).ok_or_else(|| Error::invalid(vec![self.unknown_field(name, "null")]))
    }

    /// Returns the position of the field called `name`, if it exists.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("born", Kind::Date).nullable(true)]))?;
    /// assert_eq!((table.find("name"), table.find("Name")), (Some(1), None));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    /// Returns the violation for a member that is not a field.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("born", Kind::Date).nullable(true)]))?;
    /// let violation = table.unknown_field("nme", "\"Ada\"");
    /// assert_eq!(violation.message, "`person` has no such field; it has id, name, born");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn unknown_field(&self, name: &str, value: &str) -> Violation {
        Violation {
            field: excerpt(name),
            value: excerpt(value),
            rule: "unknown".to_owned(),
            message: format!(
                "`{}` has no such field; it has {}",
                self.name(),
                self.field_names().join(", ")
            ),
        }
    }

    /// Returns the names of its fields; of a view, the names of the readable ones.
    #[must_use]
    pub fn field_names(&self) -> Vec<&str> {
        let fields = self.fields().iter().enumerate();
        fields.filter(|(at, _)| self.is_readable(*at)).map(|(_, field)| &*field.name).collect()
    }

    /// Returns `"name":` for the field at `position`, escaped and quoted.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("born", Kind::Date).nullable(true)]))?;
    /// assert_eq!(table.json_key(1), b"\"name\":");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
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
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("born", Kind::Date).nullable(true)]))?;
    /// assert_eq!(table.key(), 0);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub const fn key(&self) -> usize {
        self.schema.key
    }

    /// Returns the kind of the key.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("born", Kind::Date).nullable(true)]))?;
    /// assert_eq!(table.key_kind(), marmota_model::KeyKind::Auto);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub const fn key_kind(&self) -> KeyKind {
        self.key_kind
    }

    /// Returns the key that a text has, such as a part of a URL; `None` if it is not of the key's kind.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key)]))?;
    /// assert_eq!(table.parse_key("7"), Some(7.into()));
    /// assert_eq!(table.parse_key("seven"), None);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn parse_key(&self, text: &str) -> Option<Value> {
        match self.key_kind {
            KeyKind::Auto => integer(text).map(Value::Int),
            KeyKind::Uuid => crate::Uuid::try_parse(text).ok().map(Value::Uuid),
            KeyKind::Text => Some(Value::Text(text.to_owned())),
        }
    }

    /// Returns all fields.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("born", Kind::Date).nullable(true)]))?;
    /// assert_eq!(table.all().len(), 3);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub const fn all(&self) -> FieldSet {
        self.all
    }

    /// Returns the fields that a read returns by default: all except blobs.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Role, Schema, Table};
    /// let table = Table::new(Schema::new("photo", vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("jpeg", Kind::Blob)]))?;
    /// assert!(!table.read_by_default().contains(1));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
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
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("born", Kind::Date).nullable(true)]))?;
    /// assert_eq!(table.default(1), None);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn default(&self, position: usize) -> Option<ValueRef<'_>> {
        self.defaults[position].as_ref().map(Value::as_ref)
    }

    /// Returns the searchable fields.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("born", Kind::Date).nullable(true)]))?;
    /// assert_eq!(table.search_fields().count(), 0);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn search_fields(&self) -> impl Iterator<Item = usize> {
        let fields = self.fields().iter().enumerate();
        // A search in all fields would reveal the words of those that may not be read.
        let is_hidden = |(at, field): (usize, &Field)| field.search && !self.is_readable(at);
        let is_searched = !fields.clone().any(is_hidden);
        fields.filter(move |(_, field)| is_searched && field.search).map(|(position, _)| position)
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
    /// for each reference (so that a delete finds the rows that refer to the deleted one). Over the
    /// fields of a composite key there is a unique one.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Role, Schema, Table};
    /// let table = Table::new(Schema::new("user", vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("email", Kind::TEXT).unique(true)]))?;
    /// assert!(table.indexes()[0].unique);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn indexes(&self) -> Vec<Index> {
        let mut indexes = Vec::new();
        if self.has_composite_key() {
            indexes.push(Index::unique(self.schema.key_fields.clone()));
        }
        for (position, field) in self.fields().iter().enumerate() {
            let refers = matches!(field.kind, Kind::Reference { .. });
            // A plain index does not enforce uniqueness, and a partial one does not have all rows.
            let declared = |index: &Index| {
                *index.fields == [position]
                    && (index.unique || !field.unique)
                    && index.filter.is_none()
            };
            if position != self.key()
                && (field.unique || refers)
                && !self.schema.indexes.iter().any(declared)
            {
                indexes.push(Index { unique: field.unique, ..Index::new(vec![position]) });
            }
        }
        indexes.extend(self.schema.indexes.iter().cloned());
        indexes
    }
}
