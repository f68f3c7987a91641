//! Grants: rights on tables and methods, as data.

use marmota_model::{
    Caller, Error, ErrorKind, FieldSet, Filter, FilterExpr, Result, Table, asks_for_caller,
    parse_filter, parse_rule,
};
use serde::{Deserialize, Serialize};

use crate::rows::registry::Registry;

/// The prefix of Marmota's own tables. They are only granted by name.
pub const OWN_PREFIX: &str = "marmota_";

/// Returns true for one of Marmota's internal tables, which generic interfaces never expose.
///
/// ```
/// use marmota_model::{Field, Kind, Role, Schema, Table};
/// use marmota_store::rights::is_internal;
/// let table = |name| Table::new(Schema::new(name, vec![Field::new("id", Kind::I64).role(Role::Key)]));
/// assert!(is_internal(&table("marmota_user")?));
/// assert!(!is_internal(&table("note")?));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[must_use]
pub fn is_internal(table: &Table) -> bool {
    table.name().starts_with(OWN_PREFIX)
}

/// The prefix of a service's name in a grant.
pub(super) const SERVICE_PREFIX: &str = "service:";

/// A right on a table.
///
/// | right | permits | needs `read` as well |
/// |---|---|---|
/// | `read` | get, list, count | |
/// | `history` | entries of the row | yes |
/// | `insert` | insert; with a conflict action also `update` or `delete` of existing rows | |
/// | `update` | update, patch, increment | yes |
/// | `delete` | delete | yes |
/// | `refer` | values of references to the row | included in `read` |
/// | `call` | methods of services | |
///
/// ```
/// use marmota_store::rights::Right;
/// assert_eq!(Right::History.name(), "history");
/// assert!(!Right::ALL.contains(&Right::Call));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// To get, list and count rows.
    Read,
    /// To see the history of rows that may be read, including entries from before they could be.
    History,
    /// To insert.
    Insert,
    /// To update, patch and increment rows that may be read.
    Update,
    /// To delete rows that may be read.
    Delete,
    /// To refer to rows from other rows; the right to read a row includes it.
    Refer,
    /// To call methods of services ([`Grant::call`]); it does not apply to tables.
    Call,
}

impl Right {
    /// All rights that apply to a table.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::History, Self::Insert, Self::Update, Self::Delete, Self::Refer];

    /// Returns the right as one word, as in the JSON of a grant.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::History => "history",
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Refer => "refer",
            Self::Call => "call",
        }
    }
}

/// Rights on a table. As JSON:
/// `{"table":"note","rights":["read","update"],"rule":"owner = @user.id"}`. The members `fields` and
/// `except` limit it to some of the fields.
///
/// ```
/// use marmota_store::rights::{Grant, Right};
///
/// let own = Grant::new("note", &[Right::Read, Right::Update]).rule("owner = @user.id");
/// let json = serde_json::to_string(&own)?;
/// assert_eq!(json, r#"{"table":"note","rights":["read","update"],"rule":"owner = @user.id"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The table; `*` for all models of the program. For methods it is `service:` and the argument
    /// of [`Grant::call`].
    pub table: String,
    /// The rights.
    pub rights: Vec<Right>,
    /// The rule that selects rows; `None` for all rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The fields that the rights `read`, `history`, `insert` and `update` extend to; `None` for all
    /// fields but those of `except`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<String>>,
    /// The fields that these rights do not extend to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
}

impl Grant {
    /// Grants rights on all rows of a table, or of all models (`*`).
    ///
    /// `*` does not include Marmota's own tables ([`OWN_PREFIX`]). The grant is not checked here;
    /// see [`Grant::check`].
    ///
    /// ```
    /// use marmota_store::rights::{Grant, Right};
    /// let read_all = Grant::new("*", &[Right::Read]);
    /// assert_eq!(read_all.rule, None);
    /// ```
    #[must_use]
    pub fn new(table: impl Into<String>, rights: &[Right]) -> Self {
        let (table, rights) = (table.into(), rights.to_vec());
        Self { table, rights, rule: None, fields: None, except: Vec::new() }
    }

    /// Grants the right to call a method (`calculator.add`, `sum`), all methods of a service
    /// (`calculator`), or all methods (`*`).
    ///
    /// ```
    /// use marmota_store::rights::{Grant, Right};
    /// let grant = Grant::call("calculator.add");
    /// assert_eq!(grant.table, "service:calculator.add");
    /// assert_eq!(grant.rights, [Right::Call]);
    /// ```
    #[must_use]
    pub fn call(methods: &str) -> Self {
        Self::new(format!("{SERVICE_PREFIX}{methods}"), &[Right::Call])
    }

    /// Limits the grant to rows that match this rule.
    ///
    /// A rule is a filter as text, as in REST's `where`, which may compare fields with `@user.id`,
    /// `@user.name` and `@user.groups`. A second call replaces the first rule.
    ///
    /// ```
    /// use marmota_store::rights::{Grant, Right};
    /// let team = Grant::new("note", &[Right::Read]).rule("team in @user.groups");
    /// assert_eq!(team.rule.as_deref(), Some("team in @user.groups"));
    /// ```
    #[must_use]
    pub fn rule(mut self, rule: impl Into<String>) -> Self {
        self.rule = Some(rule.into());
        self
    }

    /// Limits the grant to these fields, and the key and the version of the row.
    ///
    /// It applies to the rights `read`, `history`, `insert` and `update`. Deletes and references
    /// concern whole rows. A second call replaces the first list.
    ///
    /// ```
    /// use marmota_store::rights::{Grant, Right};
    /// let grant = Grant::new("person", &[Right::Read]).fields(["name", "email"]);
    /// assert_eq!(grant.fields.unwrap(), ["name", "email"]);
    /// ```
    #[must_use]
    pub fn fields<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.fields = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Limits the grant to all fields but these. A second call replaces the first list.
    ///
    /// ```
    /// use marmota_memory::Memory;
    /// use marmota_model::{ErrorKind, Field, Kind, Record, Role, Schema};
    /// use marmota_store::Store;
    /// use marmota_store::rights::{Grant, Right, Rights};
    ///
    /// let fields = vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("name", Kind::TEXT),
    ///     Field::new("salary", Kind::I64).nullable(true),
    /// ];
    /// let store = Store::builder(Memory::new()).schema(Schema::new("person", fields)).open()?;
    /// let person = store.table("person")?;
    /// let mut row = Record::new(person.clone());
    /// row.set("name", "Ada")?;
    /// row.set("salary", 100)?;
    /// store.insert_record(&row).run()?;
    ///
    /// let grant = Grant::new("person", &[Right::Read]).except(["salary"]);
    /// let visitor = store.with_rights(Rights::new(store.registry(), None, &[grant])?);
    /// let ada = visitor.get_record(&person, 1).run()?;
    /// assert!(ada.value("salary")?.as_ref().is_absent());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn except<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.except = names.into_iter().map(Into::into).collect();
        self
    }

    /// Checks that the grant is valid for a store's tables.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an unknown table, [`ErrorKind::Invalid`] for an invalid rule.
    ///
    /// The rule has to be valid for each table of the grant, with `*` for all of them.
    ///
    /// ```
    /// use marmota_memory::Memory;
    /// use marmota_model::{ErrorKind, Field, Kind, Role, Schema};
    /// use marmota_store::Store;
    /// use marmota_store::rights::{Grant, Right};
    ///
    /// let note = Schema::new("note", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    /// let store = Store::builder(Memory::new()).schema(note).open()?;
    /// let grant = Grant::new("note", &[Right::Read]);
    /// grant.check(store.registry())?;
    /// let unknown = grant.rule("colour = 'red'").check(store.registry()).unwrap_err();
    /// assert_eq!(unknown.kind(), ErrorKind::Invalid);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn check(&self, registry: &Registry) -> Result<()> {
        let is_service = self.table.starts_with(SERVICE_PREFIX);
        let is_limited = self.rule.is_some() || self.limits_fields();
        if is_service && (self.rights != [Right::Call] || is_limited) {
            let message = format!(
                "`{}` can only grant the right `call`, without a rule and fields",
                self.table
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if is_service {
            return Ok(());
        }
        if self.rights.contains(&Right::Call) {
            let message = format!("`{}` is a table; `call` is for `service:NAME`", self.table);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if self.table != "*" {
            self.check_fields(registry.table(&self.table)?)?;
        } else if self.limits_fields() {
            let message = "a grant on `*` cannot have `fields` or `except`: the tables have \
                           different fields; write a grant for each table";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let Some(rule) = &self.rule else { return Ok(()) };
        let mut tables = registry.tables().iter().filter(|table| self.is_on(table));
        tables.try_for_each(|table| parse_rule(table, rule, &Caller::sample()).map(drop))
    }

    const fn limits_fields(&self) -> bool {
        self.fields.is_some() || !self.except.is_empty()
    }

    /// Checks the names of fields.
    fn check_fields(&self, table: &Table) -> Result<()> {
        if self.fields.is_some() && !self.except.is_empty() {
            let message = format!(
                "a grant on `{}` has both `fields` and `except`: use one of them",
                table.name()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        for name in self.fields.iter().flatten().chain(&self.except) {
            table.position(name)?;
        }
        let owned = [Some(table.key()), table.version()];
        let is_owned = |name: &&String| owned.contains(&table.find(name));
        if let Some(name) = self.except.iter().find(is_owned) {
            let message = format!(
                "`{name}` of `{}` cannot be excepted from a grant: the key and the version of a \
                 row identify what was read",
                table.name()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(())
    }

    /// Returns the fields of a table that the grant extends to.
    pub(super) fn fields_of(&self, table: &Table) -> FieldSet {
        let named = |names: &[String]| {
            names.iter().filter_map(|name| table.find(name)).collect::<FieldSet>()
        };
        let owned = [Some(table.key()), table.version()];
        match &self.fields {
            Some(fields) => owned.into_iter().flatten().fold(named(fields), FieldSet::with),
            None => named(&self.except).iter().fold(table.all(), FieldSet::without),
        }
    }

    /// Returns true if the grant applies to a table.
    pub(crate) fn is_on(&self, table: &Table) -> bool {
        self.table == table.name() || self.table == "*" && !table.name().starts_with(OWN_PREFIX)
    }

    /// Returns the filter of its rows: the inner `None` for all rows, the outer `None` if the rule
    /// needs a caller and the caller is anonymous.
    pub(crate) fn filter(
        &self,
        table: &Table,
        caller: Option<&Caller>,
    ) -> Result<Option<Option<FilterExpr>>> {
        let Some(rule) = &self.rule else { return Ok(Some(None)) };
        let made = |filter: Result<Filter>| Ok(Some(Some(filter?.into_expr_for(table)?)));
        match caller {
            Some(caller) => made(parse_rule(table, rule, caller)),
            // An anonymous caller may not be a value in any part of a rule: `not owner = …` would
            // give them access to everything.
            None if asks_for_caller(table, rule) => Ok(None),
            None => made(parse_filter(table, rule)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_json() {
        let json = r#"{"table":"note","rights":["read","refer"],"rule":"owner = @user.id"}"#;
        let grant: Grant = serde_json::from_str(json).unwrap();
        assert_eq!(grant.rights, [Right::Read, Right::Refer]);
        assert_eq!(serde_json::to_string(&grant).unwrap(), json);
        assert!(serde_json::from_str::<Grant>(r#"{"table":"x","rights":[],"rules":""}"#).is_err());
    }
}
