//! The server's side: what serves a store to clients, whatever carries their
//! bytes.

pub(crate) mod peer;
mod ready_batch;
#[cfg(feature = "http")]
mod route;
mod submission;

use std::sync::Arc;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Store;

pub(crate) use ready_batch::read_results;
#[cfg(feature = "http")]
pub use route::carried;

/// Finds the store that a client may use by what it shows.
type Admit = dyn Fn(&Store, &[u8]) -> Result<Store> + Send + Sync;

/// A store that clients reach from elsewhere.
///
/// ```
/// use marmota_model::{Field, Kind, Role, Schema};
/// use marmota_remote::{Remote, Service};
/// use marmota_store::{Store, memory::Memory};
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

/// What a service is.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) store: Store,
    pub(crate) admit: Option<Arc<Admit>>,
    pub(crate) takes_actors: bool,
    pub(crate) packet_bytes_max: usize,
    pub(crate) answer_bytes_max: usize,
    pub(crate) operations_max: usize,
    pub(crate) lease: Duration,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Service").field(&self.0.store).finish()
    }
}

impl Service {
    /// Serves a store to everybody who reaches it.
    pub fn new(store: &Store) -> Self {
        Self(Arc::new(Settings {
            store: store.clone(),
            admit: None,
            takes_actors: true,
            packet_bytes_max: 16 << 20,
            answer_bytes_max: 64 << 20,
            operations_max: 256,
            lease: Duration::from_secs(30),
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
    ///     b"s3cret" => Ok(store.acting_as("emmy")),
    ///     _ => Err(Error::new(ErrorKind::Denied, "nobody has this credential")),
    /// })
    /// # }
    /// ```
    ///
    /// It is asked for each operation, so that what is taken back is gone with the
    /// next one; a transaction keeps the rights that it began with. What clients
    /// say of who writes ([`Store::acting_as`]) is not believed
    /// any more.
    pub fn admit(
        self,
        admit: impl Fn(&Store, &[u8]) -> Result<Store> + Send + Sync + 'static,
    ) -> Self {
        self.with(|settings| {
            settings.admit = Some(Arc::new(admit));
            settings.takes_actors = false;
        })
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

    /// How long a transaction of a client may stand idle before it is undone,
    /// 30 s by default.
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|settings| settings.lease = lease)
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

impl Settings {
    /// The store for who shows this.
    pub(crate) fn store_for(&self, credential: &[u8]) -> Result<Store> {
        match &self.admit {
            None => Ok(self.store.clone()),
            Some(admit) => admit(&self.store, credential),
        }
    }

    #[cold]
    pub(crate) fn answer_is_too_long(&self) -> Error {
        let message = format!(
            "the answer has more than {} bytes: ask for fewer rows (`limit`) and for the next \
             ones behind them (`after`)",
            self.answer_bytes_max
        );
        Error::new(ErrorKind::Invalid, message)
    }
}
