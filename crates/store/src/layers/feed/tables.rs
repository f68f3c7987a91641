//! The internal tables of a feed, prepared.

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, Table};

use super::schema::{self, FEED_TABLES};
use crate::rows::registry::Registry;

/// The internal tables of a feed.
#[derive(Debug)]
pub(crate) struct FeedTables {
    pub(crate) commits: Arc<Table>,
    pub(crate) shapes: Arc<Table>,
    pub(crate) identity: Arc<Table>,
    pub(crate) cursors: Arc<Table>,
    pub(crate) dead_letters: Arc<Table>,
}

impl FeedTables {
    /// Makes the tables.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if a model has the name of one of them.
    pub(crate) fn new(registry: &Registry) -> Result<Self> {
        for name in FEED_TABLES {
            if registry.table(name).is_ok() {
                let message = format!("the table name `{name}` is reserved; rename yours");
                return Err(Error::new(ErrorKind::Conflict, message));
            }
        }
        Ok(Self {
            commits: Arc::new(Table::new(schema::commits())?),
            shapes: Arc::new(Table::new(schema::shapes())?),
            identity: Arc::new(Table::new(schema::identity())?),
            cursors: Arc::new(Table::new(schema::cursors())?),
            dead_letters: Arc::new(Table::new(schema::dead_letters())?),
        })
    }

    /// Returns all of them.
    pub(crate) fn all(&self) -> [&Arc<Table>; 5] {
        [&self.commits, &self.shapes, &self.identity, &self.cursors, &self.dead_letters]
    }
}
