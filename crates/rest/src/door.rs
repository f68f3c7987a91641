//! Authentication of requests: by bearer token or cookie.
//!
//! Browsers send cookies with requests of any page. So a request that changes data and is
//! authenticated only by a cookie must come from a page of this origin. Browsers report this
//! (`Sec-Fetch-Site`, `Origin`), and other pages cannot forge it. Alternatively, a custom header
//! shows that the request was made by a script that was allowed to set it.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use marmota_auth::{Auth, Authenticating, Identity};
use marmota_http::{Initiator, Method, Request};
use marmota_model::{Error, ErrorKind};
use marmota_store::Store;

use crate::credential;
use crate::problem::{ApiError, Result};
use crate::workers::Workers;

/// The cookie with a session's token, if the client does not use https.
const COOKIE: &str = "marmota_session";
/// The cookie for https: browsers accept it only over https, only from this host, for all paths.
const SECURE_COOKIE: &str = "__Host-marmota_session";
/// A custom header that shows that a request was made by a script of this origin.
const OWN_HEADER: &str = "x-marmota-csrf";

/// Authenticates incoming requests.
#[derive(Debug)]
pub(crate) struct Authenticator {
    pub(crate) auth: Auth,
    pub(crate) workers: Workers,
}

/// The source of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bearer<'r> {
    Header(&'r str),
    Cookie(&'r str),
}

impl Authenticator {
    pub(crate) fn new(auth: &Auth) -> Self {
        Self { auth: auth.clone(), workers: Workers::default() }
    }

    /// Returns the store with the rights of a request's caller.
    pub(crate) fn store_for(&self, request: &Request) -> StoreFor {
        StoreFor { known: known(&self.auth, request), nobody: self.auth.anonymous().cloned() }
    }

    /// Returns the caller of a request; `None` if it is anonymous.
    pub(crate) fn known(&self, request: &Request) -> Knowing {
        known(&self.auth, request)
    }
}

/// The caller of a long-running request, to be revalidated.
#[derive(Debug)]
pub(crate) struct Again {
    auth: Auth,
    token: Box<str>,
    finding: Option<Authenticating>,
}

impl Again {
    /// Returns `None` for an anonymous caller, whose rights do not expire.
    pub(crate) fn of(door: &Authenticator, request: &Request) -> Option<Self> {
        let (Bearer::Header(token) | Bearer::Cookie(token)) = bearer(request).ok()??;
        Some(Self { auth: door.auth.clone(), token: token.into(), finding: None })
    }

    /// Returns the store with the current rights of the caller.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<marmota_model::Result<Store>> {
        let finding = self.finding.get_or_insert_with(|| self.auth.authenticate(&self.token));
        let found = ready!(Pin::new(finding).poll(context));
        self.finding = None;
        Poll::Ready(found.map(|known| known.store().clone()))
    }
}

/// A future of the store for a caller, which is ready at once if the token was validated a short
/// time ago.
///
/// It fails with 401 for an invalid token, or for a missing token if anonymous access is disabled,
/// and with 403 for a cookie that was sent by a page of another origin.
#[must_use]
pub(crate) struct StoreFor {
    known: Knowing,
    nobody: Option<Store>,
}

impl StoreFor {
    /// Returns the result if no read of the store is needed.
    pub(crate) fn ready(&mut self) -> Option<Result<Store>> {
        let known = self.known.ready()?;
        Some(self.store(known))
    }

    fn store(&mut self, known: Result<Option<Arc<Identity>>>) -> Result<Store> {
        match known? {
            Some(known) => Ok(known.store().clone()),
            None => self.nobody.take().ok_or_else(|| {
                unauthenticated("log in, or send a token: `Authorization: Bearer …`")
            }),
        }
    }
}

impl Future for StoreFor {
    type Output = Result<Store>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let known = ready!(Pin::new(&mut self.known).poll(context));
        Poll::Ready(self.store(known))
    }
}

/// A future of the authenticated caller ([`known`]), which is ready at once if the token was
/// validated a short time ago.
#[must_use = "authentication does nothing until it is awaited"]
#[derive(Debug)]
pub struct Knowing(State);

#[derive(Debug)]
enum State {
    Ready(Option<Result<Option<Arc<Identity>>>>),
    Header(Authenticating),
    /// With the error of the origin check, if it failed.
    Cookie(Authenticating, Option<ApiError>),
}

impl Knowing {
    const fn of(result: Result<Option<Arc<Identity>>>) -> Self {
        Self(State::Ready(Some(result)))
    }

    /// Returns the result if no read of the store is needed; never blocks.
    pub fn ready(&mut self) -> Option<Result<Option<Arc<Identity>>>> {
        match &mut self.0 {
            State::Ready(result) => result.take(),
            State::Header(_) | State::Cookie(..) => None,
        }
    }
}

impl Future for Knowing {
    type Output = Result<Option<Arc<Identity>>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Ready(result) => result.take().map_or(Poll::Pending, Poll::Ready),
            State::Header(token) => Pin::new(token).poll(context).map(|known| Ok(Some(known?))),
            State::Cookie(token, foreign) => {
                let known = ready!(Pin::new(token).poll(context));
                Poll::Ready(by_cookie(known, || foreign.take()))
            }
        }
    }
}

/// Authenticates the caller of a request, by `Authorization: Bearer` or the cookie, as
/// [`crate::Api::auth`] does; `None` for an anonymous caller. `.await` the result.
///
/// It fails with 401 for an invalid token, and with 403 for a cookie that was sent by a page of
/// another origin.
pub fn known(auth: &Auth, request: &Request) -> Knowing {
    match bearer(request) {
        Err(error) => Knowing::of(Err(error)),
        Ok(None) => Knowing::of(Ok(None)),
        Ok(Some(Bearer::Header(token))) => {
            let mut token = auth.authenticate(token);
            match token.ready() {
                Some(known) => Knowing::of(known.map(Some).map_err(ApiError::from)),
                None => Knowing(State::Header(token)),
            }
        }
        Ok(Some(Bearer::Cookie(token))) => {
            let mut token = auth.authenticate(token);
            let foreign = || check_origin(request).err();
            match token.ready() {
                Some(known) => Knowing::of(by_cookie(known, foreign)),
                None => Knowing(State::Cookie(token, foreign())),
            }
        }
    }
}

fn by_cookie(
    known: marmota_model::Result<Arc<Identity>>,
    foreign: impl FnOnce() -> Option<ApiError>,
) -> Result<Option<Arc<Identity>>> {
    match known {
        // Browsers send an expired cookie without an action of the user.
        Err(error) if error.kind() == ErrorKind::Unauthenticated => Ok(None),
        Err(error) => Err(error.into()),
        Ok(known) => foreign().map_or(Ok(Some(known)), Err),
    }
}

fn unauthenticated(message: &str) -> ApiError {
    Error::new(ErrorKind::Unauthenticated, message).into()
}

fn bearer(request: &Request) -> Result<Option<Bearer<'_>>> {
    if let Some(header) = request.header("authorization") {
        return match credential::of_header(header) {
            Some(token) => Ok(Some(Bearer::Header(token))),
            None => Err(unauthenticated("`Authorization` takes the form `Bearer TOKEN`")),
        };
    }
    cookie_of(request)
}

/// Returns the token of the session's cookie. Over https only the cookie with the prefix is
/// accepted, which cannot be set by another host or without encryption.
fn cookie_of(request: &Request) -> Result<Option<Bearer<'_>>> {
    let name = cookie_name(request);
    let mut token = None;
    for (header, value) in request.headers() {
        if !header.eq_ignore_ascii_case("cookie") {
            continue;
        }
        let pairs = std::str::from_utf8(value).unwrap_or_default().split(';');
        for (_, value) in
            pairs.filter_map(|pair| pair.split_once('=')).filter(|(is, _)| is.trim() == name)
        {
            if token.replace(value.trim()).is_some() {
                let message = format!("there are two cookies `{name}`; delete both, and log in");
                return Err(unauthenticated(&message));
            }
        }
    }
    Ok(token.filter(|token| !token.is_empty()).map(Bearer::Cookie))
}

/// Refuses requests that a page of another origin may have caused.
fn check_origin(request: &Request) -> Result<()> {
    if matches!(request.method(), Method::Get | Method::Head | Method::Options) {
        return Ok(());
    }
    let same = request.initiator() == Initiator::SameOrigin;
    if same || request.header(OWN_HEADER).is_some() {
        return Ok(());
    }
    let message = "a cookie is good for requests of this origin's own pages; send the token by \
                   `Authorization: Bearer`, or the header `X-Marmota-CSRF: 1` with the cookie";
    Err(Error::new(ErrorKind::Denied, message).into())
}

/// Returns the name of the session's cookie: with `__Host-` if the client uses https.
fn cookie_name(request: &Request) -> &'static str {
    if request.scheme() == "https" { SECURE_COOKIE } else { COOKIE }
}

/// Returns the header that sets or deletes the cookie of a token. The cookie is `Secure`, so that
/// browsers send it only over https, unless the page is on this machine and unencrypted.
pub(crate) fn set_cookie(request: &Request, token: Option<&str>) -> String {
    let name = cookie_name(request);
    let secure = match name == SECURE_COOKIE || !is_loopback(request.host()) {
        true => "; Secure",
        false => "",
    };
    match token {
        Some(token) => format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict{secure}"),
        None => format!("{name}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0{secure}"),
    }
}

/// Returns true if a host, with or without a port, is this machine.
fn is_loopback(host: &str) -> bool {
    let host = match host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => host,
    };
    let is_name = host.eq_ignore_ascii_case("localhost");
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    is_name || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_of_this_machine_is_known() {
        for host in
            ["localhost", "LOCALHOST:8080", "127.0.0.1", "127.8.9.1:80", "[::1]", "[::1]:80"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "localhost.attacker.example",
            "127.0.0.1.attacker.example:80",
            "127.attacker.example",
            "10.0.0.1",
            "[::2]:80",
            "",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
