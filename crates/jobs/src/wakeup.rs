//! Wakes the workers of this process at once when one of its threads has enqueued jobs.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use marmota_model::{Timestamp, Uuid};
use marmota_store::Store;
use parking_lot::RwLock;

/// Gets the news of enqueued jobs.
pub(crate) trait Listener: Send + Sync {
    /// Jobs of a queue were enqueued. They are due at this time.
    fn enqueued(&self, queue: &str, due: Timestamp);

    /// A job that is executed is to be cancelled.
    fn cancelled(&self, job: Uuid);
}

type Listeners = HashMap<u64, Vec<Weak<dyn Listener>>>;

/// The workers of this process, by the number of their store.
static LISTENERS: LazyLock<RwLock<Listeners>> = LazyLock::new(RwLock::default);

/// Adds a worker. It is removed once it is dropped.
pub(crate) fn listen(store: &Store, listener: &Arc<dyn Listener>) {
    let mut listeners = LISTENERS.write();
    listeners.retain(|_, of_store| {
        of_store.retain(|listener| listener.strong_count() > 0);
        !of_store.is_empty()
    });
    listeners.entry(store.number()).or_default().push(Arc::downgrade(listener));
}

/// Notifies the workers of a store of enqueued jobs.
pub(crate) fn notify(store: u64, queue: &str, due: Timestamp) {
    for listener in listeners(store) {
        listener.enqueued(queue, due);
    }
}

/// Notifies the workers of a store of a job to be cancelled.
pub(crate) fn cancel(store: u64, job: Uuid) {
    for listener in listeners(store) {
        listener.cancelled(job);
    }
}

/// The workers of a store, without the lock: they can take others.
fn listeners(store: u64) -> Vec<Arc<dyn Listener>> {
    let listeners = LISTENERS.read();
    listeners.get(&store).into_iter().flatten().filter_map(Weak::upgrade).collect()
}
