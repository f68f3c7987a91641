//! `/api/auth/…`: logins, sessions, keys, and the administration of users and groups. Requests are
//! executed on separate threads ([`Authenticator::run`]).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use marmota_auth::{Auth, Identity};
use marmota_http::{Endpoint, Flow, IntoResponse, Method, Request, Response, Router, Status};
use marmota_model::{Error, ErrorKind, Result as ModelResult};
use marmota_store::rights::Grant;
use marmota_web::{ApiError, authenticate, session_cookie};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::protocol::body;
use crate::request::answer::JSON;
use crate::request::authenticator::Authenticator;

/// The maximum size of a body in bytes.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// A request.
struct Asked {
    auth: Auth,
    known: Option<Arc<Identity>>,
    body: Vec<u8>,
    /// The last path segment, on routes where it is a parameter.
    named: String,
    address: Option<IpAddr>,
}

/// The result of a request.
struct Reply {
    status: Status,
    json: Option<Value>,
    /// A token for a cookie; an inner `None` deletes the cookie.
    cookie: Option<Option<String>>,
}

type Route = fn(&Asked) -> ModelResult<Reply>;

impl Reply {
    const fn done() -> Self {
        Self { status: Status::NO_CONTENT, json: None, cookie: None }
    }

    const fn with(json: Value) -> Self {
        Self { status: Status::OK, json: Some(json), cookie: None }
    }

    fn created(json: Value) -> Self {
        Self { status: Status::CREATED, ..Self::with(json) }
    }
}

impl Asked {
    fn read<T: DeserializeOwned>(&self) -> ModelResult<T> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("the body is not valid: {error}"))
        })
    }

    fn known(&self) -> ModelResult<&Identity> {
        self.known
            .as_deref()
            .ok_or_else(|| Error::new(ErrorKind::Unauthenticated, "log in first, or send a token"))
    }

    fn administrator(&self) -> ModelResult<&Identity> {
        let known = self.known()?;
        match known.is_admin() {
            true => Ok(known),
            false => Err(Error::new(ErrorKind::Denied, "only administrators may do this")),
        }
    }

    fn id(&self) -> ModelResult<i64> {
        let none = || Error::new(ErrorKind::NotFound, "the path does not name an existing row");
        self.named.parse().map_err(|_| none())
    }
}

/// Adds the routes.
pub(crate) fn add(router: Router, prefix: &str, authenticator: &Arc<Authenticator>) -> Router {
    let routes: [(Method, &str, Route); 19] = [
        (Method::Post, "/login", login),
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
    routes.into_iter().fold(router, |router, (method, path, route)| {
        router.on(method, &format!("{prefix}/auth{path}"), endpoint(authenticator, route))
    })
}

fn endpoint(authenticator: &Arc<Authenticator>, route: Route) -> Endpoint {
    let authenticator = Arc::clone(authenticator);
    let endpoint = Endpoint::direct(move |request: &Request, _: &mut _| {
        let (authenticator, request) = (Arc::clone(&authenticator), request.clone());
        Flow::Later(Box::pin(async move {
            let answered = answer(&authenticator, &request, route).await;
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

async fn answer(
    authenticator: &Authenticator,
    request: &Request,
    route: Route,
) -> Result<Response, ApiError> {
    request.check_site()?;
    if !request.body().is_empty() || request.header("origin").is_some() {
        let reads = matches!(request.method(), Method::Get | Method::Head | Method::Delete);
        if !reads && !request.body().is_empty() {
            body::check_json(request)?;
        }
    }
    let asked = Asked {
        auth: authenticator.auth.clone(),
        known: authenticate(&authenticator.auth, request).await?,
        body: request.body().to_vec(),
        named: request.param("named").unwrap_or_default().into_owned(),
        address: request.client_ip(),
    };
    let reply = authenticator.run(move || route(&asked)).await?;
    let Reply { status, json, cookie } = reply.map_err(limited)?;
    let mut response = match json {
        Some(json) => Response::with_body(JSON, json.to_string().into_bytes()).with_status(status),
        None => Response::from_status(status),
    };
    if let Some(token) = cookie {
        let cookie = session_cookie(request, token.as_deref());
        // The cookie is ASCII, so this cannot fail.
        let _ = response.add_header("Set-Cookie".into(), cookie.into_bytes().into());
    }
    Ok(response)
}

/// Returns the error; overload counts as the client's fault here (429).
fn limited(error: Error) -> ApiError {
    match error.kind() {
        ErrorKind::Busy => ApiError::from(error).with_status(Status::TOO_MANY_REQUESTS),
        _ => error.into(),
    }
}

fn login(asked: &Asked) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Login {
        name: String,
        password: String,
        #[serde(default)]
        cookie: bool,
    }
    let Login { name, password, cookie } = asked.read()?;
    let login = asked.auth.login(&name, &password, asked.address)?;
    let mut reply = Reply::with(json!({ "user": login.user, "ends_at": login.ends_at }));
    match (cookie, &mut reply.json) {
        (true, _) => reply.cookie = Some(Some(login.token)),
        (false, Some(json)) => json["token"] = json!(login.token),
        (false, None) => {}
    }
    Ok(reply)
}

fn set_password(asked: &Asked) -> ModelResult<Reply> {
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

fn logout(asked: &Asked) -> ModelResult<Reply> {
    asked.auth.logout(asked.known()?)?;
    Ok(Reply { cookie: Some(None), ..Reply::done() })
}

fn logout_everywhere(asked: &Asked) -> ModelResult<Reply> {
    asked.auth.logout_everywhere(asked.known()?.user())?;
    Ok(Reply { cookie: Some(None), ..Reply::done() })
}

fn me(asked: &Asked) -> ModelResult<Reply> {
    let known = asked.known()?;
    let caller = known.caller();
    Ok(Reply::with(json!({
        "id": known.user(),
        "name": caller.name,
        "groups": caller.groups,
        "is_admin": known.is_admin(),
        "ends_at": known.ends_at(),
        "sessions": asked.auth.sessions(known.user())?,
    })))
}

fn password(asked: &Asked) -> ModelResult<Reply> {
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

fn jwt(asked: &Asked) -> ModelResult<Reply> {
    let (jwt, ends_at) = asked.auth.jwt(asked.known()?)?;
    Ok(Reply::with(json!({ "jwt": jwt, "ends_at": ends_at })))
}

fn keys(asked: &Asked) -> ModelResult<Reply> {
    let keys = asked.auth.keys(asked.known()?.user())?;
    Ok(Reply::with(json!({ "keys": keys })))
}

fn make_key(asked: &Asked) -> ModelResult<Reply> {
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

fn revoke_key(asked: &Asked) -> ModelResult<Reply> {
    asked.auth.revoke_key(asked.known()?.user(), asked.id()?)?;
    Ok(Reply::done())
}

fn users(asked: &Asked) -> ModelResult<Reply> {
    asked.administrator()?;
    let shown = |user: marmota_auth::User| {
        json!({
            "id": user.id,
            "name": user.name,
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

fn add_user(asked: &Asked) -> ModelResult<Reply> {
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

fn change_user(asked: &Asked) -> ModelResult<Reply> {
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

fn remove_user(asked: &Asked) -> ModelResult<Reply> {
    asked.administrator()?;
    asked.auth.remove_user(asked.id()?)?;
    Ok(Reply::done())
}

fn new_token(asked: &Asked) -> ModelResult<Reply> {
    asked.administrator()?;
    let token = asked.auth.new_token(asked.id()?)?;
    Ok(Reply::created(json!({ "token": token })))
}

fn end_sessions(asked: &Asked) -> ModelResult<Reply> {
    asked.administrator()?;
    asked.auth.logout_everywhere(asked.id()?)?;
    Ok(Reply::done())
}

fn groups(asked: &Asked) -> ModelResult<Reply> {
    asked.administrator()?;
    let shown =
        |group: marmota_auth::Group| json!({ "name": group.name, "grants": group.grants.0 });
    let groups: Vec<Value> = asked.auth.groups()?.into_iter().map(shown).collect();
    Ok(Reply::with(json!({ "groups": groups })))
}

fn set_group(asked: &Asked) -> ModelResult<Reply> {
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

fn remove_group(asked: &Asked) -> ModelResult<Reply> {
    asked.administrator()?;
    asked.auth.remove_group(&asked.named)?;
    Ok(Reply::done())
}
