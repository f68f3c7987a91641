//! The client: an engine whose database is a store in another process.

mod channel;
mod connecting;
mod connector;
mod departure;
mod departures;
mod engine;
mod in_process;
mod line;
mod reach;
mod reply;
mod session;
mod socket;
#[cfg(feature = "tls")]
mod tls;
mod web_socket;
mod wire;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::engine::Capability;
use parking_lot::{Condvar, Mutex, RwLock};

use crate::Service;
pub use channel::Channel;
use connector::{Connector, Target};
use reach::{Address, Host};

/// An engine for a store in another process. A store opened on it has the same verbs as the served
/// store, with the same results.
///
/// ```no_run
/// # use marmota_model::{Field, Kind, Role, Schema};
/// use marmota_remote::Remote;
/// use marmota_store::Store;
/// # let schema = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
/// let remote = Remote::from_url("unix:/run/people.sock")?;
/// let store = Store::builder(remote).schema(schema).open()?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
///
/// The kind of an error shows whether an operation was executed: [`ErrorKind::Refused`] (no server
/// accepted it), [`ErrorKind::Denied`], [`ErrorKind::Timeout`], and [`ErrorKind::Lost`] (the
/// connection broke before the answer; a write may have been executed). Reads, and batches with an
/// idempotency key, are resent automatically when a connection breaks.
#[must_use]
pub struct Remote {
    /// The assumed capability until the server has declared its guarantees.
    pub(crate) opening: Capability,
    pub(crate) connector: Arc<Connector>,
}

impl Remote {
    /// Creates an engine for the server at a URL: `unix:/run/people.sock` (`unix:@name` in the
    /// abstract namespace), `http://host:port/api`, or `ws://host:port/api` for networks that pass
    /// only WebSockets; `https://` and `wss://` over TLS, to a server with a certificate of a
    /// trusted CA ([`Remote::ca_file`]). A Unix socket's path may end with `#` and the prefix, if
    /// that is not `/api`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the URL has an unknown scheme; the message lists the supported
    /// ones.
    pub fn from_url(url: &str) -> Result<Self> {
        let (name, address, prefix) = parse(url)?;
        let path = format!("{}/-/operations", prefix.trim_end_matches('/'));
        Ok(Self::new(name, Target::Socket { address, path }))
    }

    /// Creates an engine for a service of the same process, through the same protocol.
    pub fn in_process(service: &Service) -> Self {
        Self::new("in-process", Target::Service(Arc::clone(&service.0)))
    }

    fn new(name: &'static str, target: Target) -> Self {
        Self {
            opening: Capability::new(name, true).of_client(name),
            connector: Arc::new(Connector {
                name,
                declared: OnceLock::new(),
                target,
                local: None,
                ca_file: None,
                credential: Vec::new(),
                deadline: Duration::from_secs(30),
                reconnect_timeout: Duration::from_secs(2),
                tables: RwLock::default(),
                spare: Mutex::default(),
                closed: AtomicBool::new(false),
                transactions: Mutex::new(0),
                ended: Condvar::new(),
                departures: departures::Departures::default(),
                connecting: Arc::default(),
            }),
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Connector)) -> Self {
        // There is no other reference before a store is opened.
        if let Some(connector) = Arc::get_mut(&mut self.connector) {
            change(connector);
        }
        self
    }

    /// Sets the credential that authenticates the client ([`Service::admit`]): a token of up to 8
    /// KiB.
    pub fn credential(self, credential: impl Into<Vec<u8>>) -> Self {
        let credential = credential.into();
        self.with(|connector| connector.credential = credential)
    }

    /// Sets the local address of connections. Default: chosen by the system. Between two addresses
    /// there can be about 28,000 connections at once, one for each ephemeral port.
    ///
    /// ```no_run
    /// use marmota_remote::Remote;
    /// let remote = Remote::from_url("http://127.0.0.1:8080/api")?;
    /// let remote = remote.local_address("127.0.0.2".parse().unwrap());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// Only URLs with a host support this: with others, opening the store fails with
    /// [`ErrorKind::Invalid`].
    pub fn local_address(self, local: IpAddr) -> Self {
        self.with(|connector| connector.local = Some(local))
    }

    /// Sets a PEM file with the CA certificates to trust, instead of the system's CA store. It is
    /// read for each connection.
    ///
    /// ```no_run
    /// use marmota_remote::Remote;
    /// let remote = Remote::from_url("https://db.example.org/api")?.ca_file("ca.pem");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn ca_file(self, file: impl Into<PathBuf>) -> Self {
        let file = file.into();
        self.with(|connector| connector.ca_file = Some(file))
    }

    /// Sets the time limit of an operation, after which the server cancels it, too. Default: 30 s.
    pub fn deadline(self, deadline: Duration) -> Self {
        self.with(|connector| connector.deadline = deadline)
    }

    /// Sets how long a client tries to reconnect, with growing pauses. Default: 2 s. The first
    /// connection is not retried.
    pub fn reconnect_timeout(self, reconnect_timeout: Duration) -> Self {
        self.with(|connector| connector.reconnect_timeout = reconnect_timeout)
    }
}

/// Returns the transport, address and prefix of a URL.
fn parse(url: &str) -> Result<(&'static str, Address, &str)> {
    let refused = |rest: &str| {
        let message = format!(
            "{:?} is the URL of no server{rest}; use unix:PATH, http://HOST:PORT/api, \
             ws://HOST:PORT/api, or https: and wss: with the same",
            marmota_model::text::excerpt(url)
        );
        Error::new(ErrorKind::Invalid, message)
    };
    let (scheme, rest) = url.split_once(':').ok_or_else(|| refused(""))?;
    let (name, address, prefix) = match (scheme, rest.strip_prefix("//")) {
        ("unix", _) => {
            let (path, prefix) = rest.split_once('#').unwrap_or((rest, "/api"));
            ("unix", Address::Unix(path.to_owned()), prefix)
        }
        ("https" | "wss", _) if cfg!(not(feature = "tls")) => {
            return Err(refused(": this build has no TLS (the feature `tls`)"));
        }
        ("http" | "https", Some(rest)) => {
            let (host, prefix) = host_of(rest, scheme == "https");
            ("http", Address::Net(host), prefix)
        }
        ("ws" | "wss", Some(rest)) => {
            let (host, prefix) = host_of(rest, scheme == "wss");
            ("websocket", Address::WebSocket(host), prefix)
        }
        _ => return Err(refused("")),
    };
    let is_path = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    let (Address::Unix(place)
    | Address::Net(Host { name: place, .. })
    | Address::WebSocket(Host { name: place, .. })) = &address;
    if place.is_empty() || place.starts_with(':') || !is_path(prefix) {
        return Err(refused(""));
    }
    Ok((name, address, prefix))
}

/// Splits the part of a URL after `//` into the host, with a port, and the prefix.
fn host_of(rest: &str, is_secure: bool) -> (Host, &str) {
    let (host, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let port = if is_secure { 443 } else { 80 };
    let name = if has_port { host.to_owned() } else { format!("{host}:{port}") };
    (Host { name, is_secure }, if prefix.is_empty() { "/api" } else { prefix })
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Remote({:?})", self.connector.target)
    }
}
