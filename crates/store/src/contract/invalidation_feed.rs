//! Notifications of writes by others to a database, from its engine to a store's cache
//! ([`crate::engine::Engine::subscribe_changes`]).
//!
//! Three rules keep the cache from being older than what was acknowledged:
//!
//! 1. An engine reports a write of others after that write is visible to its reads.
//! 2. While it cannot receive notifications (a lost connection, a full buffer), it holds a
//!    [`FeedPause`] of the tables concerned.
//! 3. A pause ends only once reads see every write that was missed.
//!
//! Reason and alternatives: `docs/design/008-cache.md`.

use std::sync::Arc;

use marmota_model::Table;

/// The receiver of the notifications: the cache of a store. It is a trait, because `contract` does
/// not import the layers.
pub(crate) trait Invalidated: Send + Sync {
    /// Invalidates the rows of the table with this name, if it is a table of the store.
    fn invalidate(&self, table: &str);

    /// Stops caching rows of these tables until the result is called.
    fn pause(self: Arc<Self>, tables: &[Arc<Table>]) -> Resume;
}

/// Ends a pause.
pub(crate) type Resume = Box<dyn FnOnce() + Send + Sync>;

/// The receiver of an engine's notifications of writes by others.
///
/// The store passes it to [`Engine::subscribe_changes`](crate::engine::Engine::subscribe_changes).
/// It can be called from any thread, and does not block.
///
/// ```
/// use std::sync::Arc;
/// use marmota_model::Table;
/// use marmota_store::{FeedPause, InvalidationFeed};
///
/// /// The receiving side of an engine's connection for notifications.
/// struct Listener {
///     feed: Arc<InvalidationFeed>,
///     tables: Vec<Arc<Table>>,
///     pause: Option<FeedPause>,
/// }
///
/// impl Listener {
///     fn received(&self, table: &str) {
///         self.feed.invalidate(table);
///     }
///
///     fn lost(&mut self) {
///         self.pause = Some(self.feed.pause(&self.tables));
///     }
///
///     /// The notifications are subscribed again.
///     fn connected(&mut self) {
///         self.pause = None;
///     }
/// }
/// ```
pub struct InvalidationFeed(Arc<dyn Invalidated>);

/// A pause of the notifications for some tables. As long as it exists, the store caches no rows of
/// them, because writes of others are not reported; rows cached before are no longer used.
pub struct FeedPause(Option<Resume>);

impl InvalidationFeed {
    /// Creates the feed of a store's cache.
    pub(crate) fn new(cache: Arc<dyn Invalidated>) -> Self {
        Self(cache)
    }

    /// Notifies the cache that others have written to the table with this name. Call it after such
    /// a write. A name that is not a table of the store is ignored.
    pub fn invalidate(&self, table: &str) {
        self.0.invalidate(table);
    }

    /// Pauses the notifications of writes to these tables until the result is dropped.
    ///
    /// Pauses nest: a table is cached again when the last of its pauses is dropped.
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
