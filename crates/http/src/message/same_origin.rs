//! The check for requests that a page of another site may have had a browser send (cross-site
//! request forgery). One check of `Host`, `Origin` and `Content-Type` for REST, services and remote
//! stores.
//!
//! - A browser reports the origin of the page (`Origin`, RFC 6454; `Sec-Fetch-Site`). Pages cannot
//!   set these headers. A request with neither is from a program such as curl, and passes.
//! - A name that its owner resolves to 127.0.0.1 (DNS rebinding) makes a foreign page one of this
//!   origin. Its requests arrive over the loopback interface and have a foreign `Host`.
//!
//! The origins and hosts that are allowed in addition are in [`crate::message::sites`].

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crate::message::request::Request;
use crate::message::response::{IntoResponse, Response};
use crate::message::sites::split_port;
use crate::proto::method::Method;
use crate::proto::status::Status;
use crate::socket::address::Peer;

/// Bytes of a header's value that an error quotes at most.
const QUOTED_BYTES_MAX: usize = 80;

/// The page that initiated a request, as its browser reports it ([`Request::initiator`]).
///
/// ```
/// use marmota_http::{Initiator, Request, Router, TestRequest};
/// async fn initiator(request: Request) -> &'static str {
///     match request.initiator() {
///         Initiator::Unknown => "a program",
///         Initiator::SameOrigin | Initiator::Allowed => "our page",
///         _ => "a foreign page",
///     }
/// }
/// let router = Router::new().get("/", initiator);
/// assert_eq!(router.call(TestRequest::get("/"))?.text(), "a program");
/// let page = |origin: &str| TestRequest::get("/").header("Origin", origin);
/// assert_eq!(router.call(page("http://localhost"))?.text(), "our page");
/// assert_eq!(router.call(page("https://evil.example"))?.text(), "a foreign page");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Initiator {
    /// The request has neither `Origin` nor `Sec-Fetch-Site`: it is from a program that is not a
    /// browser, or from an old browser.
    Unknown,
    /// A page of the host that was requested, or the user (an address typed).
    SameOrigin,
    /// A page of another origin that is allowed: by
    /// [`Server::allowed_origins`](crate::Server::allowed_origins), or by a [`Cors`](crate::Cors)
    /// around the handler.
    Allowed,
    /// A page of another origin.
    Foreign,
}

/// A request that is refused for its origin or host, or for the type of its body. As an answer it
/// is a problem document (RFC 9457), whose text states how to allow such requests.
///
/// ```
/// use marmota_http::{CrossSite, Request, Router, Status, TestRequest};
/// async fn stop(request: Request) -> Result<&'static str, CrossSite> {
///     request.check_site()?;
///     Ok("stopped")
/// }
/// let router = Router::new().post("/stop", stop);
/// assert_eq!(router.call(TestRequest::post("/stop"))?.text(), "stopped");
/// let foreign = TestRequest::post("/stop").header("Origin", "https://evil.example");
/// assert_eq!(router.call(foreign)?.status(), Status::FORBIDDEN);
/// let rebound = TestRequest::post("/stop").header("Host", "evil.example");
/// assert_eq!(router.call(rebound)?.status(), Status::MISDIRECTED_REQUEST);
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CrossSite {
    /// `Host` has a name that is not this server's (421).
    Host(String),
    /// A page of another origin has sent it (403).
    Origin(String),
    /// The body is not declared as JSON (415).
    ContentType(String),
}

impl CrossSite {
    /// Returns the status of the answer.
    ///
    /// ```
    /// use marmota_http::{CrossSite, Status};
    /// assert_eq!(CrossSite::Origin("https://a.test".to_owned()).status(), Status::FORBIDDEN);
    /// ```
    #[must_use]
    pub const fn status(&self) -> Status {
        match self {
            Self::Host(_) => Status::MISDIRECTED_REQUEST,
            Self::Origin(_) => Status::FORBIDDEN,
            Self::ContentType(_) => Status::UNSUPPORTED_MEDIA_TYPE,
        }
    }
}

impl fmt::Display for CrossSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => write!(
                f,
                "`Host: {host}` over the loopback interface is refused, because a foreign page \
                 could send it by DNS rebinding; use localhost or an IP address, or allow the name \
                 (`Server::allowed_hosts`, `serve --allow-host`); for a reverse proxy on this \
                 machine, trust the proxy (`Server::trusted_proxies`, `serve --trusted-proxies`)"
            ),
            Self::Origin(origin) => write!(
                f,
                "a page of another origin ({origin}) may not do this; allow the origin \
                 (`Server::allowed_origins`, `serve --allow-origin`); behind a reverse proxy, make \
                 the proxy forward `Host`, or trust the proxy (`Server::trusted_proxies`, `serve \
                 --trusted-proxies`)"
            ),
            Self::ContentType(kind) => write!(
                f,
                "the body must be JSON with `Content-Type: application/json`, not `{kind}`"
            ),
        }
    }
}

impl std::error::Error for CrossSite {}

impl IntoResponse for CrossSite {
    #[cold]
    fn into_response(self) -> Response {
        Response::problem(self.status(), &self.to_string())
    }
}

impl Request {
    /// Returns which page initiated the request. `Sec-Fetch-Site` decides if the browser sends it;
    /// otherwise `Origin` is compared with the host that the client has requested
    /// ([`Request::host`]).
    ///
    /// ```
    /// use marmota_http::{Initiator, Request};
    /// /// Shows details to our own pages only.
    /// fn shows_details(request: &Request) -> bool {
    ///     request.initiator() == Initiator::SameOrigin
    /// }
    /// ```
    #[must_use]
    pub fn initiator(&self) -> Initiator {
        let origin = self.header_text("origin").map(str::trim);
        let allowed = || {
            let is_listed = origin.is_some_and(|origin| self.0.context.sites.has_origin(origin));
            match is_listed || self.0.origin_allowed.get() {
                true => Initiator::Allowed,
                false => Initiator::Foreign,
            }
        };
        match (self.header_text("sec-fetch-site").map(str::trim), origin) {
            (Some("same-origin" | "none"), _) => Initiator::SameOrigin,
            (Some(_), _) => allowed(),
            (None, Some(origin)) if is_of_host(origin, self.host()) => Initiator::SameOrigin,
            (None, Some(_)) => allowed(),
            // Browsers send `Origin` in ASCII.
            (None, None) if self.header("origin").is_some() => Initiator::Foreign,
            (None, None) => Initiator::Unknown,
        }
    }

    /// Checks that no page of another site has sent the request, before it changes anything. A
    /// request over the loopback interface must name an address, `localhost` or an allowed host;
    /// one with a method that is not safe (RFC 9110, 9.2.1) must not be from a foreign page. REST,
    /// services and remote stores call it for each request.
    ///
    /// ```
    /// use marmota_http::{CrossSite, Request, Response};
    /// async fn stop(request: Request) -> Result<Response, CrossSite> {
    ///     request.check_site()?;
    ///     Ok(Response::text("stopped"))
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CrossSite::Host`] and [`CrossSite::Origin`].
    #[inline]
    pub fn check_site(&self) -> Result<(), CrossSite> {
        self.check_host()?;
        match self.method() {
            Method::Get | Method::Head | Method::Options => Ok(()),
            _ => self.check_initiator(),
        }
    }

    /// Checks like [`Request::check_site`] for a method that is not safe: for a GET with effects,
    /// such as one that opens a WebSocket, which a browser permits to any page.
    ///
    /// ```
    /// use marmota_http::{CrossSite, Request, Router, Status, TestRequest};
    /// async fn open(request: Request) -> Result<&'static str, CrossSite> {
    ///     request.check_site_strictly()?;
    ///     Ok("open")
    /// }
    /// let router = Router::new().get("/socket", open);
    /// let foreign = TestRequest::get("/socket").header("Origin", "https://evil.example");
    /// assert_eq!(router.call(foreign)?.status(), Status::FORBIDDEN);
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Request::check_site`].
    pub fn check_site_strictly(&self) -> Result<(), CrossSite> {
        self.check_host()?;
        self.check_initiator()
    }

    /// Checks that the body, if there is one, is declared as JSON: `application/json`, `text/json`
    /// or a type with the suffix `+json`. A browser sends such a type to another origin only after
    /// a preflight request. A program that is not a browser may omit the type, or send
    /// `application/x-www-form-urlencoded`, which is the default of curl.
    ///
    /// ```
    /// use marmota_http::{CrossSite, Request, Router, Status, TestRequest};
    /// async fn store(request: Request) -> Result<&'static str, CrossSite> {
    ///     request.check_json()?;
    ///     Ok("stored")
    /// }
    /// let router = Router::new().post("/store", store);
    /// let request = TestRequest::post("/store").body("{}");
    /// assert_eq!(router.call(request.clone())?.text(), "stored");
    /// let refused = router.call(request.header("Content-Type", "text/plain"))?;
    /// assert_eq!(refused.status(), Status::UNSUPPORTED_MEDIA_TYPE);
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    ///
    /// # Errors
    /// [`CrossSite::ContentType`].
    pub fn check_json(&self) -> Result<(), CrossSite> {
        let kind = self.header("content-type").unwrap_or_default();
        let kind = kind.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        let is = |name: &[u8]| kind.eq_ignore_ascii_case(name);
        let suffix = kind.len().saturating_sub(b"+json".len());
        if is(b"application/json")
            || is(b"text/json")
            || kind[suffix..].eq_ignore_ascii_case(b"+json")
        {
            return Ok(());
        }
        let untyped = kind.is_empty() || is(b"application/x-www-form-urlencoded");
        if untyped && (self.body().is_empty() || self.initiator() == Initiator::Unknown) {
            return Ok(());
        }
        Err(CrossSite::ContentType(quoted(kind)))
    }

    /// Checks the `Host` of a request over the loopback interface.
    #[inline]
    fn check_host(&self) -> Result<(), CrossSite> {
        let over_loopback = match self.peer() {
            Peer::Net(address) => is_loopback(address.ip()),
            Peer::Unix => false,
        };
        match !over_loopback || is_local(self.header("host").unwrap_or_default()) {
            true => Ok(()),
            false => self.check_name(),
        }
    }

    /// Checks a `Host` that is a name other than `localhost`.
    #[cold]
    fn check_name(&self) -> Result<(), CrossSite> {
        // A browser accepts no certificate for a name that its owner has resolved to this machine.
        if self.is_encrypted() || self.0.context.proxies.trusts_peer(self.peer()) {
            return Ok(());
        }
        let host = self.header("host").unwrap_or_default();
        match std::str::from_utf8(host).is_ok_and(|host| self.0.context.sites.has_host(host)) {
            true => Ok(()),
            false => Err(CrossSite::Host(quoted(host))),
        }
    }

    /// Checks that no foreign page has sent the request.
    fn check_initiator(&self) -> Result<(), CrossSite> {
        match self.initiator() {
            Initiator::Foreign => {
                Err(CrossSite::Origin(quoted(self.header("origin").unwrap_or(b"unknown"))))
            }
            _ => Ok(()),
        }
    }
}

/// Returns true for an address of the loopback interface, also in IPv6 form (`::ffff:127.0.0.1`).
fn is_loopback(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => {
            ip == Ipv6Addr::LOCALHOST || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback())
        }
    }
}

/// Returns true for a `Host` that no name server resolves: an address, `localhost` and names below
/// it, or an empty one.
#[inline]
fn is_local(host: &[u8]) -> bool {
    // No name ends in a label of digits.
    host.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b':'))
        || host[0] == b'['
        || is_localhost(host)
}

/// Returns true for `localhost` and names below it (RFC 6761, 6.3), with or without a port.
fn is_localhost(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let name = split_port(host).0;
    let label = name.rsplit('.').next().unwrap_or_default();
    label.eq_ignore_ascii_case("localhost")
}

/// Returns true if the host and port of an origin are those of `Host`. Either may omit the default
/// port of the origin's scheme. The scheme itself may differ: a proxy that ends TLS need not report
/// it.
fn is_of_host(origin: &str, host: &str) -> bool {
    let Some((scheme, site)) = origin.split_once("://") else { return false };
    let usual = match scheme {
        "https" => "443",
        "http" => "80",
        _ => return false,
    };
    let port = |port: Option<&str>| match port {
        None | Some("") => usual.to_owned(),
        Some(port) => port.to_owned(),
    };
    let ((site, site_port), (name, name_port)) = (split_port(site), split_port(host));
    !site.is_empty() && site.eq_ignore_ascii_case(name) && port(site_port) == port(name_port)
}

/// Returns the start of a header's value, for an error.
fn quoted(value: &[u8]) -> String {
    let short = &value[..value.len().min(QUOTED_BYTES_MAX)];
    let text = String::from_utf8_lossy(short).into_owned();
    if short.len() < value.len() { text + "…" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::sites::Sites;

    #[test]
    fn hosts_that_no_name_server_resolves_are_local() {
        for host in [
            "",
            "localhost",
            "LOCALHOST:8080",
            "app.localhost:1",
            "127.0.0.1",
            "127.0.0.1:80",
            "192.168.7.7:8080",
            "[::1]",
            "[::1]:8080",
        ] {
            assert!(is_local(host.as_bytes()), "{host}");
        }
        for host in [
            "attacker.example",
            "localhost.attacker.example",
            "127.0.0.1.attacker.example:80",
            "notlocalhost",
            "localhost.",
            "a",
            "::1x",
            "\u{e9}",
        ] {
            assert!(!is_local(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn an_origin_is_compared_with_host_and_port() {
        for (origin, host) in [
            ("http://localhost:8080", "localhost:8080"),
            ("https://Example.org", "example.org"),
            ("https://example.org", "example.org:443"),
            ("http://example.org:80", "example.org"),
            ("http://[::1]:8080", "[::1]:8080"),
        ] {
            assert!(is_of_host(origin, host), "{origin} {host}");
        }
        for (origin, host) in [
            ("http://localhost:3000", "localhost:8080"),
            ("https://example.org", "example.org:80"),
            ("https://example.org.evil.test", "example.org"),
            ("null", "null"),
            ("", ""),
            ("http://", ""),
            ("file://", ""),
            ("chrome-extension://abc", "abc"),
        ] {
            assert!(!is_of_host(origin, host), "{origin} {host}");
        }
    }

    #[test]
    fn what_is_allowed_has_the_form_of_an_origin_or_a_host() {
        let mut sites = Sites::default();
        assert!(sites.allow_origins(["https://a.test", "http://a.test:81"]).is_ok());
        assert!(sites.allow_hosts(["a.test"]).is_ok());
        assert!(sites.has_origin("HTTPS://a.test") && !sites.has_origin("http://a.test"));
        assert!(sites.has_host("A.test:80") && !sites.has_host("b.a.test"));
        for origin in ["", "a.test", "*", "https://*.a.test", "https://a.test/", "https://"] {
            let error = sites.allow_origins([origin]).unwrap_err().to_string();
            assert!(error.contains("https://app.example.org"), "{error}");
        }
        for host in ["", "a.test:80", "https://a.test", "*.a.test", "a b"] {
            assert!(sites.allow_hosts([host]).is_err(), "{host}");
        }
    }
}
