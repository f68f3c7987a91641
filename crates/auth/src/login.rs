//! Logins by name and password, and the change of passwords.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use marmota_model::{Error, ErrorKind, Ref, Result, Timestamp};
use marmota_store::Transaction;
use subtle::ConstantTimeEq;

use crate::auth::{Auth, Inner, SESSION_PREFIX, after, shown, unauthenticated};
use crate::credentials::passkey::SecondProof;
use crate::credentials::token::{self, TokenHash};
use crate::ids;
use crate::models::{LoginSession, User};
use crate::security_event::SecurityEvent;

/// Expired sessions are removed at every such number of logins.
const LOGINS_BETWEEN_SWEEPS: u32 = 64;
/// The maximum length of the description of a device, in characters.
const DEVICE_CHARS_MAX: usize = 200;

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

/// The client of a login, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoginClient<'c> {
    /// The client's address, for the limits of failures ([`crate::Settings::attempts`]); `None` for a
    /// local caller.
    pub address: Option<IpAddr>,
    /// The device, which the user sees in the list of sessions: the header `User-Agent`, for example. At
    /// most 200 characters are stored.
    pub device: Option<&'c str>,
}

impl Auth {
    /// Starts a session. Hashing the password blocks this thread for the time that the settings
    /// imply.
    ///
    /// `from` is the client's address, for the limits of failures ([`Settings::attempts`](crate::Settings::attempts)); `None`
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
        self.login_with(name, password, None, LoginClient { address: from, device: None })
    }

    /// [`Auth::login`] of a user who may have an authenticator app, with the client's description.
    ///
    /// `name` is the name of the user, or the mail address. `proof` is a code of the app, a recovery code
    /// (`Some("123456")`), or the answer of a passkey ([`SecondProof`]); users without a second factor need
    /// none. Call it without one first: the error states whether it is needed.
    ///
    /// ```
    /// # use marmota_auth::{Auth, LoginClient, Settings};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
    /// # let auth = Auth::new(&store, Settings::default().password_cost(64, 1))?;
    /// # auth.set_password("admin", auth.setup_token().unwrap(), "correct horse battery", None)?;
    /// let client = LoginClient { device: Some("Firefox on Linux"), ..LoginClient::default() };
    /// let login = auth.login_with("admin", "correct horse battery", None, client)?;
    /// let sessions = auth.sessions(login.user)?;
    /// assert_eq!(sessions[0].device.as_deref(), Some("Firefox on Linux"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Auth::login`]. If a code is missing or wrong, the error has the violation `code`, with the
    /// rule `required` or `code`; also the violation `passkey` with the rule `required`, if the user has one.
    pub fn login_with<'p>(
        &self,
        name: &str,
        password: &str,
        proof: impl Into<SecondProof<'p>>,
        client: LoginClient<'_>,
    ) -> Result<LoggedIn> {
        let inner = &self.0;
        let from = client.address;
        inner.begin_attempt(name, from)?;
        let user = inner.user_named(name)?.filter(|user| !user.is_disabled);
        let hash = user.as_ref().and_then(|user| user.password.as_deref());
        let is_right = inner.passwords.suits(password, hash);
        let Some(user) = user.filter(|_| is_right) else {
            self.report(&SecurityEvent::LoginFailed { name: shown(name), address: from });
            return Err(unauthenticated("wrong name or password"));
        };
        inner.attempts.succeeded(name, from, inner.now());
        inner.pass_second_factor(user.id, proof.into(), from)?;
        inner.log_in(&user, client)
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
        let inner = &self.0;
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
        inner.store_password(user.id, &new, |_, now| match suits(now) {
            true => Ok(()),
            false => Err(unknown()),
        })
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
        let inner = &self.0;
        let user = inner.store.get::<User>(user).run()?;
        inner.check_password(&user, old, from)?;
        let new = inner.passwords.hash(new)?;
        let message = "the password was changed in the meantime; log in again";
        inner.store_password(user.id, &new, |_, now| match now.password == user.password {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Conflict, message)),
        })
    }
}

impl Inner {
    /// Counts an attempt; an error if there were too many failures.
    pub(crate) fn begin_attempt(&self, name: &str, from: Option<IpAddr>) -> Result<()> {
        let Err(wait) = self.attempts.begin(name, from, self.now()) else { return Ok(()) };
        self.report(&SecurityEvent::LoginLimited { name: shown(name), address: from });
        let message =
            format!("too many logins have failed; try again in {} s", wait.as_secs().max(1));
        Err(Error::new(ErrorKind::Busy, message))
    }

    /// Stores a hash and ends the user's sessions, unless `check` refuses the user as stored: another
    /// request may have used the token or changed the password since it was read.
    pub(crate) fn store_password(
        self: &Arc<Self>,
        user: i64,
        hash: &str,
        check: impl Fn(&Transaction, &User) -> Result<()>,
    ) -> Result<()> {
        self.store.transaction(|tx| {
            check(tx, &tx.get::<User>(user).run()?)?;
            tx.patch::<User>(user)
                .set(User::PASSWORD, hash.to_owned())
                .set(User::TOKEN, None)
                .set(User::TOKEN_ENDS_AT, None)
                .run()?;
            tx.delete_where::<LoginSession>(LoginSession::USER.eq(Ref::new(user))).run()?;
            self.changed(tx, SecurityEvent::PasswordSet { user })
        })
    }

    /// Checks the password of a caller who is logged in, before a change of the account.
    pub(crate) fn check_password(
        &self,
        user: &User,
        password: &str,
        from: Option<IpAddr>,
    ) -> Result<()> {
        self.begin_attempt(&user.name, from)?;
        if !self.passwords.suits(password, user.password.as_deref()) {
            self.report(&SecurityEvent::LoginFailed { name: shown(&user.name), address: from });
            return Err(unauthenticated("the password is wrong"));
        }
        self.attempts.succeeded(&user.name, from, self.now());
        Ok(())
    }

    /// Starts a session of a user who has proved who they are.
    pub(crate) fn log_in(
        self: &Arc<Self>,
        user: &User,
        client: LoginClient<'_>,
    ) -> Result<LoggedIn> {
        let login = self.begin_session(user, client)?;
        let (name, address) = (user.name.clone(), client.address);
        self.report(&SecurityEvent::LoggedIn { user: user.id, name, address });
        if self.logins.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOGINS_BETWEEN_SWEEPS) {
            let ended = LoginSession::ENDS_AT.lt(self.now());
            self.store.delete_where::<LoginSession>(ended).run()?;
        }
        Ok(login)
    }

    /// Inserts a session, unless the user has changed meanwhile.
    fn begin_session(self: &Arc<Self>, user: &User, client: LoginClient<'_>) -> Result<LoggedIn> {
        let token = token::new(SESSION_PREFIX)?;
        let now = self.now();
        let ends_at = after(now, self.settings.session_idle.min(self.settings.session_age_max));
        let session = LoginSession {
            id: ids::of_session()?,
            user: Ref::new(user.id),
            token: TokenHash::of(&token).text(),
            address: client.address.map(|address| address.to_string()),
            created_at: now,
            ends_at,
            device: client.device.map(|device| device.chars().take(DEVICE_CHARS_MAX).collect()),
            authenticated_at: Some(now),
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
}

/// Compares two hashes in constant time.
pub(crate) fn is_same(one: &str, two: &str) -> bool {
    one.as_bytes().ct_eq(two.as_bytes()).into()
}
