//! The rights of a caller, checked at the one point that all operations pass. A store with rights
//! ([`crate::Store::with_rights`]) refuses or narrows each operation, independent of its origin
//! (verbs, batches, transactions, REST, reads from the cache). This module does not authenticate
//! callers, nor does it store grants.
//!
//! - A right applies to a table and a verb, optionally only to rows that match a rule: a filter,
//!   which may compare with `@user.id`, `@user.name` and `@user.groups`. One of several grants is
//!   enough.
//! - A right may be limited to some fields ([`Grant::fields`], [`Grant::except`]). Another field is
//!   absent from answers, and unknown in filters, orders and groups.
//! - A row that the caller may not read does not exist for them: a get, a write or a reference to
//!   it is answered as if the row were missing. A write to a row that may only be read is refused
//!   as [`ErrorKind::Denied`].
//! - The new row of a write has to match the rule that allows the write.
//! - A database cannot hide that a unique value is taken (but never by which row), and that a row
//!   cannot be deleted because something refers to it (but never what).
//!
//! Raw SQL is refused, because no rule applies to it.
//!
//! This folder has the rights as data. `layers/rights.rs` narrows operations to them, and
//! `batch_machine/checks.rs` checks writes that depend on the rows in the database.

mod access;
mod fields;
mod grant;
mod related;
mod step_up;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use marmota_model::{Caller, Error, ErrorKind, LinkedTables, Result, Table, ValueRef, ViewFields};

use self::grant::SERVICE_PREFIX;
use crate::rows::history::{HISTORY_TABLE, History};
use crate::rows::prepare;
use crate::rows::registry::Registry;
pub(crate) use access::{Access, Referring, TableRights};
pub(crate) use fields::{FieldAccess, RowMask, of_caller, present};
pub use grant::{Grant, OWN_PREFIX, Right, is_internal};
pub use related::{check_exposed, check_fields_exposed};

/// The rights of one caller on a store's tables; see the module's documentation.
///
/// It is made once for a session of a caller, and shared by all operations of that caller: the
/// filters are parsed when it is made. It is immutable; a change of grants takes effect with the
/// next one.
pub struct Rights {
    caller: Option<Caller>,
    pub(crate) tables: Vec<TableRights>,
    /// The index of each table, by its address.
    numbers: HashMap<usize, usize>,
    /// The methods that may be called, as in the grants: `*`, `service` or `service.method`.
    calls: Vec<Box<str>>,
    /// The number of these rights, which is unique.
    number: u64,
    /// The links between the tables as the caller sees them, if fields are limited.
    views: Option<Arc<LinkedTables>>,
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
                    granted.push((&*grant.rights, grant.fields_of(table), filter));
                }
            }
            tables.push(TableRights::new(table, &granted));
        }
        access::settle_references(&mut tables);
        settle_history(&mut tables);
        let views = make_views(&mut tables, registry);
        let mut numbers = HashMap::with_capacity(tables.len());
        for (number, table) in tables.iter().enumerate() {
            numbers.insert(Arc::as_ptr(&table.table) as usize, number);
            if let Some(view) = &table.view {
                numbers.insert(Arc::as_ptr(view) as usize, number);
            }
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let calls = grants.iter().filter_map(|grant| grant.table.strip_prefix(SERVICE_PREFIX));
        let calls = calls.map(Box::from).collect();
        Ok(Arc::new(Self { caller, tables, numbers, calls, number, views }))
    }

    /// Returns a table as the caller sees it: the table itself, or a view in which fields that the
    /// caller may not read have no name ([`Table::view`]). Texts with names of fields are parsed
    /// with it, and its rows are those of the table.
    ///
    /// ```
    /// use marmota_memory::Memory;
    /// use marmota_model::{Field, Kind, Role, Schema};
    /// use marmota_store::Store;
    /// use marmota_store::rights::{Grant, Right, Rights};
    ///
    /// let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("pay", Kind::I64)];
    /// let store = Store::builder(Memory::new()).schema(Schema::new("person", fields)).open()?;
    /// let grant = Grant::new("person", &[Right::Read]).except(["pay"]);
    /// let rights = Rights::new(store.registry(), None, &[grant])?;
    /// let person = store.table("person")?;
    /// assert_eq!(rights.view_of(&person).find("pay"), None);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn view_of<'t>(&'t self, table: &'t Arc<Table>) -> &'t Arc<Table> {
        if self.views.is_none() {
            return table;
        }
        self.of(table).ok().and_then(|rights| rights.view.as_ref()).unwrap_or(table)
    }

    /// Returns true if some fields of tables are limited.
    pub(crate) const fn limits_fields(&self) -> bool {
        self.views.is_some()
    }

    /// Returns the caller; `None` for an anonymous one.
    #[must_use]
    pub const fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    /// Returns true if the caller has this right for at least some rows of a table.
    ///
    /// False also for a table of another store. It is for menus and documents; the operation itself
    /// is checked in any case.
    ///
    /// ```
    /// use marmota_memory::Memory;
    /// use marmota_model::{Field, Kind, Role, Schema};
    /// use marmota_store::Store;
    /// use marmota_store::rights::{Grant, Right, Rights};
    ///
    /// let note = Schema::new("note", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    /// let store = Store::builder(Memory::new()).schema(note).open()?;
    /// let rights = Rights::new(store.registry(), None, &[Grant::new("note", &[Right::Read])])?;
    /// let note = store.table("note")?;
    /// assert!(rights.allow(&note, Right::Read));
    /// assert!(!rights.allow(&note, Right::Delete));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn allow(&self, table: &Table, right: Right) -> bool {
        self.of(table).is_ok_and(|rights| !matches!(rights.access(right), Access::Denied))
    }

    /// Checks that a call of a service's method was granted ([`Grant::call`]); for a single
    /// function, the service is the function's name.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], or [`ErrorKind::Unauthenticated`] for an anonymous caller.
    ///
    /// ```
    /// use marmota_memory::Memory;
    /// use marmota_model::ErrorKind;
    /// use marmota_store::Store;
    /// use marmota_store::rights::{Grant, Rights};
    ///
    /// let store = Store::builder(Memory::new()).open()?;
    /// let rights = Rights::new(store.registry(), None, &[Grant::call("calculator.add")])?;
    /// rights.check_call("calculator", Some("add"))?;
    /// let refused = rights.check_call("calculator", Some("reset")).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::Unauthenticated);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
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
    ///
    /// The cache keeps rows by it: rows that one caller has read are lent only to callers with the
    /// same number. Entries of the history never have one, since the rights on them depend on other
    /// tables.
    pub(crate) fn read_number(&self, table: &Table) -> Option<u64> {
        let rights = self.of(table).ok()?;
        match &rights.read {
            // Rows of related tables determine these rows as well.
            access if access.has_relations() => None,
            _ if rights.read_fields.iter().any(FieldAccess::has_relations) => None,
            Access::All if rights.read_fields.is_some() => Some(self.number),
            Access::All => Some(0),
            Access::Where(_) if table.name() != HISTORY_TABLE => Some(self.number),
            _ => None,
        }
    }

    /// Returns a key that identifies the caller, for data that is stored for each caller.
    ///
    /// An anonymous caller has the empty text, so all of them share their data.
    pub(crate) fn caller_key(&self) -> String {
        self.caller.as_ref().map_or_else(String::new, |caller| format!("user {}", caller.id))
    }

    /// Returns the caller's name for messages.
    pub(crate) fn caller_name(&self) -> &str {
        self.caller.as_ref().map_or("nobody", |caller| &caller.name)
    }

    /// Returns the rights on a table.
    ///
    /// Tables are found by address, which is constant as long as the store is open.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] for a table of another store: no right on it was granted.
    pub(crate) fn of(&self, table: &Table) -> Result<&TableRights> {
        let number = self.numbers.get(&(std::ptr::from_ref(table) as usize));
        number.map(|&number| &self.tables[number]).ok_or_else(|| {
            let name = table.name();
            let message = format!(
                "`{name}` is not a table of this store; use the table that the \
                                   store returns"
            );
            Error::new(ErrorKind::Denied, message)
        })
    }

    /// Checks that the caller has a right to at least some rows of the table.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Denied`].
    pub(crate) fn admit(&self, right: Right, table: &Table) -> Result<&TableRights> {
        let rights = self.of(table)?;
        match rights.access(right) {
            Access::Denied => Err(self.denied(right, table)),
            Access::All | Access::Where(_) => Ok(rights),
        }
    }

    /// Checks a new row before it is inserted, as far as this is possible by then.
    ///
    /// Fields that are still absent, such as an automatic key, are unknown, so a rule about them
    /// does not match; [`TableRights::tells_before`] is false where that would refuse a valid row.
    pub(crate) fn check_insert(&self, rights: &TableRights, row: &[ValueRef<'_>]) -> Result<()> {
        if !rights.insert.extends_to(&rights.table, row)? {
            return Err(self.unsuitable(&rights.table));
        }
        let mut key_row = Vec::new();
        let mut violations = Vec::new();
        for referring in &rights.referring {
            let Some(key) = referring.key_in(row) else { continue };
            key_row.clear();
            key_row.resize(referring.target.fields().len(), ValueRef::Absent);
            key_row[referring.target.key()] = key;
            if !referring.access.extends_to(&referring.target, &key_row)? {
                violations.push(referring.violation(&rights.table, key));
            }
        }
        prepare::finish(violations)
    }

    /// The error for a right that the caller has on no row of the table.
    #[cold]
    pub(crate) fn denied(&self, right: Right, table: &Table) -> Error {
        if let Some(error) = self.step_up(right, table) {
            return error;
        }
        let (who, what) = (self.caller_name(), right.name());
        let message = match right {
            Right::Read => format!("{who} may not read `{}`", table.name()),
            _ => format!("{who} may not {what} rows of `{}`", table.name()),
        };
        Error::new(self.refusal(), message)
    }

    /// The error for a row that the caller may read, but without this right.
    #[cold]
    pub(crate) fn denied_row(&self, right: Right, table: &Table, key: ValueRef<'_>) -> Error {
        if let Some(error) = self.step_up(right, table) {
            return error;
        }
        let (who, what) = (self.caller_name(), right.name());
        let key = marmota_model::text::excerpt_of(key);
        let message = format!("{who} may not {what} the row {key} of `{}`", table.name());
        Error::new(self.refusal(), message)
    }

    /// Returns the kind of a refusal: an anonymous caller could be allowed after a login.
    pub(crate) fn refusal(&self) -> ErrorKind {
        if self.caller.is_some() { ErrorKind::Denied } else { ErrorKind::Unauthenticated }
    }

    /// The error for a new row that the caller may not write.
    #[cold]
    pub(crate) fn unsuitable(&self, table: &Table) -> Error {
        let who = self.caller_name();
        let message = format!(
            "{who} may not write this row of `{}`: the rule of the grant \
                               excludes it",
            table.name()
        );
        Error::new(self.refusal(), message)
    }
}

/// Makes the views of all tables, if the fields of one are limited: relations lead from each view
/// to the others. The views last as long as the result.
fn make_views(tables: &mut [TableRights], registry: &Registry) -> Option<Arc<LinkedTables>> {
    if !tables.iter().any(TableRights::is_limited) {
        return None;
    }
    let mut linked = Vec::with_capacity(tables.len());
    for rights in tables {
        let view = Arc::new(match rights.is_limited() {
            true => Table::view(&rights.table, rights.view_fields()),
            false => Table::view(&rights.table, ViewFields::all(&rights.table)),
        });
        linked.push((Arc::clone(&view), registry.database_of(&rights.table)));
        rights.view = Some(view);
    }
    Some(LinkedTables::of_views(linked))
}

/// Makes the entries of the history visible to callers with the right to them, table by table,
/// unless the history as such is granted.
///
/// A rule that selects rows cannot be applied to entries: they have fields as JSON. So a caller with
/// [`Right::History`] on some rows of a table reads entries only by a filter that names one row, such
/// as that of [`crate::Store::history`]; that row is checked first (`layers/rights/narrowing.rs`).
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
