//! Instances that a client's stubs own: kept with the connection, and ended with
//! the stub or the connection, whichever ends first.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use marmota_model::Result;
use parking_lot::Mutex;

use crate::client::Client;

type ByStub = HashMap<(&'static str, u64), Box<dyn Any + Send + Sync>>;

/// The instances of one connection's stubs, by service and stub.
#[derive(Default)]
pub(crate) struct Owned(Mutex<ByStub>);

/// An instance that is counted until it is given up.
struct Counted<T> {
    instance: Arc<T>,
    _place: Place,
}

/// One of as many instances as there may be.
struct Place(Arc<AtomicUsize>);

impl Place {
    /// A place, if one of so many is free.
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
    /// The instance of a stub, made if it has none; none if there are too many
    /// (`count` of `max`, over all connections).
    ///
    /// # Errors
    /// What making one came to.
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
        // Made outside of the lock, so that a slow one holds up nobody else; of
        // two made at once the first stays.
        let instance = Arc::new(make()?);
        let mut owned = self.0.lock();
        if let Some(instance) = known(&owned) {
            return Ok(Some(instance));
        }
        let counted = Counted { instance: Arc::clone(&instance), _place: place };
        owned.insert((service, stub), Box::new(counted));
        Ok(Some(instance))
    }

    /// Gives up the instance of a stub.
    pub(crate) fn release(&self, service: &str, stub: u64) {
        let mut owned = self.0.lock();
        let key = owned.keys().find(|(name, number)| *name == service && *number == stub).copied();
        let released = key.and_then(|key| owned.remove(&key));
        // Its end is the user's code.
        drop(owned);
        drop(released);
    }
}

/// A stub's side: whoever holds it last has the instance given up.
pub(crate) struct Owner {
    client: Client,
    service: &'static str,
    pub(crate) stub: u64,
}

impl Owner {
    pub(crate) fn new(client: &Client, service: &'static str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { client: client.clone(), service, stub: NEXT.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.client.release(self.service, self.stub);
    }
}
