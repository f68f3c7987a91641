//! The cookies of a session, and of a sign-in with a provider, for pages in browsers.
//!
//! A login with `"cookie":true` is answered with
//!
//! ```text
//! Set-Cookie: __Host-marmota_session=4f7c…; Path=/; HttpOnly; SameSite=Strict; Secure
//! ```
//!
//! and the browser sends it back with each request. Over https only the name with the prefix
//! `__Host-` is accepted (RFC 6265bis, 4.1.3.2): another host, or a page without encryption, cannot
//! set it.

use std::net::IpAddr;

use marmota_http::Request;

/// A cookie, by its names with and without https. Browsers accept one with the prefix `__Host-` only over
/// https, only from this host, for all paths.
struct Cookie {
    plain: &'static str,
    secure: &'static str,
    /// Attributes of its own.
    attributes: &'static str,
}

/// The cookie with a session's token.
const SESSION: Cookie =
    Cookie { plain: "marmota_session", secure: "__Host-marmota_session", attributes: "" };
/// The cookie that binds a sign-in with a provider to a browser.
const SIGN_IN: Cookie = Cookie {
    plain: "marmota_sign_in",
    secure: "__Host-marmota_sign_in",
    attributes: "; Max-Age=600",
};

/// Two cookies of a name in one request, of which none can be trusted.
#[derive(Debug)]
pub(crate) struct TwoCookies {
    /// The name of both.
    pub(crate) name: &'static str,
}

/// Returns the token of the session's cookie; `None` without one, or if it is empty.
///
/// # Errors
/// [`TwoCookies`]: another host of the domain may have set one of them.
pub(crate) fn token_of(request: &Request) -> Result<Option<&str>, TwoCookies> {
    value_of(request, &SESSION)
}

fn value_of<'r>(request: &'r Request, cookie: &Cookie) -> Result<Option<&'r str>, TwoCookies> {
    let name = cookie.name(request);
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
                return Err(TwoCookies { name });
            }
        }
    }
    Ok(token.filter(|token| !token.is_empty()))
}

/// Returns the value of the header `Set-Cookie` that gives a browser the token of a session, or
/// deletes the cookie (`None`).
///
/// The cookie is `Secure`, so that browsers send it only over https, unless the page is on this
/// machine and unencrypted. Scripts cannot read it (`HttpOnly`), and browsers do not send it with
/// requests of other sites (`SameSite=Strict`).
///
/// ```
/// use marmota_http::{Request, Router, TestRequest};
/// use marmota_web::session_cookie;
///
/// async fn log_out(request: Request) -> String {
///     session_cookie(&request, None)
/// }
///
/// let answer = Router::new().post("/logout", log_out).call(TestRequest::post("/logout"))?;
/// assert_eq!(answer.text(), "marmota_session=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[must_use]
pub fn session_cookie(request: &Request, token: Option<&str>) -> String {
    SESSION.set(request, token)
}

/// Returns the value of the header `Set-Cookie` that binds a sign-in with a provider to a browser, or
/// deletes the cookie (`None`). It is protected as [`session_cookie`] is, and ends after 10 minutes.
///
/// ```
/// use marmota_http::{Request, Router, TestRequest};
/// use marmota_web::sign_in_cookie;
///
/// async fn begin(request: Request) -> String {
///     sign_in_cookie(&request, Some("mb_x"))
/// }
///
/// let answer = Router::new().post("/begin", begin).call(TestRequest::post("/begin"))?;
/// assert!(answer.text().starts_with("marmota_sign_in=mb_x; Path=/; HttpOnly; SameSite=Strict"));
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[must_use]
pub fn sign_in_cookie(request: &Request, secret: Option<&str>) -> String {
    SIGN_IN.set(request, secret)
}

/// Returns the value of the cookie of [`sign_in_cookie`]; `None` without one, and for two: another host of
/// the domain may have set one of them.
///
/// ```
/// use marmota_http::{Request, Router, TestRequest};
/// use marmota_web::sign_in_secret;
///
/// async fn end(request: Request) -> String {
///     sign_in_secret(&request).unwrap_or("none").to_owned()
/// }
///
/// let router = Router::new().post("/end", end);
/// let one = TestRequest::post("/end").header("Cookie", "marmota_sign_in=mb_x");
/// assert_eq!(router.call(one)?.text(), "mb_x");
/// let two = TestRequest::post("/end").header("Cookie", "marmota_sign_in=mb_x; marmota_sign_in=mb_y");
/// assert_eq!(router.call(two)?.text(), "none");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[must_use]
pub fn sign_in_secret(request: &Request) -> Option<&str> {
    value_of(request, &SIGN_IN).ok().flatten()
}

impl Cookie {
    /// Returns the name: with `__Host-` if the client uses https.
    fn name(&self, request: &Request) -> &'static str {
        if request.scheme() == "https" { self.secure } else { self.plain }
    }

    /// Returns the header that sets the cookie, or deletes it.
    fn set(&self, request: &Request, value: Option<&str>) -> String {
        let (name, attributes) = (self.name(request), self.attributes);
        let secure = match name == self.secure || !is_loopback(request.host()) {
            true => "; Secure",
            false => "",
        };
        match value {
            Some(value) => {
                format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{attributes}{secure}")
            }
            None => format!("{name}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0{secure}"),
        }
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
