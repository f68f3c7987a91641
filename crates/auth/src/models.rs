//! The models of users: rows of the store, without usable secrets.
//!
//! | table | model | content |
//! |---|---|---|
//! | `marmota_user` | users | names, password hashes, groups |
//! | `marmota_group` | groups | grants |
//! | `marmota_session` | logins | hashes of tokens, addresses, ends |
//! | `marmota_key` | keys | hashes of keys, names, ends |
//! | `marmota_account_link` | links in mails | hashes of tokens, mail addresses, ends |
//! | `marmota_second_factor` | second factors | secrets of authenticator apps, hashes of recovery codes |
//! | `marmota_passkey` | passkeys | public keys, names, counters |
//! | `marmota_passkey_challenge` | uses of passkeys under way | hashes of challenges |
//! | `marmota_identity` | accounts of providers | issuers, ids at the provider |
//! | `marmota_sign_in` | sign-ins with providers under way | hashes of states and of browsers' secrets |
//! | `marmota_security_event` | security events | kinds, users, addresses, times |
//! | `marmota_counter` | counters | ids that are never reused, the number of changes |
//!
//! Grants with `*` do not include these tables, and no grant makes hashes or secrets readable.
#![allow(unreachable_pub, reason = "the derive gives columns the visibility of their fields")]

use std::fmt;

use marmota_derive::Model;
use marmota_model::{Filter, Json, Ref, Timestamp};
use marmota_store::StoreBuilder;
use marmota_store::rights::Grant;

use crate::account_mail::MailKind;

/// A user who can log in. The hashes of passwords and tokens are private, and not shown by `Debug`.
///
/// Use [`crate::Auth`] to change users: a direct write does not invalidate cached tokens.
#[derive(Clone, Model)]
#[model(table = "marmota_user")]
pub struct User {
    /// `@user.id` in rules.
    pub id: i64,
    /// The login name.
    #[model(unique, not_empty, max = 100)]
    pub name: String,
    /// Argon2id, as a PHC string; `None` until the user sets a password.
    pub(crate) password: Option<String>,
    /// The hash of a one-time token for setting the password.
    pub(crate) token: Option<String>,
    /// The expiry of that token.
    pub token_ends_at: Option<Timestamp>,
    /// The names of the groups.
    pub groups: Json<Vec<String>>,
    /// True if the user has all rights on the program's models, and manages users and groups.
    pub is_admin: bool,
    /// True if the user cannot log in and has no access.
    pub is_disabled: bool,
    /// The time of creation.
    #[model(created_at)]
    pub created_at: Timestamp,
    /// The mail address, in lower case. The user has opened a link that was sent to it.
    #[model(unique, email, max = 254)]
    pub email: Option<String>,
}

/// Selects the administrators who can log in.
pub(crate) fn managers() -> Filter<User> {
    User::IS_ADMIN.eq(true).and(User::IS_DISABLED.eq(false)).and(!User::PASSWORD.is_null())
}

/// A group of users, and its grants.
#[derive(Clone, Debug, Model)]
#[model(table = "marmota_group")]
pub struct Group {
    /// The primary key.
    pub id: i64,
    /// The name, one of `@user.groups` in rules.
    #[model(unique, not_empty, max = 100)]
    pub name: String,
    /// The rights of its members.
    pub grants: Json<Vec<Grant>>,
}

/// A login of a user.
#[derive(Clone, Model)]
#[model(table = "marmota_session")]
pub struct LoginSession {
    /// The primary key.
    pub id: i64,
    /// The user.
    #[model(index)]
    pub user: Ref<User>,
    /// The hash of the token.
    #[model(unique)]
    pub(crate) token: String,
    /// The address of the login.
    pub address: Option<String>,
    /// The time of the login.
    #[model(created_at)]
    pub created_at: Timestamp,
    /// The time at which it expires if it is not used.
    #[model(index)]
    pub ends_at: Timestamp,
    /// The device, as the client has described it.
    pub device: Option<String>,
    /// The time of the last authentication; `None` for a session of an earlier version.
    pub authenticated_at: Option<Timestamp>,
}

/// A link in a mail: the purpose and the hash of its one-time token.
#[derive(Clone, Model)]
#[model(table = "marmota_account_link")]
pub(crate) struct AccountLink {
    pub(crate) id: i64,
    /// The hash of the token; `None` for an invitation that was not sent yet.
    #[model(unique)]
    pub(crate) token: Option<String>,
    pub(crate) kind: MailKind,
    /// The address that the mail was sent to.
    #[model(index)]
    pub(crate) address: String,
    /// The user whom the link acts for.
    #[model(index)]
    pub(crate) user: Option<i64>,
    /// The groups of a user who is invited.
    pub(crate) groups: Json<Vec<String>>,
    #[model(created_at)]
    pub(crate) created_at: Timestamp,
    #[model(index)]
    pub(crate) ends_at: Timestamp,
}

/// The second factor of a user: the authenticator app, and the recovery codes, also for passkeys.
#[derive(Clone, Model)]
#[model(table = "marmota_second_factor")]
pub(crate) struct SecondFactor {
    /// The user.
    pub(crate) id: i64,
    /// The secret of the app, as base32; empty without one. The server computes codes from it, so it is
    /// not a hash.
    pub(crate) secret: String,
    /// True once the user has shown a code of the app, or has a passkey.
    pub(crate) is_confirmed: bool,
    /// The time step of the last code: no code is accepted twice. 0 until the app has shown one.
    pub(crate) last_step: i64,
    /// The hashes of the recovery codes that were not used.
    pub(crate) recovery: Json<Vec<String>>,
    #[model(created_at)]
    pub(crate) created_at: Timestamp,
    #[model(version)]
    pub(crate) version: i64,
}

impl SecondFactor {
    /// Creates the second factor of a user who has no app.
    pub(crate) const fn without_app(user: i64, now: Timestamp) -> Self {
        Self {
            id: user,
            secret: String::new(),
            is_confirmed: false,
            last_step: 0,
            recovery: Json(Vec::new()),
            created_at: now,
            version: 0,
        }
    }

    /// Returns true if the user has an authenticator app that has shown a code.
    pub(crate) const fn has_app(&self) -> bool {
        self.is_confirmed && self.last_step > 0
    }
}

/// A passkey of a user.
#[derive(Clone, Model)]
#[model(table = "marmota_passkey")]
pub(crate) struct Passkey {
    pub(crate) id: i64,
    #[model(index)]
    pub(crate) user: Ref<User>,
    /// The id of the credential, as base64url.
    #[model(unique)]
    pub(crate) credential: String,
    /// The random handle by which the authenticator knows the user, as base64url.
    pub(crate) handle: String,
    /// The public key, as the protocol has encoded it.
    pub(crate) key: String,
    /// The signature counter and other changing values, as the protocol has encoded them.
    pub(crate) state: String,
    pub(crate) name: String,
    #[model(created_at)]
    pub(crate) created_at: Timestamp,
    /// The time of the last use.
    pub(crate) used_at: Option<Timestamp>,
    #[model(version)]
    pub(crate) version: i64,
}

/// A challenge for a passkey that was not answered yet.
#[derive(Clone, Model)]
#[model(table = "marmota_passkey_challenge")]
pub(crate) struct PasskeyChallenge {
    pub(crate) id: i64,
    /// The hash of the challenge.
    #[model(unique)]
    pub(crate) challenge: String,
    /// The user who adds a passkey; `None` for a sign-in.
    #[model(index)]
    pub(crate) user: Option<i64>,
    /// What the protocol needs to verify the answer.
    pub(crate) state: String,
    #[model(index)]
    pub(crate) ends_at: Timestamp,
}

/// A key of a user, for programs.
#[derive(Clone, Model)]
#[model(table = "marmota_key")]
pub struct ApiKey {
    /// The primary key.
    pub id: i64,
    /// The user.
    #[model(index)]
    pub user: Ref<User>,
    /// The name that describes its purpose.
    #[model(not_empty, max = 100)]
    pub name: String,
    /// The hash of the key.
    #[model(unique)]
    pub(crate) token: String,
    /// The time of creation.
    #[model(created_at)]
    pub created_at: Timestamp,
    /// The expiry; `None` if it does not expire.
    pub ends_at: Option<Timestamp>,
}

/// An account of a provider with which a user signs in.
#[derive(Clone, Model)]
#[model(table = "marmota_identity")]
pub(crate) struct LinkedIdentity {
    pub(crate) id: i64,
    /// The issuer and the subject: an account belongs to one user.
    #[model(unique)]
    pub(crate) key: String,
    pub(crate) issuer: String,
    #[model(index)]
    pub(crate) subject: String,
    #[model(index)]
    pub(crate) user: Ref<User>,
    /// The verified address at the first sign-in.
    pub(crate) email: Option<String>,
    #[model(created_at)]
    pub(crate) created_at: Timestamp,
}

/// A sign-in with a provider that was begun.
#[derive(Clone, Model)]
#[model(table = "marmota_sign_in")]
pub(crate) struct PendingSignIn {
    pub(crate) id: i64,
    /// The hash of the state.
    #[model(unique)]
    pub(crate) state: String,
    /// The hash of the secret of the browser.
    pub(crate) browser: String,
    pub(crate) provider: String,
    /// The page to return to.
    pub(crate) next: Option<String>,
    /// The user who adds an account.
    pub(crate) user: Option<i64>,
    /// The user whom the provider has identified, and who has still to enter a code.
    pub(crate) verified: Option<i64>,
    #[model(index)]
    pub(crate) ends_at: Timestamp,
}

/// A security event, as it is kept.
#[derive(Clone, Debug, Model)]
#[model(table = "marmota_security_event")]
pub struct RecordedEvent {
    /// The primary key, in the order of time.
    pub id: i64,
    /// The time.
    #[model(index)]
    pub at: Timestamp,
    /// The name of the event, such as `login-failed`.
    pub kind: String,
    /// The user whom it concerns.
    #[model(index)]
    pub user: Option<i64>,
    /// The address of the client.
    pub address: Option<String>,
    /// The other members of the event, without secrets.
    pub detail: Json<serde_json::Value>,
}

/// The highest id assigned in a table, so that ids are never reused.
#[derive(Clone, Debug, Model)]
#[model(table = "marmota_counter")]
pub(crate) struct Counter {
    /// The counted items.
    pub(crate) id: String,
    pub(crate) last: i64,
}

/// Adds the models of users to a store's builder.
///
/// ```
/// use marmota_memory::Memory;
/// use marmota_store::Store;
/// let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
/// assert!(store.table("marmota_user").is_ok());
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[must_use]
pub fn models(builder: StoreBuilder) -> StoreBuilder {
    builder
        .model::<User>()
        .model::<Group>()
        .model::<LoginSession>()
        .model::<ApiKey>()
        .model::<Counter>()
        .model::<AccountLink>()
        .model::<SecondFactor>()
        .model::<Passkey>()
        .model::<PasskeyChallenge>()
        .model::<LinkedIdentity>()
        .model::<PendingSignIn>()
        .model::<RecordedEvent>()
}

impl User {
    /// Returns true if a password was set.
    ///
    /// False for a new user, until the one-time token was used.
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

impl fmt::Debug for LoginSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, user, address, created_at, ends_at, .. } = self;
        f.debug_struct("LoginSession")
            .field("id", id)
            .field("user", user)
            .field("address", address)
            .field("created_at", created_at)
            .field("ends_at", ends_at)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, user, name, created_at, ends_at, .. } = self;
        f.debug_struct("ApiKey")
            .field("id", id)
            .field("user", user)
            .field("name", name)
            .field("created_at", created_at)
            .field("ends_at", ends_at)
            .finish_non_exhaustive()
    }
}
