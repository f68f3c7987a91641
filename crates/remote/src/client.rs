//! The client: an engine whose database is a store in another process.

mod departure;
mod departures;
mod engine;
mod engine_state;
mod greeted_connection;
mod reply;
mod session;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

#[cfg(doc)]
use marmota_model::ErrorKind;
use marmota_model::Result;
use marmota_rpc::{Connector, Credential, ServerAddress};
use marmota_store::engine::Capability;
use parking_lot::{Condvar, Mutex, RwLock};

use crate::Service;
use engine_state::{EngineState, Target};

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
    pub(crate) state: Arc<EngineState>,
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
        let address = ServerAddress::parse(url)?;
        Ok(Self::new(address.transport_name(), Target::server(address)))
    }

    /// Creates an engine for a service of the same process, through the same protocol.
    pub fn in_process(service: &Service) -> Self {
        Self::new("in-process", Target::Service(Arc::clone(&service.0)))
    }

    fn new(name: &'static str, target: Target) -> Self {
        Self {
            opening: Capability::new(name, true).of_client(name),
            state: Arc::new(EngineState {
                name,
                declared: OnceLock::new(),
                target,
                local_address: None,
                credential: Credential::default(),
                deadline: Duration::from_secs(30),
                reconnect_timeout: Duration::from_secs(2),
                tables: RwLock::default(),
                spare: Mutex::default(),
                closed: AtomicBool::new(false),
                transactions: Mutex::new(0),
                ended: Condvar::new(),
                departures: departures::Departures::default(),
                connect_threads: Arc::default(),
            }),
        }
    }

    fn with(mut self, change: impl FnOnce(&mut EngineState)) -> Self {
        // There is no other reference before a store is opened.
        if let Some(state) = Arc::get_mut(&mut self.state) {
            change(state);
        }
        self
    }

    fn with_connector(self, change: impl FnOnce(&mut Connector)) -> Self {
        self.with(|state| {
            if let Target::Server(connector) = &mut state.target {
                change(connector);
            }
        })
    }

    /// Sets the credential that authenticates the client ([`Service::admit`]): a token of up to 8
    /// KiB.
    pub fn credential(self, credential: impl Into<Vec<u8>>) -> Self {
        let credential = Credential::new(credential);
        let sent = credential.clone();
        self.with(|state| state.credential = credential)
            .with_connector(|connector| connector.credential = sent)
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
        self.with(|state| state.local_address = Some(local))
            .with_connector(|connector| connector.local_address = Some(local))
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
        self.with_connector(|connector| connector.ca_file = Some(file))
    }

    /// Sets the time limit of an operation, after which the server cancels it, too. Default: 30 s.
    pub fn deadline(self, deadline: Duration) -> Self {
        self.with(|state| state.deadline = deadline)
    }

    /// Sets how long a client tries to reconnect, with growing pauses. Default: 2 s. The first
    /// connection is not retried.
    pub fn reconnect_timeout(self, reconnect_timeout: Duration) -> Self {
        self.with(|state| state.reconnect_timeout = reconnect_timeout)
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Remote({:?})", self.state.target)
    }
}
