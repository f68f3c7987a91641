//! The table of the application with a row for each user: whether a table can be it, and its form.

use std::sync::Arc;

use marmota_model::{Caller, Error, ErrorKind, Kind, Result, Role, Table};
use marmota_store::Store;
use marmota_store::rights::{Grant, Right, Rights};

/// The table of users.
const USERS: &str = "marmota_user";
/// The field that has the user.
pub(crate) const OWNER: &str = "user";

/// Returns a table of profiles as a new user with these grants sees it.
pub(crate) fn form_of(
    store: &Store,
    profile: &Arc<Table>,
    everyone: &[Grant],
) -> Result<Option<Arc<Table>>> {
    let caller = Caller { id: "0".to_owned(), name: String::new(), groups: Vec::new() };
    let rights = Rights::new(store.registry(), Some(caller), everyone)?;
    let may_insert = rights.allow(profile, Right::Insert);
    Ok(may_insert.then(|| Arc::clone(rights.view_of(profile))))
}

/// Returns the table of profiles, if it can be one.
///
/// `user` may be an integer: the tables of application files cannot refer to the table of users.
pub(crate) fn check_profile(store: &Store, name: &str) -> Result<Arc<Table>> {
    let table = store.table(name)?;
    let owner = table.fields().iter().find(|field| field.name == OWNER);
    let is_sound = owner.is_some_and(|owner| {
        let is_user = match &owner.kind {
            Kind::Reference { table, .. } => table == USERS,
            Kind::Int { .. } => owner.role == Role::Plain,
            _ => false,
        };
        is_user && owner.unique && !owner.nullable
    });
    match is_sound {
        true => Ok(table),
        false => {
            let message = format!(
                "the table `{name}` cannot be the profile of users: it needs the field `{OWNER}`, unique \
                 and not null, a reference to `{USERS}` or an integer"
            );
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}
