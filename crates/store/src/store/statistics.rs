//! Counters of a store, as data that can be serialized.

use serde::Serialize;

use crate::contract::statistics::EngineStatistics;
use crate::layers::cache::row_cache::CacheStats;

/// The counters of a store since it was opened.
///
/// ```
/// use marmota_store::Store;
/// use marmota_memory::Memory;
/// let store = Store::builder(Memory::new()).open()?;
/// assert_eq!(store.statistics().engine.syncs, 0);
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Statistics {
    /// The counters of its engine.
    pub engine: EngineStatistics,
    /// The counters of its cache; `None` for a store without one.
    pub cache: Option<CacheStats>,
}
