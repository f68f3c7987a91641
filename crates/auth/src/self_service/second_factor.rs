//! Authenticator apps as a second factor (TOTP), with recovery codes.
//!
//! No code is accepted twice: the time step of the last one is stored in the transaction that accepts it,
//! and a recovery code is removed. Wrong codes are limited for each user, from all addresses together: a
//! code has only a million values, and only who has the password gets to try.

use std::net::IpAddr;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Json, Ref, Result, Violation};

use crate::auth::{Auth, Inner};
use crate::credentials::passkey::SecondProof;
use crate::credentials::token::TokenHash;
use crate::credentials::totp;
use crate::login::is_same;
use crate::models::{Passkey, SecondFactor, User};
use crate::security_event::SecurityEvent;

/// What a user enters into an authenticator app ([`Auth::begin_totp`]).
#[derive(Clone)]
#[non_exhaustive]
pub struct TotpSetup {
    /// The secret, as base32, to be typed.
    pub secret: String,
    /// The same as a URL, `otpauth://totp/…`.
    pub url: String,
    /// The URL as a QR code, to be shown to the app's camera: an image in SVG.
    pub qr_code: String,
}

impl std::fmt::Debug for TotpSetup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TotpSetup")
    }
}

impl Auth {
    /// Begins to set up an authenticator app. It is needed at logins once [`Auth::confirm_totp`] was
    /// called with a code of it.
    ///
    /// A second call before that replaces the secret. The server stores the secret in clear, because it
    /// computes codes from it.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] if the password is wrong, [`ErrorKind::Conflict`] if the user has
    /// an app already, [`ErrorKind::Busy`] after too many wrong passwords.
    pub fn begin_totp(&self, user: i64, password: &str, from: Option<IpAddr>) -> Result<TotpSetup> {
        let inner = &self.0;
        let user = inner.store.get::<User>(user).run()?;
        inner.check_password(&user, password, from)?;
        let secret = totp::new_secret()?;
        let url = totp::url(&secret, &inner.settings.title, &user.name)?;
        let qr_code = totp::qr_code(&url)?;
        inner.store.transaction(|tx| {
            let there = tx.get::<SecondFactor>(user.id).optional().run()?;
            if there.as_ref().is_some_and(SecondFactor::has_app) {
                let message = "this account has an authenticator app; remove it first";
                return Err(Error::new(ErrorKind::Conflict, message));
            }
            let secret = secret.clone();
            match there {
                Some(there) => tx.update(&SecondFactor { secret, ..there }).run().map(drop),
                None => {
                    let row = SecondFactor::without_app(user.id, inner.now());
                    tx.insert(&SecondFactor { secret, ..row }).run().map(drop)
                }
            }
        })?;
        Ok(TotpSetup { secret, url, qr_code })
    }

    /// Makes the app of [`Auth::begin_totp`] the user's second factor, with a code of it. Returns ten
    /// recovery codes, each of which replaces a code of the app once. Only their hashes are stored.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] without a call of [`Auth::begin_totp`],
    /// [`ErrorKind::Unauthenticated`] with the violation `code` if the code is wrong,
    /// [`ErrorKind::Busy`] after too many wrong codes.
    pub fn confirm_totp(&self, user: i64, code: &str, from: Option<IpAddr>) -> Result<Vec<String>> {
        let inner = &self.0;
        inner.begin_code(user, from)?;
        let codes = totp::recovery_codes()?;
        let hashes: Vec<String> = codes.iter().map(|code| recovery_hash(code)).collect();
        inner.store.transaction(|tx| {
            let row = tx.get::<SecondFactor>(user).optional().run()?;
            let Some(mut row) = row.filter(|row| !row.has_app() && !row.secret.is_empty()) else {
                let message = "no authenticator app waits for its first code; begin with it first";
                return Err(Error::new(ErrorKind::NotFound, message));
            };
            let Some(step) = totp::step_of(&row.secret, code, inner.seconds())? else {
                return Err(inner.wrong_code(user, from));
            };
            (row.is_confirmed, row.last_step) = (true, step);
            row.recovery = Json(hashes.clone());
            tx.update(&row).run()?;
            inner.changed(tx, SecurityEvent::SecondFactorSet { user })
        })?;
        inner.codes.succeeded(&user.to_string(), None, inner.now());
        Ok(codes)
    }

    /// Replaces the recovery codes of a user, with a code of the app.
    ///
    /// # Errors
    /// As [`Auth::remove_totp`].
    pub fn new_recovery_codes(
        &self,
        user: i64,
        code: &str,
        from: Option<IpAddr>,
    ) -> Result<Vec<String>> {
        let inner = &self.0;
        if self.recovery_codes_left(user)?.is_none() {
            return Err(no_app());
        }
        inner.pass_second_factor(user, Some(code).into(), from)?;
        let codes = totp::recovery_codes()?;
        let hashes: Vec<String> = codes.iter().map(|code| recovery_hash(code)).collect();
        inner.store.patch::<SecondFactor>(user).set(SecondFactor::RECOVERY, Json(hashes)).run()?;
        self.report(&SecurityEvent::RecoveryCodesSet { user });
        Ok(codes)
    }

    /// Removes the authenticator app of a user, with the password and a code.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the user has no app; [`ErrorKind::Unauthenticated`] if the password or
    /// the code is wrong; [`ErrorKind::Busy`] after too many wrong ones.
    pub fn remove_totp(
        &self,
        user: i64,
        password: &str,
        code: &str,
        from: Option<IpAddr>,
    ) -> Result<()> {
        let inner = &self.0;
        self.require_app(user)?;
        inner.check_password(&inner.store.get::<User>(user).run()?, password, from)?;
        inner.pass_second_factor(user, Some(code).into(), from)?;
        self.remove_second_factor(user)
    }

    /// Removes the authenticator app of a user who has lost it, for administrators. The caller must check
    /// permissions first.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the user has no app.
    pub fn remove_second_factor(&self, user: i64) -> Result<()> {
        let inner = &self.0;
        inner.store.transaction(|tx| {
            let row = tx.get::<SecondFactor>(user).optional().run()?.ok_or_else(no_app)?;
            let passkeys = Passkey::USER.eq(Ref::new(user));
            if tx.count::<Passkey>().filter(passkeys).run()? == 0 {
                tx.delete::<SecondFactor>(user).run()?;
            } else if row.has_app() {
                // The recovery codes remain for the passkeys.
                let secret = String::new();
                tx.update(&SecondFactor { secret, last_step: 0, ..row }).run()?;
            } else {
                return Err(no_app());
            }
            inner.changed(tx, SecurityEvent::SecondFactorRemoved { user })
        })
    }

    /// Returns true if a user has an authenticator app that has shown a code.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn has_app(&self, user: i64) -> Result<bool> {
        let row = self.0.store.get::<SecondFactor>(user).optional().run()?;
        Ok(row.is_some_and(|row| row.has_app()))
    }

    /// Returns the number of recovery codes that a user has left; `None` without an authenticator app and
    /// passkeys.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn recovery_codes_left(&self, user: i64) -> Result<Option<usize>> {
        let row = self.0.store.get::<SecondFactor>(user).optional().run()?;
        Ok(row.filter(|row| row.is_confirmed).map(|row| row.recovery.0.len()))
    }

    fn require_app(&self, user: i64) -> Result<()> {
        match self.has_app(user)? {
            true => Ok(()),
            false => Err(no_app()),
        }
    }
}

impl Inner {
    /// Checks the second factor of a user who has an authenticator app or a passkey; others pass.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] with the violation `code`, [`ErrorKind::Busy`] after too many wrong
    /// codes.
    pub(crate) fn pass_second_factor(
        self: &Arc<Self>,
        user: i64,
        proof: SecondProof<'_>,
        from: Option<IpAddr>,
    ) -> Result<()> {
        let row = self.store.get::<SecondFactor>(user).optional().run()?;
        let has_app = row.as_ref().is_some_and(SecondFactor::has_app);
        let passkeys = Passkey::USER.eq(Ref::new(user));
        let has_passkey = self.settings.passkeys.is_some()
            && self.store.count::<Passkey>().filter(passkeys).run()? > 0;
        if !has_app && !has_passkey {
            return Ok(());
        }
        if let Some(answer) = proof.passkey.filter(|_| has_passkey) {
            return self.check_passkey(answer, Some(user), from).map(drop);
        }
        let Some(code) = proof.code else {
            return Err(required(has_app, has_passkey));
        };
        self.begin_code(user, from)?;
        let hash = recovery_hash(code);
        let left = self.store.transaction(|tx| {
            let Some(mut row) = tx.get::<SecondFactor>(user).optional().run()? else {
                return Err(self.wrong_code(user, from));
            };
            let step = match row.has_app() {
                true => totp::step_of(&row.secret, code, self.seconds())?,
                false => None,
            };
            if let Some(step) = step {
                if step <= row.last_step {
                    return Err(self.wrong_code(user, from));
                }
                row.last_step = step;
                return tx.update(&row).run().map(|_| None);
            }
            let Some(at) = row.recovery.iter().position(|stored| is_same(stored, &hash)) else {
                return Err(self.wrong_code(user, from));
            };
            row.recovery.0.remove(at);
            tx.update(&row).run()?;
            Ok(Some(row.recovery.0.len()))
        });
        // Another request has used a code at the same time.
        let left = left.map_err(|error| match error.kind() {
            ErrorKind::Stale | ErrorKind::Conflict => self.wrong_code(user, from),
            _ => error,
        })?;
        self.codes.succeeded(&user.to_string(), None, self.now());
        if let Some(left) = left {
            self.report(&SecurityEvent::RecoveryCodeUsed { user, left });
        }
        Ok(())
    }

    /// Counts an attempt with a code; an error if there were too many wrong ones.
    fn begin_code(&self, user: i64, from: Option<IpAddr>) -> Result<()> {
        let Err(wait) = self.codes.begin(&user.to_string(), None, self.now()) else {
            return Ok(());
        };
        self.report(&SecurityEvent::CodeLimited { user, address: from });
        let seconds = wait.as_secs().max(1);
        let message = format!("too many codes were wrong; try again in {seconds} s");
        Err(Error::new(ErrorKind::Busy, message))
    }

    fn wrong_code(&self, user: i64, from: Option<IpAddr>) -> Error {
        self.report(&SecurityEvent::CodeFailed { user, address: from });
        code_error("code", "the code is wrong, or was used already")
    }

    /// Returns the time in seconds since 1970.
    fn seconds(&self) -> u64 {
        u64::try_from(self.now().micros() / 1_000_000).unwrap_or_default()
    }
}

/// Returns the hash of a recovery code. Codes are random, so that it need not be slow.
pub(crate) fn recovery_hash(code: &str) -> String {
    TokenHash::of(code.trim()).text()
}

/// The error for a login without the second factor: what the user has.
fn required(has_app: bool, has_passkey: bool) -> Error {
    let message = match (has_app, has_passkey) {
        (true, false) => "a code of the authenticator app is needed, or a recovery code",
        (false, _) => "a passkey is needed, or a recovery code",
        (true, true) => {
            "a passkey or a code of the authenticator app is needed, or a recovery code"
        }
    };
    let error = code_error("required", message);
    match has_passkey {
        true => error.with_violation(Violation {
            field: "passkey".to_owned(),
            value: "\"…\"".to_owned(),
            rule: "required".to_owned(),
            message: message.to_owned(),
        }),
        false => error,
    }
}

fn code_error(rule: &str, message: &str) -> Error {
    Error::new(ErrorKind::Unauthenticated, message).with_violation(Violation {
        field: "code".to_owned(),
        value: "\"…\"".to_owned(),
        rule: rule.to_owned(),
        message: message.to_owned(),
    })
}

fn no_app() -> Error {
    Error::new(ErrorKind::NotFound, "this account has no authenticator app")
}
