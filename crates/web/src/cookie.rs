//! The cookie of a session, for pages in browsers.
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

/// The cookie with a session's token, if the client does not use https.
const COOKIE: &str = "marmota_session";
/// The cookie for https: browsers accept it only over https, only from this host, for all paths.
const SECURE_COOKIE: &str = "__Host-marmota_session";

/// Two cookies of the session's name in one request, of which none can be trusted.
pub(crate) struct TwoCookies {
    /// The name of both.
    pub(crate) name: &'static str,
}

/// Returns the token of the session's cookie; `None` without one, or if it is empty.
///
/// # Errors
/// [`TwoCookies`]: another host of the domain may have set one of them.
pub(crate) fn token_of(request: &Request) -> Result<Option<&str>, TwoCookies> {
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

/// Returns the name of the session's cookie: with `__Host-` if the client uses https.
fn cookie_name(request: &Request) -> &'static str {
    if request.scheme() == "https" { SECURE_COOKIE } else { COOKIE }
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
