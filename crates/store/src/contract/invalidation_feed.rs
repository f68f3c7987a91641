//! Notifications of writes by others to a database, from its engine to a store's cache
//! ([`crate::engine::Engine::subscribe_changes`]).

use std::sync::Arc;

use marmota_model::Table;

/// What the notifications invalidate: the cache of a store.
pub(crate) trait Invalidated: Send + Sync {
    /// Invalidates the rows of the table with this name, if it is a table of the store.
    fn invalidate(&self, table: &str);

    /// Stops caching rows of these tables until the result is called.
    fn pause(self: Arc<Self>, tables: &[Arc<Table>]) -> Resume;
}

/// Ends a pause.
pub(crate) type Resume = Box<dyn FnOnce() + Send + Sync>;

/// The receiver of an engine's notifications of writes by others.
pub struct InvalidationFeed(Arc<dyn Invalidated>);

/// A pause of the notifications for some tables. As long as it exists, the store caches no rows of
/// them, because writes of others are not reported; rows cached before are no longer used.
pub struct FeedPause(Option<Resume>);

impl InvalidationFeed {
    pub(crate) fn new(cache: Arc<dyn Invalidated>) -> Self {
        Self(cache)
    }

    /// Notifies the cache that others have written to the table with this name. Call it after such
    /// a write. A name that is not a table of the store is ignored.
    pub fn invalidate(&self, table: &str) {
        self.0.invalidate(table);
    }

    /// Pauses the notifications of writes to these tables until the result is dropped.
    #[must_use]
    pub fn pause(&self, tables: &[Arc<Table>]) -> FeedPause {
        FeedPause(Some(Arc::clone(&self.0).pause(tables)))
    }
}

impl Drop for FeedPause {
    fn drop(&mut self) {
        if let Some(resume) = self.0.take() {
            resume();
        }
    }
}

impl std::fmt::Debug for InvalidationFeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InvalidationFeed")
    }
}

impl std::fmt::Debug for FeedPause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FeedPause")
    }
}
