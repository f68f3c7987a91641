//! The description of a model as plain data, made at compile time by `#[derive(Model)]` or at run
//! time by a program. SQL, JSON and routes are generated from it alone.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::{Currency, ValueRef};

mod kind_check;

pub(crate) use kind_check::{Broken, check_kind, has_nul};

/// A model: a name, its fields in order, and its indexes.
///
/// A schema is independent of engines. [`crate::Table`] is its prepared form: checked, with an
/// index of names.
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
    /// The previous name of the table: a table with that name is renamed, with its rows.
    pub was: Option<Cow<'static, str>>,
    /// True if every write to its rows adds an entry to the store's history.
    pub audit: bool,
}

/// One field of a model.
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
    /// The role of the field in the store.
    pub role: Role,
    /// The default value of new rows.
    pub default: Option<Literal>,
    /// Rules for its values, in addition to the kind.
    pub rules: Cow<'static, [Rule]>,
    /// The previous name of the column: a column with that name is renamed, with its values.
    pub was: Option<Cow<'static, str>>,
}

/// The kind of a field's values.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// True or false.
    Bool,
    /// An integer between the two ends, both included.
    Int {
        /// The lowest value.
        min: i64,
        /// The highest value.
        max: i64,
    },
    /// A 64-bit float; NaN and the infinities are refused.
    Float,
    /// An exact amount with four decimals.
    Currency,
    /// UTF-8 text without NUL characters.
    Text {
        /// The maximum number of characters (Unicode scalar values), or 0 for no limit.
        chars_max: u32,
        /// How texts compare and sort.
        collation: Collation,
    },
    /// Bytes; read only if the caller names the field.
    Blob,
    /// Any JSON value, stored as its text.
    Json,
    /// A calendar day.
    Date,
    /// A time of day.
    Time,
    /// A point in time, UTC, to the microsecond.
    Timestamp,
    /// A UUID.
    Uuid,
    /// One of a list of names.
    Enum {
        /// The names, with the number of each.
        variants: Cow<'static, [Variant]>,
        /// The form in which the engine stores it; JSON always contains the name.
        stored: EnumStored,
    },
    /// The key of a row of another model.
    Reference {
        /// The other model's table.
        table: Cow<'static, str>,
        /// The kind of its key.
        key: KeyKind,
    },
}

/// The rule by which texts compare, sort and are unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Collation {
    /// Byte by byte.
    #[default]
    Binary,
    /// Ignores the case of the letters A to Z.
    NoCase,
}

impl Collation {
    /// Returns the order of two values of one field; NULL first. [`Collation::NoCase`] compares
    /// texts as if all their letters were lower case.
    ///
    /// ```
    /// use std::cmp::Ordering;
    /// use marmota_model::{Collation, ValueRef};
    /// let (a, b) = (ValueRef::Text("Curie"), ValueRef::Text("curie"));
    /// assert_eq!(Collation::NoCase.order(a, b), Ordering::Equal);
    /// assert_eq!(Collation::Binary.order(a, b), Ordering::Less);
    /// ```
    #[inline]
    #[must_use]
    pub fn order(self, a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
        fn folded(text: &str) -> impl Iterator<Item = u8> {
            text.bytes().map(|byte| byte.to_ascii_lowercase())
        }
        match (self, a, b) {
            (Self::NoCase, ValueRef::Text(a), ValueRef::Text(b)) => folded(a).cmp(folded(b)),
            (_, a, b) => a.order(&b),
        }
    }
}

/// One of the names of an enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its name in JSON, and in the engine if stored as text.
    pub name: Cow<'static, str>,
    /// Its number in the engine, if stored as an integer.
    pub number: i64,
}

/// The form in which an engine stores an enum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EnumStored {
    /// As its name.
    #[default]
    Text,
    /// As its number.
    Integer,
}

/// The kinds of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// A positive 64-bit integer that the engine assigns.
    Auto,
    /// A UUID, version 7 (RFC 9562), that the store assigns.
    Uuid,
    /// A text that the caller assigns.
    Text,
}

/// The role of a field in the store.
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

/// A constant in a schema.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// NULL.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// An exact amount.
    Currency(Currency),
    /// A text, or the text form of a value of any other kind.
    Text(Cow<'static, str>),
}

impl Literal {
    /// Returns the constant as a row's value.
    #[must_use]
    pub fn value(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Bool(value) => ValueRef::Bool(*value),
            Self::Int(value) => ValueRef::Int(*value),
            Self::Float(value) => ValueRef::Float(*value),
            Self::Currency(value) => ValueRef::Currency(*value),
            Self::Text(value) => ValueRef::Text(value),
        }
    }
}

/// An index over one or more fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// The positions of its fields, in order.
    pub fields: Cow<'static, [usize]>,
    /// True if no two rows may have the same values in all of them (rows with a NULL excepted).
    pub unique: bool,
}

/// A rule for a field's values in addition to the kind. NULL satisfies every rule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Rule {
    /// A text or blob of at least one character that is not white space, or one byte.
    NotEmpty,
    /// A number of characters (text) or bytes (blob) between the two, both included.
    Length {
        /// The minimum.
        min: u32,
        /// The maximum.
        max: u32,
    },
    /// A value between the two, both included.
    Range {
        /// The minimum; `None` for no limit.
        min: Option<Literal>,
        /// The maximum; `None` for no limit.
        max: Option<Literal>,
    },
    /// A text that matches the regular expression as a whole.
    Pattern(Cow<'static, str>),
    /// An e-mail address (RFC 5321, with a domain).
    Email,
    /// A custom function; its error is the message for the caller.
    Check {
        /// The rule's name in errors.
        name: &'static str,
        /// Checks a value; the error describes the fault.
        check: fn(ValueRef<'_>) -> Result<(), String>,
    },
}

impl Kind {
    /// Any 64-bit integer.
    pub const I64: Self = Self::Int { min: i64::MIN, max: i64::MAX };
    /// Text of any length, compared byte by byte.
    pub const TEXT: Self = Self::Text { chars_max: 0, collation: Collation::Binary };

    /// Returns the kind in one word, for errors and tools.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Int { .. } => "integer",
            Self::Float => "float",
            Self::Currency => "currency",
            Self::Text { .. } => "text",
            Self::Blob => "blob",
            Self::Json => "json",
            Self::Date => "date",
            Self::Time => "time",
            Self::Timestamp => "timestamp",
            Self::Uuid => "uuid",
            Self::Enum { .. } => "enum",
            Self::Reference { .. } => "reference",
        }
    }

    /// Returns the collation of its texts; [`Collation::Binary`] for other kinds.
    #[must_use]
    pub const fn collation(&self) -> Collation {
        match self {
            Self::Text { collation, .. } => *collation,
            _ => Collation::Binary,
        }
    }

    /// Returns this text kind with a maximum number of characters and a collation; for code
    /// generated by `#[derive(Model)]`.
    ///
    /// # Panics
    /// If the kind is not text: at compile time, in a constant.
    #[must_use]
    pub const fn text_with(self, chars_max: u32, collation: Collation) -> Self {
        let is_text = matches!(self, Self::Text { .. });
        // A constant expression must not run a destructor; a text kind owns no memory.
        std::mem::forget(self);
        assert!(is_text, "`max` and `collate` are for text fields");
        Self::Text { chars_max, collation }
    }
}

impl KeyKind {
    /// Returns the kind of a field that contains such a key.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Auto => Kind::I64,
            Self::Uuid => Kind::Uuid,
            Self::Text => Kind::TEXT,
        }
    }
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
    #[must_use]
    pub const fn named(name: Cow<'static, str>, kind: Kind) -> Self {
        Self {
            name,
            kind,
            nullable: false,
            unique: false,
            search: false,
            immutable: false,
            role: Role::Plain,
            default: None,
            rules: Cow::Borrowed(&[]),
            was: None,
        }
    }

    /// Sets whether the field may be NULL.
    #[must_use]
    pub const fn nullable(mut self, nullable: bool) -> Self {
        self.nullable = nullable;
        self
    }

    /// Sets whether its values are unique.
    #[must_use]
    pub const fn unique(mut self, unique: bool) -> Self {
        self.unique = unique;
        self
    }

    /// Sets whether its words can be searched.
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

    /// Sets the role of the field in the store.
    #[must_use]
    pub const fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Sets the default value of new rows.
    #[must_use]
    pub fn default(mut self, default: Literal) -> Self {
        self.default = Some(default);
        self
    }

    /// Sets the rules for its values.
    #[must_use]
    pub fn rules(mut self, rules: impl Into<Cow<'static, [Rule]>>) -> Self {
        self.rules = rules.into();
        self
    }

    /// Sets the previous name of its column.
    #[must_use]
    pub fn was(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.was = Some(name.into());
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
            was: None,
            audit: false,
        }
    }

    /// Sets whether every write to its rows adds an entry to the store's history.
    #[must_use]
    pub const fn audit(mut self, audit: bool) -> Self {
        self.audit = audit;
        self
    }

    /// Sets the indexes.
    #[must_use]
    pub fn indexes(mut self, indexes: Vec<Index>) -> Self {
        self.indexes = indexes.into();
        self
    }

    /// Sets the previous name of its table.
    #[must_use]
    pub fn was(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.was = Some(name.into());
        self
    }
}
