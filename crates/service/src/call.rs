//! The current call and its caller, available to the method while it runs and to factories of
//! instances.

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_lite::stream::Stream;
use marmota_auth::{Auth, Identity};
use marmota_model::{Caller, Error, ErrorKind, Result};
use marmota_store::Store;

use crate::client::{Client, Owned, Subscriber};
use crate::contract::{Contract, MethodContract};
use crate::peer::Peer;
use crate::transfer::{Answer, ChunkStream, Reply};

pub(crate) mod arguments;
pub(crate) mod dispatch;

thread_local! {
    static CURRENT: RefCell<Option<Call>> = const { RefCell::new(None) };
}

/// A call of a method.
#[derive(Clone)]
pub struct Call(Arc<Inner>);

struct Inner {
    contract: &'static Contract,
    method: usize,
    origin: CallOrigin,
}

/// A call with parsed arguments, started on the thread that executes it.
pub(crate) type Start = Box<dyn FnOnce(&Call) -> Result<Answer> + Send>;

/// The origin of a call.
#[derive(Clone, Default)]
pub(crate) struct CallOrigin {
    /// The store with the caller's rights.
    pub(crate) store: Option<Store>,
    /// The name of the session; equal for all calls of one session.
    pub(crate) session: Option<Arc<str>>,
    /// A client for the caller's own services.
    pub(crate) back: Option<Client>,
    /// The instances owned by the stubs of the connection.
    pub(crate) owned: Option<Arc<Owned>>,
    /// The number of the calling stub.
    pub(crate) stub: Option<u64>,
    /// The caller as a subscriber, if it can be called back.
    pub(crate) subscriber: Option<Arc<Subscriber>>,
    /// The call's number on its connection.
    pub(crate) number: Option<u64>,
    /// The authenticator and the identity with which the caller was authenticated.
    pub(crate) known: Option<(Auth, Arc<Identity>)>,
    /// The reason why the caller's authentication is no longer valid.
    pub(crate) refusal: Option<Arc<Error>>,
    /// The connection that carries the streams.
    pub(crate) peer: Option<Peer>,
}

impl CallOrigin {
    /// Returns true if the caller is authenticated.
    pub(crate) fn is_known(&self) -> bool {
        self.store.as_ref().and_then(|store| store.rights()?.caller()).is_some()
    }
}

impl Call {
    pub(crate) fn new(contract: &'static Contract, method: usize, origin: CallOrigin) -> Self {
        Self(Arc::new(Inner { contract, method, origin }))
    }

    /// Returns the call that the current code runs in, `None` outside of a call.
    ///
    /// It is available while a method runs, also after its `.await`s, but not in tasks and threads
    /// that the method starts.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Returns the name of the called service.
    #[must_use]
    pub fn service(&self) -> &'static str {
        self.0.contract.name
    }

    /// Returns the name of the called method.
    #[must_use]
    pub fn method(&self) -> &'static str {
        self.described().map_or("", |method| method.name)
    }

    pub(crate) fn number(&self) -> usize {
        self.0.method
    }

    fn described(&self) -> Option<&'static MethodContract> {
        self.0.contract.methods.get(self.0.method)
    }

    /// Returns the caller, `None` if it is anonymous.
    #[must_use]
    pub fn caller(&self) -> Option<&Caller> {
        self.store()?.rights()?.caller()
    }

    /// Returns the store ([`crate::Services::store`]) with the caller's rights.
    #[must_use]
    pub fn store(&self) -> Option<&Store> {
        self.0.origin.store.as_ref()
    }

    /// Returns a name shared by all calls of one session: of a login, of a client that stays
    /// connected (also across reconnects), or of a connection.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.0.origin.session.as_deref()
    }

    /// Returns a client for the caller's own services ([`Client::connect_as`]), for callbacks. It
    /// works as long as the connection lasts, also after the call has ended. `None` for a single
    /// request without a connection.
    #[must_use]
    pub fn client(&self) -> Option<Client> {
        self.0.origin.back.clone()
    }

    /// Returns the number of the calling stub, and the instances owned by its connection's stubs.
    pub(crate) fn stub(&self) -> Option<(u64, &Owned)> {
        Some((self.0.origin.stub?, self.0.origin.owned.as_deref()?))
    }

    /// Returns the caller as a subscriber, if it can be called back.
    pub(crate) fn subscriber(&self) -> Option<Arc<Subscriber>> {
        self.0.origin.subscriber.clone()
    }

    /// Returns the authenticator and identity of the caller.
    pub(crate) fn known(&self) -> Option<(Auth, Arc<Identity>)> {
        self.0.origin.known.clone()
    }

    /// Returns the number of the call on its connection.
    pub(crate) fn call_number(&self) -> Option<u64> {
        self.0.origin.number
    }

    pub(crate) fn session_key(&self) -> Option<Arc<str>> {
        self.0.origin.session.clone()
    }

    /// Runs `inside` with this call as the current one.
    pub(crate) fn enter<R>(&self, inside: impl FnOnce() -> R) -> R {
        let _outside = Outside(CURRENT.replace(Some(self.clone())));
        inside()
    }

    /// Returns a future that runs the call as the current one, and turns panics into errors.
    pub(crate) fn run(self, begin: impl FnOnce(&Self) -> Result<Answer>) -> Running {
        let begun = self.guarded(|| begin(&self));
        let answer = begun.unwrap_or_else(|error| Box::pin(std::future::ready(Err(error))));
        Running { call: self, answer }
    }

    fn guarded<R>(&self, inside: impl FnOnce() -> Result<R>) -> Result<R> {
        // A panic can leave the instance half updated; the instance sees poisoned locks, as with a
        // panic in any other thread.
        let ran = catch_unwind(AssertUnwindSafe(|| self.enter(inside)));
        ran.unwrap_or_else(|panic| Err(self.panicked(&*panic)))
    }

    #[cold]
    fn panicked(&self, panic: &(dyn Any + Send)) -> Error {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(|text| &**text));
        let text = text.unwrap_or("no message");
        Error::new(ErrorKind::Bug, format!("{self:?} has panicked: {text}"))
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.service(), self.method())
    }
}

/// Restores the previous current call when dropped, also on a panic.
struct Outside(Option<Call>);

impl Drop for Outside {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// The future that [`Call::run`] returns.
pub(crate) struct Running {
    call: Call,
    answer: Answer,
}

impl Future for Running {
    type Output = Result<Reply>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { call, answer } = &mut *self;
        let polled = call.guarded(|| Ok(answer.as_mut().poll(context)));
        let polled = polled.unwrap_or_else(|error| {
            // A future that has panicked must not be polled again.
            *answer = Box::pin(std::future::pending());
            Poll::Ready(Err(error))
        });
        polled.map_ok(|reply| match reply {
            Reply::Stream(pieces) => {
                let flowing = Flowing { call: call.clone(), pieces: Some(pieces) };
                Reply::Stream(ChunkStream::new(flowing))
            }
            value @ Reply::Value(_) => value,
        })
    }
}

/// A streamed result: its producer runs with the call as the current one, and its panics become
/// errors.
struct Flowing {
    call: Call,
    /// The stream; `None` once it has ended.
    pieces: Option<ChunkStream>,
}

impl Stream for Flowing {
    type Item = Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { call, pieces } = &mut *self;
        let Some(inner) = pieces else { return Poll::Ready(None) };
        let polled = call.guarded(|| Ok(Pin::new(inner).poll_next(context)));
        let polled = polled.unwrap_or_else(|error| Poll::Ready(Some(Err(error))));
        if let Poll::Ready(None | Some(Err(_))) = polled {
            *pieces = None;
        }
        polled
    }
}
