//! Transactions that clients hold: who may begin one, how many there may be, and for how long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Store;
use marmota_store::rights::{Right, is_internal};
use parking_lot::Mutex;

/// The limits of [`super::Service`] on transactions, with their defaults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransactionLimits {
    pub(crate) idle: Duration,
    pub(crate) total: Duration,
    pub(crate) of_server: usize,
    pub(crate) of_caller: usize,
}

impl TransactionLimits {
    pub(crate) const DEFAULT: Self = Self {
        idle: Duration::from_secs(10),
        total: Duration::from_secs(30),
        of_server: 256,
        of_caller: 16,
    };
}

/// Why the server rolled a transaction back that its client has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakenBack {
    Idle,
    Total,
    /// Its caller was not authenticated any more.
    Refused,
}

impl TakenBack {
    #[cold]
    pub(crate) fn error(self, limits: &TransactionLimits) -> Error {
        let message = match self {
            Self::Idle => format!(
                "the transaction was rolled back: no operation came for {:?} (`Service::lease`); \
                 begin another, and keep it short",
                limits.idle
            ),
            Self::Total => format!(
                "the transaction was rolled back: it was open for {:?} \
                 (`Service::transaction_timeout`); begin another, and keep it short",
                limits.total
            ),
            Self::Refused => "the transaction was rolled back: its caller was refused meanwhile; \
                              begin another"
                .to_owned(),
        };
        Error::new(ErrorKind::Timeout, message)
    }
}

/// When an open transaction is taken back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
    idle_since: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let now = Instant::now();
        Self { began: now, idle_since: now }
    }

    /// An operation has ended, and none is running.
    pub(crate) fn rest(&mut self) {
        self.idle_since = Instant::now();
    }

    /// When it ends at the latest.
    pub(crate) fn deadline(&self, limits: &TransactionLimits, is_idle: bool) -> Option<Instant> {
        let total = self.began.checked_add(limits.total);
        let idle = is_idle.then(|| self.idle_since.checked_add(limits.idle)).flatten();
        [total, idle].into_iter().flatten().min()
    }

    /// Which limit has passed.
    pub(crate) fn passed(&self, limits: &TransactionLimits, is_idle: bool) -> Option<TakenBack> {
        if self.began.elapsed() >= limits.total {
            return Some(TakenBack::Total);
        }
        (is_idle && self.idle_since.elapsed() >= limits.idle).then_some(TakenBack::Idle)
    }
}

/// A caller, as far as callers are known.
pub(crate) type CallerKey = Option<Box<[u8]>>;

/// The open transactions of a server.
#[derive(Debug, Default)]
pub(crate) struct OpenTransactions(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    of_callers: HashMap<Box<[u8]>, usize>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    open: Arc<OpenTransactions>,
    caller: CallerKey,
}

impl OpenTransactions {
    /// Counts one more.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] where there are as many as the limits allow.
    pub(crate) fn count(
        self: &Arc<Self>,
        caller: CallerKey,
        limits: &TransactionLimits,
    ) -> Result<Counted> {
        let mut counts = self.0.lock();
        if counts.all >= limits.of_server {
            return Err(too_many("this server", "transactions_max", limits.of_server));
        }
        if let Some(caller) = &caller {
            let own = counts.of_callers.entry(caller.clone()).or_default();
            if *own >= limits.of_caller {
                let setting = "transactions_per_caller_max";
                return Err(too_many("this caller", setting, limits.of_caller));
            }
            *own += 1;
        }
        counts.all += 1;
        drop(counts);
        Ok(Counted { open: Arc::clone(self), caller })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.open.0.lock();
        counts.all -= 1;
        let Some(caller) = &self.caller else { return };
        if let Some(own) = counts.of_callers.get_mut(caller) {
            *own -= 1;
            if *own == 0 {
                counts.of_callers.remove(caller);
            }
        }
    }
}

#[cold]
fn too_many(whose: &str, setting: &str, most: usize) -> Error {
    let message = format!(
        "{whose} has {most} open transactions already, the most allowed (`Service::{setting}`); \
         try again when one has ended"
    );
    Error::new(ErrorKind::Busy, message)
}

/// Whom a transaction counts for: the store's caller; else who has this credential, where
/// credentials are checked.
pub(crate) fn caller_key(store: &Store, credential: Option<&[u8]>) -> CallerKey {
    match store.rights() {
        Some(rights) => {
            let id = rights.caller().map_or("", |caller| &caller.id);
            Some(id.as_bytes().into())
        }
        None => credential.map(Box::from),
    }
}

/// Refuses a transaction to a caller who could write nothing in it: an open transaction can keep
/// all other writers waiting.
///
/// # Errors
/// [`ErrorKind::Denied`].
pub(crate) fn check_right(store: &Store) -> Result<()> {
    let Some(rights) = store.rights() else { return Ok(()) };
    let writes = [Right::Insert, Right::Update, Right::Delete];
    let mut tables = store.registry().tables().iter().filter(|table| !is_internal(table));
    if tables.any(|table| writes.iter().any(|right| rights.allow(table, *right))) {
        return Ok(());
    }
    let message = "a transaction needs a right to write (insert, update or delete) on some table, \
                   and this caller has none; read without a transaction";
    Err(Error::new(ErrorKind::Denied, message))
}
