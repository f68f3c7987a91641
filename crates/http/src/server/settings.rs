//! The builder methods of a server that change its settings. None of them touches a socket; values
//! are checked by [`Server::start`], which reports the first error.

use crate::message::limits::Limits;
use crate::message::sites::{SiteError, Sites};
use crate::middleware::access_log::AccessLog;
use crate::middleware::metrics::Metrics;
use crate::reactor::backend::Backend;
use crate::reactor::batch_scheduling::BatchScheduling;
use crate::server::Server;
use crate::server::running::{ReloadHook, RunningServer, StartHook};
use crate::socket::proxies::{ForwardedHeader, Proxies};
#[cfg(feature = "tls")]
use crate::socket::tls::Tls;

impl Server {
    /// Serves TLS on its ports. Unix sockets stay without TLS, because their data does not leave
    /// the machine. Plain HTTP on a port with TLS is answered with 400.
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

    /// Trusts these proxies to name the client of each request: addresses, networks (`10.0.0.0/8`),
    /// and `unix` for all that connect through a Unix socket. They name it by the headers
    /// `X-Forwarded-For`, `-Proto` and `-Host`, or by the header that [`Server::forwarded_header`]
    /// sets. [`crate::Request::client_ip`], [`crate::Request::scheme`] and [`crate::Request::host`]
    /// return these values. Default: no proxy is trusted.
    ///
    /// ```
    /// use marmota_http::Server;
    /// let proxies = ["127.0.0.1", "fd00::/8", "unix"];
    /// let server = Server::bind("127.0.0.1:0")?.trusted_proxies(proxies);
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    #[must_use]
    pub fn trusted_proxies<N: AsRef<str>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.trusted = Proxies::named(names);
        self
    }

    /// Sets the one header by which trusted proxies name the client. The other is ignored, because
    /// a proxy that does not set it passes on what the client has written. Default:
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

    /// Changes the allowed origins and hosts. The first error is kept for [`Server::start`].
    pub(crate) fn with_sites(
        mut self,
        allow: impl FnOnce(&mut Sites) -> Result<(), SiteError>,
    ) -> Self {
        self.sites = self.sites.and_then(|mut sites| allow(&mut sites).map(|()| sites));
        self
    }

    /// Requires a header of the PROXY protocol, version 1 or 2, at the beginning of each connection
    /// from these addresses (named as for [`Server::trusted_proxies`]). [`crate::Request::peer`] is
    /// then the address in that header. Connections from other addresses have no such header.
    /// Default: none has it.
    ///
    /// ```
    /// use marmota_http::Server;
    /// // Behind a TCP load balancer such as HAProxy with `send-proxy-v2`.
    /// let server = Server::bind("127.0.0.1:0")?.proxy_protocol(["10.0.0.0/8"]);
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    #[must_use]
    pub fn proxy_protocol<N: AsRef<str>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.proxy_protocol_peers = Some(Proxies::named(names));
        self
    }

    /// Sets the permissions of the files of its Unix sockets: a process that can write to the file
    /// can connect. Default: the umask decides, which usually leaves them to the owner.
    ///
    /// ```
    /// use marmota_http::Server;
    /// # let path = std::env::temp_dir().join(format!("marmota-mode-{}", std::process::id()));
    /// # let address = format!("unix:{}", path.display());
    /// // For the group too: `unix:/run/service.sock`, served to nginx.
    /// let server = Server::bind(&address)?.socket_mode(0o660);
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    #[must_use]
    pub fn socket_mode(mut self, mode: u32) -> Self {
        self.socket_mode = Some(mode);
        self
    }

    /// Sets the number of listeners that share a port, at least 1. Default: one for each core,
    /// divided by [`threads_per_listener`](Self::threads_per_listener) if that is set.
    ///
    /// ```
    /// use marmota_http::Server;
    /// // Four threads in total: two on each of two listeners.
    /// let server = Server::bind("127.0.0.1:0")?.listeners(2).threads_per_listener(2);
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    #[must_use]
    pub fn listeners(mut self, servers: usize) -> Self {
        self.servers = Some(servers);
        self
    }

    /// Sets the number of threads for each listener, at least 1. Default: 1.
    #[must_use]
    pub fn threads_per_listener(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Sets whether each thread is bound to one of the cores that the process may use. Default:
    /// false; the scheduler may move threads. Binding helps if the machine serves nothing else, and
    /// harms otherwise.
    ///
    /// ```
    /// use marmota_http::{Router, Server};
    /// let running = Server::bind("127.0.0.1:0")?.pin(true).start(Router::new())?;
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
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

    /// Sets how the threads wait, read and write. Default: [`Backend::Auto`], io_uring if the
    /// kernel allows it, else epoll; the variable `MARMOTA_HTTP_BACKEND` overrides this default.
    ///
    /// ```
    /// use marmota_http::{Backend, Router, Server};
    /// let running = Server::bind("127.0.0.1:0")?.backend(Backend::Epoll).start(Router::new())?;
    /// assert_eq!(running.backend(), Backend::Epoll);
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// Sets a function that [`Server::run`] calls when all threads serve, for example to report to a
    /// service manager that the program is ready. Default: none.
    ///
    /// ```no_run
    /// use marmota_http::{Router, Server};
    /// let server = Server::bind("127.0.0.1:8080")?;
    /// server.on_start(|running| println!("{}", running.local_addr())).run(Router::new())?;
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    #[must_use]
    pub fn on_start(mut self, hook: impl FnOnce(&RunningServer) + 'static) -> Self {
        self.start_hook = Some(StartHook(Box::new(hook)));
        self
    }

    /// Sets a function that SIGHUP calls, before the certificates are read again. It is for
    /// [`Server::run`], on the thread that waits for signals: a function that does not return
    /// delays the end of the server. Default: none.
    ///
    /// ```no_run
    /// use marmota_http::{Router, Server};
    /// let server = Server::bind("127.0.0.1:8080")?;
    /// server.on_reload(|| println!("reading the settings again")).run(Router::new())?;
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    #[must_use]
    pub fn on_reload(mut self, hook: impl Fn() + Send + 'static) -> Self {
        self.reload_hook = Some(ReloadHook(Box::new(hook)));
        self
    }

    /// Sets the limits: sizes, times, numbers of connections. Default: [`Limits::default`].
    ///
    /// ```
    /// use marmota_http::{Limits, Server};
    /// let mut limits = Limits::default();
    /// limits.body_bytes_max = 1 << 20; // 1 MiB
    /// let server = Server::bind("127.0.0.1:0")?.limits(limits);
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the value of the `Server` header; an empty text omits the header. Default: `Marmota`. A
    /// control character fails the start.
    ///
    /// ```
    /// use marmota_http::Server;
    /// let server = Server::bind("127.0.0.1:0")?.name("library/2.1");
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Counts connections, bytes, answers and latencies of this server in `metrics`; see
    /// [`Metrics`]. Default: nothing is counted.
    ///
    /// ```
    /// use marmota_http::{Metrics, Router, Server};
    /// let metrics = Metrics::new();
    /// let router = Router::new().metrics("/metrics", &metrics);
    /// let running = Server::bind("127.0.0.1:0")?.metrics(&metrics).start(router)?;
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.observing.metrics = Some(metrics.clone());
        self
    }

    /// Writes a line for each request; see [`AccessLog`]. Default: no line is written.
    ///
    /// ```
    /// use marmota_http::{AccessLog, Router, Server};
    /// let log = AccessLog::combined(std::io::stdout())?;
    /// let running = Server::bind("127.0.0.1:0")?.access_log(&log).start(Router::new())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn access_log(mut self, log: &AccessLog) -> Self {
        self.observing.access_log = Some(log.clone());
        self
    }

    /// Allows pages of these other origins to write through REST, to call services and to open
    /// WebSockets: `https://app.example.org`, with the port unless it is the default one. Default:
    /// only pages of the server's own origin. Whether such a page may read the answers is decided
    /// by [`crate::Cors`], which allows its origins by itself. A malformed origin fails the start.
    ///
    /// ```
    /// use marmota_http::Server;
    /// let server = Server::bind("127.0.0.1:0")?.allowed_origins(["https://app.example.org"]);
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    #[must_use]
    pub fn allowed_origins<N: AsRef<str>>(self, origins: impl IntoIterator<Item = N>) -> Self {
        self.with_sites(|sites| sites.allow_origins(origins))
    }

    /// Allows requests over the loopback interface to name these hosts (without a port) in `Host`.
    /// Default: `localhost`, names below it, and addresses; any other name may belong to a foreign
    /// page whose owner has pointed it at this machine (DNS rebinding). Requests from a trusted
    /// proxy ([`Server::trusted_proxies`]), over TLS or through a Unix socket may name any host. A
    /// malformed host fails the start.
    ///
    /// ```
    /// use marmota_http::Server;
    /// let server = Server::bind("127.0.0.1:0")?.allowed_hosts(["office.internal"]);
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    #[must_use]
    pub fn allowed_hosts<N: AsRef<str>>(self, hosts: impl IntoIterator<Item = N>) -> Self {
        self.with_sites(|sites| sites.allow_hosts(hosts))
    }
}
