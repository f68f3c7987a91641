//! The routes for authenticator apps (TOTP).

use marmota_auth::TotpSetup;
use marmota_http::Method;
use marmota_model::Result as ModelResult;
use serde::Deserialize;
use serde_json::json;

use super::account_request::{AccountRequest, Reply, Route};

pub(super) const ROUTES: [(Method, &str, Route); 5] = [
    (Method::Post, "/totp", begin),
    (Method::Post, "/totp/confirm", confirm),
    (Method::Post, "/totp/recovery-codes", new_recovery_codes),
    (Method::Post, "/totp/remove", remove),
    (Method::Delete, "/users/{named}/totp", remove_of_user),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Code {
    code: String,
}

/// `POST /totp`: begins to set up an app. Returns the secret, and the same as a URL and as a QR code (SVG).
fn begin(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Begin {
        password: String,
    }
    let user = asked.known()?.user();
    let Begin { password } = asked.read()?;
    let setup = asked.auth.begin_totp(user, &password, asked.address)?;
    let TotpSetup { secret, url, qr_code, .. } = setup;
    Ok(Reply::with(json!({ "secret": secret, "url": url, "qr_code": qr_code })))
}

/// `POST /totp/confirm`: makes the app the second factor, with its first code. Returns the recovery codes,
/// only here.
fn confirm(asked: &AccountRequest) -> ModelResult<Reply> {
    let user = asked.known()?.user();
    let Code { code } = asked.read()?;
    let codes = asked.auth.confirm_totp(user, &code, asked.address)?;
    Ok(Reply::with(json!({ "recovery_codes": codes })))
}

/// `POST /totp/recovery-codes`: replaces the recovery codes, with a code of the app.
fn new_recovery_codes(asked: &AccountRequest) -> ModelResult<Reply> {
    let user = asked.known()?.user();
    let Code { code } = asked.read()?;
    let codes = asked.auth.new_recovery_codes(user, &code, asked.address)?;
    Ok(Reply::with(json!({ "recovery_codes": codes })))
}

/// `POST /totp/remove`: removes the caller's app, with the password and a code.
fn remove(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Remove {
        password: String,
        code: String,
    }
    let user = asked.known()?.user();
    let Remove { password, code } = asked.read()?;
    asked.auth.remove_totp(user, &password, &code, asked.address)?;
    Ok(Reply::done())
}

/// `DELETE /users/{id}/totp`: removes the app of a user who has lost it, for administrators.
fn remove_of_user(asked: &AccountRequest) -> ModelResult<Reply> {
    asked.administrator()?;
    asked.auth.remove_second_factor(asked.id()?)?;
    Ok(Reply::done())
}
