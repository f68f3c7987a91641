//! Who makes a request: by the token that it bears, or the cookie.
//!
//! A cookie is sent by the browser whoever's page asks for it. So a request
//! that changes something and has nothing but a cookie must show that it is
//! from a page of this origin, which browsers say (`Sec-Fetch-Site`,
//! `Origin`) and pages of others cannot; or that it was made by a script that
//! was allowed to, which a header of its own shows.

use std::borrow::Cow;
use std::sync::Arc;

use marmota_auth::{Auth, Known};
use marmota_http::{Method, Request};
use marmota_model::{Error, ErrorKind};
use marmota_store::Store;

use crate::credential;
use crate::problem::Result;
use crate::workers::Workers;

/// The cookie with a session's token.
pub(crate) const COOKIE: &str = "marmota_session";
/// A header that shows that a request was made by a script of this origin.
const OWN_HEADER: &str = "x-marmota-csrf";

/// Where requests come in.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) auth: Auth,
    pub(crate) workers: Workers,
}

/// Where a token stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bearer<'r> {
    Header(&'r str),
    Cookie(&'r str),
}

impl Door {
    pub(crate) fn new(auth: &Auth) -> Self {
        Self { auth: auth.clone(), workers: Workers::default() }
    }

    /// The store for who makes a request.
    ///
    /// # Errors
    /// 401 for a token that is not good, or none where nobody may do anything;
    /// 403 for a cookie that another origin's page sent.
    pub(crate) fn store_for(&self, request: &Request) -> Result<Cow<'_, Store>> {
        if let Some(known) = self.known(request)? {
            return Ok(Cow::Owned(known.store().clone()));
        }
        match self.auth.nobody() {
            Some(store) => Ok(Cow::Borrowed(store)),
            None => Err(unauthenticated("log in, or send a token: `Authorization: Bearer …`")),
        }
    }

    /// Who makes a request; none for nobody.
    ///
    /// # Errors
    /// As [`Door::store_for`].
    pub(crate) fn known(&self, request: &Request) -> Result<Option<Arc<Known>>> {
        known(&self.auth, request)
    }
}

/// Who makes a request, by `Authorization: Bearer` or the cookie, as
/// [`crate::Api::auth`] finds it; none for nobody.
///
/// # Errors
/// 401 for a token that is not good, 403 for a cookie that another origin's page
/// sent.
pub fn known(auth: &Auth, request: &Request) -> Result<Option<Arc<Known>>> {
    match bearer(request)? {
        None => Ok(None),
        Some(Bearer::Header(token)) => Ok(Some(auth.authenticate(token)?)),
        Some(Bearer::Cookie(token)) => {
            let known = match auth.authenticate(token) {
                // An old cookie is sent without anybody's doing.
                Err(error) if error.kind() == ErrorKind::Unauthenticated => return Ok(None),
                known => known?,
            };
            check_origin(request)?;
            Ok(Some(known))
        }
    }
}

fn unauthenticated(message: &str) -> crate::problem::ApiError {
    Error::new(ErrorKind::Unauthenticated, message).into()
}

fn bearer(request: &Request) -> Result<Option<Bearer<'_>>> {
    if let Some(header) = request.header("authorization") {
        return match credential::of_header(header) {
            Some(token) => Ok(Some(Bearer::Header(token))),
            None => Err(unauthenticated("`Authorization` takes the form `Bearer TOKEN`")),
        };
    }
    let cookies = request.header("cookie").and_then(|header| std::str::from_utf8(header).ok());
    let mut pairs = cookies.unwrap_or_default().split(';').filter_map(|pair| pair.split_once('='));
    let token = pairs.find(|(name, _)| name.trim() == COOKIE).map(|(_, token)| token.trim());
    Ok(token.filter(|token| !token.is_empty()).map(Bearer::Cookie))
}

/// Refuses what another origin's page may have had a browser send.
fn check_origin(request: &Request) -> Result<()> {
    if matches!(request.method(), Method::Get | Method::Head | Method::Options) {
        return Ok(());
    }
    let text = |name| request.header(name).and_then(|value| std::str::from_utf8(value).ok());
    let same = match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => matches!(site.trim(), "same-origin" | "none"),
        (None, Some(origin)) => {
            let host = origin.split_once("://").map(|(_, host)| host.trim());
            host.is_some() && host == text("host").map(str::trim)
        }
        (None, None) => false,
    };
    if same || request.header(OWN_HEADER).is_some() {
        return Ok(());
    }
    let message = "a cookie is good for requests of this origin's own pages; send the token by \
                   `Authorization: Bearer`, or the header `X-Marmota-CSRF: 1` beside the cookie";
    Err(Error::new(ErrorKind::Denied, message).into())
}

/// The header that gives a browser a token, or takes it from it.
pub(crate) fn set_cookie(request: &Request, token: Option<&str>) -> String {
    let host = request.header_text("host").unwrap_or_default();
    let is_local = ["localhost", "127.", "[::1]"].iter().any(|local| host.starts_with(local));
    let secure = if is_local { "" } else { "; Secure" };
    match token {
        Some(token) => format!("{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict{secure}"),
        None => format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0{secure}"),
    }
}
