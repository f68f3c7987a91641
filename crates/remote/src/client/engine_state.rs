//! State shared by all sessions of a remote engine: the server's address, the tables, and idle
//! connections.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_rpc::{
    ConnectAttempt, ConnectThreads, Connection, Connector, Credential, InProcess, ServerAddress,
    Transport, no_local_address, packet,
};
use marmota_store::engine::{Capability, Watch};
use marmota_store::operation::ANSWERS;
use parking_lot::{Condvar, Mutex, RwLock};

use super::departures::Departures;
use super::greeted_connection::GreetedConnection;
use crate::codec::contract::{
    CREDENTIAL_BYTES_MAX, Guarantees, PATH, UPGRADE, hash, put_hello, read_welcome,
};
use crate::codec::operation::HELLO;
use crate::server::peer::Peer;
use crate::server::settings::Settings;

/// The maximum number of idle connections that are kept.
const SPARE_MAX: usize = 16;
/// The time limit of a greeting.
const GREETING_MAX: Duration = Duration::from_secs(5);
/// The maximum size of an answer: the largest limit a server can be set to.
const PACKET_BYTES_MAX: usize = (1 << 30) + (1 << 20);

/// The location of a server.
pub(crate) enum Target {
    Server(Connector),
    Service(Arc<Settings>),
}

impl Target {
    /// Returns the server at an address.
    pub(super) fn server(address: ServerAddress) -> Self {
        Self::Server(Connector::new(address, PATH, UPGRADE, "no store is served"))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(connector) => connector.address().fmt(f),
            Self::Service(_) => f.write_str("the same process"),
        }
    }
}

/// The state shared by all sessions of a remote engine.
pub(crate) struct EngineState {
    pub(super) target: Target,
    /// The name of the transport.
    pub(super) name: &'static str,
    /// The server's guarantees when the store was opened.
    pub(super) declared: OnceLock<(Guarantees, Capability)>,
    /// The local address of connections, if it is set.
    pub(super) local_address: Option<IpAddr>,
    pub(super) credential: Credential,
    pub(super) deadline: Duration,
    pub(super) reconnect_timeout: Duration,
    /// In the order of the hello.
    pub(super) tables: RwLock<Arc<[Arc<Table>]>>,
    pub(super) spare: Mutex<Vec<GreetedConnection>>,
    pub(super) closed: AtomicBool,
    /// The number of open transactions.
    pub(super) transactions: Mutex<usize>,
    /// Notified when a transaction ends.
    pub(super) ended: Condvar,
    pub(super) departures: Departures,
    pub(super) connect_threads: Arc<ConnectThreads<GreetedConnection>>,
}

impl EngineState {
    pub(super) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Closed, "the store is closed"));
        }
        Ok(())
    }

    /// Sets the tables that later hellos name, except the internal table of answers.
    pub(super) fn know(&self, tables: &[Arc<Table>]) {
        let named = tables.iter().filter(|table| table.name() != ANSWERS).cloned();
        *self.tables.write() = named.collect();
        self.spare.lock().clear();
    }

    /// Returns a connection after its greeting; blocks while it is made.
    fn connection(&self) -> Result<GreetedConnection> {
        self.spare_connection().map_or_else(|| self.connect(), Ok)
    }

    /// Takes an idle connection.
    pub(super) fn spare_connection(&self) -> Option<GreetedConnection> {
        self.spare.lock().pop()
    }

    /// Starts to connect on a helper thread; `watch` is woken when the attempt has ended.
    pub(super) fn start(
        self: &Arc<Self>,
        watch: &Arc<Watch>,
    ) -> Arc<ConnectAttempt<GreetedConnection>> {
        let this = Arc::clone(self);
        self.connect_threads.start(watch, move || this.connection())
    }

    /// Returns true if connecting does not block.
    pub(super) const fn is_in_process(&self) -> bool {
        matches!(self.target, Target::Service(_))
    }

    pub(super) fn connect(&self) -> Result<GreetedConnection> {
        self.greet(false).map(|(connection, _)| connection)
    }

    /// Returns the names of the tables that the server has for this client.
    pub(super) fn served_tables(&self) -> Result<Vec<String>> {
        self.greet(true).map(|(_, names)| names)
    }

    fn greet(&self, lists_tables: bool) -> Result<(GreetedConnection, Vec<String>)> {
        let tables = Arc::clone(&self.tables.read());
        let credential = self.credential.as_bytes();
        if credential.len() > CREDENTIAL_BYTES_MAX {
            let message = format!("a credential must have at most {CREDENTIAL_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut hello = Vec::new();
        let start = packet::begin(&mut hello, 0);
        hello.push(HELLO);
        let named = tables.iter().map(|table| (table.name(), hash(table)));
        put_hello(&mut hello, credential, named, lists_tables);
        packet::end(&mut hello, start);
        let mut inner = self.connect_with(&hello)?;
        inner.set_packet_bytes_max(PACKET_BYTES_MAX);
        let answer = inner.wait_for(GREETING_MAX, |packet| Some(packet.body.to_vec()))?;
        let find =
            |name: &str| tables.iter().find(|table| table.name() == name).map(|table| &**table);
        let (welcome, names) = read_welcome(&answer, find)?;
        let guarantees = welcome.guarantees;
        let (first, _) =
            self.declared.get_or_init(|| (guarantees, guarantees.of_client(self.name)));
        if let Some(lost) = guarantees.lost(*first) {
            let message = format!(
                "the server at {:?} guaranteed {lost} when this store was opened, but does not any \
                 more, because the server has another engine now; open the store again",
                self.target
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok((GreetedConnection { inner, tables, welcome, used: Instant::now() }, names))
    }

    /// Connects, and sends the hello.
    fn connect_with(&self, hello: &[u8]) -> Result<Connection> {
        match &self.target {
            Target::Service(_) if self.local_address.is_some() => {
                Err(no_local_address(&self.target))
            }
            Target::Server(connector) => connector.connect(hello, GREETING_MAX),
            Target::Service(settings) => {
                let peer = Peer::new(Arc::clone(settings), Credential::default());
                let mut transport = InProcess::new(peer);
                transport.send(hello)?;
                Ok(Connection::new(Box::new(transport), Vec::new()))
            }
        }
    }

    /// Returns a connection without running operations to the idle ones.
    pub(super) fn give_back(&self, connection: GreetedConnection) {
        let mut spare = self.spare.lock();
        let is_known = Arc::ptr_eq(&connection.tables, &self.tables.read());
        if is_known && spare.len() < SPARE_MAX && !self.closed.load(Ordering::Relaxed) {
            spare.push(connection);
        }
    }

    /// Returns the error for an operation whose connection broke.
    #[cold]
    pub(super) fn lost(&self, may_have_written: bool) -> Error {
        let rest = if may_have_written {
            "the write may or may not have been committed: read the row before you retry, or send \
             a batch with an idempotency key"
        } else {
            "nothing was changed"
        };
        let message = format!(
            "the connection to {:?} was lost before the answer was received; {rest}",
            self.target
        );
        Error::new(ErrorKind::Lost, message)
    }

    pub(super) fn until(&self) -> Instant {
        let now = Instant::now();
        now.checked_add(self.deadline).unwrap_or_else(|| now + Duration::from_secs(86_400))
    }
}
