//! Administration of users and groups, and of users' keys. The caller must check permissions first
//! ([`crate::Identity::is_admin`]).
//!
//! A function with the suffix `_in` works in a transaction of the caller. Each change of a user or
//! group counts in the table of counters (`ids.rs`), so that other processes drop their cached
//! tokens.

mod granted;

use std::time::Duration;

use marmota_model::{Error, ErrorKind, Json, Ref, Result, Timestamp};
use marmota_store::rights::Grant;
use marmota_store::{Store, Transaction};

use crate::auth::{Auth, KEY_PREFIX, after, check_grant, new_user};
use crate::credentials::token::{self, TokenHash};
use crate::ids;
use crate::known::{Identity, Proof};
use crate::models::{
    AccountLink, ApiKey, Group, LinkedIdentity, LoginSession, Passkey, PasskeyChallenge,
    RecordedEvent, SecondFactor, User, managers,
};
use crate::security_event::SecurityEvent;

pub use granted::{GrantOf, GrantOrigin, UserAccess};

/// The maximum number of security events in an answer.
const EVENTS_MAX: u64 = 200;

/// A key as shown to its user.
///
/// The key itself is not part of it: only its hash is stored.
#[derive(Clone, Debug, serde::Serialize)]
pub struct KeyInfo {
    /// The primary key.
    pub id: i64,
    /// The name that describes its purpose.
    pub name: String,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time of its expiry; `None` if it does not expire.
    pub ends_at: Option<Timestamp>,
}

impl Auth {
    /// Adds a user, and returns the id and a token for setting the password.
    ///
    /// `name` has 1 to 100 characters and is unique. `groups` are names of existing groups. The
    /// user can log in once [`Auth::set_password`] was called with the token; see
    /// [`crate::Settings::token_age`].
    ///
    /// ```
    /// # use marmota_auth::{Auth, Settings};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
    /// # let auth = Auth::new(&store, Settings::default().password_cost(64, 1))?;
    /// let (id, token) = auth.add_user("ann", &[], false)?;
    /// auth.set_password("ann", &token, "correct horse battery", None)?;
    /// assert_eq!(auth.login("ann", "correct horse battery", None)?.user, id);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if the name is taken, [`ErrorKind::Invalid`] if it is invalid or a
    /// group does not exist.
    pub fn add_user(&self, name: &str, groups: &[String], is_admin: bool) -> Result<(i64, String)> {
        check_groups(&self.0.store, groups)?;
        let (token, hash, ends_at) = self.0.one_time_token()?;
        let mut user = new_user(name);
        user.groups = Json(groups.to_vec());
        user.is_admin = is_admin;
        (user.token, user.token_ends_at) = (Some(hash), Some(ends_at));
        let id = self
            .0
            .store
            .transaction(|tx| tx.insert(&User { id: ids::of_user(tx)?, ..user.clone() }).run())?;
        self.report(&SecurityEvent::UserAdded { user: id, name: name.to_owned() });
        Ok((id, token))
    }

    /// Creates a new one-time token, for setting a forgotten password; the current password stays
    /// valid until then.
    ///
    /// It replaces an earlier token of the user that was not used.
    ///
    /// ```
    /// # use marmota_auth::{Auth, Settings};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
    /// # let auth = Auth::new(&store, Settings::default().password_cost(64, 1))?;
    /// let (id, first) = auth.add_user("ann", &[], false)?;
    /// let second = auth.new_token(id)?;
    /// assert!(auth.set_password("ann", &first, "correct horse battery", None).is_err());
    /// auth.set_password("ann", &second, "correct horse battery", None)?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the user does not exist.
    pub fn new_token(&self, user: i64) -> Result<String> {
        let (token, hash, ends_at) = self.0.one_time_token()?;
        let patch = self.0.store.patch::<User>(user);
        patch.set(User::TOKEN, hash).set(User::TOKEN_ENDS_AT, ends_at).run()?;
        self.report(&SecurityEvent::TokenMade { user });
        Ok(token)
    }

    /// Returns true while no user has a password, so that [`Auth::setup_token`] can set the first
    /// one. A page for logins requests the token then.
    ///
    /// ```
    /// # use marmota_auth::{Auth, Settings};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
    /// let auth = Auth::new(&store, Settings::default())?;
    /// assert!(auth.needs_setup()?);
    /// auth.set_password("admin", auth.setup_token().unwrap(), "correct horse battery", None)?;
    /// assert!(!auth.needs_setup()?);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Errors of the store.
    pub fn needs_setup(&self) -> Result<bool> {
        if self.setup_token().is_none() {
            return Ok(false);
        }
        let has_password = !User::PASSWORD.is_null();
        Ok(self.0.store.count::<User>().filter(has_password).run()? == 0)
    }

    /// Returns all users.
    ///
    /// The first administrator is among them; see [`Auth::setup_token`].
    ///
    /// # Errors
    /// Errors of the store.
    pub fn users(&self) -> Result<Vec<User>> {
        self.0.store.list::<User>().run()
    }

    /// Changes the groups, role or status of a user; `None` leaves a value unchanged. The change
    /// applies from the next request.
    ///
    /// A user who is disabled loses all sessions; keys are refused as long as the user is disabled.
    ///
    /// ```
    /// # use marmota_auth::{Auth, Settings};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
    /// # let auth = Auth::new(&store, Settings::default().password_cost(64, 1))?;
    /// # let (id, token) = auth.add_user("ann", &[], false)?;
    /// # auth.set_password("ann", &token, "correct horse battery", None)?;
    /// let session = auth.login("ann", "correct horse battery", None)?;
    /// auth.change_user(id, None, None, Some(true))?;
    /// assert!(auth.authenticate(&session.token).run().is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the user does not exist, [`ErrorKind::Invalid`] for an unknown
    /// group, [`ErrorKind::Conflict`] if no administrator would be left.
    pub fn change_user(
        &self,
        user: i64,
        groups: Option<&[String]>,
        is_admin: Option<bool>,
        is_disabled: Option<bool>,
    ) -> Result<()> {
        self.0.store.transaction(|tx| self.change_user_in(tx, user, groups, is_admin, is_disabled))
    }

    /// [`Auth::change_user`] in your own transaction, atomically with its other writes. It is
    /// effective, here and in other processes, once the transaction is committed
    /// ([`Transaction::commit`], [`marmota_store::Store::transaction`]).
    ///
    /// # Errors
    /// As [`Auth::change_user`]; [`ErrorKind::Denied`] in a transaction under rights
    /// ([`marmota_store::Store::with_rights`]).
    pub fn change_user_in(
        &self,
        tx: &Transaction,
        user: i64,
        groups: Option<&[String]>,
        is_admin: Option<bool>,
        is_disabled: Option<bool>,
    ) -> Result<()> {
        check_groups(tx, groups.unwrap_or_default())?;
        let mut changed = tx.get::<User>(user).run()?;
        if let Some(groups) = groups {
            changed.groups = Json(groups.to_vec());
        }
        let managed = can_manage(&changed);
        changed.is_admin = is_admin.unwrap_or(changed.is_admin);
        changed.is_disabled = is_disabled.unwrap_or(changed.is_disabled);
        tx.update(&changed).run()?;
        if managed && !can_manage(&changed) {
            check_managers(tx, &changed.name)?;
        }
        if changed.is_disabled {
            tx.delete_where::<LoginSession>(LoginSession::USER.eq(Ref::new(user))).run()?;
        }
        self.0.changed(tx, SecurityEvent::UserChanged { user })
    }

    /// Removes a user with all sessions and keys, and the row of [`crate::Settings::profile`].
    ///
    /// The id is never assigned again, so no later user gets access to the rows of this one.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the user does not exist; [`ErrorKind::Conflict`] if rows refer to
    /// the user (disable the user instead), and for the last administrator.
    pub fn remove_user(&self, user: i64) -> Result<()> {
        self.0.store.transaction(|tx| {
            tx.delete_where::<LoginSession>(LoginSession::USER.eq(Ref::new(user))).run()?;
            tx.delete_where::<ApiKey>(ApiKey::USER.eq(Ref::new(user))).run()?;
            tx.delete_where::<AccountLink>(AccountLink::USER.eq(user)).run()?;
            tx.delete_where::<SecondFactor>(SecondFactor::ID.eq(user)).run()?;
            tx.delete_where::<Passkey>(Passkey::USER.eq(Ref::new(user))).run()?;
            tx.delete_where::<PasskeyChallenge>(PasskeyChallenge::USER.eq(user)).run()?;
            tx.delete_where::<LinkedIdentity>(LinkedIdentity::USER.eq(Ref::new(user))).run()?;
            self.0.delete_profile(tx, user)?;
            ids::count_those_there(tx)?;
            let gone = tx.get::<User>(user).run()?;
            tx.delete::<User>(user).run()?;
            if can_manage(&gone) {
                check_managers(tx, &gone.name)?;
            }
            self.0.changed(tx, SecurityEvent::UserRemoved { user })
        })
    }

    /// Returns security events, the newest first, at most 200: those before the event with the id
    /// `before`, and of one kind if there is one, such as `login-failed`.
    ///
    /// ```
    /// # use marmota_auth::{Auth, Settings};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
    /// # let auth = Auth::new(&store, Settings::default().password_cost(64, 1))?;
    /// assert!(auth.login("ann", "a wrong password", None).is_err());
    /// assert_eq!(auth.security_events(None, None)?[0].kind, "login-failed");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Errors of the store.
    pub fn security_events(
        &self,
        before: Option<i64>,
        kind: Option<&str>,
    ) -> Result<Vec<RecordedEvent>> {
        self.0.background.flush();
        let mut list = self.0.store.list::<RecordedEvent>();
        if let Some(before) = before {
            list = list.filter(RecordedEvent::ID.lt(before));
        }
        if let Some(kind) = kind {
            list = list.filter(RecordedEvent::KIND.eq(kind));
        }
        list.order(RecordedEvent::ID.descending()).limit(EVENTS_MAX).run()
    }

    /// Returns all groups.
    ///
    /// Users name their groups, not the reverse: [`Auth::change_user`] sets the groups of a user.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn groups(&self) -> Result<Vec<Group>> {
        self.0.store.list::<Group>().run()
    }

    /// Sets the grants of a group. A group that does not exist is created.
    ///
    /// ```
    /// # use marmota_auth::{Auth, Settings};
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// use marmota_store::rights::{Grant, Right};
    /// # let note = Schema::new("note", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).schema(note).open()?;
    /// # let auth = Auth::new(&store, Settings::default())?;
    /// auth.set_group("readers", &[Grant::new("note", &[Right::Read])])?;
    /// let (id, token) = auth.add_user("ann", &["readers".to_owned()], false)?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] and [`ErrorKind::Invalid`] for invalid grants.
    pub fn set_group(&self, name: &str, grants: &[Grant]) -> Result<()> {
        self.0.store.transaction(|tx| self.set_group_in(tx, name, grants))
    }

    /// [`Auth::set_group`] in your own transaction, atomically with its other writes. It is
    /// effective, here and in other processes, once the transaction is committed
    /// ([`Transaction::commit`], [`marmota_store::Store::transaction`]).
    ///
    /// # Errors
    /// As [`Auth::set_group`]; [`ErrorKind::Denied`] in a transaction under rights
    /// ([`marmota_store::Store::with_rights`]).
    pub fn set_group_in(&self, tx: &Transaction, name: &str, grants: &[Grant]) -> Result<()> {
        grants.iter().try_for_each(|grant| check_grant(&self.0.store, grant))?;
        let group = Group { id: 0, name: name.to_owned(), grants: Json(grants.to_vec()) };
        tx.upsert(&group).run()?;
        self.0.changed(tx, SecurityEvent::GroupSet { name: name.to_owned() })
    }

    /// Removes a group; users with its name have no rights from it any more.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the group does not exist.
    pub fn remove_group(&self, name: &str) -> Result<()> {
        self.0.store.transaction(|tx| self.remove_group_in(tx, name))
    }

    /// [`Auth::remove_group`] in your own transaction, as [`Auth::set_group_in`].
    ///
    /// # Errors
    /// As [`Auth::remove_group`] and [`Auth::set_group_in`].
    pub fn remove_group_in(&self, tx: &Transaction, name: &str) -> Result<()> {
        if tx.delete_where::<Group>(Group::NAME.eq(name)).run()? == 0 {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no group `{name}`")));
        }
        self.0.changed(tx, SecurityEvent::GroupRemoved { name: name.to_owned() })
    }

    /// Creates a key for a user's programs, with the rights of the user. The key is returned only
    /// once.
    ///
    /// `age` is the time until it expires; `None` for a key without end. A user has at most as many
    /// keys as [`crate::Settings::sessions_max`]. Default: 50.
    ///
    /// ```
    /// # use marmota_auth::{Auth, Settings};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
    /// # let auth = Auth::new(&store, Settings::default().password_cost(64, 1))?;
    /// # auth.set_password("admin", auth.setup_token().unwrap(), "correct horse battery", None)?;
    /// # let session = auth.login("admin", "correct horse battery", None)?;
    /// let known = auth.authenticate(&session.token).run()?;
    /// let (id, key) = auth.make_key(&known, "nightly export", None)?;
    /// assert_eq!(auth.authenticate(&key).run()?.user(), known.user());
    /// assert_eq!(auth.keys(known.user())?[0].name, "nightly export");
    ///
    /// auth.revoke_key(known.user(), id)?;
    /// assert!(auth.authenticate(&key).run().is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] if the caller is authenticated by a key or has too many keys;
    /// [`ErrorKind::Invalid`] if the name is invalid.
    pub fn make_key(
        &self,
        known: &Identity,
        name: &str,
        age: Option<Duration>,
    ) -> Result<(i64, String)> {
        if let Proof::Key(_) | Proof::Token = known.proof() {
            let message = "a key cannot create other keys: log in to create one";
            return Err(Error::new(ErrorKind::Denied, message));
        }
        self.make_key_for(known.user(), name, age)
    }

    /// [`Auth::make_key`] for any user, for operators of the program.
    ///
    /// ```
    /// # use marmota_auth::{Auth, Settings};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
    /// # let auth = Auth::new(&store, Settings::default().password_cost(64, 1))?;
    /// let (user, _) = auth.add_user("reports", &[], false)?;
    /// let (_, key) = auth.make_key_for(user, "nightly export", None)?;
    /// assert_eq!(auth.authenticate(&key).run()?.user(), user);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the user does not exist, and those of [`Auth::make_key`].
    pub fn make_key_for(
        &self,
        user: i64,
        name: &str,
        age: Option<Duration>,
    ) -> Result<(i64, String)> {
        let most = self.0.settings.sessions_max;
        let token = token::new(KEY_PREFIX)?;
        let now = self.0.now();
        let key = ApiKey {
            id: 0,
            user: Ref::new(user),
            name: name.to_owned(),
            token: TokenHash::of(&token).text(),
            created_at: now,
            ends_at: age.map(|age| after(now, age)),
        };
        let id = self.0.store.transaction(|tx| {
            tx.get::<User>(user).run()?;
            if tx.count::<ApiKey>().filter(ApiKey::USER.eq(Ref::new(user))).run()? >= most as u64 {
                let message = format!("a user can have at most {most} keys; revoke one first");
                return Err(Error::new(ErrorKind::Denied, message));
            }
            tx.insert(&ApiKey { id: ids::of_key(tx)?, ..key.clone() }).run()
        })?;
        self.report(&SecurityEvent::KeyMade { user, key: id });
        Ok((id, token))
    }

    /// Returns the keys of a user.
    ///
    /// Expired keys are included until they are used or revoked.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn keys(&self, user: i64) -> Result<Vec<KeyInfo>> {
        let rows = self.0.store.list::<ApiKey>().filter(ApiKey::USER.eq(Ref::new(user))).run()?;
        let info = |ApiKey { id, name, created_at, ends_at, .. }: ApiKey| KeyInfo {
            id,
            name,
            created_at,
            ends_at,
        };
        Ok(rows.into_iter().map(info).collect())
    }

    /// Revokes a key of a user.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the user has no such key.
    pub fn revoke_key(&self, user: i64, key: i64) -> Result<()> {
        let filter = ApiKey::ID.eq(key).and(ApiKey::USER.eq(Ref::new(user)));
        self.0.store.transaction(|tx| {
            ids::count_those_there(tx)?;
            if tx.delete_where::<ApiKey>(filter.clone()).run()? == 0 {
                return Err(Error::new(ErrorKind::NotFound, "there is no such key"));
            }
            self.0.changed(tx, SecurityEvent::KeyRevoked { user, key })
        })
    }
}

/// Returns true for an administrator who can log in.
///
/// A user without a password does not count, so that a program cannot lose its last administrator
/// to an unused token.
const fn can_manage(user: &User) -> bool {
    user.is_admin && !user.is_disabled && user.password.is_some()
}

/// Returns an error if no administrator who can log in is left.
fn check_managers(tx: &Transaction, name: &str) -> Result<()> {
    if tx.count::<User>().filter(managers()).run()? > 0 {
        return Ok(());
    }
    let name = marmota_model::text::excerpt(name);
    let message = format!(
        "`{name}` is the last administrator; first make another user with a password an \
         administrator"
    );
    Err(Error::new(ErrorKind::Conflict, message))
}

/// Returns an error if a group does not exist.
pub(crate) fn check_groups(store: &Store, names: &[String]) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let known = store.list::<Group>().column(Group::NAME).run()?;
    match names.iter().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => {
            let name = marmota_model::text::excerpt(name);
            let message = match &known[..] {
                [] => format!("the group `{name}` does not exist; there are no groups yet"),
                known => {
                    let known = known.join(", ");
                    format!("the group `{name}` does not exist; the groups are: {known}")
                }
            };
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}
