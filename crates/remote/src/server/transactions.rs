//! Transactions of clients: the right to begin one, and limits on their number and duration.

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

/// The reason why the server rolled back a transaction that its client has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakenBack {
    Idle,
    Total,
    /// The caller is no longer authenticated.
    Refused,
}

impl TakenBack {
    #[cold]
    pub(crate) fn error(self, limits: &TransactionLimits) -> Error {
        let message = match self {
            Self::Idle => format!(
                "the transaction was rolled back because it was idle for {:?} (`Service::lease`); \
                 begin a new one, and keep it short",
                limits.idle
            ),
            Self::Total => format!(
                "the transaction was rolled back because it was open for {:?} \
                 (`Service::transaction_timeout`); begin a new one, and keep it short",
                limits.total
            ),
            Self::Refused => "the transaction was rolled back because its caller was refused in \
                              the meantime; log in and begin a new one"
                .to_owned(),
        };
        Error::new(ErrorKind::Timeout, message)
    }
}

/// The clock of an open transaction.
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

    /// Returns when the transaction times out.
    pub(crate) fn deadline(&self, limits: &TransactionLimits, is_idle: bool) -> Option<Instant> {
        let total = self.began.checked_add(limits.total);
        let idle = is_idle.then(|| self.idle_since.checked_add(limits.idle)).flatten();
        [total, idle].into_iter().flatten().min()
    }

    /// Returns the limit that was exceeded.
    pub(crate) fn passed(&self, limits: &TransactionLimits, is_idle: bool) -> Option<TakenBack> {
        if self.began.elapsed() >= limits.total {
            return Some(TakenBack::Total);
        }
        (is_idle && self.idle_since.elapsed() >= limits.idle).then_some(TakenBack::Idle)
    }
}

/// The key of a caller, if callers can be distinguished.
pub(crate) type CallerKey = Option<Box<[u8]>>;

/// The counts of a server's open transactions.
#[derive(Debug, Default)]
pub(crate) struct OpenTransactions(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    of_callers: HashMap<Box<[u8]>, usize>,
}

/// An open transaction; counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    open: Arc<OpenTransactions>,
    caller: CallerKey,
}

impl OpenTransactions {
    /// Counts a transaction.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if the limits are reached.
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
        "{whose} already has {most} open transactions, the limit (`Service::{setting}`); try again \
         when one has ended"
    );
    Error::new(ErrorKind::Busy, message)
}

/// Returns the caller that a transaction is counted for: the user of the store's rights, or the
/// credential, if credentials are checked.
pub(crate) fn caller_key(store: &Store, credential: Option<&[u8]>) -> CallerKey {
    match store.rights() {
        Some(rights) => {
            let id = rights.caller().map_or("", |caller| &caller.id);
            Some(id.as_bytes().into())
        }
        None => credential.map(Box::from),
    }
}

/// Refuses a transaction to a caller without the right to write: an open transaction can block all
/// other writers.
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
    let message = "a transaction needs the right to write (insert, update or delete) to a table, \
                   but this caller has none; read without a transaction";
    Err(Error::new(ErrorKind::Denied, message))
}
