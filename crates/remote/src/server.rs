//! The server, which serves a store to clients over any transport.

pub(crate) mod peer;
pub(crate) mod ready_batch;
mod route;
pub(crate) mod settings;
mod submission;
mod transactions;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result};
use marmota_rpc::ServerProtocol;
use marmota_store::Store;

use settings::{Settings, StoreFor};
use transactions::TransactionLimits;

/// A store that is served to clients.
///
/// ```
/// use marmota_model::{Field, Kind, Role, Schema};
/// use marmota_remote::{Remote, Service};
/// use marmota_memory::Memory;
/// use marmota_store::Store;
///
/// let city = || Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
/// let served = Store::builder(Memory::new()).schema(city()).open()?;
/// let service = Service::new(&served);
/// let store = Store::builder(Remote::in_process(&service)).schema(city()).open()?;
/// let city = store.table("city")?;
/// let key = store.insert_record(&marmota_model::Record::new(city.clone())).run()?;
/// assert!(served.get_record(&served.table("city")?, key).run().is_ok());
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Service(pub(crate) Arc<Settings>);

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Service").field(&self.0.store).finish()
    }
}

impl Service {
    /// Serves a store to all clients without authentication. A store with accounts
    /// (`marmota_auth::models`) requires [`Service::authenticate`], [`Service::admit`] or
    /// [`Service::allow_anonymous`]; otherwise a server with its routes does not start.
    pub fn new(store: &Store) -> Self {
        Self(Arc::new(Settings {
            store: store.clone(),
            admit: None,
            takes_actors: true,
            allow_anonymous: false,
            packet_bytes_max: 16 << 20,
            answer_bytes_max: 64 << 20,
            operations_max: 256,
            limits: TransactionLimits::DEFAULT,
            transactions: Arc::default(),
        }))
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Authenticates clients: `admit` gets the store and the client's credential (the bytes passed
    /// to [`crate::Remote::credential`], or those after `Bearer` in HTTP's `Authorization`; empty
    /// for none), and returns the same store for that user, or an error.
    ///
    /// ```
    /// # use marmota_remote::Service;
    /// use marmota_model::{Error, ErrorKind};
    /// # fn serve(store: &marmota_store::Store) -> Service {
    /// Service::new(store).admit(|store, credential| match credential {
    ///     b"s3cret" => Ok(store.with_actor("emmy")),
    ///     _ => Err(Error::new(ErrorKind::Denied, "nobody has this credential")),
    /// })
    /// # }
    /// ```
    ///
    /// It is called for each operation, so that revoked rights no longer apply to the next one; a
    /// transaction keeps the rights that it started with. The actors that clients declare
    /// ([`Store::with_actor`]) are no longer trusted.
    pub fn admit(
        self,
        admit: impl Fn(&Store, &[u8]) -> Result<Store> + Send + Sync + 'static,
    ) -> Self {
        self.admitting(move |store, credential| StoreFor::Now(admit(store, credential)))
    }

    /// Authenticates clients as [`Service::admit`] does, with a future, for clients that must be
    /// looked up: the server's thread, which `admit` would block, serves others until the future is
    /// ready.
    ///
    /// ```
    /// # use marmota_remote::Service;
    /// # async fn look_up(_: Vec<u8>) -> marmota_model::Result<String> { Ok("emmy".to_owned()) }
    /// # fn serve(store: &marmota_store::Store) -> Service {
    /// Service::new(store).authenticate(|store, credential| {
    ///     let (store, credential) = (store.clone(), credential.to_vec());
    ///     Box::pin(async move { Ok(store.with_actor(look_up(credential).await?)) })
    /// })
    /// # }
    /// ```
    pub fn authenticate<F>(
        self,
        authenticate: impl Fn(&Store, &[u8]) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Store>> + Unpin + Send + 'static,
    {
        self.admitting(move |store, credential| {
            let mut finding = authenticate(store, credential);
            let mut context = Context::from_waker(Waker::noop());
            match Pin::new(&mut finding).poll(&mut context) {
                Poll::Ready(store) => StoreFor::Now(store),
                // The future is polled again at once, with a waker.
                Poll::Pending => StoreFor::Later(Box::pin(finding)),
            }
        })
    }

    fn admitting(self, admit: impl Fn(&Store, &[u8]) -> StoreFor + Send + Sync + 'static) -> Self {
        self.with(|settings| {
            settings.admit = Some(Arc::new(admit));
            settings.takes_actors = false;
        })
    }

    /// Serves a store with accounts without authentication: all clients may read and write the
    /// tables of the program's models. The tables of accounts stay inaccessible.
    pub fn allow_anonymous(self) -> Self {
        self.with(|settings| settings.allow_anonymous = true)
    }

    /// Checks that clients are authenticated if the store has accounts.
    fn check_accounts(&self) -> Result<()> {
        let settings = &self.0;
        if settings.admit.is_some()
            || settings.allow_anonymous
            || !settings.store.registry().has_accounts()
        {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Denied,
            "the store has accounts, but clients of the remote service are not authenticated: add \
             `.authenticate(…)` (`serve --auth`), or `.allow_anonymous()` to let anonymous callers \
             read and write all other tables",
        ))
    }

    /// Sets the maximum size of a request in bytes. Default: 16 MiB.
    pub fn packet_bytes_max(self, bytes: usize) -> Self {
        self.with(|settings| settings.packet_bytes_max = bytes.clamp(1_024, 1 << 30))
    }

    /// Sets the maximum size of an answer in bytes. Default: 64 MiB. A longer list is refused, and
    /// must be read in pages.
    pub fn answer_bytes_max(self, bytes: usize) -> Self {
        self.with(|settings| settings.answer_bytes_max = bytes.clamp(1_024, 1 << 30))
    }

    /// Sets the maximum number of concurrent operations of one connection. Default: 256. More are
    /// read when these are done.
    pub fn operations_max(self, operations: usize) -> Self {
        self.with(|settings| settings.operations_max = operations.max(1))
    }

    /// Sets how long a client's transaction may be idle before the server rolls it back. Default:
    /// 10 s.
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|settings| settings.limits.idle = lease)
    }

    /// Sets how long a client's transaction may be open, even if it is active, before the server
    /// rolls it back: an open transaction can block other writers. The client's next operation
    /// fails with [`ErrorKind::Timeout`]. Default: 30 s.
    pub fn transaction_timeout(self, timeout: Duration) -> Self {
        self.with(|settings| settings.limits.total = timeout)
    }

    /// Sets the maximum number of open transactions of all clients. More are refused with
    /// [`ErrorKind::Busy`]. Default: 256.
    pub fn transactions_max(self, transactions: usize) -> Self {
        self.with(|settings| settings.limits.of_server = transactions)
    }

    /// Sets the maximum number of open transactions of one caller: the user of [`Service::admit`]'s
    /// store, or the clients with one credential. Without [`Service::admit`] callers are not
    /// distinguished. Default: 16.
    pub fn transactions_per_caller_max(self, transactions: usize) -> Self {
        self.with(|settings| settings.limits.of_caller = transactions)
    }
}

impl Service {
    /// Returns the answer to these bytes from a client that was greeted and has the store's tables:
    /// for fuzzing.
    #[must_use]
    pub fn answer(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut peer = peer::Peer::of_known(Arc::clone(&self.0));
        peer.run(bytes, &mut out, &mut Context::from_waker(Waker::noop()));
        out
    }
}
