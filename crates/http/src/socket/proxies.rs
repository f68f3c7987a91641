//! The peers that may name the client of a request: trusted proxies, and the header they use.
//!
//! [`crate::message::forwarded`] reads the headers by these rules.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::socket::address::Peer;

/// The header by which trusted proxies name the client
/// ([`Server::forwarded_header`](crate::Server::forwarded_header)).
///
/// It is one of them, never a mixture: a proxy that sets one of them passes on the other as the
/// client has written it, so it would let the client forge its address.
///
/// ```
/// use marmota_http::{ForwardedHeader, Server};
/// let server = Server::bind("127.0.0.1:0")?
///     .trusted_proxies(["10.0.0.0/8"])
///     .forwarded_header(ForwardedHeader::Forwarded);
/// assert_eq!(ForwardedHeader::default(), ForwardedHeader::XForwarded);
/// # Ok::<(), marmota_http::ServerError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`, with `X-Forwarded-Proto` and `X-Forwarded-Host`: the headers of nginx,
    /// HAProxy, Apache, Caddy, Traefik and the load balancers of clouds. The default. The proxy
    /// must set all three, or remove those that it does not set.
    #[default]
    XForwarded,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// The peers that are trusted to name the client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proxies {
    /// The header that they use.
    pub(crate) header: ForwardedHeader,
    /// Networks; an address is a network of one.
    nets: Vec<IpNet>,
    /// Each process that connects by a Unix socket.
    unix: bool,
}

/// The name of a trusted proxy that is not an address, a network or `unix`. The error contains the
/// name. [`Server::start`](crate::Server::start) returns it as a
/// [`ServerError`](crate::ServerError).
///
/// ```
/// use marmota_http::{Router, Server};
/// let server = Server::bind("127.0.0.1:0")?.trusted_proxies(["proxy.example.org"]);
/// let error = server.start(Router::new()).unwrap_err();
/// assert!(error.to_string().contains("\"proxy.example.org\""));
/// # Ok::<(), marmota_http::ServerError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyError {
    /// The name, as it was given.
    named: String,
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "trusted proxy {:?} is not valid: use an address (10.0.0.7), a network (10.0.0.0/8, \
             fd00::/8) or unix",
            self.named
        )
    }
}

impl std::error::Error for ProxyError {}

impl Proxies {
    /// Parses the names of proxies.
    ///
    /// # Errors
    /// The first name that is not understood.
    pub(crate) fn named<N: AsRef<str>>(
        names: impl IntoIterator<Item = N>,
    ) -> Result<Self, ProxyError> {
        let mut proxies = Self::default();
        for name in names {
            let name = name.as_ref();
            match (name.parse::<IpNet>(), name.parse::<IpAddr>()) {
                (Ok(net), _) => proxies.nets.push(net),
                (_, Ok(address)) => proxies.nets.push(address.into()),
                _ if name == "unix" => proxies.unix = true,
                _ => return Err(ProxyError { named: name.to_owned() }),
            }
        }
        Ok(proxies)
    }

    /// Returns true if the other end of a connection is trusted.
    pub(crate) fn trusts_peer(&self, peer: Peer) -> bool {
        match peer {
            Peer::Net(address) => self.trusts(address.ip()),
            Peer::Unix => self.unix,
        }
    }

    /// Returns true if a host is trusted. An IPv4 address in IPv6 form (`::ffff:127.0.0.1`) is the
    /// IPv4 address.
    pub(crate) fn trusts(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.nets.iter().any(|net| net.contains(&ip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_named_by_address_network_or_socket() {
        let proxies = Proxies::named(["127.0.0.1", "fd00::/8", "unix"]).unwrap();
        assert!(proxies.trusts_peer(Peer::Unix));
        assert!(proxies.trusts_peer(Peer::Net("127.0.0.1:80".parse().unwrap())));
        assert!(proxies.trusts_peer(Peer::Net("[::ffff:127.0.0.1]:80".parse().unwrap())));
        assert!(!proxies.trusts_peer(Peer::Net("127.0.0.2:80".parse().unwrap())));
        let error = Proxies::named(["localhost"]).unwrap_err().to_string();
        assert!(error.contains("localhost") && error.contains("10.0.0.0/8"), "{error}");
    }
}
