//! Authentication by token: from the cache if the token was read a short time ago, and otherwise by
//! an asynchronous read.
//!
//! A request on an event loop first calls [`Authenticating::ready`], which answers from memory;
//! only if that has no result, the future is polled. A token that was invalidated while it was read
//! is not cached (`known.rs`).

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use marmota_model::{Error, Result};
use marmota_store::Store;

use crate::auth::{Auth, Inner, KEY_PREFIX, Times, unauthenticated};
use crate::credentials::token::{TOKEN_BYTES_MAX, TokenHash};
use crate::ids;
use crate::known::{Identity, Proof};
use crate::security_event::SecurityEvent;

/// The maximum length of a token of another issuer in bytes.
const EXTERNAL_BYTES_MAX: usize = 8 * 1024;

/// What a token is, before its caller is read; `T` is the text of a token of another issuer.
enum Credential<T> {
    Session,
    Key,
    /// A token of another issuer, to be verified.
    External(T),
    /// A token of another issuer that was verified before.
    Known {
        user: i64,
        ends_at: i64,
    },
}

impl Credential<&str> {
    fn to_owned(&self) -> Credential<String> {
        match *self {
            Self::Session => Credential::Session,
            Self::Key => Credential::Key,
            Self::External(token) => Credential::External(token.to_owned()),
            Self::Known { user, ends_at } => Credential::Known { user, ends_at },
        }
    }
}

/// A read of the store, which is boxed because it is rare.
type Reading = Pin<Box<dyn Future<Output = Result<Arc<Identity>>> + Send>>;

/// A future of the authenticated caller: `.await` it, or call [`Authenticating::run`]. It is ready
/// at once if the token was read a short time ago ([`Authenticating::ready`]).
///
/// ```
/// # use marmota_auth::{Auth, Settings};
/// # use marmota_memory::Memory;
/// # use marmota_store::Store;
/// # let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
/// # let auth = Auth::new(&store, Settings::default().password_cost(64, 1))?;
/// # auth.set_password("admin", auth.setup_token().unwrap(), "correct horse battery", None)?;
/// # let session = auth.login("admin", "correct horse battery", None)?;
/// // The first request reads the store.
/// assert!(auth.authenticate(&session.token).ready().is_none());
/// let known = auth.authenticate(&session.token).run()?;
/// // The next ones are answered from memory.
/// let again = auth.authenticate(&session.token).ready().unwrap()?;
/// assert_eq!(again.user(), known.user());
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[must_use = "authentication does nothing until it is awaited or run"]
pub struct Authenticating(State);

/// The state of an authentication.
enum State {
    /// The result, until it is taken.
    Ready(Option<Result<Arc<Identity>>>),
    /// A read that is not finished.
    Reading(Reading),
}

impl Authenticating {
    /// Creates a future that is ready.
    const fn of(result: Result<Arc<Identity>>) -> Self {
        Self(State::Ready(Some(result)))
    }

    /// Creates a future that is ready, with an error.
    fn unknown(message: &str) -> Self {
        Self::of(Err(unauthenticated(message)))
    }

    /// Returns the result if no read is needed; never blocks.
    ///
    /// The result is taken: after `Some`, the future must not be polled.
    pub fn ready(&mut self) -> Option<Result<Arc<Identity>>> {
        match &mut self.0 {
            State::Ready(result) => result.take(),
            State::Reading(_) => None,
        }
    }

    /// Waits for the result; blocks the thread if the store must be read.
    ///
    /// # Errors
    /// As [`Auth::authenticate`].
    pub fn run(mut self) -> Result<Arc<Identity>> {
        self.ready().unwrap_or_else(|| marmota_store::action::block_on(self))
    }
}

impl Future for Authenticating {
    type Output = Result<Arc<Identity>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Ready(result) => result.take().map_or(Poll::Pending, Poll::Ready),
            State::Reading(reading) => reading.as_mut().poll(context),
        }
    }
}

impl fmt::Debug for Authenticating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authenticating")
    }
}

impl Auth {
    /// Authenticates a token: of a session, a key, or a JWT. Uses the cache if it was read a short
    /// time ago, and otherwise reads the store.
    ///
    /// A token of more than 1024 bytes is invalid; of other issuers, one of more than 8 KiB. The call extends the session
    /// ([`Settings::session_idle`](crate::Settings::session_idle)).
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Unauthenticated`] if the token is invalid, or its session has
    /// ended.
    pub fn authenticate(&self, token: &str) -> Authenticating {
        let bytes_max = match self.0.settings.token_issuers {
            Some(_) => EXTERNAL_BYTES_MAX,
            None => TOKEN_BYTES_MAX,
        };
        if token.len() > bytes_max {
            return Authenticating::unknown("invalid token");
        }
        if !token.contains('.') {
            return match token.starts_with(KEY_PREFIX) {
                true => self.find(TokenHash::of(token), &Credential::Key, None),
                false => self.find(TokenHash::of(token), &Credential::Session, None),
            };
        }
        match self.0.jwts.read(token, self.0.now()) {
            Some((user, session)) => self.find(session, &Credential::Session, Some(user)),
            None if self.0.settings.token_issuers.is_some() => {
                self.find(TokenHash::of(token), &Credential::External(token), None)
            }
            None => Authenticating::unknown("the JWT is invalid or has expired"),
        }
    }

    /// Authenticates an earlier caller again, with the current rights: for persistent connections.
    ///
    /// A WebSocket or a stream calls it from time to time, since its credential was sent only once.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Unauthenticated`] if the session or key has ended.
    pub fn revalidate(&self, known: &Identity) -> Authenticating {
        let credential = match known.proof {
            Proof::Session(_) => Credential::Session,
            Proof::Key(_) => Credential::Key,
            Proof::Token => Credential::Known { user: known.user, ends_at: known.ends_at_last },
        };
        self.find(known.token, &credential, Some(known.user))
    }

    /// Returns the caller from the cache, otherwise a read. `of_user` is the user that a JWT or an
    /// earlier authentication names, which must be the same.
    fn find(
        &self,
        hash: TokenHash,
        credential: &Credential<&str>,
        of_user: Option<i64>,
    ) -> Authenticating {
        match self.0.remembered(hash) {
            Some(known) if self.0.is_current(&known) => Authenticating::of(of(known, of_user)),
            _ => self.read(hash, credential, of_user),
        }
    }

    /// Returns a read of the store.
    #[cold]
    fn read(
        &self,
        hash: TokenHash,
        credential: &Credential<&str>,
        of_user: Option<i64>,
    ) -> Authenticating {
        let inner = Arc::clone(&self.0);
        let credential = credential.to_owned();
        Authenticating(State::Reading(Box::pin(async move {
            of(inner.read(hash, &credential).await?, of_user)
        })))
    }

    /// Returns the store for a credential: a token, or empty for an anonymous caller. A server for
    /// other processes calls it (`marmota_remote::Service::authenticate`).
    ///
    /// ```
    /// # use marmota_auth::{Auth, Settings};
    /// # use marmota_memory::Memory;
    /// # use marmota_model::ErrorKind;
    /// # use marmota_store::Store;
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
    /// # let auth = Auth::new(&store, Settings::default().password_cost(64, 1))?;
    /// let refused = auth.store_of(b"").run().unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::Unauthenticated);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Auth::authenticate`]; also for an empty credential if anonymous access is disabled.
    pub fn store_of(&self, credential: &[u8]) -> StoreOf {
        let now = |result| StoreOf(StoreState::Ready(Some(result)));
        if credential.is_empty() {
            let none = || unauthenticated("send a token: a session token or a key");
            return now(self.anonymous().cloned().ok_or_else(none));
        }
        match std::str::from_utf8(credential) {
            Err(_) => now(Err(unauthenticated("invalid token"))),
            Ok(token) => StoreOf(StoreState::Finding(self.authenticate(token))),
        }
    }
}

/// A future of the store for a caller ([`Auth::store_of`]): `.await` it, or call [`StoreOf::run`].
#[must_use = "authentication does nothing until it is awaited or run"]
#[derive(Debug)]
pub struct StoreOf(StoreState);

#[derive(Debug)]
enum StoreState {
    Ready(Option<Result<Store>>),
    Finding(Authenticating),
}

impl StoreOf {
    /// Returns the result if no read is needed; never blocks.
    pub fn ready(&mut self) -> Option<Result<Store>> {
        match &mut self.0 {
            StoreState::Ready(result) => result.take(),
            StoreState::Finding(finding) => finding.ready().map(store),
        }
    }

    /// Waits for the result; blocks the thread if the store must be read.
    ///
    /// # Errors
    /// As [`Auth::store_of`].
    pub fn run(self) -> Result<Store> {
        match self.0 {
            StoreState::Ready(result) => result.unwrap_or_else(|| Err(unauthenticated("taken"))),
            StoreState::Finding(finding) => store(finding.run()),
        }
    }
}

fn store(known: Result<Arc<Identity>>) -> Result<Store> {
    known.map(|known| known.store().clone())
}

impl Future for StoreOf {
    type Output = Result<Store>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            StoreState::Ready(result) => result.take().map_or(Poll::Pending, Poll::Ready),
            StoreState::Finding(finding) => Pin::new(finding).poll(context).map(store),
        }
    }
}

/// The error for a token without a session or key.
#[cold]
fn unknown() -> Error {
    unauthenticated("the token is unknown or has expired")
}

/// Returns the caller, unless a JWT names another user.
fn of(known: Arc<Identity>, of_user: Option<i64>) -> Result<Arc<Identity>> {
    match of_user.is_none_or(|user| user == known.user) {
        true => Ok(known),
        false => Err(unknown()),
    }
}

impl Inner {
    /// Returns the caller of a token, if it is cached and valid.
    fn remembered(&self, hash: TokenHash) -> Option<Arc<Identity>> {
        let now = self.now().micros();
        let known = self.knowledge.good(hash, now)?;
        // Another process may have extended it: read the store.
        if known.has_ended(now) || now >= known.fresh_until {
            return None;
        }
        self.renew(&known, now);
        Some(known)
    }

    /// Returns true if no process has changed accounts since a token was read, as far as that can
    /// be determined without waiting; changes by this process are known without a read.
    fn is_current(&self, known: &Identity) -> bool {
        if !self.is_shared_file {
            return true;
        }
        let reading = pin!(ids::changes(&self.store));
        // A read that must wait is canceled, and the token is read again.
        let read = reading.poll(&mut Context::from_waker(Waker::noop()));
        matches!(read, Poll::Ready(Ok(changes)) if changes == known.changes)
    }

    /// Reads a token from the store and caches it. The mark is taken before the read, so that a
    /// change during the read is noticed.
    async fn read(
        &self,
        hash: TokenHash,
        credential: &Credential<String>,
    ) -> Result<Arc<Identity>> {
        let changes = match self.is_shared_file {
            true => ids::changes(&self.store).await?,
            false => 0,
        };
        let before = self.knowledge.mark(hash, changes);
        let found = match credential {
            Credential::Session => self.find_session(hash).await?,
            Credential::Key => self.find_key(hash).await?,
            Credential::External(token) => self.find_external(token).await?,
            Credential::Known { user, ends_at } => {
                self.found(*user, Proof::Token, Times::until(*ends_at)).await?
            }
        };
        let now = self.now().micros();
        let found = found.ok_or_else(unknown)?;
        let known = Arc::new(Identity::new(found, hash, &self.store, before, now));
        if let Some(moved) = self.knowledge.end_of(&known) {
            // The session was used here, and its new end is not stored yet.
            known.ends_at.fetch_max(moved, Ordering::Relaxed);
        }
        if known.has_ended(now) {
            self.end_later(&known);
            self.report(&SecurityEvent::SessionEnded { user: known.user });
            return Err(unauthenticated("the session has ended; log in again"));
        }
        // A session that ends during the read is valid for this request only, which started before.
        self.knowledge.put(&known, before);
        self.renew(&known, now);
        Ok(known)
    }
}

impl Identity {
    /// Returns true if the session or key has expired; `now` is in microseconds.
    fn has_ended(&self, now: i64) -> bool {
        now >= self.ends_at.load(Ordering::Relaxed).min(self.ends_at_last)
    }
}
