//! Where a server is and comes back to, for each transport.

use std::sync::atomic::{AtomicU32, Ordering};

use marmota_http::{Limits, RunningServer, Server};
use marmota_remote::{Remote, Service};

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
    address: String,
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

    pub(crate) fn serve(&self, service: &Service) -> RunningServer {
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
        server.start(service.router()).unwrap()
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

    /// Its host and port.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn remote(&self) -> Remote {
        let remote = Remote::from_url(&self.url()).unwrap();
        match &self.authority {
            Some(authority) => remote.ca_file(authority.file()),
            None => remote,
        }
    }
}
