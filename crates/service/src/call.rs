//! Who calls what: known to a method while it runs, and to what makes
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

use crate::client::Client;
use crate::contract::{Contract, Method};
use crate::dispatch::Answer;
use crate::form::Reply;
use crate::link::Link;
use crate::owned::Owned;
use crate::pieces::Pieces;
use crate::subscriber::Subscriber;

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

/// Where a call comes from.
#[derive(Clone, Default)]
pub(crate) struct CallOrigin {
    /// The store as it is for the caller.
    pub(crate) store: Option<Store>,
    /// Calls of one session have the same.
    pub(crate) session: Option<Arc<str>>,
    /// By which the caller can be called.
    pub(crate) back: Option<Client>,
    /// The instances of the connection's stubs.
    pub(crate) owned: Option<Arc<Owned>>,
    /// The stub that calls.
    pub(crate) stub: Option<u64>,
    /// The caller, where it can be called back.
    pub(crate) subscriber: Option<Arc<Subscriber>>,
    /// The call's number on its connection.
    pub(crate) number: Option<u64>,
    /// By what the caller was let in.
    pub(crate) known: Option<(Auth, Arc<Identity>)>,
    /// Why the caller is not let in any more.
    pub(crate) refusal: Option<Arc<Error>>,
    /// The connection by which streams pass.
    pub(crate) link: Option<Link>,
}

impl CallOrigin {
    /// True if somebody in particular calls.
    pub(crate) fn is_known(&self) -> bool {
        self.store.as_ref().and_then(|store| store.rights()?.caller()).is_some()
    }
}

impl Call {
    pub(crate) fn new(contract: &'static Contract, method: usize, origin: CallOrigin) -> Self {
        Self(Arc::new(Inner { contract, method, origin }))
    }

    /// The call that the code runs in which asks; none outside of any.
    ///
    /// It is found while a method runs, also behind its `.await`s, not in tasks
    /// and threads that it begins.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// The service that is called.
    #[must_use]
    pub fn service(&self) -> &'static str {
        self.0.contract.name
    }

    /// The method that is called.
    #[must_use]
    pub fn method(&self) -> &'static str {
        self.described().map_or("", |method| method.name)
    }

    pub(crate) fn number(&self) -> usize {
        self.0.method
    }

    fn described(&self) -> Option<&'static Method> {
        self.0.contract.methods.get(self.0.method)
    }

    /// Who calls; none for nobody in particular.
    #[must_use]
    pub fn caller(&self) -> Option<&Caller> {
        self.store()?.rights()?.caller()
    }

    /// The store ([`crate::Services::store`]), acting under the caller's rights.
    #[must_use]
    pub fn store(&self) -> Option<&Store> {
        self.0.origin.store.as_ref()
    }

    /// A name that the calls of one session share: of a login, of a client that
    /// stays connected, also by one connection after another, or of a connection.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.0.origin.session.as_deref()
    }

    /// The caller's own services ([`Client::connect_as`]), to be called back: as
    /// long as the connection lasts, also when the call has ended. None for a
    /// request by itself.
    #[must_use]
    pub fn client(&self) -> Option<Client> {
        self.0.origin.back.clone()
    }

    /// The stub that calls, and the instances of its connection's stubs.
    pub(crate) fn stub(&self) -> Option<(u64, &Owned)> {
        Some((self.0.origin.stub?, self.0.origin.owned.as_deref()?))
    }

    /// The caller, where it can be called back.
    pub(crate) fn subscriber(&self) -> Option<Arc<Subscriber>> {
        self.0.origin.subscriber.clone()
    }

    /// By what the caller was let in.
    pub(crate) fn known(&self) -> Option<(Auth, Arc<Identity>)> {
        self.0.origin.known.clone()
    }

    /// The call's number on its connection.
    pub(crate) fn number_in_link(&self) -> Option<u64> {
        self.0.origin.number
    }

    pub(crate) fn session_key(&self) -> Option<Arc<str>> {
        self.0.origin.session.clone()
    }

    /// Runs `inside` as part of the call.
    pub(crate) fn enter<R>(&self, inside: impl FnOnce() -> R) -> R {
        let _outside = Outside(CURRENT.replace(Some(self.clone())));
        inside()
    }

    /// A call's future, which knows it, and whose panics are errors.
    pub(crate) fn run(self, begin: impl FnOnce(&Self) -> Result<Answer>) -> Running {
        let begun = self.guarded(|| begin(&self));
        let answer = begun.unwrap_or_else(|error| Box::pin(std::future::ready(Err(error))));
        Running { call: self, answer }
    }

    fn guarded<R>(&self, inside: impl FnOnce() -> Result<R>) -> Result<R> {
        // What a panic leaves half done is the instance's own; it is told so by
        // poisoned locks, as with any other thread's panic.
        let ran = catch_unwind(AssertUnwindSafe(|| self.enter(inside)));
        ran.unwrap_or_else(|panic| Err(self.panicked(&*panic)))
    }

    #[cold]
    fn panicked(&self, panic: &(dyn Any + Send)) -> Error {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(|text| &**text));
        let text = text.unwrap_or("it did not say why");
        Error::new(ErrorKind::Bug, format!("{self:?} has panicked: {text}"))
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.service(), self.method())
    }
}

/// Puts back the call from before, a panic or not.
struct Outside(Option<Call>);

impl Drop for Outside {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// See [`Call::run`].
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
            // What has panicked is not polled again.
            *answer = Box::pin(std::future::pending());
            Poll::Ready(Err(error))
        });
        polled.map_ok(|reply| match reply {
            Reply::Stream(pieces) => {
                let flowing = Flowing { call: call.clone(), pieces: Some(pieces) };
                Reply::Stream(Pieces::new(flowing))
            }
            value @ Reply::Value(_) => value,
        })
    }
}

/// A call's result that comes piece by piece: what makes it knows the call, and its panics are
/// errors.
struct Flowing {
    call: Call,
    /// None once it has ended.
    pieces: Option<Pieces>,
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
