//! The grants of a user with their origin: the input of the user's rights.

use marmota_model::{Caller, Error, ErrorKind, Result};
use marmota_store::rights::{Grant, Right};
use serde::Serialize;

use crate::auth::{Auth, Inner, check_grant, shown};
use crate::models::{Group, User};

/// Who has a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GrantOrigin {
    /// All users ([`crate::Settings::everyone`]).
    Everyone,
    /// Callers who are not authenticated ([`crate::Settings::anonymous`]).
    Anonymous,
    /// Administrators.
    Administrator,
    /// A user, for references to the user's own row.
    User,
    /// The members of this group.
    Group(String),
}

/// A grant of a user, with its origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GrantOf {
    /// Who has it.
    pub origin: GrantOrigin,
    /// The grant.
    pub grant: Grant,
}

/// What rights are made of: the caller and the grants; see [`Auth::access_of`].
#[derive(Clone, Debug)]
pub struct UserAccess {
    /// The user; `None` for an anonymous caller.
    pub caller: Option<Caller>,
    /// True for a user who cannot log in.
    pub is_disabled: bool,
    /// The grants.
    pub grants: Vec<GrantOf>,
}

impl Auth {
    /// Returns the grants from which the rights of the user with this name are made, as they are at
    /// this moment; without a name, those of an anonymous caller. Tables with a step-up are granted as after one.
    ///
    /// ```
    /// # use marmota_auth::{Auth, Settings};
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// use marmota_auth::GrantOrigin;
    /// use marmota_store::action::block_on;
    /// use marmota_store::rights::{Grant, Right};
    /// # let note = Schema::new("note", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).schema(note).open()?;
    /// # let auth = Auth::new(&store, Settings::default())?;
    /// auth.set_group("readers", &[Grant::new("note", &[Right::Read])])?;
    /// auth.add_user("ann", &["readers".to_owned()], false)?;
    /// let access = block_on(auth.access_of(Some("ann")))?;
    /// let of_note = access.grants.iter().find(|one| one.grant.table == "note").expect("a grant");
    /// assert_eq!(of_note.origin, GrantOrigin::Group("readers".to_owned()));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an unknown user; errors of the store.
    pub async fn access_of(&self, user: Option<&str>) -> Result<UserAccess> {
        let Some(name) = user else {
            let of =
                |grant: &Grant| GrantOf { origin: GrantOrigin::Anonymous, grant: grant.clone() };
            let grants = self.0.settings.anonymous.iter().map(of).collect();
            return Ok(UserAccess { caller: None, is_disabled: false, grants });
        };
        let named = self.0.store.list::<User>().filter(User::NAME.eq(name)).limit(1);
        let Some(user) = named.await?.pop() else {
            let message = format!("no user has the name `{}`", shown(name));
            return Err(Error::new(ErrorKind::NotFound, message));
        };
        let grants = self.0.granted(&user).await?;
        Ok(UserAccess { caller: Some(user.caller()), is_disabled: user.is_disabled, grants })
    }
}

impl Inner {
    /// Returns the grants of a user: those of all users, those of the groups, and references to the
    /// user. Grants on tables that the program no longer has are left out.
    pub(crate) async fn granted(&self, user: &User) -> Result<Vec<GrantOf>> {
        let of = |origin: GrantOrigin, grant: Grant| GrantOf { origin, grant };
        let everyone = self.settings.everyone.iter().cloned();
        let mut grants: Vec<_> = everyone.map(|grant| of(GrantOrigin::Everyone, grant)).collect();
        let refer = Grant::new("marmota_user", &[Right::Refer]);
        if user.is_admin {
            let all = [Grant::new("*", &Right::ALL), Grant::call("*"), refer];
            grants.extend(all.map(|grant| of(GrantOrigin::Administrator, grant)));
            return Ok(grants);
        }
        grants.push(of(GrantOrigin::User, refer.rule("id = @user.id")));
        let names = user.groups.iter().map(String::as_str);
        for group in self.store.list::<Group>().filter(Group::NAME.is_in(names)).await? {
            let known = |grant: &Grant| check_grant(&self.store, grant).is_ok();
            let origin = GrantOrigin::Group(group.name);
            let known = group.grants.0.into_iter().filter(known);
            grants.extend(known.map(|grant| of(origin.clone(), grant)));
        }
        Ok(grants)
    }
}

impl User {
    /// Returns the user as a caller, for rules.
    pub(crate) fn caller(&self) -> Caller {
        Caller { id: self.id.to_string(), name: self.name.clone(), groups: self.groups.0.clone() }
    }
}
