//! [`Settings`] of a service.

use std::pin::Pin;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Store;

use super::transactions::{OpenTransactions, TransactionLimits};

/// Finds the store for a client's credential.
pub(super) type Admit = dyn Fn(&Store, &[u8]) -> StoreFor + Send + Sync;

/// A future that finds the store of a client.
pub(crate) type Finding = Pin<Box<dyn Future<Output = Result<Store>> + Send>>;

/// The store for a client.
pub(crate) enum StoreFor {
    Now(Result<Store>),
    /// The client must be looked up asynchronously; the thread serves others meanwhile.
    Later(Finding),
}

/// The settings of a service.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) store: Store,
    pub(crate) admit: Option<Arc<Admit>>,
    pub(crate) takes_actors: bool,
    pub(crate) allow_anonymous: bool,
    pub(crate) packet_bytes_max: usize,
    pub(crate) answer_bytes_max: usize,
    pub(crate) operations_max: usize,
    pub(super) limits: TransactionLimits,
    pub(super) transactions: Arc<OpenTransactions>,
}

impl Settings {
    /// Returns the store for a credential.
    pub(crate) fn store_for(&self, credential: &[u8]) -> StoreFor {
        match &self.admit {
            None => StoreFor::Now(Ok(self.store.clone())),
            Some(admit) => admit(&self.store, credential),
        }
    }

    #[cold]
    pub(crate) fn answer_is_too_long(&self) -> Error {
        let message = format!(
            "the answer has more than {} bytes: request fewer rows (`limit`), and the next ones \
             with `after`",
            self.answer_bytes_max
        );
        Error::new(ErrorKind::Invalid, message)
    }
}
