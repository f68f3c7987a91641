//! Binding, starting and stopping: the only place that knows how many threads there are.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread::JoinHandle;

use rustix::thread::{CpuSet, sched_getaffinity};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::access_log::AccessLog;
use crate::address::{Address, ToAddresses};
use crate::backend::{Backend, VARIABLE};
use crate::batch_scheduling::BatchScheduling;
use crate::bound::{Bound, deal, first_net};
use crate::descriptors::{Descriptors, raise_descriptors_max};
use crate::limits::Limits;
use crate::link::Entry;
use crate::metrics::Metrics;
use crate::observer::Observing;
use crate::proxies::{ForwardedHeader, Proxies, ProxyError};
use crate::reactor::LISTENERS_MAX;
use crate::router::{RouteError, Router};
use crate::same_origin::{SiteError, Sites};
use crate::seat::{Runtime, WorkerConfig};
use crate::task::Inbox;
#[cfg(feature = "tls")]
use crate::tls::{Acceptor, Tls, TlsError};
use crate::worker::Common;

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

/// Why a server cannot start or has ended early.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// The address is none, is taken, or may not be used.
    Bind {
        /// What was asked for.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// A route cannot be served.
    Route(RouteError),
    /// The name for the `Server` header has a character that a header cannot have.
    Name(String),
    /// [`Server::threads_per_listener`] or [`Server::listeners`], as named, was set to 0.
    Count(&'static str),
    /// The environment names a backend that there is none of.
    Backend(String),
    /// The ring was asked for and the system has none, or does not allow it.
    Ring(io::Error),
    /// A trusted proxy is named in no way that is understood.
    Proxy(ProxyError),
    /// An allowed origin or host is not of the form required.
    Site(SiteError),
    /// TLS cannot be spoken as asked.
    #[cfg(feature = "tls")]
    Tls(TlsError),
    /// The system refused what a server thread needs.
    Thread(io::Error),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { address, source } => {
                write!(
                    f,
                    "cannot listen on {address}: {source}; choose another address or stop what uses it"
                )
            }
            Self::Route(error) => error.fmt(f),
            Self::Name(name) => {
                write!(f, "server name {name:?} has a control character; choose another")
            }
            Self::Count(name) => {
                write!(f, "{name} is 0; set at least 1, or leave it out for the default")
            }
            Self::Backend(value) => {
                write!(f, "{VARIABLE}={value:?}: no such backend; say ring, epoll or auto")
            }
            Self::Ring(error) => {
                write!(
                    f,
                    "io_uring cannot be used: {error}; it takes Linux 6.1 and leave to use it, \
                     choose Backend::Auto or Backend::Epoll"
                )
            }
            Self::Proxy(error) => error.fmt(f),
            Self::Site(error) => error.fmt(f),
            #[cfg(feature = "tls")]
            Self::Tls(error) => error.fmt(f),
            Self::Thread(error) => write!(f, "a server thread cannot go on: {error}"),
        }
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Bind { source, .. } | Self::Ring(source) | Self::Thread(source) => Some(source),
            Self::Route(error) => Some(error),
            Self::Proxy(error) => Some(error),
            Self::Site(error) => Some(error),
            #[cfg(feature = "tls")]
            Self::Tls(error) => Some(error),
            Self::Name(_) | Self::Count(_) | Self::Backend(_) => None,
        }
    }
}

impl From<RouteError> for ServerError {
    fn from(error: RouteError) -> Self {
        Self::Route(error)
    }
}

impl From<SiteError> for ServerError {
    fn from(error: SiteError) -> Self {
        Self::Site(error)
    }
}

impl From<ProxyError> for ServerError {
    fn from(error: ProxyError) -> Self {
        Self::Proxy(error)
    }
}

#[cfg(feature = "tls")]
impl From<TlsError> for ServerError {
    fn from(error: TlsError) -> Self {
        Self::Tls(error)
    }
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

    /// Speaks TLS on its ports; Unix sockets stay plain, since what is on the same machine needs
    /// none. Plain HTTP on such a port is answered with 400.
    ///
    /// ```
    /// use marmota_http::{Router, Server, Tls};
    /// let server = Server::bind("127.0.0.1:0")?.tls(Tls::self_signed());
    /// assert!(server.url().starts_with("https://"));
    /// server.start(Router::new())?.shutdown()?;
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
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

    /// Trusts these proxies to name the client for whom they ask: addresses, networks
    /// (`10.0.0.0/8`), and `unix` for all that connect by a Unix socket. They name it by the headers
    /// `X-Forwarded-For`, `-Proto` and `-Host`, unless [`Server::forwarded_header`] says otherwise.
    /// [`crate::Request::client_ip`], [`crate::Request::scheme`] and [`crate::Request::host`] return
    /// what they say. Default: no proxy is trusted.
    ///
    /// ```
    /// use marmota_http::Server;
    /// let server = Server::bind("127.0.0.1:0")?.trusted_proxies(["127.0.0.1", "fd00::/8", "unix"]);
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    #[must_use]
    pub fn trusted_proxies<N: AsRef<str>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.trusted = Proxies::named(names);
        self
    }

    /// Sets the one header by which trusted proxies name the client. The other is ignored, because a
    /// proxy that does not set it passes on what the client has written. Default:
    /// [`ForwardedHeader::XForwarded`], which nginx sets.
    ///
    /// ```
    /// use marmota_http::{ForwardedHeader, Server};
    /// let server = Server::bind("127.0.0.1:0")?
    ///     .trusted_proxies(["10.0.0.0/8"])
    ///     .forwarded_header(ForwardedHeader::Forwarded);
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    #[must_use]
    pub fn forwarded_header(mut self, header: ForwardedHeader) -> Self {
        self.forwarded_header = header;
        self
    }

    pub(crate) fn with_sites(
        mut self,
        allow: impl FnOnce(&mut Sites) -> Result<(), SiteError>,
    ) -> Self {
        self.sites = self.sites.and_then(|mut sites| allow(&mut sites).map(|()| sites));
        self
    }

    /// Takes connections of these (named as for [`Server::trusted_proxies`]) only with a header of
    /// the PROXY protocol, version 1 or 2, before anything else: [`crate::Request::peer`] is whom
    /// it names. Connections of others begin without one.
    #[must_use]
    pub fn proxy_protocol<N: AsRef<str>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.announcers = Some(Proxies::named(names));
        self
    }

    /// The permissions of its Unix sockets' files, `0o660` say: who may write to one may connect.
    /// Without it the process' umask decides, which usually leaves the owner alone.
    #[must_use]
    pub fn socket_mode(mut self, mode: u32) -> Self {
        self.socket_mode = Some(mode);
        self
    }

    /// Sets how many listeners share a port, at least 1. Default: one for each core, divided by
    /// [`threads_per_listener`](Self::threads_per_listener) when that is set.
    #[must_use]
    pub fn listeners(mut self, servers: usize) -> Self {
        self.servers = Some(servers);
        self
    }

    /// Sets how many threads work on each listener, at least 1. Default: 1.
    #[must_use]
    pub fn threads_per_listener(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Ties each thread to one of the cores the process may use.
    #[must_use]
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = pin;
        self
    }

    /// Sets when the threads have the scheduling policy SCHED_BATCH. Default:
    /// [`BatchScheduling::Auto`], if the routes use a database server on this machine. The decision
    /// is made when the server starts, and logged.
    ///
    /// On idle cores the policy changes nothing. On a core that another program computes on, a
    /// thread that wakes waits until that program's time slice ends, some milliseconds.
    ///
    /// ```
    /// use marmota_http::{BatchScheduling, Server};
    /// let server = Server::bind("127.0.0.1:0")?.batch_scheduling(BatchScheduling::Off);
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    #[must_use]
    pub fn batch_scheduling(mut self, batch_scheduling: BatchScheduling) -> Self {
        self.batch_scheduling = batch_scheduling;
        self
    }

    /// How the threads wait, read and write; [`Backend::Auto`] unless it is said.
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// What the server allows.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The name in the `Server` header; empty leaves the header out.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
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

    /// Has what it does counted; see [`Metrics`].
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.observing.metrics = Some(metrics.clone());
        self
    }

    /// Has a line written for each request; see [`AccessLog`].
    #[must_use]
    pub fn access_log(mut self, log: &AccessLog) -> Self {
        self.observing.access_log = Some(log.clone());
        self
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
        let mut routes = router.into_routes()?;
        routes.proxies = self.trusted.clone()?;
        routes.proxies.header = self.forwarded_header;
        routes.sites = self.sites.clone()?;
        let routes = Arc::new(routes);
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
            let seat = WorkerConfig {
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
                .spawn(move || seat.serve(ready))
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

/// A server that is serving. Dropping it shuts it down and waits for it.
#[derive(Debug)]
pub struct RunningServer {
    addresses: Vec<Address>,
    backend: Backend,
    handle: ShutdownHandle,
    threads: Vec<JoinHandle<io::Result<()>>>,
    #[cfg(feature = "tls")]
    tls: Option<Arc<Acceptor>>,
}

impl RunningServer {
    /// Has the files of certificates read again, by a thread of its own: what came of it is in the
    /// log. They are read anyway when they change. Nothing else of a server is read again.
    ///
    /// Returns whether there is anything to read.
    pub fn reload(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.as_ref().is_some_and(|tls| tls.reload());
        #[cfg(not(feature = "tls"))]
        false
    }

    /// The first network address with its real port; `0.0.0.0:0` if it listens on Unix sockets
    /// alone.
    pub fn local_addr(&self) -> SocketAddr {
        first_net(&self.addresses)
    }

    /// All that it listens on, in the order in which it was said, with the real ports.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// How its threads wait: the ring or epoll, never [`Backend::Auto`].
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// A handle by which any thread can end the service.
    pub fn shutdown_handle(&self) -> ShutdownHandle {
        self.handle.clone()
    }

    /// Ends the service on Ctrl-C and SIGTERM, and hears of others as [`Server::run`] does.
    ///
    /// # Errors
    /// When the system refuses the signal handlers.
    pub fn shutdown_on_signals(&self) -> Result<(), ServerError> {
        self.end_on(ending_signals()?)
    }

    fn end_on(&self, mut signals: Signals) -> Result<(), ServerError> {
        let handle = self.handle.clone();
        #[cfg(feature = "tls")]
        let tls = self.tls.clone();
        let reload = move || {
            #[cfg(feature = "tls")]
            return tls.as_ref().is_some_and(|tls| tls.reload());
            #[cfg(not(feature = "tls"))]
            false
        };
        std::thread::Builder::new()
            .name("marmota-signals".to_owned())
            .spawn(move || {
                let mut is_ending = false;
                for signal in signals.forever() {
                    match signal {
                        SIGHUP if reload() => {
                            log::info!("SIGHUP: the certificates are read again");
                        }
                        SIGHUP => log::info!("SIGHUP: nothing to read again; ignored"),
                        SIGUSR1 | SIGUSR2 => log::info!("signal {signal} is ignored"),
                        // At once: what runs at an exit may wait for what hangs.
                        _ if is_ending => signal_hook::low_level::exit(128 + signal),
                        _ => {
                            is_ending = true;
                            handle.shutdown();
                        }
                    }
                }
            })
            .map_err(ServerError::Thread)?;
        Ok(())
    }

    /// Waits until the service has ended; does not end it.
    ///
    /// # Errors
    /// The first error that ended a thread early.
    pub fn join(mut self) -> Result<(), ServerError> {
        self.wait()
    }

    /// Ends the service and waits for the requests in flight.
    ///
    /// # Errors
    /// As [`RunningServer::join`].
    pub fn shutdown(mut self) -> Result<(), ServerError> {
        self.handle.shutdown();
        self.wait()
    }

    fn wait(&mut self) -> Result<(), ServerError> {
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
            if let Err(error) = ended {
                // One thread's end is the server's: the rest must not go on half served.
                self.handle.shutdown();
                result = result.and(Err(ServerError::Thread(error)));
            }
        }
        result
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.handle.shutdown();
        let _ = self.wait();
    }
}

/// Hears from now on of the signals that end a service, and of those that would end it otherwise.
fn ending_signals() -> Result<Signals, ServerError> {
    Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2]).map_err(ServerError::Thread)
}

/// Ends a service from anywhere.
#[derive(Clone, Debug)]
pub struct ShutdownHandle {
    common: Arc<Common>,
    inboxes: Arc<[Arc<Inbox>]>,
}

impl ShutdownHandle {
    /// No further connection is taken, requests in flight are answered with
    /// `Connection: close`, and after the drain timeout at the latest all is closed.
    pub fn shutdown(&self) {
        self.common.stop.store(true, Ordering::Relaxed);
        for inbox in self.inboxes.iter() {
            inbox.ring();
        }
    }
}

/// The cores that the process may use.
fn cores() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect(),
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    }
}
