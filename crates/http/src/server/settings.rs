//! How a server is configured before it starts.

use crate::message::limits::Limits;
use crate::message::sites::{SiteError, Sites};
use crate::middleware::access_log::AccessLog;
use crate::middleware::metrics::Metrics;
use crate::reactor::backend::Backend;
use crate::reactor::batch_scheduling::BatchScheduling;
use crate::server::Server;
use crate::socket::proxies::{ForwardedHeader, Proxies};
#[cfg(feature = "tls")]
use crate::socket::tls::Tls;

impl Server {
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
        self.proxy_protocol_peers = Some(Proxies::named(names));
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

    /// Allows pages of these other origins to write through REST, to call services and to open
    /// WebSockets: `https://app.example.org`, with the port if it is not the usual one. Default:
    /// pages of the server's own origin alone. Whether such a page may read the answers is a
    /// matter of [`crate::Cors`], which allows its origins by itself. An origin of another form
    /// fails the start.
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
    /// Default: `localhost`, names below it, and addresses, as another name may be one that a
    /// foreign page's owner points at this machine. Requests that a trusted proxy passes on
    /// ([`Server::trusted_proxies`]), that come over TLS or by a Unix socket, may name any. A host
    /// of another form fails the start.
    #[must_use]
    pub fn allowed_hosts<N: AsRef<str>>(self, hosts: impl IntoIterator<Item = N>) -> Self {
        self.with_sites(|sites| sites.allow_hosts(hosts))
    }
}
