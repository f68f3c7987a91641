//! The client of a request: the connection's peer, or the one that a trusted proxy reports by the
//! `X-Forwarded-` headers or by `Forwarded` (RFC 7239).
//!
//! The headers are used only if the peer is a trusted proxy, and only those that it is configured
//! to set. The list of hops is read from the right: each trusted proxy reports the one before it,
//! and the first address that is not a trusted proxy is the client. A client can write any hops to
//! the left of that.

use std::net::IpAddr;

use crate::message::request::Request;
use crate::socket::proxies::{ForwardedHeader, Proxies};

/// The facts that a trusted proxy reports; `None` for those that it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ForwardedInfo<'a> {
    /// The address of the client.
    client: Option<IpAddr>,
    /// `http` or `https`.
    scheme: Option<&'a str>,
    /// The host that the client has requested.
    host: Option<&'a str>,
}

/// Returns the facts that the last trusted proxy reports; none if the peer is not trusted.
fn forwarded_info<'a>(request: &'a Request, proxies: &Proxies) -> ForwardedInfo<'a> {
    if !proxies.trusts_peer(request.peer()) {
        return ForwardedInfo::default();
    }
    if proxies.header == ForwardedHeader::Forwarded {
        let lines = lines(request, "forwarded");
        let elements: Vec<&str> = lines.flat_map(|line| split(line, b',')).collect();
        return by_standard(&elements, proxies);
    }
    let hops: Vec<&str> =
        self::lines(request, "x-forwarded-for").flat_map(|line| line.split(',')).collect();
    let mut info = ForwardedInfo {
        client: None,
        scheme: last(request, "x-forwarded-proto"),
        host: last(request, "x-forwarded-host"),
    };
    for hop in hops.iter().rev() {
        // A hop that is not an address hides the hops before it.
        let Some(ip) = address(hop.trim()) else { break };
        info.client = Some(ip);
        if !proxies.trusts(ip) {
            break;
        }
    }
    info
}

/// Reads the elements of `Forwarded`, from the last to the first.
fn by_standard<'a>(elements: &[&'a str], proxies: &Proxies) -> ForwardedInfo<'a> {
    let mut info = ForwardedInfo::default();
    for element in elements.iter().rev() {
        let mut here = ForwardedInfo::default();
        for pair in split(element, b';') {
            let Some((key, value)) = pair.split_once('=') else { continue };
            let value = value.trim();
            let value =
                value.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(value);
            match key.trim() {
                key if key.eq_ignore_ascii_case("for") => here.client = address(value),
                key if key.eq_ignore_ascii_case("proto") => here.scheme = Some(value),
                key if key.eq_ignore_ascii_case("host") => here.host = Some(value),
                _ => {}
            }
        }
        // The elements further to the left were reported by this client.
        let Some(ip) = here.client else {
            if info == ForwardedInfo::default() {
                info = here;
            }
            break;
        };
        info = here;
        if !proxies.trusts(ip) {
            break;
        }
    }
    info
}

/// Returns the values of all headers with this name.
fn lines<'a>(request: &'a Request, name: &'static str) -> impl Iterator<Item = &'a str> {
    let named = request.headers().filter(move |(key, _)| key.eq_ignore_ascii_case(name));
    named.filter_map(|(_, value)| std::str::from_utf8(value).ok())
}

/// Returns the last element of the last header with this name.
fn last<'a>(request: &'a Request, name: &'static str) -> Option<&'a str> {
    let line = lines(request, name).last()?;
    line.rsplit(',').next().map(str::trim).filter(|text| !text.is_empty())
}

/// Splits a text at separators that are not in quotes.
fn split(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |letter: char| {
        quoted ^= letter == '"';
        !quoted && letter == separator as char
    })
}

/// Parses an address, with a port or without: `192.0.2.7:80`, `[::1]:80`, `[::1]`, `::1`.
fn address(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.to_canonical());
    }
    if let Ok(address) = text.parse::<std::net::SocketAddr>() {
        return Some(address.ip().to_canonical());
    }
    text.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

impl Request {
    /// Returns the address of the client: the connection's peer or, if that is a trusted proxy
    /// ([`Server::trusted_proxies`](crate::Server::trusted_proxies)), the client that the proxy
    /// reports by the configured header
    /// ([`Server::forwarded_header`](crate::Server::forwarded_header)). Returns `None` over a Unix
    /// socket whose peer reports no client.
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    /// async fn address(request: Request) -> String {
    ///     request.client_ip().map_or("a local process".to_owned(), |ip| ip.to_string())
    /// }
    /// let router = Router::new().get("/", address);
    /// // No proxy is trusted by default.
    /// let request = TestRequest::get("/").header("X-Forwarded-For", "192.0.2.7");
    /// assert_eq!(router.call(request)?.text(), "127.0.0.1");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn client_ip(&self) -> Option<IpAddr> {
        let info = forwarded_info(self, &self.0.context.proxies);
        info.client.or_else(|| self.peer().ip().map(|ip| ip.to_canonical()))
    }

    /// Returns true if the request seems to be passed on for another client, who may be anywhere:
    /// the peer is a trusted proxy, or a header that proxies add is present (`Forwarded`,
    /// `X-Forwarded-…`, `X-Real-IP`, `Via`). A proxy that is not trusted and adds no header is not
    /// detected: a peer on this machine does not prove that the client is.
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    /// async fn is_local(request: Request) -> String {
    ///     let is_here = request.peer().ip().is_none_or(|ip| ip.is_loopback());
    ///     (is_here && !request.is_forwarded()).to_string()
    /// }
    /// let router = Router::new().get("/", is_local);
    /// assert_eq!(router.call(TestRequest::get("/"))?.text(), "true");
    /// assert_eq!(router.call(TestRequest::get("/").header("Via", "1.1 a"))?.text(), "false");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn is_forwarded(&self) -> bool {
        let by_header = |name: &str| {
            ["forwarded", "via", "x-real-ip"].iter().any(|known| name.eq_ignore_ascii_case(known))
                || name.get(..12).is_some_and(|start| start.eq_ignore_ascii_case("x-forwarded-"))
        };
        self.0.context.proxies.trusts_peer(self.peer())
            || self.headers().any(|(name, _)| by_header(name))
    }

    /// Returns `https` or `http`: the one that the client has used, to this server or to a trusted
    /// proxy.
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    /// async fn url(request: Request) -> String {
    ///     format!("{}://{}{}", request.scheme(), request.host(), request.path())
    /// }
    /// let router = Router::new().get("/a", url);
    /// let answer = router.call(TestRequest::get("/a").header("Host", "app.example.org"))?;
    /// assert_eq!(answer.text(), "http://app.example.org/a");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn scheme(&self) -> &str {
        match forwarded_info(self, &self.0.context.proxies).scheme {
            Some(scheme) if scheme.eq_ignore_ascii_case("https") => "https",
            Some(_) => "http",
            None if self.is_encrypted() => "https",
            None => "http",
        }
    }

    /// Returns the host that the client has requested, with its port if it has one, as a trusted
    /// proxy reports it. It is empty for a client of HTTP/1.0 that names none. A target in absolute
    /// form (`GET http://host/`) has precedence over the `Host` header (RFC 9112, 3.2.2).
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    /// async fn host(request: Request) -> String {
    ///     request.host().to_owned()
    /// }
    /// let router = Router::new().get("/", host);
    /// let answer = router.call(TestRequest::get("/").header("Host", "a.test:8080"))?;
    /// assert_eq!(answer.text(), "a.test:8080");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn host(&self) -> &str {
        let info = forwarded_info(self, &self.0.context.proxies).host;
        info.or_else(|| authority(self.target()))
            .or_else(|| self.header_text("host"))
            .unwrap_or_default()
    }
}

/// Returns the host and port of a target in absolute form. The parser of the head has checked it.
pub(crate) fn authority(target: &str) -> Option<&str> {
    if target.starts_with('/') {
        return None;
    }
    let (_, rest) = target.split_once("://")?;
    rest.split(['/', '?']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_hop_that_is_not_trusted_is_the_client() {
        let proxies = Proxies::named(["10.0.0.0/8", "fd00::/8"]).unwrap();
        for (line, client) in [
            ("for=192.0.2.7", Some("192.0.2.7")),
            ("for=6.6.6.6, for=192.0.2.7;proto=https, for=10.1.1.1", Some("192.0.2.7")),
            ("For=\"[2001:db8::1]:4711\"", Some("2001:db8::1")),
            ("for=6.6.6.6, for=unknown", None),
            ("for=6.6.6.6, for=unknown, for=10.0.0.2", Some("10.0.0.2")),
            ("for=\"_hidden, for=6.6.6.6\"", None),
            ("proto=https", None),
        ] {
            let elements: Vec<&str> = split(line, b',').collect();
            let info = by_standard(&elements, &proxies);
            assert_eq!(info.client, client.map(|text| text.parse().unwrap()), "{line}");
        }
    }
}
