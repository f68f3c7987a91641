//! For whom a request is, as its peer or a trusted proxy says: the `X-Forwarded-` headers or
//! `Forwarded` (RFC 7239), one of them, taken only from trusted peers.

use std::net::IpAddr;

use crate::message::request::Request;
use crate::socket::proxies::{ForwardedHeader, Proxies};

/// For whom a proxy says that it asks; what it does not say is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ForwardedInfo<'a> {
    client: Option<IpAddr>,
    scheme: Option<&'a str>,
    host: Option<&'a str>,
}

/// What is said by the last proxy that is trusted and no further: a client can write what it
/// likes before that.
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
        // A hop that is not understood hides those before it.
        let Some(ip) = address(hop.trim()) else { break };
        info.client = Some(ip);
        if !proxies.trusts(ip) {
            break;
        }
    }
    info
}

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
        // What stands further to the left was said by the one that is named here.
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

fn lines<'a>(request: &'a Request, name: &'static str) -> impl Iterator<Item = &'a str> {
    let named = request.headers().filter(move |(key, _)| key.eq_ignore_ascii_case(name));
    named.filter_map(|(_, value)| std::str::from_utf8(value).ok())
}

fn last<'a>(request: &'a Request, name: &'static str) -> Option<&'a str> {
    let line = lines(request, name).last()?;
    line.rsplit(',').next().map(str::trim).filter(|text| !text.is_empty())
}

/// The parts of a text between separators that are not in quotes.
fn split(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |letter: char| {
        quoted ^= letter == '"';
        !quoted && letter == separator as char
    })
}

/// An address, with a port or without: `192.0.2.7:80`, `[::1]:80`, `[::1]`, `::1`.
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
    /// Whose request it is: the connection's other end or, where that is a proxy the server trusts
    /// ([`crate::Server::trusted_proxies`]), the client it names by the header that is trusted
    /// ([`crate::Server::forwarded_header`]). None on a Unix socket whose other end names nobody.
    pub fn client_ip(&self) -> Option<IpAddr> {
        let info = forwarded_info(self, &self.0.context.proxies);
        info.client.or_else(|| self.peer().ip().map(|ip| ip.to_canonical()))
    }

    /// Whether it seems to be passed on for somebody else, who may be anywhere: its peer is a trusted
    /// proxy, or it bears a header that proxies add (`Forwarded`, `X-Forwarded-…`, `X-Real-IP`, `Via`).
    /// A proxy that is not trusted and adds none is not seen: that a peer is on this machine says
    /// little about who asks.
    ///
    /// ```
    /// # fn admits(request: &marmota_http::Request) -> bool {
    /// !request.is_forwarded() && request.peer().ip().is_none_or(|ip| ip.is_loopback())
    /// # }
    /// ```
    pub fn is_forwarded(&self) -> bool {
        let by_header = |name: &str| {
            ["forwarded", "via", "x-real-ip"].iter().any(|known| name.eq_ignore_ascii_case(known))
                || name.get(..12).is_some_and(|start| start.eq_ignore_ascii_case("x-forwarded-"))
        };
        self.0.context.proxies.trusts_peer(self.peer())
            || self.headers().any(|(name, _)| by_header(name))
    }

    /// `https` or `http`: by which the client has come, also to a trusted proxy.
    pub fn scheme(&self) -> &str {
        match forwarded_info(self, &self.0.context.proxies).scheme {
            Some(scheme) if scheme.eq_ignore_ascii_case("https") => "https",
            Some(_) => "http",
            None if self.is_encrypted() => "https",
            None => "http",
        }
    }

    /// The host the client has asked for, with the port if it named one, also of a trusted proxy;
    /// empty for a client of HTTP/1.0 that names none. A target in absolute form
    /// (`GET http://host/`) counts, not the `Host` header beside it (RFC 9112 3.2.2).
    pub fn host(&self) -> &str {
        let info = forwarded_info(self, &self.0.context.proxies).host;
        info.or_else(|| authority(self.target()))
            .or_else(|| self.header_text("host"))
            .unwrap_or_default()
    }
}

/// The host and port of a target in absolute form, which the head's parser has checked.
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
