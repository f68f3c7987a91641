//! The schema of a table: its name, fields and indexes.

use std::borrow::Cow;

use crate::{Field, Kind, Relation, Role, SearchLanguage};

/// A model: a name, its fields in order, and its indexes.
///
/// A schema is independent of engines. [`crate::Table`] is its prepared form: checked, with an
/// index of names.
///
/// ```
/// use marmota_model::{Field, Index, Kind, Role, Schema};
/// let schema = Schema::new("seat", vec![
///     Field::new("id", Kind::I64).role(Role::Key),
///     Field::new("room", Kind::TEXT),
///     Field::new("number", Kind::I64),
/// ])
/// .indexes(vec![Index::unique(vec![1, 2])]);
/// assert_eq!((&*schema.name, schema.key), ("seat", 0));
/// ```
#[derive(Clone, Debug)]
pub struct Schema {
    /// The name of the table, and of the resource in REST: `person`.
    pub name: Cow<'static, str>,
    /// The fields, in the order of rows.
    pub fields: Cow<'static, [Field]>,
    /// Indexes over one or more fields, in addition to those of `unique` fields.
    pub indexes: Cow<'static, [Index]>,
    /// The position of the key field.
    pub key: usize,
    /// The positions of the fields that the key consists of ([`Schema::composite_key`]); empty if
    /// the key is a field like others.
    pub key_fields: Cow<'static, [usize]>,
    /// The previous name of the table: a table with that name is renamed, with its rows.
    pub was: Option<Cow<'static, str>>,
    /// True if every write to its rows adds an entry to the store's history.
    pub audit: bool,
    /// Names for paths to related rows.
    pub relations: Cow<'static, [Relation]>,
    /// The language of the searched fields: searches find other forms of a word.
    pub search_language: Option<SearchLanguage>,
}

/// An index over one or more fields, of all rows or of those that a filter selects.
///
/// An index with a filter is a partial index. A partial unique index refuses two rows with the same
/// values only if the filter selects both.
///
/// ```
/// use marmota_model::Index;
/// let by_room_and_number = Index::unique(vec![1, 2]);
/// assert_eq!(by_room_and_number.fields.len(), 2);
/// let free = Index::new(vec![1]).filter("guest = null");
/// assert!(!free.unique && free.filter.is_some());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// The positions of its fields, in order.
    pub fields: Cow<'static, [usize]>,
    /// True if no two rows may have the same values in all of them (rows with a NULL excepted).
    pub unique: bool,
    /// The filter of a partial index, as text; `None` for an index of all rows.
    pub filter: Option<Cow<'static, str>>,
}

impl Index {
    /// Creates an index over the fields at these positions.
    #[must_use]
    pub fn new(fields: impl Into<Cow<'static, [usize]>>) -> Self {
        Self { fields: fields.into(), unique: false, filter: None }
    }

    /// Creates a unique index over the fields at these positions.
    #[must_use]
    pub fn unique(fields: impl Into<Cow<'static, [usize]>>) -> Self {
        Self { unique: true, ..Self::new(fields) }
    }

    /// Limits the index to the rows that a filter selects, such as `deleted = null`.
    ///
    /// The filter compares fields of the table with constants by `=`, `!=`, `in` and `= null`, and
    /// numbers, dates and times by `<`, `<=`, `>` and `>=` too, combined by `and`, `or` and `not`.
    /// [`Table::new`] refuses other filters.
    ///
    /// [`Table::new`]: crate::Table::new
    ///
    /// ```
    /// use marmota_model::{Field, Index, Kind, Role, Schema, Table};
    /// let table = |filter: &'static str| {
    ///     let fields = vec![
    ///         Field::new("id", Kind::I64).role(Role::Key),
    ///         Field::new("email", Kind::TEXT),
    ///         Field::new("deleted", Kind::Timestamp).nullable(true),
    ///     ];
    ///     let index = Index::unique(vec![1]).filter(filter);
    ///     Table::new(Schema::new("person", fields).indexes(vec![index]))
    /// };
    /// assert!(table("deleted = null").is_ok());
    /// assert!(table("email ~ 'x'").is_err());
    /// ```
    #[must_use]
    pub fn filter(mut self, filter: impl Into<Cow<'static, str>>) -> Self {
        self.filter = Some(filter.into());
        self
    }
}

impl Schema {
    /// Creates a schema at run time: the fields in order; the first with [`Role::Key`] is the key
    /// (checked at the registration).
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Role, Schema, Table};
    /// let schema = Schema::new("city", vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("name", Kind::TEXT).unique(true),
    /// ]);
    /// assert!(Table::new(schema).is_ok());
    /// ```
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>, fields: Vec<Field>) -> Self {
        let key = fields.iter().position(|field| field.role == Role::Key).unwrap_or(usize::MAX);
        Self {
            name: name.into(),
            fields: fields.into(),
            indexes: Cow::Borrowed(&[]),
            key,
            key_fields: Cow::Borrowed(&[]),
            was: None,
            audit: false,
            relations: Cow::Borrowed(&[]),
            search_language: None,
        }
    }

    /// Makes a composite key: adds a field `name` with the text that names a row, such as
    /// `1,3402`. `fields` has the positions of the key's fields, in the order of the key.
    ///
    /// - The text has the values of the fields, with `,` between them. `%` and `,` inside of a value
    ///   are percent-encoded ([`key_text`](crate::key_text)). The store makes it for new rows.
    /// - The fields are required and immutable. Rows are listed in their order, not in that of the
    ///   text.
    /// - The fields are integers, texts, UUIDs, dates, enums that are stored as text, or references.
    /// - SQLite and PostgreSQL have a primary key over the columns, and no column for the text. Other
    ///   engines store the text.
    /// - No table can refer to it.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Schema, Table};
    /// let fields = vec![Field::new("playlist", Kind::I64), Field::new("track", Kind::I64)];
    /// let schema = Schema::new("playlist_track", fields).composite_key("key", vec![0, 1]);
    /// let table = Table::new(schema)?;
    /// assert_eq!((table.find("key"), table.key()), (Some(2), 2));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn composite_key(
        mut self,
        name: impl Into<Cow<'static, str>>,
        fields: impl Into<Cow<'static, [usize]>>,
    ) -> Self {
        let key = Field::named(name.into(), Kind::TEXT).role(Role::Key);
        self.key = self.fields.len();
        self.fields.to_mut().push(key);
        self.key_fields = fields.into();
        self
    }

    /// Returns the fields by which rows are ordered if nothing else orders them: the key, or the
    /// fields that it consists of.
    pub(crate) fn key_order(&self) -> &[usize] {
        match self.key_fields.is_empty() {
            true => std::slice::from_ref(&self.key),
            false => &self.key_fields,
        }
    }

    /// Sets the language of the searched fields, in which searches find other forms of a word.
    /// Default: `None`, searches find the words as written.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Role, Schema, SearchLanguage, Table};
    /// let schema = Schema::new("note", vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("text", Kind::TEXT).search(true),
    /// ])
    /// .search_language(Some(SearchLanguage::English));
    /// assert!(Table::new(schema).is_ok());
    /// ```
    #[must_use]
    pub const fn search_language(mut self, language: Option<SearchLanguage>) -> Self {
        self.search_language = language;
        self
    }

    /// Sets whether every write to its rows adds an entry to the store's history.
    /// Default: false.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Role, Schema};
    /// let id = Field::new("id", Kind::I64).role(Role::Key);
    /// assert!(Schema::new("invoice", vec![id]).audit(true).audit);
    /// ```
    #[must_use]
    pub const fn audit(mut self, audit: bool) -> Self {
        self.audit = audit;
        self
    }

    /// Sets the indexes.
    /// Unique fields and references have an index without being listed here ([`Table::indexes`]).
    ///
    /// [`Table::indexes`]: crate::Table::indexes
    ///
    /// ```
    /// use marmota_model::{Field, Index, Kind, Role, Schema};
    /// let fields = vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("born", Kind::Date),
    /// ];
    /// let by_birth = Index::new(vec![1]);
    /// let schema = Schema::new("person", fields).indexes(vec![by_birth]);
    /// assert_eq!(schema.indexes.len(), 1);
    /// ```
    #[must_use]
    pub fn indexes(mut self, indexes: Vec<Index>) -> Self {
        self.indexes = indexes.into();
        self
    }

    /// Sets the named relations.
    /// References, and tables that refer to this one, are relations without being listed here.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Relation, Role, Schema};
    /// let issue = Schema::new("issue", vec![Field::new("id", Kind::I64).role(Role::Key)])
    ///     .relations(vec![Relation::new("labels", "issue_label.label")]);
    /// assert_eq!(issue.relations.len(), 1);
    /// ```
    #[must_use]
    pub fn relations(mut self, relations: Vec<Relation>) -> Self {
        self.relations = relations.into();
        self
    }

    /// Sets the previous name of its table.
    /// When the store is opened, a table with that name is renamed and keeps its rows.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Role, Schema};
    /// let id = Field::new("id", Kind::I64).role(Role::Key);
    /// let schema = Schema::new("customer", vec![id]).was("client");
    /// assert_eq!(schema.was.as_deref(), Some("client"));
    /// ```
    #[must_use]
    pub fn was(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.was = Some(name.into());
        self
    }
}

/// Checks that a name is safe in SQL, URLs and JSON: letters, digits and `_` only.
pub(crate) fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= 63
        && bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
