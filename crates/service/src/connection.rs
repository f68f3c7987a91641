//! How a client connects, and what it does when a connection breaks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result};

use crate::carrier::Carrier;
use crate::client::Client;
use crate::line::{self, Line};
use crate::link::Link;
use crate::services::Services;

/// A connection to services elsewhere, to be made.
///
/// One that breaks is made anew by itself, with pauses that grow from 10 ms to 2 s and
/// differ from client to client. A call that was sent when it broke is
/// [`ErrorKind::Lost`]: it may have taken place, and is not sent again unless its method
/// is `#[idempotent]`. A call that was not, waits for the next connection as long as for
/// any answer ([`Client::deadline`]), and is [`ErrorKind::Refused`] if there is none: nothing was
/// done. Where the server answers and does not let this client in, calls fail at once with what it
/// says ([`ErrorKind::Denied`] for instance). A stub that has an instance of its own
/// ([`crate::Lifetime::Stub`]) has lost it with the connection, and says so.
///
/// ```no_run
/// use std::time::Duration;
/// use marmota_service::Client;
///
/// let connection = Client::builder("unix:/run/app.sock").token("secret");
/// let client = connection.reconnect_for(Duration::from_secs(60)).connect()?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Connection {
    url: String,
    token: String,
    offered: Services,
    ca_file: Option<PathBuf>,
    reconnect_for: Option<Duration>,
}

impl Connection {
    pub(crate) fn to(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            token: String::new(),
            offered: Services::new(),
            ca_file: None,
            reconnect_for: None,
        }
    }

    /// Who calls: a token of a login, or a key.
    pub fn token(mut self, token: &str) -> Self {
        token.clone_into(&mut self.token);
        self
    }

    /// Services that the other side may call back ([`crate::Call::client`]).
    pub fn callbacks(mut self, offered: &Services) -> Self {
        self.offered = offered.clone();
        self
    }

    /// A file of certificates (PEM) of those who vouch for servers at `https://` and `wss://`,
    /// instead of those that this machine believes.
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(file.into());
        self
    }

    /// How long a server that has gone is sought: for ever unless it is said. Behind that time
    /// the connection has ended, and calls are refused.
    pub const fn reconnect_for(mut self, time: Duration) -> Self {
        self.reconnect_for = Some(time);
        self
    }

    /// Connects.
    ///
    /// # Errors
    /// As [`Client::connect`]: a server that was never there is not sought.
    pub fn connect(self) -> Result<Client> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(|error| {
            let message = format!("the system gives no random numbers: {error}");
            Error::new(ErrorKind::Io, message)
        })?;
        let secret = format!("{:032x}", u128::from_le_bytes(secret));
        let hello =
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"-.client\",\"params\":[\"{secret}\"]}}");
        let link = Link::lasting();
        let settings = Arc::clone(&self.offered.0);
        let carrier = move |link: &Link| {
            let mut origin = settings.origin();
            origin.back = Some(Client::of_link(link));
            // What the other side's stubs own here ends with each connection.
            origin.owned = Some(Arc::default());
            Carrier::new(link.clone(), Arc::clone(&settings), origin)
        };
        let line = Line {
            url: self.url,
            credential: self.token.into_bytes(),
            ca_file: self.ca_file,
            hello: hello.into_bytes(),
            reconnect_for: self.reconnect_for,
        };
        line::keep(line, &link, carrier)?;
        Ok(Client::holding(link))
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({})", self.url)
    }
}
