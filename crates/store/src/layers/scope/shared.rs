//! The state that all scopes of a store share: the engine, its sessions, and the layers in front of
//! them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use marmota_model::{Error, ErrorKind, Result, Table};
use parking_lot::Mutex;

use super::thread_slot::SLOTS;
use crate::contract::audit::Ledger;
use crate::contract::engine::{Engine, Session};
use crate::contract::invalidation_feed::InvalidationFeed;
use crate::contract::operation::Idempotency;
use crate::layers::cache::Cache;
use crate::layers::meter::{Meter, Metering};
use crate::rows::registry::Registry;

/// A thread's session, opened at its first operation.
pub(super) type Slot = Mutex<Option<Box<dyn Session>>>;

/// The state that all scopes of a store share.
pub(crate) struct Shared {
    /// Identifies this store among others.
    pub(crate) number: u64,
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) registry: Arc<Registry>,
    /// `None` if operations go directly to a session.
    pub(super) around: Option<Around>,
    /// The counters, if operations are counted.
    pub(crate) meter: Option<Meter>,
    /// True if operations have spans.
    pub(super) is_traced: bool,
    /// The table of idempotent answers, if they are stored.
    pub(super) answers: Option<(Arc<Table>, Idempotency)>,
    pub(super) slots: Box<[Slot]>,
    closed: AtomicBool,
    /// The background batches to flush before the store is closed.
    background: Mutex<Vec<Weak<dyn Background>>>,
    /// The thread that last used each open transaction, for a hint in errors.
    pub(super) transactions: Mutex<Vec<Weak<AtomicUsize>>>,
}

/// A queue of accepted writes.
pub(crate) trait Background: Send + Sync {
    /// Executes the accepted writes, and waits for them.
    fn flush(&self);
}

/// The steps between operations and sessions.
pub(super) struct Around {
    cache: Option<Arc<Cache>>,
    /// The history, if a table is audited.
    ledger: Option<Arc<Ledger>>,
}

impl Shared {
    pub(crate) fn new(
        engine: Box<dyn Engine>,
        registry: Registry,
        cache_bytes_max: Option<u64>,
        answers: Option<(Arc<Table>, Idempotency)>,
        ledger: Option<Ledger>,
        (metering, is_traced): (Option<Metering>, bool),
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let cache =
            cache_bytes_max.map(|bytes_max| Arc::new(Cache::new(&registry, bytes_max, SLOTS)));
        let has_immutable = registry.tables().iter().any(|table| !table.immutable().is_empty());
        let is_plain = cache.is_none() && ledger.is_none() && !has_immutable;
        let around = (!is_plain).then(|| Around { cache, ledger: ledger.map(Arc::new) });
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            around,
            meter: metering.map(|metering| Meter::new(metering, &registry, SLOTS)),
            is_traced,
            answers,
            engine,
            registry: Arc::new(registry),
            slots: (0..SLOTS).map(|_| Mutex::new(None)).collect(),
            closed: AtomicBool::new(false),
            background: Mutex::default(),
            transactions: Mutex::default(),
        }
    }

    /// Registers a queue that is flushed before the store is closed.
    pub(crate) fn watch(&self, background: &Arc<dyn Background>) {
        let mut watched = self.background.lock();
        watched.retain(|known| known.strong_count() > 0);
        watched.push(Arc::downgrade(background));
    }

    /// Executes accepted writes while the store is still open.
    pub(crate) fn flush(&self) {
        let watched = std::mem::take(&mut *self.background.lock());
        watched.iter().filter_map(Weak::upgrade).for_each(|background| background.flush());
    }

    pub(super) fn ledger(&self) -> Option<&Arc<Ledger>> {
        self.around.as_ref()?.ledger.as_ref()
    }

    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.around.as_ref()?.cache.as_deref()
    }

    /// Subscribes the cache to the writes of others.
    pub(crate) fn hear(&self) -> Result<()> {
        match self.around.as_ref().and_then(|around| around.cache.as_ref()) {
            Some(cache) => {
                let feed = Arc::new(InvalidationFeed::new(Arc::<Cache>::clone(cache)));
                self.engine.subscribe_changes(self.registry.tables(), &feed)
            }
            None => Ok(()),
        }
    }

    pub(crate) fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        // Sessions stay, so that operations that wait in them still get a result.
        let closed = self.engine.close();
        if closed.as_ref().is_err_and(|error| error.kind() == ErrorKind::Busy) {
            // A transaction is still open; the store can be closed after it has ended.
            self.closed.store(false, Ordering::SeqCst);
        }
        closed
    }

    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Closed, "the store is closed"));
        }
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // An error cannot be reported here; a caller who needs it calls `close`.
        let _ = self.close();
    }
}
