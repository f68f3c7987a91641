//! A request of accounts as the functions of the routes get it, and their replies.

use std::net::IpAddr;
use std::sync::Arc;

use marmota_auth::{Auth, Identity, LoggedIn, LoginClient, SecondProof};
use marmota_http::Status;
use marmota_model::{Error, ErrorKind, Result as ModelResult};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A request as the functions of the routes get it. It owns its data, because a route runs on a
/// thread of the [`Authenticator`](crate::request::authenticator::Authenticator), after the handler returned.
pub(super) struct AccountRequest {
    /// The accounts.
    pub(super) auth: Auth,
    /// The caller; `None` for an anonymous one.
    pub(super) known: Option<Arc<Identity>>,
    /// The request body: empty, or at most 64 KiB of JSON.
    pub(super) body: Vec<u8>,
    /// The last path segment, on routes where it is a parameter.
    pub(super) named: String,
    /// The address of the client, by which logins are limited. If a trusted proxy forwards the
    /// request, it is the address that the proxy reports.
    pub(super) address: Option<IpAddr>,
    /// The header `Accept-Language`.
    pub(super) languages: String,
    /// The header `User-Agent`.
    pub(super) device: Option<String>,
    /// The cookie that binds a sign-in with a provider to the browser.
    pub(super) browser: Option<String>,
    /// The parameters `before` and `kind` of the query.
    pub(super) before: Option<i64>,
    pub(super) kind: Option<String>,
}

/// The result of a request, from which `answer` creates the response.
pub(super) struct Reply {
    /// 200, 201 or 204; errors are returned as `Err`.
    pub(super) status: Status,
    /// The body; `None` for a response without one.
    pub(super) json: Option<Value>,
    /// A token for a cookie; an inner `None` deletes the cookie.
    pub(super) cookie: Option<Option<String>>,
    /// The secret of a sign-in with a provider for a cookie; an inner `None` deletes the cookie.
    pub(super) browser: Option<Option<String>>,
}

/// The function of a route. It may block: it runs on a thread of the authenticator. A route
/// that reads a body defines its members as a type of its own, which refuses unknown members.
pub(super) type Route = fn(&AccountRequest) -> ModelResult<Reply>;

impl Reply {
    /// Creates a 204 response without a body.
    pub(super) const fn done() -> Self {
        Self { status: Status::NO_CONTENT, json: None, cookie: None, browser: None }
    }

    /// Creates a 200 response with this document.
    pub(super) const fn with(json: Value) -> Self {
        Self { status: Status::OK, json: Some(json), cookie: None, browser: None }
    }

    /// Creates a 202 response: the request is accepted, and its result is a mail.
    pub(super) const fn accepted() -> Self {
        Self { status: Status::ACCEPTED, json: None, cookie: None, browser: None }
    }

    /// Creates the response to a login: the token, or a cookie with it.
    pub(super) fn logged_in(login: LoggedIn, cookie: bool) -> Self {
        let mut json = json!({ "user": login.user, "ends_at": login.ends_at });
        if cookie {
            return Self { cookie: Some(Some(login.token)), ..Self::with(json) };
        }
        json["token"] = json!(login.token);
        Self::with(json)
    }

    /// Creates a 201 response with this document.
    pub(super) fn created(json: Value) -> Self {
        Self { status: Status::CREATED, ..Self::with(json) }
    }
}

/// Returns the second factor of a request: its members `code` and `passkey`.
pub(super) fn proof<'p>(code: Option<&'p str>, passkey: Option<&'p RawValue>) -> SecondProof<'p> {
    SecondProof { code, passkey: passkey.map(RawValue::get) }
}

impl AccountRequest {
    /// Parses the body. The types to parse refuse unknown members, so that a misspelled optional
    /// member is not ignored.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] (422) if the body does not match the type.
    pub(super) fn read<T: DeserializeOwned>(&self) -> ModelResult<T> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("the body is not valid: {error}"))
        })
    }

    /// Returns the client of a login.
    pub(super) fn client(&self) -> LoginClient<'_> {
        LoginClient { address: self.address, device: self.device.as_deref() }
    }

    /// Returns the caller.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] (401) for an anonymous caller.
    pub(super) fn known(&self) -> ModelResult<&Identity> {
        self.known
            .as_deref()
            .ok_or_else(|| Error::new(ErrorKind::Unauthenticated, "log in first, or send a token"))
    }

    /// Returns the caller if it is an administrator.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] (401) for an anonymous caller, [`ErrorKind::Denied`] (403)
    /// for another user.
    pub(super) fn administrator(&self) -> ModelResult<&Identity> {
        let known = self.known()?;
        match known.is_admin() {
            true => Ok(known),
            false => Err(Error::new(ErrorKind::Denied, "only administrators may do this")),
        }
    }

    /// Returns the id in the path, as in `/api/auth/users/7`.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] (404) if it is not an integer.
    pub(super) fn id(&self) -> ModelResult<i64> {
        let none = || Error::new(ErrorKind::NotFound, "the path does not name an existing row");
        self.named.parse().map_err(|_| none())
    }
}
