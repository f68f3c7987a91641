//! The description of one field.

use std::borrow::Cow;

use crate::{Kind, Literal, Rule};

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
