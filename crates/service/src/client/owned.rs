//! Instances owned by a client's stubs: kept with the connection, and dropped with the stub or the
//! connection, whichever ends first.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use marmota_model::Result;
use parking_lot::Mutex;

type ByStub = HashMap<(&'static str, u64), Box<dyn Any + Send + Sync>>;

/// The instances of one connection's stubs, by service and stub.
#[derive(Default)]
pub(crate) struct Owned(Mutex<ByStub>);

/// An instance that is counted until it is dropped.
struct Counted<T> {
    instance: Arc<T>,
    _place: Place,
}

/// One of the permitted instances; dropping it frees the place.
struct Place(Arc<AtomicUsize>);

impl Place {
    /// Takes a place, if fewer than `max` are taken.
    fn take(count: &Arc<AtomicUsize>, max: usize) -> Option<Self> {
        let more = |taken: usize| (taken < max).then_some(taken + 1);
        let taken = count.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.is_ok().then(|| Self(Arc::clone(count)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Owned {
    /// Returns the instance of a stub, created if it has none; `None` if there are too many
    /// (`count` of `max`, over all connections).
    ///
    /// # Errors
    /// Errors of `make`.
    pub(crate) fn find<T: Send + Sync + 'static>(
        &self,
        (service, stub): (&'static str, u64),
        (count, max): (&Arc<AtomicUsize>, usize),
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Option<Arc<T>>> {
        let known = |owned: &ByStub| {
            let counted = owned.get(&(service, stub))?.downcast_ref::<Counted<T>>()?;
            Some(Arc::clone(&counted.instance))
        };
        if let Some(instance) = known(&self.0.lock()) {
            return Ok(Some(instance));
        }
        let Some(place) = Place::take(count, max) else { return Ok(None) };
        // `make` runs outside of the lock, so that a slow one does not block other calls. If two
        // instances are created concurrently, the first is kept.
        let instance = Arc::new(make()?);
        let mut owned = self.0.lock();
        if let Some(instance) = known(&owned) {
            return Ok(Some(instance));
        }
        let counted = Counted { instance: Arc::clone(&instance), _place: place };
        owned.insert((service, stub), Box::new(counted));
        Ok(Some(instance))
    }

    /// Drops the instance of a stub.
    pub(crate) fn release(&self, service: &str, stub: u64) {
        let mut owned = self.0.lock();
        let key = owned.keys().find(|(name, number)| *name == service && *number == stub).copied();
        let released = key.and_then(|key| owned.remove(&key));
        // Dropping the instance runs user code, so the lock is released first.
        drop(owned);
        drop(released);
    }
}
