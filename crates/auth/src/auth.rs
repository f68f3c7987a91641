//! Logins and sessions.
//!
//! Functions for administrators are in `accounts.rs`, the check of a credential in
//! `authenticate.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Ref, Result, Table, Timestamp};
use marmota_store::background::BackgroundBatch;
use marmota_store::history::HISTORY_TABLE;
use marmota_store::rights::{Grant, OWN_PREFIX, Right, Rights};
use marmota_store::thread_pool::ThreadPool;
use marmota_store::{Durability, Store, Transaction};

use crate::credentials::attempts::Attempts;
use crate::credentials::jwt::Jwts;
use crate::credentials::password::Passwords;
use crate::credentials::token::{self, TokenHash};
use crate::ids;
use crate::known::{Found, Identity, Knowledge, KnownCount, Proof};
use crate::models::{ApiKey, LoginSession, User, managers};
use crate::security_event::{Recorder, SecurityEvent};
use crate::settings::{Settings, check_profile, form_of};

/// The prefix of a session's token.
pub(crate) const SESSION_PREFIX: &str = "ms_";
/// The prefix of a key. It selects the table that is read.
pub(crate) const KEY_PREFIX: &str = "mk_";
/// The prefix of a one-time token.
pub(crate) const TOKEN_PREFIX: &str = "mt_";
/// The name of the initial user.
const FIRST: &str = "admin";
/// The end of a session is stored again when this fraction of its duration has passed.
const RENEWALS: i64 = 10;
/// The number of sign-ins with providers and passkeys that a client may begin in the window of attempts.
const SIGN_INS_MAX: u32 = 50;
/// The number of tokens that may wait for the keys of their issuers.
const FETCHES_MAX: usize = 64;

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
    /// Codes of authenticator apps, by user.
    pub(crate) codes: Attempts,
    /// Mails that anonymous callers have requested, by mail address.
    pub(crate) mails: Attempts,
    /// The sign-ins with providers and passkeys that were begun, by address.
    pub(crate) sign_ins: Attempts,
    /// Fetches the keys of other issuers, and deletes old events.
    pub(crate) fetches: Arc<ThreadPool>,
    /// Keeps security events.
    pub(crate) recorder: Recorder,
    /// The table of the application with a row for each user.
    pub(crate) profile: Option<Arc<Table>>,
    /// That table as a new user sees it.
    pub(crate) profile_form: Option<Arc<Table>>,
    pub(crate) knowledge: Knowledge,
    pub(crate) jwts: Jwts,
    /// Changed ends of sessions, and ended sessions, written in the background.
    pub(crate) background: BackgroundBatch,
    /// True if other processes may change accounts, and a read without a round trip detects it.
    pub(crate) is_shared_file: bool,
    /// The changes of accounts by all processes.
    pub(crate) count: KnownCount,
    /// The store for anonymous callers, if they have grants.
    anonymous: Option<Store>,
    /// The token of the first administrator, until a password was set.
    setup_token: Option<String>,
    /// The number of logins, which triggers the removal of expired sessions.
    pub(crate) logins: AtomicU32,
}

/// The times of a credential, in microseconds.
pub(crate) struct Times {
    /// The last authentication of the user; `None` for a credential of a program.
    pub(crate) authenticated_at: Option<Timestamp>,
    pub(crate) ends_at: i64,
    pub(crate) ends_at_last: i64,
}

impl Times {
    /// Returns the times of a credential of a program.
    pub(crate) const fn until(ends_at: i64) -> Self {
        Self { authenticated_at: None, ends_at, ends_at_last: ends_at }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.fetches.dismiss();
    }
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Auth")
    }
}

/// A session as shown to its user.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SessionInfo {
    /// The primary key.
    pub id: i64,
    /// The address of the login.
    pub address: Option<String>,
    /// The device, as the client has described it.
    pub device: Option<String>,
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
    /// [`ErrorKind::Invalid`] for invalid settings, such as a table that cannot be the profile.
    pub fn new(store: &Store, mut settings: Settings) -> Result<Self> {
        let registry = store.registry();
        registry.of::<User>()?;
        for grant in settings.everyone.iter().chain(&settings.anonymous) {
            check_grant(store, grant)?;
        }
        for (table, _) in &settings.step_up {
            store.table(table)?;
        }
        let profile =
            settings.profile.as_deref().map(|name| check_profile(store, name)).transpose()?;
        let profile_form = match &profile {
            Some(table) => form_of(store, table, &settings.everyone)?,
            None => None,
        };
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
            codes: Attempts::new(settings.attempts_max, settings.attempts_window),
            mails: Attempts::new(settings.mails_max, settings.attempts_window),
            sign_ins: Attempts::new(SIGN_INS_MAX, settings.attempts_window),
            fetches: Arc::new(ThreadPool::new("marmota-issuers", 2).waiting_max(FETCHES_MAX)),
            recorder: Recorder::new(store, settings.events_max),
            profile,
            profile_form,
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
        let info = |LoginSession { id, address, device, created_at, ends_at, .. }: LoginSession| {
            SessionInfo { id, address, device, created_at, ends_at }
        };
        Ok(rows.into_iter().filter(|row| row.ends_at > now).map(info).collect())
    }

    /// Deletes the session or key of a caller.
    fn end(&self, known: &Identity) -> Result<()> {
        let store = &self.0.store;
        match known.proof {
            Proof::Session(id) => {
                store.delete_where::<LoginSession>(LoginSession::ID.eq(id)).run()?
            }
            Proof::Key(id) => store.delete_where::<ApiKey>(ApiKey::ID.eq(id)).run()?,
            // It ends by itself.
            Proof::Token => 0,
        };
        self.0.knowledge.forget(known.token);
        Ok(())
    }

    /// Records a security event, as the functions of this crate do with theirs: in the log, in the table
    /// of events, and for the listener. Does not block.
    pub fn report(&self, event: &SecurityEvent) {
        self.0.report(event);
    }
}

impl Inner {
    /// Returns the time of the settings' clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.settings.clock.as_ref().map_or_else(Timestamp::now, |clock| clock())
    }

    pub(crate) fn report(&self, event: &SecurityEvent) {
        match event.is_warning() {
            true => log::warn!("{event:?}"),
            false => log::info!("{event:?}"),
        }
        self.recorder.record(event, self.now(), &self.background, &self.fetches);
        if let Some(listener) = &self.settings.listener {
            listener.happened(event);
        }
    }

    /// Invalidates the token caches of all processes, once a transaction that changes accounts is
    /// committed.
    pub(crate) fn doubt_after(self: &Arc<Self>, tx: &Transaction) -> Result<()> {
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

    /// Returns the user with a mail address or a name.
    pub(crate) fn user_named(&self, name: &str) -> Result<Option<User>> {
        if name.contains('@')
            && let Some(user) = self.user_of_address(&lower_address(name))?
        {
            return Ok(Some(user));
        }
        let mut users = self.store.list::<User>().filter(User::NAME.eq(name)).limit(1).run()?;
        Ok(users.pop())
    }

    /// Returns the user with a mail address, which is in lower case.
    pub(crate) fn user_of_address(&self, address: &str) -> Result<Option<User>> {
        let mut users = self.store.list::<User>().filter(User::EMAIL.eq(address)).limit(1).run()?;
        Ok(users.pop())
    }

    /// Adds the first administrator, or gives them a new token as long as no user has set a
    /// password: after that a restart never creates a token that would give control over the
    /// program.
    fn prepare_first(&self) -> Result<Option<String>> {
        // A replica has the users of its primary.
        if self.store.is_replica() {
            return Ok(None);
        }
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

    pub(crate) async fn find_session(&self, token: TokenHash) -> Result<Option<Found>> {
        let filter = LoginSession::TOKEN.eq(token.text());
        let Some(row) = self.store.list::<LoginSession>().filter(filter).limit(1).await?.pop()
        else {
            return Ok(None);
        };
        let ends_at_last = after(row.created_at, self.settings.session_age_max).micros();
        let times = Times {
            authenticated_at: Some(row.authenticated_at.unwrap_or(row.created_at)),
            ends_at: row.ends_at.micros(),
            ends_at_last,
        };
        self.found(*row.user.key(), Proof::Session(row.id), times).await
    }

    pub(crate) async fn find_key(&self, token: TokenHash) -> Result<Option<Found>> {
        let filter = ApiKey::TOKEN.eq(token.text());
        let Some(row) = self.store.list::<ApiKey>().filter(filter).limit(1).await?.pop() else {
            return Ok(None);
        };
        let ends_at = row.ends_at.map_or(i64::MAX, Timestamp::micros);
        self.found(*row.user.key(), Proof::Key(row.id), Times::until(ends_at)).await
    }

    /// Reads the user of a session or key, and the user's rights; `None` if the user is disabled or
    /// missing.
    pub(crate) async fn found(
        &self,
        user: i64,
        proof: Proof,
        times: Times,
    ) -> Result<Option<Found>> {
        let Some(user) = self.store.get::<User>(user).optional().await? else { return Ok(None) };
        if user.is_disabled {
            return Ok(None);
        }
        let (now, mut fresh_until, mut stale) = (self.now(), i64::MAX, Vec::new());
        for (table, time) in &self.settings.step_up {
            match times.authenticated_at.map(|at| after(at, *time)).filter(|until| *until > now) {
                Some(until) => fresh_until = fresh_until.min(until.micros()),
                None => stale.push(table.as_str()),
            }
        }
        let rights = self.rights_of(&user, &stale).await?;
        let (user, is_admin) = (user.id, user.is_admin);
        let Times { ends_at, ends_at_last, .. } = times;
        Ok(Some(Found { user, is_admin, proof, rights, ends_at, ends_at_last, fresh_until }))
    }

    /// Returns the rights of a user.
    async fn rights_of(&self, user: &User, stale: &[&str]) -> Result<Arc<Rights>> {
        let grants: Vec<_> = self.granted(user).await?.into_iter().map(|one| one.grant).collect();
        Rights::with_step_up(self.store.registry(), Some(user.caller()), &grants, stale)
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
                Proof::Token => return,
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
        email: None,
    }
}

/// Returns a mail address as it is stored and compared: all in lower case. No known mail server
/// distinguishes the case of its users.
pub(crate) fn lower_address(address: &str) -> String {
    address.trim().to_lowercase()
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
pub(crate) fn shown(name: &str) -> String {
    marmota_model::text::excerpt(name)
}
