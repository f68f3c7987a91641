//! Which peers may speak for others: trusted proxies, and the header by which they say so.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::socket::address::Peer;

/// The header by which trusted proxies name the client; see [`crate::Server::forwarded_header`].
///
/// It is one and never a mixture: a proxy that sets one of them passes the other on as the client
/// has written it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`, with `X-Forwarded-Proto` and `X-Forwarded-Host`: what nginx, HAProxy,
    /// Apache, Caddy, Traefik and the balancers of clouds set. The default. The proxy must set all
    /// three, or remove those that it does not set.
    #[default]
    XForwarded,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// Peers that are trusted to say for whom they ask.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proxies {
    /// By which header.
    pub(crate) header: ForwardedHeader,
    nets: Vec<IpNet>,
    /// Whoever connects by a Unix socket.
    unix: bool,
}

/// A trusted proxy that is named in no way that is understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyError {
    named: String,
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "trusted proxy {:?}: say an address (10.0.0.7), a network (10.0.0.0/8, fd00::/8) or unix",
            self.named
        )
    }
}

impl std::error::Error for ProxyError {}

impl Proxies {
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

    pub(crate) fn trusts_peer(&self, peer: Peer) -> bool {
        match peer {
            Peer::Net(address) => self.trusts(address.ip()),
            Peer::Unix => self.unix,
        }
    }

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
