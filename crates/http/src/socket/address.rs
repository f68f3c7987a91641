//! The addresses on which a server listens, and the other end of a connection: network addresses
//! and Unix sockets, as values and as text.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};
use std::path::PathBuf;

/// The prefix of a Unix socket's address.
const UNIX: &str = "unix:";

/// An address on which a server listens. As text: `127.0.0.1:8080`, `unix:/run/service.sock`, and
/// `unix:@service` for a name in the abstract namespace of Linux, which has no file (unix(7)).
///
/// ```
/// use marmota_http::{Address, ToAddresses};
/// let addresses = "unix:/run/service.sock".to_addresses()?;
/// assert_eq!(addresses, [Address::Path("/run/service.sock".into())]);
/// assert_eq!(addresses[0].to_string(), "unix:/run/service.sock");
/// assert_eq!("unix:@service".to_addresses()?, [Address::Abstract("service".into())]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Address {
    /// A port of the network.
    Net(SocketAddr),
    /// A Unix socket at this path. The file is created when the server starts and removed when it
    /// ends.
    Path(PathBuf),
    /// A Unix socket with this abstract name.
    Abstract(String),
}

impl Address {
    /// Returns the network address, or `None` for a Unix socket.
    ///
    /// ```
    /// use marmota_http::Address;
    /// use std::net::SocketAddr;
    /// let port = SocketAddr::from(([127, 0, 0, 1], 8080));
    /// assert_eq!(Address::from(port).net(), Some(port));
    /// assert_eq!(Address::Abstract("service".into()).net(), None);
    /// ```
    pub fn net(&self) -> Option<SocketAddr> {
        match self {
            Self::Net(address) => Some(*address),
            Self::Path(_) | Self::Abstract(_) => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(address) => address.fmt(f),
            Self::Path(path) => write!(f, "{UNIX}{}", path.display()),
            Self::Abstract(name) => write!(f, "{UNIX}@{name}"),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Net(address)
    }
}

/// A value that names one or more addresses to listen on: everything that the standard library's
/// [`ToSocketAddrs`] accepts, texts that begin with `unix:`, and [`Address`].
///
/// ```
/// use marmota_http::{Router, Server};
/// let by_text = Server::bind("127.0.0.1:0")?;
/// let by_pair = Server::bind(("127.0.0.1", 0))?;
/// let by_name = Server::bind("unix:@marmota-example")?;
/// # Ok::<(), marmota_http::ServerError>(())
/// ```
pub trait ToAddresses {
    /// Returns the addresses. A server uses the first one that it can open.
    ///
    /// ```
    /// use marmota_http::ToAddresses;
    /// assert_eq!("127.0.0.1:80".to_addresses()?[0].to_string(), "127.0.0.1:80");
    /// assert!("unix:".to_addresses().is_err(), "without a path");
    /// assert!("127.0.0.1".to_addresses().is_err(), "without a port");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// It names no address, or the name of a host cannot be looked up.
    fn to_addresses(&self) -> io::Result<Vec<Address>>;
}

impl ToAddresses for str {
    fn to_addresses(&self) -> io::Result<Vec<Address>> {
        let Some(name) = self.strip_prefix(UNIX) else { return of_net(self) };
        let address = match name.strip_prefix('@') {
            Some(name) => Address::Abstract(name.to_owned()),
            None => Address::Path(PathBuf::from(name)),
        };
        if name.trim_start_matches('@').is_empty() {
            let text = "a Unix socket needs a path or an abstract name: unix:/run/service.sock, unix:@service";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(vec![address])
    }
}

impl ToAddresses for String {
    fn to_addresses(&self) -> io::Result<Vec<Address>> {
        self.as_str().to_addresses()
    }
}

impl ToAddresses for Address {
    fn to_addresses(&self) -> io::Result<Vec<Address>> {
        Ok(vec![self.clone()])
    }
}

impl<T: ToAddresses + ?Sized> ToAddresses for &T {
    fn to_addresses(&self) -> io::Result<Vec<Address>> {
        (**self).to_addresses()
    }
}

impl ToAddresses for [SocketAddr] {
    fn to_addresses(&self) -> io::Result<Vec<Address>> {
        Ok(self.iter().copied().map(Address::Net).collect())
    }
}

/// Implements the trait for types of the standard library.
macro_rules! of_the_network {
    ($($kind:ty),+) => {
        $(impl ToAddresses for $kind {
            fn to_addresses(&self) -> io::Result<Vec<Address>> {
                of_net(self)
            }
        })+
    };
}

of_the_network!(
    SocketAddr,
    SocketAddrV4,
    SocketAddrV6,
    (IpAddr, u16),
    (Ipv4Addr, u16),
    (Ipv6Addr, u16),
    (&str, u16)
);

/// Looks up the addresses of a value of the standard library; a host's name may need the network.
fn of_net<T: ToSocketAddrs + ?Sized>(named: &T) -> io::Result<Vec<Address>> {
    Ok(named.to_socket_addrs()?.map(Address::Net).collect())
}

/// The other end of a connection: the client, or the last proxy before the server.
///
/// ```
/// use marmota_http::{Peer, Request, Router, TestRequest};
/// async fn greet(request: Request) -> String {
///     format!("hello {}", request.peer())
/// }
/// let router = Router::new().get("/", greet);
/// let local = router.call(TestRequest::get("/").peer(Peer::Unix))?;
/// assert_eq!(local.text(), "hello unix:");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Peer {
    /// A host and its port.
    Net(SocketAddr),
    /// A process on this machine, over a Unix socket. The permissions of the socket's file decide
    /// which users can connect ([`Server::socket_mode`](crate::Server::socket_mode)).
    Unix,
}

impl Peer {
    /// Returns the address of the host, or `None` over a Unix socket.
    ///
    /// ```
    /// use marmota_http::Peer;
    /// let peer = Peer::Net("192.0.2.7:4711".parse()?);
    /// assert_eq!(peer.ip(), Some("192.0.2.7".parse()?));
    /// assert_eq!(Peer::Unix.ip(), None);
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn ip(self) -> Option<IpAddr> {
        self.net().map(|address| address.ip())
    }

    /// Returns the host and its port, or `None` over a Unix socket.
    ///
    /// ```
    /// use marmota_http::Peer;
    /// let address = "[2001:db8::1]:4711".parse()?;
    /// assert_eq!(Peer::Net(address).net(), Some(address));
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn net(self) -> Option<SocketAddr> {
        match self {
            Self::Net(address) => Some(address),
            Self::Unix => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(address) => address.fmt(f),
            Self::Unix => f.write_str("unix:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_in_the_same_words() {
        for text in ["127.0.0.1:80", "[::1]:8080", "unix:/run/a.sock", "unix:a.sock", "unix:@a"] {
            let addresses = text.to_addresses().unwrap();
            assert_eq!(addresses.len(), 1);
            assert_eq!(addresses[0].to_string(), text);
        }
        for text in ["unix:", "unix:@", "127.0.0.1", ""] {
            assert!(text.to_addresses().is_err(), "{text:?}");
        }
    }
}
