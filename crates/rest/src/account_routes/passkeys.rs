//! The routes for passkeys.
//!
//! ```text
//! POST /api/auth/passkeys/challenge                       -> {"challenge":"…","rpId":"shop.example.org",…}
//! POST /api/auth/passkeys/login     {"passkey":{"id":"…","response":{…}},"cookie":true}
//! ```
//!
//! Options and answers have the JSON forms of WebAuthn Level 3: a page passes the options to
//! `PublicKeyCredential.parseRequestOptionsFromJSON`, and sends `credential.toJSON()` as `passkey`.

use marmota_http::Method;
use marmota_model::Result as ModelResult;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::account_request::{AccountRequest, Reply, Route};

pub(super) const ROUTES: [(Method, &str, Route); 8] = [
    (Method::Get, "/passkeys", list),
    (Method::Post, "/passkeys", add),
    (Method::Post, "/passkeys/options", begin),
    (Method::Patch, "/passkeys/{named}", rename),
    (Method::Delete, "/passkeys/{named}", remove),
    (Method::Post, "/passkeys/challenge", challenge),
    (Method::Post, "/passkeys/login", login),
    (Method::Delete, "/users/{named}/passkeys", remove_of_user),
];

/// `GET /passkeys`: returns the caller's passkeys.
fn list(asked: &AccountRequest) -> ModelResult<Reply> {
    let passkeys = asked.auth.passkeys(asked.known()?.user())?;
    Ok(Reply::with(json!({ "passkeys": passkeys })))
}

/// `POST /passkeys/options`: begins to add a passkey. Returns the options for the browser.
///
/// # Errors
/// 403 with the violation `step-up` if the last authentication is more than 10 minutes ago; 501 if the program
/// has no passkeys.
fn begin(asked: &AccountRequest) -> ModelResult<Reply> {
    Ok(Reply::with(asked.auth.begin_passkey(asked.known()?)?))
}

/// `POST /passkeys`: adds a passkey, with the answer of the browser. Answers 201 with the id, and the recovery
/// codes if the user had none.
///
/// # Errors
/// 401 for an answer that is not accepted, and those of [`begin`].
fn add(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Add {
        name: String,
        passkey: Box<RawValue>,
    }
    let known = asked.known()?;
    let Add { name, passkey } = asked.read()?;
    let added = asked.auth.add_passkey(known, &name, passkey.get(), asked.address)?;
    Ok(Reply::created(json!({ "id": added.id, "recovery_codes": added.recovery_codes })))
}

/// `PATCH /passkeys/{id}`: changes the name of one of the caller's passkeys. Answers 204.
fn rename(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Rename {
        name: String,
    }
    let user = asked.known()?.user();
    let Rename { name } = asked.read()?;
    asked.auth.rename_passkey(user, asked.id()?, &name)?;
    Ok(Reply::done())
}

/// `DELETE /passkeys/{id}`: removes one of the caller's passkeys. Answers 204; 409 if no way to sign in would be
/// left, 403 as [`begin`].
fn remove(asked: &AccountRequest) -> ModelResult<Reply> {
    asked.auth.remove_passkey(asked.known()?, asked.id()?)?;
    Ok(Reply::done())
}

/// `POST /passkeys/challenge`: returns the options for a signature by a passkey, for a login, as a second factor
/// and for `step-up`. They name no user.
///
/// # Errors
/// 429 after too many challenges, 501 if the program has no passkeys.
fn challenge(asked: &AccountRequest) -> ModelResult<Reply> {
    Ok(Reply::with(asked.auth.passkey_challenge(asked.client())?))
}

/// `POST /passkeys/login`: starts a session with a passkey; answers as a login.
///
/// # Errors
/// 401 for an answer that is not accepted, 403 if the user is disabled.
fn login(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Login {
        passkey: Box<RawValue>,
        #[serde(default)]
        cookie: bool,
    }
    let Login { passkey, cookie } = asked.read()?;
    let login = asked.auth.login_with_passkey(passkey.get(), asked.client())?;
    Ok(Reply::logged_in(login, cookie))
}

/// `DELETE /users/{id}/passkeys`: removes all passkeys of a user who has lost them, for administrators.
fn remove_of_user(asked: &AccountRequest) -> ModelResult<Reply> {
    asked.administrator()?;
    asked.auth.remove_passkeys(asked.id()?)?;
    Ok(Reply::done())
}
