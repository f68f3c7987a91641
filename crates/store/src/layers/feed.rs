//! The change feed of a store: the commits of its engine, in order.
//!
//! ```text
//!  engine -- committed --> hub (recent commits, wakers) <-- ChangeStream (verbs/changes.rs)
//!    |                      ^
//!    v                      | other processes' commits
//!  table of commits ---> keeper (a thread: reads, removes old commits)
//! ```
//!
//! | file | subject |
//! |---|---|
//! | `options.rs` | what is recorded, and for how long |
//! | `schema.rs` | the internal tables |
//! | `shapes.rs` | the tables that were recorded, with the fields that they had |
//! | `stored_commit.rs` | one commit, and its decoding |
//! | `hub.rs` | the recent commits, and the readers that wait |
//! | `cache_subscription.rs` | the cache of the store, if commits invalidate it |
//! | `tables.rs`, `commit_rows.rs` | the internal tables, prepared, and their rows |
//!
//! The builder opens a feed, and starts the keeper: a thread that reads commits of other processes
//! and removes old ones.

pub(crate) mod cache_subscription;
pub(crate) mod commit_rows;
pub(crate) mod hub;
pub(crate) mod options;
pub(crate) mod pair_record;
pub(crate) mod schema;
pub(crate) mod shapes;
pub(crate) mod stored_commit;
pub(crate) mod tables;

use std::sync::{Arc, OnceLock};

use marmota_model::Table;

use self::cache_subscription::CacheSubscription;
use self::hub::ChangeHub;
use self::shapes::Shapes;
use crate::contract::change::recorder::CommitReceiver as _;

/// The change feed of an open store.
#[derive(Debug)]
pub(crate) struct ChangeFeed {
    pub(crate) hub: Arc<ChangeHub>,
    pub(crate) shapes: Shapes,
    /// The table of recorded tables.
    pub(crate) shape_table: Arc<Table>,
    /// The table of commits.
    pub(crate) commits: Arc<Table>,
    /// The table with the identity of the feed.
    pub(crate) identity: Arc<Table>,
    /// The table of the cursors of hooks.
    pub(crate) cursors: Arc<Table>,
    /// The table of dead letters.
    pub(crate) dead_letters: Arc<Table>,
    /// The cache that is invalidated by the commits, if there is one.
    pub(crate) cache: OnceLock<CacheSubscription>,
    /// True if the changes of internal tables are recorded.
    pub(crate) has_internal: bool,
}

impl ChangeFeed {
    /// Invalidates a cache by the commits that are published from now on.
    pub(crate) fn subscribe(&self, cache: CacheSubscription) {
        // The builder does it once. The cache is a reader as long as the store is open.
        if self.cache.set(cache).is_ok() {
            self.hub.add_reader();
            self.hub.changed();
        }
    }
}
