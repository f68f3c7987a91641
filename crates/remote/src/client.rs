//! The client's side: an engine whose database is a store in another process.

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

/// A store somewhere else, as an engine: what is opened on it has the same
/// verbs as the store there, and the same answers.
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
/// Errors tell apart what became of an operation: [`ErrorKind::Refused`] (no
/// server took it), [`ErrorKind::Denied`], [`ErrorKind::Timeout`], and
/// [`ErrorKind::Lost`] (the connection broke before the answer; a write may
/// have taken place). Reads, and batches with an idempotency key, are sent
/// again by themselves where a connection breaks.
#[must_use]
pub struct Remote {
    /// What is assumed until the server has declared what it guarantees.
    pub(crate) opening: Capability,
    pub(crate) connector: Arc<Connector>,
}

impl Remote {
    /// The server at a URL: `unix:/run/people.sock` (`unix:@name` in the
    /// abstract namespace), `http://host:port/api`, and `ws://host:port/api` where
    /// something on the way knows WebSockets alone; `https://` and `wss://` by TLS, to a server for
    /// whose certificate somebody vouches that this machine believes ([`Remote::ca_file`]). Behind a `#` of a Unix socket's path stands
    /// the prefix, where that is not `/api`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL of no transport, naming those there are.
    pub fn from_url(url: &str) -> Result<Self> {
        let (name, address, prefix) = parse(url)?;
        let path = format!("{}/-/operations", prefix.trim_end_matches('/'));
        Ok(Self::new(name, Target::Socket { address, path }))
    }

    /// A service of the same process, reached through the same bytes.
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
        // Nobody else has it before a store is opened.
        if let Some(connector) = Arc::get_mut(&mut self.connector) {
            change(connector);
        }
        self
    }

    /// Shows the server who this is ([`Service::admit`]): a token of up to
    /// 8 KiB.
    pub fn credential(self, credential: impl Into<Vec<u8>>) -> Self {
        let credential = credential.into();
        self.with(|connector| connector.credential = credential)
    }

    /// The address of this machine that connections come from; the system chooses one if never
    /// set. Between two addresses there are some 28,000 connections at once, one for each port
    /// that the system gives.
    ///
    /// ```no_run
    /// use marmota_remote::Remote;
    /// let remote = Remote::from_url("http://127.0.0.1:8080/api")?;
    /// let remote = remote.local_address("127.0.0.2".parse().unwrap());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// Only a host's URL has such connections: with another, opening the store fails with
    /// [`ErrorKind::Invalid`].
    pub fn local_address(self, local: IpAddr) -> Self {
        self.with(|connector| connector.local = Some(local))
    }

    /// A file of certificates (PEM) of those who vouch for servers that speak TLS, instead of
    /// those that this machine believes. It is read for each connection.
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

    /// How long an operation may take, 30 s by default. The server gives it up
    /// then as well.
    pub fn deadline(self, deadline: Duration) -> Self {
        self.with(|connector| connector.deadline = deadline)
    }

    /// How long a server is sought that has gone, 2 s by default: with pauses
    /// that grow. One that was never there is not sought.
    pub fn reconnect_timeout(self, reconnect_timeout: Duration) -> Self {
        self.with(|connector| connector.reconnect_timeout = reconnect_timeout)
    }
}

/// The transport, address and prefix of a URL.
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

/// The host, with a port, and the prefix of what stands behind a URL's `//`.
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
