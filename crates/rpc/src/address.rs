//! Addresses of servers, which are URLs: the transport, the host or path, and the prefix of routes.

use std::fmt;

use marmota_model::{Error, ErrorKind, Result};

/// The prefix of routes if a URL has none.
const PREFIX: &str = "/api";

/// The address of a server.
///
/// It is `unix:PATH` (`unix:@NAME` in the abstract namespace), `http://HOST:PORT/PREFIX`, or
/// `ws://HOST:PORT/PREFIX` for networks that pass only WebSockets; with TLS `https://…` and
/// `wss://…`. Default of the prefix: `/api`. A Unix socket's path may end with `#` and the prefix.
///
/// ```
/// use marmota_rpc::ServerAddress;
/// let address = ServerAddress::parse("https://db.example.org/people")?;
/// assert_eq!(format!("{address:?}"), "https://db.example.org:443");
/// assert_eq!(address.path("/-/operations"), "/people/-/operations");
/// assert_eq!(address.transport_name(), "http");
/// assert!(ServerAddress::parse("ftp://example.org").is_err());
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ServerAddress {
    pub(crate) endpoint: SocketEndpoint,
    prefix: String,
}

/// The socket of a server and the transport on it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum SocketEndpoint {
    /// The path of a Unix socket, or `@` and a name in the abstract namespace.
    Unix(String),
    Tcp(Host),
    /// A WebSocket over TCP.
    WebSocket(Host),
}

/// A server on the network.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// The name with the port.
    pub(crate) name: String,
    /// True if it uses TLS.
    pub(crate) is_secure: bool,
}

impl ServerAddress {
    /// Parses a URL.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the URL has an unknown scheme; the message lists the supported
    /// ones.
    pub fn parse(url: &str) -> Result<Self> {
        let refused = |rest: &str| {
            let message = format!(
                "{:?} is not the URL of a server{rest}; use unix:PATH, http://HOST:PORT/api, \
                 ws://HOST:PORT/api, or https: and wss: for TLS",
                marmota_model::text::excerpt(url)
            );
            Error::new(ErrorKind::Invalid, message)
        };
        let (scheme, rest) = url.split_once(':').ok_or_else(|| refused(""))?;
        let (endpoint, prefix) = match (scheme, rest.strip_prefix("//")) {
            ("unix", _) => {
                let (path, prefix) = rest.split_once('#').unwrap_or((rest, PREFIX));
                (SocketEndpoint::Unix(path.to_owned()), prefix)
            }
            ("https" | "wss", _) if cfg!(not(feature = "tls")) => {
                return Err(refused(": this build does not support TLS (the feature `tls`)"));
            }
            ("http" | "https", Some(rest)) => {
                let (host, prefix) = host_of(rest, scheme == "https");
                (SocketEndpoint::Tcp(host), prefix)
            }
            ("ws" | "wss", Some(rest)) => {
                let (host, prefix) = host_of(rest, scheme == "wss");
                (SocketEndpoint::WebSocket(host), prefix)
            }
            _ => return Err(refused("")),
        };
        let is_path = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let (SocketEndpoint::Unix(name)
        | SocketEndpoint::Tcp(Host { name, .. })
        | SocketEndpoint::WebSocket(Host { name, .. })) = &endpoint;
        if name.is_empty() || name.starts_with(':') || !is_path(prefix) {
            return Err(refused(""));
        }
        Ok(Self { endpoint, prefix: prefix.to_owned() })
    }

    /// Returns the name of the transport: `unix`, `http` or `websocket`.
    #[must_use]
    pub const fn transport_name(&self) -> &'static str {
        match self.endpoint {
            SocketEndpoint::Unix(_) => "unix",
            SocketEndpoint::Tcp(_) => "http",
            SocketEndpoint::WebSocket(_) => "websocket",
        }
    }

    /// Returns true for a Unix socket.
    #[must_use]
    pub const fn is_unix(&self) -> bool {
        matches!(self.endpoint, SocketEndpoint::Unix(_))
    }

    /// Returns the path of a route: the prefix of the address, then `route`.
    #[must_use]
    pub fn path(&self, route: &str) -> String {
        format!("{}{route}", self.prefix.trim_end_matches('/'))
    }
}

/// Splits the part of a URL after `//` into the host, with a port, and the prefix.
fn host_of(rest: &str, is_secure: bool) -> (Host, &str) {
    let (host, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let port = if is_secure { 443 } else { 80 };
    let name = if has_port { host.to_owned() } else { format!("{host}:{port}") };
    (Host { name, is_secure }, if prefix.is_empty() { PREFIX } else { prefix })
}

impl fmt::Debug for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            SocketEndpoint::Unix(name) => write!(f, "unix:{name}"),
            SocketEndpoint::Tcp(Host { name, is_secure: false }) => write!(f, "http://{name}"),
            SocketEndpoint::Tcp(Host { name, is_secure: true }) => write!(f, "https://{name}"),
            SocketEndpoint::WebSocket(Host { name, is_secure: false }) => write!(f, "ws://{name}"),
            SocketEndpoint::WebSocket(Host { name, is_secure: true }) => write!(f, "wss://{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_ports_and_prefixes() {
        for (url, shown, path, name) in [
            ("unix:/run/a.sock", "unix:/run/a.sock", "/api/x", "unix"),
            ("unix:@a#/b/", "unix:@a", "/b/x", "unix"),
            ("http://a", "http://a:80", "/api/x", "http"),
            ("http://[::1]:8080/", "http://[::1]:8080", "/x", "http"),
            ("ws://a:1/b/c", "ws://a:1", "/b/c/x", "websocket"),
        ] {
            let address = ServerAddress::parse(url).unwrap();
            assert_eq!(format!("{address:?}"), shown);
            assert_eq!((&*address.path("/x"), address.transport_name()), (path, name));
        }
    }

    #[test]
    fn other_urls_are_refused() {
        for url in ["unix:", "http://", "http://:80", "ftp://a", "http://a/b c", "ws:a", "a"] {
            let error = ServerAddress::parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
        }
    }
}
