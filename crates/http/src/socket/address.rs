//! Where a server listens, and who is at the other end of a connection: network addresses and
//! Unix sockets, as values and in words.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};
use std::path::PathBuf;

/// What an address of a Unix socket begins with.
const UNIX: &str = "unix:";

/// Where a server listens. In words: `127.0.0.1:8080`, `unix:/run/service.sock`, and
/// `unix:@service` for a name in Linux' abstract namespace, which has no file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Address {
    /// A port of the network.
    Net(SocketAddr),
    /// A Unix socket at this path.
    Path(PathBuf),
    /// A Unix socket of this abstract name.
    Abstract(String),
}

impl Address {
    /// The network address, if it is one.
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

/// What names one or more addresses to listen on: all that the standard library's
/// `ToSocketAddrs` takes, texts that begin with `unix:`, and [`Address`].
pub trait ToAddresses {
    /// The addresses, of which the first that can be used is.
    ///
    /// # Errors
    /// When it names none, or a host's name cannot be looked up.
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

fn of_net<T: ToSocketAddrs + ?Sized>(named: &T) -> io::Result<Vec<Address>> {
    Ok(named.to_socket_addrs()?.map(Address::Net).collect())
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Peer {
    /// A host and its port.
    Net(SocketAddr),
    /// A process on this machine, by a Unix socket.
    Unix,
}

impl Peer {
    /// The host's address; none on a Unix socket.
    pub fn ip(self) -> Option<IpAddr> {
        self.net().map(|address| address.ip())
    }

    /// The host and its port; none on a Unix socket.
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
