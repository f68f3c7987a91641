//! Logins and sessions.
//!
//! Functions for administrators are in `accounts.rs`, the check of a credential in
//! `authenticate.rs`.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use marmota_model::{Caller, Error, ErrorKind, Ref, Result, Timestamp};
use marmota_store::background::BackgroundBatch;
use marmota_store::history::HISTORY_TABLE;
use marmota_store::rights::{Grant, OWN_PREFIX, Right, Rights};
use marmota_store::{Durability, Store, Transaction};
use subtle::ConstantTimeEq;

use crate::attempts::Attempts;
use crate::ids;
use crate::jwt::Jwts;
use crate::known::{Found, Identity, Knowledge, KnownCount, Proof};
use crate::models::{ApiKey, Group, LoginSession, User, managers};
use crate::password::Passwords;
use crate::security_event::SecurityEvent;
use crate::settings::Settings;
use crate::token::{self, TokenHash};

/// The prefix of a session's token.
pub(crate) const SESSION_PREFIX: &str = "ms_";
/// The prefix of a key. It selects the table that is read.
pub(crate) const KEY_PREFIX: &str = "mk_";
/// The prefix of a one-time token.
const TOKEN_PREFIX: &str = "mt_";
/// The name of the initial user.
const FIRST: &str = "admin";
/// Expired sessions are removed at every such number of logins.
const LOGINS_BETWEEN_SWEEPS: u32 = 64;
/// The end of a session is stored again when this fraction of its duration has passed.
const RENEWALS: i64 = 10;

/// Users, sessions and keys of a store. Cheap to clone.
///
/// All clones share one cache of tokens and one set of counts. A program has one `Auth` for a
/// store; see the example of the [crate](crate).
#[derive(Clone)]
pub struct Auth(pub(crate) Arc<Inner>);

/// The state that all clones share.
pub(crate) struct Inner {
    /// The store without limits of rights.
    pub(crate) store: Store,
    pub(crate) settings: Settings,
    pub(crate) passwords: Passwords,
    pub(crate) attempts: Attempts,
    pub(crate) knowledge: Knowledge,
    pub(crate) jwts: Jwts,
    /// Changed ends of sessions, and ended sessions, written in the background.
    background: BackgroundBatch,
    /// True if other processes may change accounts, and a read without a round trip detects it.
    pub(crate) is_shared_file: bool,
    /// The changes of accounts by all processes.
    pub(crate) count: KnownCount,
    /// The store for anonymous callers, if they have grants.
    anonymous: Option<Store>,
    /// The token of the first administrator, until a password was set.
    setup_token: Option<String>,
    /// The number of logins, which triggers the removal of expired sessions.
    logins: AtomicU32,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Auth")
    }
}

/// The result of a login.
#[derive(Clone, Debug)]
pub struct LoggedIn {
    /// The session's token; it is not stored.
    pub token: String,
    /// The time at which the session expires if it is not used.
    pub ends_at: Timestamp,
    /// The user.
    pub user: i64,
}

/// A session as shown to its user.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SessionInfo {
    /// The primary key.
    pub id: i64,
    /// The address of the login.
    pub address: Option<String>,
    /// The time of the login.
    pub created_at: Timestamp,
    /// The time at which the session expires if it is not used.
    pub ends_at: Timestamp,
}

/// Returns the error for a caller who is not authenticated.
#[cold]
pub(crate) fn unauthenticated(message: &str) -> Error {
    Error::new(ErrorKind::Unauthenticated, message)
}

pub(crate) fn after(from: Timestamp, time: Duration) -> Timestamp {
    let time_us = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    let end = from.micros().saturating_add(time_us);
    Timestamp::from_micros(end).unwrap_or(from)
}

impl Auth {
    /// Creates the accounts of a store that has their models ([`crate::models`]). While no user can
    /// manage users, there is a token for it: see [`Auth::setup_token`].
    ///
    /// It starts a thread that stores the ends of sessions in the background, and computes one
    /// password hash.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for a store without the models, or a grant on an unknown table;
    /// [`ErrorKind::Invalid`] for invalid settings.
    pub fn new(store: &Store, mut settings: Settings) -> Result<Self> {
        let registry = store.registry();
        registry.of::<User>()?;
        for grant in settings.everyone.iter().chain(&settings.anonymous) {
            check_grant(store, grant)?;
        }
        let nobody = match settings.anonymous.is_empty() {
            true => None,
            false => Some(store.with_rights(Rights::new(registry, None, &settings.anonymous)?)),
        };
        let secret = match settings.jwt_secret.take() {
            Some(secret) => secret,
            None => zeroize::Zeroizing::new(token::random::<32>()?.to_vec()),
        };
        let mut inner = Inner {
            passwords: Passwords::new(settings.password_memory_kib, settings.password_passes)?,
            attempts: Attempts::new(settings.attempts_max, settings.attempts_window),
            knowledge: Knowledge::new(settings.cache_ttl),
            jwts: Jwts::new(&secret, settings.jwt_age)?,
            background: store.background_batch().durability(Durability::None).start()?,
            is_shared_file: store.capability().shared_file,
            count: KnownCount::default(),
            anonymous: nobody,
            setup_token: None,
            logins: AtomicU32::new(0),
            store: store.clone(),
            settings,
        };
        inner.setup_token = inner.prepare_first()?;
        Ok(Self(Arc::new(inner)))
    }

    /// Returns a token with which the user `admin` can set the first password
    /// ([`Auth::set_password`]), to be shown to the operator who starts the program. Each start
    /// creates a new one, until a user has set a password.
    #[must_use]
    pub fn setup_token(&self) -> Option<&str> {
        self.0.setup_token.as_deref()
    }

    /// Returns the store of the accounts, with all rights.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Returns the store for anonymous callers; `None` if anonymous access is disabled.
    ///
    /// Grants of [`Settings::anonymous`] enable it; a rule with `@user` never applies to anonymous
    /// callers.
    #[must_use]
    pub fn anonymous(&self) -> Option<&Store> {
        self.0.anonymous.as_ref()
    }

    /// Starts a session. Hashing the password blocks this thread for the time that the settings
    /// imply.
    ///
    /// `from` is the client's address, for the limits of failures ([`Settings::attempts`]); `None`
    /// for a local caller. Do not call it on a thread of an event loop.
    ///
    /// ```
    /// # use marmota_auth::{Auth, Settings};
    /// # use marmota_memory::Memory;
    /// # use marmota_model::ErrorKind;
    /// # use marmota_store::Store;
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
    /// # let auth = Auth::new(&store, Settings::default().password_cost(64, 1))?;
    /// # auth.set_password("admin", auth.setup_token().unwrap(), "correct horse battery", None)?;
    /// let address = "203.0.113.9".parse().ok();
    /// let login = auth.login("admin", "correct horse battery", address)?;
    /// assert!(login.token.starts_with("ms_"));
    /// let wrong = auth.login("admin", "guess", address).unwrap_err();
    /// assert_eq!(wrong.kind(), ErrorKind::Unauthenticated);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] for a wrong name or password, without distinction;
    /// [`ErrorKind::Busy`] after too many failures.
    pub fn login(&self, name: &str, password: &str, from: Option<IpAddr>) -> Result<LoggedIn> {
        let inner = &self.0;
        inner.begin_attempt(name, from)?;
        let user = inner.user_named(name)?.filter(|user| !user.is_disabled);
        let hash = user.as_ref().and_then(|user| user.password.as_deref());
        let is_right = inner.passwords.suits(password, hash);
        let Some(user) = user.filter(|_| is_right) else {
            self.report(&SecurityEvent::LoginFailed { name: shown(name), address: from });
            return Err(unauthenticated("wrong name or password"));
        };
        inner.attempts.succeeded(name, from, inner.now());
        let login = inner.begin_session(&user, from)?;
        self.report(&SecurityEvent::LoggedIn { user: user.id, name: user.name, address: from });
        if inner.logins.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOGINS_BETWEEN_SWEEPS) {
            let ended = LoginSession::ENDS_AT.lt(inner.now());
            inner.store.delete_where::<LoginSession>(ended).run()?;
        }
        Ok(login)
    }

    /// Returns a JWT for the session of a caller, and its expiry.
    ///
    /// It is a JSON Web Token (RFC 7519), signed with HS256 (RFC 7515): `iss` is `marmota`, `sub`
    /// the user's id, `sid` the hash of the session's token. It is for other services that know the
    /// secret, and is accepted by [`Auth::authenticate`] as well.
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
    /// let (jwt, _ends_at) = auth.jwt(&known)?;
    /// assert_eq!(auth.authenticate(&jwt).run()?.user(), known.user());
    ///
    /// // A JWT ends with its session.
    /// auth.logout(&known)?;
    /// assert!(auth.authenticate(&jwt).run().is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] if the caller is authenticated by a key.
    pub fn jwt(&self, known: &Identity) -> Result<(String, Timestamp)> {
        let Proof::Session(_) = known.proof else {
            return Err(Error::new(ErrorKind::Denied, "a JWT needs a session: log in first"));
        };
        let jwt = self.0.jwts.make(known.user, known.token, self.0.now())?;
        self.report(&SecurityEvent::JwtMade { user: known.user });
        Ok(jwt)
    }

    /// Ends the session of a caller.
    ///
    /// Its token and its JWTs are refused from now on, in this process; in others after at most
    /// [`Settings::cache_ttl`].
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] if the caller is authenticated by a key.
    pub fn logout(&self, known: &Identity) -> Result<()> {
        let Proof::Session(_) = known.proof else {
            let message = "a key has no session to end; revoke the key instead";
            return Err(Error::new(ErrorKind::Denied, message));
        };
        self.end(known)?;
        self.report(&SecurityEvent::LoggedOut { user: known.user });
        Ok(())
    }

    /// Ends all sessions of a user; keys stay valid.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn logout_everywhere(&self, user: i64) -> Result<()> {
        self.0.store.transaction(|tx| {
            tx.delete_where::<LoginSession>(LoginSession::USER.eq(Ref::new(user))).run()?;
            self.0.changed(tx, SecurityEvent::LoggedOutEverywhere { user })
        })
    }

    /// Returns the sessions of a user.
    ///
    /// Expired sessions are left out.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn sessions(&self, user: i64) -> Result<Vec<SessionInfo>> {
        let rows = self
            .0
            .store
            .list::<LoginSession>()
            .filter(LoginSession::USER.eq(Ref::new(user)))
            .run()?;
        let now = self.0.now();
        let info = |LoginSession { id, address, created_at, ends_at, .. }: LoginSession| {
            SessionInfo { id, address, created_at, ends_at }
        };
        Ok(rows.into_iter().filter(|row| row.ends_at > now).map(info).collect())
    }

    /// Sets a password with a one-time token, which becomes invalid, and ends the user's sessions.
    ///
    /// A password has at least 8 characters and at most 1024 bytes; there are no other rules (NIST
    /// SP 800-63B). Failures count as failed logins.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] if the token is invalid, used or expired;
    /// [`ErrorKind::Invalid`] if the password is invalid; [`ErrorKind::Busy`] after too many wrong
    /// tokens.
    pub fn set_password(
        &self,
        name: &str,
        token: &str,
        password: &str,
        from: Option<IpAddr>,
    ) -> Result<()> {
        let inner = &*self.0;
        inner.begin_attempt(name, from)?;
        let hash = TokenHash::of(token).text();
        let suits = |user: &User| {
            let is_it = user.token.as_ref().is_some_and(|kept| is_same(kept, &hash));
            is_it && user.token_ends_at.is_some_and(|end| end > inner.now())
        };
        let unknown = || unauthenticated("the token is unknown, was used, or has expired");
        let user = inner.user_named(name)?.filter(|user| !user.is_disabled);
        let Some(user) = user.filter(suits) else {
            self.report(&SecurityEvent::LoginFailed { name: shown(name), address: from });
            return Err(unknown());
        };
        inner.attempts.succeeded(name, from, inner.now());
        let new = inner.passwords.hash(password)?;
        self.store_password(user.id, &new, |now| if suits(now) { Ok(()) } else { Err(unknown()) })
    }

    /// Changes a password, and ends all of the user's sessions.
    ///
    /// The session of the caller ends as well: the user logs in again with the new password.
    ///
    /// ```
    /// # use marmota_auth::{Auth, Settings};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
    /// # let auth = Auth::new(&store, Settings::default().password_cost(64, 1))?;
    /// # auth.set_password("admin", auth.setup_token().unwrap(), "correct horse battery", None)?;
    /// let session = auth.login("admin", "correct horse battery", None)?;
    /// auth.change_password(session.user, "correct horse battery", "staple staple", None)?;
    /// assert!(auth.authenticate(&session.token).run().is_err());
    /// auth.login("admin", "staple staple", None)?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] if the old password is wrong; [`ErrorKind::Invalid`] if the
    /// new one is invalid; [`ErrorKind::Busy`] after too many failures.
    pub fn change_password(
        &self,
        user: i64,
        old: &str,
        new: &str,
        from: Option<IpAddr>,
    ) -> Result<()> {
        let inner = &*self.0;
        let user = inner.store.get::<User>(user).run()?;
        inner.begin_attempt(&user.name, from)?;
        if !inner.passwords.suits(old, user.password.as_deref()) {
            self.report(&SecurityEvent::LoginFailed { name: user.name, address: from });
            return Err(unauthenticated("the old password is wrong"));
        }
        inner.attempts.succeeded(&user.name, from, inner.now());
        let new = inner.passwords.hash(new)?;
        let changed = || {
            Error::new(
                ErrorKind::Conflict,
                "the password was changed in the \
                                                          meantime; log in again",
            )
        };
        self.store_password(user.id, &new, |now| {
            if now.password == user.password { Ok(()) } else { Err(changed()) }
        })
    }

    /// Stores a hash, unless `check` refuses the user as stored: another request may have used the
    /// token or changed the password since it was read.
    fn store_password(
        &self,
        user: i64,
        hash: &str,
        check: impl Fn(&User) -> Result<()>,
    ) -> Result<()> {
        self.0.store.transaction(|tx| {
            check(&tx.get::<User>(user).run()?)?;
            tx.patch::<User>(user)
                .set(User::PASSWORD, hash.to_owned())
                .set(User::TOKEN, None)
                .set(User::TOKEN_ENDS_AT, None)
                .run()?;
            tx.delete_where::<LoginSession>(LoginSession::USER.eq(Ref::new(user))).run()?;
            self.0.changed(tx, SecurityEvent::PasswordSet { user })
        })
    }

    /// Deletes the session or key of a caller.
    fn end(&self, known: &Identity) -> Result<()> {
        let store = &self.0.store;
        match known.proof {
            Proof::Session(id) => {
                store.delete_where::<LoginSession>(LoginSession::ID.eq(id)).run()?
            }
            Proof::Key(id) => store.delete_where::<ApiKey>(ApiKey::ID.eq(id)).run()?,
        };
        self.0.knowledge.forget(known.token);
        Ok(())
    }

    pub(crate) fn report(&self, event: &SecurityEvent) {
        self.0.report(event);
    }
}

impl Inner {
    /// Returns the time of the settings' clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.settings.clock.as_ref().map_or_else(Timestamp::now, |clock| clock())
    }

    pub(crate) fn report(&self, event: &SecurityEvent) {
        match event {
            SecurityEvent::LoginFailed { .. } | SecurityEvent::LoginLimited { .. } => {
                log::warn!("{event:?}");
            }
            _ => log::info!("{event:?}"),
        }
        if let Some(listener) = &self.settings.listener {
            listener.happened(event);
        }
    }

    /// Invalidates the token caches of all processes, once a transaction that changes accounts is
    /// committed.
    fn doubt_after(self: &Arc<Self>, tx: &Transaction) -> Result<()> {
        ids::count_change(tx)?;
        let inner = Arc::clone(self);
        tx.after_commit(move || inner.knowledge.doubt());
        Ok(())
    }

    /// [`Inner::doubt_after`], and emits an event then.
    pub(crate) fn changed(self: &Arc<Self>, tx: &Transaction, event: SecurityEvent) -> Result<()> {
        self.doubt_after(tx)?;
        let inner = Arc::clone(self);
        tx.after_commit(move || inner.report(&event));
        Ok(())
    }

    /// Counts an attempt; an error if there were too many failures.
    fn begin_attempt(&self, name: &str, from: Option<IpAddr>) -> Result<()> {
        let Err(wait) = self.attempts.begin(name, from, self.now()) else { return Ok(()) };
        self.report(&SecurityEvent::LoginLimited { name: shown(name), address: from });
        let message =
            format!("too many logins have failed; try again in {} s", wait.as_secs().max(1));
        Err(Error::new(ErrorKind::Busy, message))
    }

    pub(crate) fn user_named(&self, name: &str) -> Result<Option<User>> {
        let mut users = self.store.list::<User>().filter(User::NAME.eq(name)).limit(1).run()?;
        Ok(users.pop())
    }

    /// Adds the first administrator, or gives them a new token as long as no user has set a
    /// password: after that a restart never creates a token that would give control over the
    /// program.
    fn prepare_first(&self) -> Result<Option<String>> {
        self.store.transaction(|tx| ids::count_those_there(tx))?;
        let has_password = !User::PASSWORD.is_null();
        if self.store.count::<User>().filter(has_password).run()? > 0 {
            if self.store.count::<User>().filter(managers()).run()? == 0 {
                log::warn!(
                    "no administrator can log in: call `Auth::change_user` and `Auth::new_token` \
                     for a user"
                );
            }
            return Ok(None);
        }
        let (token, hash, ends_at) = self.one_time_token()?;
        self.store.transaction(|tx| {
            let there = tx.list::<User>().filter(User::NAME.eq(FIRST)).limit(1).run()?;
            match there.first() {
                Some(user) => tx
                    .patch::<User>(user.id)
                    .set(User::IS_ADMIN, true)
                    .set(User::IS_DISABLED, false)
                    .set(User::PASSWORD, None)
                    .set(User::TOKEN, hash.clone())
                    .set(User::TOKEN_ENDS_AT, ends_at)
                    .run()
                    .map(drop),
                None => {
                    let mut user = new_user(FIRST);
                    (user.is_admin, user.token) = (true, Some(hash.clone()));
                    user.token_ends_at = Some(ends_at);
                    user.id = ids::of_user(tx)?;
                    tx.insert(&user).run().map(drop)
                }
            }
        })?;
        Ok(Some(token))
    }

    pub(crate) fn one_time_token(&self) -> Result<(String, String, Timestamp)> {
        let token = token::new(TOKEN_PREFIX)?;
        let hash = TokenHash::of(&token).text();
        Ok((token, hash, after(self.now(), self.settings.token_age)))
    }

    /// Inserts a session, unless the user has changed meanwhile.
    fn begin_session(self: &Arc<Self>, user: &User, from: Option<IpAddr>) -> Result<LoggedIn> {
        let token = token::new(SESSION_PREFIX)?;
        let now = self.now();
        let ends_at = after(now, self.settings.session_idle.min(self.settings.session_age_max));
        let session = LoginSession {
            id: ids::of_session()?,
            user: Ref::new(user.id),
            token: TokenHash::of(&token).text(),
            address: from.map(|address| address.to_string()),
            created_at: now,
            ends_at,
        };
        self.store.transaction(|tx| {
            let current = tx.get::<User>(user.id).optional().run()?;
            let same = current
                .is_some_and(|current| current.password == user.password && !current.is_disabled);
            if !same {
                return Err(unauthenticated("wrong name or password"));
            }
            self.make_room(tx, user.id)?;
            tx.insert(&session).run().map(drop)
        })?;
        Ok(LoggedIn { token, ends_at, user: user.id })
    }

    /// Ends sessions that a new one replaces.
    fn make_room(self: &Arc<Self>, tx: &Transaction, user: i64) -> Result<()> {
        let of_user = LoginSession::USER.eq(Ref::new(user));
        if self.settings.one_session {
            if tx.delete_where::<LoginSession>(of_user).run()? > 0 {
                self.doubt_after(tx)?;
            }
            return Ok(());
        }
        let there =
            tx.list::<LoginSession>().filter(of_user).order(LoginSession::CREATED_AT.ascending());
        let there = there.column(LoginSession::ID).run()?;
        let too_many = (there.len() + 1).saturating_sub(self.settings.sessions_max);
        if too_many > 0 {
            let oldest = there.into_iter().take(too_many);
            tx.delete_where::<LoginSession>(LoginSession::ID.is_in(oldest)).run()?;
            self.doubt_after(tx)?;
        }
        Ok(())
    }

    pub(crate) async fn find_session(&self, token: TokenHash) -> Result<Option<Found>> {
        let filter = LoginSession::TOKEN.eq(token.text());
        let Some(row) = self.store.list::<LoginSession>().filter(filter).limit(1).await?.pop()
        else {
            return Ok(None);
        };
        let ends_at_last = after(row.created_at, self.settings.session_age_max).micros();
        self.found(*row.user.key(), Proof::Session(row.id), row.ends_at.micros(), ends_at_last)
            .await
    }

    pub(crate) async fn find_key(&self, token: TokenHash) -> Result<Option<Found>> {
        let filter = ApiKey::TOKEN.eq(token.text());
        let Some(row) = self.store.list::<ApiKey>().filter(filter).limit(1).await?.pop() else {
            return Ok(None);
        };
        let ends_at = row.ends_at.map_or(i64::MAX, Timestamp::micros);
        self.found(*row.user.key(), Proof::Key(row.id), ends_at, ends_at).await
    }

    /// Reads the user of a session or key, and the user's rights; `None` if the user is disabled or
    /// missing.
    async fn found(
        &self,
        user: i64,
        proof: Proof,
        ends_at: i64,
        ends_at_last: i64,
    ) -> Result<Option<Found>> {
        let Some(user) = self.store.get::<User>(user).optional().await? else { return Ok(None) };
        if user.is_disabled {
            return Ok(None);
        }
        let rights = self.rights_of(&user).await?;
        let (user, is_admin) = (user.id, user.is_admin);
        Ok(Some(Found { user, is_admin, proof, rights, ends_at, ends_at_last }))
    }

    /// Returns the rights of a user: those of all users, those of the groups, and references to the
    /// user.
    async fn rights_of(&self, user: &User) -> Result<Arc<Rights>> {
        let mut grants = self.settings.everyone.clone();
        let refer = Grant::new("marmota_user", &[Right::Refer]);
        if user.is_admin {
            grants.extend([Grant::new("*", &Right::ALL), Grant::call("*"), refer]);
        } else {
            grants.push(refer.rule("id = @user.id"));
            let names = user.groups.iter().map(String::as_str);
            for group in self.store.list::<Group>().filter(Group::NAME.is_in(names)).await? {
                // Grants on tables that the program no longer has are ignored.
                let known = |grant: &Grant| check_grant(&self.store, grant).is_ok();
                grants.extend(group.grants.0.into_iter().filter(known));
            }
        }
        let caller = Caller {
            id: user.id.to_string(),
            name: user.name.clone(),
            groups: user.groups.0.clone(),
        };
        Rights::new(self.store.registry(), Some(caller), &grants)
    }

    /// Extends a session, and stores its end occasionally.
    ///
    /// In memory the end moves with each use; it is stored once a tenth of the idle time has
    /// passed, so that a session costs few writes.
    pub(crate) fn renew(&self, known: &Identity, now: i64) {
        let Proof::Session(id) = known.proof else { return };
        let idle_us = i64::try_from(self.settings.session_idle.as_micros()).unwrap_or(i64::MAX);
        let ends_at = now.saturating_add(idle_us).min(known.ends_at_last);
        known.ends_at.fetch_max(ends_at, Ordering::Relaxed);
        let kept = known.ends_at_kept.load(Ordering::Relaxed);
        let is_due = ends_at.saturating_sub(kept) > idle_us / RENEWALS;
        let order = Ordering::Relaxed;
        if !is_due || known.ends_at_kept.compare_exchange(kept, ends_at, order, order).is_err() {
            return;
        }
        let Ok(end) = Timestamp::from_micros(ends_at) else { return };
        // If the queue is full, it is stored another time. A deleted session is not restored.
        let _ = self.background.try_add(|batch| {
            batch.patch::<LoginSession>(id).set(LoginSession::ENDS_AT, end);
        });
    }

    /// Deletes the session or key of a caller in the background: no request waits for it. If the
    /// queue is full, a later login removes it.
    pub(crate) fn end_later(&self, known: &Identity) {
        let _ = self.background.try_add(|batch| {
            match known.proof {
                Proof::Session(id) => batch.delete::<LoginSession>(id),
                Proof::Key(id) => batch.delete::<ApiKey>(id),
            };
        });
        self.knowledge.forget(known.token);
    }
}

pub(crate) fn new_user(name: &str) -> User {
    User {
        id: 0,
        name: name.to_owned(),
        password: None,
        token: None,
        token_ends_at: None,
        groups: marmota_model::Json(Vec::new()),
        is_admin: false,
        is_disabled: false,
        created_at: Timestamp::default(),
    }
}

/// Refuses grants that would disclose stored hashes of passwords and sessions.
///
/// Own tables can be referred to, and the history can be read.
pub(crate) fn check_grant(store: &Store, grant: &Grant) -> Result<()> {
    let is_own = grant.table.starts_with(OWN_PREFIX) && grant.table != HISTORY_TABLE;
    if is_own && grant.rights.iter().any(|right| *right != Right::Refer) {
        let message = format!("only the right `refer` can be granted on `{}`", grant.table);
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    grant.check(store.registry())
}

/// Returns a name in a form that is safe for logs.
fn shown(name: &str) -> String {
    marmota_model::text::excerpt(name)
}

/// Compares two hashes in constant time.
fn is_same(one: &str, two: &str) -> bool {
    one.as_bytes().ct_eq(two.as_bytes()).into()
}
