//! State shared by all sessions of a remote engine: the server's address, the tables, and idle
//! connections.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::engine::{Capability, Watch};
use marmota_store::operation::ANSWERS;
use parking_lot::{Condvar, Mutex, RwLock};

use super::connecting::{Attempt, Connecting};
use super::departures::Departures;
use super::in_process::InProcess;
use super::line::Line;
use super::reach::{Address, Route, Upgrade, reach};
use super::wire::Wire;
use crate::codec::contract::{
    CREDENTIAL_BYTES_MAX, Guarantees, UPGRADE, hash, put_hello, read_welcome,
};
use crate::codec::frame;
use crate::codec::operation::HELLO;
use crate::server::peer::Peer;
use crate::server::settings::Settings;

/// The maximum number of idle connections that are kept.
const SPARE_MAX: usize = 16;
/// The time limit of a greeting.
const GREETING_MAX: Duration = Duration::from_secs(5);

/// The location of a server.
pub(crate) enum Target {
    Socket { address: Address, path: String },
    Service(Arc<Settings>),
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket { address, .. } => address.fmt(f),
            Self::Service(_) => f.write_str("the same process"),
        }
    }
}

/// The state shared by all sessions of a remote engine.
pub(crate) struct Connector {
    pub(super) target: Target,
    /// The name of the transport.
    pub(super) name: &'static str,
    /// The server's guarantees when the store was opened.
    pub(super) declared: OnceLock<(Guarantees, Capability)>,
    /// The local address of connections, if it is set.
    pub(super) local: Option<IpAddr>,
    /// The CA certificates for the server, as a PEM file.
    pub(super) ca_file: Option<PathBuf>,
    pub(super) credential: Vec<u8>,
    pub(super) deadline: Duration,
    pub(super) reconnect_timeout: Duration,
    /// In the order of the hello.
    pub(super) tables: RwLock<Arc<[Arc<Table>]>>,
    pub(super) spare: Mutex<Vec<Line>>,
    pub(super) closed: AtomicBool,
    /// The number of open transactions.
    pub(super) transactions: Mutex<usize>,
    /// Notified when a transaction ends.
    pub(super) ended: Condvar,
    pub(super) departures: Departures,
    pub(super) connecting: Arc<Connecting>,
}

impl Connector {
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
    pub(super) fn line(&self) -> Result<Line> {
        self.spare_line().map_or_else(|| self.connect(), Ok)
    }

    /// Takes an idle connection.
    pub(super) fn spare_line(&self) -> Option<Line> {
        self.spare.lock().pop()
    }

    /// Starts to connect on a helper thread; `watch` is woken when the attempt has ended.
    pub(super) fn start(self: &Arc<Self>, watch: &Arc<Watch>) -> Arc<Attempt> {
        let this = Arc::clone(self);
        self.connecting.start(watch, move || this.line())
    }

    /// Returns true if connecting does not block.
    pub(super) const fn is_in_process(&self) -> bool {
        matches!(self.target, Target::Service(_))
    }

    pub(super) fn connect(&self) -> Result<Line> {
        self.greet(false).map(|(line, _)| line)
    }

    /// Returns the names of the tables that the server has for this client.
    pub(super) fn served_tables(&self) -> Result<Vec<String>> {
        self.greet(true).map(|(_, names)| names)
    }

    fn greet(&self, lists_tables: bool) -> Result<(Line, Vec<String>)> {
        let tables = Arc::clone(&self.tables.read());
        if self.credential.len() > CREDENTIAL_BYTES_MAX {
            let message = format!("a credential has at most {CREDENTIAL_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut hello = Vec::new();
        let start = frame::begin(&mut hello, 0);
        hello.push(HELLO);
        let named = tables.iter().map(|table| (table.name(), hash(table)));
        put_hello(&mut hello, &self.credential, named, lists_tables);
        frame::end(&mut hello, start);
        let (wire, come) = self.reach(&hello)?;
        let mut line = Line::new(wire, come, Arc::clone(&tables));
        let answer = line.wait_for_first(GREETING_MAX)?;
        let find =
            |name: &str| tables.iter().find(|table| table.name() == name).map(|table| &**table);
        let (welcome, names) = read_welcome(&answer, find)?;
        line.welcome = welcome;
        let guarantees = line.welcome.guarantees;
        let (first, _) =
            self.declared.get_or_init(|| (guarantees, guarantees.of_client(self.name)));
        if let Some(lost) = guarantees.lost(*first) {
            let message = format!(
                "the server at {:?} guaranteed {lost} when this store was opened, and no longer \
                 does: it has another engine now; open the store again",
                self.target
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok((line, names))
    }

    fn reach(&self, hello: &[u8]) -> Result<(Box<dyn Wire>, Vec<u8>)> {
        match &self.target {
            Target::Service(_) | Target::Socket { address: Address::Unix(_), .. }
                if self.local.is_some() =>
            {
                let message = format!(
                    "a local address was set, and {:?} is reached without one; leave it out, or \
                     use http://HOST:PORT/api or ws://HOST:PORT/api",
                    self.target
                );
                Err(Error::new(ErrorKind::Invalid, message))
            }
            Target::Socket { address, path } => {
                let (served, credential) = ("no store is served", &self.credential[..]);
                let to = Upgrade { protocol: UPGRADE, path, served, credential };
                let ca_file = self.ca_file.as_deref();
                let route = Route { address, local: self.local, ca_file };
                reach(route, to, hello, GREETING_MAX)
            }
            Target::Service(settings) => {
                let mut wire = InProcess::new(Peer::new(Arc::clone(settings), Vec::new()));
                let mut come = Vec::new();
                wire.send(hello)?;
                wire.receive(&mut come, &mut Context::from_waker(Waker::noop()))?;
                Ok((Box::new(wire), come))
            }
        }
    }

    /// Returns a connection without running operations to the idle ones.
    pub(super) fn give_back(&self, line: Line) {
        let mut spare = self.spare.lock();
        let is_known = Arc::ptr_eq(&line.tables, &self.tables.read());
        if is_known && spare.len() < SPARE_MAX && !self.closed.load(Ordering::Relaxed) {
            spare.push(line);
        }
    }

    /// Returns the error for an operation whose connection broke.
    #[cold]
    pub(super) fn lost(&self, may_have_written: bool) -> Error {
        let rest = if may_have_written {
            "the write may have taken place: read before trying again, or send it as a batch with \
             an idempotency key"
        } else {
            "nothing was changed"
        };
        let message =
            format!("the connection to {:?} broke before the answer came; {rest}", self.target);
        Error::new(ErrorKind::Lost, message)
    }

    pub(super) fn until(&self) -> Instant {
        let now = Instant::now();
        now.checked_add(self.deadline).unwrap_or_else(|| now + Duration::from_secs(86_400))
    }
}
