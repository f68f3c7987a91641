//! The client of services in this process or another.

use std::sync::Arc;
use std::time::Duration;

use futures_lite::stream::StreamExt as _;
use marmota_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::arguments::Streams;
use crate::call::CallOrigin;
use crate::connection::Connection;
use crate::contract::Contract;
use crate::failure::Failure;
use crate::form::{Expected, Reply};
use crate::link::{Asked, CONTRACT, Link, Terms};
use crate::owned::Owned;
use crate::pieces::Pieces;
use crate::services::{Services, Settings};
use crate::subscriber::Subscriber;

/// The default deadline of a call.
const DEADLINE: Duration = Duration::from_secs(30);

/// The default maximum size of an item of a result, in bytes.
const ITEM_BYTES_MAX: usize = 16 << 20;

/// A client of services in this process or another.
#[derive(Clone)]
pub struct Client {
    way: Way,
    deadline: Duration,
    item_bytes_max: usize,
}

#[derive(Clone)]
enum Way {
    InProcess { services: Arc<Settings>, offered: Option<Services>, owned: Arc<Owned> },
    Link { link: Link, _held: Option<Arc<Held>> },
}

/// Ends a link when its last client is dropped.
struct Held(Link);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The peer's description of a service.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) is_method: bool,
    /// The signature and hash of each method.
    pub(crate) methods: Vec<(String, u64)>,
    /// True if each stub has a separate instance.
    #[serde(default)]
    pub(crate) per_stub: bool,
}

impl Client {
    /// Creates a client for services of this process. Calls pass the same checks and codecs as
    /// remote calls.
    #[must_use]
    pub fn in_process(services: &Services) -> Self {
        Self::inside(services, None)
    }

    /// Creates a client for services of this process, which can call back the services `offered`
    /// ([`crate::Call::client`]).
    #[must_use]
    pub fn in_process_offering(services: &Services, offered: &Services) -> Self {
        Self::inside(services, Some(offered.clone()))
    }

    fn inside(services: &Services, offered: Option<Services>) -> Self {
        let (services, owned) = (Arc::clone(&services.0), Arc::default());
        Self::by(Way::InProcess { services, offered, owned })
    }

    const fn by(way: Way) -> Self {
        Self { way, deadline: DEADLINE, item_bytes_max: ITEM_BYTES_MAX }
    }

    /// Returns a builder for a connection to services at a URL: `unix:/run/app.sock` (`unix:@name`
    /// in the abstract namespace; a prefix follows a `#`), `http://host:port/api`,
    /// `ws://host:port/api`, and over TLS `https://host:port/api`, `wss://host:port/api`.
    pub fn builder(url: &str) -> Connection {
        Connection::to(url)
    }

    /// Connects to services at a URL as for [`Client::builder`]. The connection carries many
    /// concurrent calls, reconnects automatically when it breaks ([`Connection`]), and ends when
    /// its last stub and client are dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if no server listens there, [`ErrorKind::Unauthenticated`] and
    /// [`ErrorKind::Denied`] if the server requires a login or other rights.
    pub fn connect(url: &str) -> Result<Self> {
        Self::builder(url).connect()
    }

    /// Connects as [`Client::connect`], with the caller's token (empty for none) and services that
    /// the server may call back ([`crate::Call::client`]).
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_as(url: &str, token: &str, offered: &Services) -> Result<Self> {
        Self::builder(url).token(token).callbacks(offered).connect()
    }

    /// Creates a client for a link that ends with the last of its clients.
    pub(crate) fn holding(link: Link) -> Self {
        let held = Arc::new(Held(link.clone()));
        Self::by(Way::Link { link, _held: Some(held) })
    }

    /// Returns true if the peer is currently reachable: false between two connections, and after
    /// the last one has ended.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        match &self.way {
            Way::InProcess { .. } => true,
            Way::Link { link, .. } => link.is_here(),
        }
    }

    /// Creates a client for the services that the peer of a link offers.
    pub(crate) fn of_link(link: &Link) -> Self {
        Self::by(Way::Link { link: link.clone(), _held: None })
    }

    /// Sets how long a remote call waits for its answer. Default: 30 s. For a call with streams it
    /// is the time without progress: since the peer took the last bytes of a parameter, and for
    /// each next piece of a result.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the maximum size of an item of a result's [`crate::ItemStream`], as JSON. Default: 16
    /// MiB.
    #[must_use]
    pub const fn item_bytes_max(mut self, bytes: usize) -> Self {
        self.item_bytes_max = bytes;
        self
    }

    /// Returns the limits and error kind for a method's result.
    pub(crate) fn expected(&self, method: &str) -> Expected {
        Expected {
            what: format!("the answer of {method}"),
            fault: ErrorKind::Protocol,
            item_bytes_max: self.item_bytes_max,
            stream_bytes_max: u64::MAX,
        }
    }

    /// Compares a contract with the peer's, on this connection and on each later one. Returns
    /// `None` if the peer does not serve contracts, for example a page in a browser.
    ///
    /// # Errors
    /// If the service does not exist, or its contract differs.
    pub(crate) async fn agree(&self, ours: &'static Contract) -> Result<Option<Terms>> {
        let link = match &self.way {
            Way::InProcess { services, .. } => {
                let theirs = services.service(ours.name).map(|it| Known::of(it))?;
                return theirs.check(ours).map(|()| Some(theirs.terms(ours)));
            }
            Way::Link { link, .. } => link,
        };
        loop {
            let connection = link.connection();
            let Some(theirs) = self.contract(link, ours.name).await? else { return Ok(None) };
            theirs.check(ours)?;
            let terms = theirs.terms(ours);
            // The answer may belong to a newer connection, made in the meantime.
            if link.agree(connection, terms) {
                return Ok(Some(terms));
            }
        }
    }

    async fn contract(&self, link: &Link, name: &str) -> Result<Option<Known>> {
        // A string: serializing cannot fail.
        let name = serde_json::to_vec(&[name]).unwrap_or_default();
        let asked = Asked {
            method: CONTRACT,
            params: &name,
            terms: None,
            stub: None,
            deadline: self.deadline,
            is_retryable: true,
        };
        match link.call(asked, Vec::new()).await {
            Ok(Reply::Stream(_)) => Err(Known::no_contract("it is a stream")),
            Ok(Reply::Value(answer)) => Known::of_json(&answer).map(Some),
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn call(
        &self,
        method: &str,
        (arguments, streams): (Vec<u8>, Vec<Pieces>),
        (terms, stub): (Option<Terms>, Option<u64>),
        is_retryable: bool,
    ) -> Result<Reply> {
        let (services, offered, owned) = match &self.way {
            Way::InProcess { services, offered, owned } => (services, offered, owned),
            Way::Link { link, .. } => {
                let (params, deadline) = (&arguments[..], self.deadline);
                let asked = Asked { method, params, terms, stub, deadline, is_retryable };
                return link.call(asked, streams).await;
            }
        };
        let mut origin = services.own_origin()?;
        origin.back = offered.as_ref().map(Self::in_process);
        origin.subscriber = Some(Arc::new(Subscriber::in_process(owned)));
        (origin.owned, origin.stub) = (Some(Arc::clone(owned)), stub);
        // The same error messages as for remote calls.
        let called: Arc<str> = method.into();
        let as_elsewhere = move |error: Error| Failure::of(&error, &called).into_error();
        let reply = carried_out(services, origin, method, &arguments, streams).await;
        Ok(match reply.map_err(&as_elsewhere)? {
            Reply::Stream(pieces) => {
                Reply::Stream(Pieces::new(pieces.map(move |piece| piece.map_err(&as_elsewhere))))
            }
            value @ Reply::Value(_) => value,
        })
    }

    /// Releases the instance that a stub owns.
    pub(crate) fn release(&self, service: &'static str, stub: u64) {
        match &self.way {
            Way::InProcess { owned, .. } => owned.release(service, stub),
            Way::Link { link, .. } => link.release(service, stub),
        }
    }
}

async fn carried_out(
    services: &Settings,
    origin: CallOrigin,
    method: &str,
    arguments: &[u8],
    streams: Vec<Pieces>,
) -> Result<Reply> {
    let target = services.target(method)?;
    let streams = Streams::Given(streams.into_iter().map(Some).collect());
    let arguments = target.arguments(arguments)?.with_streams(streams, services.limits);
    let answer = target.call(origin, arguments)?;
    answer.await
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match &self.way {
            Way::InProcess { .. } => "Client(in process)",
            Way::Link { .. } => "Client(by a connection)",
        })
    }
}

impl Known {
    pub(crate) fn of(hosted: &crate::Hosted) -> Self {
        let methods = hosted.contract.methods.iter();
        Self {
            name: hosted.contract.name.to_owned(),
            is_method: hosted.is_method,
            methods: methods.map(|method| (method.to_string(), method.hash())).collect(),
            per_stub: hosted.per_stub,
        }
    }

    /// Parses the peer's answer.
    pub(crate) fn of_json(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).map_err(|error| Self::no_contract(&error.to_string()))
    }

    #[cold]
    pub(crate) fn no_contract(why: &str) -> Error {
        Error::new(ErrorKind::Protocol, format!("the answer is no contract: {why}"))
    }

    /// Returns the terms for the calls of a stub with this contract.
    pub(crate) const fn terms(&self, contract: &'static Contract) -> Terms {
        Terms { contract, is_method: self.is_method, per_stub: self.per_stub }
    }

    /// Returns an error if a method of the stub differs. Additional methods of the server are
    /// allowed.
    pub(crate) fn check(&self, ours: &Contract) -> Result<()> {
        for method in ours.methods {
            if self.methods.iter().any(|(_, hash)| *hash == method.hash()) {
                continue;
            }
            let is_named = |text: &str| text.split('(').next() == Some(method.name);
            let theirs = self.methods.iter().find(|(text, _)| is_named(text));
            let theirs = match theirs {
                Some((text, _)) => format!("the server has `{text}`"),
                None => "the server has no method of that name".to_owned(),
            };
            let message = format!(
                "the contract of `{}` differs: here it is `{method}`, {theirs}; build both sides \
                 from the same trait",
                ours.name
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }
}
