//! `/api/auth/…`: logins, sessions, keys, and the administration of users and groups.
//!
//! ```text
//! POST /api/auth/login HTTP/1.1
//! Content-Type: application/json
//!
//! {"name":"ada","password":"correct horse"}
//!
//! HTTP/1.1 200 OK
//! Content-Type: application/json
//! Cache-Control: no-store
//!
//! {"ends_at":"2026-03-01T09:00:00Z","token":"ms_…","user":7}
//! ```
//!
//! | caller | routes |
//! |---|---|
//! | anonymous | `login`, `passkeys/login`, `sign-in`, `setup`, `set-password`, and by mail: `sign-up`, `join`, `reset`, … |
//! | a user | `logout`, `logout-everywhere`, `me`, `password`, `jwt`, `keys`, `email`, `totp`, `passkeys`, … |
//! | an administrator | `users`, `groups`, `invitations`, `events` |
//!
//! `self_service.rs` has the routes by mail and those for a user's own data, `second_factor.rs` those for
//! authenticator apps, `passkeys.rs` those for passkeys, `providers.rs` those for providers and security events.
//!
//! Passwords are hashed with a function that is slow by design, so requests are executed on
//! separate threads ([`Authenticator::run`]): [`answer`] copies what a [`Route`] needs into
//! [`AccountRequest`], the route returns a [`Reply`], and [`answer`] converts that to a response.

mod account_request;
mod passkeys;
mod providers;
mod second_factor;
mod self_service;

use std::sync::Arc;
use std::time::Duration;

use marmota_auth::{Proof, SecurityEvent, User};
use marmota_http::{Endpoint, Flow, IntoResponse, Method, Request, Response, Router, Status};
use marmota_model::text::excerpt;
use marmota_model::{Error, ErrorKind, Result as ModelResult};
use marmota_store::rights::Grant;
use marmota_web::{ApiError, authenticate, session_cookie, sign_in_cookie, sign_in_secret};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::account_request::{AccountRequest, Reply, Route, proof};
use crate::protocol::body;
use crate::request::answer::JSON;
use crate::request::authenticator::Authenticator;

/// The maximum size of a body in bytes.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Adds the routes at `{prefix}/auth`, each with its own endpoint.
pub(crate) fn add(router: Router, prefix: &str, authenticator: &Arc<Authenticator>) -> Router {
    let routes: [(Method, &str, Route); 20] = [
        (Method::Post, "/login", login),
        (Method::Get, "/setup", setup),
        (Method::Post, "/set-password", set_password),
        (Method::Post, "/logout", logout),
        (Method::Post, "/logout-everywhere", logout_everywhere),
        (Method::Get, "/me", me),
        (Method::Post, "/password", password),
        (Method::Post, "/jwt", jwt),
        (Method::Get, "/keys", keys),
        (Method::Post, "/keys", make_key),
        (Method::Delete, "/keys/{named}", revoke_key),
        (Method::Get, "/users", users),
        (Method::Post, "/users", add_user),
        (Method::Patch, "/users/{named}", change_user),
        (Method::Delete, "/users/{named}", remove_user),
        (Method::Post, "/users/{named}/token", new_token),
        (Method::Post, "/users/{named}/logout", end_sessions),
        (Method::Get, "/groups", groups),
        (Method::Put, "/groups/{named}", set_group),
        (Method::Delete, "/groups/{named}", remove_group),
    ];
    let others = self_service::ROUTES.into_iter().chain(second_factor::ROUTES);
    let others = others.chain(passkeys::ROUTES).chain(providers::ROUTES);
    let router = routes.into_iter().chain(others).fold(router, |router, (method, path, route)| {
        router.on(method, &format!("{prefix}/auth{path}"), endpoint(authenticator, route, false))
    });
    providers::CONNECTING.into_iter().fold(router, |router, (method, path, route)| {
        router.on(method, &format!("{prefix}/auth{path}"), endpoint(authenticator, route, true))
    })
}

/// Creates the endpoint of a route. The response has `Cache-Control: no-store`, because it depends
/// on the caller and can contain a secret. Bodies above [`BODY_BYTES_MAX`] are refused with 413.
fn endpoint(authenticator: &Arc<Authenticator>, route: Route, connects: bool) -> Endpoint {
    let authenticator = Arc::clone(authenticator);
    let endpoint = Endpoint::direct(move |request: &Request, _: &mut _| {
        let (authenticator, request) = (Arc::clone(&authenticator), request.clone());
        Flow::Later(Box::pin(async move {
            let answered = answer(&authenticator, &request, route, connects).await;
            let response = answered.unwrap_or_else(IntoResponse::into_response);
            // Responses are private to their caller.
            response.with_header("Cache-Control", "no-store").unwrap_or_else(|error| {
                log::error!("{error:?}");
                Response::from_status(Status::INTERNAL_SERVER_ERROR)
            })
        }))
    });
    endpoint.body_bytes_max(BODY_BYTES_MAX)
}

/// Answers a request: checks its origin and its body's type, authenticates the caller, and executes
/// the route on a thread of the [`Authenticator`].
///
/// # Errors
/// - 403 for a request that changes something and was sent by a page of another origin
///   ([`Request::check_site`]).
/// - 415 if the body of a write is not JSON. A page of another origin can send a form without a
///   preflight request, but not `application/json`.
/// - 401 for an invalid token. A missing token is not an error here: a login has none.
/// - 503 if too many requests wait for a thread, and the errors of the route.
async fn answer(
    authenticator: &Authenticator,
    request: &Request,
    route: Route,
    connects: bool,
) -> Result<Response, ApiError> {
    if let Err(refused) = request.check_site() {
        let (path, address) = (excerpt(request.path()), request.client_ip());
        authenticator.auth.report(&SecurityEvent::CrossSiteRefused { path, address });
        return Err(refused.into());
    }
    if !request.body().is_empty() || request.header("origin").is_some() {
        let reads = matches!(request.method(), Method::Get | Method::Head | Method::Delete);
        if !reads && !request.body().is_empty() {
            body::check_json(request)?;
        }
    }
    let asked = AccountRequest {
        auth: authenticator.auth.clone(),
        known: authenticate(&authenticator.auth, request).await?,
        body: request.body().to_vec(),
        named: request.param("named").unwrap_or_default().into_owned(),
        address: request.client_ip(),
        languages: request.header_text("accept-language").unwrap_or_default().to_owned(),
        device: request.header_text("user-agent").map(str::to_owned),
        browser: sign_in_secret(request).map(str::to_owned),
        before: request.query_param("before").and_then(|id| id.parse().ok()),
        kind: request.query_param("kind").map(Into::into),
    };
    let reply = match connects {
        true => authenticator.connect(move || route(&asked)).await?,
        false => authenticator.run(move || route(&asked)).await?,
    };
    let Reply { status, json, cookie, browser } = reply.map_err(limited)?;
    let mut response = match json {
        Some(json) => Response::with_body(JSON, json.to_string().into_bytes()).with_status(status),
        None => Response::from_status(status),
    };
    if let Some(token) = cookie {
        let cookie = session_cookie(request, token.as_deref());
        // The cookie is ASCII, so this cannot fail.
        let _ = response.add_header("Set-Cookie".into(), cookie.into_bytes().into());
    }
    if let Some(secret) = browser {
        let cookie = sign_in_cookie(request, secret.as_deref());
        let _ = response.add_header("Set-Cookie".into(), cookie.into_bytes().into());
    }
    Ok(response)
}

/// Converts the error of a route. [`ErrorKind::Busy`], which accounts return after too many failed
/// logins, becomes 429 instead of 503: the client sent too much, and another client is served.
fn limited(error: Error) -> ApiError {
    match error.kind() {
        ErrorKind::Busy => ApiError::from(error).with_status(Status::TOO_MANY_REQUESTS),
        _ => error.into(),
    }
}

/// `POST /login`: verifies a password and starts a session.
///
/// Returns the user's id, the end of the session, and its token. With `"cookie":true` the token is
/// set as an `HttpOnly` cookie and left out of the body, so that scripts of a page cannot read it:
///
/// ```text
/// POST /api/auth/login HTTP/1.1
///
/// {"name":"ada","password":"correct horse","cookie":true}
///
/// HTTP/1.1 200 OK
/// Set-Cookie: …; HttpOnly; …
///
/// {"ends_at":"2026-03-01T09:00:00Z","user":7}
/// ```
///
/// # Errors
/// [`ErrorKind::Unauthenticated`] (401) for an unknown name and for a wrong password alike, 429
/// after too many failures. For a user with an authenticator app or a passkey who sends neither `code`
/// nor `passkey`, the 401 has the violations `code` and `passkey` with the rule `required`, for what the user has:
/// the client sends the request again, with one of them.
fn login(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Login {
        name: String,
        password: String,
        code: Option<String>,
        passkey: Option<Box<RawValue>>,
        #[serde(default)]
        cookie: bool,
    }
    let Login { name, password, code, passkey, cookie } = asked.read()?;
    let proof = proof(code.as_deref(), passkey.as_deref());
    let login = asked.auth.login_with(&name, &password, proof, asked.client())?;
    Ok(Reply::logged_in(login, cookie))
}

/// `GET /setup`: returns `{"needed":true}` while no user has a password, so that a page can ask for
/// the token that the program has printed at its start.
fn setup(asked: &AccountRequest) -> ModelResult<Reply> {
    Ok(Reply::with(json!({ "needed": asked.auth.needs_setup()? })))
}

/// `POST /set-password`: sets a user's first or forgotten password with the token that an
/// administrator created ([`add_user`], [`new_token`]). Answers 204; the user then logs in.
fn set_password(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Redeem {
        name: String,
        token: String,
        password: String,
    }
    let Redeem { name, token, password } = asked.read()?;
    asked.auth.set_password(&name, &token, &password, asked.address)?;
    Ok(Reply::done())
}

/// `POST /logout`: ends the session of the request and deletes its cookie. Answers 204.
fn logout(asked: &AccountRequest) -> ModelResult<Reply> {
    asked.auth.logout(asked.known()?)?;
    Ok(Reply { cookie: Some(None), ..Reply::done() })
}

/// `POST /logout-everywhere`: ends all sessions of the caller, on all devices, and deletes the
/// cookie. Answers 204.
fn logout_everywhere(asked: &AccountRequest) -> ModelResult<Reply> {
    asked.auth.logout_everywhere(asked.known()?.user())?;
    Ok(Reply { cookie: Some(None), ..Reply::done() })
}

/// `GET /me`: returns the caller's name, mail address, groups and sessions, for the account page of an
/// application. `recovery_codes` is the number of those left, `null` without an authenticator app
/// (`has_app`) and passkeys;
/// `session` is the one of the request. Pages also use it to detect whether the cookie is still valid: 401 if not.
fn me(asked: &AccountRequest) -> ModelResult<Reply> {
    let known = asked.known()?;
    let caller = known.caller();
    let user = asked.auth.store().get::<User>(known.user()).run()?;
    Ok(Reply::with(json!({
        "id": known.user(),
        "name": caller.name,
        "email": user.email,
        "has_app": asked.auth.has_app(known.user())?,
        "has_password": user.has_password(),
        "recovery_codes": asked.auth.recovery_codes_left(known.user())?,
        "session": match known.proof() {
            Proof::Session(session) => Some(session),
            Proof::Key(_) | Proof::Token => None,
        },
        "groups": caller.groups,
        "is_admin": known.is_admin(),
        "ends_at": known.ends_at(),
        "sessions": asked.auth.sessions(known.user())?,
    })))
}

/// `POST /password`: changes the caller's password. The old one is required, so that a session left
/// open is not sufficient. Ends the caller's sessions, deletes the cookie, and answers 204.
fn password(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Passwords {
        old: String,
        new: String,
    }
    let user = asked.known()?.user();
    let Passwords { old, new } = asked.read()?;
    asked.auth.change_password(user, &old, &new, asked.address)?;
    Ok(Reply { cookie: Some(None), ..Reply::done() })
}

/// `POST /jwt`: returns a signed token (JWT, RFC 7519) for the caller, with its end. Other services
/// verify it without a request to this one. A caller with an API key is refused (403), because a
/// JWT cannot be revoked.
fn jwt(asked: &AccountRequest) -> ModelResult<Reply> {
    let (jwt, ends_at) = asked.auth.jwt(asked.known()?)?;
    Ok(Reply::with(json!({ "jwt": jwt, "ends_at": ends_at })))
}

/// `GET /keys`: returns the caller's API keys. Their secrets are stored as hashes, so they are not
/// included.
fn keys(asked: &AccountRequest) -> ModelResult<Reply> {
    let keys = asked.auth.keys(asked.known()?.user())?;
    Ok(Reply::with(json!({ "keys": keys })))
}

/// `POST /keys`: creates an API key for a program that acts as the caller, valid for `seconds`. The
/// answer (201) is the only one that contains the secret. A caller with an API key is refused
/// (403).
fn make_key(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct New {
        name: String,
        /// The validity in seconds; unlimited if `None`.
        seconds: Option<u64>,
    }
    let known = asked.known()?;
    let New { name, seconds } = asked.read()?;
    let (id, key) = asked.auth.make_key(known, &name, seconds.map(Duration::from_secs))?;
    Ok(Reply::created(json!({ "id": id, "key": key })))
}

/// `DELETE /keys/{id}`: revokes one of the caller's API keys. Answers 204, or 404 for an id that is
/// not one of these.
fn revoke_key(asked: &AccountRequest) -> ModelResult<Reply> {
    asked.auth.revoke_key(asked.known()?.user(), asked.id()?)?;
    Ok(Reply::done())
}

/// `GET /users`: returns all users, for administrators. Of a password, the answer contains only
/// whether it is set (`has_password`).
fn users(asked: &AccountRequest) -> ModelResult<Reply> {
    asked.administrator()?;
    let shown = |user: marmota_auth::User| {
        json!({
            "id": user.id,
            "name": user.name,
            "email": user.email,
            "groups": user.groups.0,
            "is_admin": user.is_admin,
            "is_disabled": user.is_disabled,
            "has_password": user.has_password(),
            "created_at": user.created_at,
        })
    };
    let users: Vec<Value> = asked.auth.users()?.into_iter().map(shown).collect();
    Ok(Reply::with(json!({ "users": users })))
}

/// `POST /users`: creates a user without a password, for administrators. Returns (201) the id, and
/// a token with which the user sets a password, so that an administrator never knows it.
fn add_user(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct New {
        name: String,
        #[serde(default)]
        groups: Vec<String>,
        #[serde(default)]
        is_admin: bool,
    }
    asked.administrator()?;
    let New { name, groups, is_admin } = asked.read()?;
    let (id, token) = asked.auth.add_user(&name, &groups, is_admin)?;
    Ok(Reply::created(json!({ "id": id, "token": token })))
}

/// `PATCH /users/{id}`: changes a user's groups and flags, for administrators. Missing members keep
/// their value. Answers 204.
fn change_user(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Change {
        groups: Option<Vec<String>>,
        is_admin: Option<bool>,
        is_disabled: Option<bool>,
    }
    asked.administrator()?;
    let Change { groups, is_admin, is_disabled } = asked.read()?;
    asked.auth.change_user(asked.id()?, groups.as_deref(), is_admin, is_disabled)?;
    Ok(Reply::done())
}

/// `DELETE /users/{id}`: deletes a user with all sessions and keys, for administrators. Answers
/// 204, or 409 for the last administrator and for a user that rows refer to, who can be disabled
/// instead.
fn remove_user(asked: &AccountRequest) -> ModelResult<Reply> {
    asked.administrator()?;
    asked.auth.remove_user(asked.id()?)?;
    Ok(Reply::done())
}

/// `POST /users/{id}/token`: returns (201) a token with which a user sets a new password, for
/// administrators.
fn new_token(asked: &AccountRequest) -> ModelResult<Reply> {
    asked.administrator()?;
    let token = asked.auth.new_token(asked.id()?)?;
    Ok(Reply::created(json!({ "token": token })))
}

/// `POST /users/{id}/logout`: ends all sessions of a user, for administrators. Answers 204.
fn end_sessions(asked: &AccountRequest) -> ModelResult<Reply> {
    asked.administrator()?;
    asked.auth.logout_everywhere(asked.id()?)?;
    Ok(Reply::done())
}

/// `GET /groups`: returns all groups with their grants, for administrators.
fn groups(asked: &AccountRequest) -> ModelResult<Reply> {
    asked.administrator()?;
    let shown =
        |group: marmota_auth::Group| json!({ "name": group.name, "grants": group.grants.0 });
    let groups: Vec<Value> = asked.auth.groups()?.into_iter().map(shown).collect();
    Ok(Reply::with(json!({ "groups": groups })))
}

/// `PUT /groups/{name}`: creates a group or replaces its grants, for administrators. Answers 204,
/// or 404 and 422 for grants on unknown tables or with invalid rules.
fn set_group(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Set {
        grants: Vec<Grant>,
    }
    asked.administrator()?;
    let Set { grants } = asked.read()?;
    asked.auth.set_group(&asked.named, &grants)?;
    Ok(Reply::done())
}

/// `DELETE /groups/{name}`: deletes a group, for administrators. Answers 204.
fn remove_group(asked: &AccountRequest) -> ModelResult<Reply> {
    asked.administrator()?;
    asked.auth.remove_group(&asked.named)?;
    Ok(Reply::done())
}
