//! The data of a person: its export, its deletion, and the sessions on their devices.

use std::collections::BTreeMap;
use std::net::IpAddr;

use marmota_model::{Error, ErrorKind, Kind, Ref, Result, Timestamp, Value, json, parse_filter};
use marmota_store::rights::is_internal;

use crate::accounts::KeyInfo;
use crate::auth::{Auth, SessionInfo, unauthenticated};
use crate::credentials::passkey::SecondProof;
use crate::known::Identity;
use crate::models::{LoginSession, User};
use crate::providers::LinkedAccount;
use crate::security_event::SecurityEvent;
use crate::self_service::passkeys::PasskeyInfo;

/// The table of users.
const USERS: &str = "marmota_user";
/// The maximum number of rows of a table in an export.
const ROWS_MAX: u64 = 10_000;

/// The data of a user ([`Auth::personal_data`]).
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct PersonalData {
    /// The primary key.
    pub id: i64,
    /// The login name.
    pub name: String,
    /// The mail address.
    pub email: Option<String>,
    /// The names of the groups.
    pub groups: Vec<String>,
    /// True for an administrator.
    pub is_admin: bool,
    /// True if the user has an authenticator app.
    pub has_second_factor: bool,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The sessions.
    pub sessions: Vec<SessionInfo>,
    /// The passkeys.
    pub passkeys: Vec<PasskeyInfo>,
    /// The keys, without their secrets.
    pub keys: Vec<KeyInfo>,
    /// The accounts of providers.
    pub linked_accounts: Vec<LinkedAccount>,
    /// The rows that refer to the user, by table, at most 10,000 of each table.
    pub rows: BTreeMap<String, Vec<serde_json::Value>>,
}

impl Auth {
    /// Returns what the store has about a user, without secrets: the account, and the rows of the
    /// program's tables that refer to it (`Ref<User>`).
    ///
    /// ```
    /// # use marmota_auth::{Auth, Settings};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
    /// # let auth = Auth::new(&store, Settings::default().password_cost(64, 1))?;
    /// let (user, _token) = auth.add_user("ann", &[], false)?;
    /// assert_eq!(auth.personal_data(user)?.name, "ann");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the user does not exist.
    pub fn personal_data(&self, user: i64) -> Result<PersonalData> {
        let User { id, name, email, groups, is_admin, created_at, .. } =
            self.0.store.get::<User>(user).run()?;
        Ok(PersonalData {
            id,
            name,
            email,
            groups: groups.0,
            is_admin,
            has_second_factor: self.has_app(user)?,
            created_at,
            sessions: self.sessions(user)?,
            passkeys: self.passkeys(user)?,
            keys: self.keys(user)?,
            linked_accounts: self.linked_accounts(user)?,
            rows: self.rows_of(user)?,
        })
    }

    /// Returns the rows of the program's tables that refer to a user.
    fn rows_of(&self, user: i64) -> Result<BTreeMap<String, Vec<serde_json::Value>>> {
        let store = &self.0.store;
        let mut found = BTreeMap::new();
        for table in store.registry().tables().iter().filter(|table| !is_internal(table)) {
            let of_user = |field: &&marmota_model::Field| {
                let refers = matches!(&field.kind, Kind::Reference { table, .. } if table == USERS);
                refers || self.0.is_owner_of_profile(table, field)
            };
            let conditions: Vec<String> = table
                .fields()
                .iter()
                .filter(of_user)
                .map(|field| format!("{} = {user}", field.name))
                .collect();
            if conditions.is_empty() {
                continue;
            }
            let filter = parse_filter(table, &conditions.join(" or "))?;
            let records = store.list_records(table).filter(filter).limit(ROWS_MAX).run()?;
            let mut rows = Vec::with_capacity(records.len());
            for record in records {
                let values: Vec<_> = record.values().iter().map(Value::as_ref).collect();
                let mut line = Vec::new();
                json::write_row(&mut line, table, table.all(), &values);
                rows.push(serde_json::from_slice(&line).map_err(|error| {
                    Error::new(ErrorKind::Bug, "a row has no JSON form").with_source(error)
                })?);
            }
            found.insert(table.name().to_owned(), rows);
        }
        Ok(found)
    }

    /// Ends one session of a user, on another device for example.
    ///
    /// ```
    /// # use marmota_auth::{Auth, Settings};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
    /// # let auth = Auth::new(&store, Settings::default().password_cost(64, 1))?;
    /// # auth.set_password("admin", auth.setup_token().unwrap(), "correct horse battery", None)?;
    /// let login = auth.login("admin", "correct horse battery", None)?;
    /// let session = auth.sessions(login.user)?[0].id;
    /// auth.revoke_session(login.user, session)?;
    /// assert!(auth.authenticate(&login.token).run().is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the user has no such session.
    pub fn revoke_session(&self, user: i64, session: i64) -> Result<()> {
        let one = LoginSession::ID.eq(session).and(LoginSession::USER.eq(Ref::new(user)));
        self.0.store.transaction(|tx| {
            if tx.delete_where::<LoginSession>(one.clone()).run()? == 0 {
                return Err(Error::new(ErrorKind::NotFound, "there is no such session"));
            }
            self.0.changed(tx, SecurityEvent::SessionRevoked { user })
        })
    }

    /// Deletes the account of a user at their request: sessions, keys, and links with it. Rows that refer
    /// to the user follow the action of their model (`on_delete`).
    ///
    /// `proof` is needed if the user has an authenticator app or a passkey, as in [`Auth::login_with`]. The id is never
    /// assigned again.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] if the password or the code is wrong; [`ErrorKind::Conflict`] if
    /// rows refer to the user without an action of deletes, and for the last administrator.
    pub fn delete_account<'p>(
        &self,
        user: i64,
        password: &str,
        proof: impl Into<SecondProof<'p>>,
        from: Option<IpAddr>,
    ) -> Result<()> {
        let inner = &self.0;
        inner.check_password(&inner.store.get::<User>(user).run()?, password, from)?;
        inner.pass_second_factor(user, proof.into(), from)?;
        self.remove_user(user)
    }

    /// [`Auth::delete_account`], authenticated by a passkey instead of the password. `answer` is that to a
    /// challenge of [`Auth::passkey_challenge`].
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] for an answer that is not accepted, and the conflicts of
    /// [`Auth::delete_account`].
    pub fn delete_account_with_passkey(
        &self,
        user: i64,
        answer: &str,
        from: Option<IpAddr>,
    ) -> Result<()> {
        self.0.check_passkey(answer, Some(user), from)?;
        self.remove_user(user)
    }

    /// [`Auth::delete_account`] for a user without a password, such as one of a provider: the session must
    /// have authenticated in the last 10 minutes, by a sign-in or [`Auth::step_up_with_passkey`].
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] for a user with a password; [`ErrorKind::Denied`] for a caller
    /// without a session, and with the violation `step-up` if the last authentication is older; the conflicts
    /// of [`Auth::delete_account`].
    pub fn delete_account_without_password(&self, known: &Identity) -> Result<()> {
        let inner = &self.0;
        if inner.store.get::<User>(known.user).run()?.has_password() {
            return Err(unauthenticated("the account has a password: it is needed"));
        }
        inner.require_recent(known, "the deletion of the account")?;
        self.remove_user(known.user)
    }
}
