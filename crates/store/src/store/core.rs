//! The state that all handles to a store share.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use marmota_model::{Result, Table};
use parking_lot::Mutex;

use crate::contract::engine::Engine;
use crate::contract::operation::Idempotency;
use crate::layers::feed::ChangeFeed;
use crate::layers::stack::{LayerSettings, Layers};
use crate::rows::registry::Registry;

/// The state that all handles to a store share. Dropping it closes the store: a background batch
/// and a transaction have handles, so they keep it open.
pub(crate) struct StoreCore {
    /// Identifies this store among others.
    pub(super) number: u64,
    pub(super) registry: Arc<Registry>,
    /// The layers of operations; the last has the engine.
    pub(crate) layers: Layers,
    /// The table of idempotent answers, if they are stored.
    pub(crate) answers: Option<(Arc<Table>, Idempotency)>,
    /// The background batches to flush before the store is closed.
    background: Mutex<Vec<Weak<dyn Background>>>,
    /// The change feed, if there is one. It is set once the store is open.
    feed: OnceLock<Arc<ChangeFeed>>,
    /// True if the database follows another one, which alone is written to.
    pub(crate) is_replica: AtomicBool,
    /// The state of a part of this crate that is built on stores: the live queries.
    extension: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// A queue of accepted writes.
pub(crate) trait Background: Send + Sync {
    /// Executes the accepted writes, and waits for them.
    fn flush(&self);
}

impl StoreCore {
    pub(super) fn new(
        engine: Box<dyn Engine>,
        registry: Registry,
        answers: Option<(Arc<Table>, Idempotency)>,
        settings: LayerSettings,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let registry = Arc::new(registry);
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            layers: Layers::new(engine, &registry, settings),
            registry,
            answers,
            background: Mutex::default(),
            feed: OnceLock::new(),
            is_replica: AtomicBool::new(false),
            extension: OnceLock::new(),
        }
    }

    /// Returns the change feed, if there is one.
    pub(crate) fn feed(&self) -> Option<&Arc<ChangeFeed>> {
        self.feed.get()
    }

    /// Returns the table with this name, if the change feed can have it: that of a model, or that of
    /// the idempotent answers.
    pub(crate) fn recordable(&self, name: &str) -> Option<&Arc<Table>> {
        let answers = self.answers.iter().map(|(table, _)| table);
        self.registry.find(name).or_else(|| answers.into_iter().find(|table| table.name() == name))
    }

    /// Sets the change feed, once.
    pub(crate) fn set_feed(&self, feed: Arc<ChangeFeed>) {
        let _ = self.feed.set(feed);
    }

    /// Returns the state of the part of this crate that is built on stores, which is made at the
    /// first call. `None` if it has another type.
    pub(crate) fn extension<T: Any + Send + Sync>(
        &self,
        make: impl FnOnce() -> Arc<T>,
    ) -> Option<Arc<T>> {
        let extension = self.extension.get_or_init(|| make());
        Arc::clone(extension).downcast().ok()
    }

    /// Closes the engine, and ends the waits of the readers of the change feed.
    pub(super) fn close(&self) -> Result<()> {
        self.layers.sessions().close()?;
        self.close_feed();
        Ok(())
    }

    fn close_feed(&self) {
        if let Some(feed) = self.feed() {
            feed.hub.close();
        }
    }

    /// Registers a queue that is flushed before the store is closed.
    pub(super) fn watch(&self, background: &Arc<dyn Background>) {
        let mut watched = self.background.lock();
        watched.retain(|known| known.strong_count() > 0);
        watched.push(Arc::downgrade(background));
    }

    /// Executes accepted writes while the store is still open.
    pub(crate) fn flush(&self) {
        let watched = std::mem::take(&mut *self.background.lock());
        watched.iter().filter_map(Weak::upgrade).for_each(|background| background.flush());
    }
}

impl Drop for StoreCore {
    fn drop(&mut self) {
        // An error cannot be reported here; a caller who needs it calls `close`.
        let _ = self.close();
        self.close_feed();
    }
}
