//! Binding, starting and stopping: the only place that knows how many threads there are.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use rustix::fd::OwnedFd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::backend::{Backend, VARIABLE};
use crate::limits::Limits;
use crate::listener;
use crate::local::Local;
use crate::reactor::Reactor;
use crate::router::{RouteError, Router, Routes};
use crate::task::Inbox;
use crate::worker::{Common, Worker};

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
    address: SocketAddr,
    first: OwnedFd,
    servers: Option<usize>,
    threads: Option<usize>,
    pin: bool,
    backend: Backend,
    name: String,
    limits: Limits,
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
    /// The environment names a backend that there is none of.
    Backend(String),
    /// The ring was asked for and the system has none, or does not allow it.
    Ring(io::Error),
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
            Self::Thread(error) => write!(f, "a server thread cannot go on: {error}"),
        }
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Bind { source, .. } | Self::Ring(source) | Self::Thread(source) => Some(source),
            Self::Route(error) => Some(error),
            Self::Name(_) | Self::Backend(_) => None,
        }
    }
}

impl From<RouteError> for ServerError {
    fn from(error: RouteError) -> Self {
        Self::Route(error)
    }
}

impl Server {
    /// Binds to the first usable address; port 0 takes a free one.
    ///
    /// # Errors
    /// [`ServerError::Bind`], also when another process listens there already.
    pub fn bind(address: impl ToSocketAddrs + fmt::Debug) -> Result<Self, ServerError> {
        let error = |source| ServerError::Bind { address: format!("{address:?}"), source };
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
        for candidate in address.to_socket_addrs().map_err(error)? {
            let opened = listener::check_free(candidate).and_then(|()| {
                let first = listener::open(candidate)?;
                Ok((listener::address(&first)?, first))
            });
            match opened {
                Ok((address, first)) => {
                    return Ok(Self {
                        address,
                        first,
                        servers: None,
                        threads: None,
                        pin: false,
                        backend: Backend::Auto,
                        name: "Marmota".to_owned(),
                        limits: Limits::default(),
                    });
                }
                Err(error) => last = error,
            }
        }
        Err(error(last))
    }

    /// How many listeners share the port; by default one for each core, divided by
    /// [`threads`](Self::threads) when that is set.
    #[must_use]
    pub fn servers(mut self, servers: usize) -> Self {
        self.servers = Some(servers.max(1));
        self
    }

    /// How many threads work on each listener, 1 by default.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads.max(1));
        self
    }

    /// Ties each thread to one of the cores the process may use.
    #[must_use]
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = pin;
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

    /// The address with the real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Starts the threads and returns.
    ///
    /// # Errors
    /// When a route or the name is malformed, or the system refuses a socket or a thread.
    pub fn start(self, router: Router) -> Result<RunningServer, ServerError> {
        if self.name.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(ServerError::Name(self.name));
        }
        let backend = self.backend.settle()?;
        raise_file_limit();
        let routes = Arc::new(router.into_routes()?);
        let runtime = Runtime::new(&routes).map_err(ServerError::Thread)?;
        let cores = cores();
        let threads = self.threads.unwrap_or(1);
        let servers = self.servers.unwrap_or_else(|| cores.len().div_ceil(threads).max(1));
        let mut listeners = vec![Arc::new(self.first)];
        for _ in 1..servers {
            let listener = listener::open(self.address).map_err(|source| ServerError::Bind {
                address: self.address.to_string(),
                source,
            })?;
            listeners.push(Arc::new(listener));
        }
        let common = Arc::new(Common::default());
        let mut running = RunningServer {
            address: self.address,
            backend,
            handle: ShutdownHandle { common: Arc::clone(&common), inboxes: Arc::default() },
            threads: Vec::new(),
        };
        let inboxes = (0..servers * threads).map(|_| Inbox::new()).collect::<io::Result<Vec<_>>>();
        let inboxes: Arc<[Arc<Inbox>]> = inboxes.map_err(ServerError::Thread)?.into();
        running.handle.inboxes = Arc::clone(&inboxes);
        for (index, inbox) in inboxes.iter().enumerate() {
            let seat = Seat {
                listener: Arc::clone(&listeners[index % servers]),
                core: self.pin.then(|| cores.get(index % cores.len().max(1)).copied()).flatten(),
                backend,
                runtime: runtime.clone(),
                limits: self.limits.clone(),
                routes: Arc::clone(&routes),
                inbox: Arc::clone(inbox),
                name: self.name.clone(),
                common: Arc::clone(&common),
            };
            let thread = std::thread::Builder::new()
                .name(format!("marmota-http-{index}"))
                .spawn(move || seat.serve())
                .map_err(ServerError::Thread)?;
            running.threads.push(thread);
        }
        Ok(running)
    }

    /// Serves until Ctrl-C, SIGTERM or a [`ShutdownHandle`] ends it; a second signal ends the
    /// process at once.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn run(self, router: Router) -> Result<(), ServerError> {
        let running = self.start(router)?;
        running.shutdown_on_signals()?;
        running.join()
    }
}

/// A server that is serving. Dropping it shuts it down and waits for it.
#[derive(Debug)]
pub struct RunningServer {
    address: SocketAddr,
    backend: Backend,
    handle: ShutdownHandle,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl RunningServer {
    /// The address with the real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// How its threads wait: the ring or epoll, never [`Backend::Auto`].
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// A handle by which any thread can end the service.
    pub fn shutdown_handle(&self) -> ShutdownHandle {
        self.handle.clone()
    }

    /// Ends the service on Ctrl-C and SIGTERM.
    ///
    /// # Errors
    /// When the system refuses the signal handlers.
    pub fn shutdown_on_signals(&self) -> Result<(), ServerError> {
        let mut signals =
            signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(ServerError::Thread)?;
        let handle = self.handle.clone();
        std::thread::Builder::new()
            .name("marmota-signals".to_owned())
            .spawn(move || {
                for (count, signal) in signals.forever().enumerate() {
                    if count > 0 {
                        std::process::exit(128 + signal);
                    }
                    handle.shutdown();
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

/// Everything a server thread starts with.
struct Seat {
    listener: Arc<OwnedFd>,
    core: Option<usize>,
    backend: Backend,
    runtime: Runtime,
    limits: Limits,
    routes: Arc<Routes>,
    inbox: Arc<Inbox>,
    name: String,
    common: Arc<Common>,
}

impl Seat {
    fn serve(self) -> io::Result<()> {
        if let Some(core) = self.core {
            let mut set = CpuSet::new();
            set.set(core);
            sched_setaffinity(None, &set)?;
        }
        let local = Local::new(self.limits, self.routes, self.inbox, &self.name);
        let reactor = Reactor::new(self.backend)?;
        let worker = Worker::new(self.listener, local, self.common, reactor)?;
        self.runtime.within(|| worker.run())
    }
}

/// The tokio runtime that handlers may use, when one of them may.
#[derive(Clone)]
struct Runtime {
    #[cfg(feature = "tokio")]
    tokio: Option<Arc<tokio::runtime::Runtime>>,
}

impl Runtime {
    #[cfg(feature = "tokio")]
    fn new(routes: &Routes) -> io::Result<Self> {
        if !routes.endpoints().any(|endpoint| endpoint.asynchronous) {
            return Ok(Self { tokio: None });
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("marmota-tokio")
            .enable_all()
            .build()?;
        Ok(Self { tokio: Some(Arc::new(runtime)) })
    }

    #[cfg(not(feature = "tokio"))]
    fn new(_: &Routes) -> io::Result<Self> {
        Ok(Self {})
    }

    /// Calls `serve` with the runtime entered for as long as it lasts, so that entering costs
    /// nothing a request.
    fn within<T>(&self, serve: impl FnOnce() -> T) -> T {
        #[cfg(feature = "tokio")]
        let _entered = self.tokio.as_ref().map(|tokio| tokio.enter());
        serve()
    }
}

/// The cores that the process may use.
fn cores() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect(),
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    }
}

/// Every connection is an open file, and the usual soft limit of 1,024 stands for programs that
/// use `select`; this one does not.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // When it fails the old limit holds, and running out of files is handled.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
