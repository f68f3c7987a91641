//! What others have written to a database, as its engine tells it to a store's
//! cache ([`crate::engine::Engine::hear`]).

use std::sync::Arc;

use marmota_model::Table;

use crate::cache::{Cache, Writing};

/// Where an engine tells what others have written.
pub struct News(Arc<Cache>);

/// While this is there, a store keeps no rows of some tables, because what
/// others write to them is not heard; nor does it know those that it kept
/// before any more.
pub struct Unheard {
    cache: Arc<Cache>,
    writing: Writing,
}

impl News {
    pub(crate) fn new(cache: &Arc<Cache>) -> Self {
        Self(Arc::clone(cache))
    }

    /// Others have written to the table of this name: to be told behind that.
    /// What is no table of the store's is passed over.
    pub fn wrote(&self, table: &str) {
        self.0.others_wrote(table);
    }

    /// What is written to these tables goes unheard, until what this gives is
    /// dropped.
    #[must_use]
    pub fn unheard(&self, tables: &[Arc<Table>]) -> Unheard {
        let writing = self.0.announce_all(tables);
        Unheard { cache: Arc::clone(&self.0), writing }
    }
}

impl Drop for Unheard {
    fn drop(&mut self) {
        self.cache.ended(std::mem::take(&mut self.writing), true);
    }
}

impl std::fmt::Debug for News {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("News")
    }
}

impl std::fmt::Debug for Unheard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Unheard").field(&self.writing).finish()
    }
}
