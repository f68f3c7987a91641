//! The cache of a store that is invalidated by the commits of the feed
//! ([`Capability::polled_commits`](crate::engine::Capability::polled_commits)).
//!
//! The keeper invalidates the tables of a commit before it publishes it. So once the feed has a
//! position, no cached row is older. While the table of commits cannot be read, nothing is cached.

use std::fmt;
use std::sync::Arc;

use marmota_model::Table;
use parking_lot::Mutex;

use crate::contract::change::Commit;
use crate::contract::invalidation_feed::{FeedPause, InvalidationFeed};
use crate::rights::is_internal;

/// The subscription of a cache.
pub(crate) struct CacheSubscription {
    cache: Arc<InvalidationFeed>,
    /// The tables whose changes are recorded.
    tables: Vec<Arc<Table>>,
    /// The others are never cached.
    _unrecorded: FeedPause,
    /// Exists until the table of commits was read.
    pause: Mutex<Option<FeedPause>>,
}

impl CacheSubscription {
    /// Subscribes a cache. Rows are cached once the table of commits was read.
    pub(crate) fn new(cache: Arc<InvalidationFeed>, tables: &[Arc<Table>]) -> Self {
        let (unrecorded, tables): (Vec<_>, Vec<_>) =
            tables.iter().cloned().partition(|table| is_internal(table));
        let unrecorded = cache.pause(&unrecorded);
        let pause = Mutex::new(Some(cache.pause(&tables)));
        Self { cache, tables, _unrecorded: unrecorded, pause }
    }

    /// Invalidates the rows of the tables that a commit has changed.
    pub(crate) fn invalidate(&self, commit: &Commit) {
        let mut last = None;
        for change in &commit.changes {
            if last.replace(change.table.name()) != Some(change.table.name()) {
                self.cache.invalidate(change.table.name());
            }
        }
    }

    /// Invalidates all rows.
    pub(crate) fn invalidate_all(&self) {
        drop(self.cache.pause(&self.tables));
    }

    /// The table of commits was read, and its commits invalidated.
    pub(crate) fn resume(&self) {
        drop(self.pause.lock().take());
    }

    /// The table of commits cannot be read.
    pub(crate) fn pause(&self) {
        self.pause.lock().get_or_insert_with(|| self.cache.pause(&self.tables));
    }
}

impl fmt::Debug for CacheSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheSubscription").finish_non_exhaustive()
    }
}
