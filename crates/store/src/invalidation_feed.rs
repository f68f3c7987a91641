//! What others have written to a database, as its engine tells it to a store's
//! cache ([`crate::engine::Engine::subscribe_changes`]).

use std::sync::Arc;

use marmota_model::Table;

use crate::cache::{Cache, Writing};

/// Where an engine tells what others have written.
pub struct InvalidationFeed(Arc<Cache>);

/// While this is there, a store keeps no rows of some tables, because what
/// others write to them is not heard; nor does it know those that it kept
/// before any more.
pub struct FeedPause {
    cache: Arc<Cache>,
    writing: Writing,
}

impl InvalidationFeed {
    pub(crate) fn new(cache: &Arc<Cache>) -> Self {
        Self(Arc::clone(cache))
    }

    /// Others have written to the table of this name: to be told behind that.
    /// What is no table of the store's is passed over.
    pub fn invalidate(&self, table: &str) {
        self.0.others_wrote(table);
    }

    /// Writes to these tables are not reported until the result is
    /// dropped.
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
