//! The routes for sign-in with providers, the accounts of providers that belong to a user, and security
//! events.
//!
//! ```text
//! POST /api/auth/sign-in/google        {"next":"/shop"}   -> {"url":"https://accounts.google.com/…"}
//! POST /api/auth/sign-in               {"state":"…","provider_code":"…","cookie":true}
//! ```
//!
//! The first answer sets a cookie, and the second request needs it: an answer of a provider is of no use in
//! another browser. Between them, the browser is at the provider, which sends it to the page `/account`.

use marmota_auth::{ProviderAnswer, RecordedEvent};
use marmota_http::Method;
use marmota_model::Result as ModelResult;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::account_request::{AccountRequest, Reply, Route, proof};

pub(super) const ROUTES: [(Method, &str, Route); 3] = [
    (Method::Get, "/identities", identities),
    (Method::Delete, "/identities/{named}", unlink),
    (Method::Get, "/events", events),
];

/// The routes that wait for a provider.
pub(super) const CONNECTING: [(Method, &str, Route); 2] =
    [(Method::Post, "/sign-in/{named}", begin), (Method::Post, "/sign-in", finish)];

/// `POST /sign-in/{provider}`: begins a sign-in. Returns the URL at the provider, and sets a cookie.
///
/// `next` is the page to return to, a path of this server. With `"add":true`, the account of the provider
/// is added to the caller.
///
/// # Errors
/// 404 for an unknown provider, 400 for a `next` of another server, 429 after too many sign-ins, 503 if the
/// provider cannot be reached.
fn begin(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Begin {
        next: Option<String>,
        #[serde(default)]
        add: bool,
    }
    let Begin { next, add } = match asked.body.is_empty() {
        true => Begin::default(),
        false => asked.read()?,
    };
    let user = match add {
        true => Some(asked.known()?.user()),
        false => None,
    };
    let start = asked.auth.begin_sign_in(&asked.named, next.as_deref(), user, asked.client())?;
    Ok(Reply { browser: Some(Some(start.browser)), ..Reply::with(json!({ "url": start.url })) })
}

/// `POST /sign-in`: ends a sign-in, with the state and the code that the provider has sent. The answer is
/// that of a login, with `next`. If an account was added to the caller, it is only `next`.
///
/// # Errors
/// 401 for an answer that is unknown, was used, or is of another browser; with the violation `code` if the
/// user has an authenticator app, as a login. 403 if no user belongs to the account and none is made. 409 if
/// the account belongs to another user. 503 if the provider cannot be reached.
fn finish(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Finish {
        state: String,
        provider_code: String,
        /// The parameter `iss` of the answer.
        issuer: Option<String>,
        code: Option<String>,
        passkey: Option<Box<RawValue>>,
        #[serde(default)]
        cookie: bool,
    }
    let Finish { state, provider_code, issuer, code, passkey, cookie } = asked.read()?;
    let answer = ProviderAnswer {
        state: &state,
        provider_code: &provider_code,
        issuer: issuer.as_deref(),
        browser: asked.browser.as_deref(),
        user: asked.known.as_deref().map(marmota_auth::Identity::user),
        proof: proof(code.as_deref(), passkey.as_deref()),
    };
    let done = asked.auth.finish_sign_in(&answer, asked.client())?;
    let mut reply = match done.login {
        Some(login) => Reply::logged_in(login, cookie),
        None => Reply::with(json!({})),
    };
    if let Some(json) = &mut reply.json {
        json["next"] = json!(done.next);
    }
    Ok(Reply { browser: Some(None), ..reply })
}

/// `GET /identities`: returns the accounts of providers with which the caller signs in.
fn identities(asked: &AccountRequest) -> ModelResult<Reply> {
    let accounts = asked.auth.linked_accounts(asked.known()?.user())?;
    Ok(Reply::with(json!({ "identities": accounts })))
}

/// `DELETE /identities/{id}`: removes an account of a provider from the caller. Answers 204; 409 if no way to
/// sign in would be left.
fn unlink(asked: &AccountRequest) -> ModelResult<Reply> {
    asked.auth.unlink(asked.known()?.user(), asked.id()?)?;
    Ok(Reply::done())
}

/// `GET /events`: returns security events, the newest first, for administrators: at most 200, those before
/// the id `before`, and of the `kind`.
fn events(asked: &AccountRequest) -> ModelResult<Reply> {
    asked.administrator()?;
    let events = asked.auth.security_events(asked.before, asked.kind.as_deref())?;
    let shown = |event: RecordedEvent| {
        let RecordedEvent { id, at, kind, user, address, detail } = event;
        json!({ "id": id, "at": at, "kind": kind, "user": user, "address": address, "detail": detail.0 })
    };
    let events: Vec<Value> = events.into_iter().map(shown).collect();
    Ok(Reply::with(json!({ "events": events })))
}
