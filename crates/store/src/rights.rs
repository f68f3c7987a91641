//! The rights of a caller, checked at the one point that all operations pass. A scope with rights
//! ([`crate::Store::with_rights`]) refuses or narrows each operation, independent of its origin
//! (verbs, batches, transactions, REST, reads from the cache). This module does not authenticate
//! callers, nor does it store grants.
//!
//! - A right applies to a table and a verb, optionally only to rows that match a rule: a filter,
//!   which may compare with `@user.id`, `@user.name` and `@user.groups`. One of several grants is
//!   enough.
//! - A row that the caller may not read does not exist for them: a get, a write or a reference to
//!   it is answered as if the row were missing. A write to a row that may only be read is refused
//!   as [`ErrorKind::Denied`].
//! - The new row of a write has to match the rule that allows the write.
//! - A database cannot hide that a unique value is taken (but never by which row), and that a row
//!   cannot be deleted because something refers to it (but never what).
//!
//! Raw SQL is refused, because no rule applies to it.

mod access;
mod exposure;
mod guard;
mod narrow;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use marmota_model::{
    Caller, Error, ErrorKind, Filter, FilterExpr, Result, Table, asks_for_caller, parse_filter,
    parse_rule,
};
use serde::{Deserialize, Serialize};

use crate::history::{HISTORY_TABLE, History};
use crate::registry::Registry;
use access::Access;
pub(crate) use access::TableRights;
pub use exposure::is_internal;
pub(crate) use guard::Checks;
pub(crate) use narrow::HistoryOf;

/// The prefix of Marmota's own tables. They are only granted by name.
pub const OWN_PREFIX: &str = "marmota_";

/// The prefix of a service's name in a grant.
const SERVICE_PREFIX: &str = "service:";

/// A right on a table.
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
/// `{"table":"note","rights":["read","update"],"rule":"owner = @user.id"}`.
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
}

impl Grant {
    /// Grants rights on all rows of a table, or of all models (`*`).
    #[must_use]
    pub fn new(table: impl Into<String>, rights: &[Right]) -> Self {
        Self { table: table.into(), rights: rights.to_vec(), rule: None }
    }

    /// Grants the right to call a method (`calculator.add`, `sum`), all methods of a service
    /// (`calculator`), or all methods (`*`).
    #[must_use]
    pub fn call(methods: &str) -> Self {
        Self::new(format!("{SERVICE_PREFIX}{methods}"), &[Right::Call])
    }

    /// Limits the grant to rows that match this rule.
    #[must_use]
    pub fn rule(mut self, rule: impl Into<String>) -> Self {
        self.rule = Some(rule.into());
        self
    }

    /// Checks that the grant is valid for a store's tables.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an unknown table, [`ErrorKind::Invalid`] for an invalid rule.
    pub fn check(&self, registry: &Registry) -> Result<()> {
        let is_service = self.table.starts_with(SERVICE_PREFIX);
        if is_service && (self.rights != [Right::Call] || self.rule.is_some()) {
            let message = format!("`{}` gives the right `call` alone, without a rule", self.table);
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
            registry.table(&self.table)?;
        }
        let Some(rule) = &self.rule else { return Ok(()) };
        let mut tables = registry.tables().iter().filter(|table| self.is_on(table));
        tables.try_for_each(|table| parse_rule(table, rule, &Caller::sample()).map(drop))
    }

    fn is_on(&self, table: &Table) -> bool {
        self.table == table.name() || self.table == "*" && !table.name().starts_with(OWN_PREFIX)
    }

    /// Returns the filter of its rows: the inner `None` for all rows, the outer `None` if the rule
    /// needs a caller and the caller is anonymous.
    fn filter(&self, table: &Table, caller: Option<&Caller>) -> Result<Option<Option<FilterExpr>>> {
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

/// The rights of one caller on a store's tables; see the module's documentation.
pub struct Rights {
    caller: Option<Caller>,
    tables: Vec<TableRights>,
    /// The index of each table, by its address.
    numbers: HashMap<usize, usize>,
    /// The methods that may be called, as in the grants.
    calls: Vec<Box<str>>,
    /// The number of these rights, which is unique.
    number: u64,
}

impl std::fmt::Debug for Rights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rights of {}", self.caller_name())
    }
}

impl Rights {
    /// Makes a caller's rights from grants. An anonymous caller (`None`) gets nothing from grants
    /// with `@user` in their rule.
    ///
    /// ```
    /// use marmota_model::{Caller, Field, Kind, Record, Role, Schema};
    /// use marmota_memory::Memory;
    /// use marmota_store::rights::{Grant, Right, Rights};
    /// use marmota_store::Store;
    ///
    /// let fields =
    ///     vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("owner", Kind::I64)];
    /// let store = Store::builder(Memory::new()).schema(Schema::new("note", fields)).open()?;
    /// let note = store.table("note")?;
    /// for owner in [7, 8] {
    ///     let mut row = Record::new(note.clone());
    ///     row.set("owner", owner)?;
    ///     store.insert_record(&row).run()?;
    /// }
    /// let ann = Caller { id: "7".into(), name: "ann".into(), groups: vec![] };
    /// let own = Grant::new("note", &Right::ALL).rule("owner = @user.id");
    /// let rights = Rights::new(store.registry(), Some(ann), &[own])?;
    /// let hers = store.with_rights(rights);
    /// assert_eq!(hers.list_records(&note).run()?.len(), 1);
    /// assert!(hers.get_record(&note, 2).run().is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Grant::check`]; [`ErrorKind::Invalid`] for a caller whose id cannot be a value of
    /// the field that a rule compares it with.
    pub fn new(registry: &Registry, caller: Option<Caller>, grants: &[Grant]) -> Result<Arc<Self>> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        grants.iter().try_for_each(|grant| grant.check(registry))?;
        let mut tables = Vec::with_capacity(registry.tables().len());
        for table in registry.tables() {
            let mut granted = Vec::new();
            for grant in grants.iter().filter(|grant| grant.is_on(table)) {
                if let Some(filter) = grant.filter(table, caller.as_ref())? {
                    granted.push((&*grant.rights, filter));
                }
            }
            tables.push(TableRights::new(table, &granted));
        }
        access::settle_references(&mut tables);
        settle_history(&mut tables);
        let place = |table: &TableRights| Arc::as_ptr(&table.table) as usize;
        let numbers = tables.iter().map(place).zip(0..).collect();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let calls = grants.iter().filter_map(|grant| grant.table.strip_prefix(SERVICE_PREFIX));
        let calls = calls.map(Box::from).collect();
        Ok(Arc::new(Self { caller, tables, numbers, calls, number }))
    }

    /// Returns the caller; `None` for an anonymous one.
    #[must_use]
    pub const fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    /// Returns true if the caller has this right for at least some rows of a table.
    #[must_use]
    pub fn allow(&self, table: &Table, right: Right) -> bool {
        self.of(table).is_ok_and(|rights| !matches!(rights.access(right), Access::Denied))
    }

    /// Checks that a call of a service's method was granted ([`Grant::call`]); for a single
    /// function, the service is the function's name.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], or [`ErrorKind::Unauthenticated`] for an anonymous caller.
    pub fn check_call(&self, service: &str, method: Option<&str>) -> Result<()> {
        let is_it = |granted: &str| match granted.split_once('.') {
            None => granted == "*" || granted == service,
            Some((of, one)) => of == service && Some(one) == method,
        };
        if self.calls.iter().any(|granted| is_it(granted)) {
            return Ok(());
        }
        let who = self.caller_name();
        let dot = if method.is_some() { "." } else { "" };
        let message = format!("{who} may not call {service}{dot}{}", method.unwrap_or_default());
        Err(Error::new(self.refusal(), message))
    }

    /// Returns a number that two callers share only if both may read all rows of a table; `None` if
    /// the rows of the table alone do not determine what the caller may read.
    pub(crate) fn read_number(&self, table: &Table) -> Option<u64> {
        match &self.of(table).ok()?.read {
            Access::All => Some(0),
            Access::Where(_) if table.name() != HISTORY_TABLE => Some(self.number),
            _ => None,
        }
    }

    /// Returns a key that identifies the caller, for data that is stored for each caller.
    pub(crate) fn caller_key(&self) -> String {
        self.caller.as_ref().map_or_else(String::new, |caller| format!("user {}", caller.id))
    }

    pub(crate) fn caller_name(&self) -> &str {
        self.caller.as_ref().map_or("nobody", |caller| &caller.name)
    }

    /// Returns the rights on a table.
    pub(crate) fn of(&self, table: &Table) -> Result<&TableRights> {
        let number = self.numbers.get(&(std::ptr::from_ref(table) as usize));
        number.map(|&number| &self.tables[number]).ok_or_else(|| {
            let name = table.name();
            let message = format!("`{name}` is no table of this store's; take it from the store");
            Error::new(ErrorKind::Denied, message)
        })
    }

    #[cold]
    fn denied(&self, right: Right, table: &Table) -> Error {
        let (who, what) = (self.caller_name(), right.name());
        let message = match right {
            Right::Read => format!("{who} may not read `{}`", table.name()),
            _ => format!("{who} may not {what} rows of `{}`", table.name()),
        };
        Error::new(self.refusal(), message)
    }

    /// Returns the kind of a refusal: an anonymous caller could be allowed after a login.
    fn refusal(&self) -> ErrorKind {
        if self.caller.is_some() { ErrorKind::Denied } else { ErrorKind::Unauthenticated }
    }

    /// The error for a new row that the caller may not write.
    #[cold]
    fn unsuitable(&self, table: &Table) -> Error {
        let who = self.caller_name();
        let message = format!("{who} may not write such a row of `{}`", table.name());
        Error::new(self.refusal(), message)
    }
}

/// Makes the entries of the history visible to callers with the right to them, table by table,
/// unless the history as such is granted.
fn settle_history(tables: &mut [TableRights]) {
    let open = |table: &&TableRights| matches!(table.history, Access::All);
    let names: Vec<String> =
        tables.iter().filter(open).map(|table| table.table.name().to_owned()).collect();
    let any = tables.iter().any(|table| !matches!(table.history, Access::Denied));
    if let Some(history) = tables.iter_mut().find(|table| table.table.name() == HISTORY_TABLE)
        && any
        && matches!(history.read, Access::Denied)
    {
        history.read = Access::of(&history.table, vec![History::OF_TABLE.is_in(names).into_expr()]);
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
