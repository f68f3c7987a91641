//! The client of services in this process or another.

use std::sync::Arc;
use std::time::Duration;

use futures_lite::stream::StreamExt as _;
use marmota_model::{Error, ErrorKind, Result};
use serde_json::value::RawValue;

use crate::contract::Contract;
use crate::failure::Failure;
use crate::peer::{CONTRACT, Known, OutgoingCall, Peer, Terms};
use crate::transfer::{Answer, ChunkStream, Expected, Reply};

mod owned;
pub(crate) mod stub;
mod subscriber;
mod written;

pub(crate) use owned::Owned;
pub(crate) use subscriber::Subscriber;
pub use written::Written;

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
    InProcess {
        services: Arc<dyn InProcess>,
        offered: Option<Arc<dyn InProcess>>,
        owned: Arc<Owned>,
    },
    Peer {
        peer: Peer,
        _held: Option<Arc<Held>>,
    },
}

/// Services of this process, as their clients see them.
pub(crate) trait InProcess: Send + Sync {
    /// Describes a service.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if it does not exist.
    fn known(&self, service: &str) -> Result<Known>;

    /// Starts a call. The arguments are JSON; the numbers in it refer to the streams.
    ///
    /// # Errors
    /// If the method does not exist, the arguments are invalid or the service refuses the call.
    fn begin(
        &self,
        method: &str,
        arguments: &[u8],
        streams: Vec<ChunkStream>,
        caller: CallerInside,
    ) -> Result<Answer>;
}

/// A client in this process, as the services that it calls see it.
pub(crate) struct CallerInside {
    /// A client for the services that it offers.
    pub(crate) back: Option<Client>,
    /// The instances owned by its stubs.
    pub(crate) owned: Arc<Owned>,
    /// The number of the calling stub.
    pub(crate) stub: Option<u64>,
}

/// Ends the connections to a peer when its last client is dropped.
struct Held(Peer);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Client {
    /// Creates a client for services of this process, which can call back those `offered`.
    pub(crate) fn inside(
        services: Arc<dyn InProcess>,
        offered: Option<Arc<dyn InProcess>>,
    ) -> Self {
        Self::by(Way::InProcess { services, offered, owned: Arc::default() })
    }

    const fn by(way: Way) -> Self {
        Self { way, deadline: DEADLINE, item_bytes_max: ITEM_BYTES_MAX }
    }

    /// Creates a client for a peer whose connections end with the last of its clients.
    pub(crate) fn holding(peer: Peer) -> Self {
        let held = Arc::new(Held(peer.clone()));
        Self::by(Way::Peer { peer, _held: Some(held) })
    }

    /// Returns true if the peer is currently reachable: false between two connections, and after
    /// the last one has ended.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        match &self.way {
            Way::InProcess { .. } => true,
            Way::Peer { peer, .. } => peer.is_here(),
        }
    }

    /// Creates a client for the services that a peer offers.
    pub(crate) fn of_peer(peer: &Peer) -> Self {
        Self::by(Way::Peer { peer: peer.clone(), _held: None })
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

    /// Calls a method by its name (`calculator.add`, or that of a `#[method]`) without a stub.
    /// `arguments` is a JSON object by name, or an array. Returns the result as JSON. No contract is
    /// compared: the service checks the arguments.
    ///
    /// # Errors
    /// Errors of the method and of the transport; [`ErrorKind::Invalid`] if `arguments` is not JSON;
    /// [`ErrorKind::Unsupported`] if the result is a stream.
    pub async fn call_json(&self, method: &str, arguments: &str) -> Result<String> {
        serde_json::from_str::<&RawValue>(arguments).map_err(|error| {
            let message = format!("the arguments of {method} are not JSON: {error}");
            Error::new(ErrorKind::Invalid, message)
        })?;
        let arguments = (arguments.as_bytes().to_vec(), Vec::new());
        match self.call(method, arguments, (None, None), false).await? {
            Reply::Value(json) => String::from_utf8(json).map_err(|error| {
                let message = format!("the answer of {method} is not UTF-8");
                Error::new(ErrorKind::Protocol, message).with_source(error)
            }),
            Reply::Stream(_) => {
                let message = format!("the result of {method} is a stream: use a stub");
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
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
        let peer = match &self.way {
            Way::InProcess { services, .. } => {
                let theirs = services.known(ours.name)?;
                return theirs.check(ours).map(|()| Some(theirs.terms(ours)));
            }
            Way::Peer { peer, .. } => peer,
        };
        loop {
            let connection = peer.connection();
            let Some(theirs) = self.contract(peer, ours.name).await? else { return Ok(None) };
            theirs.check(ours)?;
            let terms = theirs.terms(ours);
            // The answer may belong to a newer connection, made in the meantime.
            if peer.agree(connection, terms) {
                return Ok(Some(terms));
            }
        }
    }

    async fn contract(&self, peer: &Peer, name: &str) -> Result<Option<Known>> {
        // A string: serializing cannot fail.
        let name = serde_json::to_vec(&[name]).unwrap_or_default();
        let asked = OutgoingCall {
            method: CONTRACT,
            params: &name,
            terms: None,
            stub: None,
            deadline: self.deadline,
            is_retryable: true,
        };
        match peer.call(asked, Vec::new()).await {
            Ok(Reply::Stream(_)) => Err(Known::no_contract("it is a stream")),
            Ok(Reply::Value(answer)) => Known::of_json(&answer).map(Some),
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn call(
        &self,
        method: &str,
        (arguments, streams): (Vec<u8>, Vec<ChunkStream>),
        (terms, stub): (Option<Terms>, Option<u64>),
        is_retryable: bool,
    ) -> Result<Reply> {
        let (services, offered, owned) = match &self.way {
            Way::InProcess { services, offered, owned } => (services, offered, owned),
            Way::Peer { peer, .. } => {
                let (params, deadline) = (&arguments[..], self.deadline);
                let asked = OutgoingCall { method, params, terms, stub, deadline, is_retryable };
                return peer.call(asked, streams).await;
            }
        };
        let caller = CallerInside {
            back: offered.clone().map(|offered| Self::inside(offered, None)),
            owned: Arc::clone(owned),
            stub,
        };
        // The same error messages as for remote calls.
        let called: Arc<str> = method.into();
        let as_elsewhere = move |error: Error| Failure::of(&error, &called).into_error();
        let begun = services.begin(method, &arguments, streams, caller);
        let reply = begun.map_err(&as_elsewhere)?.await;
        Ok(match reply.map_err(&as_elsewhere)? {
            Reply::Stream(pieces) => Reply::Stream(ChunkStream::new(
                pieces.map(move |piece| piece.map_err(&as_elsewhere)),
            )),
            value @ Reply::Value(_) => value,
        })
    }

    /// Releases the instance that a stub owns.
    pub(crate) fn release(&self, service: &'static str, stub: u64) {
        match &self.way {
            Way::InProcess { owned, .. } => owned.release(service, stub),
            Way::Peer { peer, .. } => peer.release(service, stub),
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match &self.way {
            Way::InProcess { .. } => "Client(in process)",
            Way::Peer { .. } => "Client(over a connection)",
        })
    }
}
