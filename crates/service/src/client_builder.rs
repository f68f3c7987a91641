//! Connecting a client, and reconnecting when a connection breaks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result};
use marmota_rpc::{Connector, Credential, ServerAddress};

use crate::client::Client;
use crate::peer::{PATH, Peer, UPGRADE};
use crate::services::Services;
use crate::services::peer_calls::PeerCalls;

mod connections;

use connections::Connections;

/// A builder for a connection to remote services.
///
/// The connection reconnects automatically when it breaks, with pauses that grow from 10 ms to 2 s
/// and differ from client to client. A call that was already sent fails with [`ErrorKind::Lost`]:
/// it may have been executed, and is repeated only if its method is `#[idempotent]`. A call that
/// was not sent yet waits for the next connection, at most for the time of [`Client::deadline`],
/// and then fails with [`ErrorKind::Refused`]: it was not executed. If the server answers but
/// rejects this client, calls fail at once with the server's error ([`ErrorKind::Denied`] for
/// instance). A stub with a separate instance ([`crate::Lifetime::Stub`]) loses it with the
/// connection, and returns an error.
///
/// ```no_run
/// use std::time::Duration;
/// use marmota_service::Client;
///
/// let connection = Client::builder("unix:/run/app.sock").token("secret");
/// let client = connection.reconnect_for(Duration::from_secs(60)).connect()?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder {
    url: String,
    token: String,
    offered: Services,
    ca_file: Option<PathBuf>,
    reconnect_for: Option<Duration>,
}

impl Client {
    /// Returns a builder for a connection to services at a URL: `unix:/run/app.sock` (`unix:@name`
    /// in the abstract namespace; a prefix follows a `#`), `http://host:port/api`,
    /// `ws://host:port/api`, and over TLS `https://host:port/api`, `wss://host:port/api`.
    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder::to(url)
    }

    /// Connects to services at a URL as for [`Client::builder`]. The connection carries many
    /// concurrent calls, reconnects automatically when it breaks ([`ClientBuilder`]), and ends when
    /// its last stub and client are dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if no server listens there, [`ErrorKind::Unauthenticated`] and
    /// [`ErrorKind::Denied`] if the server requires a login or other rights.
    pub fn connect(url: &str) -> Result<Self> {
        Self::builder(url).connect()
    }

    /// Connects as [`Client::connect`], with the caller's token (empty for none) and services that
    /// the server may call back ([`crate::Call::client`]).
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_as(url: &str, token: &str, offered: &Services) -> Result<Self> {
        Self::builder(url).token(token).callbacks(offered).connect()
    }
}

impl ClientBuilder {
    fn to(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            token: String::new(),
            offered: Services::new(),
            ca_file: None,
            reconnect_for: None,
        }
    }

    /// Sets the caller's credential: the token of a login, or a key.
    pub fn token(mut self, token: &str) -> Self {
        token.clone_into(&mut self.token);
        self
    }

    /// Sets the services that the server may call back ([`crate::Call::client`]).
    pub fn callbacks(mut self, offered: &Services) -> Self {
        self.offered = offered.clone();
        self
    }

    /// Sets a PEM file with the CA certificates to trust for `https://` and `wss://`, instead of
    /// the system's CA store.
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(file.into());
        self
    }

    /// Sets how long the client tries to reconnect. Default: forever. After that time the
    /// connection has ended, and calls are refused.
    pub const fn reconnect_for(mut self, time: Duration) -> Self {
        self.reconnect_for = Some(time);
        self
    }

    /// Connects.
    ///
    /// # Errors
    /// As for [`Client::connect`]. The first connection is not retried.
    pub fn connect(self) -> Result<Client> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(|error| {
            let message = format!("the system returned no random numbers: {error}");
            Error::new(ErrorKind::Io, message)
        })?;
        let secret = format!("{:032x}", u128::from_le_bytes(secret));
        let hello =
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"-.client\",\"params\":[\"{secret}\"]}}");
        let peer = Peer::lasting();
        let settings = Arc::clone(&self.offered.0);
        let calls = move |peer: &Peer| {
            let mut origin = settings.origin();
            origin.back = Some(Client::of_peer(peer));
            // Instances owned by the server's stubs here are released when the connection ends.
            origin.owned = Some(Arc::default());
            PeerCalls::new(peer.clone(), Arc::clone(&settings), origin)
        };
        let address = ServerAddress::parse(&self.url)?;
        let mut connector = Connector::new(address, PATH, UPGRADE, "services are not served");
        connector.credential = Credential::new(self.token);
        connector.ca_file = self.ca_file;
        let hello = hello.into_bytes();
        let connections = Connections { connector, hello, reconnect_for: self.reconnect_for };
        connections.keep(&peer, calls)?;
        Ok(Client::holding(peer))
    }
}

impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClientBuilder({})", self.url)
    }
}
