//! The passkeys of a user: adding, listing, renaming and removing them.
//!
//! A change needs a recent authentication, so that a session left open is not sufficient to add another way
//! into the account. The first passkey brings recovery codes, as an authenticator app does.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use marmota_model::{Error, ErrorKind, Json, Ref, Result, Timestamp, Violation};
use marmota_store::Transaction;
use serde_json::Value;

use crate::auth::{Auth, Inner, after};
use crate::credentials::passkey::{HANDLE_BYTES, PasskeyUser};
use crate::credentials::{token, totp};
use crate::ids;
use crate::known::{Identity, Proof};
use crate::models::{LinkedIdentity, LoginSession, Passkey, SecondFactor, User};
use crate::security_event::SecurityEvent;
use crate::self_service::second_factor::recovery_hash;

use std::time::Duration;

/// The maximum number of passkeys of a user.
const PASSKEYS_MAX: u64 = 20;
/// The maximum length of a name in characters.
const NAME_CHARS_MAX: usize = 100;
/// What a change of passkeys is called in messages.
const CHANGE: &str = "a change of passkeys";
/// The time after an authentication in which passkeys can be added and removed.
const RECENT: Duration = Duration::from_secs(10 * 60);

/// A passkey as shown to its user.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PasskeyInfo {
    /// The primary key.
    pub id: i64,
    /// The name that the user has chosen.
    pub name: String,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the last sign-in with it.
    pub used_at: Option<Timestamp>,
}

/// The result of [`Auth::add_passkey`].
#[derive(Clone)]
#[allow(missing_debug_implementations, reason = "it has secrets")]
pub struct AddedPasskey {
    /// The primary key.
    pub id: i64,
    /// The recovery codes, if the user had none: each replaces the passkey after a password once. Only
    /// their hashes are stored.
    pub recovery_codes: Option<Vec<String>>,
}

impl Auth {
    /// Returns true if users can have passkeys ([`crate::Settings::passkeys`]).
    #[must_use]
    pub fn has_passkeys(&self) -> bool {
        self.0.settings.passkeys.is_some()
    }

    /// Returns the passkeys of a user, the oldest first.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn passkeys(&self, user: i64) -> Result<Vec<PasskeyInfo>> {
        let info = |Passkey { id, name, created_at, used_at, .. }: Passkey| PasskeyInfo {
            id,
            name,
            created_at,
            used_at,
        };
        Ok(self.0.passkeys_of(user)?.into_iter().map(info).collect())
    }

    /// Begins to add a passkey to the user of a session. Returns the options for
    /// `navigator.credentials.create`, in their JSON form, whose answer is for [`Auth::add_passkey`] and
    /// valid for 5 minutes.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the program has no passkeys; [`ErrorKind::Denied`] for a caller without
    /// a session, and with the violation `step-up` if the last authentication is more than 10 minutes ago
    /// ([`Auth::step_up`]); [`ErrorKind::Conflict`] if the user has 20 passkeys.
    pub fn begin_passkey(&self, known: &Identity) -> Result<Value> {
        let inner = &self.0;
        let protocol = inner.passkey_protocol()?;
        inner.require_recent(known, CHANGE)?;
        let user = inner.store.get::<User>(known.user).run()?;
        let there = inner.passkeys_of(user.id)?;
        if there.len() as u64 >= PASSKEYS_MAX {
            return Err(too_many());
        }
        let handle = there.first().and_then(|passkey| handle_of(&passkey.handle));
        let handle = handle.map_or_else(token::random::<HANDLE_BYTES>, Ok)?;
        let credentials: Vec<String> =
            there.into_iter().map(|passkey| passkey.credential).collect();
        let request = protocol.begin_registration(&PasskeyUser {
            handle,
            name: &user.name,
            credentials: &credentials,
        })?;
        inner.keep_challenge(&request, Some(user.id))?;
        Ok(request.options)
    }

    /// Adds a passkey to the user of a session. `answer` is the answer of the browser as JSON,
    /// `RegistrationResponseJSON` of WebAuthn.
    ///
    /// From now on, a login with the password needs the passkey, a code of an authenticator app, or a
    /// recovery code as well. The passkey alone signs in, too: it verifies the user.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] for an answer that is not accepted, [`ErrorKind::Invalid`] for an
    /// invalid name, and those of [`Auth::begin_passkey`].
    pub fn add_passkey(
        &self,
        known: &Identity,
        name: &str,
        answer: &str,
        from: Option<IpAddr>,
    ) -> Result<AddedPasskey> {
        let inner = &self.0;
        let protocol = inner.passkey_protocol()?;
        inner.require_recent(known, CHANGE)?;
        let name = checked_name(name)?;
        let user = known.user;
        let made = inner
            .take_challenge(answer, Some(user))
            .and_then(|state| protocol.finish_registration(&state, answer));
        let made = made.map_err(|error| inner.refuse_passkey(error, Some(user), from))?;
        let now = inner.now();
        let row = Passkey {
            id: ids::of_session()?,
            user: Ref::new(user),
            credential: made.credential,
            handle: URL_SAFE_NO_PAD.encode(made.handle),
            key: URL_SAFE_NO_PAD.encode(made.key),
            state: URL_SAFE_NO_PAD.encode(made.state),
            name,
            created_at: now,
            used_at: None,
            version: 0,
        };
        let codes = totp::recovery_codes()?;
        let hashes: Vec<String> = codes.iter().map(|code| recovery_hash(code)).collect();
        let has_new_codes = inner.store.transaction(|tx| {
            let of_user = Passkey::USER.eq(Ref::new(user));
            if tx.count::<Passkey>().filter(of_user).run()? >= PASSKEYS_MAX {
                return Err(too_many());
            }
            tx.insert(&row).run()?;
            inner.changed(tx, SecurityEvent::PasskeyAdded { user, passkey: row.id })?;
            let factor = tx.get::<SecondFactor>(user).optional().run()?;
            let with_codes = |factor| SecondFactor {
                is_confirmed: true,
                recovery: Json(hashes.clone()),
                ..factor
            };
            match factor {
                Some(factor) if factor.is_confirmed => return Ok(false),
                Some(factor) => tx.update(&with_codes(factor)).run().map(drop)?,
                None => {
                    let factor = SecondFactor::without_app(user, now);
                    tx.insert(&with_codes(factor)).run().map(drop)?;
                }
            }
            Ok(true)
        })?;
        Ok(AddedPasskey { id: row.id, recovery_codes: has_new_codes.then_some(codes) })
    }

    /// Changes the name of a passkey.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the user has no such passkey, [`ErrorKind::Invalid`] for an invalid name.
    pub fn rename_passkey(&self, user: i64, passkey: i64, name: &str) -> Result<()> {
        let name = checked_name(name)?;
        self.0.store.transaction(|tx| {
            let row = tx.get::<Passkey>(passkey).optional().run()?;
            let row = row.filter(|row| *row.user.key() == user).ok_or_else(no_passkey)?;
            tx.update(&Passkey { name: name.clone(), ..row }).run().map(drop)
        })
    }

    /// Removes a passkey from the user of a session.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the user has no such passkey; [`ErrorKind::Conflict`] if no way to sign in
    /// would be left; [`ErrorKind::Denied`] as [`Auth::begin_passkey`].
    pub fn remove_passkey(&self, known: &Identity, passkey: i64) -> Result<()> {
        let inner = &self.0;
        inner.require_recent(known, CHANGE)?;
        let user = known.user;
        inner.store.transaction(|tx| {
            let of_user = Passkey::USER.eq(Ref::new(user));
            let one = Passkey::ID.eq(passkey).and(of_user.clone());
            if tx.delete_where::<Passkey>(one).run()? == 0 {
                return Err(no_passkey());
            }
            let owner = tx.get::<User>(user).run()?;
            let left = tx.count::<Passkey>().filter(of_user).run()?;
            let identities = LinkedIdentity::USER.eq(Ref::new(user));
            let can_sign_in = left > 0
                || owner.password.is_some()
                || owner.email.is_some()
                || tx.count::<LinkedIdentity>().filter(identities).run()? > 0;
            if !can_sign_in {
                let message = "this is the only way to sign in: set a password first";
                return Err(Error::new(ErrorKind::Conflict, message));
            }
            if left == 0 {
                forget_codes(tx, user)?;
            }
            inner.changed(tx, SecurityEvent::PasskeyRemoved { user, passkey })
        })
    }

    /// Removes all passkeys of a user who has lost them, for administrators. The caller must check
    /// permissions first.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the user has none.
    pub fn remove_passkeys(&self, user: i64) -> Result<()> {
        let inner = &self.0;
        inner.store.transaction(|tx| {
            let of_user = Passkey::USER.eq(Ref::new(user));
            let passkeys =
                tx.list::<Passkey>().filter(of_user.clone()).column(Passkey::ID).run()?;
            if passkeys.is_empty() {
                return Err(no_passkey());
            }
            tx.delete_where::<Passkey>(of_user).run()?;
            forget_codes(tx, user)?;
            for passkey in passkeys {
                inner.changed(tx, SecurityEvent::PasskeyRemoved { user, passkey })?;
            }
            Ok(())
        })
    }
}

impl Inner {
    pub(crate) fn passkeys_of(&self, user: i64) -> Result<Vec<Passkey>> {
        let of_user = Passkey::USER.eq(Ref::new(user));
        let list = self.store.list::<Passkey>().filter(of_user);
        list.order(Passkey::CREATED_AT.ascending()).run()
    }

    /// Returns an error if the last authentication of a session is too old for `what`.
    pub(crate) fn require_recent(&self, known: &Identity, what: &str) -> Result<()> {
        let Proof::Session(session) = known.proof else {
            let message = format!("{what} needs the session of the user: log in first");
            return Err(Error::new(ErrorKind::Denied, message));
        };
        let session = self.store.get::<LoginSession>(session).run()?;
        let at = session.authenticated_at.unwrap_or(session.created_at);
        if after(at, RECENT) > self.now() {
            return Ok(());
        }
        let message = format!(
            "{what} needs a recent authentication: send one to /auth/step-up below the API, or sign in \
             again"
        );
        Err(Error::new(ErrorKind::Denied, message.clone()).with_violation(Violation {
            field: "passkey".to_owned(),
            value: "\"…\"".to_owned(),
            rule: "step-up".to_owned(),
            message,
        }))
    }
}

/// Deletes the recovery codes of a user whose last passkey was removed, unless there is an app.
fn forget_codes(tx: &Transaction, user: i64) -> Result<()> {
    let factor = tx.get::<SecondFactor>(user).optional().run()?;
    if factor.is_some_and(|factor| !factor.has_app()) {
        tx.delete::<SecondFactor>(user).run()?;
    }
    Ok(())
}

/// Returns the handle of a user from its stored text.
pub(crate) fn handle_of(text: &str) -> Option<[u8; HANDLE_BYTES]> {
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

fn checked_name(name: &str) -> Result<String> {
    let name = name.trim();
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        let message = format!("must have 1 to {NAME_CHARS_MAX} characters");
        let error = Error::new(ErrorKind::Invalid, format!("the name of a passkey {message}"));
        return Err(error.with_violation(Violation {
            field: "name".to_owned(),
            value: marmota_model::text::excerpt(name),
            rule: "length".to_owned(),
            message,
        }));
    }
    Ok(name.to_owned())
}

fn too_many() -> Error {
    let message = format!("a user can have at most {PASSKEYS_MAX} passkeys; remove one first");
    Error::new(ErrorKind::Conflict, message)
}

fn no_passkey() -> Error {
    Error::new(ErrorKind::NotFound, "there is no such passkey")
}
