//! What is kept of users: rows of the store, none of which holds a secret that
//! could be used.
#![allow(unreachable_pub, reason = "the derive gives columns the visibility of their fields")]

use std::fmt;

use marmota_derive::Model;
use marmota_model::{Filter, Json, Ref, Timestamp};
use marmota_store::StoreBuilder;
use marmota_store::rights::Grant;

/// Somebody who can log in. The hashes of passwords and tokens are not public, and not shown by
/// `Debug`.
#[derive(Clone, Model)]
#[model(table = "marmota_user")]
pub struct User {
    /// `@user.id` in rules.
    pub id: i64,
    /// What they log in by.
    #[model(unique, not_empty, max = 100)]
    pub name: String,
    /// Argon2id, as a PHC string; none until they set a password.
    pub(crate) password: Option<String>,
    /// The hash of a token that sets the password once.
    pub(crate) token: Option<String>,
    /// When that token ends.
    pub token_ends_at: Option<Timestamp>,
    /// The groups, by name.
    pub groups: Json<Vec<String>>,
    /// Has all rights on the program's models, and manages users and groups.
    pub is_admin: bool,
    /// Cannot log in, nor do anything.
    pub is_disabled: bool,
    /// When they were added.
    #[model(created_at)]
    pub created_at: Timestamp,
}

/// Selects the administrators who can log in.
pub(crate) fn managers() -> Filter<User> {
    User::IS_ADMIN.eq(true).and(User::IS_DISABLED.eq(false)).and(!User::PASSWORD.is_null())
}

/// A group of users, and what they may do.
#[derive(Clone, Debug, Model)]
#[model(table = "marmota_group")]
pub struct Group {
    /// Its key.
    pub id: i64,
    /// One of `@user.groups` in rules.
    #[model(unique, not_empty, max = 100)]
    pub name: String,
    /// What its members may do.
    pub grants: Json<Vec<Grant>>,
}

/// A user who is logged in.
#[derive(Clone, Model)]
#[model(table = "marmota_session")]
pub struct Session {
    /// Its key.
    pub id: i64,
    /// Whose it is.
    #[model(index)]
    pub user: Ref<User>,
    /// The hash of its token.
    #[model(unique)]
    pub(crate) token: String,
    /// Where the login came from.
    pub address: Option<String>,
    /// When that was.
    #[model(created_at)]
    pub created_at: Timestamp,
    /// When it ends, if it is not used before.
    #[model(index)]
    pub ends_at: Timestamp,
}

/// A key of a user's, for programs.
#[derive(Clone, Model)]
#[model(table = "marmota_key")]
pub struct Key {
    /// Its key.
    pub id: i64,
    /// Whose it is.
    #[model(index)]
    pub user: Ref<User>,
    /// What it is for.
    #[model(not_empty, max = 100)]
    pub name: String,
    /// Its hash.
    #[model(unique)]
    pub(crate) token: String,
    /// When it was made.
    #[model(created_at)]
    pub created_at: Timestamp,
    /// When it ends; never if none.
    pub ends_at: Option<Timestamp>,
}

/// The highest id that was given in a table: none is given again.
#[derive(Clone, Debug, Model)]
#[model(table = "marmota_counter")]
pub(crate) struct Counter {
    /// What it counts.
    pub(crate) id: String,
    pub(crate) last: i64,
}

/// Adds the models of users to a store's.
#[must_use]
pub fn models(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<User>().model::<Group>().model::<Session>().model::<Key>().model::<Counter>()
}

impl User {
    /// Returns true if a password was set.
    #[must_use]
    pub const fn has_password(&self) -> bool {
        self.password.is_some()
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, name, groups, is_admin, is_disabled, created_at, .. } = self;
        f.debug_struct("User")
            .field("id", id)
            .field("name", name)
            .field("groups", groups)
            .field("is_admin", is_admin)
            .field("is_disabled", is_disabled)
            .field("created_at", created_at)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, user, address, created_at, ends_at, .. } = self;
        f.debug_struct("Session")
            .field("id", id)
            .field("user", user)
            .field("address", address)
            .field("created_at", created_at)
            .field("ends_at", ends_at)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, user, name, created_at, ends_at, .. } = self;
        f.debug_struct("Key")
            .field("id", id)
            .field("user", user)
            .field("name", name)
            .field("created_at", created_at)
            .field("ends_at", ends_at)
            .finish_non_exhaustive()
    }
}
