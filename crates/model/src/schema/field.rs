//! The description of one field.

use std::borrow::Cow;

use crate::{Kind, Literal, OnDelete, Rule, Sanitizer};

/// One field of a model.
///
/// ```
/// use marmota_model::{Field, Kind, Literal, Rule};
/// let rating = Field::new("rating", Kind::I64)
///     .default(Literal::Int(3))
///     .rules(vec![Rule::Range { min: Some(Literal::Int(1)), max: Some(Literal::Int(5)) }]);
/// assert!(!rating.nullable && !rating.unique);
/// ```
#[derive(Clone, Debug)]
pub struct Field {
    /// The name of the column, and of the member in JSON.
    pub name: Cow<'static, str>,
    /// The kind of its values.
    pub kind: Kind,
    /// True if it may be NULL.
    pub nullable: bool,
    /// True if no two rows may hold the same value (NULLs excepted).
    pub unique: bool,
    /// True if its words can be searched; for texts.
    pub search: bool,
    /// True if its value may not change after the insert.
    pub immutable: bool,
    /// What happens to the row when the row that it refers to is deleted; for references.
    pub on_delete: OnDelete,
    /// The role of the field in the store.
    pub role: Role,
    /// The default value of new rows.
    pub default: Option<Literal>,
    /// The expression whose value new rows get by default.
    pub default_expression: Option<Cow<'static, str>>,
    /// The expression that determines its value in every write; for computed fields.
    pub computed: Option<Cow<'static, str>>,
    /// Changes to its texts before the rules are checked.
    pub sanitizers: Cow<'static, [Sanitizer]>,
    /// Rules for its values, in addition to the kind.
    pub rules: Cow<'static, [Rule]>,
    /// The previous name of the column: a column with that name is renamed, with its values.
    pub was: Option<Cow<'static, str>>,
}

/// The role of a field in the store.
///
/// A table has one field with [`Role::Key`], and at most one of each other role but `Plain`. The store
/// sets the values of the last three; a caller cannot.
///
/// ```
/// use marmota_model::{Field, Kind, Role, Schema, Table};
/// let table = Table::new(Schema::new("note", vec![
///     Field::new("id", Kind::I64).role(Role::Key),
///     Field::new("made", Kind::Timestamp).role(Role::CreatedAt),
///     Field::new("version", Kind::I64).role(Role::Version),
/// ]))?;
/// assert_eq!((table.key(), table.created_at(), table.version()), (0, Some(1), Some(2)));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// No role: only the caller sets the field.
    #[default]
    Plain,
    /// The row's key.
    Key,
    /// Set to the time of the insert.
    CreatedAt,
    /// Set to the time of the last write.
    UpdatedAt,
    /// 1 at the insert, incremented at each write; the basis of ETags and stale-write checks.
    Version,
}

impl Field {
    /// Creates a plain field that must have a value; the other methods change that.
    ///
    /// ```
    /// use marmota_model::{Field, Kind};
    /// const YEAR: Field = Field::new("year", Kind::I64).nullable(true);
    /// assert!(YEAR.nullable);
    /// ```
    #[must_use]
    pub const fn new(name: &'static str, kind: Kind) -> Self {
        Self::named(Cow::Borrowed(name), kind)
    }

    /// As [`Field::new`], with a name made at run time.
    ///
    /// ```
    /// use marmota_model::{Field, Kind};
    /// let fields: Vec<Field> = ["name", "city"]
    ///     .into_iter()
    ///     .map(|name| Field::named(format!("{name}_text").into(), Kind::TEXT))
    ///     .collect();
    /// assert_eq!(fields[1].name, "city_text");
    /// ```
    #[must_use]
    pub const fn named(name: Cow<'static, str>, kind: Kind) -> Self {
        Self {
            name,
            kind,
            nullable: false,
            unique: false,
            search: false,
            immutable: false,
            on_delete: OnDelete::Restrict,
            role: Role::Plain,
            default: None,
            default_expression: None,
            computed: None,
            sanitizers: Cow::Borrowed(&[]),
            rules: Cow::Borrowed(&[]),
            was: None,
        }
    }

    /// Sets whether the field may be NULL.
    /// Default: false.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Role, Schema, Table, ValueRef};
    /// let table = Table::new(Schema::new("person", vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("name", Kind::TEXT),
    ///     Field::new("died", Kind::Date).nullable(true),
    /// ]))?;
    /// assert!(table.validate(&[ValueRef::Int(1), ValueRef::Text("Ada"), ValueRef::Null]).is_ok());
    /// assert!(table.validate(&[ValueRef::Int(1), ValueRef::Null, ValueRef::Null]).is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub const fn nullable(mut self, nullable: bool) -> Self {
        self.nullable = nullable;
        self
    }

    /// Sets whether its values are unique.
    /// Default: false. Several rows may have NULL. Texts are compared under the field's collation.
    ///
    /// ```
    /// use marmota_model::{Field, Kind};
    /// assert!(Field::new("email", Kind::TEXT).unique(true).unique);
    /// ```
    #[must_use]
    pub const fn unique(mut self, unique: bool) -> Self {
        self.unique = unique;
        self
    }

    /// Sets whether its words can be searched.
    /// Default: false. Only texts can be searched.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Role, Schema, Table, parse_filter};
    /// let table = Table::new(Schema::new("note", vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("body", Kind::TEXT).search(true),
    /// ]))?;
    /// assert!(parse_filter(&table, "body @ 'alpine marmot*'").is_ok());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub const fn search(mut self, search: bool) -> Self {
        self.search = search;
        self
    }

    /// Sets whether its value is fixed after the insert. A write that changes it is refused with
    /// the rule `immutable`; a write of the same value is accepted.
    ///
    /// ```
    /// use marmota_model::{Field, Kind};
    /// const TEAM: Field = Field::new("team", Kind::I64).immutable(true);
    /// assert!(TEAM.immutable);
    /// ```
    #[must_use]
    pub const fn immutable(mut self, immutable: bool) -> Self {
        self.immutable = immutable;
        self
    }

    /// Sets what happens to the row when the row that the field refers to is deleted.
    /// Default: [`OnDelete::Restrict`], the delete is refused.
    ///
    /// [`OnDelete::SetNull`] needs a field that may be NULL.
    ///
    /// ```
    /// use marmota_model::{Field, KeyKind, Kind, OnDelete, Role, Schema, Table};
    /// let issue = Kind::Reference { table: "issue".into(), key: KeyKind::Auto };
    /// let comment = |issue: Field| {
    ///     Table::new(Schema::new("comment", vec![Field::new("id", Kind::I64).role(Role::Key), issue]))
    /// };
    /// assert!(comment(Field::new("issue", issue.clone()).on_delete(OnDelete::Cascade)).is_ok());
    /// assert!(comment(Field::new("issue", issue).on_delete(OnDelete::SetNull)).is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub const fn on_delete(mut self, on_delete: OnDelete) -> Self {
        self.on_delete = on_delete;
        self
    }

    /// Sets the role of the field in the store.
    /// Default: [`Role::Plain`].
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Role};
    /// const ID: Field = Field::new("id", Kind::Uuid).role(Role::Key);
    /// assert_eq!(ID.role, Role::Key);
    /// ```
    #[must_use]
    pub const fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Sets the default value of new rows.
    /// A text is parsed as the field's kind, so that every kind can have a default.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Literal, Role, Schema, Table, Value};
    /// let table = Table::new(Schema::new("task", vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("due", Kind::Date).default(Literal::Text("2026-12-31".into())),
    /// ]))?;
    /// assert_eq!(table.default(1).map(|due| due.to_value()), Some(Value::Date("2026-12-31".parse()?)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn default(mut self, default: Literal) -> Self {
        self.default = Some(default);
        self
    }

    /// Sets the expression whose value a new row gets if it has none for the field. The store
    /// evaluates it when the row is inserted.
    ///
    /// | part | value |
    /// |---|---|
    /// | `'text'`, `7`, `2.5`, `true`, `null` | a constant |
    /// | `name` | the value of another field of the row |
    /// | `@now`, `@today` | the time of the write; its date in UTC |
    /// | `@user.id`, `@user.name` | the caller's key and name; null for anonymous callers and without rights |
    /// | `uuid_v4()`, `uuid_v7()` | a new UUID |
    /// | `token(32)` | a random text of 32 letters, digits, `-` and `_` (6 bits each) |
    /// | `lower(a)`, `upper(a)`, `trim(a)` | the changed text |
    /// | `slug(a)` | the words of a text in lower case, joined by `-` |
    /// | `length(a)` | the number of characters of a text |
    /// | `text(a)` | the text form of a value |
    /// | `coalesce(a, b, …)` | the first value that is not null |
    /// | `key(a, b, …)` | the text of a [composite key](crate::key_text), made of fields |
    /// | `a + b` | a sum; the joined texts; a date some days later |
    /// | `a - b`, `a * b`, `a / b` | the result on numbers; days before a date, or between two |
    ///
    /// - A part that is null makes the result null, except in `coalesce`. A field that is not
    ///   nullable is then required.
    /// - `/` of integers truncates. Amounts are rounded to four decimals, halves away from zero. A
    ///   result out of range and a division by zero are errors that name the field.
    /// - [`Field::default`] stays the value of rows that exist when the column is added.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Role, Schema, Table};
    /// let table = |expression: &'static str| {
    ///     Table::new(Schema::new("note", vec![
    ///         Field::new("id", Kind::I64).role(Role::Key),
    ///         Field::new("title", Kind::TEXT),
    ///         Field::new("slug", Kind::TEXT).default_expression(expression),
    ///     ]))
    /// };
    /// assert!(table("slug(title) + '-' + token(6)").is_ok());
    /// assert!(table("slug(titel)").unwrap_err().to_string().contains("not a field of `note`"));
    /// assert!(table("length(title)").unwrap_err().to_string().contains("is integer"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn default_expression(mut self, expression: impl Into<Cow<'static, str>>) -> Self {
        self.default_expression = Some(expression.into());
        self
    }

    /// Makes it a computed field: its value is that of an expression over the other fields of the
    /// row. The store computes it in every write of the row except raw SQL, and keeps it in the row,
    /// so filters, orders, indexes and searches can use it.
    ///
    /// - The expression is one of [`Field::default_expression`] without the time, the caller and
    ///   random values. It may use other computed fields, but not the version, the updated-at field
    ///   and a key that the engine generates.
    /// - A caller may leave the field out or send the value that the store computes; another value
    ///   is refused with the rule `computed`.
    /// - A new expression is evaluated for the stored rows when the store is opened.
    /// - A reference is computed if it refers to a table with a composite key: its expression is
    ///   `key(a, b)`, of the fields with the values of that key, in its order. It may be NULL if one
    ///   of them may be. SQLite and PostgreSQL have a foreign key of these fields, and no column for
    ///   the reference.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Role, Schema, Table};
    /// let table = |expression: &'static str| {
    ///     Table::new(Schema::new("item", vec![
    ///         Field::new("id", Kind::I64).role(Role::Key),
    ///         Field::new("price", Kind::Currency),
    ///         Field::new("count", Kind::I64),
    ///         Field::new("total", Kind::Currency).computed(expression),
    ///     ]))
    /// };
    /// assert!(table("price * count").is_ok());
    /// assert!(table("total + 1").unwrap_err().to_string().contains("uses its own value"));
    /// ```
    #[must_use]
    pub fn computed(mut self, expression: impl Into<Cow<'static, str>>) -> Self {
        self.computed = Some(expression.into());
        self
    }

    /// Sets the changes to its texts, in their order, before the rules are checked.
    /// They apply to every write except raw SQL; filters and stored rows are not changed.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Sanitizer};
    /// let code = Field::new("code", Kind::TEXT).sanitizers(vec![Sanitizer::Upper]);
    /// assert_eq!(*code.sanitizers, [Sanitizer::Upper]);
    /// ```
    #[must_use]
    pub fn sanitizers(mut self, sanitizers: impl Into<Cow<'static, [Sanitizer]>>) -> Self {
        self.sanitizers = sanitizers.into();
        self
    }

    /// Sets the rules for its values.
    /// They are checked in their order; the first that is broken is reported.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Rule};
    /// let email = Field::new("email", Kind::TEXT).rules(vec![Rule::NotEmpty, Rule::Email]);
    /// assert_eq!(email.rules.len(), 2);
    /// ```
    #[must_use]
    pub fn rules(mut self, rules: impl Into<Cow<'static, [Rule]>>) -> Self {
        self.rules = rules.into();
        self
    }

    /// Sets the previous name of its column.
    /// When the store is opened, a column with that name is renamed and keeps its values.
    ///
    /// ```
    /// use marmota_model::{Field, Kind};
    /// let field = Field::new("family_name", Kind::TEXT).was("last_name");
    /// assert_eq!(field.was.as_deref(), Some("last_name"));
    /// ```
    #[must_use]
    pub fn was(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.was = Some(name.into());
        self
    }
}
