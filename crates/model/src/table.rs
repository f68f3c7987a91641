//! Prepared schemas: checked, with an index of names, JSON keys and compiled rules. A table is made
//! when a schema is registered; engines, REST and clients share it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::rule::CompiledRule;
use crate::{
    Error, ErrorKind, Field, FieldSet, KeyKind, Kind, Result, Role, Schema, Value, ValueRef,
};

mod check;
mod shape;

pub(crate) use shape::{TableShape, hash_of};

/// A prepared schema.
#[derive(Debug)]
pub struct Table {
    schema: Schema,
    positions: HashMap<String, usize>,
    json_members: Vec<JsonMember>,
    rules: Vec<(usize, CompiledRule)>,
    typed_rules: Vec<usize>,
    defaults: Vec<Option<Value>>,
    key_kind: KeyKind,
    all: FieldSet,
    read_by_default: FieldSet,
    immutable: FieldSet,
    created_at: Option<usize>,
    updated_at: Option<usize>,
    version: Option<usize>,
    shape: Arc<TableShape>,
}

/// The text before a field's value in a row's JSON: `,"name":`.
#[derive(Debug)]
pub(crate) struct JsonMember {
    /// Padded with zeros if it is short.
    bytes: Box<[u8]>,
    length: usize,
    has_names: bool,
}

impl JsonMember {
    /// The number of bytes that are copied at once.
    pub(crate) const SHORT: usize = 32;

    fn of(field: &Field) -> Self {
        let mut bytes = vec![b','];
        bytes.extend_from_slice(&serde_json::to_vec(&field.name).unwrap_or_default());
        bytes.push(b':');
        let length = bytes.len();
        bytes.resize(length.max(Self::SHORT), 0);
        let has_names = matches!(field.kind, Kind::Enum { .. });
        Self { bytes: bytes.into(), length, has_names }
    }

    fn key(&self) -> &[u8] {
        &self.bytes[1..self.length]
    }

    /// Returns the number of its bytes, without the padding.
    #[inline(always)]
    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    /// Returns it padded with zeros, if it is short.
    #[inline(always)]
    pub(crate) fn short(&self) -> Option<&[u8; Self::SHORT]> {
        self.bytes.first_chunk().filter(|_| self.length <= Self::SHORT)
    }

    /// Returns true if integers of the field may represent names.
    #[inline(always)]
    pub(crate) const fn has_names(&self) -> bool {
        self.has_names
    }
}

impl Table {
    /// Checks and prepares a schema.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the table and field that are invalid, and the reason.
    pub fn new(schema: Schema) -> Result<Self> {
        check_names(&schema)?;
        let key_kind = check_key(&schema)?;
        let role = |role: Role| schema.fields.iter().position(|field| field.role == role);
        let (created_at, updated_at, version) =
            (role(Role::CreatedAt), role(Role::UpdatedAt), role(Role::Version));
        let mut table = Self {
            positions: HashMap::new(),
            json_members: Vec::with_capacity(schema.fields.len()),
            rules: Vec::new(),
            typed_rules: Vec::new(),
            defaults: Vec::with_capacity(schema.fields.len()),
            key_kind,
            all: FieldSet::first(schema.fields.len()),
            read_by_default: FieldSet::EMPTY,
            immutable: FieldSet::EMPTY,
            created_at,
            updated_at,
            version,
            shape: Arc::new(TableShape::of(&schema)),
            schema,
        };
        table.prepare_fields()?;
        table.check_indexes()?;
        Ok(table)
    }

    /// Returns the names and kinds of its fields, which filters store to identify the table.
    #[inline]
    pub(crate) const fn shape(&self) -> &Arc<TableShape> {
        &self.shape
    }

    fn prepare_fields(&mut self) -> Result<()> {
        for (position, field) in self.schema.fields.iter().enumerate() {
            self.positions.insert(field.name.to_string(), position);
            self.json_members.push(JsonMember::of(field));
            check_role(&self.schema, field)?;
            if field.search && !matches!(field.kind, Kind::Text { .. }) {
                let kind = field.kind.name();
                let why = format!("only texts have words to search for, and it is {kind}");
                return Err(refuse(&self.schema, Some(field), &why));
            }
            if field.immutable {
                if field.role != Role::Plain {
                    let why = "only a field without a role is immutable; the key and the times of \
                               inserts never change, other roles change with each write";
                    return Err(refuse(&self.schema, Some(field), why));
                }
                self.immutable = self.immutable.with(position);
            }
            if field.kind != Kind::Blob {
                self.read_by_default = self.read_by_default.with(position);
            }
            let default = match &field.default {
                None => None,
                Some(literal) => {
                    Some(crate::text::literal_value(field, literal).map_err(|why| {
                        refuse(&self.schema, Some(field), &format!("its default is {why}"))
                    })?)
                }
            };
            self.defaults.push(default);
            for rule in CompiledRule::of_field(field)
                .map_err(|why| refuse(&self.schema, Some(field), &why))?
            {
                if !rule.holds_by_type(field) {
                    self.typed_rules.push(self.rules.len());
                }
                self.rules.push((position, rule));
            }
        }
        Ok(())
    }

    fn check_indexes(&self) -> Result<()> {
        for index in self.schema.indexes.iter() {
            let known = index.fields.iter().all(|&field| field < self.schema.fields.len());
            if index.fields.is_empty() || !known {
                return Err(refuse(
                    &self.schema,
                    None,
                    "an index names no field, or one it has not",
                ));
            }
        }
        Ok(())
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
    pub fn unknown_field(&self, name: &str, value: &str) -> crate::Violation {
        let names: Vec<&str> = self.fields().iter().map(|field| &*field.name).collect();
        crate::Violation {
            field: crate::text::excerpt(name),
            value: crate::text::excerpt(value),
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
    pub fn indexes(&self) -> Vec<crate::Index> {
        let mut indexes = Vec::new();
        for (position, field) in self.fields().iter().enumerate() {
            let refers = matches!(field.kind, Kind::Reference { .. });
            // A plain index does not enforce uniqueness.
            let declared = |index: &crate::Index| {
                *index.fields == [position] && (index.unique || !field.unique)
            };
            if position != self.key()
                && (field.unique || refers)
                && !self.schema.indexes.iter().any(declared)
            {
                indexes.push(crate::Index { fields: vec![position].into(), unique: field.unique });
            }
        }
        indexes.extend(self.schema.indexes.iter().cloned());
        indexes
    }
}

fn refuse(schema: &Schema, field: Option<&Field>, why: &str) -> Error {
    let place = match field {
        Some(field) => format!("field `{}` of model `{}`", field.name, schema.name),
        None => format!("model `{}`", schema.name),
    };
    Error::new(ErrorKind::Invalid, format!("{place}: {why}"))
}

/// Checks that a name is safe in SQL, URLs and JSON: letters, digits and `_` only.
fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= 63
        && bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn check_names(schema: &Schema) -> Result<()> {
    let rule = "a name is 1 to 63 ASCII letters, digits or `_`, and starts with no digit";
    if !is_name(&schema.name) || schema.name.starts_with("sqlite_") {
        return Err(refuse(schema, None, &format!("{rule} (nor with `sqlite_`)")));
    }
    if schema.fields.len() > FieldSet::CAPACITY {
        let most = FieldSet::CAPACITY;
        return Err(refuse(schema, None, &format!("it has more than {most} fields; split it")));
    }
    for (position, field) in schema.fields.iter().enumerate() {
        if !is_name(&field.name) {
            return Err(refuse(schema, Some(field), rule));
        }
        let same = |other: &Field| other.name.eq_ignore_ascii_case(&field.name);
        if schema.fields[..position].iter().any(same) {
            return Err(refuse(schema, Some(field), "there are two fields of this name"));
        }
        if let Some(was) = &field.was {
            let taken = |other: &Field| other.name.eq_ignore_ascii_case(was);
            if !is_name(was) || schema.fields.iter().any(taken) {
                let why = format!("its `was` names a field that is there, or none: {was:?}");
                return Err(refuse(schema, Some(field), &why));
            }
        }
    }
    Ok(())
}

fn check_key(schema: &Schema) -> Result<KeyKind> {
    let Some(field) = schema.fields.get(schema.key) else {
        return Err(refuse(schema, None, "it has no key; give one field the role Key"));
    };
    if schema.fields.iter().filter(|field| field.role == Role::Key).count() != 1
        || field.role != Role::Key
    {
        return Err(refuse(schema, Some(field), "exactly one field has the role Key"));
    }
    if field.nullable {
        return Err(refuse(schema, Some(field), "a key cannot be NULL"));
    }
    match field.kind {
        Kind::Int { min: i64::MIN, max: i64::MAX } => Ok(KeyKind::Auto),
        Kind::Uuid => Ok(KeyKind::Uuid),
        Kind::Text { .. } => Ok(KeyKind::Text),
        _ => Err(refuse(schema, Some(field), "a key is i64, Uuid or text")),
    }
}

fn check_role(schema: &Schema, field: &Field) -> Result<()> {
    let fits = match field.role {
        Role::Plain | Role::Key => true,
        Role::CreatedAt | Role::UpdatedAt => field.kind == Kind::Timestamp && !field.nullable,
        Role::Version => field.kind == Kind::I64 && !field.nullable,
    };
    let once = field.role == Role::Plain
        || schema.fields.iter().filter(|other| other.role == field.role).count() == 1;
    match (fits, once) {
        (false, _) => Err(refuse(
            schema,
            Some(field),
            "created_at and updated_at are Timestamp, version is i64, and none is optional",
        )),
        (_, false) => Err(refuse(schema, Some(field), "two fields have this role")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> Field {
        Field::new("id", Kind::I64).role(Role::Key)
    }

    #[test]
    fn refuses_what_makes_no_sense_and_says_where() {
        let text = |name| Field::new(name, Kind::TEXT);
        for (schema, part) in [
            (Schema::new("a b", vec![id()]), "model `a b`"),
            (Schema::new("a", vec![text("x")]), "no key"),
            (Schema::new("a", vec![id(), text("x"), text("X")]), "field `X`"),
            (Schema::new("a", vec![id(), text("v").role(Role::Version)]), "version is i64"),
            (Schema::new("a", vec![id().nullable(true)]), "cannot be NULL"),
            (Schema::new("a", vec![id(), text("b").role(Role::Key)]), "exactly one"),
            (Schema::new("a", vec![id().immutable(true)]), "immutable"),
        ] {
            let error = Table::new(schema).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn blobs_are_not_read_by_default() {
        let fields = vec![id(), Field::new("photo", Kind::Blob)];
        let table = Table::new(Schema::new("a", fields)).unwrap();
        assert!(!table.read_by_default().contains(1));
        assert!(table.all().contains(1));
    }

    #[test]
    fn a_plain_index_does_not_stand_in_for_a_unique_one() {
        let fields = vec![id(), Field::new("email", Kind::TEXT).unique(true)];
        let plain = crate::Index { fields: vec![1].into(), unique: false };
        let unique = crate::Index { fields: vec![1].into(), unique: true };
        let table = |index: &crate::Index| {
            Table::new(Schema::new("a", fields.clone()).indexes(vec![index.clone()])).unwrap()
        };
        assert_eq!(table(&plain).indexes(), [unique.clone(), plain]);
        assert_eq!(table(&unique).indexes(), [unique]);
    }

    #[test]
    fn refuses_a_range_that_nothing_fits() {
        let range = crate::Rule::Range {
            min: Some(crate::Literal::Int(3)),
            max: Some(crate::Literal::Int(2)),
        };
        let schema = Schema::new("a", vec![id(), Field::new("b", Kind::I64).rules(vec![range])]);
        let error = Table::new(schema).unwrap_err();
        assert!(
            error.to_string().contains("field `b` of model `a`: range 3 to 2 fits none"),
            "{error}"
        );
    }
}
