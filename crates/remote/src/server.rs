//! The server's side: what serves a store to clients, whatever carries their
//! bytes.

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
use marmota_store::Store;

pub use route::carried;
use settings::{Settings, StoreFor};
use transactions::TransactionLimits;

/// A store that clients reach from elsewhere.
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
    /// Serves a store to everybody who reaches it. A store that keeps accounts
    /// (`marmota_auth::models`) takes [`Service::authenticate`], [`Service::admit`] or
    /// [`Service::allow_anonymous`]; a server with its routes does not start otherwise.
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

    /// Asks who a client is: `admit` gets the store and the client's
    /// credential (the bytes that [`crate::Remote::credential`] was given, or
    /// those behind `Bearer` in HTTP's `Authorization`; empty for none), and
    /// gives the same store on behalf of that user, or refuses.
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
    /// It is asked for each operation, so that what is taken back is gone with the
    /// next one; a transaction keeps the rights that it began with. What clients
    /// say of who writes ([`Store::with_actor`]) is not believed
    /// any more.
    pub fn admit(
        self,
        admit: impl Fn(&Store, &[u8]) -> Result<Store> + Send + Sync + 'static,
    ) -> Self {
        self.admitting(move |store, credential| StoreFor::Now(admit(store, credential)))
    }

    /// Does what [`Service::admit`] does with a future, for clients that have to be looked up: the
    /// server's thread, on which `admit` would block, serves others until it is ready.
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
                // It is polled again at once, with a waker.
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

    /// Serves a store that keeps accounts without authenticating its clients: everyone reads and
    /// writes the tables of the program's models. The tables of accounts stay unreachable.
    pub fn allow_anonymous(self) -> Self {
        self.with(|settings| settings.allow_anonymous = true)
    }

    /// Checks that clients are authenticated where the store keeps accounts.
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
            "the store keeps accounts, but clients of the remote service are not authenticated: \
             add `.authenticate(…)` (`serve --auth`), or `.allow_anonymous()` to let everyone \
             read and write all other tables",
        ))
    }

    /// Bytes of what is asked for at most, 16 MiB by default.
    pub fn packet_bytes_max(self, bytes: usize) -> Self {
        self.with(|settings| settings.packet_bytes_max = bytes.clamp(1_024, 1 << 30))
    }

    /// Bytes of an answer at most, 64 MiB by default: a longer list is
    /// refused, and read in pages.
    pub fn answer_bytes_max(self, bytes: usize) -> Self {
        self.with(|settings| settings.answer_bytes_max = bytes.clamp(1_024, 1 << 30))
    }

    /// Operations of one connection that are under way at once, 256 by default;
    /// more are read when these are done.
    pub fn operations_max(self, operations: usize) -> Self {
        self.with(|settings| settings.operations_max = operations.max(1))
    }

    /// How long a client's transaction may be without an operation before the server rolls it
    /// back. Default: 10 s.
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|settings| settings.limits.idle = lease)
    }

    /// How long a client's transaction may be open, whatever is done in it, before the server rolls
    /// it back: while it is open other writers may have to wait. The client's next operation fails
    /// with [`ErrorKind::Timeout`]. Default: 30 s.
    pub fn transaction_timeout(self, timeout: Duration) -> Self {
        self.with(|settings| settings.limits.total = timeout)
    }

    /// Transactions of clients that may be open at once. One more is refused as
    /// [`ErrorKind::Busy`]. Default: 256.
    pub fn transactions_max(self, transactions: usize) -> Self {
        self.with(|settings| settings.limits.of_server = transactions)
    }

    /// The same for one caller: the user of [`Service::admit`]'s store, or who shows one credential.
    /// Without [`Service::admit`] callers are not told apart. Default: 16.
    pub fn transactions_per_caller_max(self, transactions: usize) -> Self {
        self.with(|settings| settings.limits.of_caller = transactions)
    }
}

impl Service {
    /// What a client is answered that has the store's tables, was greeted, and
    /// sends these bytes: for fuzzing.
    #[must_use]
    pub fn answer(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut peer = peer::Peer::of_known(Arc::clone(&self.0));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        peer.go_on(bytes, &mut out, &mut context);
        out
    }
}
