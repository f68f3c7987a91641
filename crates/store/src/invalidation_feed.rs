//! Notifications of writes by others to a database, from its engine to a store's cache
//! ([`crate::engine::Engine::subscribe_changes`]).

use std::sync::Arc;

use marmota_model::Table;

use crate::cache::{Cache, Writing};

/// The receiver of an engine's notifications of writes by others.
pub struct InvalidationFeed(Arc<Cache>);

/// A pause of the notifications for some tables. As long as it exists, the store caches no rows of
/// them, because writes of others are not reported; rows cached before are no longer used.
pub struct FeedPause {
    cache: Arc<Cache>,
    writing: Writing,
}

impl InvalidationFeed {
    pub(crate) fn new(cache: &Arc<Cache>) -> Self {
        Self(Arc::clone(cache))
    }

    /// Notifies the cache that others have written to the table with this name. Call it after such
    /// a write. A name that is not a table of the store is ignored.
    pub fn invalidate(&self, table: &str) {
        self.0.others_wrote(table);
    }

    /// Pauses the notifications of writes to these tables until the result is dropped.
    #[must_use]
    pub fn pause(&self, tables: &[Arc<Table>]) -> FeedPause {
        let writing = self.0.announce_all(tables);
        FeedPause { cache: Arc::clone(&self.0), writing }
    }
}

impl Drop for FeedPause {
    fn drop(&mut self) {
        self.cache.ended(std::mem::take(&mut self.writing), true);
    }
}

impl std::fmt::Debug for InvalidationFeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InvalidationFeed")
    }
}

impl std::fmt::Debug for FeedPause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FeedPause").field(&self.writing).finish()
    }
}
