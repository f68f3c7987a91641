//! The tables that generic interfaces (REST, OpenAPI, remote stores) expose: one rule for all of
//! them. They serve the program's own models. Tables with the prefix
//! [`OWN_PREFIX`](crate::rights::OWN_PREFIX) (users, sessions, keys, the history) are internal:
//! they have dedicated routes and methods, and no grant opens them, not even an administrator's.

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, Table};

use crate::rights::{Right, is_internal};
use crate::rows::history::HISTORY_TABLE;
use crate::rows::registry::Registry;
use crate::store::Store;

/// The table of users, in a program with accounts.
const USERS: &str = "marmota_user";

impl Registry {
    /// Returns true if the store keeps accounts (`marmota_auth::models`), so that an interface
    /// has to authenticate its callers.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// assert!(!store.registry().has_accounts());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn has_accounts(&self) -> bool {
        self.table(USERS).is_ok()
    }

    /// Checks that an interface may serve this store without authenticating its callers.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// store.registry().check_anonymous()?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] for a store that keeps accounts.
    pub fn check_anonymous(&self) -> Result<()> {
        match self.has_accounts() {
            false => Ok(()),
            true => Err(Error::new(
                ErrorKind::Denied,
                "the store has accounts, but its callers are not authenticated: add `.auth(&auth)` \
                 (`serve --auth`), or `.allow_anonymous()` to let anonymous callers read and write \
                 all other tables",
            )),
        }
    }
}

impl Store {
    /// Returns the tables that a generic interface shows to the caller of this store: the program's
    /// own, if the caller has a right to their rows.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let names: Vec<&str> = store.exposed_tables().map(|table| table.name()).collect();
    /// assert_eq!(names, ["city"]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn exposed_tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        let exposed = self.registry().tables().iter().filter(|table| self.is_exposed(table));
        exposed.map(|table| self.view_of(table))
    }

    /// Returns a table as the caller of this store sees it: see
    /// [`Rights::view_of`](crate::rights::Rights::view_of).
    #[must_use]
    pub fn view_of<'t>(&'t self, table: &'t Arc<Table>) -> &'t Arc<Table> {
        self.rights().map_or(table, |rights| rights.view_of(table))
    }

    fn is_exposed(&self, table: &Table) -> bool {
        // A table is of no use to a caller who may only refer to its rows.
        let uses = [Right::Read, Right::Insert, Right::Update, Right::Delete, Right::History];
        let may = |right| self.rights().is_none_or(|rights| rights.allow(table, right));
        !is_internal(table) && uses.into_iter().any(may)
    }

    /// Returns the table `name` as generic interfaces find it.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// assert_eq!(store.exposed_table("city")?.name(), "city");
    /// assert!(store.exposed_table("marmota_user").is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an internal table as for one that does not exist, with the names
    /// of [`Store::exposed_tables`]; [`ErrorKind::Denied`] (or [`ErrorKind::Unauthenticated`], for
    /// an anonymous caller) for a table on which the caller has no rights.
    pub fn exposed_table(&self, name: &str) -> Result<&Arc<Table>> {
        match self.registry().find(name).filter(|table| !is_internal(table)) {
            Some(table) if self.rights().is_none() => Ok(table),
            Some(table) if self.is_exposed(table) => Ok(self.view_of(table)),
            Some(table) => Err(self.refuse_table(table)),
            None => Err(self.no_table(name)),
        }
    }

    /// Checks that the caller of this store has a right to at least some rows of a table, before an
    /// interface reads the rows of a request.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// use marmota_store::rights::{Grant, Right, Rights};
    ///
    /// let cities = store.table("city")?;
    /// let reads = Rights::new(store.registry(), None, &[Grant::new("city", &[Right::Read])])?;
    /// let visitor = store.with_rights(reads);
    /// visitor.check_right(Right::Read, &cities)?;
    /// assert!(visitor.check_right(Right::Delete, &cities).is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], or [`ErrorKind::Unauthenticated`] for an anonymous caller.
    pub fn check_right(&self, right: Right, table: &Table) -> Result<()> {
        match self.rights() {
            Some(rights) => rights.admit(right, table).map(drop),
            None => Ok(()),
        }
    }

    /// Returns the table `name` as remote stores find it: like [`Store::exposed_table`], and in
    /// addition the table of the history, which they read like [`Store::history`] (rights narrow
    /// it, and only the store writes to it).
    ///
    /// # Errors
    /// Those of [`Store::exposed_table`]. A table to which the caller may only refer is found.
    pub fn exposed_to_remote(&self, name: &str) -> Result<&Arc<Table>> {
        let table = self.registry().find(name);
        table
            .filter(|table| !is_internal(table) || table.name() == HISTORY_TABLE)
            .ok_or_else(|| self.no_table(name))
    }

    #[cold]
    fn refuse_table(&self, table: &Table) -> Error {
        match self.rights() {
            Some(rights) => rights.denied(Right::Read, table),
            None => self.no_table(table.name()),
        }
    }

    #[cold]
    fn no_table(&self, name: &str) -> Error {
        let name = marmota_model::text::excerpt(name);
        let names: Vec<&str> = self.exposed_tables().map(|table| table.name()).collect();
        let message = match &*names {
            [] => format!("there is no table `{name}`"),
            names => format!("there is no table `{name}`; there are: {}", names.join(", ")),
        };
        Error::new(ErrorKind::NotFound, message)
    }
}
