//! The server: binding to addresses, starting the threads and stopping them.
//!
//! [`Server`] collects settings (`settings.rs`). [`Server::start`] checks them, decides how many
//! listeners and threads there are, and spawns the threads; each runs one [`worker`]. The result is
//! a [`RunningServer`](crate::RunningServer) (`running.rs`). This is the only module that knows the
//! number of threads: everything below works on one thread.
//!
//! A listener is a socket on the shared port (SO_REUSEPORT). There are `listeners` of them, and
//! `threads_per_listener` threads accept connections from each. Thread number `i` uses listener `i
//! % listeners`.

pub(crate) mod error;
pub(crate) mod route_changes;
pub(crate) mod running;
pub(crate) mod settings;
pub(crate) mod worker;
pub(crate) mod worker_config;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;

use signal_hook::iterator::Signals;

use crate::message::limits::Limits;
use crate::message::sites::{SiteError, Sites};
use crate::middleware::observer::Observing;
use crate::reactor::backend::Backend;
use crate::reactor::batch_scheduling::BatchScheduling;
use crate::reactor::bell::Bell;
use crate::reactor::descriptors::{Descriptors, raise_descriptors_max};
use crate::reactor::event::LISTENERS_MAX;
use crate::reactor::task::Inbox;
use crate::routing::router::Router;
use crate::server::error::ServerError;
use crate::server::route_changes::RouteChanges;
use crate::server::running::{
    ReloadHook, RunningServer, ShutdownHandle, StartHook, ending_signals,
};
use crate::server::worker::Common;
use crate::server::worker_config::{Runtime, WorkerConfig};
use crate::socket::address::{Address, ToAddresses};
use crate::socket::bound::{Bound, distribute, first_net};
use crate::socket::proxies::{ForwardedHeader, Proxies, ProxyError};
use crate::socket::socket_codec::ListenerOptions;
#[cfg(feature = "tls")]
use crate::socket::tls::{Acceptor, Tls};

/// A server that is bound to its addresses and not started yet.
///
/// By default there is one listener for each core that the process may use, and one thread for each
/// listener; the kernel distributes the connections over the listeners.
///
/// The methods of this builder are in any order. [`Server::run`] serves until a signal ends the
/// process; [`Server::start`] returns a handle, for tests and for programs that do more.
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
    /// In the order of the calls: the first one is [`Server::url`].
    bound: Vec<Bound>,
    /// Bound by [`Server::bind_shared`]: other processes may listen on the same ports.
    shares: bool,
    /// Permissions of the files of Unix sockets; `None` leaves them to the umask.
    socket_mode: Option<u32>,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
    /// An error of a builder method is kept here, and fails the start.
    trusted: Result<Proxies, ProxyError>,
    forwarded_header: ForwardedHeader,
    /// Allowed origins and hosts; an error fails the start.
    sites: Result<Sites, SiteError>,
    /// The addresses that must send a header of the PROXY protocol.
    proxy_protocol_peers: Option<Result<Proxies, ProxyError>>,
    /// The number of listeners; `None` for one for each core.
    servers: Option<usize>,
    /// The number of threads for each listener; `None` for one.
    threads: Option<usize>,
    /// Bind each thread to a core.
    pin: bool,
    batch_scheduling: BatchScheduling,
    backend: Backend,
    /// The `Server` header; empty for none.
    name: String,
    limits: Limits,
    /// The metrics and the access log.
    observing: Observing,
    /// The handle that replaces the routes.
    route_changes: Option<RouteChanges>,
    /// The signals that end [`Server::run`], if they are received already.
    signals: Option<Signals>,
    /// Called when all threads serve.
    start_hook: Option<StartHook>,
    /// Called for SIGHUP.
    reload_hook: Option<ReloadHook>,
}

impl Server {
    /// Binds to the first usable address, and returns a server with default settings.
    ///
    /// - A port: `127.0.0.1:8080`, `[::]:443`, `localhost:8080`. Port 0 takes a free port; see
    ///   [`Server::local_addr`].
    /// - A Unix socket: `unix:/run/service.sock`. Its file is removed at the end; one that a dead
    ///   server has left is replaced.
    /// - A Unix socket without a file: `unix:@service`.
    ///
    /// ```
    /// use marmota_http::{Router, Server};
    /// let server = Server::bind("127.0.0.1:0")?;
    /// assert_ne!(server.local_addr().port(), 0);
    /// server.start(Router::new())?.shutdown()?;
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    ///
    /// # Errors
    /// [`ServerError::Bind`], also if another process listens there already.
    pub fn bind(address: impl ToAddresses + fmt::Debug) -> Result<Self, ServerError> {
        Self::open(&address, false)
    }

    /// Binds to a port that other servers share: servers of any process of the same user that are
    /// bound by this function too (SO_REUSEPORT). [`Server::also_bind`] then shares its ports as
    /// well. Use it for more connections than a process may have descriptors, or for several
    /// processes over one database.
    ///
    /// The kernel assigns each new connection to a listener by a hash of both addresses and ports.
    /// Over many connections the distribution is even, in proportion to the
    /// [listeners](Self::listeners) of each server; the load of a server does not matter, and the
    /// connections of one client go to several servers.
    ///
    /// A server that shuts down answers the connections that wait to be accepted, and gets no more
    /// from then on. The connections of a process that is killed end with it; new ones go to the
    /// other servers.
    ///
    /// ```
    /// use marmota_http::{Router, Server};
    /// let first = Server::bind_shared("127.0.0.1:0")?;
    /// let port = first.local_addr();
    /// let first = first.start(Router::new())?;
    /// // In another process:
    /// let second = Server::bind_shared(port)?.start(Router::new())?;
    /// assert_eq!(first.local_addr(), second.local_addr());
    /// assert!(Server::bind(port).is_err()); // needs the port for itself
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    ///
    /// # Errors
    /// [`ServerError::Bind`], if a server that does not share the port listens there, and for a
    /// Unix socket, which has one server.
    pub fn bind_shared(address: impl ToAddresses + fmt::Debug) -> Result<Self, ServerError> {
        let server = Self::open(&address, true)?;
        if server.bound.iter().any(|bound| bound.address.net().is_none()) {
            let text = "only TCP ports can be shared, not Unix sockets";
            let source = io::Error::new(io::ErrorKind::InvalidInput, text);
            return Err(ServerError::Bind { address: format!("{address:?}"), source });
        }
        Ok(server)
    }

    /// Binds the first address, and sets the defaults of all settings.
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
            proxy_protocol_peers: None,
            servers: None,
            threads: None,
            pin: false,
            batch_scheduling: BatchScheduling::Auto,
            backend: Backend::Auto,
            name: "Marmota".to_owned(),
            limits: Limits::default(),
            observing: Observing::default(),
            route_changes: None,
            signals: None,
            start_hook: None,
            reload_hook: None,
        })
    }

    /// Listens on one more address, with the same routes and settings.
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
    /// [`ServerError::Bind`], also if the server has the maximum number of addresses.
    pub fn also_bind(
        mut self,
        address: impl ToAddresses + fmt::Debug,
    ) -> Result<Self, ServerError> {
        if self.bound.len() == LISTENERS_MAX {
            let source = io::Error::other("the server cannot have more listeners");
            return Err(ServerError::Bind { address: format!("{address:?}"), source });
        }
        self.bound.push(Bound::open(&address, self.shares)?);
        Ok(self)
    }

    /// Listens on one more address without TLS, where each request is redirected to the first port
    /// with TLS (308, with host, path and query).
    ///
    /// ```
    /// use marmota_http::{Router, Server, Tls};
    /// let running = Server::bind("127.0.0.1:0")? // 0.0.0.0:443
    ///     .redirect("127.0.0.1:0")? // 0.0.0.0:80
    ///     .tls(Tls::self_signed())
    ///     .start(Router::new())?;
    /// assert_eq!(running.addresses().len(), 2);
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Server::also_bind`].
    #[cfg(feature = "tls")]
    pub fn redirect(self, address: impl ToAddresses + fmt::Debug) -> Result<Self, ServerError> {
        let mut server = self.also_bind(address)?;
        if let Some(bound) = server.bound.last_mut() {
            bound.redirects = true;
        }
        Ok(server)
    }

    /// Returns the first network address, with its real port; `0.0.0.0:0` if the server listens on
    /// Unix sockets only.
    ///
    /// ```
    /// use marmota_http::Server;
    /// let server = Server::bind("127.0.0.1:0")?; // any free port
    /// println!("listening on port {}", server.local_addr().port());
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    pub fn local_addr(&self) -> SocketAddr {
        first_net(self.bound.iter().map(|bound| &bound.address))
    }

    /// Returns the URL of the first address, for clients: `http://127.0.0.1:8080`, or
    /// `unix:/run/service.sock`.
    ///
    /// ```
    /// use marmota_http::Server;
    /// let server = Server::bind("127.0.0.1:0")?;
    /// assert_eq!(server.url(), format!("http://{}", server.local_addr()));
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    pub fn url(&self) -> String {
        match self.bound.first() {
            Some(bound) => match bound.address {
                Address::Net(address) => format!("{}://{address}", self.scheme()),
                ref address => address.to_string(),
            },
            None => String::new(),
        }
    }

    /// Returns the scheme of its network addresses.
    fn scheme(&self) -> &'static str {
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return "https";
        }
        "http"
    }

    /// Returns the settings with which connections begin on its ports: PROXY headers and TLS.
    fn entry(&self) -> Result<ListenerOptions, ServerError> {
        Ok(ListenerOptions {
            proxy_protocol_peers: self.proxy_protocol_peers.clone().transpose()?.map(Arc::new),
            #[cfg(feature = "tls")]
            tls: match &self.tls {
                Some(tls) => Some(Arc::new(Acceptor::new(tls.clone())?)),
                None => None,
            },
            redirect: None,
        })
    }

    /// Starts the threads, and returns when all of them serve. If one cannot, none serves.
    ///
    /// ```
    /// use marmota_http::{Router, Server};
    /// let running = Server::bind("127.0.0.1:0")?.start(Router::new())?;
    /// println!("serving on {}", running.local_addr());
    /// running.shutdown()?;
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    ///
    /// # Errors
    /// - [`ServerError::Route`] if a route is malformed or conflicts with another.
    /// - [`ServerError::Name`], [`ServerError::Count`], [`ServerError::Proxy`] and
    ///   [`ServerError::Site`] if a setting is not valid.
    /// - [`ServerError::Backend`] and [`ServerError::Ring`] if the backend is unknown or not
    ///   available.
    /// - [`ServerError::Bind`], `Tls` and [`ServerError::Thread`] if the system refuses a socket, a
    ///   certificate or a thread.
    pub fn start(self, router: Router) -> Result<RunningServer, ServerError> {
        if self.name.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(ServerError::Name(self.name));
        }
        for (name, value) in [("threads_per_listener", self.threads), ("listeners", self.servers)] {
            if value == Some(0) {
                return Err(ServerError::Count(name));
            }
        }
        let settled = self.backend.choose()?;
        let is_batch = self.batch_scheduling.decide(router.local_database.as_deref());
        let mut proxies = self.trusted.clone()?;
        proxies.header = self.forwarded_header;
        let sites = self.sites.clone()?;
        let routes = Arc::new(router.into_routes(proxies.clone(), sites.clone())?);
        let runtime =
            Runtime::new(&routes, self.route_changes.is_some()).map_err(ServerError::Thread)?;
        let cores = cores();
        let threads = self.threads.unwrap_or(1);
        let servers = self.servers.unwrap_or_else(|| cores.len().div_ceil(threads).max(1));
        let addresses: Vec<Address> =
            self.bound.iter().map(|bound| bound.address.clone()).collect();
        let entry = self.entry()?;
        let listeners = distribute(self.bound, &entry, servers, self.socket_mode)?;
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
        let inboxes = (0..servers * threads)
            .map(|_| Bell::new(settled).map(Inbox::new))
            .collect::<io::Result<Vec<_>>>();
        let inboxes: Arc<[Arc<Inbox>]> = inboxes.map_err(ServerError::Thread)?.into();
        running.handle.inboxes = Arc::clone(&inboxes);
        let (ready, readiness) = mpsc::channel();
        for (index, inbox) in inboxes.iter().enumerate() {
            let config = WorkerConfig {
                listeners: listeners[index % servers].clone(),
                core: self.pin.then(|| cores.get(index % cores.len().max(1)).copied()).flatten(),
                is_batch,
                settled,
                index,
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
        if let Some(changes) = &self.route_changes {
            changes.connect(running.handle.clone(), proxies, sites);
        }
        for _ in 0..running.threads.len() {
            let panicked = |_| ServerError::Thread(io::Error::other("it panicked"));
            readiness.recv().map_err(panicked)??;
        }
        if let Some(StartHook(hook)) = self.start_hook {
            hook(&running);
        }
        if let Some(signals) = self.signals {
            running.end_on(signals, self.reload_hook)?;
        }
        Ok(running)
    }

    /// Serves until Ctrl-C, SIGTERM or a [`ShutdownHandle`] ends it. Requests in flight are
    /// answered first, for up to [`Limits::drain_timeout_ms`]. A second signal ends the process at
    /// once.
    ///
    /// SIGHUP reads the certificates again ([`RunningServer::reload`]), after it has called the
    /// function of [`Server::on_reload`]; SIGUSR1 and SIGUSR2 are ignored.
    ///
    /// ```no_run
    /// use marmota_http::{Router, Server};
    ///
    /// fn main() -> Result<(), marmota_http::ServerError> {
    ///     let router = Router::new().get("/", |_| async { "hello" });
    ///     Server::bind("0.0.0.0:8080")?.run(router)
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of [`Server::start`], and [`ServerError::Thread`] if a thread has failed.
    pub fn run(self, router: Router) -> Result<(), ServerError> {
        self.receive_signals()?.start(router)?.join()
    }

    /// Receives the signals of [`Server::run`] from here on, also for a server that is started by
    /// [`Server::start`]. A signal that arrives before the start ends the server as soon as it runs.
    /// Use it in a program that prints its address first: the reader of that line may end the program
    /// at once.
    ///
    /// ```
    /// use marmota_http::Server;
    /// let server = Server::bind("127.0.0.1:0")?.receive_signals()?;
    /// println!("{}", server.url());
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    ///
    /// # Errors
    /// [`ServerError::Thread`] if the system refuses the signal handlers.
    pub fn receive_signals(mut self) -> Result<Self, ServerError> {
        if self.signals.is_none() {
            self.signals = Some(ending_signals()?);
        }
        Ok(self)
    }
}

/// Returns the numbers of the cores that the process may use, by its CPU affinity.
fn cores() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    if let Ok(set) = rustix::thread::sched_getaffinity(None) {
        let cores = 0..rustix::thread::CpuSet::MAX_CPU;
        return cores.filter(|&core| set.is_set(core)).collect();
    }
    (0..std::thread::available_parallelism().map_or(1, usize::from)).collect()
}
