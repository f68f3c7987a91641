//! Binding, starting and stopping: the only place that knows how many threads there are.

pub(crate) mod error;
pub(crate) mod running;
pub(crate) mod settings;
pub(crate) mod worker;
pub(crate) mod worker_config;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;

use rustix::thread::{CpuSet, sched_getaffinity};
use signal_hook::iterator::Signals;

use crate::message::limits::Limits;
use crate::message::sites::{SiteError, Sites};
use crate::middleware::observer::Observing;
use crate::reactor::backend::Backend;
use crate::reactor::batch_scheduling::BatchScheduling;
use crate::reactor::descriptors::{Descriptors, raise_descriptors_max};
use crate::reactor::event::LISTENERS_MAX;
use crate::reactor::task::Inbox;
use crate::routing::router::Router;
use crate::server::error::ServerError;
use crate::server::running::{RunningServer, ShutdownHandle, ending_signals};
use crate::server::worker::Common;
use crate::server::worker_config::{Runtime, WorkerConfig};
use crate::socket::address::{Address, ToAddresses};
use crate::socket::bound::{Bound, deal, first_net};
use crate::socket::link::Entry;
use crate::socket::proxies::{ForwardedHeader, Proxies, ProxyError};
#[cfg(feature = "tls")]
use crate::socket::tls::{Acceptor, Tls};

/// A server that is bound to its address and not started yet.
///
/// By default there is one listener for each core the process may use and one thread on each
/// listener; the kernel spreads the connections over the listeners.
///
/// ```no_run
/// use marmota_http::{Request, Response, Router, Server};
/// async fn hello(_: Request) -> Response {
///     Response::text("Hello, World!")
/// }
/// Server::bind("127.0.0.1:8080")?.run(Router::new().get("/", hello))?;
/// # Ok::<(), marmota_http::ServerError>(())
/// ```
#[derive(Debug)]
pub struct Server {
    bound: Vec<Bound>,
    shares: bool,
    socket_mode: Option<u32>,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
    trusted: Result<Proxies, ProxyError>,
    forwarded_header: ForwardedHeader,
    sites: Result<Sites, SiteError>,
    announcers: Option<Result<Proxies, ProxyError>>,
    servers: Option<usize>,
    threads: Option<usize>,
    pin: bool,
    batch_scheduling: BatchScheduling,
    backend: Backend,
    name: String,
    limits: Limits,
    observing: Observing,
    /// Those that [`Server::run`] ends on, where they are received already.
    signals: Option<Signals>,
}

impl Server {
    /// Binds to the first usable address; port 0 takes a free one. `unix:/run/service.sock` is a
    /// Unix socket, whose file is removed at the end; one that a dead server has left behind is
    /// replaced. `unix:@service` is one without a file.
    ///
    /// # Errors
    /// [`ServerError::Bind`], also when another process listens there already.
    pub fn bind(address: impl ToAddresses + fmt::Debug) -> Result<Self, ServerError> {
        Self::open(&address, false)
    }

    /// Binds to a port on which other servers may listen that were bound by this function too,
    /// of any process of the same user (SO_REUSEPORT); so do further ports, by [`Server::also_bind`].
    /// For more connections than a process may have descriptors, or for several processes over
    /// one database.
    ///
    /// The kernel gives each new connection to one of the listeners, by a hash of both addresses
    /// and ports: evenly over many connections, to a server by how many
    /// [listeners](Self::listeners) it has, not by how busy it is, and one client's connections to
    /// several servers. A server that shuts down answers those that wait to be taken; the kernel
    /// gives none to it from then on. Those of a process that is killed end with it, and what
    /// connects again comes to the others.
    ///
    /// ```
    /// use marmota_http::{Router, Server};
    /// let first = Server::bind_shared("127.0.0.1:0")?;
    /// let port = first.local_addr();
    /// let first = first.start(Router::new())?;
    /// // In another process:
    /// let second = Server::bind_shared(port)?.start(Router::new())?;
    /// assert_eq!(first.local_addr(), second.local_addr());
    /// assert!(Server::bind(port).is_err()); // wants it alone
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    ///
    /// # Errors
    /// [`ServerError::Bind`]: beside a server that does not share its port, and for a Unix
    /// socket, which one server has.
    pub fn bind_shared(address: impl ToAddresses + fmt::Debug) -> Result<Self, ServerError> {
        let server = Self::open(&address, true)?;
        if server.bound.iter().any(|bound| bound.address.net().is_none()) {
            let text = "only ports are shared, a Unix socket is one server's";
            let source = io::Error::new(io::ErrorKind::InvalidInput, text);
            return Err(ServerError::Bind { address: format!("{address:?}"), source });
        }
        Ok(server)
    }

    fn open(address: &(impl ToAddresses + fmt::Debug), shares: bool) -> Result<Self, ServerError> {
        Ok(Self {
            bound: vec![Bound::open(address, shares)?],
            shares,
            socket_mode: None,
            #[cfg(feature = "tls")]
            tls: None,
            trusted: Ok(Proxies::default()),
            forwarded_header: ForwardedHeader::default(),
            sites: Ok(Sites::default()),
            announcers: None,
            servers: None,
            threads: None,
            pin: false,
            batch_scheduling: BatchScheduling::Auto,
            backend: Backend::Auto,
            name: "Marmota".to_owned(),
            limits: Limits::default(),
            observing: Observing::default(),
            signals: None,
        })
    }

    /// Listens on another address too.
    ///
    /// ```
    /// use marmota_http::{Router, Server};
    /// # let folder = std::env::temp_dir().join(format!("marmota-and-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let socket = format!("unix:{}/service.sock", folder.display());
    /// let running = Server::bind("127.0.0.1:0")?
    ///     .also_bind(&socket)? // unix:/run/service.sock
    ///     .socket_mode(0o660)
    ///     .start(Router::new())?;
    /// assert_eq!(running.addresses()[1].to_string(), socket);
    /// # drop(running);
    /// # std::fs::remove_dir(&folder)?; // nothing is left in it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Server::bind`].
    pub fn also_bind(
        mut self,
        address: impl ToAddresses + fmt::Debug,
    ) -> Result<Self, ServerError> {
        if self.bound.len() == LISTENERS_MAX {
            let source = io::Error::other("the server has as many listeners as it can have");
            return Err(ServerError::Bind { address: format!("{address:?}"), source });
        }
        self.bound.push(Bound::open(&address, self.shares)?);
        Ok(self)
    }

    /// Listens on another address, plainly, to send whoever asks there to the first port that
    /// speaks TLS (308).
    ///
    /// # Errors
    /// As [`Server::bind`].
    #[cfg(feature = "tls")]
    pub fn redirect(self, address: impl ToAddresses + fmt::Debug) -> Result<Self, ServerError> {
        let mut server = self.also_bind(address)?;
        if let Some(bound) = server.bound.last_mut() {
            bound.redirects = true;
        }
        Ok(server)
    }

    /// The first network address with its real port; `0.0.0.0:0` if it listens on Unix sockets
    /// alone.
    pub fn local_addr(&self) -> SocketAddr {
        first_net(self.bound.iter().map(|bound| &bound.address))
    }

    /// How a client names what it serves, by the first address: `http://127.0.0.1:8080`, or
    /// `unix:/run/service.sock`.
    pub fn url(&self) -> String {
        match self.bound.first() {
            Some(bound) => match bound.address {
                Address::Net(address) => format!("{}://{address}", self.scheme()),
                ref address => address.to_string(),
            },
            None => String::new(),
        }
    }

    fn scheme(&self) -> &'static str {
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return "https";
        }
        "http"
    }

    /// How connections begin on its ports.
    fn entry(&self) -> Result<Entry, ServerError> {
        Ok(Entry {
            announcers: self.announcers.clone().transpose()?.map(Arc::new),
            #[cfg(feature = "tls")]
            tls: match &self.tls {
                Some(tls) => Some(Arc::new(Acceptor::new(tls.clone())?)),
                None => None,
            },
            redirect: None,
        })
    }

    /// Starts the threads and returns when all of them serve.
    ///
    /// # Errors
    /// When a route or the name is malformed, or the system refuses a socket, a thread or what
    /// one needs; then none serves.
    pub fn start(self, router: Router) -> Result<RunningServer, ServerError> {
        if self.name.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(ServerError::Name(self.name));
        }
        for (name, value) in [("threads", self.threads), ("servers", self.servers)] {
            if value == Some(0) {
                return Err(ServerError::Count(name));
            }
        }
        let settled = self.backend.settle()?;
        let is_batch = self.batch_scheduling.decide(router.local_database.as_deref());
        let mut proxies = self.trusted.clone()?;
        proxies.header = self.forwarded_header;
        let routes = Arc::new(router.into_routes(proxies, self.sites.clone()?)?);
        let runtime = Runtime::new(&routes).map_err(ServerError::Thread)?;
        let cores = cores();
        let threads = self.threads.unwrap_or(1);
        let servers = self.servers.unwrap_or_else(|| cores.len().div_ceil(threads).max(1));
        let addresses: Vec<Address> =
            self.bound.iter().map(|bound| bound.address.clone()).collect();
        let entry = self.entry()?;
        let listeners = deal(self.bound, &entry, servers, self.socket_mode)?;
        let descriptors =
            Descriptors::new(raise_descriptors_max(), self.limits.descriptors_reserved);
        let common = Arc::new(Common::new(descriptors, &self.limits, servers * threads));
        let mut running = RunningServer {
            addresses,
            backend: settled.backend(),
            handle: ShutdownHandle { common: Arc::clone(&common), inboxes: Arc::default() },
            threads: Vec::new(),
            #[cfg(feature = "tls")]
            tls: entry.tls.clone(),
        };
        let inboxes = (0..servers * threads).map(|_| Inbox::new()).collect::<io::Result<Vec<_>>>();
        let inboxes: Arc<[Arc<Inbox>]> = inboxes.map_err(ServerError::Thread)?.into();
        running.handle.inboxes = Arc::clone(&inboxes);
        let (ready, readiness) = mpsc::channel();
        for (index, inbox) in inboxes.iter().enumerate() {
            let config = WorkerConfig {
                listeners: listeners[index % servers].clone(),
                core: self.pin.then(|| cores.get(index % cores.len().max(1)).copied()).flatten(),
                is_batch,
                settled,
                runtime: runtime.clone(),
                limits: self.limits.clone(),
                routes: Arc::clone(&routes),
                inbox: Arc::clone(inbox),
                name: self.name.clone(),
                observing: self.observing.clone(),
                common: Arc::clone(&common),
            };
            let ready = ready.clone();
            let thread = std::thread::Builder::new()
                .name(format!("marmota-http-{index}"))
                .spawn(move || config.serve(ready))
                .map_err(ServerError::Thread)?;
            running.threads.push(thread);
        }
        drop(ready);
        for _ in 0..running.threads.len() {
            let panicked = |_| ServerError::Thread(io::Error::other("it panicked"));
            readiness.recv().map_err(panicked)??;
        }
        Ok(running)
    }

    /// Serves until Ctrl-C, SIGTERM or a [`ShutdownHandle`] ends it; a second signal ends the
    /// process at once. SIGHUP has certificates read again ([`RunningServer::reload`]), and does not
    /// end it; SIGUSR1 and SIGUSR2 do nothing.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn run(self, router: Router) -> Result<(), ServerError> {
        let mut server = self.receive_signals()?;
        let signals = server.signals.take();
        let running = server.start(router)?;
        if let Some(signals) = signals {
            running.end_on(signals)?;
        }
        running.join()
    }

    /// Receives the signals of [`Server::run`] from here on: one that comes before it is called
    /// ends the server as soon as it runs. For a program that prints its address first: the reader of
    /// that line may end it at once.
    ///
    /// ```
    /// use marmota_http::Server;
    /// let server = Server::bind("127.0.0.1:0")?.receive_signals()?;
    /// println!("{}", server.url());
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    ///
    /// # Errors
    /// When the system refuses the signal handlers.
    pub fn receive_signals(mut self) -> Result<Self, ServerError> {
        if self.signals.is_none() {
            self.signals = Some(ending_signals()?);
        }
        Ok(self)
    }
}

/// The cores that the process may use.
fn cores() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect(),
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    }
}
