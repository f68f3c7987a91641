//! Who makes a request: by the token that it bears, or the cookie.
//!
//! A cookie is sent by the browser whoever's page asks for it. So a request
//! that changes something and has nothing but a cookie must show that it is
//! from a page of this origin, which browsers say (`Sec-Fetch-Site`,
//! `Origin`) and pages of others cannot; or that it was made by a script that
//! was allowed to, which a header of its own shows.

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

/// The cookie with a session's token, where the client does not speak https.
const COOKIE: &str = "marmota_session";
/// The same where it does: browsers take it over https alone, from this host alone, for all paths.
const SECURE_COOKIE: &str = "__Host-marmota_session";
/// A header that shows that a request was made by a script of this origin.
const OWN_HEADER: &str = "x-marmota-csrf";

/// Where requests come in.
#[derive(Debug)]
pub(crate) struct Authenticator {
    pub(crate) auth: Auth,
    pub(crate) workers: Workers,
}

/// Where a token stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bearer<'r> {
    Header(&'r str),
    Cookie(&'r str),
}

impl Authenticator {
    pub(crate) fn new(auth: &Auth) -> Self {
        Self { auth: auth.clone(), workers: Workers::default() }
    }

    /// Finds the store for who makes a request.
    pub(crate) fn store_for(&self, request: &Request) -> StoreFor {
        StoreFor { known: known(&self.auth, request), nobody: self.auth.anonymous().cloned() }
    }

    /// Finds who makes a request; none for an anonymous caller.
    pub(crate) fn known(&self, request: &Request) -> Knowing {
        known(&self.auth, request)
    }
}

/// The caller of a request that lasts, to be authenticated again.
#[derive(Debug)]
pub(crate) struct Again {
    auth: Auth,
    token: Box<str>,
    finding: Option<Authenticating>,
}

impl Again {
    /// None for an anonymous caller, whose rights do not end.
    pub(crate) fn of(door: &Authenticator, request: &Request) -> Option<Self> {
        let (Bearer::Header(token) | Bearer::Cookie(token)) = bearer(request).ok()??;
        Some(Self { auth: door.auth.clone(), token: token.into(), finding: None })
    }

    /// The store for the caller as they are known now.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<marmota_model::Result<Store>> {
        let finding = self.finding.get_or_insert_with(|| self.auth.authenticate(&self.token));
        let found = ready!(Pin::new(finding).poll(context));
        self.finding = None;
        Poll::Ready(found.map(|known| known.store().clone()))
    }
}

/// The store for a caller who is being authenticated: a future, which is ready at once for a token
/// that was shown a short time ago.
///
/// It fails with 401 for an invalid token, or none where anonymous callers may do nothing, and with
/// 403 for a cookie that another origin's page sent.
#[must_use]
pub(crate) struct StoreFor {
    known: Knowing,
    nobody: Option<Store>,
}

impl StoreFor {
    /// Takes the result if no read is needed for it.
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

/// A caller who is being authenticated ([`known`]): a future, which is ready at once for a token
/// that was shown a short time ago.
#[must_use = "authentication does nothing until it is awaited"]
#[derive(Debug)]
pub struct Knowing(State);

#[derive(Debug)]
enum State {
    Ready(Option<Result<Option<Arc<Identity>>>>),
    Header(Authenticating),
    /// With what is wrong with where the request comes from.
    Cookie(Authenticating, Option<ApiError>),
}

impl Knowing {
    const fn of(result: Result<Option<Arc<Identity>>>) -> Self {
        Self(State::Ready(Some(result)))
    }

    /// Takes the result if the store need not be read for it; never blocks.
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

/// Finds who makes a request, by `Authorization: Bearer` or the cookie, as
/// [`crate::Api::auth`] does; none for an anonymous caller. `.await` it.
///
/// It fails with 401 for an invalid token, and with 403 for a cookie that another origin's page
/// sent.
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
        // An old cookie is sent without anybody's doing.
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

/// The token of the session's cookie. Where the scheme is https only the one with the prefix counts,
/// which no page of another host, and none without encryption, can set.
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

/// Refuses what another origin's page may have had a browser send.
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

/// The name of the session's cookie: with `__Host-` where the client speaks https.
fn cookie_name(request: &Request) -> &'static str {
    if request.scheme() == "https" { SECURE_COOKIE } else { COOKIE }
}

/// The header that gives a browser a token, or takes it from it. The cookie is `Secure` unless a
/// page of this machine asks without encryption; a browser keeps it then for https alone.
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

/// Whether a host, maybe with a port, is this machine.
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
