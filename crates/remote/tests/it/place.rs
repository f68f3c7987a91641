//! Where a server is and comes back to, for each transport.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use marmota_http::{Limits, RouteChanges, Router, RunningServer, Server};

use crate::authority::Authority;

/// What carries packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Transport {
    Unix,
    Http,
    WebSocket,
    Https,
    SecureWebSocket,
}

use Transport::{Http, Https, SecureWebSocket, Unix, WebSocket};

/// See the module.
#[derive(Debug)]
pub(crate) struct Place {
    transport: Transport,
    /// Its host and port, or the URL of a Unix socket.
    pub(crate) address: String,
    /// Who vouches for the server, if it speaks TLS.
    authority: Option<Authority>,
    _folder: Option<tempfile::TempDir>,
}

impl Place {
    pub(crate) fn of(transport: Transport) -> Self {
        if transport == Unix {
            let folder = tempfile::tempdir().unwrap();
            let address = format!("unix:{}", folder.path().join("socket").display());
            return Self { transport, address, authority: None, _folder: Some(folder) };
        }
        // An address of its own, where nobody else takes the port while the server is away.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let host =
            format!("127.{}.{}.{}", 1 + process % 250, process / 250 % 250, 1 + number % 250);
        let bound = Server::bind((host.parse::<std::net::Ipv4Addr>().unwrap(), 0)).unwrap();
        let is_secure = matches!(transport, Https | SecureWebSocket);
        let authority = is_secure.then(Authority::new);
        Self { transport, address: bound.local_addr().to_string(), authority, _folder: None }
    }

    /// One for each transport.
    pub(crate) fn all() -> Vec<Self> {
        [Unix, Http, WebSocket, Https, SecureWebSocket].map(Self::of).into()
    }

    /// Starts a server with these routes, which `changes` can replace.
    pub(crate) fn start(&self, router: Router, changes: &RouteChanges) -> RunningServer {
        // A transaction that stands open is not waited for long.
        let limits = Limits { drain_timeout_ms: 500, ..Limits::default() };
        let server = Server::bind(self.address.as_str()).unwrap().listeners(1).limits(limits);
        let server = match &self.authority {
            Some(authority) => {
                let (host, _) = self.address.rsplit_once(':').unwrap();
                server.tls(authority.tls(host, 2200))
            }
            None => server,
        };
        server.route_changes(changes).start(router).unwrap()
    }

    pub(crate) fn url(&self) -> String {
        match self.transport {
            Unix => self.address.clone(),
            Http => format!("http://{}/api", self.address),
            WebSocket => format!("ws://{}/api", self.address),
            Https => format!("https://{}/api", self.address),
            SecureWebSocket => format!("wss://{}/api", self.address),
        }
    }

    /// The file of the authority that its clients trust.
    pub(crate) fn ca_file(&self) -> Option<PathBuf> {
        self.authority.as_ref().map(Authority::file)
    }
}
