//! Connecting to a server: the transport, the upgrade of the connection, and the first packet.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};

use crate::address::{Host, ServerAddress, SocketEndpoint};
use crate::connection::Connection;
use crate::credential::Credential;
use crate::transport::Transport;
use crate::transport::blocking::BlockingStream;
use crate::transport::dial::{connect_tcp, connect_unix};
use crate::transport::socket::Socket;
#[cfg(feature = "tls")]
use crate::transport::tls::TlsStream;
use crate::transport::web_socket::WebSocketTransport;
use crate::upgrade_request::UpgradeRequest;

/// The parameters for connecting to a server.
#[derive(Clone)]
pub struct Connector {
    address: ServerAddress,
    path: String,
    protocol: &'static str,
    not_served: &'static str,
    /// The client's credential, which the request for the upgrade carries. Default: none.
    pub credential: Credential,
    /// The local address of TCP connections. Default: chosen by the system.
    pub local_address: Option<IpAddr>,
    /// A PEM file with the CA certificates to trust, which is read for each connection. Default:
    /// the system's CA store.
    pub ca_file: Option<PathBuf>,
}

impl Connector {
    /// Creates the parameters for a protocol that is served under the address's prefix and `route`.
    /// `not_served` begins the error if it is not: `no store is served`.
    pub fn new(
        address: ServerAddress,
        route: &str,
        protocol: &'static str,
        not_served: &'static str,
    ) -> Self {
        let path = address.path(route);
        let (local_address, ca_file) = (None, None);
        let credential = Credential::default();
        Self { address, path, protocol, not_served, credential, local_address, ca_file }
    }

    /// Returns the address of the server.
    #[must_use]
    pub const fn address(&self) -> &ServerAddress {
        &self.address
    }

    /// Connects, upgrades to the protocol and sends a first packet, together with the request if
    /// possible. Blocks for looking up a name, connecting and the upgrade.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if no server listens there, [`ErrorKind::Denied`],
    /// [`ErrorKind::Protocol`] if the protocol is not served, [`ErrorKind::Timeout`],
    /// [`ErrorKind::Invalid`] if a local address is set for a Unix socket.
    pub fn connect(&self, first: &[u8], within: Duration) -> Result<Connection> {
        let until = Instant::now() + within;
        let request = UpgradeRequest {
            protocol: self.protocol,
            path: &self.path,
            not_served: self.not_served,
            credential: &self.credential,
        };
        match &self.address.endpoint {
            SocketEndpoint::Unix(_) if self.local_address.is_some() => {
                Err(no_local_address(&self.address))
            }
            SocketEndpoint::Unix(name) => {
                let mut stream = connect_unix(name)?;
                let received = request.send(&mut stream, "localhost", first, until)?;
                stream.set_nonblocking(true)?;
                Ok(Connection::new(Box::new(Socket::new(stream.into())), received))
            }
            SocketEndpoint::Tcp(host) => {
                let upgraded = self
                    .upgraded(host, until, |stream| request.send(stream, &host.name, first, until));
                upgraded.map(|(transport, received)| Connection::new(transport, received))
            }
            SocketEndpoint::WebSocket(host) => {
                let (transport, received) = self.upgraded(host, until, |stream| {
                    request.send_for_web_socket(stream, &host.name, until)
                })?;
                let mut transport = WebSocketTransport::new(transport, received);
                // It is smaller than the system's buffers, which are empty.
                if transport.send(first)? < first.len() {
                    let message =
                        format!("the server at {} did not accept the greeting", host.name);
                    return Err(Error::new(ErrorKind::Timeout, message));
                }
                Ok(Connection::new(Box::new(transport), Vec::new()))
            }
        }
    }

    /// Connects by TCP, with TLS if the host uses it; `upgrade` runs on the blocking socket.
    fn upgraded(
        &self,
        host: &Host,
        until: Instant,
        upgrade: impl FnOnce(&mut dyn BlockingStream) -> Result<Vec<u8>>,
    ) -> Result<(Box<dyn Transport>, Vec<u8>)> {
        let mut stream = connect_tcp(&host.name, self.local_address, until)?;
        #[cfg(feature = "tls")]
        if host.is_secure {
            let mut stream = TlsStream::new(stream, &host.name, self.ca_file.as_deref())?;
            let received = upgrade(&mut stream)?;
            return Ok((Box::new(stream.into_transport()?), received));
        }
        let received = upgrade(&mut stream)?;
        stream.set_nonblocking(true)?;
        Ok((Box::new(Socket::new(stream.into())), received))
    }
}

/// Returns the error for a local address that a transport does not support.
#[cold]
pub fn no_local_address(target: &dyn fmt::Debug) -> Error {
    let message = format!(
        "a local address is set, but {target:?} does not use one; leave the local address out, or \
         use http://HOST:PORT/api or ws://HOST:PORT/api"
    );
    Error::new(ErrorKind::Invalid, message)
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connector({:?}{})", self.address, self.path)
    }
}
