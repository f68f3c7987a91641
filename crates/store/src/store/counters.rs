//! The counters of a store: of its engine, its cache and its operations.

use std::time::Duration;

use super::Store;
use super::statistics::Statistics;
use crate::layers::cache::row_cache::CacheStats;
use crate::layers::handle::HandleContext;
use crate::layers::metrics::meter::Activity;
use crate::layers::metrics::who;

impl Store {
    /// Returns the counters of the cache; `None` for a store without one.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, Model)]
    /// # struct City { id: i64, name: String }
    /// let store = Store::builder(Memory::new()).model::<City>().cache(1 << 20).open()?;
    /// let id = store.insert(&City { id: 0, name: "Bourges".to_owned() }).run()?;
    /// for _ in 0..3 {
    ///     store.get::<City>(id).run()?;
    /// }
    /// let stats = store.cache_stats().expect("it has a cache");
    /// assert_eq!((stats.misses, stats.hits), (1, 2));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn cache_stats(&self) -> Option<CacheStats> {
        self.core.layers.cache.as_ref().map(|cache| cache.stats())
    }

    /// Returns the counters since the store was opened: commits, groups, waits for the disk, hits
    /// of its cache.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// assert!(store.statistics().cache.is_none());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        Statistics { engine: self.engine().statistics(), cache: self.cache_stats() }
    }

    /// Returns the operations by table, verb and session, and the slow ones; `None` unless the
    /// store was opened with [`StoreBuilder::metering`](crate::StoreBuilder::metering).
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// assert!(store.activity().is_none(), "it was opened without metering");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn activity(&self) -> Option<Activity> {
        self.core.layers.meter.as_ref().map(|meter| meter.activity())
    }

    /// Returns the same store, with operations that also count for a session of this name
    /// ([`Activity::sessions`]).
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # use marmota_store::meter::Metering;
    /// # #[derive(Clone, Debug, Model)]
    /// # struct City { id: i64, name: String }
    /// let store =
    ///     Store::builder(Memory::new()).model::<City>().metering(Metering::default()).open()?;
    /// store.in_session("session 7").count::<City>().run()?;
    /// let sessions = store.activity().expect("it counts").sessions;
    /// assert_eq!((&*sessions[0].session, sessions[0].done.count), ("session 7", 1));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn in_session(&self, name: &str) -> Self {
        let Some(meter) = &self.core.layers.meter else { return self.clone() };
        let session = Some(meter.session(name));
        self.with_handle(HandleContext { session, ..self.handle.clone() })
    }

    /// Records a call that took this long and is not an operation, such as a service's method. It
    /// is for [`crate::meter::Activity::slow`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # use marmota_store::meter::Metering;
    /// let metering = Metering::default().slow_call(Duration::from_millis(10));
    /// let store = Store::builder(Memory::new()).metering(metering).open()?;
    /// store.note_call(Duration::from_millis(50), || "mail.send".to_owned());
    /// assert_eq!(store.activity().expect("it counts").slow[0].what, "mail.send");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn note_call(&self, time: Duration, what: impl FnOnce() -> String) {
        if let Some(meter) = &self.core.layers.meter {
            meter.note_call(time, who(&self.handle), what);
        }
    }
}
