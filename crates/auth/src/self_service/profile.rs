//! Fields of users that are the application's own: rows of one of its tables, which is the profile of
//! users.
//!
//! The row of a user is made with the account, in one transaction and under the rights of the new user.
//! Later it is read and changed like each other row.

use std::sync::Arc;

use marmota_model::{
    Error, ErrorKind, Field, Record, Result, Scratch, Table, ValueRef, Violation, json,
    parse_filter,
};
use marmota_store::Transaction;
use marmota_store::rights::{Right, Rights};

use crate::auth::{Auth, Inner};
use crate::models::User;
use crate::settings::OWNER;

impl Auth {
    /// Returns the table of [`crate::Settings::profile`] with the fields that the grants for every user
    /// show, for a form of new users. `None` if there is no such table, or these grants do not permit an
    /// insert.
    #[must_use]
    pub fn profile_form(&self) -> Option<&Arc<Table>> {
        self.0.profile_form.as_ref()
    }
}

impl Inner {
    /// Returns the rights that the user of a new account gets, as a function of the id: the id is known in
    /// the transaction only, which must not read groups again.
    pub(crate) fn rights_of_new(
        &self,
        user: &User,
    ) -> Result<impl Fn(i64) -> Result<Arc<Rights>> + use<'_>> {
        let granted = marmota_store::action::block_on(self.granted(user))?;
        let grants: Vec<_> = granted.into_iter().map(|one| one.grant).collect();
        let caller = user.caller();
        Ok(move |id: i64| {
            let mut caller = caller.clone();
            caller.id = id.to_string();
            Rights::new(self.store.registry(), Some(caller), &grants)
        })
    }

    /// Inserts the profile of a new user, with the values of a JSON object. A user who may not insert one
    /// has none, unless there are values.
    pub(crate) fn insert_profile(
        &self,
        tx: &Transaction,
        user: i64,
        rights: Arc<Rights>,
        values: Option<&str>,
    ) -> Result<()> {
        let Some(table) = &self.profile else {
            return match values {
                None => Ok(()),
                Some(_) => Err(Error::new(ErrorKind::Invalid, "users have no profile here")),
            };
        };
        if values.is_none() && !rights.allow(table, Right::Insert) {
            return Ok(());
        }
        let record = read_profile(rights.view_of(table), table, user, values.unwrap_or("{}"))?;
        tx.with_rights(rights).insert_record(&record).run().map(drop)
    }

    /// Deletes the profile of a user.
    pub(crate) fn delete_profile(&self, tx: &Transaction, user: i64) -> Result<()> {
        let Some(table) = &self.profile else { return Ok(()) };
        let of_user = parse_filter(table, &format!("{OWNER} = {user}"))?;
        for row in tx.list_records(table).filter(of_user).run()? {
            tx.delete_record(table, row.values()[table.key()].clone()).run()?;
        }
        Ok(())
    }

    /// Returns true for the field of the profile that has the user.
    pub(crate) fn is_owner_of_profile(&self, table: &Table, field: &Field) -> bool {
        let is_profile = self.profile.as_ref().is_some_and(|one| one.name() == table.name());
        is_profile && field.name == OWNER
    }
}

/// Reads the values of a profile. `view` has the names that the user may use.
fn read_profile(view: &Arc<Table>, table: &Arc<Table>, user: i64, values: &str) -> Result<Record> {
    let scratch = Scratch::new();
    let mut row = vec![ValueRef::Absent; table.fields().len()];
    let mut violations = Vec::new();
    json::read_object(view, values.as_bytes(), &scratch, &mut row, &mut violations)?;
    let mut record = Record::new(Arc::clone(table));
    for (field, value) in table.fields().iter().zip(&row) {
        if *value == ValueRef::Absent {
            continue;
        }
        if field.name == OWNER {
            violations.push(Violation {
                field: OWNER.to_owned(),
                value: "\"…\"".to_owned(),
                rule: "owner".to_owned(),
                message: "is the new user; leave it out".to_owned(),
            });
        }
        record.set(&field.name, value.to_value())?;
    }
    if !violations.is_empty() {
        return Err(Error::invalid(violations));
    }
    record.set(OWNER, user)?;
    Ok(record)
}
