//! The structure of an application file, for serde and for its JSON Schema.
//!
//! The doc comments of this file are the descriptions that editors show.

use std::fmt;

use indexmap::IndexMap;
use marmota_store::rights::Grant;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize as DeriveDeserialize, Serialize};

use crate::scalar::Scalar;
use crate::webhook::WebhookDocument;

/// An application: its tables, and the rights of groups of users.
#[derive(Clone, Debug, Default, DeriveDeserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Marmota application")]
pub(crate) struct AppDocument {
    /// The tables, by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub(crate) tables: IndexMap<String, TableDocument>,
    /// The groups of users, by name. `everyone` and `anonymous` are groups too.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub(crate) groups: IndexMap<String, GroupDocument>,
    /// The webhooks, by name: URLs that get the changes of a table.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub(crate) webhooks: IndexMap<String, WebhookDocument>,
}

/// A table.
#[derive(Clone, Debug, DeriveDeserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableDocument {
    /// The previous name of the table, which is renamed and keeps its rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) was: Option<String>,
    /// True if every write adds an entry to the history. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) audit: bool,
    /// The language of the searched fields: searches find other forms of a word, such as `running`
    /// for `run`. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) search_language: Option<LanguageName>,
    /// The time after an authentication in which users may write, such as `5m`: `s`, `m` or `h`. After
    /// it they authenticate again. Default: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) step_up: Option<String>,
    /// True if the table has a row for each user, with fields of users that are the application's own. It
    /// has the field `user`, a unique integer that is not null. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) profile: bool,
    /// Indexes over one or more fields, in addition to those of `unique` and `index` fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) indexes: Vec<IndexDocument>,
    /// Names for paths to related rows: `labels = "issue_label.label"`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub(crate) relations: IndexMap<String, String>,
    /// The fields, by name, in the order of rows. One of them has the role `key`.
    pub(crate) fields: IndexMap<String, FieldDocument>,
}

/// An index.
#[derive(Clone, Debug, DeriveDeserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IndexDocument {
    /// The names of its fields, in order.
    pub(crate) fields: Vec<String>,
    /// True if no two rows may have the same values in all of them. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) unique: bool,
    /// A filter: the index has only the rows that it selects, such as `deleted = null`.
    /// Default: all rows.
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    pub(crate) filter: Option<String>,
}

/// A group of users.
#[derive(Clone, Debug, Default, DeriveDeserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupDocument {
    /// The rights of its members.
    #[serde(default)]
    #[schemars(schema_with = "grants_schema")]
    pub(crate) grants: Vec<Grant>,
}

/// The name of a kind of values.
#[derive(Clone, Copy, Debug, DeriveDeserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum KindName {
    Boolean,
    Integer,
    Float,
    Currency,
    Text,
    Blob,
    Json,
    Date,
    Time,
    Timestamp,
    Uuid,
    Vector,
    Enum,
    Reference,
    File,
}

/// The role of a field in the store.
#[derive(Clone, Copy, Debug, DeriveDeserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RoleName {
    /// The row's key.
    Key,
    /// Set to the time of the insert.
    CreatedAt,
    /// Set to the time of the last write.
    UpdatedAt,
    /// 1 at the insert, incremented at each write.
    Version,
}

/// What a delete of a row does to rows that refer to it.
#[derive(Clone, Copy, Debug, DeriveDeserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnDeleteName {
    /// It is refused.
    Restrict,
    /// They are deleted too.
    Cascade,
    /// Their reference becomes NULL.
    SetNull,
}

/// A language in which searches find other forms of a word.
#[derive(Clone, Copy, Debug, DeriveDeserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LanguageName {
    /// English.
    English,
}

/// How texts compare.
#[derive(Clone, Copy, Debug, DeriveDeserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CollationName {
    /// Byte by byte.
    Binary,
    /// Ignores the case of the letters A to Z.
    NoCase,
}

/// The form in which an enum is stored.
#[derive(Clone, Copy, Debug, DeriveDeserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StoredName {
    /// As its name.
    Text,
    /// As its number.
    Integer,
}

/// A change to texts before their rules are checked.
#[derive(Clone, Copy, Debug, DeriveDeserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SanitizerName {
    /// Removes white space from the start and the end.
    Trim,
    /// Replaces each run of white space by one space.
    CollapseSpaces,
    /// Converts to lower case.
    Lower,
    /// Converts to upper case.
    Upper,
}

/// A class of characters.
#[derive(Clone, Copy, Debug, DeriveDeserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ClassName {
    Letters,
    Lower,
    Upper,
    Digits,
    Punctuation,
    Spaces,
}

/// A number of characters or bytes, both ends included.
#[derive(Clone, Copy, Debug, DeriveDeserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LengthDocument {
    /// Default: 0.
    #[serde(default)]
    pub(crate) min: u32,
    /// Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<u32>,
}

/// A range of values, both ends included.
#[derive(Clone, Debug, DeriveDeserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RangeDocument {
    /// Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) min: Option<Scalar>,
    /// Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<Scalar>,
}

/// A number of characters of a class, both ends included.
#[derive(Clone, Copy, Debug, DeriveDeserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CountDocument {
    /// The class.
    pub(crate) class: ClassName,
    /// Default: 0.
    #[serde(default)]
    pub(crate) min: u32,
    /// Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<u32>,
}

/// A field.
#[derive(Clone, Debug, DeriveDeserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FieldDetails {
    /// The kind of its values.
    pub(crate) kind: KindName,
    /// The role of the field in the store. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<RoleName>,
    /// For the key: the fields that a composite key consists of, in order. Default: none, the key is
    /// a field like others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) of: Vec<String>,
    /// For `reference`: the table that it refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) table: Option<String>,
    /// For `reference`: what a delete of the row that it refers to does. Default: `restrict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) on_delete: Option<OnDeleteName>,
    /// For `enum`: the names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) values: Option<Vec<String>>,
    /// For `enum`: the form in which it is stored. Default: `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stored: Option<StoredName>,
    /// For `integer`: the lowest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) min: Option<i64>,
    /// For `integer`: the highest value. For `text`: the maximum number of characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<i64>,
    /// For `text`: how texts compare. Default: `binary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) collate: Option<CollationName>,
    /// For `vector`: the number of floats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dimensions: Option<u32>,
    /// For `file`: the maximum size in bytes. Default: 10 MB (10,000,000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_max: Option<u64>,
    /// For `file`: the media types that are accepted, such as `image/*`. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) types: Vec<String>,
    /// True if it may be NULL. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) nullable: bool,
    /// True if no two rows may have the same value. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) unique: bool,
    /// True if it has an index of its own. Default: false; `unique` fields and references have one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) index: bool,
    /// True if its words can be searched; for texts. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) search: bool,
    /// True if it may not change after the insert. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) immutable: bool,
    /// The value of new rows that do not have the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) default: Option<Scalar>,
    /// The expression that the store evaluates for new rows that do not have the field: `@now`,
    /// `@today`, `@user.id`, `uuid_v7()`, `token(32)`, `slug(title)`. `default` is then the value
    /// of rows that exist when the field is added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) default_expression: Option<String>,
    /// The expression over other fields that the store computes in every write: `price * count`.
    /// Callers cannot write the field. For a computed field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) computed: Option<String>,
    /// The SQL expression by which the database computes the values: `price * count`. `true` for a
    /// generated column that the database has. Callers cannot write the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "generated_schema")]
    pub(crate) generated: Option<Scalar>,
    /// The previous name of the field, which is renamed and keeps its values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) was: Option<String>,
    /// Changes to texts before their rules are checked, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sanitizers: Vec<SanitizerName>,
    /// Rule: at least one character that is not white space, or one byte.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) not_empty: bool,
    /// Rule: the number of characters of a text, or of bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) length: Option<LengthDocument>,
    /// Rule: the values between two ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) range: Option<RangeDocument>,
    /// Rule: a regular expression that the whole text matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pattern: Option<String>,
    /// Rule: an e-mail address.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) email: bool,
    /// Rule: a URL of the web.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) url: bool,
    /// Rule: an IP address.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) ip: bool,
    /// Rules: numbers of characters of a class, such as at least one digit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) count: Vec<CountDocument>,
}

impl FieldDetails {
    /// Returns a field with nothing but a kind.
    pub(crate) const fn new(kind: KindName) -> Self {
        Self {
            kind,
            role: None,
            of: Vec::new(),
            table: None,
            on_delete: None,
            values: None,
            stored: None,
            min: None,
            max: None,
            collate: None,
            dimensions: None,
            bytes_max: None,
            types: Vec::new(),
            nullable: false,
            unique: false,
            index: false,
            search: false,
            immutable: false,
            default: None,
            default_expression: None,
            computed: None,
            generated: None,
            was: None,
            sanitizers: Vec::new(),
            not_empty: false,
            length: None,
            range: None,
            pattern: None,
            email: false,
            url: false,
            ip: false,
            count: Vec::new(),
        }
    }
}

/// A field: its details, or only the name of its kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldDocument(pub(crate) FieldDetails);

impl Serialize for FieldDocument {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 == FieldDetails::new(self.0.kind) {
            return self.0.kind.serialize(serializer);
        }
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FieldDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor)
    }
}

/// Reads both forms of a field. An untagged enum could not name the key at fault.
struct FieldVisitor;

impl<'de> Visitor<'de> for FieldVisitor {
    type Value = FieldDocument;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a kind, such as \"text\", or a table with `kind` and other keys")
    }

    fn visit_str<E: Error>(self, kind: &str) -> Result<FieldDocument, E> {
        let kind = KindName::deserialize(kind.into_deserializer())?;
        Ok(FieldDocument(FieldDetails::new(kind)))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<FieldDocument, A::Error> {
        FieldDetails::deserialize(MapAccessDeserializer::new(map)).map(FieldDocument)
    }
}

impl JsonSchema for FieldDocument {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Field".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let kind = generator.subschema_for::<KindName>();
        let details = generator.subschema_for::<FieldDetails>();
        json_schema!({ "anyOf": [kind, details] })
    }
}

/// The schema of `generated`: `true`, or an expression.
fn generated_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["boolean", "string"] })
}

/// Returns the schema of grants, which the crate of stores reads and writes.
fn grants_schema(_: &mut SchemaGenerator) -> Schema {
    let rights: Vec<&str> = marmota_store::rights::Right::ALL
        .iter()
        .chain([&marmota_store::rights::Right::Call])
        .map(|right| right.name())
        .collect();
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "additionalProperties": false,
            "required": ["table", "rights"],
            "properties": {
                "table": {
                    "type": "string",
                    "description": "The table; `*` for all tables, `service:NAME` for methods."
                },
                "rights": { "type": "array", "items": { "enum": rights } },
                "rule": {
                    "type": "string",
                    "description": "A filter that selects the rows: `owner = @user.id`."
                },
                "fields": {
                    "type": "array",
                    "items": { "type": "string" },
                    "description": "The fields to which the rights extend. Default: all."
                },
                "except": {
                    "type": "array",
                    "items": { "type": "string" },
                    "description": "The fields to which the rights do not extend."
                }
            }
        }
    })
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}
