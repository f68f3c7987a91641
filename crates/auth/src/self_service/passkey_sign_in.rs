//! The use of passkeys: to sign in without a password, as a second factor, and to authenticate again.
//!
//! ```text
//! challenge ──> browser: the user unlocks the passkey, which signs ──> answer
//!   └─ row: hash of the challenge, what the protocol needs               │
//!                the row is deleted, the answer verified, the counter stored <──┘
//! ```
//!
//! The row is deleted before the answer is verified: a challenge permits one attempt.

use std::net::IpAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use marmota_model::{Error, ErrorKind, Result};
use serde_json::Value;
use std::sync::Arc;

use crate::auth::{Auth, Inner, after, unauthenticated};
use crate::credentials::passkey::{NewPasskey, PasskeyProtocol, PasskeyRequest};
use crate::credentials::token::TokenHash;
use crate::ids;
use crate::known::Identity;
use crate::login::{LoggedIn, LoginClient};
use crate::models::{Passkey, PasskeyChallenge, User};
use crate::security_event::SecurityEvent;
use crate::self_service::passkeys::handle_of;

/// The time that a person has to unlock a passkey.
const CHALLENGE_AGE: Duration = Duration::from_secs(5 * 60);
/// The maximum number of challenges that wait for an answer.
const PENDING_MAX: u64 = 10_000;
/// The number of times that the counter of a passkey is read again, because another sign-in has changed it.
const RETRIES: usize = 3;

impl Auth {
    /// Begins to use a passkey: returns the options for `navigator.credentials.get`, in their JSON form.
    /// The answer is valid for 5 minutes, once, for [`Auth::login_with_passkey`],
    /// [`Auth::step_up_with_passkey`], or as a [`crate::SecondProof`].
    ///
    /// The options name no user: the person chooses a passkey of this server.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the program has no passkeys, [`ErrorKind::Busy`] if the client has
    /// requested too many challenges.
    pub fn passkey_challenge(&self, client: LoginClient<'_>) -> Result<Value> {
        let inner = &self.0;
        let protocol = inner.passkey_protocol()?;
        self.limit_sign_in(client)?;
        let request = protocol.begin_assertion()?;
        inner.keep_challenge(&request, None)?;
        Ok(request.options)
    }

    /// Starts a session with a passkey only. The passkey has verified the person, so that an authenticator
    /// app is not needed as well. `answer` is the answer of the browser as JSON,
    /// `AuthenticationResponseJSON` of WebAuthn.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] for an answer that is not accepted, [`ErrorKind::Denied`] if the user
    /// is disabled.
    pub fn login_with_passkey(&self, answer: &str, client: LoginClient<'_>) -> Result<LoggedIn> {
        let inner = &self.0;
        let user = inner.check_passkey(answer, None, client.address)?;
        inner.log_in(&user, client)
    }

    /// [`Auth::step_up`] with a passkey instead of the password.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] for an answer that is not accepted, [`ErrorKind::Denied`] for a caller
    /// without a session.
    pub fn step_up_with_passkey(
        &self,
        known: &Identity,
        answer: &str,
        from: Option<IpAddr>,
    ) -> Result<()> {
        let session = Self::session_of(known)?;
        self.0.check_passkey(answer, Some(known.user), from)?;
        self.stepped_up(known, session, from)
    }
}

impl Inner {
    pub(crate) fn passkey_protocol(&self) -> Result<&Arc<dyn PasskeyProtocol>> {
        let none = || Error::new(ErrorKind::Unsupported, "this program has no passkeys");
        self.settings.passkeys.as_ref().ok_or_else(none)
    }

    /// Stores the challenge of a request. A user has one request for a new passkey at a time.
    pub(crate) fn keep_challenge(&self, request: &PasskeyRequest, user: Option<i64>) -> Result<()> {
        let challenge = request.options["challenge"].as_str().ok_or_else(unanswerable)?;
        let row = PasskeyChallenge {
            id: ids::of_session()?,
            challenge: TokenHash::of(challenge).text(),
            user,
            state: URL_SAFE_NO_PAD.encode(&request.state),
            ends_at: after(self.now(), CHALLENGE_AGE),
        };
        let ended = PasskeyChallenge::ENDS_AT.lt(self.now());
        let old = match user {
            Some(user) => ended.or(PasskeyChallenge::USER.eq(user)),
            None => ended,
        };
        self.store.delete_where::<PasskeyChallenge>(old).run()?;
        if self.store.count::<PasskeyChallenge>().run()? >= PENDING_MAX {
            let message = "too many sign-ins are under way; try again later";
            return Err(Error::new(ErrorKind::Busy, message));
        }
        self.store.insert(&row).run().map(drop)
    }

    /// Deletes the challenge that an answer names, and returns what the protocol needs. `user` is the one
    /// who adds a passkey.
    pub(crate) fn take_challenge(&self, answer: &str, user: Option<i64>) -> Result<Vec<u8>> {
        let unknown =
            || unauthenticated("the challenge is unknown, was used, or has expired; begin again");
        let challenge =
            Answer::of(answer).and_then(|answer| answer.challenge()).ok_or_else(unknown)?;
        let is_it = PasskeyChallenge::CHALLENGE.eq(TokenHash::of(&challenge).text());
        let rows = self.store.list::<PasskeyChallenge>().filter(is_it).limit(1);
        let row = rows.run()?.pop().ok_or_else(unknown)?;
        let same = PasskeyChallenge::ID.eq(row.id);
        let deleted = self.store.delete_where::<PasskeyChallenge>(same).run()?;
        if deleted == 0 || row.ends_at <= self.now() || row.user != user {
            return Err(unknown());
        }
        URL_SAFE_NO_PAD.decode(&row.state).map_err(|_| unanswerable())
    }

    /// Verifies the answer of a passkey, and returns its user: `user`, if there is one.
    pub(crate) fn check_passkey(
        &self,
        answer: &str,
        user: Option<i64>,
        from: Option<IpAddr>,
    ) -> Result<User> {
        let checked = self.verified_by_passkey(answer, user);
        checked.map_err(|error| self.refuse_passkey(error, user, from))
    }

    fn verified_by_passkey(&self, answer: &str, user: Option<i64>) -> Result<User> {
        let protocol = self.passkey_protocol()?;
        let state = self.take_challenge(answer, None)?;
        let credential = Answer::of(answer).and_then(|answer| answer.credential());
        let credential = credential.ok_or_else(unknown_passkey)?;
        for _ in 0..RETRIES {
            let is_it = Passkey::CREDENTIAL.eq(&*credential);
            let row = self.store.list::<Passkey>().filter(is_it).limit(1).run()?.pop();
            let row = row.ok_or_else(unknown_passkey)?;
            let owner = *row.user.key();
            if user.is_some_and(|user| user != owner) {
                return Err(unauthenticated("the passkey belongs to another user"));
            }
            let known = NewPasskey {
                credential: row.credential.clone(),
                handle: handle_of(&row.handle).ok_or_else(unanswerable)?,
                key: URL_SAFE_NO_PAD.decode(&row.key).map_err(|_| unanswerable())?,
                state: URL_SAFE_NO_PAD.decode(&row.state).map_err(|_| unanswerable())?,
            };
            let changed = protocol.finish_assertion(&state, answer, &known)?;
            let owner = self.store.get::<User>(owner).run()?;
            if owner.is_disabled {
                return Err(Error::new(ErrorKind::Denied, "the account is disabled"));
            }
            let state = URL_SAFE_NO_PAD.encode(changed);
            let used = Passkey { state, used_at: Some(self.now()), ..row };
            match self.store.update(&used).run() {
                Ok(_) => return Ok(owner),
                // Another sign-in has moved the counter.
                Err(error) if error.kind() == ErrorKind::Stale => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Busy, "the passkey is used at the same time; try again"))
    }

    /// Reports an answer that was refused, and returns the error.
    pub(crate) fn refuse_passkey(
        &self,
        error: Error,
        user: Option<i64>,
        from: Option<IpAddr>,
    ) -> Error {
        if let ErrorKind::Unauthenticated | ErrorKind::Denied = error.kind() {
            let reason = error.message().to_owned();
            self.report(&SecurityEvent::PasskeyRefused { user, reason, address: from });
        }
        error
    }
}

/// The parts of an answer that select rows; the protocol verifies them.
struct Answer(Value);

impl Answer {
    fn of(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok().map(Self)
    }

    fn credential(&self) -> Option<String> {
        self.0["id"].as_str().map(str::to_owned)
    }

    fn challenge(&self) -> Option<String> {
        let client = URL_SAFE_NO_PAD.decode(self.0["response"]["clientDataJSON"].as_str()?).ok()?;
        let client: Value = serde_json::from_slice(&client).ok()?;
        client["challenge"].as_str().map(str::to_owned)
    }
}

fn unknown_passkey() -> Error {
    unauthenticated("the passkey is not known here, or was removed")
}

/// The error for stored data that cannot be read.
pub(crate) fn unanswerable() -> Error {
    Error::new(ErrorKind::Bug, "the data of a passkey cannot be read")
}
